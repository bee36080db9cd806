# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which of several fitted models parses better, and how sure it is."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from pyrogram.choices import DECODERS, Decoder, best, check_choice
from pyrogram.grammar import Grammar
from pyrogram.infer.loops.base import GrammarLoop
from pyrogram.metrics import Bootstrap, SignTest, accuracy_by_length, paired_bootstrap, sign_test
from pyrogram.trees import lengths_of

Run = Tensor | GrammarLoop[Any, Any]
_SENTENCES = 64  # of like lengths, that are parsed at a time


@dataclass(frozen=True)
class Difference:
    """Directed accuracy of one run minus that of another, as fractions.

    :param first: name of the one.
    :param second: name of the other.
    :param starts: the difference of each start.
    :param bootstrap: of the mean over starts, by resampling sentences.
    :param words: sign test over words, see :func:`pyrogram.metrics.sign_test`.
    :param sentences: sign test over sentences.
    """

    first: str
    second: str
    starts: tuple[float, ...]
    bootstrap: Bootstrap
    words: SignTest
    sentences: SignTest


@dataclass(frozen=True)
class Comparison:
    """Accuracies of runs, and the difference of every two; ``print`` shows both, in percent.

    :param accuracies: directed accuracy of each start, by name.
    """

    accuracies: Mapping[str, tuple[float, ...]]
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        names = [f"{d.first} - {d.second}" for d in self.differences]
        width = max(map(len, [*names, *self.accuracies]))
        lines = [f"{'':{width}}  directed  starts"]
        for name, values in self.accuracies.items():
            lines.append(f"{name:{width}}{_mean(values):>10}{len(values):>8}{_spread(values)}")
        if self.differences:
            interval = f"{100 * self.differences[0].bootstrap.confidence:g}% interval"
            columns = f"difference{interval:>16}       p  higher         words       p     sentences       p"
            lines += ["", f"{'':{width}}  {columns}"]
        for name, d in zip(names, self.differences, strict=True):
            b, higher = d.bootstrap, f"{sum(gap > 0 for gap in d.starts)}/{len(d.starts)}"
            line = (
                f"{name:{width}}{100 * b.difference:>+12.1f}{100 * b.low:>+8.1f}{100 * b.high:>+8.1f}{b.p_value:>8.2g}"
            )
            line += f"{higher:>8}"
            for test in (d.words, d.sentences):
                line += f"{f'+{test.better} -{test.worse}':>14}{test.p_value:>8.2g}"
            lines.append(line + _spread(d.starts))
        return "\n".join(lines)


def compare(
    runs: Mapping[str, Run | Sequence[Run]],
    gold: Tensor,
    words: Tensor | None = None,
    grammar: Grammar | None = None,
    *,
    scored: Tensor | None = None,
    decoder: Decoder = "mbr",
    smoothing: float = 1e-4,
    samples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare parsers on the same test sentences, every two of them by paired bootstrap and by sign test.

    A difference over several starts is paired by start: start i of one run with start i of the other. Interval and
    tests speak of other test sentences. Other starts are another matter: see the spread of the differences, which is
    printed behind them, and in how many starts they are positive.

    >>> gold = torch.tensor([[2, 0, 2], [0, 1, -1]])
    >>> chains = pyrogram.metrics.attach_right(torch.tensor([3, 2]))
    >>> comparison = compare({"gold": gold, "attach-right": chains}, gold, samples=100)
    >>> comparison.accuracies
    {'gold': (1.0,), 'attach-right': (0.2,)}
    >>> comparison.differences[0].words
    SignTest(better=4, worse=0, p_value=0.125)

    :param runs: by name, a loop that has run, whose point estimate ``weights()`` parses ``words``; or predicted heads,
        shape ``(N, n)``; or several starts: a sequence of these, or heads of shape ``(S, N, n)``.
    :param gold: heads, shape ``(N, n)``, padded with -1.
    :param words: the sentences, shape ``(N, n)``, padded with -1, which loops parse.
    :param grammar: the one that loops have learnt, such as a :class:`~pyrogram.DMV`.
    :param scored: which words count, shape ``(N, n)``; None: all of them.
    :param decoder: of loops: ``"mbr"``, the most expected right heads, or ``"viterbi"``, the most probable tree.
    :param smoothing: weight of the uniform distribution that is mixed into every multinomial of a loop, so that an
        event unseen in training does not make a sentence impossible.
    :param samples: of the bootstrap, and its ``seed``.
    :raises ValueError: for a loop without ``words`` and ``grammar``, heads of other sentences, and numbers of starts
        that differ, unless one of two runs has a single start.
    """
    check_choice("decoder", decoder, DECODERS)
    heads: dict[str, Tensor] = {}
    for name, run in runs.items():
        single = isinstance(run, GrammarLoop) or (isinstance(run, Tensor) and run.dim() == 2)
        starts: list[Run] = [run] if single else list(run)  # type: ignore[arg-type, list-item]
        if not starts:
            raise ValueError(f"run {name!r} has no starts; give a loop, or heads, or a sequence of these.")
        parsed = []
        for start in starts:
            if isinstance(start, GrammarLoop):
                if words is None or grammar is None:
                    raise ValueError(f"run {name!r} is a loop, which has sentences to parse: give words and grammar.")
                start = _parse(start, words, grammar, decoder, smoothing)
            parsed.append(start)
        heads[name] = torch.stack(parsed)
    accuracies = {name: tuple(_accuracy(h, gold, scored) for h in starts) for name, starts in heads.items()}
    differences = []
    for first, second in combinations(heads, 2):
        pair = heads[first], heads[second], gold, scored
        bootstrap = paired_bootstrap(*pair, samples=samples, seed=seed)  # refuses starts that make no pairs
        count = max(len(heads[first]), len(heads[second]))
        ours, theirs = (accuracies[name] * (count // len(heads[name])) for name in (first, second))
        gaps = tuple(a - b for a, b in zip(ours, theirs, strict=True))
        tests = sign_test(*pair), sign_test(*pair, unit="sentences")
        differences.append(Difference(first, second, gaps, bootstrap, *tests))
    return Comparison(accuracies, tuple(differences))


def _parse(
    loop: GrammarLoop[Any, Any],
    words: Tensor,
    grammar: Grammar,
    decoder: Decoder,
    smoothing: float,
) -> Tensor:
    """Heads by a loop's point estimate, padded with -1, of a few sentences at a time: charts are large."""
    weights = {}
    for name, w in loop.weights().items():
        weights[name] = (1 - smoothing) * w + smoothing * grammar.blocks[name].uniform(w)
    heads, lengths = torch.full_like(words, -1), lengths_of(words)
    with torch.no_grad():
        for rows in lengths.argsort().split(_SENTENCES):
            n = int(lengths[rows].max())
            heads[rows, :n] = best(grammar.derivation(weights, words[rows, :n]), decoder)
    return heads


def _accuracy(heads: Tensor, gold: Tensor, scored: Tensor | None) -> float:
    (accuracy,) = accuracy_by_length(heads, gold, (None,), scored)
    if accuracy.directed is None:
        raise ValueError("gold must hold at least one word that counts, got none.")
    return accuracy.directed


def _mean(values: Sequence[float]) -> str:
    return f"{100 * statistics.fmean(values):.1f}"


def _spread(values: Sequence[float]) -> str:
    return f"  ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
