# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""An extension of Sphinx: a reference in a docstring, by whichever name the code has, leads to the public name.

The name in a docstring is found as Python would find it in the module that has the docstring. What has no public name
is shown without a link, and so is what other libraries have. What is not there at all is left to Sphinx, which
reports it.
"""

import builtins
import contextlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from docutils import nodes
from make_api import homes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode


def resolve(app: Sphinx, env: BuildEnvironment, node: nodes.Element, shown: nodes.Element) -> nodes.Element | None:
    """The link to the public name of a target, its text alone, or None where there is no such thing."""
    if node.get("refdomain") != "py":
        return None
    if not re.fullmatch(r"[.\w]+", node["reftarget"]) or node["reftarget"].isdigit():
        return shown  # a value of a Literal
    for value, owner, name in meant(node):
        for full in public_names(value, owner, name):
            found = env.domains["py"].objects.get(full)
            if found is not None:
                return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, [shown], full)
        return shown
    return None


def meant(node: nodes.Element) -> Iterator[tuple[Any, Any, str]]:
    """What the target may be: a value, the class or module that has it, and its name there."""
    parts = node["reftarget"].lstrip(".").split(".")
    yield from elsewhere(parts)
    module, kind = node.get("py:module"), node.get("py:class")
    starts: list[Any] = []
    if module:
        home = importlib.import_module(module)
        own = getattr(home, kind, None) if kind else None
        defined = sys.modules.get(getattr(own, "__module__", module), home)
        starts += [own, home, defined]
    starts += [loaded for name, loaded in sorted(sys.modules.items()) if name.partition(".")[0] == "pyrogram"]
    for start in starts:
        if start is not None:
            yield from walk(start, parts)


def elsewhere(parts: list[str]) -> Iterator[tuple[Any, Any, str]]:
    """The same for an absolute name, and for those of Python itself."""
    yield from walk(builtins, parts)
    for cut in range(len(parts), 0, -1):
        with contextlib.suppress(ImportError):
            yield from walk(importlib.import_module(".".join(parts[:cut])), parts[cut:])
            return


def walk(start: Any, parts: list[str]) -> Iterator[tuple[Any, Any, str]]:
    """The value at the end of a path of attributes, with its owner and its name there; nothing where the path ends."""
    value, owner = start, start
    for i, part in enumerate(parts):
        owner = value
        fields = getattr(owner, "__annotations__", {}) if inspect.isclass(owner) else {}
        if not hasattr(owner, part):
            if i == len(parts) - 1 and inspect.isclass(owner) and (part in fields or f"self.{part}" in source(owner)):
                yield None, owner, part
            return
        value = inspect.getattr_static(owner, part) if inspect.isclass(owner) else getattr(owner, part)
    yield value, owner, parts[-1] if parts else ""


@cache
def source(kind: type) -> str:
    """The code of a class and of all that it is made from."""
    return "".join(inspect.getsource(base) for base in kind.__mro__ if base.__module__.startswith("pyrogram"))


def public_names(value: Any, owner: Any, name: str) -> Iterator[str]:
    """The names under which the site may have a value: its own, or that of a public class that has it as a member."""
    if inspect.ismodule(value):
        yield value.__name__
    if (name, id(value)) in homes():
        yield f"{homes()[name, id(value)]}.{name}"
    for kind in reversed(getattr(owner, "__mro__", ())):
        home = homes().get((kind.__name__, id(kind)))
        if home is not None and (name in vars(kind)):
            yield f"{home}.{kind.__name__}.{name}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
