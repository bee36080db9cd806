# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a grammar that is its recursion refuses, each in one sentence."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from own_grammars import LISTS, blocks, chain, chomsky, dmv, listed, one_table_grammar, rules, valences

from pyrogram import DMV
from pyrogram.distributions import RecursiveDerivation, Sentence
from pyrogram.grammar import Block
from pyrogram.grammars import RecursiveGrammar
from pyrogram.recursion import InvalidRecursion, Recursion, recursion

WORDS = torch.tensor([[0, 1, 0], [1, -1, -1]])
HALVES = {name: torch.full(block.shape, 0.5) for name, block in DMV(2).blocks.items()}


def pages(**options: Any) -> Recursion:
    @recursion
    def page(p: Any) -> None:
        i = p.positions("i")
        x = p.symbols("x", "S")
        B, Z = p.items("B", "S"), p.items("Z")
        w, v = p.words("w"), p.words("v")
        word, arc, pair = p.weights("word", "V"), p.weights("arc"), p.weights("pair", "V", "V")
        B[i, x] += word[w[i]] * (i <= 1)
        if options.get("position"):
            Z[()] += B[p.n, x] * arc[1]
        elif options.get("words"):
            Z[()] += B[p.n, x] * pair[w[1], v[1]]
        else:
            Z[()] += B[p.n, x]

    return page()


REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "no block": (
        lambda: RecursiveGrammar(blocks(root=(2,)), valences(), 2),
        "the weight 'attach' of valences is no block; the blocks are ['root']",
    ),
    "no weight": (
        lambda: RecursiveGrammar({**dmv(2, 2).blocks, **blocks(more=(2,))}, valences(), 2),
        "block 'more' is a weight in no rule of valences; those are ['root', 'attach', 'stop']",
    ),
    "another shape": (
        lambda: RecursiveGrammar({**dmv(2, 2).blocks, **blocks(stop=(2, 2, 3, 2))}, valences(), 2),
        "block 'stop' must have the shape of the weight, (T, 2, 2, 2) = (2, 2, 2, 2), not (2, 2, 3, 2)",
    ),
    "too few axes": (
        lambda: RecursiveGrammar({**dmv(2, 2).blocks, **blocks(stop=(2, 2))}, valences(), 2),
        "block 'stop' must have the shape of the weight, (T, 2, 2, 2) = (2, 2, 2, 2), not (2, 2)",
    ),
    "two numbers for a size": (
        lambda: RecursiveGrammar(blocks(root=(2,), attach=(2, 2, 3), stop=(2, 2, 2, 2)), valences(), 2),
        "block 'attach' must have the shape of the weight, (T, 2, T) = (2, 2, 2), not (2, 2, 3)",
    ),
    "more words than symbols": (
        lambda: RecursiveGrammar(dmv(2, 2).blocks, valences(), 3),
        "has room for 2 words, and num_words is 3",
    ),
    "fewer words than symbols": (
        lambda: RecursiveGrammar(dmv(2, 3).blocks, valences(), 2),
        "attach[w[i], 1, w[j]] in valences has room for 3 words, and num_words is 2, so some events are never used: "
        "write num_words=3, or give the axis of w[i] the size 2",
    ),
    "no size": (
        lambda: RecursiveGrammar(blocks(word=(2,)), pages(), 2),
        "sizes lacks 'S', which page needs and no block's shape tells",
    ),
    "a size of no use": (
        lambda: RecursiveGrammar(blocks(word=(2,)), pages(), 2, sizes={"S": 1, "Q": 2}),
        "sizes has 'Q', and page has no size of that name",
    ),
    "positions": (
        lambda: RecursiveGrammar(blocks(word=(2,), arc=(2,)), pages(position=True), 2, sizes={"S": 1}),
        "the weight 'arc' of page has positions, and the axes of a grammar's weights are symbols",
    ),
    "two sentences": (
        lambda: RecursiveGrammar(blocks(word=(2,), pair=(2, 2)), pages(words=True), 2, sizes={"S": 1}),
        "page has the words v and w, and a grammar has one sentence",
    ),
    "no lists": (
        lambda: RecursiveGrammar(listed().blocks, rules(first=0), 2),
        "lists must have the columns ['left', 'parent', 'right'] of rules, not []",
    ),
    "a list too long": (
        lambda: RecursiveGrammar(listed().blocks, rules(first=0), 2, lists={**LISTS, "left": [0, 0, 0, 0]}),
        "column left has length 4, and its list 3",
    ),
    "an entry too large": (
        lambda: RecursiveGrammar(listed().blocks, rules(first=0), 2, lists={**LISTS, "left": [0, 2, 0]}),
        "column left has 2 in row 1, which is not in 0 .. 1",
    ),
    "no words": (lambda: RecursiveGrammar(dmv(2, 2).blocks, valences(), 0), "num_words must be at least 1, not 0"),
    "weights twice": (
        lambda: RecursiveDerivation(dmv(2, 2), HALVES, WORDS, log_weights=HALVES),
        "give either weights or log_weights",
    ),
    "a negative weight": (
        lambda: dmv(2, 2).derivation({n: -torch.ones(b.shape) for n, b in DMV(2).blocks.items()}, WORDS),
        "weights must be non-negative and finite, but some of block 'root' are not",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refusals(what: str) -> None:
    action, message = REFUSALS[what]
    with pytest.raises(ValueError, match=re.escape(message)):
        action()


def test_an_axis_of_words_may_have_a_symbol_more() -> None:
    """The end of a sentence, say: a constant that stands where words do in another rule."""

    @recursion
    def bigrams(p: Any) -> None:
        t = p.positions("t")
        F, Z = p.items("F Z")
        w = p.words("w")
        first, after = p.weights("first", 2), p.weights("after", 2, 3)
        F[1] += first[w[1]]
        F[t] += F[t - 1] * after[w[t - 1], w[t]]
        Z[()] += F[p.n] * after[w[p.n], 2]

    grammar = RecursiveGrammar(blocks(first=(2,), after=(2, 3)), bigrams(), 2)
    logs = {name: torch.full(block.shape, 1 / block.shape[-1]).log() for name, block in grammar.blocks.items()}
    assert grammar.log_partition(logs, WORDS).exp().tolist() == pytest.approx([1 / 54, 1 / 6])


def test_what_the_page_refuses() -> None:
    """A mistake in a page is a sentence of its own, before there is any grammar."""
    with pytest.raises(InvalidRecursion):
        chain(K=0)
    with pytest.raises(InvalidRecursion):
        chomsky(first=1)


def test_sentences_that_cannot_be_drawn() -> None:
    grammar = dmv(2, 2)
    weights = grammar.initial_weights(WORDS, "uniform")
    with pytest.raises(NotImplementedError, match="RecursiveGrammar cannot draw sentences"):
        Sentence(grammar, weights).sample()
    drawing = dmv(2, 2, sample=DMV(2).sample)
    assert Sentence(drawing, weights, max_length=5).sample().shape == (5,)
    with pytest.raises(NotImplementedError, match="it cannot truncate it"):
        Sentence(drawing, weights, max_length=5, too_long="truncate").sample()
    wrong = dmv(2, 2, sample=lambda weights, shape, n: torch.zeros(1, n).long())
    with pytest.raises(ValueError, match=r"sample must return words of shape \(5,\), not \(1, 5\)"):
        Sentence(wrong, weights, max_length=5).sample()


def test_sentences_that_are_too_long_are_drawn_again_or_an_error() -> None:
    words = torch.tensor([[1, 0, -1], [0, -1, -1]])
    calls = []

    def sample(weights: Any, shape: torch.Size, longest: int) -> torch.Tensor:
        calls.append(shape)
        return torch.where(torch.tensor([[len(calls) > 2], [len(calls) > 1]]), words, -1)

    grammar = dmv(2, 2, sample=sample)
    weights = grammar.initial_weights(WORDS, "uniform")
    assert torch.equal(Sentence(grammar, weights, max_length=3).expand([2]).sample(), words)
    assert calls == [(2,)] * 3
    calls.clear()
    with pytest.raises(ValueError, match="a sentence had more than 3 words, 1 time in a row"):
        Sentence(grammar, weights, max_length=3, too_long="raise").expand([2]).sample()
    assert len(calls) == 1


def test_a_page_is_called_and_blocks_are_blocks() -> None:
    @recursion
    def page(p: Any) -> None:
        i = p.positions("i")
        X, Z = p.items("X Z")
        a, w = p.weights("a", "V"), p.words("w")
        X[1] += a[w[1]]
        X[i] += X[i - 1] * a[w[i]]
        Z[()] += X[p.n]

    with pytest.raises(
        TypeError, match=r"recursion must be what a page returns when it is called, page\(\), not function"
    ):
        RecursiveGrammar({"a": Block(torch.Size([2]))}, page, 2)  # type: ignore[arg-type]
    for wrong in ((2,), Block((2,))):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"block 'a' must be Block\(torch.Size\(shape\)\), not "):
            RecursiveGrammar({"a": wrong}, page(), 2)  # type: ignore[dict-item]


def test_rows_that_are_none_and_rows_of_several_derivations() -> None:
    grammar = one_table_grammar(2)
    d = grammar.derivation(grammar.initial_weights(WORDS, "uniform"), torch.tensor([0, 0, 0]))
    with pytest.raises(ValueError, match=r"^value 0, .*, is the row of more than one derivation of the words: give "):
        d.log_prob(d.sample())
    with pytest.raises(
        ValueError, match=r"^values must be derivations of the words, but value 1, \[1, 1, 1\], is none$"
    ):
        grammar.derivation(grammar.initial_weights(WORDS, "uniform"), torch.tensor([0])).log_prob(
            torch.tensor([[2, -1, -1], [1, 1, 1]])
        )
