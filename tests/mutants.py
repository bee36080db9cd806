# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How much the tests see: small faults in the code, each of which should turn a test red.

    python tests/mutants.py cover                 # which test executes which line; once for a version of the tests
    python tests/mutants.py run [--seed 0] [--each 10] [--only ROOM]
    python tests/mutants.py run --tests COMMIT    # faults that survive, against the tests of an earlier commit
    python tests/mutants.py table                 # of all that was run

``run`` draws faults room by room, the same ones for a seed as long as the code stays as it is. Each is put into a copy
of the working tree, where the tests that can see it are run until one fails: those that execute its line, or where none
does (numba and other processes execute it) those that execute its file or one that imports it. It goes on where it
stopped: begin anew, by ``make clean``, when code or tests have changed. With ``--tests``, every file of that commit's
tests is run in which a test of today may see a fault. ``table`` prints the faults that survive with their lines: a test
is missing, or the fault changes nothing.

It needs ``pip install coverage``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import queue
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "mutants"
COVERED = KEPT / "coverage"
LIMIT = 150  # seconds for the tests of a fault: it survives if none has failed by then
HANGS = 60  # seconds after which a test has failed
COPIED = "pyrogram", "models", "guides", "reproductions", "tests", "examples", "tutorials", "docs", "benchmarks"

#: Folders and files of each room.
ROOMS = {
    "recursion: rules": ["pyrogram/recursion/rules"],
    "recursion: code": ["pyrogram/recursion"],
    "loops": ["pyrogram/runtime", "pyrogram/logistic_normal"],
    "files": ["pyrogram/*.py"],
    "distributions": ["pyrogram/distributions"],
    "grammars": ["pyrogram/grammars"],
    "infer: models": ["pyrogram/infer/model", "pyrogram/infer/running", "pyrogram/infer/*.py"],
    "infer: loops": ["pyrogram/infer/loops", "pyrogram/infer/logistic_normal"],
    "infer: chains": ["pyrogram/infer/samplers", "pyrogram/infer/trees", "pyrogram/infer/diagnostics"],
    "restaurants and topics": [
        *("pyrogram/restaurants", "pyrogram/topics"),
        *("pyrogram/infer/pitman_yor", "pyrogram/infer/lexical", "pyrogram/infer/topics"),
    ],
    "data": ["pyrogram/data"],
    "command line": ["pyrogram/cli"],
    "knowledge": ["pyrogram/knowledge"],
    "models and priors": ["models", "guides", "pyrogram/priors", "pyrogram/testing"],
    "viz and reproductions": ["pyrogram/viz", "reproductions"],
}


@dataclass(frozen=True)
class Fault:
    """A place in a file, in characters, and what stands there instead."""

    room: str
    path: str
    kind: str
    line: int
    begin: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        return source[: self.begin] + self.text + source[self.end :]


def faults_of(room: str, path: str, source: str) -> Iterator[Fault]:
    """All faults that can be put into a file."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    encoded = source.encode()

    def place(node: ast.AST) -> tuple[int, int]:
        begin, end = (starts[getattr(node, f"{x}lineno") - 1] + getattr(node, f"{x}col_offset") for x in ("", "end_"))
        return len(encoded[:begin].decode()), len(encoded[:end].decode())

    def text(node: ast.AST) -> str:
        begin, end = place(node)
        return source[begin:end]

    for node in _code(tree):
        for kind, at, instead in _changes(node, text):
            begin, end = place(at)
            yield Fault(room, path, kind, getattr(at, "lineno"), begin, end, instead)  # noqa: B009


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes of functions' bodies that are run: no annotations, no texts of messages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name not in ("__repr__", "__dir__"):
            todo: list[ast.AST] = list(node.body)
            while todo:
                one = todo.pop()
                if isinstance(one, (ast.FunctionDef, ast.ClassDef, ast.Raise, ast.JoinedStr, ast.Assert)):
                    continue
                yield one
                children = list(ast.iter_child_nodes(one))
                if isinstance(one, ast.AnnAssign):
                    children = [] if one.value is None else [one.value]
                if isinstance(one, ast.Call) and getattr(one.func, "id", "") in ("cast", "isinstance"):
                    children = []
                todo += children


def _changes(node: ast.AST, text: object) -> Iterator[tuple[str, ast.AST, str]]:
    """Kinds of faults at a node: what is changed, and what stands there instead."""
    assert callable(text)
    compared = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
    if isinstance(node, ast.BinOp) and not _is_text(node):
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            yield "dropped term", node, text(node.left)
        if isinstance(node.op, ast.Sub):
            yield "lost sign", node, f"{text(node.left)} + {text(node.right)}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield ("lost sign" if isinstance(node.op, ast.USub) else "condition"), node, f"({text(node.operand)})"
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) > 1:
        first, second = (text(x) for x in node.slice.elts[:2])
        if first != second and not any(isinstance(x, ast.Starred) for x in node.slice.elts[:2]):
            rest = [text(x) for x in node.slice.elts[2:]]
            yield "swapped index", node.slice, ", ".join([second, first, *rest])
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off by one", node, str(node.value + 1)
    elif isinstance(node, ast.Attribute) and node.attr in ("float64", "int64", "double"):
        short = {"float64": "float32", "int64": "int32", "double": "float"}[node.attr]
        yield "wrong type", node, f"{text(node.value)}.{short}"
    elif isinstance(node, ast.If) and len(node.body) == 1 and isinstance(node.body[0], ast.Raise):
        yield "missing check", node.test, "False"
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in compared:
        op, left, right = compared[type(node.ops[0])], text(node.left), text(node.comparators[0])
        yield "comparison", node, f"{left} {op} {right}"
    elif isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield "condition", node, word.join(f"({text(x)})" for x in node.values)


def _is_text(node: ast.AST) -> bool:
    kinds = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict)
    return any(isinstance(x, kinds) or isinstance(getattr(x, "value", None), str) for x in ast.walk(node))


def drawn(seed: int, each: int) -> list[Fault]:
    """So many faults of each room, every kind in turn."""
    chosen: list[Fault] = []
    taken: set[Path] = set()
    for room, folders in ROOMS.items():
        paths = sorted({path for folder in folders for path in _files(folder)} - taken)
        taken |= set(paths)
        by_kind: dict[str, list[Fault]] = {}
        for path in paths:
            for fault in faults_of(room, path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")):
                by_kind.setdefault(fault.kind, []).append(fault)
        rng, own = random.Random(f"{seed} {room}"), []
        kinds = sorted(by_kind)
        while len(own) < each:
            fault = rng.choice(by_kind[kinds[len(own) % len(kinds)]])
            if fault not in own:
                own.append(fault)
        chosen += own
    return chosen


def _files(folder: str) -> Iterator[Path]:
    if "*" in folder:
        yield from ROOT.glob(folder)
    else:
        yield from (ROOT / folder).rglob("*.py")


# ---------------------------------------------------------------------- which tests see a line


def cover(arguments: list[str]) -> None:
    """Runs the fast stage once and writes down which test function executes which line."""
    shutil.rmtree(COVERED, ignore_errors=True)
    COVERED.mkdir(parents=True)
    settings = COVERED / "settings"
    source = "\n    ".join(["pyrogram", "models", "guides", "reproductions"])
    settings.write_text(
        f"[run]\ndata_file = {COVERED / 'data'}\ndynamic_context = test_function\nsource =\n    {source}\n"
        "parallel = true\npatch = subprocess\n"
    )
    tool = [sys.executable, "-m", "coverage"]
    tests = ["-m", "pytest", "-q", "--numprocesses", "auto", "--maxprocesses", "8", *arguments]
    subprocess.run([*tool, "run", f"--rcfile={settings}", *tests], cwd=ROOT, check=False)
    subprocess.run([*tool, "combine", "--quiet", f"--rcfile={settings}"], cwd=ROOT, check=True)


def tests_of(fault: Fault) -> list[str]:
    """The test functions that may see a fault, those of its own folder first, as pytest calls them."""
    names = _executing(fault.path, fault.line)
    if not names:
        importers = [path for path in _sources() if _imports(path, Path(fault.path).stem)]
        names = set().union(*(_executing(path) for path in [fault.path, *importers]))
    files = {f"{path.stem}.": path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    found = set()
    for name in names:
        for stem, path in files.items():
            _, at, function = f".{name}".partition(f".{stem}")
            if at:
                found.add(f"{path}::{function.replace('.', '::')}")
    room = Path(fault.path).parts[1]
    return sorted(found, key=lambda test: (Path(test.partition("::")[0]).parts[1] != room, test))


def _executing(path: str, line: int | None = None) -> set[str]:
    """The test functions that execute a line of a file, or any of it."""
    from coverage.numbits import num_in_numbits

    with sqlite3.connect(COVERED / "data") as data:
        rows = data.execute(
            "select context.context, numbits from line_bits join file on file.id = line_bits.file_id "
            "join context on context.id = line_bits.context_id where file.path = ?",
            (str(ROOT / path),),
        )
        return {name for name, bits in rows if name and (line is None or num_in_numbits(line, bits))}


def _sources() -> list[str]:
    return [p.relative_to(ROOT).as_posix() for top in COPIED[:4] for p in (ROOT / top).rglob("*.py")]


def _imports(path: str, stem: str) -> bool:
    text = (ROOT / path).read_text(encoding="utf-8")
    return any(stem in line for line in text.splitlines() if "import" in line)


# ---------------------------------------------------------------------- runs


def run(seed: int, each: int, only: str | None, workers: int, commit: str | None) -> None:
    faults = [f for f in drawn(seed, each) if only in (None, f.room)]
    if commit:
        survive = [entry["fault"] for entry in entries() if not entry["seen"]]
        faults = [f for f in faults if asdict(f) in survive]
    done = {json.dumps(entry["fault"]) for entry in entries(commit)}
    todo: queue.SimpleQueue[Fault] = queue.SimpleQueue()
    for fault in faults:
        if json.dumps(asdict(fault)) not in done:
            todo.put(fault)
    lock = threading.Lock()

    def work(number: int) -> None:
        copy = KEPT / f"copy{number}"
        shutil.rmtree(copy, ignore_errors=True)
        for folder in COPIED:
            shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for path in ROOT.glob("*.*"):
            if path.is_file():
                shutil.copy(path, copy)
        if commit:
            shutil.rmtree(copy / "tests")
            archive = subprocess.run(["git", "archive", commit, "tests"], cwd=ROOT, capture_output=True, check=True)
            subprocess.run(["tar", "x"], cwd=copy, input=archive.stdout, check=True)
        # Bytecode of the code without faults; none is written later, so that none of a fault is read.
        writing = {key: x for key, x in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
        subprocess.run(collect, cwd=copy, env=writing | {"PYTHONPATH": str(copy)}, capture_output=True, check=True)
        while not todo.empty():
            fault = todo.get()
            tests = tests_of(fault)
            if commit:
                paths = dict.fromkeys(test.partition("::")[0] for test in tests)
                tests = [path for path in paths if (copy / path).exists()]
            seen = tests and _is_seen(copy, fault, tests)
            with lock, _found(commit).open("a") as file:
                file.write(json.dumps({"fault": asdict(fault), "tests": len(tests), "seen": seen or ""}) + "\n")
                print(f"{fault.path}:{fault.line} {fault.kind}: {seen or 'SURVIVES'} ({len(tests)} tests)", flush=True)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _is_seen(copy: Path, fault: Fault, tests: list[str]) -> str:
    """The first test that fails; empty if all pass."""
    path = copy / fault.path
    source = path.read_text(encoding="utf-8")
    path.write_text(fault.applied(source), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    if "numba" in source or "compiled" in source:  # numba does not see that a function which it has inlined is another
        environment["NUMBA_CACHE_DIR"] = str(copy / "numba")
        shutil.rmtree(copy / "numba", ignore_errors=True)
    hangs = ["-o", f"faulthandler_timeout={HANGS}", "-o", "faulthandler_exit_on_timeout=true"]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *hangs]
    end = time.monotonic() + LIMIT
    try:
        for begin in range(0, len(tests), 100):
            done = subprocess.run(
                [*command, *tests[begin : begin + 100]],
                cwd=copy,
                env=environment,
                capture_output=True,
                text=True,
                timeout=max(1.0, end - time.monotonic()),
                check=False,
            )
            if done.returncode == 4 and "ERROR collecting" not in done.stdout:
                raise RuntimeError(f"tests that pytest does not know: {done.stderr[-500:]}")
            if done.returncode not in (0, 5):
                failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return failed[0][:160] if failed else f"exit status {done.returncode}"
    except subprocess.TimeoutExpired:
        return ""
    finally:
        path.write_text(source, encoding="utf-8")
    return ""


def _found(commit: str | None) -> Path:
    return KEPT / f"found{'-' + commit if commit else ''}.jsonl"


def entries(commit: str | None = None) -> list[dict[str, object]]:
    path = _found(commit)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(commit: str | None) -> None:
    found: list[dict[str, dict[str, str]]] = entries(commit)  # type: ignore[assignment]
    rooms, red = Counter(e["fault"]["room"] for e in found), Counter(e["fault"]["room"] for e in found if e["seen"])
    for room, number in rooms.items():
        print(f"{room:30} {red[room]:4} of {number:4} red")
    print(f"{'all':30} {red.total():4} of {rooms.total():4} red, {red.total() / max(1, rooms.total()):.1%}")
    for entry in found:
        if not entry["seen"]:
            fault = Fault(**entry["fault"])  # type: ignore[arg-type]
            source = (ROOT / fault.path).read_text(encoding="utf-8")
            line = fault.applied(source).splitlines()[fault.line - 1].strip()
            print(f"survives: {fault.path}:{fault.line} {fault.kind}: {line}  ({entry['tests']} tests)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cover", "run", "table"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=10, help="faults a room")
    parser.add_argument("--only", help="one room")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tests", metavar="COMMIT", help="whose tests are run, against faults that survive today's")
    given, rest = parser.parse_known_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    if given.what == "cover":
        cover(rest)
    elif given.what == "run":
        run(given.seed, given.each, given.only, given.workers, given.tests)
    table(given.tests)


if __name__ == "__main__":
    main()
