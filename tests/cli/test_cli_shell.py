# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The command as a shell sees it: by ``python -m``, and completed."""

import os
import subprocess
import sys

import pytest

from pyrogram import __version__


def shell(*arguments, **environment):
    command = [sys.executable, "-m", "pyrogram", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})


def test_python_m():
    done = shell("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"pyrogram {__version__}\n", "")
    done = shell("sample", "--no-such-option")  # nothing of torch is needed to see that
    assert done.returncode == 2 and done.stderr.startswith("pyrogram: ") and "pyrogram sample --help" in done.stderr


def test_what_is_left_out_is_said(refused):
    assert "pyrogram parse --help" in refused("parse")


@pytest.mark.parametrize(
    "typed, expected", [("pyrogram ind", "induce"), ("pyrogram induce --jo", "--jobs"), ("pyrogram data d", "demo")]
)
def test_completion(typed, expected):
    last = str(len(typed.split()) - 1)
    done = shell(_PYROGRAM_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=last)
    assert done.stdout.split() == [expected]


def test_completion_can_be_installed():
    done = shell("--help")
    assert "--install-completion" in done.stdout and "--show-completion" in done.stdout
