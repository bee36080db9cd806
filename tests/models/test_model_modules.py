# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""An import of a module gives that module, in every package: no function of its name stands in front of it."""

import importlib
import pkgutil
from types import ModuleType

import pytest

import pyrogram


def packages(name: str) -> list[str]:
    """A package and all packages in it."""
    path = importlib.import_module(name).__path__
    inner = [f"{name}.{m.name}" for m in pkgutil.iter_modules(path) if m.ispkg]
    return [name, *(found for package in inner for found in packages(package))]


PACKAGES = sorted({*packages("pyrogram"), *packages("pyrogram.models"), *packages("pyrogram.guides")})


def test_all_packages_are_seen() -> None:
    assert {"pyrogram.distributions", "pyrogram.infer.loops", "pyrogram.models", "pyrogram.guides"} <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_are_not_shadowed(package: str) -> None:
    parent = importlib.import_module(package)
    shadowed = {
        m.name: getattr(parent, m.name)
        for m in pkgutil.iter_modules(parent.__path__)
        if importlib.import_module(f"{package}.{m.name}") is not getattr(parent, m.name)
    }
    assert not shadowed


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_not_modules_by_accident(package: str) -> None:
    """What a package collects under a public name is what it was called where it was defined, never a module."""
    parent = importlib.import_module(package)
    if parent is not pyrogram:
        names = getattr(parent, "__all__", ())
        assert not [name for name in names if isinstance(getattr(parent, name), ModuleType)]
