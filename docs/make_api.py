# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Write docs/api.md: every public name of every public package, with its signature and the first line of its docstring.

    python docs/make_api.py            # or: make docs

A name is public if the ``__all__`` of a public package has it. Types are left out of signatures; the docstrings say
them in words.
"""

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

PAGE = Path(__file__).with_name("api.md")
HEAD = """# Public names

Every public name of every public package, with its signature and the first sentence of its docstring; `help(name)` has
the rest: shapes, units, errors, references. A name that is not on this page may change without notice. `make docs`
writes the page from the docstrings.

"""
MATHS = re.compile(r":math:`([^`]+)`")
ROLE = re.compile(r":(?:class|func|meth|data|mod|attr):`[~.]*([^`]+)`")


def public_packages() -> list[str]:
    """The names of modules whose ``__all__`` is public."""
    import pyrogram

    names = [f"pyrogram.{name}" for name in pyrogram.__all__ if isinstance(getattr(pyrogram, name), ModuleType)]
    for name in list(names):
        module = importlib.import_module(name)
        names += [f"{name}.{inner}" for inner in module.__all__ if isinstance(getattr(module, inner), ModuleType)]
    return ["pyrogram", *sorted(names)]


def first_sentence(docstring: str | None) -> str:
    """The first sentence of a docstring, on one line, without roles of Sphinx."""
    paragraph = " ".join((inspect.cleandoc(docstring) if docstring else "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=[^.]\.)\s+(?=[A-Z(*`])", paragraph)[0].rstrip(":")
    sentence = MATHS.sub(lambda maths: re.sub(r"\\mathrm|[\\{}]", "", maths[1].replace(r"\mid", "|")), sentence)
    return ROLE.sub(lambda role: f"`{role[1].rsplit('.')[-1]}`", sentence).replace("``", "`")


def signature(name: str, value: Any) -> str:
    """A call, without types; a class is called as its constructor, if that is written in this library."""
    if inspect.isclass(value):
        maker = next(kind for kind in value.__mro__ if "__init__" in vars(kind))
        if maker.__module__.partition(".")[0] != "pyrogram":
            return name
    found = inspect.signature(value)
    parameters = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else _Shown(p.default))
        for p in found.parameters.values()
    ]
    return f"{name}{found.replace(parameters=parameters, return_annotation=found.empty)}"


class _Shown:
    """A default as it is printed: a short value, or dots."""

    def __init__(self, value: Any):
        self.text = repr(value)
        if len(self.text) > 30 or self.text[0] == "<":
            self.text = "..."

    def __repr__(self) -> str:
        return self.text


def methods(value: type) -> list[str]:
    """Public methods and properties that are written in this library, own ones first."""
    names: dict[str, None] = {}
    for kind in value.__mro__:
        if kind.__module__.partition(".")[0] == "pyrogram":
            names |= {name: None for name, member in vars(kind).items() if name[0] != "_" and _is_member(member)}
    return list(names)


def _is_member(member: Any) -> bool:
    kinds = (property, classmethod, staticmethod)
    return inspect.isfunction(member) or isinstance(member, kinds) or type(member).__name__.endswith("property")


def entry(home: ModuleType, name: str) -> str:
    """The lines of one name."""
    value = getattr(home, name)
    if isinstance(value, ModuleType):
        return f"- **`{name}`**: a module, [below](#{value.__name__.replace('.', '')}).\n"
    if inspect.isclass(value):
        inner = methods(value)
        more = "  Methods and properties: " + ", ".join(f"`{method}`" for method in inner) + ".\n" if inner else ""
        return f"- **`{signature(name, value)}`**\n  {first_sentence(value.__doc__)}\n{more}"
    if callable(value) and hasattr(value, "__code__"):
        return f"- **`{signature(name, value)}`**\n  {first_sentence(value.__doc__)}\n"
    return f"- **`{name}`**: {constant(home, name, value)}\n"


def constant(home: ModuleType, name: str, value: Any) -> str:
    """What a name that is no class and no function stands for: the comment ``#:`` above it, or its values."""
    for module in (home, *(m for m in _other_modules(home) if vars(m).get(name) is value)):
        lines = inspect.getsource(module).splitlines()
        for i, line in enumerate(lines):
            if re.match(rf"{name}\b.* = ", line) or re.match(rf"{name} = ", line):
                said = []
                while i > 0 and lines[i - 1].startswith("#:"):
                    i -= 1
                    said.insert(0, lines[i].removeprefix("#:").strip())
                if said:
                    return first_sentence(" ".join(said))
    if choices := get_args(value):
        return "one of " + ", ".join(f"`{choice!r}`" for choice in choices) + "."
    raise ValueError(f"{home.__name__}.{name} needs a comment '#: ...' above it, which says what it is")


def _other_modules(home: ModuleType) -> list[ModuleType]:
    return [m for key, m in sorted(sys.modules.items()) if key.startswith("pyrogram.") and m is not home]


def page() -> str:
    """The whole text."""
    parts = [HEAD]
    for package in public_packages():
        module = importlib.import_module(package)
        parts.append(f"## {package}\n\n{first_sentence(module.__doc__)}\n\n")
        parts += [entry(module, name) for name in module.__all__ if package != "pyrogram" or _has_no_section(name)]
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _has_no_section(name: str) -> bool:
    """Whether a name of pyrogram itself is no package, for packages have sections."""
    import pyrogram

    return not isinstance(getattr(pyrogram, name), ModuleType)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
