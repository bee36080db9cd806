# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights of a recursion that are elements of a block: the end of a chain, and the roots of trees among the stops."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from own_grammars import blocks
from torch import Tensor

import pyrogram
from pyrogram import HMM
from pyrogram.distributions import Sentence
from pyrogram.distributions.state_sequence import chain
from pyrogram.grammars import RecursiveGrammar
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts

K, V = 2, 3
WORDS = torch.tensor([[0, 2, 1], [1, 0, -1], [2, -1, -1]])
SHAPES = blocks(initial=(K,), transition=(K, K + 1), emission=(K, V))
MOVES = np.arange(K, K + K * (K + 1)).reshape(K, K + 1)


def ending() -> RecursiveGrammar:
    """The columns of the transitions in another order than those of an HMM: the end comes first."""
    return RecursiveGrammar(SHAPES, chain(), V, where={"end": MOVES[:, :1], "transition": MOVES[:, 1:]})


def weights(seed: int = 0) -> dict[str, Tensor]:
    return {n: w.double() for n, w in ending().initial_weights(WORDS, "random", seed=seed).items()}


def listed(words: list[int], by_block: dict[str, Tensor]) -> dict[tuple[int, ...], float]:
    """All state sequences, with their weights."""
    found = {}
    for states in itertools.product(range(K), repeat=len(words)):
        total = by_block["initial"][states[0]] * by_block["transition"][states[-1], 0]
        for t, (x, word) in enumerate(zip(states, words, strict=True)):
            total = total * by_block["emission"][x, word]
            total = total * (by_block["transition"][states[t - 1], 1 + x] if t else 1)
        found[states] = float(total)
    return found


def states_of(grammar: RecursiveGrammar, row: list[int]) -> tuple[int, ...]:
    """The events of a row come with the last word first."""
    return tuple(index[0] for name, index in map(grammar.event, [x for x in row if x >= 0]) if name == "emission")[::-1]


def test_sums_counts_and_derivations_are_those_of_all_sequences() -> None:
    grammar, own = ending(), weights()
    logs = {n: w.log().requires_grad_() for n, w in own.items()}
    truth = [listed([w for w in row if w >= 0], own) for row in WORDS.tolist()]
    log_z = grammar.log_partition(logs, WORDS)
    torch.testing.assert_close(log_z.exp().detach(), torch.tensor([sum(t.values()) for t in truth]).double())
    gradients = torch.autograd.grad(log_z.sum(), list(logs.values()))
    detached = {n: w.detach() for n, w in logs.items()}
    _, counts = grammar.expected_counts(detached, WORDS)
    _, each = grammar.sentence_counts({n: w.expand(3, *w.shape) for n, w in detached.items()}, WORDS)
    for (name, c), gradient in zip(counts.items(), gradients, strict=True):
        torch.testing.assert_close(c, gradient)
        torch.testing.assert_close(each[name].sum(0), gradient)
    law = grammar.derivation(own, WORDS)
    rows, log_probs = law.top_k(2)
    for b, sequences in enumerate(truth):
        ordered = sorted(sequences.values(), reverse=True)
        for k in range(2):
            assert math.exp(float(log_probs[k, b])) == pytest.approx(ordered[k] / sum(ordered))
            assert sequences[states_of(grammar, rows[k, b].tolist())] == pytest.approx(ordered[k])
        every = grammar.derivation(own, WORDS[b][WORDS[b] >= 0]).enumerate_support()
        assert {states_of(grammar, row) for row in every.tolist()} == set(sequences)
    drawn = law.sample((400,))
    assert bool(law.support.check(drawn).all()) and bool((law.counts(drawn)["transition"][..., 0].sum(-1) == 1).all())
    for b, sequences in enumerate(truth):
        shares = [sequences[states_of(grammar, row)] / sum(sequences.values()) for row in drawn[:, b].tolist()]
        torch.testing.assert_close(law.log_prob(drawn)[:, b].exp(), torch.tensor(shares).double())
    assert law.item_counts(drawn[0], "end")["end"].sum().item() == 3
    best = grammar.mbr(detached, WORDS, "emission")
    assert bool(law.support.check(best).all())


def test_it_is_a_hidden_markov_model_with_its_columns_in_another_order() -> None:
    own, other = weights(), HMM(K, V)
    same = {**own, "transition": own["transition"].roll(-1, 1)}
    one, two = Sentence(ending(), own), Sentence(other, same)
    torch.testing.assert_close(one.log_prob(WORDS), two.log_prob(WORDS))
    assert (
        ending().identity
        != RecursiveGrammar(SHAPES, chain(), V, where={"end": MOVES[:, K:], "transition": MOVES[:, :K]}).identity
    )


def test_sweeps_agree_with_plain_torch() -> None:
    grammar = ending()
    alpha = {n: torch.rand(b.shape).double() + 0.1 for n, b in grammar.blocks.items()}
    results: list[list[Tensor]] = []
    for updates in (grammar.collapsed_updates(WORDS), CollapsedUpdates(grammar, WORDS)):
        log_z, entropies, own = updates.expected_counts(weights())
        corpus = CorpusCounts(updates.total(own), alpha)
        more, own = updates.collapsed_vb(corpus, own, torch.tensor([2, 0, 1]), 2)
        results.append([log_z, entropies, more, *corpus.counts.values(), *updates.total(own).values()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    updates = grammar.collapsed_updates(WORDS)
    trees = updates.draw({n: w.log() for n, w in weights().items()})
    corpus = CorpusCounts(updates.counts(trees), alpha)
    for seed in range(4):
        updates.hastings(corpus, trees, torch.arange(3), 2, generator=torch.Generator().manual_seed(seed))
    for name, c in updates.counts(trees).items():
        torch.testing.assert_close(c, corpus.counts[name])
    assert bool(grammar.derivation(weights(), WORDS).support.check(trees).all())


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"end": MOVES[:, :1] + 99, "transition": MOVES[:, 1:]}, r"where\['end'\] must be numbers of events, 0..13"),
        ({"end": MOVES[:, :1] * 0.5, "transition": MOVES[:, 1:]}, r"where\['end'\] must be numbers of events"),
        ({"end": [[0], [2]], "transition": MOVES[:, 1:]}, r"where\['end'\] must be events of one block"),
        ({"end": MOVES[:, 1:2], "transition": MOVES[:, 1:]}, "must be one element of the recursion's weights at most"),
        ({"end": [[0], [1, 2]], "transition": MOVES[:, 1:]}, "must be an array, but its rows differ in length"),
        ({"end": [[0], [1]], "initial": [8, 9]}, "must be one element of the recursion's weights at most"),
        ({"end": MOVES[:, :1]}, r"must have the shape of the weight|one element of the recursion's weights"),
    ],
)
def test_what_does_not_fit_is_refused(where: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RecursiveGrammar(SHAPES, chain(), V, where=where)


def test_a_block_without_an_event_is_refused() -> None:
    with pytest.raises(ValueError, match="block 'more' has no event in chain, whose weights are"):
        more = {**SHAPES, **blocks(more=(2,))}
        RecursiveGrammar(more, chain(), V, where={"end": MOVES[:, :1], "transition": MOVES[:, 1:]})


def unused() -> tuple[RecursiveGrammar, int]:
    """A chain whose block of transitions has one more column, whose events no table has."""
    shapes = {**SHAPES, **blocks(transition=(K, K + 2))}
    moves = np.arange(K, K + K * (K + 2)).reshape(K, K + 2)
    grammar = RecursiveGrammar(shapes, chain(), V, where={"end": moves[:, :1], "transition": moves[:, 1 : K + 1]})
    return grammar, int(moves[0, K + 1])


def test_a_row_with_an_event_of_no_rule_is_no_derivation() -> None:
    grammar, event = unused()
    own = grammar.initial_weights(WORDS, "random", seed=0)
    law = grammar.derivation(own, WORDS[:1])
    rows = law.enumerate_support()
    assert law.log_prob(rows).exp().sum().item() == pytest.approx(1)
    updates, logs = grammar.collapsed_updates(WORDS[:1]), {n: w.log() for n, w in own.items()}
    for row in rows[:, 0]:
        for place in (row >= 0).nonzero()[:, 0].tolist():
            other = row.clone()
            other[place] = event
            assert not bool(law.support.check(other))
            known = grammar.sentences(WORDS[:1], {"derivations": other[None]})
            assert grammar.log_partition(logs, known).item() == -math.inf
            with pytest.raises(ValueError, match="some have an event that no rule has"):
                updates.counts(other[None])


def test_inference_mode_leaves_nothing_behind() -> None:
    reordered = RecursiveGrammar(SHAPES, chain(), V, where={"end": MOVES[:, :1], "transition": MOVES[:, :0:-1]})
    logs = {n: w.log() for n, w in weights().items()}
    with torch.inference_mode():
        expected = reordered.log_partition(logs, WORDS)
    logs["transition"].requires_grad_()
    (gradient,) = torch.autograd.grad(reordered.log_partition(logs, WORDS).sum(), logs["transition"])
    assert bool((gradient >= 0).all()) and gradient.sum().item() == pytest.approx(6)
    assert bool(expected.isfinite().all())


@pyrogram.recursion.recursion
def stopping(p: Any) -> None:
    """Words one after the other; after each it goes on, or stops: two weights without axes."""
    t, w = p.positions("t"), p.words("w")
    F, Z, go, stop, emission = (
        p.items("F"),
        p.items("Z"),
        p.weights("go"),
        p.weights("stop"),
        p.weights("emission", "V"),
    )
    F[1] += emission[w[1]]
    F[t] += F[t - 1] * go[()] * emission[w[t]]
    Z[()] += F[p.n] * stop[()]


def test_weights_without_axes() -> None:
    grammar = RecursiveGrammar(blocks(choice=(2,), emission=(V,)), stopping(), V, where={"go": 1, "stop": 0})
    own = {"choice": torch.tensor([0.3, 0.7]).double(), "emission": torch.tensor([0.2, 0.5, 0.3]).double()}
    logs = {n: w.log() for n, w in own.items()}
    expected = torch.tensor([0.2 * 0.3 * 0.5 * 0.7**2 * 0.3, 0.5 * 0.2 * 0.7 * 0.3, 0.3 * 0.3]).double()
    torch.testing.assert_close(grammar.log_partition(logs, WORDS).exp(), expected)
    log_z, counts = grammar.expected_counts(logs, WORDS)
    torch.testing.assert_close(counts["choice"], torch.tensor([3.0, 3.0]).double())
    law = grammar.derivation(own, WORDS)
    torch.testing.assert_close(law.log_prob(law.argmax()), torch.zeros(3).double())
    for updates in (grammar.collapsed_updates(WORDS), CollapsedUpdates(grammar, WORDS)):
        mean, _, scores = updates.expected_counts(own)
        torch.testing.assert_close(mean, expected.log())
        torch.testing.assert_close(updates.total(scores)["choice"], counts["choice"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recursion": chain}, "recursion must be what a page returns"),
        ({"blocks": {**SHAPES, "initial": (K,)}}, "block 'initial' must be Block"),
        ({"where": [1, 2]}, "where must be arrays of events by weight, not list"),
    ],
)
def test_kinds_of_arguments_are_told(change: dict[str, Any], message: str) -> None:
    arguments = {"blocks": SHAPES, "recursion": chain(), "where": {"end": MOVES[:, :1], "transition": MOVES[:, 1:]}}
    with pytest.raises(TypeError, match=message):
        RecursiveGrammar(num_words=V, **{**arguments, **change})


def test_state_sequences_have_evidence_on_states_alone() -> None:
    grammar, own = HMM(K, V), HMM(K, V).initial_weights(WORDS, "random")
    scores = torch.randn(3, 4, K)
    law = grammar.derivation(own, WORDS, evidence={"F": scores})
    logs = {n: w.log() for n, w in own.items()}
    torch.testing.assert_close(law.log_partition, grammar.log_partition(logs, WORDS, evidence={"F": scores}))
    with pytest.raises(ValueError, match="on states, the items F, alone, not on end"):
        grammar.derivation(own, WORDS, evidence={"F": scores, "end": torch.zeros(3, 4, K, 1)})
    with pytest.raises(ValueError, match=r"evidence on F must have shape \(\*batch, 4, 2\), not \(3, 3, 2\)"):
        grammar.derivation(own, WORDS, evidence={"F": scores[:, 1:]})
