# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parsing with latent annotations against lists of all parses."""

from collections import defaultdict

import pytest
import torch

from pyrogram.grammars import annotations_parse as annotation_parse
from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.grammars.cfg import CFG
from pyrogram.testing import chi_square, frequencies

TEXT = """
S -> A B | X | A
X -> A X | B A | A A
A -> 'x' | 'y' | T
T -> 'x'
B -> 'z' | 'x' | A B
"""
SENTENCES = ["x", "x x", "x y z", "y x x z", "x x x x"]


@pytest.fixture(scope="module", params=[2, 3])
def grammar(request) -> LatentAnnotations:
    cfg = CFG.from_string(TEXT)
    cfg.weights = cfg.initial_weights(torch.zeros(1, 1).long(), "random", seed=5)
    return LatentAnnotations(cfg, request.param)


def some_weights(grammar: LatentAnnotations, seed: int = 0) -> dict:
    drawn = grammar.initial_weights(torch.zeros(1, 1).long(), "random", seed=seed, concentration=0.5)
    return {name: w.double() for name, w in drawn.items()}


def all_parses(grammar: LatentAnnotations, weights: dict, words: torch.Tensor):
    """Base derivations of a sentence and their probabilities, all subtypes summed out."""
    uniform = {name: block.uniform(torch.ones(())) for name, block in grammar.cfg.blocks.items()}
    parses = grammar.cfg.derivation(uniform, words).enumerate_support()
    logs = {name: w.log() for name, w in weights.items()}
    return parses, grammar.log_partition(logs, parses)


def anchored(grammar: LatentAnnotations, parse: torch.Tensor) -> list[tuple]:
    """The rules of a parse with their places."""
    rules = iter(int(r) for r in parse if r >= 0)
    found = []

    def walk(i: int) -> int:
        r = next(rules)
        if grammar.rules.left[r] < 0:
            k, j = i + 1, -1
        elif grammar.rules.right[r] < 0:
            k, j = walk(i), -1
        else:
            j = walk(i)
            k = walk(j)
        found.append((r, i, j, k))
        return k

    walk(0)
    return found


@pytest.mark.parametrize("text", SENTENCES)
def test_sum_over_parses(grammar, text) -> None:
    words, weights = grammar.cfg.encode([text]), some_weights(grammar)
    _, log_probs = all_parses(grammar, weights, words[0])
    for decoder in ("max-rule", "viterbi"):
        found = grammar.parse(weights, words, threshold=0.0, decoder=decoder)
        torch.testing.assert_close(found.log_prob, log_probs.logsumexp(0)[None])


@pytest.mark.parametrize("text", ["S -> S S | A S | A\nA -> 'x' | 'y' | S A", "S -> A | A S\nA -> B\nB -> 'x' | S B"])
def test_a_start_symbol_within_parses(text) -> None:
    grammar = LatentAnnotations(CFG.from_string(text), 2)
    words, weights = grammar.cfg.encode(["x x x x"]), some_weights(grammar)
    _, log_probs = all_parses(grammar, weights, words[0])
    for threshold in (0.0, 1e-300):
        found = grammar.parse(weights, words, threshold=threshold)
        torch.testing.assert_close(found.log_prob, log_probs.logsumexp(0)[None])


@pytest.mark.parametrize("decoder", ["max-rule", "viterbi"])
def test_threads_and_parts(grammar, decoder, monkeypatch) -> None:
    """One sentence after the other, base posteriors for one at a time, or all on three threads."""
    words, weights = grammar.cfg.encode(SENTENCES), some_weights(grammar)
    expected = grammar.parse(weights, words, decoder=decoder)
    run, before = annotation_parse.run_workers, torch.get_num_threads()
    monkeypatch.setattr(annotation_parse, "run_workers", lambda work, cost: run(work, 1e12))
    try:
        torch.set_num_threads(3)
        for most in (1, 2**23):
            monkeypatch.setattr(annotation_parse, "_MOST", most)
            found = grammar.parse(weights, words, decoder=decoder)
            assert torch.equal(found.rules, expected.rules) and torch.equal(found.anchored, expected.anchored)
            torch.testing.assert_close(found.log_prob, expected.log_prob)
    finally:
        torch.set_num_threads(before)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("decoder", ["max-rule", "max-rule-sum"])
@pytest.mark.parametrize("text", SENTENCES)
def test_max_rule(grammar, text, decoder) -> None:
    """The best of all parses by the posteriors of their anchored rules."""
    words = grammar.cfg.encode([text])
    for seed in range(3):
        weights = some_weights(grammar, seed)
        parses, log_probs = all_parses(grammar, weights, words[0])
        posterior: dict = defaultdict(float)
        for parse, p in zip(parses, log_probs.softmax(0), strict=True):
            for rule in anchored(grammar, parse):
                posterior[rule] += float(p)
        scores = []
        for parse in parses:
            terms = torch.tensor([posterior[rule] for rule in anchored(grammar, parse)], dtype=torch.float64)
            scores.append(terms.log().sum() if decoder == "max-rule" else terms.sum())
        found = grammar.parse(weights, words, threshold=0.0, decoder=decoder).rules[0]
        own = torch.tensor([posterior[rule] for rule in anchored(grammar, found)], dtype=torch.float64)
        score = own.log().sum() if decoder == "max-rule" else own.sum()
        torch.testing.assert_close(score, torch.stack(scores).max())
        assert [int(r) for r in found if r >= 0] in [[int(r) for r in p if r >= 0] for p in parses]


@pytest.mark.parametrize("text", SENTENCES[:4])
def test_viterbi(grammar, text) -> None:
    """The base rules of the best of all annotated parses."""
    words = grammar.cfg.encode([text])
    for seed in range(2):
        weights = some_weights(grammar, seed)
        parses, _ = all_parses(grammar, weights, words[0])
        logs = {name: w.log() for name, w in weights.items()}
        best = []
        for parse in parses:
            derivation = grammar.derivation(None, parse[parse >= 0], log_weights=logs)
            # argmax is checked against enumeration by the battery
            best.append(derivation.log_prob(derivation.argmax()) + derivation.log_partition)
        found = grammar.parse(weights, words, threshold=0.0, decoder="viterbi").rules[0]
        expected = parses[int(torch.stack(best).argmax())]
        assert [int(r) for r in found if r >= 0] == [int(r) for r in expected if r >= 0]


def test_sample(grammar) -> None:
    words, weights = grammar.cfg.encode(["x x x x"]), some_weights(grammar)
    parses, log_probs = all_parses(grammar, weights, words[0])
    torch.manual_seed(0)
    draws = grammar.parse(weights, words.expand(5000, -1), threshold=0.0, decoder="sample").rules
    width = max(parses.shape[1], draws.shape[1])
    pad = [torch.nn.functional.pad(t, (0, width - t.shape[1]), value=-1) for t in (draws, parses)]
    observed, strange = frequencies(*pad)
    assert strange == 0
    assert chi_square(observed, log_probs.softmax(0)) > 1e-5


@pytest.mark.parametrize("most", [2**23, 2**10])
def test_samples_of_sentences_are_independent(grammar, most, monkeypatch) -> None:
    """Of sentences of different lengths, and of those that are parsed one after the other."""
    monkeypatch.setattr(annotation_parse, "_MOST", most)
    words, weights = grammar.cfg.encode(["x x x", "x x x x"]), some_weights(grammar)
    torch.manual_seed(0)
    draws = grammar.parse(weights, words.repeat(2000, 1), threshold=0.0, decoder="sample").rules
    supports, log_probs = zip(*(all_parses(grammar, weights, x[x >= 0]) for x in words), strict=True)
    width = max(draws.shape[1], *(support.shape[1] for support in supports))
    draws, short, long = (torch.nn.functional.pad(x, (0, width - x.shape[1]), value=-1) for x in (draws, *supports))
    pairs = torch.cat([short.repeat_interleave(len(long), 0), long.repeat(len(short), 1)], 1)
    observed, strange = frequencies(draws.reshape(2000, 2 * width), pairs)
    assert strange == 0
    expected = log_probs[0].softmax(0)[:, None] * log_probs[1].softmax(0)
    assert chi_square(observed, expected.flatten()) > 1e-5


def test_pruning(grammar) -> None:
    """What is below the threshold under the base grammar is not annotated; nothing else changes."""
    words, weights = grammar.cfg.encode(["x x x x", "x y z"]), some_weights(grammar)
    exact = grammar.parse(weights, words, threshold=0.0)
    little = grammar.parse(weights, words, threshold=1e-30)
    torch.testing.assert_close(little.log_prob, exact.log_prob)
    assert (little.anchored <= exact.anchored).all()
    much = grammar.parse(weights, words, threshold=0.2)
    assert (much.anchored < exact.anchored).all()
    assert (much.log_prob <= exact.log_prob + 1e-12).all()
    assert (much.log_prob > -torch.inf).all()


def test_threshold_is_lowered_where_nothing_is_left(grammar) -> None:
    words, weights = grammar.cfg.encode(["x x x x"]), some_weights(grammar)
    found = grammar.parse(weights, words, threshold=0.999)
    assert found.log_prob > -torch.inf
    assert grammar.cfg.tree(words[0], found.rules[0]).leaves() == ["x"] * 4


def test_no_parse(grammar) -> None:
    words = grammar.cfg.encode(["z z", "x"])
    for threshold in (0.0, 1e-5):
        found = grammar.parse(some_weights(grammar), words, threshold=threshold)
        assert found.log_prob[0] == -torch.inf
        assert (found.rules[0] == -1).all()
        assert found.log_prob[1] > -torch.inf


def test_base_parse_where_weights_of_zero_forbid_all(grammar) -> None:
    words, weights = grammar.cfg.encode(["x x x", "y z"]), some_weights(grammar)
    forbidden = weights["rules"].clone()
    for r, (_, rhs) in enumerate(grammar.cfg.rules):
        if " ".join(rhs) == "z":
            forbidden[grammar.events(r)] = 0.0
    one = LatentAnnotations(grammar.cfg, 1)
    for decoder in ("max-rule", "viterbi", "sample"):
        found = grammar.parse({"rules": forbidden}, words, decoder=decoder)
        assert found.log_prob[1] == -torch.inf
        expected = one.parse({"rules": one.cfg.weights["rules"].double()}, words[1:], threshold=0.0)
        ids = [int(r) for r in found.rules[1] if r >= 0]
        assert grammar.cfg.tree(words[1], found.rules[1]).leaves() == ["y", "z"]
        if decoder != "sample":
            assert ids == [int(r) for r in expected.rules[0] if r >= 0]


def test_errors(grammar) -> None:
    words, weights = grammar.cfg.encode(["x"]), some_weights(grammar)
    with pytest.raises(ValueError, match="there is no decoder 'best'"):
        grammar.parse(weights, words, decoder="best")
    with pytest.raises(ValueError, match="threshold must be in"):
        grammar.parse(weights, words, threshold=1.0)
    with pytest.raises(ValueError, match="base_weights must be positive"):
        grammar.parse(weights, words, base_weights={"rules": torch.zeros(len(grammar.cfg.rules))})
    with pytest.raises(ValueError, match="sentence 0 is"):
        grammar.parse(weights, torch.tensor([[99]]))
