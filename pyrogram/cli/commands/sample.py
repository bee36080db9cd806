# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram sample``: sentences that the grammar of a run makes up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pyrogram.cli.commands.choices import SampleFormat
from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.runs.forks import import_all
from pyrogram.printable import plural

MOST_WORDS = 10**8  # of all sentences, were each as long as it may be


def sample(
    run: Annotated[Path, typer.Argument(help="Folder that induce --out made.", show_default=False)],
    num: Annotated[int, typer.Option(min=1, help="How many sentences.")] = 10,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="The same seed gives the same sentences.")] = 0,
    max_length: Annotated[int, typer.Option(min=1, help="Longer sentences are drawn again.")] = 20,
    format: Annotated[
        SampleFormat, typer.Option(help="brackets: each word with its dependents in [ ].")
    ] = SampleFormat.conllu,
) -> None:
    """Draw sequences of tags with their trees from a learnt grammar.

    As brackets, "[[DT] NN] VBZ" is one sentence to a line: a bracket holds one bare tag, its head, and the
    brackets of the dependents. The trees of a pcfg are printed with their labels, one to a line.
    """
    if num * max_length > MOST_WORDS:
        raise CommandError(
            f"--num {plural(num, 'sentence')} of up to --max-length {plural(max_length, 'word')} do "
            f"not fit into memory; their product may "
            f"be {MOST_WORDS:,}"
        )
    import_all()
    from pyrogram.cli.io.output import write_text
    from pyrogram.cli.runs.opening import open_run
    from pyrogram.cli.runs.starts import double_precision
    from pyrogram.random_state import random_state_kept

    loaded = open_run(run)
    with double_precision(), random_state_kept(seed):
        write_text(loaded.sample(num, max_length, format is SampleFormat.brackets))
