# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The command ``pyrogram``. Commands import what they need when they run: ``--help`` needs no torch."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from pyrogram import __version__
from pyrogram.cli.commands.data import data
from pyrogram.cli.commands.draw import draw
from pyrogram.cli.commands.evaluate import evaluate
from pyrogram.cli.commands.induce import induce
from pyrogram.cli.commands.parse import parse
from pyrogram.cli.commands.prior import prior
from pyrogram.cli.commands.reproduce import absent, find_reproduce
from pyrogram.cli.commands.sample import sample
from pyrogram.cli.commands.train import train
from pyrogram.cli.io.errors import run_guarded

__all__ = ["app", "main"]


def _paragraphs(command: Callable[..., None]) -> str:
    """A docstring without line ends inside of paragraphs, which typer would keep."""
    return "\n\n".join(" ".join(part.split()) for part in (command.__doc__ or "").split("\n\n"))


app = typer.Typer(
    help="Grammars from sentences: learn dependency grammars, parse with them, and see how right they are.",
    epilog="First time here? Try: pyrogram induce --demo",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (induce, train, parse, evaluate, draw, sample, prior):
    app.command(help=_paragraphs(command))(command)
app.add_typer(data, name="data")
reproduce = find_reproduce()
app.command("reproduce", help=_paragraphs(reproduce), context_settings={"ignore_unknown_options": reproduce is absent})(
    reproduce
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pyrogram {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 2 for bad input, 130 for Ctrl-C.

    :param arguments: by default, those of the process.
    """
    if arguments is None:
        # At its end the interpreter would look for cycles among all that torch has imported, which takes half a second.
        atexit.register(gc.freeze)
    argv = None if arguments is None else list(arguments)
    return run_guarded(lambda: app(argv, prog_name="pyrogram", standalone_mode=False))
