# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Second-order trees: extreme scores, long sentences, derivatives, and manners of the engines."""

import math

import pytest
import torch
from engines import SIBLING_COMPILED, SIBLING_TORCH
from test_sibling import both_dtypes, engine, impossible, impossible_cases, problem, read_by_some_tree, roots

from pyrogram.charts import sibling

__all__ = ["engine"]  # a fixture


@pytest.mark.one_in(38)
@roots
@both_dtypes
@pytest.mark.parametrize("scale", [1.0, 10.0, 30.0, 100.0, 1000.0])
def test_large_scores(scale, dtype, multiroot):
    """Compiled code beside torch's in float64, which works in log space alone."""
    engine = SIBLING_COMPILED
    *scores, lengths = problem([23, 7, 16, 1], scale=scale, dtype=dtype, multiroot=multiroot, junk=[math.nan])
    expected = SIBLING_TORCH.marginals(*(x.double() for x in scores), lengths, multiroot)
    got = engine.marginals(*scores, lengths, multiroot)
    torch.testing.assert_close(engine.log_partition(*scores, lengths, multiroot), got[0], rtol=1e-5, atol=1e-4)
    if dtype == torch.float64:
        tolerances = [{"rtol": 1e-12, "atol": 1e-9}] + 3 * [{"rtol": 1e-8, "atol": 1e-9 + 1e-12 * scale}]
    else:
        tolerances = [{"rtol": 1e-5, "atol": 1e-4}] + 3 * [{"rtol": 1e-3, "atol": 1e-4 + 2e-5 * scale}]
    for g, e, tolerance in zip(got, expected, tolerances, strict=True):
        torch.testing.assert_close(g.double(), e, **tolerance)


@pytest.mark.one_in(3)
@both_dtypes
@pytest.mark.parametrize("shift", [1e4, -1e4])
def test_a_shift_of_all_scores_changes_nothing_else(engine, shift, dtype):
    """A tree of n words has n arcs, as many siblings and 2n stops. Integers, so that the shift does not round."""
    arcs, siblings, stops, lengths = problem([20, 5], scale=3.0)
    arcs, siblings, stops = (x.round().to(dtype) for x in (arcs, siblings, stops))
    log_z, *plain = engine.marginals(arcs, siblings, stops, lengths, False)
    shifted, *marginals = engine.marginals(arcs + shift, siblings + shift, stops - 2 * shift, lengths, False)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6}[dtype]
    torch.testing.assert_close(shifted, log_z - 2 * shift * lengths.to(dtype), rtol=tolerance, atol=0)
    for p, m in zip(plain, marginals, strict=True):
        torch.testing.assert_close(m, p, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype, half, root", [(torch.float32, 40.0, 88.0), (torch.float64, 350.0, 709.0)])
def test_a_bad_root_of_good_trees(engine, dtype, half, root):
    """What real space flushes is all that there is: the root that it allows is paid for elsewhere."""
    n = 12
    arcs = torch.zeros(2, n + 1, n + 1, dtype=torch.float64)
    arcs[:, 0], arcs[:, 6] = -torch.inf, -half
    arcs[:, 0, 5], arcs[:, 0, 6] = -root, 0.0
    arcs[:, 4, 6] = arcs[:, 7, 6] = arcs[:, 3, 6] = 0.0
    arcs[1, 6, 5], arcs[1, 5, 6], arcs[1, 4, 6], arcs[1, 7, 6] = -half, 0.0, -half, 0.0
    arcs[1, 1:5, 5] = arcs[1, 7:, 5] = -torch.inf
    siblings = torch.zeros(2, n + 1, n + 1, n + 1, dtype=torch.float64)
    lengths = torch.tensor([n, n])
    got = engine.marginals(arcs.to(dtype), siblings.to(dtype), None, lengths, False)
    expected = SIBLING_TORCH.marginals(arcs, siblings, None, lengths, False)
    torch.testing.assert_close(got[0].double(), expected[0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(got[1].double(), expected[1], rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(got[2].double(), expected[2], rtol=1e-5, atol=2e-6)


@both_dtypes
def test_later_siblings_a_thousand_nats_apart(engine, dtype):
    """The best sibling of the best arc is not the best arc's best sibling: shifts must see the sums."""
    arcs, siblings, stops, lengths = problem([9, 4], scale=1.0)
    arcs[:, 3] += 1000
    siblings[:, 3] -= 1000
    siblings[:, :, 2] -= 700
    scores = [x.to(dtype) for x in (arcs, siblings, stops)]
    expected = SIBLING_TORCH.marginals(*(x.double() for x in scores), lengths, False)
    for g, e in zip(engine.marginals(*scores, lengths, False), expected, strict=True):
        torch.testing.assert_close(g.double(), e, rtol=1e-4, atol=1e-3 if dtype == torch.float32 else 1e-9)


@pytest.mark.slow
def test_two_hundred_words_in_float32():
    *scores, lengths = problem([200, 150])
    scores = [(x - 3).float() for x in scores]
    log_z, *found = sibling.marginals(*scores, lengths)
    assert log_z.dtype == torch.float32
    exact = sibling.log_partition(*(x.double() for x in scores), lengths)
    torch.testing.assert_close(log_z.double(), exact, rtol=1e-6, atol=1e-3)
    for b, m in enumerate(lengths.tolist()):
        by_arcs, by_siblings, by_stops = (x[b].double() for x in found)
        torch.testing.assert_close(by_arcs[:, 1 : m + 1].sum(0), torch.ones(m), rtol=1e-4, atol=0)
        torch.testing.assert_close(by_siblings.sum(-1), by_arcs, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(by_stops[1 : m + 1].sum(-1), torch.ones(m, 2), rtol=1e-4, atol=0)
    heads = sibling.sample(*scores, lengths)
    best, values = sibling.top_k(*scores, lengths)
    assert heads[0, 0].min() == 0 and best[0, 1, 150:].max() == -1 and (values < log_z).all()


@pytest.mark.one_in(14)
@roots
@both_dtypes
def test_marginals_add_up(engine, multiroot, dtype):
    """One head per word, one stop per head and direction; who is the last child is a sibling of none."""
    *scores, lengths = problem([30, 1, 17, 2], dtype=dtype, multiroot=multiroot, junk=[math.nan])
    _, by_arcs, by_siblings, by_stops = engine.marginals(*scores, lengths, multiroot)
    words = (torch.arange(1, 31) <= lengths[:, None]).to(dtype)
    tolerance = {torch.float64: 1e-10, torch.float32: 2e-5}[dtype]
    torch.testing.assert_close(by_arcs[:, :, 1:].sum(1), words, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(by_siblings.sum(-1), by_arcs, rtol=tolerance, atol=tolerance)
    both = words[:, :, None].expand(-1, -1, 2)
    torch.testing.assert_close(by_stops[:, 1:].sum(-1), both, rtol=tolerance, atol=tolerance)
    last = by_stops.sum(2)[:, 1:, 1:]  # [head, child]: p(it is the last child), but for the diagonal
    followed = by_siblings.sum(2)[:, 1:, 1:]
    off = ~torch.eye(30, dtype=torch.bool)
    torch.testing.assert_close((last + followed)[:, off], by_arcs[:, 1:, 1:][:, off], rtol=1e-4, atol=tolerance)


def leaves(*tensors):
    return [x.clone().requires_grad_() for x in tensors]


@pytest.mark.slow
@pytest.mark.parametrize("of, multiroot", [("torch", True), (None, False)])
def test_derivatives_are_right(of, multiroot):
    """Of log Z, and of the marginals, whichever engine has which."""
    *scores, lengths = problem([3] if multiroot else [2, 3], scale=0.7)

    def log_z(*x):
        return sibling.log_partition(*x, lengths, multiroot=multiroot, engine=of)

    assert torch.autograd.gradcheck(log_z, leaves(*scores))
    if of != "torch":
        assert torch.autograd.gradcheck(
            lambda *x: sibling.marginals(*x, lengths, multiroot=multiroot, engine=of), leaves(*scores)
        )


@pytest.mark.one_in(2)
@roots
def test_second_derivatives_are_right(multiroot, fast_mode):
    *scores, lengths = problem([2, 1], scale=0.7)
    assert torch.autograd.gradgradcheck(
        lambda *x: sibling.log_partition(*x, lengths, multiroot=multiroot), leaves(*scores), fast_mode=fast_mode
    )


def test_gradient_of_some_inputs():
    arcs, siblings, stops, lengths = problem([3, 2])
    expected = sibling.marginals(arcs, siblings, stops, lengths)[1:]
    for i in range(3):
        inputs = [arcs, siblings, stops]
        (inputs[i],) = leaves(inputs[i])
        sibling.log_partition(*inputs, lengths).sum().backward()
        torch.testing.assert_close(inputs[i].grad, expected[i])
    arcs, siblings = leaves(arcs, siblings)
    sibling.marginals(arcs, siblings, None, lengths)[2].square().sum().backward()
    assert arcs.grad.abs().max() > 0 and siblings.grad.abs().max() > 0


@pytest.mark.one_in(2)
@roots
@impossible
def test_second_derivatives_without_nan(case, multiroot):
    *scores, lengths = impossible_cases(multiroot)[case]
    read = [read_by_some_tree(m, 4, multiroot) for m in lengths.tolist()]
    inputs = []
    for kind, x in enumerate(scores):
        if x is not None:
            unread = ~torch.stack([masks[kind] for masks in read])
            inputs.append((x.masked_fill(unread, torch.nan).requires_grad_(), unread))
    log_z = sibling.log_partition(*(x for x, _ in inputs), lengths=lengths, multiroot=multiroot)
    first = torch.autograd.grad(log_z.sum(), [x for x, _ in inputs], create_graph=True)
    total = sum((g * torch.randn(g.shape, generator=torch.Generator().manual_seed(0))).sum() for g in first)
    second = torch.autograd.grad(total, [x for x, _ in inputs])
    hopeless = log_z == -torch.inf
    for gradients in (first, second):
        for g, (_, unread) in zip(gradients, inputs, strict=True):
            assert g.isfinite().all() and (g[hopeless] == 0).all() and (g[unread] == 0).all()


def results(engine, arcs, siblings, stops, lengths):
    yield engine.log_partition(arcs, siblings, stops, lengths, False)
    yield from engine.marginals(arcs, siblings, stops, lengths, False)
    yield engine.sample(arcs, siblings, stops, lengths, False, 2, generator=torch.Generator().manual_seed(0))
    for k in (1, 3):
        yield from engine.top_k(arcs, siblings, stops, lengths, False, k)


@both_dtypes
def test_inputs_are_not_changed(engine, dtype):
    inputs = problem([6, 4, 1], dtype=dtype, junk=[math.nan, 1.0], multiroot=False)
    copies = [x.clone() for x in inputs]
    list(results(engine, *inputs))
    for x, copy in zip(inputs, copies, strict=True):
        torch.testing.assert_close(x, copy, rtol=0, atol=0, equal_nan=True)


@both_dtypes
def test_strides_do_not_matter(engine, dtype):
    arcs, siblings, stops, lengths = problem([6, 4, 1], dtype=dtype)
    expected = results(engine, arcs, siblings, stops, lengths)
    twisted = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in (arcs, siblings, stops)]
    assert not any(x.is_contiguous() for x in twisted)
    for got, e in zip(results(engine, *twisted, lengths), expected, strict=True):
        torch.testing.assert_close(got, e, rtol=0, atol=0)


@pytest.mark.one_in(2)
def test_threads_change_nothing(engine):
    *scores, lengths = problem([24, 18, 12, 24] * 6)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = list(results(engine, *scores, lengths))
        torch.set_num_threads(3)
        found = list(results(engine, *scores, lengths))
    finally:
        torch.set_num_threads(threads)
    for got, e in zip(found, expected, strict=True):
        torch.testing.assert_close(got, e, rtol=1e-12, atol=1e-12)


HALF = torch.zeros(4, 4, 4).half()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arcs": torch.zeros(2, 4, 5)}, r"arc scores must have shape \(\.\.\., n\+1, n\+1\) .*, not \(2, 4, 5\)"),
        ({"arcs": torch.zeros(1, 1)}, r"with n >= 1 words, not \(1, 1\)"),
        ({"arcs": torch.zeros(4, 4).long()}, "arc scores must be floating-point numbers, not torch.int64"),
        ({"siblings": torch.zeros(4, 4, 5)}, r"sibling scores must have shape \(\.\.\., 4, 4, 4\), not \(4, 4, 5\)"),
        ({"siblings": torch.zeros(4, 4, 4).float()}, "sibling scores are torch.float32 but arc scores are"),
        ({"stops": torch.zeros(4, 2, 2)}, r"stop scores must have shape \(\.\.\., 4, 2, 4\), not \(4, 2, 2\)"),
        ({"lengths": torch.tensor([4])}, r"lengths must lie in 1\.\.3, not 4\.\.4"),
        ({"lengths": torch.tensor([1.0])}, "lengths must be integers, not torch.float"),
        (
            {"arcs": torch.zeros(4, 4).half(), "siblings": torch.zeros(4, 4, 4).half(), "engine": "compiled"},
            "not torch.fl",
        ),
    ],
)
def test_what_is_refused(changed, message):
    given = {"arcs": torch.zeros(4, 4), "siblings": torch.zeros(4, 4, 4)} | changed
    with pytest.raises(ValueError, match=message):
        sibling.log_partition(**given)


def test_batches_broadcast():
    arcs, siblings, stops, _ = problem([3] * 6)
    lengths = torch.tensor([3, 2])
    log_z = sibling.log_partition(arcs[:3, None], siblings[0], stops[:2], lengths)
    assert log_z.shape == (3, 2)
    alone = sibling.log_partition(arcs[2], siblings[0], stops[1], lengths[1])
    torch.testing.assert_close(log_z[2, 1], alone)
    heads = sibling.sample(arcs[:3, None], siblings[0], stops[:2], lengths, num_samples=4)
    assert heads.shape == (4, 3, 2, 3) and (heads[..., 1, 2] == -1).all()
    assert sibling.log_partition(torch.zeros(0, 4, 4), torch.zeros(4, 4, 4)).shape == (0,)
