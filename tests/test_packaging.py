# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is installed, under which names, and which module may import which."""

import ast
import functools
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parents[1]

# Each layer, and all that it may import (docs/architecture.md).
LOWEST = "atomic", "blocks", "folding", "operators", "random_state", "recursion", "trees"
WORDS = {"choices", "printable"}  # of arguments and messages, for every layer but the language of recursions
BELOW: dict[str, set[str]] = {name: set() for name in (*LOWEST, *WORDS)}
BELOW["runtime"] = {"recursion"}
BELOW["checks"] = {"operators", "recursion"}
BELOW["draws"] = {"checks", "runtime"}
BELOW["event_map"] = {"blocks"}
BELOW["bias"] = {"blocks"}
BELOW["metrics"] = {"folding"}
BELOW["logistic_normal"] = BELOW["restaurants"] = BELOW["topics"] = {"checks", "runtime", "trees"}
BELOW["sentences"] = {"bias", "blocks", "checks", "event_map"}
BELOW["sweeps"] = {"blocks", "checks", "event_map", "random_state", "recursion", "sentences"}
BELOW["grammar"] = BELOW["sweeps"] | {"bias", "draws", "operators", "sweeps"}
BELOW["distributions"] = BELOW["grammar"] | {"grammar", "restaurants", "runtime", "trees"}
BELOW["priors"] = BELOW["distributions"] | {"distributions"}
BELOW["grammars"] = BELOW["distributions"] | {"distributions", "folding"}
BELOW["tree_statistics"] = BELOW["distributions"] | {"distributions"}
BELOW["infer"] = BELOW["grammars"] | {"atomic", "grammars", "logistic_normal", "metrics", "topics", "tree_statistics"}
BELOW["models"] = BELOW["guides"] = (BELOW["infer"] | {"infer", "priors"}) - {"runtime"}
BELOW["data"] = {"atomic", "folding", "recursion", "trees"}
BELOW["viz"] = {"atomic", "folding", "recursion", "restaurants"}
BELOW["knowledge"] = BELOW["models"] | {"models", "data", "runtime"}
BELOW["testing"] = BELOW["models"]
BELOW["cli"] = set(BELOW) | {"pyrogram"}
BELOW["__main__"] = {"cli"}
BELOW["reproductions"] = set(BELOW) | {"pyrogram"}

# The folders of a layer, the lowest first: a module imports from its own folder and from lower rows. "" stands for
# modules beside the folders; folders of one row do not know each other.
ROWS: dict[str, list[tuple[str, ...]]] = {
    "distributions": [("spanning",), ("",)],
    "restaurants": [("lexical", "")],
    "recursion": [("code", "rules"), ("emit",), ("torch",), ("run",), ("",)],
    "infer": [
        ("running",),
        ("model",),
        ("logistic_normal", "trees"),
        ("loops",),
        ("samplers",),
        ("pitman_yor", "lexical", "topics", ""),
        ("diagnostics",),
    ],
    "cli": [("io",), ("runs",), ("commands",), ("",)],
    "reproductions": [
        ("shared",),
        ("induction", "morphology", "annotations", "pitman_yor", "topics", "segmentation"),
        ("",),
    ],
}


@pytest.mark.parametrize("avoided", ["torch.broadcast_shapes(", ".is_cuda"])
def test_is_not_called(avoided: str) -> None:
    """The first imports sympy, which takes a second; the second says nothing of devices that are not of CUDA."""
    files = [path for folder in ("pyrogram", "models", "guides") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300 and not [path for path in files if avoided in path.read_text(encoding="utf-8")]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the working tree, built in a copy, so that no old build/ can slip in."""
    source = tmp_path_factory.mktemp("source") / "pyrogram"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, source, ignore=ignore)
    target = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, ".", cwd=source)
    (path,) = target.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of a fresh environment with the wheel in it, which sees this one's packages behind its own."""
    prefix = tmp_path_factory.mktemp("env")
    run(sys.executable, "-m", "venv", "--without-pip", prefix, cwd=prefix)
    programs = prefix / ("Scripts" if sys.platform == "win32" else "bin")
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(programs / "python", "-c", query, cwd=prefix).strip())
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "behind.pth").write_text("\n".join(sorted(paths)) + "\n")
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", programs / "python"]
    run(*pip, "install", "--no-deps", "--no-index", "--ignore-installed", wheel, cwd=prefix)
    return programs


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/")[0] for name in names}
    assert top == {"pyrogram", "pyro_grammar-" + wheel.name.split("-")[1] + ".dist-info"}
    assert "pyrogram/py.typed" in names
    # every module of the working tree is there, under the name that it is imported by
    expected = {f"pyrogram/{path.relative_to(ROOT / 'pyrogram').as_posix()}" for path in modules("pyrogram")}
    expected |= {f"pyrogram/{path.relative_to(ROOT).as_posix()}" for path in modules("models", "guides")}
    assert {name for name in names if name.endswith(".py")} == expected


def test_the_wheel_is_named_pyro_grammar(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        scripts = archive.read(f"{info}/entry_points.txt").decode()
    assert metadata["Name"] == "pyro-grammar"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "pyrogram = pyrogram.cli:main" in scripts.splitlines()


@pytest.mark.slow
def test_models_and_guides_import_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = "import pyrogram.guides, pyrogram.models; print(pyrogram.models.__file__, pyrogram.guides.__file__)"
    files = run(installed / "python", "-I", "-c", code, cwd=tmp_path).split()
    assert all(Path(file).is_relative_to(installed.parent) for file in files)


@pytest.mark.slow
def test_models_and_guides_import_in_the_root_of_a_checkout(installed: Path) -> None:
    """There python finds the folder pyrogram/, with models/ and guides/ beside it, before what is installed."""
    code = "import pyrogram.models.dirichlet as m, pyrogram.guides.gaussian as g; print(m.__file__, g.__file__)"
    files = run(installed / "python", "-c", code, cwd=ROOT).split()
    assert files == [str(ROOT / "models/dirichlet.py"), str(ROOT / "guides/gaussian.py")]
    # A program's own folder comes first, not the one that it is started in.
    assert "--max-length" in run(installed / "python", "examples/dirichlet.py", "--help", cwd=ROOT)


@pytest.mark.slow  # its entry point is read in the wheel, and python -m is what it does
def test_the_command_is_installed(installed: Path, tmp_path: Path) -> None:
    assert "induce" in run(installed / "pyrogram", "--help", cwd=tmp_path)


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement in a module, however deep, but those that only a type checker sees."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for node in getattr(tree, field, ()):
            yield node
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                node = ast.Module(node.orelse, [])
            yield from statements(node)


@functools.cache
def imports(path: Path, name: str) -> list[str]:
    """Absolute names that a module imports when it runs: not those that only a type checker sees."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = []
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = package.split(".")[: -node.level + 1 or None] if node.level else []
            source = ".".join([*parent, *filter(None, [node.module])])
            found += [f"{source}.{alias.name}" for alias in node.names]
    return found


def layer(name: str) -> str:
    """The layer of an absolute name, "pyrogram" for names of the package itself, "" for other packages."""
    first, _, rest = name.partition(".")
    second = rest.split(".")[0]
    if first in ("models", "guides"):
        return "top-level " + first
    if first == "reproductions":
        return first
    return "" if first != "pyrogram" else second if second in BELOW else "pyrogram"


def name_of(path: Path) -> str:
    """The name by which a module is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join((*(("pyrogram",) if parts[0] in ("models", "guides") else ()), *parts)).removesuffix(".__init__")


SOURCES = list(modules("pyrogram", "models", "guides", "reproductions"))
MODULES = [path for path in SOURCES if path != ROOT / "pyrogram/__init__.py"]


def test_every_module_is_in_a_layer() -> None:
    assert len(MODULES) > 400
    assert {layer(name_of(path)) for path in MODULES} - {*BELOW} == set(), "of docs/architecture.md"


@pytest.mark.parametrize("own", sorted(BELOW))
def test_imports_point_down(own: str) -> None:
    allowed = BELOW[own] | (WORDS if own != "recursion" else set()) | {own, ""}
    within = [path for path in MODULES if layer(name_of(path)) == own]
    assert within, f"there is no layer {own}"
    for path in within:
        name = name_of(path)
        wrong = {target for target in imports(path, name) if layer(target) not in allowed}
        assert not wrong, f"{name} ({own}) must not import {sorted(wrong)}"


def rank(layer: str, folder: str) -> int:
    (found,) = (i for i, row in enumerate(ROWS[layer]) if folder in row)
    return found


@pytest.mark.parametrize("own", ROWS)
def test_imports_between_folders_of_a_layer_point_down(own: str) -> None:
    names = {name_of(path): path for path in SOURCES}
    within = {name: path for name, path in names.items() if layer(name) == own}
    top = ROOT / (own if own == "reproductions" else f"pyrogram/{own}")

    def folder(path: Path) -> str:
        inside = path.relative_to(top).parts
        return inside[0] if len(inside) > 1 else ""

    wrong = set()
    for name, path in within.items():
        for target in imports(path, name) if path.name != "__init__.py" else ():
            module = target if target in within else target.rpartition(".")[0]
            if module in within and within[module].name != "__init__.py":
                here, there = folder(path), folder(within[module])
                if here != there and rank(own, there) >= rank(own, here):
                    wrong.add(f"{name} imports {module}")
    assert not wrong


def test_modules_form_no_cycle() -> None:
    """Imports inside of functions count; packages that only collect names, and a type checker's imports, do not."""
    names = {name_of(path): path for path in SOURCES if path.name != "__init__.py"}
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    for name, path in names.items():
        for target in imports(path, name):
            module = target if target in names else target.rpartition(".")[0]
            if module in names and module != name:
                graph.add_edge(name, module)
    assert graph.number_of_edges() > 500
    assert [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1] == []


def test_import_scanner(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "import torch, pyrogram.infer\n"
        "from pyrogram import DMV, sweeps\n"
        "from . import a\nfrom ..infer.loops.em import EM\n"
        "if TYPE_CHECKING:\n    import pyrogram.cli\nelse:\n    import numpy\n"
        "def f():\n    from models import dmv\n"
    )
    found = set(imports(path, "pyrogram.grammars.module"))
    assert {name: layer(name) for name in found} == {
        "torch": "",
        "numpy": "",
        "pyrogram.infer": "infer",
        "pyrogram.DMV": "pyrogram",
        "pyrogram.sweeps": "sweeps",
        "pyrogram.grammars.a": "grammars",
        "pyrogram.infer.loops.em.EM": "infer",
        "models.dmv": "top-level models",
    }


def test_every_package_is_installed() -> None:
    tomllib = pytest.importorskip("tomllib")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    found = {path.parent.relative_to(ROOT) for path in modules("pyrogram", "models", "guides")}
    names = {".".join(path.parts if path.parts[0] == "pyrogram" else ("pyrogram", *path.parts)) for path in found}
    assert set(settings["packages"]) == names


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_constraints_pin_every_dependency(python: str) -> None:
    """Once for every Python that the package is for."""
    tomllib = pytest.importorskip("tomllib")
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    pins = [pin for pin in pins if pin.marker is None or pin.marker.evaluate({"python_version": python})]
    assert all(str(pin.specifier).startswith("==") and "+" not in str(pin.specifier) for pin in pins)
    pinned = {canonicalize_name(pin.name): pin.specifier for pin in pins}
    assert len(pinned) == len(pins)
    extras = project["optional-dependencies"].values()
    for wanted in map(Requirement, project["dependencies"] + [line for extra in extras for line in extra]):
        name = canonicalize_name(wanted.name)
        if name != "pyro-grammar":
            (version,) = pinned[name]
            assert wanted.specifier.contains(version.version), f"{name} {version} is not {wanted}"


def test_the_citation_is_of_this_version() -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert {f"version: {project['version']}", f"license: {project['license']}"} <= set(lines)
    assert '  - name: "Contributors to the pyrogram project"' in lines
    assert sum(line == "  - type: conference-paper" for line in lines) == 4


def test_no_shape_is_guessed() -> None:
    """Two sentences of one word have scores of a shape that may be one or the other: calls say which."""
    options = {"ProjectiveDependencyTree": "valence", "SpanTree": "labelled"}
    seen = 0
    for path in modules("pyrogram", "models", "guides", "reproductions", "examples"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if any(f"{name}(" in text for name in options) else ():
            if isinstance(node, ast.Call) and (option := options.get(getattr(node.func, "id", ""))):
                where, seen = f"{path.relative_to(ROOT)}:{node.lineno}", seen + 1
                assert option in [keyword.arg for keyword in node.keywords], f"{where} does not say {option}="
    assert seen > 5
