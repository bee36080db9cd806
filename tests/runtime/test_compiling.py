# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a cached kernel depends on, and what happens where there is no cache, or an interrupt."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pyrogram
from pyrogram.runtime.compiling import imported, sources

PACKAGE = Path(pyrogram.__file__).parent


def names(path: str) -> set[str]:
    return {source.name for source in sources(PACKAGE / path)}


def test_a_kernel_depends_on_what_its_file_imports_directly_or_not():
    own = names("distributions/spanning/lanes.py")
    assert {"lanes.py", "bounds.py"} <= own
    assert {"annotations_rules.py", "expansions.py"}.isdisjoint(own)


def test_absolute_imports_count_as_well():
    own = names("logistic_normal/batches.py")  # runtime/lanes.py by its full name, the others relative to the folder
    assert {"newton.py", "linear_algebra.py", "direction.py", "lanes.py"} <= own


def parsed(path: Path) -> set[Path]:
    """The files of the package that a file imports, by Python's own parser."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".") if node.module else []
            base = path.parents[node.level - 1].joinpath(*module) if node.level else PACKAGE.parent.joinpath(*module)
            found |= {base.with_suffix(".py"), *(base / f"{name.name}.py" for name in node.names)}
    return {file for file in found if file.is_file() and file.is_relative_to(PACKAGE)}


def test_no_import_is_overlooked():
    files = [path for path in PACKAGE.rglob("*.py") if "import kernel" in path.read_text()]
    assert len(files) > 10
    for path in set().union(*(sources(path) for path in files)):
        assert parsed(path) <= set(sources(path)), path


def test_every_form_of_import_is_found():
    path = PACKAGE / "grammars/not_there.py"
    text = b"""
from . import cfg, expansions as drawn
from ..runtime.lanes import (
    a,
    b,
)
from pyrogram import (trees)
def later():
    from ..grammar import Block
"""
    names = {"cfg", "expansions", "lanes", "trees", "grammar"}
    assert {found.stem for found in imported(path, text)} == names


KERNELS = """
from pyrogram.runtime.compiling import kernel

@kernel
def one(x):
    return x + 1.0

@kernel
def two(x):
    return x + 2.0
"""


def python(code: str, folder: Path, **environment: str) -> str:
    if not (folder / "own_kernels.py").exists():  # a file that is written again is another one
        (folder / "own_kernels.py").write_text(KERNELS)
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"), **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_code_that_cannot_be_kept_is_warned_of_once(tmp_path: Path):
    """numba knows no folder for functions that come from no file."""
    code = f"""
import warnings
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    exec(compile({KERNELS!r}, "<nowhere>", "exec"))
    print(len(found))
    print(one(1.0), two(1.0), one(2))
    found = [w for w in found if "compiled code cannot be kept" in str(w.message)]
    print(len(found), found[0].category.__name__)
"""
    assert python(code, tmp_path).split() == ["0", "2.0", "3.0", "3.0", "1", "RuntimeWarning"]


def test_a_folder_that_can_be_written_no_more_costs_no_run(tmp_path: Path):
    code = """
import warnings
import own_kernels
def full(*args):
    raise OSError(28, "No space left on device")
for k in (own_kernels.one, own_kernels.two):
    k._cache._cache_file.save = full
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    print(own_kernels.one(1.0), own_kernels.two(1.0), sum("cannot be kept" in str(w.message) for w in found))
"""
    assert python(code, tmp_path).split() == ["2.0", "3.0", "1"]


def test_a_broken_file_is_compiled_anew(tmp_path: Path):
    run = "import own_kernels; print(own_kernels.one(1.0), sum(own_kernels.one.stats.cache_hits.values()))"
    assert python(run, tmp_path).split() == ["2.0", "0"]
    files = list((tmp_path / "cache").rglob("*.nbc"))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:100])
    assert python(run, tmp_path).split() == ["2.0", "0"]


def test_code_for_a_class_that_has_moved_is_compiled_anew(tmp_path: Path):
    run = """
import own_kernels, {module}
point = {module}.Point(1.0)
print(own_kernels.one(point[0]), own_kernels.first(point), sum(own_kernels.first.stats.cache_hits.values()))
"""
    (tmp_path / "own_kernels.py").write_text(KERNELS + "@kernel\ndef first(point):\n    return point.x\n")
    for module, hits in (("here", "0"), ("there", "0"), ("there", "1")):
        (tmp_path / "here.py").unlink(missing_ok=True)
        code = "from typing import NamedTuple\nclass Point(NamedTuple):\n    x: float\n"
        if not (tmp_path / f"{module}.py").exists():
            (tmp_path / f"{module}.py").write_text(code)
        assert python(run.format(module=module), tmp_path).split() == ["2.0", "1.0", hits]


@pytest.mark.parametrize("cached", [pytest.param(True, marks=pytest.mark.slow), False])
def test_an_interrupt_while_code_is_loaded_or_compiled_is_not_lost(tmp_path: Path, cached: bool):
    """LLVM calls back into Python for compiled code; what is raised there does not come out."""
    if cached:
        python("import own_kernels; own_kernels.one(1.0)", tmp_path)
    code = """
import os, signal, sys, own_kernels
from numba.core.codegen import JITCodeLibrary
asked = 0
def enabled(library):
    global asked
    if sys._getframe(1).f_code.co_name == "_object_getbuffer_hook" and not asked:
        asked += 1
        os.kill(os.getpid(), signal.SIGINT)
    return library.__dict__.get("_object_caching_enabled", False)
def enable(library, value):
    library.__dict__["_object_caching_enabled"] = value
JITCodeLibrary._object_caching_enabled = property(enabled, enable)
handler = signal.getsignal(signal.SIGINT)
try:
    print(own_kernels.one(1.0), "went on")
except KeyboardInterrupt:
    print("stopped", signal.getsignal(signal.SIGINT) is handler)
print(own_kernels.one(1.0), asked)
"""
    assert python(code, tmp_path).split() == ["stopped", "True", "2.0", "1"]
