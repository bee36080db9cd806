# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled recursions against the kernels that they replaced: this code and that of an earlier commit take turns.

Each runs in a process of its own, through what users call. The earlier code comes from the repository's history.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
BEFORE = "d1cc89d"  # the last commit with kernels of trees that were written by hand
AVX2 = {  # both compilers make code for this processor
    "PYROGRAM_CPU": "haswell",
    "PYROGRAM_CPU_FEATURES": "+avx,+avx2,+fma",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+bmi,+bmi2,+sse4.1,+sse4.2,+popcnt,+lzcnt,+f16c,+movbe",
}
# Neither process gives memory back to the system: which of the two asks for fresh pages would be chance.
MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34)}
HEADER = ["", "", "n", "before", "now", "times faster"]
BATCH, ROUNDS = 512, 7
TREES = ("log Z", "marginals", "log Z, backward", "Viterbi", "5 best", "1 draw", "10 draws", "Hessian times vector")
DMV = ("expected counts", "log Z")
CHAINS = ("expected counts", *TREES)
GRAMMARS = (
    "expected counts", "log Z", "counts by sentence", "weights by sentence, backward", "1 draw", "10 draws", "Viterbi",
    "5 best", "MBR", "spans", "Hessian times vector",
)  # fmt: skip
LOOPS = ("collapsed VB", "collapsed VB, batches of 1", "Hastings", "counts under weights by sentence")


def rows(lengths: Sequence[int], only: str = "", avx2: bool = False, commit: str = BEFORE) -> Iterator[list[str]]:
    """Sentences/s of one thread, and medians over rounds of the ratio.

    :param only: a part of the names of the programs that are wanted.
    :param avx2: whether code is made for a processor without AVX-512.
    :param commit: what is compared with.
    """
    with _worker(earlier(commit), avx2) as before, _worker(ROOT, avx2) as now:
        for kind, dtype, tasks in (
            ("trees", "float64", TREES),
            ("trees", "float32", TREES[:3]),
            ("trees, scores over 70 nats", "float64", TREES[:2]),
            ("trees, scores over 340 nats", "float64", TREES[:2]),
            ("trees with grandparents", "float64", TREES[:2]),
            ("trees with valence", "float64", TREES[:3]),
            ("second-order trees", "float64", TREES[:4]),
            ("second-order trees", "float32", TREES[:3]),
            ("DMV, 45 tags", "float64", DMV),
            ("DMV, 45 tags", "float64", LOOPS),
            ("extended DMV, 45 tags", "float64", LOOPS),
            ("HMM, 10 states", "float64", CHAINS),
            ("HMM, 45 states", "float64", CHAINS),
            ("HMM, 45 states", "float32", CHAINS[:4]),
            *((f"PCFG, {grammar}", "float64", GRAMMARS) for grammar in ("5 + 5", "10 + 10", "1,000 rules")),
            ("PCFG, 20 + 40", "float64", GRAMMARS[:2]),
            ("PCFG, 20 + 40", "float32", GRAMMARS[:2]),
            ("PCFG, 30 + 30", "float64", GRAMMARS[:6]),
        ):
            if only not in kind:
                continue
            for task in tasks:
                for n in (n for n in lengths if n <= 20 or "PCFG" not in kind):
                    case = f"{kind}|{dtype}|{task}|{n}"
                    pairs = [(_ask(before, case), _ask(now, case)) for _ in range(ROUNDS)]
                    rates = [_batch(kind, task) / statistics.median(x) for x in zip(*pairs, strict=True)]
                    ratio = statistics.median(b / a for b, a in pairs)
                    yield [f"{kind}, {dtype}", task, str(n), *(f"{x:,.0f}" for x in rates), f"{ratio:.2f}"]


def _batch(kind: str, task: str) -> int:
    """Few sentences, where each took the earlier code seconds."""
    if "grandparents" in kind or "nats" in kind:
        return 32
    return BATCH if "PCFG" not in kind else 8 if task in GRAMMARS[6:] else 32 if "30 + 30" in kind else BATCH


def earlier(commit: str = BEFORE) -> Path:
    """A folder with the package as it was at a commit."""
    folder = ROOT / f".venv-bench/{commit}"
    if not folder.exists():
        archive = subprocess.run(["git", "archive", commit, "pyrogram"], cwd=ROOT, capture_output=True)
        if archive.returncode:
            raise SystemExit(f"commit {commit} is not in this repository's history: fetch it, or leave out this table")
        folder.mkdir(parents=True)
        subprocess.run(["tar", "x"], cwd=folder, input=archive.stdout, check=True)
    return folder


def served(script: str, folder: Path) -> Any:
    """What a script answers to ``--serve`` with the package of a folder: its last line, JSON."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-W", "ignore", str(Path(script).resolve()), "--serve"]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def _worker(folder: Path, avx2: bool = False) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "ignore", __file__, "--worker"]
    environment = {**os.environ, "PYTHONPATH": str(folder), **MEMORY, **(AVX2 if avx2 else {})}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def _ask(worker: subprocess.Popen[str], case: str) -> float:
    assert worker.stdin is not None and worker.stdout is not None
    print(case, file=worker.stdin, flush=True)
    return float(worker.stdout.readline())


# ---------------------------------------------------------------------- in a process of its own


def _serve() -> None:
    torch.set_num_threads(1)
    works: dict[str, tuple[Callable[[], object], int]] = {}
    for line in sys.stdin:
        case = line.strip()
        if case not in works:
            works.clear()
            work = _work(*case.split("|"))
            work()
            start = time.process_time()
            work()
            works[case] = work, max(1, min(100, round(0.03 / max(time.process_time() - start, 1e-5))))
        work, calls = works[case]
        times = []
        for _ in range(calls):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        print(statistics.median(times), flush=True)


def _work(kind: str, dtype_name: str, task: str, length: str) -> Callable[[], object]:
    from pyrogram.grammars import DMV

    n, dtype = int(length), getattr(torch, dtype_name)
    generator = torch.Generator().manual_seed(0)
    if "DMV" in kind:
        grammar = DMV(45, valence_attach=kind.startswith("extended"))
        shapes = {name: block.shape for name, block in grammar.blocks.items()}
        weights = {k: torch.randn(s, generator=generator, dtype=dtype).log_softmax(-1) for k, s in shapes.items()}
        words = torch.randint(0, 45, (BATCH, n), generator=generator)
        if task in LOOPS:
            return _of_loops(grammar, task, words)
        if task == "log Z":
            return lambda: grammar.log_partition(weights, words)
        return lambda: grammar.expected_counts(weights, words)

    if "PCFG" in kind:
        return _of_grammars(kind.removeprefix("PCFG, "), task, n, dtype)
    if "HMM" in kind:
        return _of_chains(task, int(kind.split()[1]), torch.randint(0, 1000, (BATCH, n), generator=generator), dtype)

    batch = _batch(kind, task)
    nats = float(kind.split()[3]) if "nats" in kind else 0.0

    def scores(*shape: int) -> torch.Tensor:
        if nats:
            return -nats * torch.rand(batch, *shape, generator=generator, dtype=dtype)
        return torch.randn(batch, *shape, generator=generator, dtype=dtype)

    return _of_trees(kind, task, n, scores)


def _of_loops(grammar: Any, task: str, words: torch.Tensor) -> Callable[[], object]:
    """An iteration of a loop."""
    from pyrogram.infer import CollapsedVB, TreeHastings
    from pyrogram.models.dirichlet import dirichlet

    if task == LOOPS[3]:
        multinomials = grammar.sentence_multinomials(words)
        generator = torch.Generator().manual_seed(0)
        rows = {name: (len(multinomials.sentence[name]), b.shape[-1]) for name, b in grammar.blocks.items()}
        logs = {k: torch.randn(s, generator=generator, dtype=torch.float64).log_softmax(-1) for k, s in rows.items()}
        return lambda: multinomials.expected_counts(logs)
    loop: Any = TreeHastings(dirichlet, seed=0, keep_parts=False)
    if task != "Hastings":
        loop = CollapsedVB(dirichlet, batch_size=1 if task.endswith(" 1") else 8)
    loop.run(words, grammar, num_steps=2, progress=False)
    return lambda: loop.step(words, grammar)


def _of_grammars(name: str, task: str, n: int, dtype: torch.dtype) -> Callable[[], object]:
    from pyrogram.grammars import CFG

    generator = torch.Generator().manual_seed(0)
    if name == "1,000 rules":
        grammar = CFG.dense(30, 30, 50)
        binary = [x for x, (_, right) in enumerate(grammar.rules) if len(right) == 2]
        chosen = {binary[x] for x in torch.randperm(len(binary), generator=generator)[:1000].tolist()}
        grammar = CFG([r for x, r in enumerate(grammar.rules) if len(r[1]) == 1 or x in chosen], "S")
    else:
        grammar = CFG.dense(*(int(x) for x in name.split(" + ")), 50)
    batch = _batch(f"PCFG, {name}", task)
    words = torch.randint(0, 50, (batch, n), generator=generator)
    block = grammar.blocks["rules"]
    logs = torch.randn(len(grammar.rules), generator=generator, dtype=dtype)
    weights = {"rules": block.softmax(logs)}

    def backward() -> None:
        leaf = weights["rules"].log().expand(batch, -1).clone().requires_grad_()
        grammar.log_partition({"rules": leaf}, words).sum().backward()

    def hessian() -> None:
        leaf = weights["rules"].log().requires_grad_()
        _hessian_times_vector(grammar.log_partition({"rules": leaf}, words), [leaf])

    works: dict[str, Callable[[], object]] = {
        "expected counts": lambda: grammar.expected_counts({"rules": weights["rules"].log()}, words),
        "log Z": lambda: grammar.derivation(weights, words).log_partition,
        "counts by sentence": lambda: grammar.derivation(weights, words).expected_counts(),
        "weights by sentence, backward": backward,
        "Hessian times vector": hessian,
        "Viterbi": lambda: grammar.derivation(weights, words).argmax(),
        "5 best": lambda: grammar.derivation(weights, words).top_k(5),
        "MBR": lambda: grammar.derivation(weights, words).mbr(),
        "spans": lambda: grammar.derivation(weights, words).marginals(),
        "1 draw": lambda: grammar.derivation(weights, words).sample(),
        "10 draws": lambda: grammar.derivation(weights, words).sample((10,)),
    }
    return works[task]


def _of_chains(task: str, K: int, words: torch.Tensor, dtype: torch.dtype) -> Callable[[], object]:
    from pyrogram.distributions import StateSequence
    from pyrogram.grammars import HMM

    grammar, generator = HMM(K, 1000), torch.Generator().manual_seed(0)
    shapes = {name: block.shape for name, block in grammar.blocks.items()}
    weights = {k: torch.randn(s, generator=generator, dtype=dtype).log_softmax(-1) for k, s in shapes.items()}
    if task == "expected counts":
        return lambda: grammar.expected_counts(weights, words)

    def states(tables: Any = None) -> Any:
        return StateSequence(*(tables or weights.values()), words, validate_args=False)

    return _of_states(task, states, list(weights.values()))


def _of_trees(kind: str, task: str, n: int, scores: Callable[..., torch.Tensor]) -> Callable[[], object]:
    from pyrogram.distributions import GrandparentDependencyTree, ProjectiveDependencyTree, SiblingDependencyTree

    N = n + 1
    make: Any
    if kind == "second-order trees":
        tensors, make = (scores(N, N), scores(N, N, N)), SiblingDependencyTree
    elif kind == "trees with grandparents":
        tensors, make = (scores(N, N), scores(N, N, N)), GrandparentDependencyTree
    elif kind == "trees" or "nats" in kind:
        tensors, make = (scores(N, N),), ProjectiveDependencyTree
    else:
        tensors, make = (scores(N, N, 2), scores(N, 2, 2)), ProjectiveDependencyTree

    def tree(leaves: Any = None) -> Any:
        return make(*(leaves or tensors), validate_args=False)

    return _of_states(task, tree, tensors)


def _of_states(task: str, make: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Callable[[], object]:
    """A distribution over trees or states.

    :param make: it, from scores or, without any, from those that are given.
    """

    def backward() -> None:
        leaves = [x.requires_grad_() for x in tensors]
        for x in leaves:
            x.grad = None
        make(leaves).log_partition.sum().backward()

    def hessian() -> None:
        leaves = [x.requires_grad_() for x in tensors]
        _hessian_times_vector(make(leaves).log_partition, leaves)

    works: dict[str, Callable[[], object]] = {
        "log Z": lambda: make().log_partition,
        "marginals": lambda: make().expected_counts(),
        "log Z, backward": backward,
        "Hessian times vector": hessian,
        "Viterbi": lambda: make().argmax(),
        "5 best": lambda: make().top_k(5),
        "1 draw": lambda: make().sample(),
        "10 draws": lambda: make().sample((10,)),
    }
    return works[task]


def _hessian_times_vector(log_z: torch.Tensor, leaves: Sequence[torch.Tensor]) -> None:
    """Log Z and both derivatives; the gradient is the vector."""
    first = torch.autograd.grad(log_z.sum(), leaves, create_graph=True)
    torch.autograd.grad(first, leaves, [x.detach() for x in first])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--lengths", type=int, nargs="+", default=[5, 10, 20, 40])
    parser.add_argument("--only", default="", help="a part of the names of the programs that are wanted")
    parser.add_argument("--avx2", action="store_true", help="code for a processor without AVX-512")
    parser.add_argument("--before", default=BEFORE, help="a commit, in the place of %(default)s")
    options = parser.parse_args()
    if options.worker:
        _serve()
    else:
        for row in itertools.chain([HEADER], rows(options.lengths, options.only, options.avx2, options.before)):
            print(" | ".join(row), flush=True)
