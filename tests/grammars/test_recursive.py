# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars that are their recursions, beyond lists of derivations and the battery: rows, what is refused, NaN."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from own_grammars import LISTS, blocks, cnf, dmv, hmm, listed, of_lengths, words_of_items
from torch import Tensor

from pyrogram import Grammar
from pyrogram.grammars import RecursiveGrammar
from pyrogram.infer import VariationalEM
from pyrogram.models.logistic_normal import logistic_normal
from pyrogram.recursion import Derivations, Grounded, recursion

WORDS = torch.tensor([[0, 1, 0], [1, 0, -1], [1, -1, -1], [0, 0, 1]])
GRAMMARS: dict[str, tuple[Callable[[], RecursiveGrammar], Tensor]] = {
    "DMV with three valences": (lambda: dmv(3, 2), WORDS),
    "HMM": (lambda: hmm(2, 2), WORDS),
    "PCFG": (lambda: cnf(2, 2), WORDS),
    "comparisons with numbers": (lambda: of_lengths(2, 2), WORDS),
    "items at words": (lambda: words_of_items(2, 2), WORDS),
    "PCFG as a list of rules": (listed, WORDS[[0, 2, 3]]),
}


def log_weights(grammar: Grammar, batch: tuple[int, ...] = (), seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(*batch, *block.shape, generator=generator, dtype=torch.float64)
        for name, block in grammar.blocks.items()
    }


def corpus(num_words: int, seed: int = 0) -> Tensor:
    """Random sentences of one to eight words."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(num_words, (20, 8), generator=generator)
    return torch.where(torch.arange(8) < torch.randint(1, 9, (20, 1), generator=generator), words, -1)


@pytest.mark.parametrize("name", ["PCFG", "HMM", "items at words"])
def test_the_divergence_of_derivations(name: str) -> None:
    make, words = GRAMMARS[name]
    grammar, sentence = make(), words[:1]
    p, q = (grammar.derivation(None, sentence, log_weights=log_weights(grammar, seed=seed)) for seed in (0, 1))
    support = p.enumerate_support()
    own, other = p.log_prob(support), q.log_prob(support)
    torch.testing.assert_close(own.exp().sum(0), torch.ones_like(own[0]))
    torch.testing.assert_close(torch.distributions.kl_divergence(p, q), (own.exp() * (own - other)).sum(0))
    shorter = grammar.derivation(None, sentence[:, :2], log_weights=log_weights(grammar))
    with pytest.raises(NotImplementedError, match="different sentences"):
        torch.distributions.kl_divergence(p, shorter)


# ---------------------------------------------------------------------- derivations


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", GRAMMARS)
def test_rows_are_the_derivations_of_the_interpreter(name: str) -> None:
    """Its list, with the weights of each; and other rows are refused."""
    make, words = GRAMMARS[name]
    grammar = make()
    generator = torch.Generator().manual_seed(0)
    for row in words:
        sentence = [w for w in row.tolist() if w >= 0]
        sizes = {"T": 2, "S": 2, "W": 2, "R": 3}
        grounded = Grounded(grammar.recursion, len(sentence), sizes=sizes, lists=LISTS, words={"w": sentence})
        ones: dict[str, Any] = {block: lambda *index: 1.0 for block in grammar.blocks}
        listed = grounded.goal(Derivations(), ones)
        truth = Counter(tuple(sorted(grammar.number(*key) for key in keys)) for _, keys in listed)
        traces = grammar.traces(sentence)
        rows = traces.rows()
        assert Counter(tuple(sorted(x)) for x in rows) == truth
        assert max(map(len, rows)) <= grammar.longest(len(sentence))
        assert all(traces.ways(x) == 1 for x in rows)
        for x in rows[:5]:
            place, event = (
                torch.randint(len(x), (), generator=generator),
                torch.randint(grammar.num_events, (), generator=generator),
            )
            wrong = (*x[:place], int(event), *x[place + 1 :])
            assert traces.ways(wrong) == (wrong in rows)
            assert traces.ways(x[:-1]) == 0 and traces.ways((*x, 0)) == 0
            assert traces.ways((grammar.num_events, *x[1:])) == 0


def test_identities_tell_grammars_apart() -> None:
    assert len({make().identity for make, _ in GRAMMARS.values()}) == len(GRAMMARS)
    assert listed().identity == listed().identity


def test_events_have_names() -> None:
    grammar = dmv(3, 2)
    assert grammar.event(0) == ("root", (0,)) and grammar.event(grammar.num_events - 1) == ("stop", (1, 1, 2, 1))
    assert all(grammar.number(*grammar.event(x)) == x for x in range(grammar.num_events))
    for wrong in (-1, grammar.num_events):
        with pytest.raises(ValueError, match=rf"events are 0\.\.{grammar.num_events - 1}, and {wrong} is none"):
            grammar.event(wrong)


def test_one_row_of_two_derivations_is_refused() -> None:
    """Two ways through weightless rules, which events do not tell apart."""

    @recursion
    def twice(p: Any) -> None:
        t = p.positions("t")
        A, B, Z = p.items("A B Z")
        w = p.words("w")
        word = p.weights("word", "V")
        A[t] += word[w[t]] * (t <= 1)
        B[t] += word[w[t]] * (t <= 1)
        Z[()] += A[p.n] + B[p.n]

    grammar = RecursiveGrammar(blocks(word=(2,)), twice(), 2)
    d = grammar.derivation({"word": torch.tensor([0.5, 0.5])}, torch.tensor([0]))
    torch.testing.assert_close(d.log_partition, torch.tensor(0.0))
    with pytest.raises(NotImplementedError, match="two derivations have the same events in the same order"):
        d.enumerate_support()
    assert not d.support.check(torch.tensor([0]))


def test_too_many_to_enumerate() -> None:
    grammar = dmv(3, 2)
    d = grammar.derivation(grammar.initial_weights(WORDS, "uniform"), torch.zeros(20).long())
    with pytest.raises(NotImplementedError, match="too many derivations to enumerate, about"):
        d.enumerate_support()


def test_values_that_are_no_derivations() -> None:
    grammar = dmv(3, 2)
    weights = grammar.initial_weights(WORDS, "uniform")
    d = grammar.derivation(weights, WORDS[0])
    value = d.argmax()
    assert d.support.check(value)
    others = {"other words": grammar.derivation(weights, WORDS[3]).argmax(), "a swap": value.flip(0), "none": value * 0}
    for wrong in others.values():
        assert not d.support.check(wrong)
        with pytest.raises(ValueError, match=r"values must be derivations of the words, but value 0, \[.*\], is none"):
            d.log_prob(wrong)
    with pytest.raises(ValueError, match=rf"values must be rows of events, 0\.\.{grammar.num_events - 1}"):
        d.counts(value + 1000)


def test_an_impossible_sentence_draws_nothing() -> None:
    grammar = dmv(3, 2)
    logs = {name: torch.full(block.shape, -torch.inf) for name, block in grammar.blocks.items()}
    d = grammar.derivation(None, WORDS, log_weights=logs)
    assert (d.log_partition == -torch.inf).all() and (d.entropy() == 0).all() and (d.argmax() == -1).all()
    with pytest.raises(ValueError, match="sentence 0 has no derivation of positive weight to sample"):
        d.sample()


# ---------------------------------------------------------------------- numbers


def test_nan_stays_nan() -> None:
    grammar = dmv(3, 2)
    logs = log_weights(grammar)
    logs["attach"][1, 0, 0] = torch.nan
    assert grammar.log_partition(logs, WORDS).isnan().all()
    assert grammar.expected_counts(logs, WORDS)[0].isnan().all()
    each = {name: w.expand(4, *w.shape).clone() for name, w in log_weights(grammar).items()}
    each["stop"][2] = torch.nan
    assert grammar.log_partition(each, WORDS).isnan().tolist() == [False, False, True, False]


# ---------------------------------------------------------------------- loops beyond those of test_listed_grammars.py


def test_a_logistic_normal_bound_never_falls() -> None:
    loop = VariationalEM(logistic_normal).run(WORDS, dmv(3, 2), num_steps=4, progress=False)
    assert (np.diff(loop.history) >= -1e-6).all() and loop.history[-1] > loop.history[0]
