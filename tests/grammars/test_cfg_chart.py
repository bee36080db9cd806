# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Charts of context-free grammars against enumeration."""

import functools
import math
from typing import Any

import cfg_sums as cfg
import numpy as np
import pytest
import torch
from cfg_oracle import Case, Enumeration
from scipy.special import gammaincc

from pyrogram import CFG
from pyrogram.grammars import cfg_batch
from pyrogram.grammars.cfg_rules import Matches, RuleTable, longest
from pyrogram.recursion.run.engine import lines_of

ENGINES = ["compiled", "torch"]


def arrays(case: Case) -> tuple[RuleTable, Matches]:
    binary, unary = (np.array(x, np.int64).reshape(-1, width) for x, width in ((case.binary, 4), (case.unary, 3)))
    rules = RuleTable(case.num_symbols, 0, case.num_events, binary, unary)
    rows = [[row[1:] for row in case.matches if row[0] == b] for b in range(len(case.lengths))]
    offsets = np.cumsum([0, *(len(r) for r in rows)])
    table = np.array([row for own in rows for row in own], np.int64).reshape(-1, 4)
    return rules, Matches(np.array(case.lengths, np.int64), offsets, table)


def chains(seed: int, lengths: tuple[int, ...] = (1, 3, 5, 4, 2, 1, 4, 3, 5, 2, 1, 3, 4)) -> Case:
    """Unary rules in chains, an auxiliary symbol (4) without events, matches of many words and several on one cell.

    Derivations of a sentence differ in their events.
    """
    binary = [(0, 1, 2, 0), (1, 3, 4, 1), (0, 1, 4, 2), (4, 0, 0, -1), (2, 2, 3, 3), (1, 1, 1, 4)]
    unary = [(2, 3, 5), (1, 2, 6), (0, 1, 7)]
    rng = np.random.default_rng(seed)
    matches, event = [], 8
    for b, n in enumerate(lengths):
        for i in range(n):
            matches.append((b, i, i + 1, 3, event))
            event += 1
            for k in range(i + 1, min(n, i + 3) + 1):
                for A in range(4):
                    for _ in range(2):
                        if rng.random() < 0.12:
                            matches.append((b, i, k, A, event))
                            event += 1
                if rng.random() < 0.12:
                    matches.append((b, i, k, 4, -1))
    rng.shuffle(matches)
    return Case(5, event, binary, unary, list(lengths), [tuple(int(x) for x in row) for row in matches])


def dense(lengths: tuple[int, ...], nonterminals: int = 2, preterminals: int = 2, words: int = 3) -> Case:
    """Chomsky normal form with all rules; every sentence has other words."""
    S = nonterminals + preterminals
    binary = [(A, B, C) for A in range(nonterminals) for B in range(S) for C in range(S)]
    binary = [(*rule, event) for event, rule in enumerate(binary)]
    rng = np.random.default_rng(1)
    matches = []
    for b, n in enumerate(lengths):
        for i, word in enumerate(rng.integers(words, size=n)):
            for A in range(nonterminals, S):
                event = len(binary) + (A - nonterminals) * words + int(word)
                matches.append((b, i, i + 1, A, event))
    return Case(S, len(binary) + preterminals * words, binary, [], list(lengths), matches)


CASES = {
    "chains 0": lambda: chains(0),
    "chains 1": lambda: chains(1),
    "dense": lambda: dense((4, 2, 3, 3, 4, 2, 4, 3, 2, 4)),
    "dense, of one length": lambda: dense((3,) * 9),
    "dense, with blocks of four": lambda: dense((3, 2, 3, 2, 2, 3, 2, 2, 3), 5, 4),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return one_of(request.param)


@functools.cache
def one_of(name: str) -> Case:
    """A case whose derivations are listed once."""
    return CASES[name]()


def random_weights(case: Case, seed: int = 0) -> torch.Tensor:
    return torch.randn(case.num_events, generator=torch.Generator().manual_seed(seed))


def enumerations(case: Case, log_weights: torch.Tensor) -> list[Enumeration]:
    rows = log_weights.detach().numpy()
    rows = rows if rows.ndim == 2 else [rows] * len(case.lengths)
    return [Enumeration(case, b, row) for b, row in zip(range(len(case.lengths)), rows, strict=True)]


def posterior_counts(weights: torch.Tensor, rules: RuleTable, matches: Matches, *, engine: str) -> Any:
    """Those of the chart; or the gradient of its log Z by torch."""
    if engine == "compiled":
        return cfg.posterior_counts(weights, rules, matches)
    leaf = weights.detach().expand(len(matches), -1).clone().requires_grad_()
    log_z = cfg.log_partition(leaf, rules, matches, by_torch=True)
    return log_z.detach(), torch.autograd.grad(log_z.sum(), leaf)[0]


def expected_counts(
    weights: torch.Tensor, rules: RuleTable, matches: Matches, scale: torch.Tensor | None = None, *, engine: str
) -> Any:
    """The same, summed over sentences."""
    if engine == "compiled":
        return cfg.expected_counts(weights, rules, matches, scale)
    log_z, rows = posterior_counts(weights, rules, matches, engine=engine)
    return log_z, rows.sum(0) if scale is None else scale @ rows


@pytest.mark.one_in(18)
@pytest.mark.parametrize("engine", ENGINES)
def test_log_z_and_counts_are_those_of_all_derivations(case: Case, engine: str) -> None:
    rules, matches = arrays(case)
    weights = random_weights(case)
    expected = enumerations(case, weights)
    log_z = torch.tensor([e.log_z for e in expected])
    counts = torch.tensor(np.array([e.counts for e in expected]))
    torch.testing.assert_close(cfg.log_partition(weights, rules, matches, by_torch=engine == "torch"), log_z)
    found = posterior_counts(weights, rules, matches, engine=engine)
    torch.testing.assert_close(found, (log_z, counts), rtol=1e-10, atol=1e-12)
    scale = torch.rand(len(matches))
    found = expected_counts(weights, rules, matches, scale, engine=engine)
    torch.testing.assert_close(found, (log_z, scale @ counts), rtol=1e-10, atol=1e-12)
    found = expected_counts(weights, rules, matches, engine=engine)
    torch.testing.assert_close(found[1], counts.sum(0), rtol=1e-10, atol=1e-12)


@pytest.mark.one_in(36)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_sentence_may_have_weights_of_its_own(case: Case, engine: str) -> None:
    rules, matches = arrays(case)
    weights = torch.stack([random_weights(case, b) for b in range(len(matches))])
    expected = enumerations(case, weights)
    log_z = torch.tensor([e.log_z for e in expected])
    counts = torch.tensor(np.array([e.counts for e in expected]))
    found = posterior_counts(weights, rules, matches, engine=engine)
    torch.testing.assert_close(found, (log_z, counts), rtol=1e-10, atol=1e-12)
    leaf = weights.clone().requires_grad_()
    total = cfg.log_partition(leaf, rules, matches, by_torch=engine == "torch")
    scale = torch.rand(len(matches))
    (total * scale).sum().backward()
    torch.testing.assert_close((total, leaf.grad), (log_z, scale[:, None] * counts), rtol=1e-10, atol=1e-12)


@pytest.mark.one_in(8)
def test_span_marginals_are_sums_of_probabilities(case: Case) -> None:
    rules, matches = arrays(case)
    weights = random_weights(case)
    found = cfg.span_marginals(weights, rules, matches)
    for b, e in enumerate(enumerations(case, weights)):
        n = case.lengths[b]
        torch.testing.assert_close(found[b, : n + 1, : n + 1], torch.tensor(e.spans), rtol=1e-10, atol=1e-12)
        assert found[b, n + 1 :].sum() == 0 and found[b, :, n + 1 :].sum() == 0


def test_the_longest_derivation_in_chomsky_normal_form_has_2n_minus_1_rules() -> None:
    rules, _ = arrays(dense((1,)))
    assert [longest(rules, n) for n in (1, 2, 5)] == [1, 3, 9]


@pytest.mark.parametrize("k", [1, 2, 7, 1000])
def test_best_derivations_are_the_best_in_order(k: int) -> None:
    case = chains(0, (1, 2, 3, 4, 3))
    rules, matches = arrays(case)
    weights = random_weights(case)
    ids, scores = cfg.top_k(weights, rules, matches, k)
    for b, e in enumerate(enumerations(case, weights)):
        best = sorted(e.scores, reverse=True)[:k]
        number = len(best)
        torch.testing.assert_close(scores[:number, b], torch.tensor(best))
        assert (scores[number:, b] == -math.inf).all() and (ids[number:, b] == -1).all()
        assert len({tuple(row) for row in ids[:number, b].tolist()}) == number
        for row, s in zip(ids[:number, b].tolist(), best, strict=True):
            assert e.scores[e.number_of(row)] == pytest.approx(s)


def test_equally_good_derivations_all_come_once() -> None:
    case = dense((3, 2))
    rules, matches = arrays(case)
    ids, scores = cfg.top_k(torch.zeros(case.num_events), rules, matches, 200)
    for b, e in enumerate(enumerations(case, torch.zeros(case.num_events))):
        assert int((scores[:, b] == 0).sum()) == len(e.trees)
        assert len({tuple(row) for row in ids[: len(e.trees), b].tolist()}) == len(e.trees)
    again = cfg.top_k(torch.zeros(case.num_events), rules, matches, 200)[0]
    assert torch.equal(ids, again)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("criterion", ["spans", "rules"])
def test_minimum_bayes_risk(case: Case, criterion: str) -> None:
    rules, matches = arrays(case)
    weights = random_weights(case)
    ids = cfg.mbr(weights, rules, matches, criterion=criterion)
    differs = False
    for b, e in enumerate(enumerations(case, weights)):
        gain = e.right_spans if criterion == "spans" else e.right_rules
        chosen = e.number_of(ids[b].tolist())
        assert gain(e.trees[chosen]) == pytest.approx(max(gain(t) for t in e.trees), rel=1e-10)
        differs |= e.scores[chosen] < max(e.scores) - 1e-9
    assert differs


def test_draws_have_the_probabilities_of_derivations() -> None:
    for case in (chains(2, (3, 1, 2, 3)), dense((3, 2, 3))):
        rules, matches = arrays(case)
        weights = random_weights(case)
        N = 20_000
        ids = cfg.sample(weights, rules, matches, N)
        for b, e in enumerate(enumerations(case, weights)):
            assert chi_square(e, ids[:, b].numpy()) > 1e-3


def chi_square(e: Enumeration, ids: np.ndarray) -> float:
    """The probability of a worse fit; rare derivations are put together."""
    rows, often = np.unique(ids, axis=0, return_counts=True)
    observed, expected = np.zeros(len(e.trees)), np.array(e.probs) * len(ids)
    for row, times in zip(rows.tolist(), often, strict=True):
        observed[e.number_of(row)] += times
    rare = expected < 10
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 1:
        observed, expected = observed[:-1], expected[:-1]
    freedom = len(expected) - 1
    return 1.0 if freedom < 1 else float(gammaincc(freedom / 2, ((observed - expected) ** 2 / expected).sum() / 2))


def test_draws_follow_the_global_seed() -> None:
    case = dense((4, 3))
    rules, matches = arrays(case)
    weights = random_weights(case)
    torch.manual_seed(3)
    first = cfg.sample(weights, rules, matches, 3)
    second = cfg.sample(weights, rules, matches, 3)
    torch.manual_seed(3)
    assert torch.equal(cfg.sample(weights, rules, matches, 3), first) and not torch.equal(first, second)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("engine", ENGINES)
def test_first_and_second_derivatives(engine: str, fast_mode: bool) -> None:
    case = chains(3, (2, 1, 3, 2))
    rules, matches = arrays(case)
    weights = random_weights(case).requires_grad_()
    scale = torch.rand(len(matches))

    def total(w: torch.Tensor) -> torch.Tensor:
        return (cfg.log_partition(w, rules, matches, by_torch=engine == "torch") * scale).sum()

    fast = engine == "torch"  # in random directions, not one by one
    assert torch.autograd.gradcheck(total, weights, fast_mode=fast)
    assert torch.autograd.gradgradcheck(total, weights, fast_mode=True)
    own = weights.detach().expand(len(matches), -1).clone().requires_grad_()
    assert torch.autograd.gradcheck(total, own, fast_mode=fast or fast_mode)


def test_equal_gradients_of_sentences_need_no_second_pass() -> None:
    case = dense((3, 2, 4))
    rules, matches = arrays(case)
    weights = random_weights(case).requires_grad_()
    cfg.log_partition(weights, rules, matches).sum().mul(3.0).backward()
    torch.testing.assert_close(weights.grad, 3 * cfg.expected_counts(weights, rules, matches)[1])


@pytest.mark.parametrize("engine", ENGINES)
def test_impossible_sentences_have_log_z_minus_infinity_and_count_nothing(engine: str) -> None:
    case = dense((3, 2, 4, 1, 3))  # one word: no rule makes S a preterminal
    case.matches = [m for m in case.matches if not (m[0] == 2 and m[1] == 1)]
    rules, matches = arrays(case)
    weights = random_weights(case).requires_grad_()
    log_z = cfg.log_partition(weights, rules, matches, by_torch=engine == "torch")
    assert (log_z.isinf() == torch.tensor([False, False, True, True, False])).all()
    log_z.sum().backward()
    possible = matches.of([0, 1, 4])
    expected = expected_counts(weights, rules, possible, engine=engine)[1]
    torch.testing.assert_close(weights.grad, expected)
    torch.testing.assert_close(expected_counts(weights, rules, matches, engine=engine)[1], expected)
    rows = posterior_counts(weights, rules, matches, engine=engine)[1]
    assert rows.isfinite().all() and rows[2].sum() == 0 and rows[3].sum() == 0
    assert cfg.span_marginals(weights, rules, matches)[2].sum() == 0
    ids, scores = cfg.top_k(weights, rules, matches, 2)
    assert (ids[:, 2] == -1).all() and (scores[:, 2] == -math.inf).all()
    assert (cfg.mbr(weights, rules, matches)[3] == -1).all()
    with pytest.raises(ValueError, match="sentence 2 has no derivation"):
        cfg.sample(weights, rules, matches)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("engine", ENGINES)
def test_weights_of_zero(case: Case, engine: str) -> None:
    rules, matches = arrays(case)
    weights = random_weights(case)
    weights[torch.rand(len(weights)) < 0.15] = -math.inf
    expected = enumerations(case, weights)
    log_z = torch.tensor([e.log_z for e in expected])
    counts = torch.tensor(np.array([e.counts for e in expected]))
    found = posterior_counts(weights, rules, matches, engine=engine)
    torch.testing.assert_close(found, (log_z, counts), rtol=1e-10, atol=1e-12)
    leaf = weights.clone().requires_grad_()
    found = cfg.log_partition(leaf, rules, matches, by_torch=engine == "torch")
    found.sum().backward()  # type: ignore[attr-defined]
    torch.testing.assert_close(leaf.grad, counts.sum(0), rtol=1e-10, atol=1e-12)
    ids = cfg.mbr(weights, rules, matches)
    for b, e in enumerate(expected):
        if e.trees:
            e.number_of(ids[b].tolist())  # of positive weight


@pytest.mark.one_in(24)
@pytest.mark.parametrize("size", [30.0, 460.0])
@pytest.mark.parametrize("engine", ENGINES)
def test_extreme_weights(case: Case, engine: str, size: float) -> None:
    """Weights from 1e-200 to 1e200: what real space cannot hold goes through log space."""
    rules, matches = arrays(case)
    weights = random_weights(case) * size
    expected = enumerations(case, weights)
    found = posterior_counts(weights, rules, matches, engine=engine)
    counts = torch.tensor(np.array([e.counts for e in expected]))
    torch.testing.assert_close(found[0], torch.tensor([e.log_z for e in expected]), rtol=1e-12, atol=0)
    torch.testing.assert_close(found[1], counts, rtol=1e-10, atol=1e-12)
    draws = cfg.sample(weights, rules, matches, 2)
    for b, e in enumerate(expected):
        assert e.probs[e.number_of(draws[0, b].tolist())] > 1e-6


def test_single_precision_of_many_sentences() -> None:
    """Counts of one sentence again and again: what is rounded is rounded in one direction."""
    grammar = CFG.dense(3, 4, 5)
    torch.manual_seed(0)
    weights = torch.randn(len(grammar.rules))
    words = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]).expand(40_000, 12)
    _, found = grammar.expected_counts({"rules": weights}, words)
    _, one = grammar.expected_counts({"rules": weights.double()}, words[:1])
    torch.testing.assert_close(found["rules"].double(), 40_000 * one["rules"], rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_single_precision(case: Case, engine: str) -> None:
    rules, matches = arrays(case)
    weights = random_weights(case)
    double = cfg.posterior_counts(weights, rules, matches)
    single = posterior_counts(weights.float(), rules, matches, engine=engine)
    assert all(x.dtype == torch.float32 for x in single)
    torch.testing.assert_close(single[0].double(), double[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(single[1].double(), double[1], rtol=1e-4, atol=1e-4)
    leaf = weights.float().requires_grad_()
    cfg.log_partition(leaf, rules, matches, by_torch=engine == "torch").sum().backward()
    assert leaf.grad is not None and leaf.grad.dtype == torch.float32


@pytest.mark.parametrize("engine", ENGINES)
def test_results_do_not_depend_on_the_batch(engine: str) -> None:
    """Long and short sentences side by side, more than fill one block."""
    case = dense((12, 3, 30, 1, 2, 17, 5, 8, 2, 2, 29, 4, 6, 3, 3, 9, 12, 7, 2))
    rules, matches = arrays(case)
    weights = random_weights(case)
    log_z, counts = posterior_counts(weights, rules, matches, engine=engine)
    for b in range(len(matches)):
        alone = posterior_counts(weights, rules, matches.of([b]), engine="torch")
        torch.testing.assert_close((log_z[b], counts[b]), (alone[0][0], alone[1][0]), rtol=1e-10, atol=1e-12)
    total = expected_counts(weights, rules, matches, engine=engine)[1]
    torch.testing.assert_close(total, counts.sum(0), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_long_sentences_with_chains_and_matches_of_many_words() -> None:
    case = chains(4, (22, 3, 16, 1, 13, 12, 22, 7, 9, 18, 2))
    rules, matches = arrays(case)
    for size in (1.0, 5.0):
        weights = random_weights(case) * size
        found = cfg.posterior_counts(weights, rules, matches)
        expected = posterior_counts(weights, rules, matches, engine="torch")
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_weights_that_underflow() -> None:
    """As variational Bayes with a tiny concentration has them, where others are likely."""
    case = dense((12, 3, 30, 10, 2, 40, 5), 4, 4)
    rules, matches = arrays(case)
    weights = random_weights(case)
    for tiny in (0.0, -1e5):
        for start, end in ((0, len(case.binary)), (len(case.binary), case.num_events)):
            few = weights[start:end]
            few[torch.rand(len(few)) < 0.2] += tiny
        log_z, _ = cfg.expected_counts(weights, rules, matches)
        torch.testing.assert_close(cfg.log_partition(weights, rules, matches), log_z)
        torch.testing.assert_close(cfg.log_partition(weights, rules, matches, by_torch=True), log_z)
        cfg.sample(weights, rules, matches, 2)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    case = dense((20, 18, 25, 12, 20, 18, 25, 12, 20, 18, 25, 12) * 20, 4, 4)
    rules, matches = arrays(case)
    weights = random_weights(case)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            found.append((*cfg.expected_counts(weights, rules, matches), cfg.sample(weights, rules, matches, 2)))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_no_sentences() -> None:
    case = dense(())
    rules, matches = arrays(case)
    weights = random_weights(case).requires_grad_()
    assert cfg.log_partition(weights, rules, matches).shape == (0,)
    assert cfg.expected_counts(weights, rules, matches)[1].sum() == 0
    assert cfg.sample(weights, rules, matches, 2).shape[:2] == (2, 0)


@pytest.mark.slow
def test_batches_of_other_lengths_than_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long sentences first, then short ones: each batch has tables, and derivations, of its own width."""
    case = chains(0, (4,) * 8 + (1,) * 8 + (2,) * 8 + (3,) * 3 + (1,) * 8)
    rules, matches = arrays(case)
    shared = random_weights(case)
    own = torch.stack([random_weights(case, b) for b in range(len(matches))])
    for weights in (shared, own):
        found = []
        for most in (2**22, 1):
            monkeypatch.setattr(cfg_batch, "_MOST_NUMBERS", most)
            matches.__dict__.pop("batches", None)
            found.append(
                [
                    *cfg.posterior_counts(weights, rules, matches),
                    cfg.span_marginals(weights, rules, matches),
                    *cfg.top_k(weights, rules, matches, 3),
                    cfg.top_k(weights, rules, matches)[0],
                    cfg.mbr(weights, rules, matches),
                    cfg.mbr(weights, rules, matches, criterion="rules"),
                ]
            )
            ids = cfg.sample(weights, rules, matches, 20)
            for b, e in enumerate(enumerations(case, weights)):
                for row in ids[:, b].tolist():
                    e.number_of(row)
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b)


def test_a_symbol_of_several_words_that_no_rule_speaks_of() -> None:
    """Symbol 3 matches both words, and is in no derivation."""
    rules = RuleTable(4, 0, 4, np.array([[0, 1, 2, 0]]), np.zeros((0, 3), np.int64))
    table = np.array([[0, 1, 1, 1], [1, 2, 2, 2], [0, 2, 3, 3]])
    matches = Matches(np.array([2]), np.array([0, 3]), table)
    marginals = cfg.span_marginals(torch.zeros(4), rules, matches)
    assert marginals.nonzero().tolist() == [[0, 0, 1, 1], [0, 0, 2, 0], [0, 1, 2, 2]]
    assert cfg.mbr(torch.zeros(4), rules, matches).tolist() == [[0, 1, 2]]


def test_summed_counts_under_weights_by_sentence() -> None:
    case = dense((3, 2, 4))
    rules, matches = arrays(case)
    weights = torch.stack([random_weights(case, b) for b in range(3)])
    scale = torch.tensor([0.5, -1.0, 2.0])
    rows = torch.tensor(np.array([e.counts for e in enumerations(case, weights)]))
    for engine in ENGINES:
        found = expected_counts(weights, rules, matches, scale, engine=engine)[1]
        torch.testing.assert_close(found, scale @ rows, rtol=1e-10, atol=1e-12)


def test_a_chart_that_no_memory_holds() -> None:
    """Each symbol but two of a long right side has a table of all spans."""
    with pytest.raises(
        MemoryError, match=r"^the chart of a sentence takes 8388608 GiB; leave out the longest sentences, or rules"
    ):
        lines_of(2**50, np.dtype(np.float64), 1)
