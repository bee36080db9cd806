# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What becomes of an error: a sentence and an exit status if a user can mend it, a traceback if it is a bug."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any

from pyrogram.printable import printable

BAD_INPUT = 2
INTERRUPTED = 130
LONGEST_USAGE = 500  # characters of a message about options, which repeats them


class CommandError(ValueError):
    """Something that the user can mend; the message is one sentence."""


class Interrupted(Exception):
    """Ctrl-C, with a sentence on how to go on."""


# Set by --quiet, for the one command that runs in this context: run_guarded makes a context for each.
_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def be_quiet(wanted: bool) -> bool:
    """No notes and no progress for the rest of this command; the callback of the option --quiet."""
    _QUIET.set(wanted)
    return wanted


def is_quiet() -> bool:
    """Whether --quiet was given, or another process speaks for this one."""
    return _QUIET.get() or not _speaks()


def is_one_of_several() -> bool:
    """Whether torchrun, or the like, has started this process and others."""
    return os.environ.keys() >= {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} and os.environ["WORLD_SIZE"] != "1"


def _speaks() -> bool:
    """Of the processes of torchrun the first one does, for all."""
    return not is_one_of_several() or os.environ["RANK"] == "0"


def note(text: str) -> None:
    """A line on stderr that is no error; --quiet leaves it out."""
    if not is_quiet():
        _write(text)


def _write(text: str) -> None:
    """A line on stderr; control characters are written as escapes."""
    print(printable(text), file=sys.stderr)


def run_guarded(command: Callable[[], Any]) -> int:
    """Run a command and return its exit status.

    Bad input gives 2 and one sentence on stderr, Ctrl-C gives 130 and one sentence. Any other exception is
    a bug: it passes, with its traceback.
    """
    try:
        code = copy_context().run(command)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output (head, say) has had enough; keep the interpreter from flushing into the void.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Interrupted as stop:
        return _say(str(stop), INTERRUPTED)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except SystemExit as leave:  # typer, for help and for broken pipes
        code = leave.code
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        return _say(sentence, BAD_INPUT)
    if code == INTERRUPTED:  # newer typer turns KeyboardInterrupt into a status
        return _say("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _say(sentence: str, status: int) -> int:
    if not _speaks():
        return status
    line = " ".join(sentence.split())
    _write(f"pyrogram: {line}" + ("" if line.endswith((".", "?", "!")) else "."))
    return status


def _sentence(error: Exception) -> str | None:
    """What to tell the user; None if the error is none of theirs."""
    usage = getattr(error, "format_message", None)  # typer's usage errors; older and newer ones share no base class
    if usage is not None:
        context = getattr(error, "ctx", None)
        asked = context.command_path if context is not None else "pyrogram"
        told = str(usage()).rstrip(".").replace(": Value error, ", ": ")  # typer's word for it, and no user's
        return f"{printable(told, LONGEST_USAGE)}; see {asked} --help"
    if type(error).__name__ == "Abort":
        return "interrupted"
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}" if error.filename else reason
    if isinstance(error, (ValueError, NotImplementedError)) and str(error) and _is_ours(error.__traceback__):
        return in_words_of_options(str(error))
    return None


def _is_ours(trace: TracebackType | None) -> bool:
    """Whether pyrogram itself raised: a ValueError of torch or numpy is a bug."""
    module = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        trace = trace.tb_next
    return module.split(".")[0] in ("pyrogram", "reproductions")


def in_words_of_options(message: str) -> str:
    """A message of the library, which speaks of arguments, in words of the command line.

    What :func:`pyrogram.cli.io.corpora.read_corpus` raises speaks of options already, for it knows which there are.
    """
    message = re.sub(r"\s*\n\s*Trace Shapes:.*", "", message, flags=re.DOTALL)  # Pyro's, to what a model raises
    message = message.replace("pass resume=False", "give --no-resume, which begins anew")
    message = message.replace("start from weights without zeros", "give another --init or another --seed")
    return re.sub(r"\bof site 'words' ", "", message)
