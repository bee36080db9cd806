# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Both engines for second-order trees against enumeration (sibling_oracle.py), and against first-order trees."""

import math

import pytest
import torch
from engines import SIBLING_COMPILED, SIBLING_TORCH, TORCH, TreeEngine
from oracle import all_trees
from sibling_oracle import Enumeration
from test_projective import pvalue, tree_indices

EXACT = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 3e-5, "atol": 3e-5}}

roots = pytest.mark.parametrize("multiroot", [False, True])
stopping = pytest.mark.parametrize("with_stops", [False, True])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


@pytest.fixture(params=[SIBLING_TORCH, SIBLING_COMPILED], ids=["torch", "compiled"])
def engine(request: pytest.FixtureRequest) -> TreeEngine:
    return request.param


def read_by_some_tree(length: int, n: int, multiroot: bool):
    """Masks of the arcs, siblings and stops of a sentence that some tree can have, by the definition."""
    siblings = torch.zeros(n + 1, n + 1, n + 1, dtype=torch.bool)
    stops = torch.zeros(n + 1, 2, n + 1, dtype=torch.bool)
    for h in range(length + 1):
        for m in range(1, length + 1):
            for r in range(h, m) if h < m else range(m + 1, h + 1):
                siblings[h, m, r] = h > 0 or r == 0 or multiroot
        if h > 0:
            stops[h, 0, 1 : h + 1] = stops[h, 1, h : length + 1] = True
    return siblings.any(-1), siblings, stops


def problem(lengths, with_stops=True, scale=1.0, dtype=torch.float64, seed=0, multiroot=True, junk=None):
    """Random scores (arcs, siblings, stops or None) and lengths; with ``junk``, what must not be read is junk."""
    generator = torch.Generator().manual_seed(seed)
    B, N = len(lengths), max(lengths) + 1
    shapes = (B, N, N), (B, N, N, N), (B, N, 2, N)
    scores = [scale * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    for b, length in enumerate(lengths if junk is not None else []):
        for x, read in zip(scores, read_by_some_tree(length, N - 1, multiroot), strict=True):
            values = torch.tensor(junk, dtype=torch.float64)
            x[b][~read] = values[torch.arange(int((~read).sum())) % len(values)]
    arcs, siblings, stops = (x.to(dtype) for x in scores)
    return arcs, siblings, stops if with_stops else None, torch.tensor(lengths)


def sentence(b, arcs, siblings, stops, lengths):
    """Sentence b without its padding, as the oracle takes it."""
    N = int(lengths[b]) + 1
    cut = None if stops is None else stops[b, :N, :, :N].double().numpy()
    return arcs[b, :N, :N].double().numpy(), siblings[b, :N, :N, :N].double().numpy(), cut


def enumerate_all(*scores, multiroot):
    return [Enumeration(*sentence(b, *scores), multiroot) for b in range(len(scores[-1]))]


def check(engine, arcs, siblings, stops, lengths, multiroot, tolerance=None):
    """log Z and all marginals of a batch; exactly zero for what no tree has."""
    tolerance = tolerance or EXACT[arcs.dtype]
    scores = arcs, siblings, stops, lengths
    log_z, *found = engine.marginals(*scores, multiroot)
    references = enumerate_all(*scores, multiroot=multiroot)
    expected = torch.tensor([r.log_z for r in references], dtype=arcs.dtype)
    torch.testing.assert_close(log_z, expected, **tolerance)
    torch.testing.assert_close(engine.log_partition(*scores, multiroot), expected, **tolerance)
    assert (found[2] is None) == (stops is None)
    for kind, marginals in enumerate(found[: 2 + (stops is not None)]):
        assert marginals.dtype == arcs.dtype and not marginals.requires_grad
        exact = torch.zeros(marginals.shape, dtype=arcs.dtype)
        for b, reference in enumerate(references):
            own = torch.from_numpy(reference.marginals[kind])
            exact[b][tuple(slice(size) for size in own.shape)] = own.to(arcs.dtype)
        torch.testing.assert_close(marginals, exact, **tolerance)
        assert (marginals[exact == 0] == 0).all()


@pytest.mark.one_in(30)
@roots
@stopping
@pytest.mark.parametrize("n, B", [(1, 2), (2, 4), (3, 9), (4, 3), (5, 2)])
def test_sums_equal_enumeration(engine, n, B, with_stops, multiroot):
    check(engine, *problem([n] * B, with_stops, scale=2.0), multiroot)


@pytest.mark.one_in(15)
@roots
@stopping
@both_dtypes
def test_padding_and_unread_scores_play_no_part(engine, with_stops, multiroot, dtype):
    junk = [math.nan, math.inf, -math.inf, 1e30, -1e30]
    scores = problem([5, 1, 3, 2, 4, 4, 1, 5, 2], with_stops, dtype=dtype, multiroot=multiroot, junk=junk)
    check(engine, *scores, multiroot)


@pytest.mark.one_in(14)
@roots
@both_dtypes
def test_words_beyond_the_longest_sentence(engine, multiroot, dtype):
    arcs, siblings, stops, _ = problem([5, 5], dtype=dtype)
    check(engine, arcs, siblings, stops, torch.tensor([2, 3]), multiroot)


@pytest.mark.one_in(40)
@roots
@stopping
@both_dtypes
@pytest.mark.parametrize("sizes", [[13, 7, 6, 1, 2], [8] * 17 + [9], [60, 3, 40, 9]])
def test_a_batch_is_its_sentences(engine, sizes, with_stops, multiroot, dtype):
    """Each alone, without padding."""
    if engine is SIBLING_TORCH and max(sizes) > 20:
        pytest.skip("takes long, and is no other code than for short sentences")
    *scores, lengths = problem(sizes, with_stops, dtype=dtype, multiroot=multiroot, junk=[math.nan])
    results = engine.marginals(*scores, lengths, multiroot)
    drawn = engine.sample(*scores, lengths, multiroot, 1, generator=torch.Generator().manual_seed(0))
    for b, m in enumerate(sizes[:5]):
        N = m + 1
        arcs, siblings, stops = (None if x is None else x[b : b + 1] for x in scores)
        cut = None if stops is None else stops[:, :N, :, :N]
        alone = engine.marginals(arcs[:, :N, :N], siblings[:, :N, :N, :N], cut, lengths[b : b + 1], multiroot)
        for got, expected in zip(results, alone, strict=True):
            if expected is not None:
                own = got[b : b + 1]
                own = own[tuple(slice(size) for size in expected.shape)]
                torch.testing.assert_close(own, expected, **EXACT[dtype])
        assert (drawn[0, b, m:] == -1).all() and (drawn[0, b, :m] >= 0).all()


def impossible_cases(multiroot):
    """Batches with -inf scores: some events, only one tree, no tree."""
    arcs, siblings, stops, lengths = problem([4, 3, 1, 4, 2, 4], seed=3)
    generator = torch.Generator().manual_seed(4)

    def some(x, share):
        return x.masked_fill(torch.rand(x.shape, generator=generator) < share, -torch.inf)

    one_tree = torch.full_like(arcs, -torch.inf)
    for h, c in ((2, 1), (0, 2), (4, 3), (2, 4)):
        one_tree[:, h, c] = arcs[:, h, c]
    no_head, no_first, no_stop = arcs.clone(), siblings.clone(), stops.clone()
    no_head[0, :, 2] = -torch.inf
    no_first[0, 0, :, 0] = no_first[3, 0, :, 0] = -torch.inf
    no_stop[1, 2, 0] = no_stop[3, 1:, 1] = -torch.inf
    return {
        "some": (some(arcs, 0.1), some(siblings, 0.2), some(stops, 0.1), lengths),
        "one tree": (one_tree, siblings, stops, lengths),
        "no head": (no_head, siblings, None, lengths),
        "no first child": (arcs, no_first, stops, lengths),
        "no stop": (arcs, siblings, no_stop, lengths),
        "nothing": (torch.full_like(arcs, -torch.inf), siblings, stops, lengths),
    }


impossible = pytest.mark.parametrize("case", list(impossible_cases(False)))


@pytest.mark.one_in(12)
@roots
@impossible
@both_dtypes
def test_impossible_events(engine, case, multiroot, dtype):
    *scores, lengths = impossible_cases(multiroot)[case]
    check(engine, *(None if x is None else x.to(dtype) for x in scores), lengths, multiroot)


@pytest.mark.one_in(5)
@roots
@both_dtypes
@pytest.mark.parametrize("n", [1, 4, 19])
def test_zero_sibling_scores_give_first_order_trees(engine, n, dtype, multiroot):
    arcs, siblings, stops, lengths = problem([n] * 3, dtype=dtype)
    log_z, by_arcs, _, _ = engine.marginals(arcs, torch.zeros_like(siblings), None, lengths, multiroot)
    expected = TORCH.marginals(arcs[..., None].double(), None, lengths, multiroot)
    torch.testing.assert_close(log_z.double(), expected[0], **EXACT[dtype])
    torch.testing.assert_close(by_arcs.double(), expected[1][..., 0], **EXACT[dtype])


@pytest.mark.one_in(4)
@roots
@both_dtypes
@pytest.mark.parametrize("n", [1, 5, 17])
def test_first_and_later_give_trees_with_valence(engine, n, dtype, multiroot):
    """Sibling scores that only say whether there is one, and stops that only say whether there is a child."""
    generator = torch.Generator().manual_seed(n)
    valence = torch.randn(2, n + 1, n + 1, 2, generator=generator, dtype=dtype)
    stops = torch.randn(2, n + 1, 2, 2, generator=generator, dtype=dtype)
    lengths = torch.tensor([n, max(1, n - 2)])
    at = torch.arange(n + 1)
    none = at[:, None, None] == at  # (head, 1, sibling): the sibling is the head itself
    siblings = torch.where(none, valence[..., :1], valence[..., 1:])
    last = torch.where(none, stops[..., :1], stops[..., 1:])
    log_z, by_arcs, by_siblings, by_last = engine.marginals(
        torch.zeros(2, n + 1, n + 1, dtype=dtype), siblings, last, lengths, multiroot
    )
    expected = TORCH.marginals(valence.double(), stops.double(), lengths, multiroot)
    torch.testing.assert_close(log_z.double(), expected[0], **EXACT[dtype])
    first = by_siblings.diagonal(dim1=1, dim2=3).transpose(1, 2)
    got = torch.stack([first, by_arcs - first], -1)
    torch.testing.assert_close(got.double(), expected[1], **EXACT[dtype])
    no_child = by_last.diagonal(dim1=1, dim2=3).transpose(1, 2)
    got = torch.stack([no_child, by_last.sum(-1) - no_child], -1)
    torch.testing.assert_close(got.double(), expected[2], **EXACT[dtype])


@roots
def test_reversal(engine, multiroot):
    """All but ROOT in the opposite order; children of ROOT see no siblings, for they would see others."""
    arcs, siblings, stops, lengths = problem([11] * 3)
    siblings[:, 0] = 0.0
    order = [0, *range(11, 0, -1)]
    mirrored = arcs[:, order][:, :, order], siblings[:, order][:, :, order][..., order], stops[:, order][..., order]
    log_z, by_arcs, by_siblings, by_stops = engine.marginals(arcs, siblings, stops, lengths, multiroot)
    other = engine.marginals(mirrored[0], mirrored[1], mirrored[2].flip(2), lengths, multiroot)
    torch.testing.assert_close(other[0], log_z)
    torch.testing.assert_close(other[1][:, order][:, :, order], by_arcs)
    torch.testing.assert_close(other[2][:, order][:, :, order][..., order][:, 1:], by_siblings[:, 1:])
    torch.testing.assert_close(other[3][:, order][..., order].flip(2), by_stops)


@pytest.mark.one_in(16)
@roots
@pytest.mark.parametrize("k", [1, 2, 5, 60])
def test_best_trees_equal_enumeration(engine, k, multiroot):
    """60 is more than there are."""
    scores = problem([4, 1, 3, 2, 4], multiroot=multiroot, junk=[math.nan, math.inf])
    check_top_k(engine, *scores, multiroot, k)


@pytest.mark.one_in(40)
@impossible
@both_dtypes
@pytest.mark.parametrize("k", [1, 4])
def test_best_trees_with_impossible_ones(engine, k, case, dtype):
    *scores, lengths = impossible_cases(False)[case]
    check_top_k(engine, *(None if x is None else x.to(dtype) for x in scores), lengths, False, k)


def check_top_k(engine, arcs, siblings, stops, lengths, multiroot, k):
    scores = arcs, siblings, stops, lengths
    heads, values = engine.top_k(*scores, multiroot, k)
    assert heads.shape == (k, len(lengths), arcs.shape[1] - 1) and values.dtype == arcs.dtype
    tolerance = EXACT[arcs.dtype]["rtol"]
    for b, reference in enumerate(enumerate_all(*scores, multiroot=multiroot)):
        ranked = reference.ranked()[:k]
        found, m = len(ranked), int(lengths[b])
        assert values[:found, b].tolist() == pytest.approx(ranked, rel=tolerance, abs=tolerance)
        assert (values[found:, b] == -torch.inf).all() and (heads[found:, b] == -1).all()
        assert (heads[:, b, m:] == -1).all()
        trees = [tuple(row) for row in heads[:found, b, :m].tolist()]
        assert len(set(trees)) == found and set(trees) <= set(reference.trees)
        own = [Enumeration.score(tree, *sentence(b, *scores)) for tree in trees]
        assert own == pytest.approx(ranked, rel=tolerance, abs=tolerance)


@roots
@pytest.mark.parametrize("n", [3, 4, 5])
def test_equal_scores_give_different_trees(engine, n, multiroot):
    """All of them, once each."""
    count, N = len(all_trees(n, multiroot)), n + 1
    zeros = torch.zeros(1, N, N), torch.zeros(1, N, N, N), None, torch.tensor([n])
    heads, values = engine.top_k(*zeros, multiroot, count + 2)
    assert {tuple(row) for row in heads[:count, 0].tolist()} == set(all_trees(n, multiroot))
    assert (values[:count] == 0).all() and (values[count:] == -torch.inf).all()


@pytest.mark.one_in(32)
@roots
@stopping
@both_dtypes
def test_draws_follow_the_posterior(engine, with_stops, multiroot, dtype):
    junk = [math.nan, math.inf]
    scores = problem([4, 1, 3, 2], with_stops, dtype=dtype, multiroot=multiroot, junk=junk)
    heads = engine.sample(*scores, multiroot, 8000, generator=torch.Generator().manual_seed(1))
    assert heads.shape == (8000, 4, 4) and heads.dtype == torch.long
    for b, reference in enumerate(enumerate_all(*scores, multiroot=multiroot)):
        m = int(scores[-1][b])
        assert (heads[:, b, m:] == -1).all()
        index = tree_indices(heads[:, b, :m], reference)
        assert pvalue(index.bincount(minlength=len(reference.trees)).tolist(), reference.probs) > 1e-3


@pytest.mark.one_in(2)
@impossible
def test_nothing_to_draw(engine, case):
    scores = impossible_cases(False)[case]
    hopeless = engine.log_partition(*scores, False) == -torch.inf
    if not hopeless.any():
        heads = engine.sample(*scores, False, 50)
        assert (SIBLING_TORCH.log_partition(*scores, False) > -torch.inf).all() and heads.shape[0] == 50
        return
    with pytest.raises(ValueError, match=f"sentence {int(hopeless.nonzero()[0])} has no tree"):
        engine.sample(*scores, False, 1)


def test_draws_depend_on_the_generator_alone(engine):
    scores = problem([8] * 5)

    def draw(seed):
        return engine.sample(*scores, False, 3, generator=torch.Generator().manual_seed(seed))

    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = draw(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(draw(1), first) and not torch.equal(draw(2), first)
