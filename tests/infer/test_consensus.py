# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Consensus of runs: averages over all trees of short sentences, and modes of runs that are put where they are."""

from functools import partial

import pytest
import torch
from oracle import all_trees
from torch import Tensor

from pyrogram import DMV
from pyrogram.grammar import Weights
from pyrogram.infer import VariationalEM, consensus
from pyrogram.models.dirichlet import dirichlet

WORDS = torch.tensor([[0, 1, 0], [1, 0, -1]])


def runs(count: int) -> tuple[DMV, list[VariationalEM]]:
    """Runs of a step from random weights."""
    grammar = DMV(2)
    model = partial(dirichlet, grammar=grammar)
    found = []
    for seed in range(count):
        start = grammar.initial_weights(WORDS, "random", seed=seed)
        found.append(VariationalEM(model, initial_weights=start).run(WORDS, num_steps=1, progress=False))
    return grammar, found


def by_enumeration(grammar: DMV, weights: Weights, words: Tensor) -> Tensor:
    """Marginals of arcs of one sentence, by the probabilities of all trees."""
    n = int((words >= 0).sum())
    trees = [torch.tensor(heads) for heads in all_trees(n, False)]
    logs = []
    for heads in trees:
        counts = grammar.counts(words[:n], heads)
        logs.append(sum((counts[name] * weights[name].log()).sum() for name in counts))
    found = torch.zeros(len(words) + 1, len(words) + 1)
    for heads, p in zip(trees, torch.tensor(logs).softmax(0), strict=True):
        found[heads, torch.arange(1, n + 1)] += p
    return found


def test_the_best_runs_are_averaged() -> None:
    grammar, loops = runs(5)
    best = sorted(range(5), key=lambda r: -loops[r].history[-1])[:2]
    found = consensus(loops, WORDS, grammar, keep=0.4)
    assert found.kept == tuple(best)
    for row, heads, words in zip(found.marginals, found.heads, WORDS, strict=True):
        expected = sum(by_enumeration(grammar, loops[r].weights(), words) for r in best) / 2
        torch.testing.assert_close(row, expected)
        n = int((words >= 0).sum())
        risk = {t: sum(float(row[h, c]) for c, h in enumerate(t, 1)) for t in map(tuple, all_trees(n, False))}
        assert risk[tuple(heads[:n].tolist())] == pytest.approx(max(risk.values())) and (heads[n:] == -1).all()


def test_a_tilted_grammar() -> None:
    grammar, loops = runs(1)
    found = consensus(loops, WORDS, grammar.tilted({"root": torch.tensor([0.0, 50.0])}))
    assert (found.heads[0] == 0).nonzero().flatten().tolist() == [1]


class Fixed(VariationalEM):
    """A run that has come to given weights and a given objective."""

    def __init__(self, weights: Weights, objective: float) -> None:
        super().__init__(dirichlet)
        self.history.append(objective)
        self._fixed = weights

    def weights(self) -> Weights:
        return self._fixed


def rooted(tag: int) -> Weights:
    """Weights under which the root has a tag, nearly always."""
    weights = DMV(2).initial_weights(WORDS, "uniform")
    weights["root"] = torch.tensor([0.999, 0.001] if tag == 0 else [0.001, 0.999])
    return weights


def test_modes_are_numbered_by_their_best_run() -> None:
    """Roots of the second sentence and others tell the modes apart."""
    loops = [Fixed(rooted(0), -3.0), Fixed(rooted(1), -1.0), Fixed(rooted(0), -2.0), Fixed(rooted(1), -4.0)]
    found = consensus(loops, WORDS, DMV(2))
    assert found.modes == (1, 0, 1, 0) and found.num_modes == 2 and found.kept == (1,)


def test_does_the_objective_know_of_accuracy() -> None:
    loops = [Fixed(rooted(0), -3.0), Fixed(rooted(1), -1.0)]
    right = consensus(loops[1:], WORDS, DMV(2)).heads
    assert consensus(loops, WORDS, DMV(2), gold=right).correlation == pytest.approx(1.0)
    wrong = consensus(loops[:1], WORDS, DMV(2)).heads
    assert consensus(loops, WORDS, DMV(2), gold=wrong).correlation == pytest.approx(-1.0)
    assert consensus(loops, WORDS, DMV(2)).correlation is None


@pytest.mark.parametrize("options", [{"keep": 0.0}, {"same": 1.5}])
def test_shares_are_shares(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"shares in \(0, 1\]"):
        consensus([Fixed(rooted(0), 0.0)], WORDS, DMV(2), **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not 0 runs"):
        consensus([], WORDS, DMV(2))
