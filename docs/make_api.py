# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Write docs/api.md: every public name of every public package, with its signature and the first line of its docstring.

    python docs/make_api.py            # or: make docs

Beside it, docs/api/ has a page for each public package, from which Sphinx makes the whole docstrings of the site.

A name is public if the ``__all__`` of a public package has it. Types are left out of signatures; the docstrings say
them in words.
"""

import importlib
import inspect
import re
import sys
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

PAGE = Path(__file__).with_name("api.md")
PAGES = Path(__file__).with_name("api")
HEAD = """# Public names

Every public name of every public package, with its signature and the first sentence of its docstring. The rest is what
`help(name)` says and what the site has on the page of the package: shapes, units, errors, references. A name that is
not on this page may change without notice. `make docs` writes the page from the docstrings.

"""
MENU = """```{toctree}
:hidden:
:glob:

api/*
```
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
        parts.append(f"## {package}\n\n{first_sentence(module.__doc__)} [All of it](api/{package}.rst).\n\n")
        parts += [entry(module, name) for name in module.__all__ if package != "pyrogram" or _has_no_section(name)]
        parts.append("\n")
    return "".join(parts) + MENU


def _has_no_section(name: str) -> bool:
    """Whether a name of pyrogram itself is no package, for packages have sections."""
    import pyrogram

    return not isinstance(getattr(pyrogram, name), ModuleType)


@cache
def homes() -> dict[tuple[str, int], str]:
    """The package that has the whole docstring of each public name and value: the one that defines it, or the first."""
    found: dict[tuple[str, int], list[str]] = {}
    for package in public_packages()[1:] + ["pyrogram"]:
        module = importlib.import_module(package)
        for name in module.__all__:
            found.setdefault((name, id(getattr(module, name))), []).append(package)
    return {key: next(filter(partial(_defines, key[0]), packages), packages[0]) for key, packages in found.items()}


def _defines(name: str, package: str) -> bool:
    pattern = rf"^(def {name}\(|class {name}\b|{name}\b[^=\n]* = )"
    return bool(re.search(pattern, inspect.getsource(importlib.import_module(package)), re.MULTILINE))


def own_methods(value: type) -> tuple[list[str], dict[type, list[str]]]:
    """Methods and properties that a page shows at a class, and by public base class those that it shows there."""
    public = [kind for kind in value.__mro__[1:] if (kind.__name__, id(kind)) in homes()]
    own: list[str] = []
    inherited: dict[type, list[str]] = {}
    for name in methods(value):
        member = inspect.getattr_static(value, name)
        above = [kind for kind in public if inspect.getattr_static(kind, name, None) is member]
        inherited.setdefault(above[-1], []).append(name) if above else own.append(name)
    return own, inherited


def reference(package: str) -> str:
    """The page of a package in reStructuredText: directives by which Sphinx takes the docstrings from the code."""
    module = importlib.import_module(package)
    parts = [f"{package}\n{'=' * len(package)}\n\n.. automodule:: {package}\n"]
    for name in module.__all__:
        value = getattr(module, name)
        home = homes()[name, id(value)]
        if isinstance(value, ModuleType):
            parts.append(f"* :mod:`{value.__name__}`\n")
        elif home != package:
            kind, role = ("class", "class") if inspect.isclass(value) else ("function", "func")
            if not callable(value) or not hasattr(value, "__name__"):
                kind, role = "data", "data"
            entry = f".. index:: single: {name} (in {package})\n\n.. py:{kind}:: {name}\n   :module: {package}\n"
            parts.append(f"{entry}   :no-index:\n\n   The same as :{role}:`{home}.{name}`.\n")
        elif inspect.isclass(value):
            own, inherited = own_methods(value)
            parts.append(f".. autoclass:: {package}.{name}\n")
            parts[-1] += f"   :members: {', '.join(own)}\n" if own else ""
            for above, names in inherited.items():
                place = f"{homes()[above.__name__, id(above)]}.{above.__name__}"
                links = ", ".join(f":py:obj:`{one} <{place}.{one}>`" for one in names)
                parts[-1] += f"\n   Inherited from :class:`~{place}`: {links}.\n"
        elif callable(value) and hasattr(value, "__code__"):
            parts.append(f".. autofunction:: {package}.{name}\n")
        else:
            parts.append(f".. py:data:: {name}\n   :module: {package}\n\n   {constant(module, name, value)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PAGES.mkdir(exist_ok=True)
    for old in PAGES.glob("*.rst"):
        old.unlink()
    for name in public_packages():
        (PAGES / f"{name}.rst").write_text(reference(name), encoding="utf-8")
