# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is imported by what, and what is seen of the package, in a process that has imported nothing.

Its imports take seconds, so one process answers all questions, each before it does what later ones need.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_public_names import PUBLIC_PACKAGES

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import gc, importlib, json, pkgutil, sys

found = {}
import pyrogram
before = dir(pyrogram)

sys.modules["pyro"] = None  # an import of it fails
for name in sys.argv[1:]:
    room = importlib.import_module(f"pyrogram.{name}")
    for module in pkgutil.walk_packages(getattr(room, "__path__", ()), f"{room.__name__}."):
        importlib.import_module(module.name)
found["below"] = [name for name in sys.modules if name.startswith("pyrogram.")]
del sys.modules["pyro"]

import pyrogram.distributions, pyrogram.infer
found["compilers"] = [name for name in ("torch._dynamo", "sympy") if name in sys.modules]

for name in pyrogram.__all__:
    getattr(pyrogram, name)
found["shown"] = [before, dir(pyrogram)]

from pyrogram.cli import main
from pyrogram.cli.runs.forks import import_all
gc.disable()  # nothing is freed meanwhile, so that counts are exact
objects = len(gc.get_objects())
import_all()
frozen = gc.get_freeze_count()
import_all()
found["frozen"] = objects < frozen == gc.get_freeze_count(), len(gc.get_objects()) < objects, gc.isenabled()
print(json.dumps(found))
"""


#: What stands below Pyro, and imports nothing above.
BELOW = (
    *("bias", "blocks", "checks", "draws", "event_map", "folding", "logistic_normal", "metrics", "operators"),
    *("printable", "random_state", "recursion", "restaurants", "runtime", "sentences", "sweeps", "topics", "trees"),
)


@pytest.fixture(scope="module")
def found() -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *BELOW], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_needs_no_pyro(found: Any) -> None:
    """Nor any layer above it."""
    assert "pyrogram.restaurants.lexical.scores" in found["below"]
    assert {name.split(".")[1] for name in found["below"]} == set(BELOW)


def test_the_compiler_of_torch_is_not_imported(found: Any) -> None:
    """Seconds of the start of every program."""
    assert found["compilers"] == []


def test_pyrogram_shows_its_public_packages_and_names_alone(found: Any) -> None:
    """Before and after everything public was used."""
    before, after = found["shown"]
    assert before == after
    classes = {"CFG", "DMV", "HMM", "Bias", "Block", "Corpus", "Grammar", "LatentAnnotations"}
    assert {name for name in before if not name.startswith("_")} == PUBLIC_PACKAGES | classes


def test_what_is_imported_is_never_looked_through_for_cycles(found: Any) -> None:
    assert found["frozen"] == [True, True, False]
