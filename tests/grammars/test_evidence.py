# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences of which something is known, against the sum over all derivations that agree with it."""

import copy
import itertools
import math
import pickle
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from evidence_sums import CASES, EvidenceCase
from torch.distributions import kl_divergence

from pyrogram import CFG, DMV, HMM, LatentAnnotations
from pyrogram.distributions import Sentence
from pyrogram.grammars.cfg_batch import FormSums

every_case = pytest.mark.parametrize("name", CASES)


def both(name: str) -> tuple[EvidenceCase, Sentence]:
    case = CASES[name]()
    return case, Sentence(case.grammar, case.weights(), known=case.known)


def logs(case: EvidenceCase) -> dict[str, torch.Tensor]:
    return {n: w.log() for n, w in case.weights().items()}


@pytest.mark.one_in(26)
@every_case
def test_log_prob_sums_over_what_agrees(name: str) -> None:
    case, sentence = both(name)
    assert sentence.batch_shape == (len(case.words),)
    expected = torch.tensor([case.sums(logs(case), b)[0] for b in range(len(case.words))])
    torch.testing.assert_close(sentence.log_prob(case.words), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(sentence.derivation(case.words).log_partition, expected, rtol=1e-12, atol=0)
    own = Sentence(case.grammar, log_weights=logs(case), known=case.known)
    wide = {n: w.expand(len(case.words), *w.shape) for n, w in case.weights().items()}
    for other in (own, Sentence(case.grammar, wide, known=case.known)):  # one grammar for each sentence
        torch.testing.assert_close(other.log_prob(case.words), expected, rtol=1e-12, atol=0)


@pytest.mark.one_in(40)
@every_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_expected_counts_are_those_of_what_agrees(name: str, dtype: torch.dtype) -> None:
    """Of all sentences, of each, and as the gradient of log_prob."""
    case, sentence = both(name)
    each = [case.sums(logs(case), b)[1] for b in range(len(case.words))]
    total = {n: torch.stack([c[n] for c in each]).sum(0) for n in case.grammar.blocks}
    weights = {n: w.to(dtype) for n, w in logs(case).items()}
    close = {"rtol": 1e-11, "atol": 1e-13} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    log_z, counts = sentence.observed_grammar.expected_counts(weights, sentence.observed(case.words))
    by_sentence = sentence.derivation(case.words).expected_counts()
    leaves = {n: w.clone().requires_grad_() for n, w in weights.items()}
    log_prob = Sentence(case.grammar, log_weights=leaves, known=case.known).log_prob(case.words)
    assert log_z.dtype == log_prob.dtype == dtype
    torch.testing.assert_close(log_prob, log_z)
    gradients = torch.autograd.grad(log_prob.sum(), list(leaves.values()))
    for (n, c), gradient in zip(counts.items(), gradients, strict=True):
        torch.testing.assert_close(c.double(), total[n], **close)
        torch.testing.assert_close(gradient.double(), total[n], **close)
        torch.testing.assert_close(by_sentence[n], torch.stack([c[n] for c in each]), rtol=1e-11, atol=1e-13)


@pytest.mark.one_in(40)
@every_case
def test_gradients_of_each_sentence(name: str, fast_mode: bool) -> None:
    """First derivatives with a factor for every sentence, which compiled code has to scale; and second ones."""
    case, _ = both(name)
    factors = torch.arange(1.0, len(case.words) + 1)

    def total(*tables: torch.Tensor) -> torch.Tensor:
        weights = dict(zip(case.grammar.blocks, tables, strict=True))
        return (
            Sentence(case.grammar, log_weights=weights, known=case.known, normalized=False).log_prob(case.words)
            * factors
        ).sum()

    tables = tuple(w.requires_grad_() for w in logs(case).values())
    assert torch.autograd.gradcheck(total, tables, fast_mode=fast_mode)
    if "DMV" in name or "HMM" in name:
        small = tuple(w.detach().requires_grad_() for w in tables)
        first = torch.autograd.grad(total(*small), small, create_graph=True)
        second = torch.autograd.grad(sum((g**2).sum() for g in first), small)
        assert all(bool(g.isfinite().all()) for g in second) and any(bool((g != 0).any()) for g in second)


@pytest.mark.one_in(4)
@every_case
def test_derivations_are_the_posterior_given_the_evidence(name: str) -> None:
    """Draws, probabilities, the most probable one, entropy."""
    case, sentence = both(name)
    law = sentence.derivation(case.words)
    draws = law.sample((1500,))
    best, entropy, top = law.argmax(), law.entropy(), law.top_k(2)
    for b in range(len(case.words)):
        _, _, shares = case.sums(logs(case), b)
        rows = [[x for x in row if x >= 0] for row, _, _ in case.derivations(b)]
        seen = Counter(tuple(x for x in row if x >= 0) for row in draws[:, b].tolist())
        assert set(seen) <= {tuple(row) for row in rows}
        for row, share in zip(rows, shares, strict=True):
            assert abs(seen[tuple(row)] / 1500 - share) < 5 * math.sqrt(share * (1 - share) / 1500) + 3 / 1500
        share_of = {tuple(row): share for row, share in zip(rows, shares, strict=True)}
        ordered = sorted(shares, reverse=True)
        assert share_of[tuple(x for x in best[b].tolist() if x >= 0)] == pytest.approx(ordered[0])
        assert float(entropy[b]) == pytest.approx(-sum(s * math.log(s) for s in shares if s > 0), abs=1e-10)
        for k in range(2):
            found = tuple(x for x in top[0][k, b].tolist() if x >= 0)
            assert found in share_of if k < len(rows) else found == ()
            log_share = math.log(ordered[k]) if k < len(rows) else -math.inf
            assert float(top[1][k, b]) == pytest.approx(log_share, abs=1e-10)  # there may be ties
            assert k >= len(rows) or share_of[found] == pytest.approx(ordered[k])
    log_probs = law.log_prob(draws[0])
    for b in range(len(case.words)):
        _, _, shares = case.sums(logs(case), b)
        rows = [[x for x in row if x >= 0] for row, _, _ in case.derivations(b)]
        share = shares[rows.index([x for x in draws[0, b].tolist() if x >= 0])]
        assert float(log_probs[b]) == pytest.approx(math.log(share), abs=1e-10)


@pytest.mark.one_in(2)
@every_case
def test_what_disagrees_has_probability_zero_given_the_evidence(name: str) -> None:
    case, _ = both(name)
    plain = case.grammar.derivation(case.weights(), case.words)
    drawn = plain.sample((40,))
    log_probs = Sentence(case.grammar, case.weights(), known=case.known).derivation(case.words).log_prob(drawn)
    seen = set()
    for rows, found in zip(drawn.tolist(), log_probs.tolist(), strict=True):
        for b, (row, log_prob) in enumerate(zip(rows, found, strict=True)):
            agrees = case.bonus(b, [x for x in row if x >= 0]) > -math.inf
            assert (log_prob > -math.inf) == agrees
            seen.add(agrees)
    assert seen == {True, False} or "arcs" in name or "scores" in name


@pytest.mark.one_in(8)
@every_case
def test_divergences(name: str) -> None:
    """Between the posteriors of two sets of weights, and with and without the evidence."""
    case, sentence = both(name)
    others = case.grammar.initial_weights(case.words, "random", seed=5)
    p, q, r = (
        x.derivation(case.words)
        for x in (sentence, Sentence(case.grammar, others, known=case.known), Sentence(case.grammar, others))
    )
    free = replace(case, bonus=lambda b, values: 0.0)
    laws = {"p": (case, logs(case)), "q": (case, {n: w.log() for n, w in others.items()})}
    laws["r"] = free, laws["q"][1]
    for one, other, found in (("p", "q", kl_divergence(p, q)), ("p", "r", kl_divergence(p, r)),
                              ("r", "q", kl_divergence(r, q)), ("q", "p", kl_divergence(q, p))):  # fmt: skip
        for b in range(len(case.words)):
            shares = []
            for law, weights in (laws[one], laws[other]):
                rows = [tuple(row) for row, _, _ in law.derivations(b)]
                shares.append(dict(zip(rows, law.sums(weights, b)[2], strict=True)))
            if not shares[0] or not shares[1]:
                assert float(found[b]) == math.inf
                continue
            terms = [s * (math.log(s) - math.log(t) if (t := shares[1].get(row, 0.0)) else math.inf)
                     for row, s in shares[0].items() if s > 0]  # fmt: skip
            assert float(found[b]) == pytest.approx(sum(terms), abs=1e-9)


@pytest.mark.one_in(18)
@every_case
def test_decoding_by_minimum_risk_respects_the_evidence(name: str) -> None:
    case, sentence = both(name)
    law = sentence.derivation(case.words)
    found, marginals = law.mbr(), law.marginals()
    others = [law.mbr("rules")] if isinstance(case.grammar, CFG) else []
    for b in range(len(case.words)):
        rows = [[x for x in row if x >= 0] for row, _, _ in case.derivations(b)]
        for best in (*others, found):
            row = [x for x in best[b].tolist() if x >= 0]
            assert row in rows or (row == [] and not rows)
        if isinstance(case.grammar, DMV):  # the most expected right heads
            worth = [sum(float(marginals[b, h, j + 1]) for j, h in enumerate(tree)) for tree in rows]
            assert worth[rows.index(row)] == pytest.approx(max(worth))


def test_trees_of_minimum_risk_have_no_forbidden_arc() -> None:
    """Not even where such arcs would be worth most: three trees may share arcs that leave a word no known head."""
    case, sentence = both("DMV arcs")
    law = sentence.derivation(case.words)
    assert isinstance(case.known, dict)
    forbidden = case.known["arc_scores"] == -torch.inf
    law.marginals = lambda: forbidden.double()
    for b, row in enumerate(law.mbr().tolist()):
        assert not any(bool(forbidden[b, h, j + 1]) for j, h in enumerate(row) if h >= 0)


def test_derivations_of_minimum_risk_have_no_forbidden_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where such spans would be worth most."""
    case, sentence = both("CFG brackets")

    def worth_what_is_forbidden(sums: FormSums, inputs: Any, names: Any, evidence: Any, batch: torch.Size) -> Any:
        shapes = {"X": evidence["X"].shape, "T": (*evidence["X"].shape[:3], inputs.sizes["P"])}
        items = {name: torch.zeros(shapes[name]) for name in names}
        return torch.zeros(len(evidence["X"])), {**items, "X": (evidence["X"] < 0).double()}

    monkeypatch.setattr(FormSums, "item_counts", worth_what_is_forbidden)
    for b, row in enumerate(sentence.derivation(case.words).mbr().tolist()):
        assert case.bonus(b, [x for x in row if x >= 0]) == 0


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", [name for name in CASES if "own" not in name])
def test_marginals_are_expected_parts(name: str) -> None:
    case, sentence = both(name)
    found = sentence.derivation(case.words).marginals()
    for b in range(len(case.words)):
        _, _, shares = case.sums(logs(case), b)
        expected = torch.zeros_like(found[b])
        words = case.words[b][case.words[b] >= 0]
        law: Any = None if isinstance(case.grammar, (DMV, HMM)) else case.grammar.derivation(case.weights(), words)
        for share, (row, _, _) in zip(shares, case.derivations(b), strict=True):
            values = [x for x in row if x >= 0]
            if isinstance(case.grammar, DMV):
                for j, h in enumerate(values):
                    expected[h, j + 1] += share
            elif isinstance(case.grammar, HMM):
                for j, x in enumerate(values):
                    expected[j, x] += share
            else:
                parts = law.parts(torch.tensor(row))
                expected[: parts.shape[0], : parts.shape[1]] += share * parts
        torch.testing.assert_close(found[b], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.one_in(2)
@every_case
def test_sentences_may_be_taken_out_repeated_and_expanded(name: str) -> None:
    """What a subsampled plate, a plate of particles and a loop do."""
    case, sentence = both(name)
    expected = sentence.log_prob(case.words)
    index = torch.tensor([3, 1, 1, 0])
    known = {k: t[index] for k, t in case.known.items()} if isinstance(case.known, dict) else case.known[index]
    few = Sentence(case.grammar, case.weights(), known=known)
    torch.testing.assert_close(few.log_prob(case.words[index]), expected[index], rtol=1e-12, atol=0)
    wide = sentence.expand((2, len(case.words)))
    assert wide.batch_shape == (2, len(case.words))
    torch.testing.assert_close(wide.log_prob(case.words), expected.expand(2, -1))
    torch.testing.assert_close(wide.log_prob(case.words.expand(2, -1, -1)), expected.expand(2, -1))
    particles = {n: torch.stack([w, w])[:, None] for n, w in case.weights().items()}
    both_particles = Sentence(case.grammar, particles, known=case.known)
    torch.testing.assert_close(both_particles.log_prob(case.words), expected.expand(2, -1))
    observed = sentence.observed(case.words)
    log_weights = logs(case)
    torch.testing.assert_close(sentence.observed_grammar.log_partition(log_weights, observed[index]), expected[index])
    for other in (pickle.loads(pickle.dumps(sentence)), copy.deepcopy(sentence)):
        torch.testing.assert_close(other.log_prob(case.words), expected, rtol=0, atol=0)
        assert other.observed_grammar.identity == sentence.observed_grammar.identity


def test_sample_ignores_evidence() -> None:
    case, sentence = both("DMV heads")
    plain = Sentence(case.grammar, case.weights()).expand(sentence.batch_shape)
    torch.manual_seed(1)
    drawn = sentence.sample()
    torch.manual_seed(1)
    assert torch.equal(drawn, plain.sample())


def test_nothing_known_is_no_evidence() -> None:
    """The same numbers to the last digit, by the same code."""
    case, _ = both("EVG heads")
    nothing = Sentence(case.grammar, case.weights(), known=torch.full_like(case.words, -1))
    assert torch.equal(nothing.observed(case.words), case.words)
    plain = Sentence(case.grammar, case.weights())
    assert torch.equal(nothing.log_prob(case.words), plain.log_prob(case.words))


@pytest.mark.parametrize(
    "heads",
    [[0, 0, 1], [2, 1, 0], [3, 0, 1], [0, -1, 2], [2, 3, -1], [1, 0, 2]],
    ids=["two roots", "cycle", "crossing arcs", "agrees", "agrees", "its own head"],
)
def test_what_no_tree_agrees_with_has_probability_zero(heads: list[int]) -> None:
    """[3, 0, 1]: 1 below 3, and 3 below 1."""
    grammar, words = DMV(2), torch.tensor([[0, 1, 0], [1, 0, 0]])
    weights = grammar.initial_weights(words, "uniform")
    sentence = Sentence(grammar, weights, known=torch.tensor([heads, [-1, -1, -1]]))
    possible = any(
        all(k in (-1, h) for k, h in zip(heads, tree, strict=True))
        for tree in grammar.derivation(weights, words[0]).enumerate_support().tolist()
    )
    log_prob = sentence.log_prob(words)
    assert (float(log_prob[0]) > -math.inf) == possible and math.isfinite(float(log_prob[1]))
    ones = {n: torch.zeros(b.shape) for n, b in grammar.blocks.items()}
    admitted = grammar.log_partition(ones, grammar.sentences(words, sentence.known)) > -math.inf
    assert admitted.tolist() == [possible, True]
    leaves = {n: w.log().requires_grad_() for n, w in weights.items()}
    total = Sentence(grammar, log_weights=leaves, known=sentence.known).log_prob(words)[0]
    gradients = torch.autograd.grad(total, list(leaves.values()))
    assert all(bool(g.isfinite().all()) for g in gradients)
    assert possible or not any(bool((g != 0).any()) for g in gradients)


def test_an_impossible_tree_counts_nothing() -> None:
    """Nor does one of weight zero; the others of the corpus are counted as if it were not there."""
    grammar, words = DMV(2), torch.tensor([[0, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]])
    heads = torch.tensor([[0, 0, 1], [2, 0, 2], [0, 1, -1], [0, 1, 1]])
    weights = {n: w.clone() for n, w in grammar.initial_weights(words, "random", seed=1).items()}
    weights["root"][0] = 0.0  # of the last one
    logs = {n: w.log() for n, w in weights.items()}
    given, few = grammar.sentences(words, heads), grammar.sentences(words[1:3], heads[1:3])
    log_z, counts = grammar.expected_counts(logs, given)
    expected_z, expected = grammar.expected_counts(logs, few)
    assert log_z.tolist() == [-math.inf, *expected_z.tolist(), -math.inf]
    for name in counts:
        torch.testing.assert_close(counts[name], expected[name])


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_long_sentences_with_weights_that_underflow(scale: float) -> None:
    """Real numbers hold no product of two hundred such weights; logarithms take over, of evidence, too."""
    grammar, generator = DMV(3), torch.Generator().manual_seed(1)
    words = torch.randint(3, (3, 50), generator=generator)
    weights = grammar.initial_weights(words, "random", seed=1)
    tree = grammar.derivation(weights, words).sample()
    heads = torch.where(torch.rand(words.shape, generator=generator) < 0.4, tree, -1)
    scores = torch.randn(3, 51, 51, generator=generator)
    logs = {n: scale * w.log() for n, w in weights.items()}
    for known in (heads, {"heads": heads, "arc_scores": scores}, {"arc_scores": 30 * scores}):
        given = grammar.sentences(words, known)
        log_z, counts = grammar.expected_counts(logs, given)
        law = grammar.derivation(None, given, log_weights=logs)
        torch.testing.assert_close(log_z, law.log_partition, rtol=1e-10, atol=1e-8)
        for name, c in law.expected_counts().items():
            torch.testing.assert_close(counts[name], c.sum(0), rtol=1e-6, atol=1e-8)


def test_factors_that_are_no_numbers() -> None:
    """e^2000 is none, but counts are: the tree with both preferred arcs has all the weight."""
    grammar, words = DMV(2), torch.tensor([[0, 1, 0]])
    weights = grammar.initial_weights(words, "random", seed=0)
    logs = {name: w.log() for name, w in weights.items()}
    scores = torch.zeros(1, 4, 4)
    scores[0, 2, 1] = scores[0, 2, 3] = 2000.0
    log_z, counts = grammar.expected_counts(logs, grammar.sentences(words, {"arc_scores": scores}))
    expected_z, expected = grammar.expected_counts(logs, grammar.sentences(words, torch.tensor([[2, 0, 2]])))
    assert float(log_z) == pytest.approx(float(expected_z) + 4000.0, rel=1e-12)
    for name in counts:
        torch.testing.assert_close(counts[name], expected[name])


def test_factors_that_are_too_small_for_numbers() -> None:
    """e^-800 is none, but log Z is: such arcs are improbable, and not forbidden."""
    grammar, words = DMV(2), torch.tensor([[0, 1, 0], [1, 0, -1]])
    weights = grammar.initial_weights(words, "random", seed=0)
    logs = {name: w.log() for name, w in weights.items()}
    scores = torch.zeros(2, 4, 4)
    scores[0, :, 1] = -800.0  # whatever the head of the first word
    given = grammar.sentences(words, {"arc_scores": scores})
    plain_z, plain = grammar.expected_counts(logs, words)
    log_z, counts = grammar.expected_counts(logs, given)
    torch.testing.assert_close(log_z, plain_z - torch.tensor([800.0, 0.0]))
    updates = grammar.collapsed_updates(given[:1])
    swept_z, _, own = updates.expected_counts({name: w.double() for name, w in weights.items()})
    torch.testing.assert_close(swept_z, plain_z[:1].double() - 800, rtol=1e-6, atol=0)
    for name in counts:
        torch.testing.assert_close(counts[name], plain[name])
        torch.testing.assert_close(updates.total(own)[name], grammar.expected_counts(logs, words[:1])[1][name].double())
    chains, states = HMM(2, 2), torch.zeros(2, 3, 2)
    states[0, 1] = -800.0
    logs = {name: w.log() for name, w in chains.initial_weights(words, "random", seed=0).items()}
    plain_z, plain = chains.expected_counts(logs, words)
    log_z, counts = chains.expected_counts(logs, chains.sentences(words, {"state_scores": states}))
    torch.testing.assert_close(log_z, plain_z - torch.tensor([800.0, 0.0]))
    for name in counts:
        torch.testing.assert_close(counts[name], plain[name])


def test_crossing_arcs_of_four_words_have_no_projective_tree() -> None:
    grammar, words = DMV(2), torch.tensor([[0, 1, 0, 1]])
    sentence = Sentence(grammar, grammar.initial_weights(words, "uniform"), known=torch.tensor([[3, 0, 2, 1]]))
    assert float(sentence.log_prob(words)) == -math.inf  # a cycle of 1 and 3 would be caught; these arcs cross 4 - 1
    crossing = Sentence(grammar, grammar.initial_weights(words, "uniform"), known=torch.tensor([[3, 4, 0, -1]]))
    assert float(crossing.log_prob(words)) == -math.inf


def test_states_of_weight_zero_and_impossible_derivations() -> None:
    hmm = HMM(2, 2)
    words = torch.tensor([[0, 1]])
    weights = {
        "initial": torch.tensor([1.0, 0.0]),
        "transition": torch.tensor([[0.5, 0.0, 0.5], [0.2, 0.3, 0.5]]),
        "emission": torch.full((2, 2), 0.5),
    }
    for states, log_prob in (([0, 0], math.log(0.5 * 0.5 * 0.5 * 0.5)), ([1, 0], -math.inf), ([-1, 1], -math.inf)):
        sentence = Sentence(hmm, weights, known=torch.tensor([states]))
        assert float(sentence.log_prob(words)) == pytest.approx(log_prob)
    cfg = CFG.from_string("S -> S S | 'a' | 'b'")
    a_b = cfg.encode(["a b"])
    for row, fits in (([0, 1, 2], True), ([0, 1, 1], False), ([0, 1], False), ([0, 0, 1], False)):
        padded = torch.tensor([row + [-1] * (3 - len(row))])
        sentence = Sentence(cfg, cfg.initial_weights(a_b, "uniform"), known={"derivations": padded})
        assert (float(sentence.log_prob(a_b)) > -math.inf) == fits
        if not fits:
            with pytest.raises(ValueError, match="sentence 0 has a known derivation that is none of its own"):
                sentence.derivation(a_b).sample()


def test_a_known_derivation_must_agree_with_known_brackets() -> None:
    cfg = CFG.from_string("S -> S S | 'a'")
    words = cfg.encode(["a a a"] * 2)
    left, right = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 0, 1, 1])  # ((a a) a) and (a (a a))
    brackets = torch.zeros(2, 4, 4, dtype=torch.bool)
    brackets[:, 0, 2] = True
    known = {"brackets": brackets, "derivations": torch.stack([left, right])}
    sentence = Sentence(cfg, {"rules": torch.tensor([0.25, 0.75])}, known=known)
    expected = torch.tensor([math.log(0.25**2 * 0.75**3), -math.inf])
    torch.testing.assert_close(sentence.log_prob(words), expected)
    torch.testing.assert_close(sentence.derivation(words).log_partition, expected)


def test_brackets_are_those_of_pereira_and_schabes() -> None:
    """All binary trees of four words without spans that cross a bracket."""
    cfg = CFG.from_string("S -> S S | 'a'")
    words = cfg.encode(["a a a a"])
    weights = {"rules": torch.tensor([1.0, 1.0])}
    number = {(0, 2): 2, (1, 3): 2, (2, 4): 2, (0, 3): 2, (1, 4): 2, (0, 4): 5, (2, 3): 5}
    for (i, k), trees in number.items():
        brackets = torch.zeros(1, 5, 5, dtype=torch.bool)
        brackets[0, i, k] = True
        sentence = Sentence(cfg, weights, known=brackets, normalized=False)
        assert float(sentence.log_prob(words).exp()) == pytest.approx(trees)
    for one, other in itertools.combinations(number, 2):
        brackets = torch.zeros(1, 5, 5, dtype=torch.bool)
        brackets[0, one[0], one[1]] = brackets[0, other[0], other[1]] = True
        found = float(Sentence(cfg, weights, known=brackets, normalized=False).log_prob(words).exp())
        crossing = one[0] < other[0] < one[1] < other[1] or other[0] < one[0] < other[1] < one[1]
        assert (found == 0) == crossing


DMV2, HMM2, CFG2 = DMV(2), HMM(2, 2), CFG.from_string("S -> S S | 'a' | 'b'")
TWO = torch.tensor([[0, 1, 0], [1, 0, -1]])
UNKNOWN = torch.full((2, 3), -1)


@pytest.mark.parametrize(
    "grammar, known, error, message",
    [
        (DMV2, [[0, 2]], TypeError, "known must be a tensor, or tensors by kind"),
        (DMV2, {"tags": UNKNOWN}, ValueError, "no use for \\['tags'\\], only for \\['heads', 'arc_scores'\\]"),
        (DMV2, UNKNOWN.double(), ValueError, "known heads must be integers, not torch.float64"),
        (DMV2, UNKNOWN[:, :2], ValueError, "sentences of 3 positions, as words are, not of 2"),
        (DMV2, UNKNOWN[:1].expand(3, -1), ValueError, "batch shape \\(3,\\), but words have shape \\(2, 3\\)"),
        (DMV2, torch.tensor([[4, -1, -1], [-1, -1, -1]]), ValueError, "those of sentence 0 are \\[4, -1, -1\\]"),
        (DMV2, torch.tensor([[-1, -1, -1], [-1, -1, 1]]), ValueError, "those of sentence 1 are \\[-1, -1, 1\\]"),
        (DMV2, torch.tensor([[-1, -1, -1], [-1, 3, -1]]), ValueError, "those of sentence 1 are \\[-1, 3, -1\\]"),
        (DMV2, torch.tensor([[-2, -1, -1], [-1, -1, -1]]), ValueError, "or -1 where unknown"),
        (DMV2, {"arc_scores": torch.zeros(2, 3, 3), "heads": UNKNOWN}, ValueError, "\\(..., n\\+1, n\\+1\\), not"),
        (DMV2, {"arc_scores": torch.full((2, 4, 4), torch.inf)}, ValueError, "must be real numbers or -inf"),
        (HMM2, torch.full((2, 3), 2), ValueError, "known states must be 0 to 1, or -1"),
        (HMM2, torch.tensor([[0, 0, 0], [0, 0, 0]]), ValueError, "-1 in the padding, but those of sentence 1"),
        (HMM2, {"state_scores": torch.zeros(2, 3, 3)}, ValueError, "\\(..., n, 2\\), not"),
        (CFG2, torch.full((2, 4, 4), 2), ValueError, "known brackets must be true or false"),
        (CFG2, torch.ones(2, 4, 4), ValueError, "must begin before they end"),
        (CFG2, torch.ones(2, 4, 4).triu(1), ValueError, "inside of their sentence, but one of sentence 1"),
        (CFG2, {"derivations": torch.full((2, 3), 3)}, ValueError, "rules 0 to 2"),
        (CFG2, {"derivations": UNKNOWN.to(torch.complex64)}, ValueError, "must be integers, not torch.complex64"),
        (CFG2, {"derivations": torch.zeros(2, 9).long()}, ValueError, "at most 5 rules"),
    ],
)  # fmt: skip
def test_evidence_that_does_not_fit(grammar, known, error, message) -> None:
    with pytest.raises(error, match=message):
        Sentence(grammar, grammar.initial_weights(TWO, "uniform"), known=known).log_prob(TWO)


def test_grammars_without_evidence_refuse_it() -> None:
    grammar = LatentAnnotations(CFG2, 1)
    weights = {n: b.uniform(torch.ones(())) for n, b in grammar.blocks.items()}
    with pytest.raises(NotImplementedError, match="LatentAnnotations takes no evidence; leave out known="):
        Sentence(grammar, weights, known=UNKNOWN)


def test_preferences_may_be_learnt() -> None:
    """The gradient with respect to arc_scores is the posterior of the arcs."""
    case = CASES["DMV both"]()
    assert isinstance(case.known, dict)
    scores = case.known["arc_scores"].clone().requires_grad_()
    sentence = Sentence(case.grammar, case.weights(), known={**case.known, "arc_scores": scores})
    sentence.log_prob(case.words)[[0, 1, 3, 5]].sum().backward()
    marginals = sentence.derivation(case.words).marginals().detach()
    torch.testing.assert_close(scores.grad[[0, 1, 3, 5]], marginals[[0, 1, 3, 5]], rtol=1e-10, atol=1e-12)


@every_case
def test_no_sentences(name: str) -> None:
    case, _ = both(name)
    none = {k: t[:0] for k, t in case.known.items()} if isinstance(case.known, dict) else case.known[:0]
    sentence = Sentence(case.grammar, case.weights(), known=none)
    assert sentence.log_prob(case.words[:0]).shape == (0,)
    log_z, counts = sentence.observed_grammar.expected_counts(logs(case), sentence.observed(case.words[:0]))
    assert log_z.shape == (0,) and all(not bool(c.any()) for c in counts.values())
