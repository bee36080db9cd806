# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Lexicalised grammars: lists of trees in plain Python, and the equivalent grammar without heads."""

import copy
import itertools
import math
import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pyrogram import CFG
from pyrogram.collapsed import CollapsedUpdates
from pyrogram.grammars import LexicalisedPCFG
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from pyrogram.testing import GrammarCase, check_grammar, chi_square

Event = tuple[str, tuple[int, ...]]
Tree = tuple[list[Event], dict[int, int], str]  # events in order, heads by position, brackets
N, T = 2, 3
S = N + 1
GRAMMAR = LexicalisedPCFG(N, T)
WORDS = torch.tensor([[0, 1, 1, 2], [2, 0, 1, -1], [1, 1, -1, -1], [2, -1, -1, -1]])


def phrases(
    symbol: int, words: list[int], first: int, end: int
) -> Iterator[tuple[int, list[Event], dict[int, int], str]]:
    """Head positions, events, heads and brackets of a phrase of words first .. end - 1, from its rule down."""
    if symbol == 0:
        if end == first + 1:
            yield first, [], {}, f"(word {first})"
        return
    for k, b, c, side in itertools.product(range(first + 1, end), range(S), range(S), range(2)):
        ends = [(k, end), (first, k)] if side == 0 else [(first, k), (k, end)]
        for h, below, heads, one in phrases(b, words, *ends[0]):
            for m, others, more, two in phrases(c, words, *ends[1]):
                rule = ("rule", (symbol - 1, words[h], side * S * S + b * S + c))
                attach = ("attach", (side, c, words[h], words[m]))
                parts = [attach, *others, *below] if side == 0 else [*below, attach, *others]
                text = f"(N{symbol}[{h}] {two} {one})" if side == 0 else f"(N{symbol}[{h}] {one} {two})"
                yield h, [rule, *parts], {**heads, **more, m: h + 1}, text


def trees(words: list[int]) -> Iterator[Tree]:
    """All trees, as they are defined."""
    for symbol in range(S):
        for h, below, heads, text in phrases(symbol, words, 0, len(words)):
            yield [("root", (symbol,)), ("top", (symbol, words[h])), *below], {**heads, h: 0}, text


def log_weights(seed: int = 0, grammar: LexicalisedPCFG = GRAMMAR) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {n: torch.randn(*b.shape, generator=generator, dtype=torch.float64) for n, b in grammar.blocks.items()}


def truth(logs: dict[str, Tensor], words: Tensor) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Log Z and expected counts of each sentence, tree by tree."""
    values = {name: table.detach().numpy() for name, table in logs.items()}
    log_z, counts = [], []
    for sentence in words.tolist():
        table = {n: np.zeros(b.shape) for n, b in GRAMMAR.blocks.items()}
        z = 0.0
        for row, _, _ in trees([w for w in sentence if w >= 0]):
            p = math.exp(sum(values[name][index] for name, index in row))
            z += p
            for name, index in row if p else []:
                table[name][index] += p
        log_z.append(math.log(z) if z else -math.inf)
        counts.append({name: torch.from_numpy(t / z if z else t) for name, t in table.items()})
    return torch.tensor(log_z, dtype=torch.float64), counts


def summed(counts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([c[name] for c in counts]).sum(0) for name in counts[0]}


def close(actual: Any, expected: Any, dtype: torch.dtype = torch.float64) -> None:
    tolerance = 1e-10 if dtype == torch.float64 else 3e-5
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, check_dtype=False)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_log_z_and_counts_against_enumeration(dtype: torch.dtype) -> None:
    logs = log_weights()
    logs["rule"][0, 1, 4] = logs["attach"][1, 0, 1, 2] = logs["root"][0] = -math.inf
    log_z, each = truth(logs, WORDS)
    assert log_z[3] == -math.inf  # a single word
    given = {n: t.to(dtype) for n, t in logs.items()}
    found, counts = GRAMMAR.expected_counts(given, WORDS)
    assert found.dtype == dtype and all(c.dtype == dtype for c in counts.values())
    close(found, log_z, dtype)
    close(counts, summed(each), dtype)
    close(GRAMMAR.log_partition(given, WORDS), log_z, dtype)
    sums = GRAMMAR._sums
    wide = sums.given(GRAMMAR.flat(given, torch.Size([4])), WORDS)
    close(sums.program.log_partition(wide, by_torch=True), log_z, dtype)


def test_gradients() -> None:
    logs = log_weights(1)
    each = truth(logs, WORDS)[1]
    leaves = {n: t.requires_grad_() for n, t in logs.items()}
    found = torch.autograd.grad(GRAMMAR.log_partition(leaves, WORDS).sum(), list(leaves.values()), create_graph=True)
    close(dict(zip(leaves, found, strict=True)), summed(each))
    (second,) = torch.autograd.grad(found[3][0, 0, 1, 1], leaves["attach"])
    h = torch.zeros_like(logs["attach"])
    h[1, 0, 1, 1] = 1e-5
    up, down = (truth({**logs, "attach": logs["attach"].detach() + s * h}, WORDS)[1] for s in (1, -1))
    slope = (summed(up)["attach"] - summed(down)["attach"])[0, 0, 1, 1] / 2e-5
    torch.testing.assert_close(second[1, 0, 1, 1], slope, rtol=1e-6, atol=1e-8)


def test_the_grammar_without_heads() -> None:
    """Symbols that are pairs of a symbol and a tag, on longer sentences; heads are told apart."""
    grammar = LexicalisedPCFG(2, 2)
    weights = {n: w.double() for n, w in grammar.initial_weights(WORDS, "random", seed=1).items()}
    rules: dict[tuple[str, tuple[str, ...]], float] = {}
    for s, h in np.ndindex(S, 2):
        rules["ROOT", (f"{s}{h}",)] = float(weights["root"][s] * weights["top"][s, h])
    for h in range(2):
        rules[f"0{h}", ("xy"[h],)] = 1.0
    for a, h, m, side, b, c in np.ndindex(2, 2, 2, 2, S, S):
        p = weights["rule"][a, h, (side * S + b) * S + c] * weights["attach"][side, c, h, m]
        right = (f"{b}{h}", f"{c}{m}") if side == 1 else (f"{c}{m}", f"{b}{h}")
        rules[f"{a + 1}{h}", right] = rules.get((f"{a + 1}{h}", right), 0.0) + float(p)
    other = CFG(list(rules), weights=list(rules.values()))
    words = torch.randint(2, (30, 12), generator=torch.Generator().manual_seed(0))
    words = torch.where(torch.arange(12) < torch.arange(30)[:, None] % 12 + 1, words, -1)
    texts = [["xy"[w] for w in row if w >= 0] for row in words.tolist()]
    assert other.weights is not None
    logs = {name: w.log() for name, w in weights.items()}
    close(
        grammar.log_partition(logs, words),
        other.log_partition({"rules": other.weights["rules"].double().log()}, other.encode(texts)),
        torch.float32,
    )


def test_rows_heads_and_trees() -> None:
    """Events from the top down and from left to right; which word depends on which; brackets."""
    weights = GRAMMAR.initial_weights(WORDS, "random", seed=0)
    for sentence in ([1, 1, 2], [0, 1], [2]):
        listed = list(trees(sentence))
        d = GRAMMAR.derivation(weights, torch.tensor(sentence))
        rows = [tuple(GRAMMAR.number(*event) for event in row) for row, _, _ in listed]
        assert Counter(map(tuple, d.enumerate_support().tolist())) == Counter(rows)
        heads = GRAMMAR.heads(torch.tensor(rows))
        assert heads.tolist() == [[own[i] for i in range(len(sentence))] for _, own, _ in listed]
        for row, (_, _, text) in zip(rows, listed, strict=True):
            tree = GRAMMAR.tree([str(i) for i in range(len(sentence))], torch.tensor(row))
            assert " ".join(str(tree).split()) == text
    for n in range(1, 6):
        assert GRAMMAR.longest(n) == super(LexicalisedPCFG, copy.copy(GRAMMAR)).longest(n)


def test_what_is_no_tree_is_refused() -> None:
    row: list[Event] = [("root", (1,)), ("top", (1, 2)), ("rule", (0, 2, S * S)), ("attach", (1, 0, 2, 0))]
    derivation = torch.tensor([*(GRAMMAR.number(*event) for event in row), -1, -1])
    assert str(GRAMMAR.tree(None, derivation)) == "(N1[2] (word 2) (word 0))"
    assert GRAMMAR.heads(derivation).tolist() == [0, 1, -1]
    assert GRAMMAR.heads(torch.full((2, 4), -1)).tolist() == [[-1, -1]] * 2
    other = GRAMMAR.number("attach", (0, 0, 2, 0))
    for bad, message in (
        (derivation[1:], r"has top\[1, 2\] after 0 words, not a root"),
        (derivation.index_fill(0, torch.tensor(3), other), r"has attach\[0, 0, 2, 0\] after 1 word, not a attach"),
        (derivation[:3], r"has nothing\[\] after 1 word"),
        (derivation[[0, 1, 2, 3, 3]], "goes on after its last word, word 2"),
        (derivation[None], "must be one"),
    ):
        with pytest.raises(ValueError, match=message):
            GRAMMAR.tree(None, bad)
    with pytest.raises(ValueError, match="has 2 words, not 1"):
        GRAMMAR.tree(["a"], derivation)


@pytest.mark.parametrize("too_long", ["redraw", "truncate"])
def test_drawn_derivations(too_long: Any) -> None:
    """As often as their probabilities say; those of one and two words, that no truncation reaches."""
    weights = GRAMMAR.initial_weights(WORDS, "random", seed=5)
    weights["root"] = torch.tensor([0.2, 0.5, 0.3])
    likely = torch.tensor([4.0 if b == c == 0 else 0.3 for b, c in itertools.product(range(S), repeat=2)] * 2)
    weights["rule"] = weights["rule"] * likely / (weights["rule"] * likely).sum(-1, keepdim=True)
    longest = 3 if too_long == "redraw" else 20
    words, rows = GRAMMAR.sample_derivations(weights, (4000,), longest, too_long=too_long)
    assert words.shape == (4000, longest)
    probabilities = {}
    for sentence in [(w,) for w in range(T)] + list(itertools.product(range(T), repeat=2)):
        for row, _, _ in trees(list(sentence)):
            key = sentence, tuple(GRAMMAR.number(*event) for event in row)
            probabilities[key] = math.prod(float(weights[block][index]) for block, index in row)
    drawn = zip(words.tolist(), rows.tolist(), strict=True)
    seen = Counter((tuple(w for w in s if w >= 0), tuple(x for x in row if x >= 0)) for s, row in drawn)
    observed = torch.tensor([seen[key] for key in probabilities])
    assert observed.sum() > 1000
    exact = torch.tensor(list(probabilities.values()))
    assert chi_square(observed, exact / exact.sum()) > 1e-4


@pytest.mark.slow
def test_battery() -> None:
    grammar = LexicalisedPCFG(1, 2)
    R = grammar.num_events

    def parts(value: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(value.long() + 1, R + 1)[..., 1:].sum(-2).double()

    check_grammar(GrammarCase(grammar, torch.tensor([[0, 1], [1, -1], [1, 1]]), parts=parts))


def test_evidence() -> None:
    """Phrases that are known to be none: brackets that cross them are left, and heads are known to be outside."""
    logs, words = log_weights(2), WORDS[0]
    bonus = torch.zeros(5, 5, S, T)
    bonus[0, 2] = -math.inf  # no phrase of the first two words
    bonus[2, 4, :, 1] = -math.inf  # a phrase of the last two has the last for its head
    z = 0.0
    for row, heads, text in trees(words.tolist()):
        spans = [sorted(int(x) for x in part if x.isdigit()) for part in _phrases(text)]
        if [0, 1] not in spans and not ([2, 3] in spans and heads[3] == 3):
            z += math.exp(sum(float(logs[name][index]) for name, index in row))
    close(GRAMMAR.log_partition(logs, words, evidence={"X": bonus}), torch.tensor(math.log(z)))
    assert GRAMMAR.item_counts(logs, WORDS, "X")["X"].shape == (4, 5, 5, S, T)


def _phrases(text: str) -> Iterator[list[str]]:
    """The words of each phrase of brackets."""
    stack: list[list[str]] = []
    for token in text.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            stack.append([])
        elif token == ")":
            part = stack.pop()
            yield part
            if stack:
                stack[-1] += part
        elif token.isdigit():
            stack[-1].append(token)


def test_names_and_copies() -> None:
    assert GRAMMAR.symbols == ["word", "N1", "N2"] and repr(GRAMMAR) == "LexicalisedPCFG(2, 3)"
    for block, axes in GRAMMAR.axes.items():
        assert tuple(map(len, axes.values())) == tuple(GRAMMAR.blocks[block].shape)
    assert GRAMMAR.axes["rule"]["children"][1] == "N1 word*"
    logs = log_weights()
    for twin in (copy.deepcopy(GRAMMAR), pickle.loads(pickle.dumps(GRAMMAR))):
        close(twin.log_partition(logs, WORDS), GRAMMAR.log_partition(logs, WORDS))
    with pytest.raises(ValueError, match="num_nonterminals must be at least 1"):
        LexicalisedPCFG(0, 3)


# ---------------------------------------------------------------------- inference


def test_the_harmonic_start() -> None:
    """Near words attach; rules and symbols are told apart."""
    words = torch.tensor([[0, 1, 2], [0, 1, 2]])
    found = GRAMMAR.initial_weights(words, "harmonic", seed=0)
    for block, w in found.items():
        torch.testing.assert_close(w.sum(-1), torch.ones(GRAMMAR.blocks[block].shape[:-1]))
    torch.testing.assert_close(found["attach"][1, :, 0], torch.tensor([[0.0, 3 / 5, 2 / 5]] * S))
    torch.testing.assert_close(found["top"], torch.full((S, T), 1 / 3))
    assert len(found["rule"].unique()) > S * S


def test_em_never_falls() -> None:
    loop = EM(maximum_likelihood, initial_weights="random").run(WORDS, GRAMMAR, num_steps=30, progress=False)
    assert (np.diff(loop.history) >= -1e-12).all() and loop.history[-1] > loop.history[0] + 0.1


@pytest.mark.slow
def test_loops() -> None:
    """All of them run, and the bounds among their objectives never fall."""
    for loop in (VariationalEM(dirichlet), CollapsedVB(dirichlet), TreeHastings(dirichlet), TreeGibbs(dirichlet)):
        loop.run(WORDS, GRAMMAR, num_steps=5, progress=False)
        for block, w in loop.weights().items():
            torch.testing.assert_close(w.sum(-1), torch.ones(GRAMMAR.blocks[block].shape[:-1]))
        if isinstance(loop, VariationalEM):
            assert (np.diff(loop.history) >= -1e-9).all()


def test_compiled_sweeps_are_plain_ones() -> None:
    """Also with evidence: counts of each sentence."""
    weights = {name: w.double() for name, w in GRAMMAR.initial_weights(WORDS, "random", seed=3).items()}
    compiled, plain = GRAMMAR.collapsed_updates(WORDS), CollapsedUpdates(GRAMMAR, WORDS)
    assert type(compiled) is not CollapsedUpdates
    (log_z, entropy, counts), (theirs, other, expected) = (u.expected_counts(weights) for u in (compiled, plain))
    close(log_z, theirs)
    close(entropy, other)
    close(compiled.total(counts), plain.total(expected))


@pytest.mark.slow
def test_hastings_draws_from_the_collapsed_posterior() -> None:
    """Trees of one sentence, as often as prod B(f + alpha) / B(alpha) says."""
    grammar, words = LexicalisedPCFG(1, 2), torch.tensor([[0, 1, 0]])
    rows = grammar.derivation(grammar.initial_weights(words, "uniform"), words[0]).enumerate_support()
    log_joint = torch.zeros(len(rows))
    for t, row in enumerate(rows.tolist()):
        pseudo = {name: torch.full(block.shape, 0.3) for name, block in grammar.blocks.items()}
        for x in row:
            if x >= 0:
                block, index = grammar.event(x)
                pseudo[block][index] += 1
        log_joint[t] = sum((c.lgamma().sum(-1) - c.sum(-1).lgamma()).sum() for c in pseudo.values())
    exact = log_joint.softmax(0)
    chain = TreeHastings(dirichlet, seed=0)
    chain.run(words, grammar, concentration=0.3, num_steps=20, progress=False)
    seen = torch.zeros(len(rows))
    for _ in range(800):
        chain.step(words, grammar, concentration=0.3)
        seen[(rows == chain.trees()[0]).all(-1)] += 1
    assert seen.sum() == 800
    assert ((seen / 800 - exact).abs() < 5 * (exact * (1 - exact) / 200).sqrt()).all()  # worth 200 independent draws
