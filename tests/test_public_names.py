# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What packages show, what an import of a module gives, and that docs/api.md has every public name."""

import importlib
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pyrogram

ROOT = Path(__file__).resolve().parents[1]
PUBLIC_PACKAGES = {
    "data",
    "distributions",
    "grammars",
    "guides",
    "infer",
    "knowledge",
    "metrics",
    "models",
    "priors",
    "recursion",
    "testing",
    "viz",
}


def packages(name: str) -> list[str]:
    """A package and all packages in it."""
    path = importlib.import_module(name).__path__
    inner = [f"{name}.{m.name}" for m in pkgutil.iter_modules(path) if m.ispkg]
    return [name, *(found for package in inner for found in packages(package))]


PACKAGES = sorted({*packages("pyrogram"), *packages("pyrogram.models"), *packages("pyrogram.guides")})


def test_all_packages_are_seen() -> None:
    assert {"pyrogram.distributions", "pyrogram.infer.loops", "pyrogram.models", "pyrogram.guides"} <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_import_of_a_module_gives_that_module(package: str) -> None:
    """``import package.module as m`` takes the attribute of the package, so no function may stand there."""
    parent = importlib.import_module(package)
    hidden = {
        m.name: getattr(parent, m.name)
        for m in pkgutil.iter_modules(parent.__path__)
        if importlib.import_module(f"{package}.{m.name}") is not getattr(parent, m.name)
    }
    assert not hidden


@pytest.mark.parametrize("package", sorted(PUBLIC_PACKAGES))
def test_packages_show_their_public_names_alone(package: str) -> None:
    module = importlib.import_module(f"pyrogram.{package}")
    assert dir(module) == sorted(module.__all__) and len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_modules_beside_the_packages_say_what_others_may_import() -> None:
    for found in pkgutil.iter_modules(pyrogram.__path__):
        module = importlib.import_module(f"pyrogram.{found.name}")
        if not found.ispkg and found.name != "__main__":
            assert getattr(module, "__all__", None), f"{found.name} has no __all__"


def make_api() -> Any:
    spec = importlib.util.spec_from_file_location("make_api", ROOT / "docs" / "make_api.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_public_names_is_current() -> None:
    maker = make_api()
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == maker.page(), "run make docs"


def test_the_page_has_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    assert {f"pyrogram.{name}" for name in PUBLIC_PACKAGES} <= set(sections)
    for package, section in sections.items():
        module = importlib.import_module(package)
        names = [n for n in module.__all__ if package != "pyrogram" or not isinstance(getattr(module, n), ModuleType)]
        missing = [n for n in names if f"- **`{n}`**" not in section and f"- **`{n}(" not in section]
        assert not missing, f"{package} in docs/api.md lacks {missing}"
        assert ")`**\n  \n" not in section, f"a name of {package} has no docstring"


def test_the_pages_of_the_packages_are_current() -> None:
    """From them Sphinx makes the whole docstrings: each name has a directive, or says what it is the same as."""
    maker = make_api()
    found = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.rst")}
    assert found == {package: maker.reference(package) for package in maker.public_packages()}, "run make docs"
    for package, text in found.items():
        module = importlib.import_module(package)
        for name in module.__all__:
            if isinstance(getattr(module, name), ModuleType):
                assert f"* :mod:`{package}.{name}`" in text
                continue
            whole = re.search(rf"^\.\. auto(class|function):: {package}\.{name}$", text, re.MULTILINE)
            entry = re.search(rf"^\.\. py:\w+:: {name}\n( +:.*\n)+\n +\S", text, re.MULTILINE)
            assert (whole is None) != (entry is None), f"{package}.{name} needs one entry"


def test_every_public_method_has_a_docstring() -> None:
    maker = make_api()
    missing = [
        f"{package}.{name}.{method}"
        for (name, _), package in maker.homes().items()
        if isinstance(value := getattr(importlib.import_module(package), name), type)
        for method in maker.own_methods(value)[0]
        if not any(inspect.getdoc(vars(kind)[method]) for kind in value.__mro__ if method in vars(kind))
    ]
    assert not missing


def test_make_docs_writes_the_page() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\ndocs: $(READY)\n\t$(BIN)/python docs/make_api.py\n\t$(BIN)/python docs/make_matrix.py\n" in makefile


def test_a_public_class_has_its_name_alone() -> None:
    """One name for one thing; a reference in a docstring, too, would not know which is meant."""
    owners: dict[str, set[type]] = {}
    for package in sorted(PUBLIC_PACKAGES):
        module = importlib.import_module(f"pyrogram.{package}")
        for name in module.__all__:
            if inspect.isclass(value := getattr(module, name)):
                owners.setdefault(name, set()).add(value)
    assert not {name: classes for name, classes in owners.items() if len(classes) > 1}
