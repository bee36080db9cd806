# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled code and torch against enumeration (oracle.py), against closed forms, and against each other."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch
from engines import COMPILED, TORCH, TreeEngine
from oracle import Enumeration, all_trees, events
from oracle import score as oracle_score
from torch import Tensor

EXACT = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 2e-5, "atol": 2e-5}}

roots = pytest.mark.parametrize("multiroot", [False, True])
valences = pytest.mark.parametrize("V", [1, 2])
stopping = pytest.mark.parametrize("with_stops", [False, True])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


@pytest.fixture(params=[TORCH, COMPILED], ids=["torch", "compiled"])
def engine(request: pytest.FixtureRequest) -> TreeEngine:
    return request.param


@pytest.fixture
def compiled() -> TreeEngine:
    """For what torch has no code of its own: draws and best trees."""
    return COMPILED


def problem(lengths, V=2, with_stops=True, scale=1.0, dtype=torch.float64, seed=0, multiroot=True, junk=None):
    """Random scores; with ``junk``, whatever must not be read is filled with it in turns."""
    generator = torch.Generator().manual_seed(seed)
    B, n = len(lengths), max(lengths)
    arcs = scale * torch.randn(B, n + 1, n + 1, V, generator=generator, dtype=torch.float64)
    stops = scale * torch.randn(B, n + 1, 2, 2, generator=generator, dtype=torch.float64)
    if junk is not None:
        hidden_arcs, hidden_stops = unread(lengths, V, multiroot)
        for hidden, scores in ((hidden_arcs, arcs), (hidden_stops, stops)):
            values = torch.tensor(junk, dtype=torch.float64)
            scores[hidden] = values[torch.arange(int(hidden.sum())) % len(values)]
    return arcs.to(dtype), stops.to(dtype) if with_stops else None, torch.tensor(lengths)


def unread(lengths, V, multiroot):
    """Masks of the arcs and stops that no tree can have."""
    n = max(lengths)
    arcs = torch.zeros(len(lengths), n + 1, n + 1, V, dtype=torch.bool)
    stops = torch.zeros(len(lengths), n + 1, 2, 2, dtype=torch.bool)
    for b, length in enumerate(lengths):
        arcs[b, length + 1 :] = arcs[b, :, length + 1 :] = arcs[b, :, 0] = True
        arcs[b, range(n + 1), range(n + 1)] = True
        if V == 2 and not multiroot:
            arcs[b, 0, :, 1] = True
        stops[b, length + 1 :] = stops[b, 0] = True
    return arcs, stops


def sentence(b: int, arcs: Tensor, stops: Tensor | None, lengths: Tensor) -> tuple:
    """Sentence b without its padding, as the oracle takes it."""
    m = int(lengths[b]) + 1
    return arcs[b, :m, :m].double().numpy(), None if stops is None else stops[b, :m].double().numpy()


def enumerate_all(arcs, stops, lengths, multiroot):
    return [Enumeration(*sentence(b, arcs, stops, lengths), multiroot) for b in range(len(lengths))]


def check(engine, arcs, stops, lengths, multiroot, tolerance=None):
    """Log Z and all marginals of a batch; zero outside the sentences."""
    tolerance = tolerance or EXACT[arcs.dtype]
    log_z, arc_marginals, stop_marginals = engine.marginals(arcs, stops, lengths, multiroot)
    assert log_z.dtype == arc_marginals.dtype == arcs.dtype
    assert arc_marginals.shape == arcs.shape
    assert not log_z.requires_grad and not arc_marginals.requires_grad
    assert (stop_marginals is None) == (stops is None)
    expected_arcs, expected_stops = torch.zeros_like(arcs), torch.zeros(*arcs.shape[:2], 2, 2)
    references = enumerate_all(arcs, stops, lengths, multiroot)
    for b, reference in enumerate(references):
        m = int(lengths[b]) + 1
        expected_arcs[b, :m, :m] = torch.from_numpy(reference.arc_marginals)
        expected_stops[b, :m] = torch.from_numpy(reference.stop_marginals)
    expected = torch.tensor([r.log_z for r in references], dtype=arcs.dtype)
    torch.testing.assert_close(log_z, expected, **tolerance)
    torch.testing.assert_close(engine.log_partition(arcs, stops, lengths, multiroot), expected, **tolerance)
    torch.testing.assert_close(arc_marginals, expected_arcs, **tolerance)
    assert (arc_marginals[expected_arcs == 0] == 0).all()
    if stops is not None:
        assert stop_marginals.dtype == arcs.dtype
        torch.testing.assert_close(stop_marginals, expected_stops.to(arcs.dtype), **tolerance)
        assert (stop_marginals[expected_stops == 0] == 0).all()


def check_top_k(engine, arcs, stops, lengths, multiroot, k):
    n = arcs.shape[1] - 1
    heads, scores = engine.top_k(arcs, stops, lengths, multiroot, k)
    assert heads.shape == (k, len(lengths), n) and heads.dtype == torch.long
    assert scores.shape == (k, len(lengths)) and scores.dtype == arcs.dtype
    for b, reference in enumerate(enumerate_all(arcs, stops, lengths, multiroot)):
        ranked = reference.ranked()[:k]
        found = len(ranked)
        tolerance = EXACT[arcs.dtype]["rtol"]
        assert scores[:found, b].tolist() == pytest.approx(ranked, rel=tolerance, abs=tolerance)
        assert (scores[found:, b] == -torch.inf).all() and (heads[found:, b] == -1).all()
        m = int(lengths[b])
        assert (heads[:, b, m:] == -1).all()
        trees = [tuple(row) for row in heads[:found, b, :m].tolist()]
        assert len(set(trees)) == found and set(trees) <= set(reference.trees)
        own = [oracle_score(tree, *sentence(b, arcs, stops, lengths)) for tree in trees]
        assert own == pytest.approx(ranked, rel=tolerance, abs=tolerance)


def pvalue(counts, probs) -> float:
    """Chi-square test of counts; cells that expect fewer than five are put together."""
    counts, expected = np.asarray(counts, float), sum(counts) * np.asarray(probs)
    assert (counts[expected == 0] == 0).all(), "an impossible outcome was drawn"
    order = np.argsort(-expected)
    counts, expected = counts[order], expected[order]
    first = int((expected >= 5).sum())
    rest = expected[first:].sum()
    if rest < 5 and first > 0:  # too few for a cell of their own
        first -= 1
    counts = [*counts[:first], counts[first:].sum()]
    expected = [*expected[:first], expected[first:].sum()]
    keep = np.array(expected) > 0
    if keep.sum() < 2:
        return 1.0
    counts, expected = np.array(counts)[keep], np.array(expected)[keep]
    return float(scipy.stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def tree_indices(heads: Tensor, reference: Enumeration) -> Tensor:
    """Position of each of (S, m) heads among the oracle's trees; fails on what is none."""
    lookup = {tree: index for index, tree in enumerate(reference.trees)}
    return torch.tensor([lookup[tuple(row)] for row in heads.tolist()])


# Sums over all trees


@pytest.mark.one_in(40)
@roots
@valences
@stopping
@pytest.mark.parametrize("n, B", [(1, 2), (2, 4), (3, 4), (4, 3), (5, 2)])
def test_sums_equal_enumeration(engine, n, B, V, with_stops, multiroot):
    arcs, stops, lengths = problem([n] * B, V, with_stops, scale=2.0)
    check(engine, arcs, stops, lengths, multiroot)


@pytest.mark.one_in(32)
@roots
@valences
@stopping
def test_sums_equal_enumeration_in_float32(engine, V, with_stops, multiroot):
    arcs, stops, lengths = problem([4, 2, 3], V, with_stops, dtype=torch.float32)
    check(engine, arcs, stops, lengths, multiroot)


@pytest.mark.one_in(11)
@roots
@valences
@stopping
@both_dtypes
def test_padding_and_unread_scores_play_no_part(engine, V, with_stops, multiroot, dtype):
    junk = [math.nan, math.inf, -math.inf, 1e30, -1e30]
    arcs, stops, lengths = problem([5, 1, 3, 2, 4], V, with_stops, dtype=dtype, multiroot=multiroot, junk=junk)
    check(engine, arcs, stops, lengths, multiroot)


@roots
def test_words_beyond_the_longest_sentence(engine, multiroot):
    arcs, stops, _ = problem([5, 5])
    check(engine, arcs, stops, torch.tensor([2, 3]), multiroot)


@pytest.mark.one_in(8)
@roots
@both_dtypes
@pytest.mark.parametrize("sizes", [[23, 7, 16, 1, 2], [60, 3, 40, 9]])
def test_a_batch_is_its_sentences(engine, sizes, multiroot, dtype):
    """Each alone, without padding."""
    arcs, stops, lengths = problem(sizes, dtype=dtype, multiroot=multiroot, junk=[math.nan])
    log_z, arc_marginals, stop_marginals = engine.marginals(arcs, stops, lengths, multiroot)
    for b, m in enumerate(sizes):
        alone = arcs[b : b + 1, : m + 1, : m + 1], stops[b : b + 1, : m + 1], lengths[b : b + 1]
        for got, expected in zip(
            (log_z[b], arc_marginals[b, : m + 1, : m + 1], stop_marginals[b, : m + 1]),
            engine.marginals(*alone, multiroot),
            strict=True,
        ):
            torch.testing.assert_close(got, expected[0], **EXACT[dtype])


@pytest.mark.one_in(20)
@roots
@both_dtypes
@valences
@stopping
@pytest.mark.parametrize("n", [7, 8, 9, 10])
def test_many_sentences_of_one_length(n, V, with_stops, multiroot, dtype):
    """The compiled engine then moves whole rows or tables at once; what is not to be read comes along."""
    arcs, stops, lengths = problem(
        [n] * 37, V, with_stops, dtype=dtype, multiroot=multiroot, junk=[math.nan, 1e30, 3.0]
    )
    log_z, *marginals = COMPILED.marginals(arcs, stops, lengths, multiroot)
    expected, *expected_marginals = TORCH.marginals(arcs, stops, lengths, multiroot)
    torch.testing.assert_close(log_z, expected, **EXACT[dtype])
    torch.testing.assert_close(COMPILED.log_partition(arcs, stops, lengths, multiroot), expected, **EXACT[dtype])
    for got, wanted in zip(marginals, expected_marginals, strict=True):
        torch.testing.assert_close(got, wanted, **EXACT[dtype])


def impossible_cases(multiroot):
    """Batches with -inf scores: some events, only one tree, no tree."""
    arcs, stops, lengths = problem([4, 3, 1, 4, 2, 4], seed=3)
    generator = torch.Generator().manual_seed(4)
    some_arcs = arcs.masked_fill(torch.rand(arcs.shape, generator=generator) < 0.3, -torch.inf)
    some_stops = stops.masked_fill(torch.rand(stops.shape, generator=generator) < 0.15, -torch.inf)
    one_tree = torch.full_like(arcs, -torch.inf)
    for h, c in ((2, 1), (0, 2), (4, 3), (2, 4)):
        one_tree[:, h, c] = arcs[:, h, c]
    no_root = arcs.clone()
    no_root[0, 0] = no_root[3, 0] = -torch.inf
    no_head = arcs.clone()
    no_head[0, :, 2] = -torch.inf
    no_stop = stops.clone()
    no_stop[1, 2, 0] = no_stop[3, 1:, :, 0] = -torch.inf
    no_arc, no_end = torch.full_like(arcs, -torch.inf), torch.full_like(stops, -torch.inf)
    return {
        "some": (some_arcs, some_stops, lengths),
        "one tree": (one_tree, stops, lengths),
        "no root": (no_root, stops, lengths),
        "no head": (no_head, None, lengths),
        "no stop": (arcs, no_stop, lengths),
        "nothing": (no_arc, no_end, lengths),
        "nothing but stops": (no_arc, stops, lengths),
    }


impossible = pytest.mark.parametrize("case", list(impossible_cases(False)))


@pytest.mark.one_in(6)
@roots
@impossible
@both_dtypes
def test_impossible_arcs_and_stops(engine, case, multiroot, dtype):
    arcs, stops, lengths = impossible_cases(multiroot)[case]
    check(engine, arcs.to(dtype), None if stops is None else stops.to(dtype), lengths, multiroot)


def number_of_trees(n: int, multiroot: bool) -> float:
    """Log count: OEIS A001764 with several roots, A006013 (shifted) with one."""
    if multiroot:  # binom(3n, n) / (2n + 1)
        return math.lgamma(3 * n + 1) - math.lgamma(n + 1) - math.lgamma(2 * n + 1) - math.log(2 * n + 1)
    m = n - 1  # binom(3m + 1, m) / (m + 1)
    return math.lgamma(3 * m + 2) - math.lgamma(m + 1) - math.lgamma(2 * m + 2) - math.log(m + 1)


def test_closed_forms_of_the_counts():
    counts = [round(math.exp(number_of_trees(n, False))) for n in (1, 2, 3, 4, 5, 6, 10)]
    assert counts == [1, 2, 7, 30, 143, 728, 690690]
    assert [round(math.exp(number_of_trees(n, True))) for n in range(1, 7)] == [1, 3, 12, 55, 273, 1428]


@pytest.mark.one_in(21)
@roots
@both_dtypes
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 10, 200])
def test_log_partition_counts_trees(engine, n, dtype, multiroot):
    arcs = torch.zeros(2, n + 1, n + 1, 1 + n % 2, dtype=dtype)
    lengths = torch.tensor([n, max(1, n - 1)])
    expected = [number_of_trees(int(m), multiroot) for m in lengths]
    log_z = engine.log_partition(arcs, None, lengths, multiroot)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6}[dtype]
    assert log_z.tolist() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.one_in(2)
@roots
@both_dtypes
def test_marginals_add_up(engine, multiroot, dtype):
    """One head per word, one stop per head and direction, one root or more."""
    sizes = [30, 1, 17, 2]
    arcs, stops, lengths = problem(sizes, dtype=dtype, multiroot=multiroot, junk=[math.nan])
    _, arc_marginals, stop_marginals = engine.marginals(arcs, stops, lengths, multiroot)
    words = (torch.arange(1, 31) <= lengths[:, None]).to(dtype)
    tolerance = EXACT[dtype]
    torch.testing.assert_close(arc_marginals[:, :, 1:].sum((1, 3)), words, **tolerance)
    torch.testing.assert_close(arc_marginals.sum((1, 2, 3)), lengths.to(dtype), rtol=2e-5, atol=0)
    expected = words[:, :, None].expand(-1, -1, 2)
    torch.testing.assert_close(stop_marginals[:, 1:].sum(-1), expected, **tolerance)
    # Whether a head has children is whether it has a nearest one.
    first = torch.stack([arc_marginals[..., 0].tril().sum(2), arc_marginals[..., 0].triu().sum(2)], -1)
    torch.testing.assert_close(stop_marginals[:, 1:, :, 1], first[:, 1:], **tolerance)
    root = arc_marginals[:, 0].sum((1, 2))
    assert (root >= 1 - 1e-5).all() and (multiroot or (root <= 1 + 1e-5).all())


@pytest.mark.one_in(2)
@roots
@stopping
def test_reversal(engine, with_stops, multiroot):
    arcs, stops, lengths = problem([11] * 3, with_stops=with_stops)
    arcs[:, 0, :, 1] = arcs[:, 0, :, 0]  # which of several roots is the first depends on the side of ROOT
    order = [0, *range(11, 0, -1)]
    mirrored_stops = None if stops is None else stops[:, order].flip(2)
    log_z, arc_marginals, stop_marginals = engine.marginals(arcs, stops, lengths, multiroot)
    mirrored = engine.marginals(arcs[:, order][:, :, order], mirrored_stops, lengths, multiroot)
    torch.testing.assert_close(mirrored[0], log_z, **EXACT[arcs.dtype])
    inside = mirrored[1][:, order][:, :, order]
    torch.testing.assert_close(inside[:, 1:], arc_marginals[:, 1:], **EXACT[arcs.dtype])
    torch.testing.assert_close(inside[:, 0].sum(-1), arc_marginals[:, 0].sum(-1), **EXACT[arcs.dtype])
    if with_stops:
        torch.testing.assert_close(mirrored[2][:, order].flip(2), stop_marginals, **EXACT[arcs.dtype])


@pytest.mark.parametrize("head, nearest", [(1, 2), (4, 3)])
def test_valence_counts_from_the_nearest_child(engine, head, nearest):
    """One head, three children on one side: the nearest costs 10 c, the others c."""
    arcs = torch.full((1, 5, 5, 2), -torch.inf)
    others = [c for c in range(1, 5) if c != head]
    arcs[0, 0, head] = 0.0
    for c in others:
        arcs[0, head, c, 0], arcs[0, head, c, 1] = 10.0 * c, float(c)
    stops = torch.zeros(1, 5, 2, 2)
    stops[0, head, :, 1] = 0.25
    stops[0, head, :, 0] = 0.5
    expected = 9.0 * nearest + sum(others) + 0.75
    log_z, arc_marginals, stop_marginals = engine.marginals(arcs, stops, torch.tensor([4]), False)
    assert log_z.item() == pytest.approx(expected)
    first = torch.tensor([float(c == nearest) for c in others])
    torch.testing.assert_close(arc_marginals[0, head, others], torch.stack([first, 1 - first], -1))
    outwards = 1 if head == 1 else 0
    expected_stops = torch.eye(2)[[1, 0] if outwards == 0 else [0, 1]]
    torch.testing.assert_close(stop_marginals[0, head], expected_stops)


def test_valence_of_the_walls_children(engine):
    """The leftmost root is the first child, the others are later ones."""
    arcs = torch.full((1, 4, 4, 2), -torch.inf)
    arcs[0, 0, 1:, 0], arcs[0, 0, 1:, 1] = torch.tensor([10.0, 20.0, 30.0]), torch.tensor([1.0, 2.0, 3.0])
    assert engine.log_partition(arcs, None, torch.tensor([3]), True).item() == pytest.approx(15.0)
    assert engine.log_partition(arcs, None, torch.tensor([3]), False).item() == -math.inf
    assert engine.log_partition(arcs, None, torch.tensor([1]), False).item() == pytest.approx(10.0)


@roots
def test_entropy(engine, multiroot):
    arcs, stops, lengths = problem([4, 3, 1, 2])
    log_z, arc_marginals, stop_marginals = engine.marginals(arcs, stops, lengths, multiroot)
    expected_score = (arc_marginals * arcs).sum((1, 2, 3)) + (stop_marginals * stops).sum((1, 2, 3))
    expected = [reference.entropy() for reference in enumerate_all(arcs, stops, lengths, multiroot)]
    assert (log_z - expected_score).tolist() == pytest.approx(expected, rel=1e-10, abs=1e-10)


# The best trees


@pytest.mark.one_in(28)
@roots
@valences
@stopping
@pytest.mark.parametrize("k", [1, 2, 5, 60])
def test_best_trees_equal_enumeration(compiled, k, V, with_stops, multiroot):
    """60 is more than there are."""
    arcs, stops, lengths = problem([4, 1, 3, 2, 4], V, with_stops, multiroot=multiroot, junk=[math.nan, math.inf])
    check_top_k(compiled, arcs, stops, lengths, multiroot, k)


@pytest.mark.one_in(2)
@roots
@pytest.mark.parametrize("k", [1, 7])
def test_best_trees_of_five_words(compiled, k, multiroot):
    check_top_k(compiled, *problem([5, 5]), multiroot, k)


@pytest.mark.one_in(7)
@roots
@both_dtypes
@pytest.mark.parametrize("k", [1, 3])
def test_best_trees_in_either_precision(compiled, k, multiroot, dtype):
    check_top_k(compiled, *problem([4, 3], dtype=dtype), multiroot, k)


@pytest.mark.one_in(3)
@roots
@impossible
@pytest.mark.parametrize("k", [1, 4])
def test_best_trees_with_impossible_ones(compiled, k, case, multiroot):
    check_top_k(compiled, *impossible_cases(multiroot)[case], multiroot, k)


@roots
@pytest.mark.parametrize("n", [3, 4, 5])
def test_equal_scores_give_different_trees(compiled, n, multiroot):
    """All of them, once each."""
    count = len(all_trees(n, multiroot))
    heads, scores = compiled.top_k(torch.zeros(1, n + 1, n + 1, 1), None, torch.tensor([n]), multiroot, count + 2)
    assert {tuple(row) for row in heads[:count, 0].tolist()} == set(all_trees(n, multiroot))
    assert (scores[:count] == 0).all() and (scores[count:] == -torch.inf).all()


# Draws


@pytest.mark.one_in(7)
@roots
@pytest.mark.parametrize("V, with_stops", [(1, False), (2, True)])
@both_dtypes
def test_draws_follow_the_posterior(compiled, V, with_stops, multiroot, dtype):
    arcs, stops, lengths = problem(
        [4, 1, 3, 2], V, with_stops, dtype=dtype, multiroot=multiroot, junk=[math.nan, math.inf]
    )
    generator = torch.Generator().manual_seed(1)
    heads = compiled.sample(arcs, stops, lengths, multiroot, 8000, generator=generator)
    assert heads.shape == (8000, 4, 4) and heads.dtype == torch.long
    for b, reference in enumerate(enumerate_all(arcs, stops, lengths, multiroot)):
        m = int(lengths[b])
        assert (heads[:, b, m:] == -1).all()
        index = tree_indices(heads[:, b, :m], reference)
        assert pvalue(index.bincount(minlength=len(reference.trees)).tolist(), reference.probs) > 1e-3


def test_draws_of_five_words(compiled):
    arcs, stops, lengths = problem([5])
    heads = compiled.sample(arcs, stops, lengths, False, 20000, generator=torch.Generator().manual_seed(1))
    (reference,) = enumerate_all(arcs, stops, lengths, False)
    counts = tree_indices(heads[:, 0], reference).bincount(minlength=143).tolist()
    assert pvalue(counts, reference.probs) > 1e-3


def test_draws_avoid_the_impossible(compiled):
    arcs, stops, lengths = impossible_cases(False)["one tree"]
    arcs, stops, lengths = arcs[:1], stops[:1], lengths[:1]
    heads = compiled.sample(arcs, stops, lengths, False, 50, generator=torch.Generator().manual_seed(1))
    assert (heads == torch.tensor([2, 0, 4, 2])).all()


@pytest.mark.parametrize("apart", ["sample", "sentence"])
def test_draws_are_independent(compiled, apart):
    """Pairs of neighbouring samples, and of two copies of one sentence in a batch."""
    arcs, stops, lengths = problem([3])
    (reference,) = enumerate_all(arcs, stops, lengths, False)
    generator = torch.Generator().manual_seed(2)
    if apart == "sample":
        heads = compiled.sample(arcs, stops, lengths, False, 16000, generator=generator)
        first, second = heads[0::2, 0], heads[1::2, 0]
    else:
        arcs, stops = arcs.expand(2, -1, -1, -1), stops.expand(2, -1, -1, -1)
        heads = compiled.sample(arcs, stops, lengths.expand(2), False, 8000, generator=generator)
        first, second = heads[:, 0], heads[:, 1]
    pairs = tree_indices(first, reference) * 7 + tree_indices(second, reference)
    joint = [p * q for p, q in itertools.product(reference.probs, repeat=2)]
    assert pvalue(pairs.bincount(minlength=49).tolist(), joint) > 1e-3


def test_draws_depend_on_the_generator_alone(compiled):
    arcs, stops, lengths = problem([8] * 5)

    def draw(seed):
        return compiled.sample(arcs, stops, lengths, False, 3, generator=torch.Generator().manual_seed(seed))

    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = draw(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(draw(1), first) and not torch.equal(draw(2), first)
    one = compiled.sample(arcs, stops, lengths, False, 3)
    assert not torch.equal(compiled.sample(arcs, stops, lengths, False, 3), one)
    torch.set_rng_state(before)
    assert torch.equal(compiled.sample(arcs, stops, lengths, False, 3), one)


def test_many_draws_of_long_sentences_keep_the_marginals(engine):
    arcs, stops, lengths = problem([25, 14], dtype=torch.float32)
    heads = engine.sample(arcs, stops, lengths, False, 1500, generator=torch.Generator().manual_seed(3))
    _, arc_marginals, _ = engine.marginals(arcs, stops, lengths, False)
    for b, m in enumerate(lengths.tolist()):
        drawn = torch.nn.functional.one_hot(heads[:, b, :m], 26).float().mean(0).T  # (head, dependent)
        p = arc_marginals[b, :, 1 : m + 1].sum(-1)
        error = (drawn - p).abs() / (p * (1 - p) / 1500 + 1e-6).sqrt()
        assert error.max() < 5


@impossible
def test_nothing_to_draw(engine, case):
    arcs, stops, lengths = impossible_cases(False)[case]
    hopeless = engine.log_partition(arcs, stops, lengths, False) == -torch.inf
    if not hopeless.any():
        engine.sample(arcs, stops, lengths, False, 1)
        return
    with pytest.raises(ValueError, match=f"sentence {int(hopeless.nonzero()[0])} has no tree"):
        engine.sample(arcs, stops, lengths, False, 1)


def test_some_case_is_hopeless_and_some_is_not(engine):
    cases = [engine.log_partition(*case, False) == -torch.inf for case in impossible_cases(False).values()]
    assert any(c.any() and not c.all() for c in cases) and any(c.all() for c in cases)


# Precision


@pytest.mark.one_in(39)
@roots
@both_dtypes
@pytest.mark.parametrize("scale", [1.0, 10.0, 30.0, 100.0, 1000.0])
def test_large_scores(engine, scale, dtype, multiroot):
    sizes = [23, 7, 16, 1]
    arcs, stops, lengths = problem(sizes, scale=scale, dtype=dtype, multiroot=multiroot, junk=[math.nan])
    expected = TORCH.marginals(arcs.double(), stops.double(), lengths, multiroot)
    got = engine.marginals(arcs, stops, lengths, multiroot)
    if dtype == torch.float64:
        tolerances = [{"rtol": 1e-12, "atol": 1e-9}] + 2 * [{"rtol": 1e-8, "atol": 1e-9 + 1e-12 * scale}]
    else:
        tolerances = [{"rtol": 1e-5, "atol": 1e-4}] + 2 * [{"rtol": 1e-3, "atol": 1e-4 + 1e-5 * scale}]
    for g, e, tolerance in zip(got, expected, tolerances, strict=True):
        torch.testing.assert_close(g.double(), e, **tolerance)


@both_dtypes
@pytest.mark.parametrize("shift", [1e4, -1e4])
def test_a_shift_of_all_scores_changes_nothing_else(engine, shift, dtype):
    """A tree of n words has n arcs and 2n stops. Integers, so that the shift itself does not round."""
    arcs, stops, lengths = problem([20, 5], scale=3.0)
    arcs, stops = arcs.round().to(dtype), stops.round().to(dtype)
    log_z, *plain = engine.marginals(arcs, stops, lengths, False)
    shifted, *marginals = engine.marginals(arcs + shift, stops - 2 * shift, lengths, False)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6}[dtype]
    torch.testing.assert_close(shifted, log_z - 3 * shift * lengths.to(dtype), rtol=tolerance, atol=0)
    for p, m in zip(plain, marginals, strict=True):
        torch.testing.assert_close(m, p, **EXACT[dtype])


@pytest.mark.parametrize("dtype, half, root", [(torch.float32, 40.0, 88.0), (torch.float64, 350.0, 709.0)])
def test_a_bad_root_of_good_trees(engine, dtype, half, root):
    """ROOT's arc to word 5 is too small for real space, but all that word 6, the other root, has to offer is
    nearly as bad, and there are many trees under word 5."""
    n = 12
    arcs = torch.zeros(n + 1, n + 1, 1)
    arcs[0], arcs[6] = -torch.inf, -half
    arcs[0, 5], arcs[0, 6] = -root, 0.0
    arcs[4, 6] = arcs[7, 6] = arcs[3, 6] = 0.0
    for words in (slice(1, 5), slice(7, n + 1)):  # and many trees under word 6 as well, once they are paid for
        arcs[6, words] = -half
    few = arcs.clone()
    few[6, 5], few[5, 6], few[4, 6], few[7, 6] = -half, 0.0, -half, 0.0
    few[1:5, 5] = few[7:, 5] = -torch.inf
    batch = torch.stack([arcs, few]).to(dtype)
    lengths = torch.tensor([n, n])
    log_z, marginals, _ = engine.marginals(batch, None, lengths, False)
    expected, exact, _ = TORCH.marginals(batch.double(), None, lengths, False)
    torch.testing.assert_close(log_z.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(marginals.double(), exact, rtol=1e-5, atol=2e-6)


@pytest.mark.slow
def test_two_hundred_words_in_float32(engine):
    arcs, stops, lengths = problem([200, 150])
    arcs, stops = (arcs - 12).float(), (stops - 3).float()
    log_z, *marginals = engine.marginals(arcs, stops, lengths, False)
    expected, *exact = TORCH.marginals(arcs.double(), stops.double(), lengths, False)
    torch.testing.assert_close(log_z.double(), expected, rtol=1e-6, atol=1e-3)
    for m, e in zip(marginals, exact, strict=True):
        torch.testing.assert_close(m.double(), e, rtol=1e-3, atol=1e-4)
    assert engine.sample(arcs, stops, lengths, False, 1).shape == (1, 2, 200)
    heads, scores = engine.top_k(arcs, stops, lengths, False, 1)
    assert heads[0, 0].min() == 0 and heads[0, 1, 150:].max() == -1 and (scores < log_z).all()


# Manners


def results(engine, arcs, stops, lengths):
    yield engine.log_partition(arcs, stops, lengths, False)
    yield from engine.marginals(arcs, stops, lengths, False)
    yield engine.sample(arcs, stops, lengths, False, 2, generator=torch.Generator().manual_seed(0))
    for k in (1, 3):
        yield from engine.top_k(arcs, stops, lengths, False, k)


@both_dtypes
def test_inputs_are_not_changed(engine, dtype):
    inputs = problem([6, 4, 1], dtype=dtype, junk=[math.nan, 1.0], multiroot=False)
    copies = [x.clone() for x in inputs]
    list(results(engine, *inputs))
    for x, copy in zip(inputs, copies, strict=True):
        torch.testing.assert_close(x, copy, rtol=0, atol=0, equal_nan=True)
        assert not x.requires_grad


@both_dtypes
def test_strides_do_not_matter(engine, dtype):
    arcs, stops, lengths = problem([6, 4, 1], dtype=dtype)
    twisted = arcs.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    strided_stops = torch.stack([stops, torch.full_like(stops, torch.nan)], -1)[..., 0]
    assert not twisted.is_contiguous() and not strided_stops.is_contiguous()
    strided_lengths = torch.stack([lengths, lengths * 0 - 7], 1)[:, 0]
    expected = results(engine, arcs, stops, lengths)
    for got, e in zip(results(engine, twisted, strided_stops, strided_lengths), expected, strict=True):
        torch.testing.assert_close(got, e, rtol=0, atol=0)


def test_expanded_inputs(engine):
    """Strides of zero: one sentence's scores for the whole batch."""
    arcs, stops, _ = problem([5])
    lengths = torch.tensor([5, 3, 1])
    check(engine, arcs.expand(3, -1, -1, -1), stops.expand(3, -1, -1, -1), lengths, False)


# Derivatives, which are the torch engine's


def leaves(*tensors):
    return [x.clone().requires_grad_() for x in tensors]


@pytest.mark.one_in(12)
@roots
@valences
def test_gradients_are_right(V, multiroot, fast_mode):
    arcs, stops, lengths = problem([3, 2], V, scale=0.7)

    def log_z(a, s):
        return TORCH.log_partition(a, s, lengths, multiroot)

    assert torch.autograd.gradcheck(log_z, leaves(arcs, stops), fast_mode=fast_mode)
    assert torch.autograd.gradgradcheck(log_z, leaves(arcs, stops), fast_mode=fast_mode)


def test_gradient_of_the_marginals(fast_mode):
    arcs, stops, lengths = problem([3, 2])

    def both(a, s):
        return TORCH.marginals(a, s, lengths, False)

    assert torch.autograd.gradcheck(both, leaves(arcs, stops), fast_mode=fast_mode)
    only_stops = leaves(stops)[0]
    TORCH.marginals(arcs, only_stops, lengths, False)[1].square().sum().backward()
    assert only_stops.grad.abs().max() > 0


@pytest.mark.one_in(2)
@impossible
@roots
def test_second_derivatives_without_nan(case, multiroot):
    arcs, stops, lengths = impossible_cases(multiroot)[case]
    arcs[:, :, 0] = torch.nan
    inputs = leaves(arcs) if stops is None else leaves(arcs, stops)
    log_z = TORCH.log_partition(inputs[0], None if stops is None else inputs[1], lengths, multiroot)
    first = torch.autograd.grad(log_z.sum(), inputs, create_graph=True)
    assert all(g.isfinite().all() for g in first)
    weights = torch.Generator().manual_seed(0)
    total = sum((g * torch.randn(g.shape, generator=weights)).sum() for g in first)
    second = torch.autograd.grad(total, inputs, create_graph=True)
    assert all(g.isfinite().all() for g in second)
    hopeless = log_z == -torch.inf
    assert all((g[hopeless] == 0).all() for g in (*first, *second))


def test_second_derivatives_are_covariances():
    """Of the events, with impossible arcs, against enumeration."""
    arcs, stops, lengths = impossible_cases(False)["some"]
    b = int((TORCH.log_partition(arcs, stops, lengths, False) > -torch.inf).nonzero()[0])
    arcs, stops, m = arcs[b : b + 1], stops[b : b + 1], lengths[b : b + 1]
    (leaf,) = leaves(arcs)
    log_z = TORCH.log_partition(leaf, stops, m, False)
    (gradient,) = torch.autograd.grad(log_z, leaf, create_graph=True)
    direction = torch.randn(arcs.shape)
    (product,) = torch.autograd.grad((gradient * direction).sum(), leaf)
    (reference,) = enumerate_all(arcs, stops, m, False)
    probs = torch.tensor(reference.probs)
    trees = torch.tensor(reference.trees)
    unit = torch.zeros(len(trees), *arcs.shape[1:])
    for t, tree in enumerate(trees.tolist()):
        for event in events(tuple(tree))[0]:
            unit[(t, *event)] = 1
    mean = (probs[:, None, None, None] * unit).sum(0)
    along = (unit * direction).sum((1, 2, 3))
    expected = ((probs * along)[:, None, None, None] * unit).sum(0) - mean * (probs * along).sum()
    torch.testing.assert_close(product[0], expected, **EXACT[arcs.dtype])


def test_marginals_are_the_gradient():
    arcs, stops, lengths = problem([9, 4, 1], junk=[math.nan], multiroot=False)
    a, s = leaves(arcs, stops)
    log_z = TORCH.log_partition(a, s, lengths, False)
    log_z.sum().backward()
    plain = TORCH.marginals(arcs, stops, lengths, False)
    attached = TORCH.marginals(a, s, lengths, False)
    for result in (plain, attached):
        for got, expected in zip(result, (log_z, a.grad, s.grad), strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert all(x.requires_grad for x in attached) and not any(x.requires_grad for x in plain)
    with torch.no_grad():
        assert not any(x.requires_grad for x in TORCH.marginals(a, s, lengths, False))
    with torch.inference_mode():
        inside = TORCH.marginals(arcs + 0, stops + 0, lengths + 0, False)
    torch.testing.assert_close(inside[1].clone(), a.grad, rtol=0, atol=0)
