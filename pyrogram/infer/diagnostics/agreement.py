# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What many runs of one induction agree on: the trees of their averaged posteriors, and how many modes they fall into.

One run of many is picked by its objective, which knows little of accuracy. An average of the best of them picks none.
Posteriors are averaged, not weights: trees mean the same in all runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyrogram.distributions import ProjectiveDependencyTree, Sentence
from pyrogram.grammar import Grammar
from pyrogram.infer.loops.base import GrammarLoop
from pyrogram.metrics import directed_accuracy
from pyrogram.metrics.significance import rank_correlation
from pyrogram.printable import plural
from pyrogram.trees import lengths_of

_SENTENCES = 64  # of like lengths, that are parsed at a time


@dataclass(frozen=True)
class Consensus:
    """The trees that runs agree on.

    :param heads: the trees with the most expected right heads under the averaged posterior, shape ``(N, n)``, padded
        with -1.
    :param marginals: the averaged posterior probability of every arc, shape ``(N, n+1, n+1)`` [head, dependent].
    :param kept: numbers of the runs that were averaged, the one of best objective first.
    :param modes: of every run the number of its mode, from 0; modes are numbered by their best objective.
    :param correlation: Spearman's between objective and accuracy of runs; None without gold heads, or where one of
        them is constant.
    """

    heads: Tensor
    marginals: Tensor
    kept: tuple[int, ...]
    modes: tuple[int, ...]
    correlation: float | None = None

    @property
    def num_modes(self) -> int:
        """How many modes the runs fell into."""
        return len(set(self.modes))


def consensus(
    runs: Sequence[GrammarLoop[Any, Any]],
    words: Tensor,
    grammar: Grammar,
    *,
    keep: float = 0.25,
    same: float = 0.95,
    gold: Tensor | None = None,
) -> Consensus:
    """Average the arc posteriors of the best runs, and count the modes of all.

    Two runs are in one mode if their trees, those of minimum Bayes risk, agree on the share ``same`` of all heads, or
    if a chain of such runs joins them.

    :param runs: loops that have run, on one corpus, with one model of ``grammar`` whose sites have the blocks' names.
    :param words: sentences to parse, shape ``(N, n)``, padded with -1.
    :param grammar: a grammar of dependency trees, perhaps tilted by a bias of these sentences.
    :param keep: share of the runs that are averaged, those of best objective; at least one.
    :param gold: gold heads, shape ``(N, n)``, to see whether the objective knows of accuracy.
    :raises ValueError: if there is no run, or a share is none.
    """
    if not runs or not 0 < keep <= 1 or not 0 < same <= 1:
        raise ValueError(
            f"consensus needs runs, and shares in (0, 1], not {plural(len(runs), 'run')}, {keep=} and {same=}."
        )
    objectives = [run.history[-1] for run in runs]
    ranked = sorted(range(len(runs)), key=lambda r: -objectives[r])
    kept = tuple(ranked[: math.ceil(keep * len(runs))])
    N, n = words.shape
    total = torch.zeros(N, n + 1, n + 1, dtype=torch.float64)
    trees = []
    for number, run in enumerate(runs):
        marginals, heads = _posterior(Sentence(grammar, run.weights()), words)
        trees.append(heads)
        if number in kept:
            total += marginals / len(kept)
    modes = _modes(trees, ranked, same)
    correlation = None
    if gold is not None and len(runs) > 1:
        correlation = rank_correlation(objectives, [directed_accuracy(heads, gold) for heads in trees])
    heads = _most_expected(total, lengths_of(words))
    return Consensus(heads, total, kept, modes, correlation)


def _posterior(sentences: Sentence, words: Tensor) -> tuple[Tensor, Tensor]:
    """The marginals of arcs, and the trees of minimum Bayes risk."""
    with torch.no_grad():
        trees: Any = sentences.derivation(words)
        marginals = trees.marginals().double()
    return marginals, _most_expected(marginals, lengths_of(words))


def _most_expected(marginals: Tensor, lengths: Tensor) -> Tensor:
    """The tree of each sentence with the greatest sum of marginals, shape ``(N, n)``, padded with -1."""
    heads = torch.full(marginals.shape[:-2] + (marginals.shape[-1] - 1,), -1)
    for chunk in lengths.argsort().split(_SENTENCES):
        n = int(lengths[chunk].max())
        of_chunk = marginals[chunk, : n + 1, : n + 1]
        trees = ProjectiveDependencyTree(of_chunk, lengths=lengths[chunk], valence=False, validate_args=False)
        heads[chunk, :n] = trees.argmax()
    return heads


def _modes(trees: Sequence[Tensor], ranked: Sequence[int], same: float) -> tuple[int, ...]:
    """The mode of each run, numbered in the order of their best runs."""
    import networkx as nx  # on demand, as in :mod:`pyrogram.data.export`

    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(ranked)
    for a in ranked:
        real = trees[a] >= 0
        for b in ranked:
            if a < b and float((trees[a] == trees[b])[real].double().mean()) >= same:
                graph.add_edge(a, b)
    components = list(nx.connected_components(graph))
    order = sorted(components, key=lambda runs: min(ranked.index(r) for r in runs))
    number = {run: i for i, component in enumerate(order) for run in component}
    return tuple(number[run] for run in range(len(trees)))
