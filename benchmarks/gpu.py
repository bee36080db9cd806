# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The GPU's kernels on a device: agreement with enumeration, and sentences a second beside torch and the CPU.

``pip install '.[gpu]'``, then ``python3 benchmarks/gpu.py [--quick]``. It runs unattended and prints markdown; without
a device of CUDA it prints one sentence.

A sentence moves so many bytes in the inner loops of both passes; a device moves so many in a second, which is measured
by a copy. Their ratio bounds the rate of kernels whose charts fit into no cache, and the table has the share of it that
is reached. Where items have symbols, a number that is read is used four times, and there is no such bound.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from pyrogram.distributions import ProjectiveDependencyTree, StateSequence, projective_tree
from pyrogram.grammars import CFG, DMV, HMM
from pyrogram.recursion import Recursion
from pyrogram.recursion.rules.lowering import lower
from pyrogram.recursion.run.device_engine import DeviceEngine
from pyrogram.recursion.run.launching import launcher_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "oracles"))
import oracle

LENGTHS = (10, 20, 40)
DTYPES = (torch.float64, torch.float32)


def bytes_of(recursion: Recursion, n: int, itemsize: int) -> float:
    """That the inner loops of inside and outside move for a sentence of n words.

    A sum over k has n^3 / 6 terms. Inside reads each factor; outside reads it, and reads and writes its adjoint.
    """
    cells = lower(recursion, widen=True)
    (rest,) = (c for c in cells.of("span") if c.width is None)
    sums = [term.inner for head in rest.heads for term in head.terms if term.inner is not None]
    factors = sum(len(x.factors) for x in sums)
    return itemsize * 4 * factors * n**3 / 6


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Of a call on the device, the median of rounds."""
    times = []
    for _ in range(rounds + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def bandwidth(device: torch.device) -> float:
    """Bytes that a copy within the device reads and writes in a second."""
    x = torch.zeros(2**27, dtype=torch.float64, device=device)
    y = torch.empty_like(x)
    return 2 * x.numel() * 8 / seconds(lambda: y.copy_(x), 10)


def scores(count: int, n: int, dtype: torch.dtype, device: torch.device, valences: int = 1) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(0)
    return torch.randn(count, n + 1, n + 1, valences, generator=generator, dtype=dtype, device=device)


def agreement(device: torch.device) -> Iterator[str]:
    """Sums, posteriors, the best tree and draws of sentences of 1 to 5 words, against all of their trees."""
    yield "Largest differences from enumeration, and Pearson's statistic of draws by its degrees of freedom:\n\n"
    yield "| type | log Z | posteriors | best score | draws |\n" + "|---" * 5 + "|\n"
    for dtype in DTYPES:
        lengths = torch.arange(1, 6, device=device).repeat(20)
        arcs, stops = scores(100, 5, dtype, device, 2), torch.randn(100, 6, 2, 2, dtype=dtype, device=device)
        trees = ProjectiveDependencyTree(arcs, stops, lengths, valence=True)
        log_z, by_arcs, _ = trees._marginals()
        best = trees._top_k(1)[1][0]
        few = ProjectiveDependencyTree(arcs[:5], stops[:5], lengths[:5], valence=True)
        drawn = few.sample((20_000,))
        errors, freedom, statistic = [0.0, 0.0, 0.0], 0, 0.0
        for b, n in enumerate(lengths.tolist()):
            one = oracle.Enumeration(
                arcs[b, : n + 1, : n + 1].double().cpu().numpy(), stops[b, : n + 1].double().cpu().numpy(), False
            )
            there = by_arcs[b, : n + 1, : n + 1].double().cpu().numpy()
            errors[0] = max(errors[0], abs(float(log_z[b]) - one.log_z))
            errors[1] = max(errors[1], float(abs(there - one.arc_marginals).max()))
            errors[2] = max(errors[2], abs(float(best[b]) - max(one.scores)))
            if b < 5:
                rows = [tuple(row) for row in drawn[:, b, :n].tolist()]
                for tree, p in zip(one.trees, one.probs, strict=True):
                    expected = 20_000 * p
                    if expected > 5:
                        statistic += (rows.count(tree) - expected) ** 2 / expected
                        freedom += 1
        values = " | ".join(f"{e:.1e}" for e in errors)
        yield f"| {dtype} | {values} | {statistic / max(1, freedom):.2f} |\n"


def sums(arcs: torch.Tensor, by_torch: bool = False) -> object:
    """Log Z and posteriors of plain projective trees."""
    trees = ProjectiveDependencyTree(arcs, valence=True, validate_args=False)
    return trees._program.marginals(trees._tensor_inputs(trees.batch_shape), by_torch=by_torch)


def throughput(device: torch.device, quick: bool) -> Iterator[str]:
    """Log Z and posteriors of plain projective trees, and expected counts of the DMV."""
    speed, rounds = bandwidth(device), 3 if quick else 9
    yield f"A copy moves {speed / 1e12:.2f} TB/s. Thousand sentences a second:\n\n"
    yield (
        "| sums | n | type | kernels | launch alone | of the bound | bound | torch's engine | CPU |\n"
        + "|---" * 9
        + "|\n"
    )
    for n in LENGTHS:
        count = 2 ** (12 if quick else {10: 18, 20: 16, 40: 14}[n])
        for dtype in DTYPES:
            arcs = scores(count, n, dtype, device)
            few, on_cpu = arcs[: max(64, count // 64)], arcs[: max(64, count // 128)].cpu()
            recursion = projective_tree.first_order()
            yield row(
                f"trees | {n} | {dtype}",
                recursion,
                (n, count, arcs.element_size(), speed, rounds),
                lambda arcs=arcs: sums(arcs),
                (len(few), lambda few=few: sums(few, by_torch=True)),
                (len(on_cpu), lambda on_cpu=on_cpu: sums(on_cpu)),
            )
        grammar = DMV(30)
        words = torch.randint(30, (count, n), device=device)
        logs = {name: w.log() for name, w in grammar.initial_weights(words[:8].cpu(), "uniform").items()}
        there = {name: w.to(device) for name, w in logs.items()}
        cpu_words, few_words = words[: max(64, count // 128)].cpu(), words[: max(64, count // 64)]

        def by_torch(few_words: torch.Tensor = few_words, grammar: DMV = grammar, there: object = there) -> object:
            ((_, inputs),), _ = grammar._on(there, few_words, None)
            return grammar.program().marginals(inputs, by_torch=True)

        yield row(
            f"DMV, 30 tags | {n} | torch.float64",
            grammar.program().recursion,
            (n, count, 8, speed, rounds),
            lambda words=words, there=there, grammar=grammar: grammar.expected_counts(there, words),
            (len(few_words), by_torch),
            (len(cpu_words), lambda w=cpu_words, logs=logs, grammar=grammar: grammar.expected_counts(logs, w)),
        )
        yield from symbols(n, count, speed, rounds, device)


def chains_by_torch(states: StateSequence) -> object:
    program, given = states._tensor_inputs(states.batch_shape, by_word=False)
    return program.marginals(given, by_sentence=True, by_torch=True)


def symbols(n: int, count: int, speed: float, rounds: int, device: torch.device) -> Iterator[str]:
    """Expected counts of chains, and of of grammars as lists of rules."""
    for states in (10, 50):
        tables = [
            torch.randn(*shape, device=device).double() for shape in ((states,), (states, states + 1), (states, 99))
        ]
        words, grammar = torch.randint(99, (count, n), device=device), HMM(states, 99)
        few, on_cpu = words[: max(64, count // 64)], words[: max(64, count // 128)].cpu()
        logs = dict(zip(grammar.blocks, tables, strict=True))
        there = {name: t.cpu() for name, t in logs.items()}
        yield row(
            f"HMM, {states} states | {n} | torch.float64",
            None,
            (n, count, 8, speed, rounds),
            lambda grammar=grammar, logs=logs, words=words: grammar.expected_counts(logs, words),
            (len(few), lambda tables=tables, few=few: chains_by_torch(StateSequence(*tables, few))),
            (len(on_cpu), lambda grammar=grammar, there=there, w=on_cpu: grammar.expected_counts(there, w)),
        )
    listed, generator = lists_of_rules(), torch.Generator().manual_seed(0)
    words = torch.randint(5, (count // 8, n), generator=generator)
    few, on_cpu = (words[: max(64, len(words) // share)] for share in (64, 128))
    rules = {"rules": torch.randn(len(listed.rules), generator=generator).double()}
    on_device, words, few = {"rules": rules["rules"].to(device)}, words.to(device), few.to(device)

    def by_torch() -> object:
        leaf = on_device["rules"].clone().requires_grad_()
        (part, inputs), *_ = listed._on({"rules": leaf}, few, None)[0]
        program, inputs = part.summed(inputs)
        return torch.autograd.grad(program.log_partition(inputs, by_torch=True).sum(), leaf)

    yield row(
        f"CFG, {len(listed.rules)} rules | {n} | torch.float64",
        None,
        (n, len(words), 8, speed, rounds),
        lambda: listed.expected_counts(on_device, words),
        (len(few), by_torch),
        (len(on_cpu), lambda: listed.expected_counts(rules, on_cpu)),
    )


def lists_of_rules() -> CFG:
    """Ten nonterminals, ten preterminals with five words, and a third of all binary rules."""
    wide, narrow = [f"N{x}" for x in range(10)], [f"T{x}" for x in range(10)]
    pairs = [(a, b) for a in wide + narrow for b in wide + narrow]
    rules = [(left, right) for x, left in enumerate(wide) for right in pairs[x % 3 :: 3]]
    return CFG(rules + [(t, (str(w),)) for t in narrow for w in range(5)], "N0")


def row(
    title: str,
    recursion: Recursion | None,
    sizes: tuple[int, int, int, float, int],
    kernels: Callable[[], object],
    in_torch: tuple[int, Callable[[], object]],
    on_cpu: tuple[int, Callable[[], object]],
) -> str:
    n, count, itemsize, speed, rounds = sizes
    start = time.perf_counter()
    kernels()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    launches: list[float] = []
    with timed_launches(launches):
        rate = count / seconds(kernels, rounds)
    alone = count / statistics.median(launches[2:])
    torch_rate = in_torch[0] / seconds(in_torch[1], max(2, rounds // 3))
    cpu_rate = on_cpu[0] / seconds(on_cpu[1], max(2, rounds // 3))
    print(f"{title}: first call {first:.1f} s", file=sys.stderr)
    a, b, c, d = (f"{x / 1e3:,.1f}" for x in (rate, alone, torch_rate, cpu_rate))
    if recursion is None:
        return f"| {title} | {a} | {b} | | | {c} | {d} |\n"
    bound = speed / bytes_of(recursion, n, itemsize)
    return f"| {title} | {a} | {b} | {alone / bound:.0%} | {bound / 1e3:,.1f} | {c} | {d} |\n"


class timed_launches:
    """Every launch is waited for and timed by events of CUDA."""

    def __init__(self, into: list[float]) -> None:
        self.into, self.launch = into, DeviceEngine._launch

    def __enter__(self) -> None:
        launch, into = self.launch, self.into

        def timed(engine: DeviceEngine, *arguments: object) -> None:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            launch(engine, *arguments)
            end.record()
            end.synchronize()
            into.append(start.elapsed_time(end) / 1e3)

        DeviceEngine._launch = timed

    def __exit__(self, *_: object) -> None:
        DeviceEngine._launch = self.launch


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="fewer sentences: does everything run?")
    quick = options.parse_args().quick
    if not torch.cuda.is_available():
        print("There is no device of CUDA here, so nothing was measured.")
        return
    device = torch.device("cuda", torch.cuda.current_device())
    if launcher_for(device) is None:
        print("cuda-python is not installed, or the device is too old, so nothing was measured: pip install '.[gpu]'.")
        return
    print(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    for part in (*agreement(device), "\n", *throughput(device, quick)):
        print(part, end="", flush=True)


if __name__ == "__main__":
    main()
