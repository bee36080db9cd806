# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Distance classes in the DMV: lists of trees in plain Python, and the DMV where distance is its valence."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro.infer import Trace_ELBO
from torch import Tensor

from pyrogram import DMV
from pyrogram.collapsed import CollapsedUpdates
from pyrogram.distributions import Sentence
from pyrogram.grammars import DistanceDMV
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from pyrogram.recursion import TorchEngine
from pyrogram.testing import GrammarCase, check_grammar, chi_square

WORDS = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 0, 1, -1], [1, 0, 0, -1, -1], [1, -1, -1, -1, -1]])
CASES = [((1,), False), ((1, 2, 4), False), ((1, 3), True), ((2, 3), True)]


STOP = 1
close = partial(torch.testing.assert_close, rtol=1e-6, atol=1e-6)


def projective(heads: tuple[int, ...]) -> bool:
    """Whether heads are a tree with one root in which everything between a word and its head is below the head."""
    n = len(heads)

    def above(word: int) -> list[int]:
        found = [word]
        while found[-1] and len(found) <= n:
            found.append(heads[found[-1] - 1])
        return found

    if heads.count(0) != 1 or any(len(above(m)) > n + 1 or 0 not in above(m) for m in range(1, n + 1)):
        return False
    return all(h in above(x) for m, h in enumerate(heads, 1) for x in range(min(h, m) + 1, max(h, m)) if h)


def events(heads: tuple[int, ...], words: list[int], widths: tuple[int, ...], by_distance: bool) -> list[Any]:
    """The events of a tree, head by head."""

    def below(word: int) -> list[int]:
        return [word, *itertools.chain(*(below(m) for m, h in enumerate(heads, 1) if h == word))]

    found: list[Any] = [("root", (words[heads.index(0)],))]
    for head, tag in enumerate(words, 1):
        for direction in (0, 1):
            side = [m for m, h in enumerate(heads, 1) if h == head and (m > head) == direction]
            reached = head
            for child in sorted(side, key=lambda m: abs(m - head)):
                distance = sum(abs(reached - head) >= width for width in widths)
                found.append(("stop", (tag, direction, distance, 0)))
                own = (tag, direction, distance) if by_distance else (tag, direction)
                found.append(("attach", (*own, words[child - 1])))
                reached = (max if direction else min)(below(child))
            distance = sum(abs(reached - head) >= width for width in widths)
            found.append(("stop", (tag, direction, distance, 1)))
    return found


@functools.cache
def trees(n: int) -> list[tuple[int, ...]]:
    return [heads for heads in itertools.product(range(n + 1), repeat=n) if projective(heads)]


def log_weights(grammar: DistanceDMV) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {n: torch.randn(*b.shape, generator=generator, dtype=torch.float64) for n, b in grammar.blocks.items()}


def enumerated(grammar: DistanceDMV, logs: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """log Z of each sentence, and the expected counts of all."""
    values = {name: table.detach().double().numpy() for name, table in logs.items()}
    log_z, counts = [], {name: np.zeros(block.shape) for name, block in grammar.blocks.items()}
    for row in words.tolist():
        sentence = [w for w in row if w >= 0]
        rows = [events(h, sentence, grammar.widths, grammar.distance_attach) for h in trees(len(sentence))]
        scores = torch.tensor([sum(values[name][index] for name, index in one) for one in rows], dtype=torch.float64)
        log_z.append(scores.logsumexp(0))
        for one, p in zip(rows, (scores - log_z[-1]).exp().tolist(), strict=True):
            for name, index in one:
                counts[name][index] += p
    return torch.stack(log_z), {name: torch.from_numpy(table) for name, table in counts.items()}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("widths, by_distance", CASES)
def test_log_z_counts_and_heads_against_all_trees(widths: tuple[int, ...], by_distance: bool) -> None:
    grammar = DistanceDMV(3, widths=widths, distance_attach=by_distance)
    logs = log_weights(grammar)
    log_z, counts = enumerated(grammar, logs, WORDS)
    found, expected = grammar.expected_counts(logs, WORDS)
    close(found, log_z)
    for name, table in counts.items():
        close(expected[name], table)
    other = TorchEngine(grammar.recursion).log_partition(
        {name: table[None].requires_grad_() for name, table in logs.items()},
        (WORDS >= 0).sum(-1),
        words={"w": WORDS.clamp_min(0)},
        sizes={"V": 3},
    )
    close(other, log_z)
    for words in ([0, 1, 2, 1], [2]):
        listed = grammar.derivation(None, torch.tensor(words), log_weights=logs).enumerate_support()
        heads = grammar.heads(listed)
        assert sorted(map(tuple, heads.tolist())) == sorted(trees(len(words)))
        for row, own in zip(listed.tolist(), heads.tolist(), strict=True):
            numbers = [grammar.number(*event) for event in events(tuple(own), words, widths, by_distance)]
            assert sorted(x for x in row if x >= 0) == sorted(numbers)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("by_distance", [False, True])
def test_arcs_and_the_tree_with_the_most_right_ones(by_distance: bool) -> None:
    grammar = DistanceDMV(3, widths=(1, 3), distance_attach=by_distance)
    logs, words = log_weights(grammar), WORDS[:1, :4]
    found = trees(4)
    rows = [events(heads, words[0].tolist(), (1, 3), by_distance) for heads in found]
    p = torch.tensor([sum(float(logs[name][index]) for name, index in row) for row in rows]).double().softmax(0)
    arcs = torch.zeros(5, 5, dtype=torch.float64)
    for heads, share in zip(found, p.tolist(), strict=True):
        for m, h in enumerate(heads, 1):
            arcs[h, m] += share
    close(grammar.arc_marginals(logs, words)[0], arcs)
    right = torch.stack([sum((arcs[h, m] for m, h in enumerate(heads, 1)), torch.zeros(())) for heads in found])
    assert grammar.mbr_heads(logs, words).tolist() == [list(found[int(right.argmax())])]
    assert grammar.mbr_heads(logs, words[0]).tolist() == list(found[int(right.argmax())])
    none = {**logs, "root": torch.full((3,), -torch.inf, dtype=torch.float64)}
    assert grammar.mbr_heads(none, WORDS[1:3]).tolist() == [[-1] * 5] * 2


@pytest.mark.parametrize("extended", [False, True])
def test_two_classes_are_the_dmv(extended: bool) -> None:
    grammar, other = DistanceDMV(3, distance_attach=extended), DMV(3, valence_attach=extended)
    assert {n: b.shape for n, b in grammar.blocks.items()} == {n: b.shape for n, b in other.blocks.items()}
    logs = log_weights(grammar)
    words = torch.randint(3, (20, 15), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(grammar.log_partition(logs, words), other.log_partition(logs, words))
    start = grammar.initial_weights(words, "harmonic")
    for name, w in other.initial_weights(words, "harmonic").items():
        torch.testing.assert_close(start[name], w)


@pytest.mark.slow
def test_battery() -> None:
    grammar = DistanceDMV(2, widths=(1, 2))
    R = grammar.num_events

    def parts(value: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(value.long() + 1, R + 1)[..., 1:].sum(-2).double()

    check_grammar(GrammarCase(grammar, torch.tensor([[0, 1], [1, -1]]), parts=parts))


# ---------------------------------------------------------------------- draws


@pytest.mark.parametrize("too_long", ["redraw", "truncate"])
def test_draws_are_as_probable_as_their_trees(too_long: Any) -> None:
    """Sentences of one, two and three words, which no truncation reaches, with their heads."""
    grammar = DistanceDMV(2, widths=(1, 2), distance_attach=True)
    weights = grammar.initial_weights(WORDS % 2, "random", seed=3)
    weights["stop"] = torch.tensor([[0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]).expand(2, 2, 3, 2)
    longest = 3 if too_long == "redraw" else 30
    words, heads = grammar.sample_trees(weights, (6000,), longest, too_long=too_long)
    assert words.shape == heads.shape == (6000, longest)
    seen = Counter(
        (tuple(w for w in s if w >= 0), tuple(h for h in row if h >= 0))
        for s, row in zip(words.tolist(), heads.tolist(), strict=True)
    )
    exact = {}
    for n in (1, 2, 3):
        for sentence, tree in itertools.product(itertools.product(range(2), repeat=n), trees(n)):
            used = events(tree, list(sentence), (1, 2), True)
            exact[sentence, tree] = math.prod(float(weights[block][index]) for block, index in used)
    observed, p = torch.tensor([seen[key] for key in exact]), torch.tensor(list(exact.values()))
    assert observed.sum() > 1400 and chi_square(observed, p / p.sum()) > 1e-4


def test_draws_of_several_weights() -> None:
    """Each sentence from its own; the first grammar has one word, and the second one more to the right."""
    grammar = DistanceDMV(2, widths=(1, 3))
    stop = torch.zeros(2, 2, 2, 3, 2)  # of two grammars
    stop[..., STOP] = 1
    stop[1, 0, 1, 0] = torch.tensor([1.0, 0.0])
    attach = torch.zeros(2, 2, 2)
    attach[..., 1] = 1
    weights = {"root": torch.tensor([1.0, 0.0]), "attach": attach, "stop": stop}
    words, heads = grammar.sample_trees(weights, (3, 2), 4)
    assert words.tolist() == [[[0, -1, -1, -1], [0, 1, -1, -1]]] * 3
    assert heads.tolist() == [[[0, -1, -1, -1], [0, 1, -1, -1]]] * 3
    stop[1, 1, 0, 0] = torch.tensor([1.0, 0.0])  # words without end, to the left of one another
    with pytest.raises(ValueError, match="in a row had more than 4 words"):
        grammar.sample_trees(weights, (3, 2), 4)
    words, heads = grammar.sample_trees(weights, (2,), 4, too_long="truncate")
    assert words.tolist() == [[0, -1, -1, -1], [0, 1, 1, 1]] and heads.tolist() == [[0, -1, -1, -1], [0, 3, 4, 1]]


# ---------------------------------------------------------------------- loops


def concentrations(loop: VariationalEM) -> dict[str, Tensor]:
    found: dict[str, Any] = dict(loop.posterior())
    return {name: getattr(site, "base_dist", site).concentration for name, site in found.items()}


def test_em_and_variational_bayes_against_all_trees() -> None:
    """One step: shares of expected counts; and posteriors from counts under the weights exp E[log w]."""
    grammar = DistanceDMV(3, widths=(1, 3), distance_attach=True)
    start = grammar.initial_weights(WORDS, "random", seed=0)
    logs = {name: w.log() for name, w in start.items()}
    log_z, counts = enumerated(grammar, logs, WORDS)
    em = EM(maximum_likelihood, initial_weights=start)
    em.run(WORDS, grammar, num_steps=1, progress=False)
    close(torch.tensor(em.history[0]), log_z.sum())
    for name, w in em.weights().items():
        total = counts[name].sum(-1, keepdim=True)
        close(torch.where(total > 0, w, 0.0), torch.where(total > 0, counts[name] / total, 0.0))
    vb = VariationalEM(dirichlet).run(WORDS, grammar, concentration=0.5, num_steps=2, progress=False)
    q = concentrations(vb)
    _, counts = enumerated(grammar, {k: x.digamma() - x.sum(-1, keepdim=True).digamma() for k, x in q.items()}, WORDS)
    vb.step(WORDS, grammar, concentration=0.5)
    for name, concentration in concentrations(vb).items():
        close(concentration, counts[name] + 0.5)
    for loop in (em, vb):
        loop.run(WORDS, grammar, num_steps=10, progress=False)
        assert len(loop.history) > 5 and (np.diff(loop.history) >= -1e-9).all()


def test_collapsed_sweeps_against_all_trees() -> None:
    grammar = DistanceDMV(3, widths=(1, 2))
    weights = {name: w.double() for name, w in grammar.initial_weights(WORDS, "random", seed=3).items()}
    updates = grammar.collapsed_updates(WORDS)
    assert type(updates) is not CollapsedUpdates
    log_z, counts = enumerated(grammar, {name: w.log() for name, w in weights.items()}, WORDS)
    found, _, expected = updates.expected_counts(weights)
    close(found, log_z)
    total = updates.total(expected)
    for name, table in counts.items():
        close(total[name], table)
    loop = CollapsedVB(dirichlet).run(WORDS, grammar, num_steps=4, progress=False)
    for block, w in loop.weights().items():
        close(w.sum(-1), torch.ones(grammar.blocks[block].shape[:-1]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TreeHastings, TreeGibbs])
def test_samplers_draw_from_the_collapsed_posterior(kind: Any) -> None:
    """Trees of one sentence, as often as prod B(f + alpha) / B(alpha) says."""
    grammar, sentence = DistanceDMV(2, widths=(1, 2), distance_attach=True), [0, 1, 0]
    log_joint = []
    for tree in trees(3):
        pseudo = {name: torch.full(block.shape, 0.3) for name, block in grammar.blocks.items()}
        for block, index in events(tree, sentence, (1, 2), True):
            pseudo[block][index] += 1
        log_joint.append(sum((c.lgamma().sum(-1) - c.sum(-1).lgamma()).sum() for c in pseudo.values()))
    exact = torch.stack([torch.as_tensor(x) for x in log_joint]).softmax(0)
    words, chain, seen = torch.tensor([sentence]), kind(dirichlet, seed=0), Counter[tuple[int, ...]]()
    chain.run(words, grammar, concentration=0.3, num_steps=20, progress=False)
    for _ in range(400):
        chain.step(words, grammar, concentration=0.3)
        seen[tuple(grammar.heads(chain.trees())[0].tolist())] += 1
    share = torch.tensor([seen[tree] for tree in trees(3)]) / 400
    assert ((share - exact).abs() < 5 * (exact * (1 - exact) / 100).sqrt()).all()  # worth 100 independent draws


def test_svi_against_all_trees() -> None:
    """The loss of weights that are parameters is -log Z, and its gradient minus the expected counts."""
    grammar = DistanceDMV(2, widths=(2,))
    words = WORDS[1:] % 2
    words[WORDS[1:] < 0] = -1
    start = grammar.initial_weights(words, "random", seed=1)
    pyro.clear_param_store()

    def model() -> None:
        w = {name: pyro.param(name, table.clone()) for name, table in start.items()}
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, w, validate_args=False), obs=words)

    loss = Trace_ELBO().differentiable_loss(model, lambda: None)
    log_z, counts = enumerated(grammar, {name: w.log() for name, w in start.items()}, words)
    close(torch.as_tensor(loss), -log_z.sum())
    gradients = torch.autograd.grad(loss, [pyro.param(name) for name in grammar.blocks])
    for (name, table), found in zip(counts.items(), gradients, strict=True):
        close(found * start[name], -table)


def test_what_is_no_tree_is_refused() -> None:
    grammar = DistanceDMV(2, widths=(1, 3))
    row = grammar.derivation(grammar.initial_weights(WORDS % 2, "uniform"), torch.tensor([0, 1])).argmax()
    assert grammar.heads(torch.full((2, 5), -1)).tolist() == [[-1], [-1]]
    for bad, message in (
        (row[1:], "does not begin with a root"),
        (row[:-1], r"has nothing\[\] after 2 words, not a stop"),
        (torch.cat([row, row]), "goes on after its last word, word 2"),
    ):
        with pytest.raises(ValueError, match=message):
            grammar.heads(bad)
    for widths in ((), (3, 1), (0, 1)):
        with pytest.raises(ValueError, match="widths must be"):
            DistanceDMV(2, widths=widths)
    with pytest.raises(TypeError, match=r"widths must be a sequence of numbers, such as \(3,\), not 3"):
        DistanceDMV(2, widths=3)  # type: ignore[arg-type]
    assert math.prod(grammar.blocks["stop"].shape) == 2 * 2 * 3 * 2 and repr(grammar) == "DistanceDMV(2, widths=(1, 3))"
    for block, axes in grammar.axes.items():
        assert tuple(map(len, axes.values())) == tuple(grammar.blocks[block].shape)
