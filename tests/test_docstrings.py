# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The examples of docstrings run, and what they refer to exists."""

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch

import pyrogram

ROOT = Path(__file__).resolve().parents[1]
FILES = [path for folder in ("pyrogram", "models", "guides") for path in sorted((ROOT / folder).rglob("*.py"))]
ROLE = re.compile(r":(?:class|func|meth|data|mod|attr|exc):`(?:[^`<]*<)?([~!.\w]+)>?`")


def name_of(path: Path) -> str:
    """The name by which a module is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join((*(("pyrogram",) if parts[0] != "pyrogram" else ()), *parts)).removesuffix(".__init__")


SOURCES = {name_of(path): path.read_text(encoding="utf-8") for path in FILES}
WITH_EXAMPLES = [name for name, text in SOURCES.items() if ">>> " in text]
WITH_ROLES = [name for name, text in SOURCES.items() if ROLE.search(text)]
#: Public names that must show how they are used.
SHOWN = """pyrogram distributions.Sentence grammars.DMV grammars.CFG grammars.HMM distributions.dirichlet_prior
distributions.logistic_normal distributions.ProjectiveDependencyTree infer.EM infer.VariationalEM infer.CollapsedVB
infer.TreeHastings data.Corpus""".split()


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name: str) -> None:
    """With `pyro`, `torch` and `pyrogram` imported, in single precision, which is torch's own."""
    torch.set_default_dtype(torch.float32)
    module = importlib.import_module(name)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(verbose=False)
    tests = [t for t in finder.find(module, name, globs=dict(vars(module))) if t.examples]
    assert tests
    for test in tests:
        pyro.clear_param_store()
        pyro.set_rng_seed(0)
        test.globs.update(pyro=pyro, torch=torch, pyrogram=pyrogram)
        lines: list[str] = []
        runner.run(test, out=lines.append)
        assert not lines, "".join(lines)


@pytest.mark.parametrize("name", SHOWN)
def test_what_users_meet_first_has_an_example(name: str) -> None:
    value: Any = pyrogram
    for part in name.split(".") if name != "pyrogram" else ():
        value = getattr(value, part)
    assert ">>> " in (value.__doc__ or "")


def docstrings(tree: ast.Module) -> Iterator[tuple[list[str], str]]:
    """Each docstring, after the names of the classes that it stands in; comments ``#:`` are not among them."""

    def within(node: Any, classes: list[str]) -> Iterator[tuple[list[str], str]]:
        if text := ast.get_docstring(node):
            yield classes, text
        for child in ast.walk(node) if not isinstance(node, ast.Module | ast.ClassDef) else node.body:
            if child is not node and isinstance(child, ast.ClassDef):
                yield from within(child, [*classes, child.name])
            elif child is not node and isinstance(child, ast.FunctionDef):
                yield from within(child, classes)

    yield from within(tree, [])


def exists(target: str, module: str, classes: list[str]) -> bool:
    """Whether a role's target is found: in its class, its module, the package, or, after a dot, anywhere at all."""
    target = target.lstrip("~!")
    if target.startswith("."):
        target = target[1:]
        tails = (name for name in SOURCES if name.endswith(f".{target}"))
        return any(True for _ in tails) or any(found(name, target.split(".")) for name in SOURCES)
    places = [[module, *classes], [module], [module.rpartition(".")[0]], []]
    parts = target.split(".")
    return any(found(place[0], [*place[1:], *parts]) for place in places if place and place[0]) or absolute(parts)


def absolute(parts: list[str]) -> bool:
    for cut in range(len(parts), 0, -1):
        try:
            importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        return found(".".join(parts[:cut]), parts[cut:])
    return False


def found(module: str, parts: list[str]) -> bool:
    value: Any = importlib.import_module(module)
    for i, part in enumerate(parts):
        fields = getattr(value, "__annotations__", {}) if isinstance(value, type) else {}
        if not hasattr(value, part):
            home = SOURCES.get(getattr(value, "__module__", module), "")
            return i == len(parts) - 1 and (part in fields or f"self.{part}" in home)
        value = getattr(value, part)
    return True


@pytest.mark.parametrize("module", WITH_ROLES)
def test_references_point_somewhere(module: str) -> None:
    wrong = [
        target
        for classes, text in docstrings(ast.parse(SOURCES[module]))
        for target in ROLE.findall(text)
        if not exists(target, module, classes)
    ]
    assert not wrong, f"{module} refers to {wrong}"


def test_a_reference_to_nothing_is_found() -> None:
    assert exists("pyrogram.infer.EM.run", "pyrogram.data", []) and exists("EM.step", "pyrogram.infer.loops.em", [])
    assert not exists("pyrogram.infer.NoSuch", "pyrogram.data", []) and not exists(".no_such", "pyrogram.data", [])
    assert not exists("EM.no_such", "pyrogram.infer.loops.em", [])
