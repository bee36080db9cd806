# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums over all trees by compiled code and by torch, against enumeration (oracle.py), closed forms and each other."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from oracle import all_spanning_trees, all_trees
from torch import Tensor
from tree_charts import (
    ALL,
    EXACT,
    KINDS,
    Kind,
    cycles,
    dtypes,
    engines,
    impossibilities,
    impossible,
    kinds,
    of_any_kind,
    problem,
    roots,
    to,
)


def check_sums(
    kind: Kind, tables: dict[str, Tensor], lengths: Tensor, multiroot: bool, engine: Any, tolerance: Any = None
) -> list[float]:
    """Log Z and all marginals of a batch, also as a gradient; exactly zero for what no tree has."""
    dtype = tables["arc"].dtype
    tolerance = tolerance or EXACT[dtype]
    truth = kind.truth(tables, lengths, multiroot)
    expected = torch.tensor([one.log_z for one in truth], dtype=dtype)
    log_z, found = kind.marginals(tables, lengths, multiroot, engine)
    leaves = {name: x.clone().requires_grad_() for name, x in tables.items()}
    total = kind.log_partition(leaves, lengths, multiroot, engine)
    assert log_z.dtype == total.dtype == dtype and not log_z.requires_grad
    torch.testing.assert_close(log_z, expected, **tolerance)
    torch.testing.assert_close(total.detach(), expected, **tolerance)
    possible = total[expected > -torch.inf].sum()
    gradients = dict(zip(leaves, torch.autograd.grad(possible, list(leaves.values())), strict=True))
    for name, x in tables.items():
        exact = torch.zeros_like(x)
        for b, one in enumerate(truth):
            own = torch.from_numpy(one.marginals[name])
            exact[b][tuple(map(slice, own.shape))] = own.to(dtype)
        assert found[name].dtype == dtype and not found[name].requires_grad
        # Where arcs cross, trees are not listed by the chart either: it knows the arcs that are forbidden.
        never = exact == 0 if kind.trees is all_trees else x.isnan() | (x == -torch.inf)
        for marginals in (found[name], gradients[name]):
            torch.testing.assert_close(marginals, exact, **tolerance)
            assert (marginals[never] == 0).all()
    return expected.tolist()


def sums() -> Iterator[Any]:
    """All of them; in the fast stage not those that take seconds to compile."""
    for name, engine, multiroot in itertools.product(ALL, ("torch", "compiled"), (False, True)):
        for dtype in (torch.float64, torch.float32):
            quick = dtype == torch.float64 or (engine == "torch" and not multiroot)
            marks = [] if quick and name in KINDS else [pytest.mark.slow]
            yield pytest.param(name, engine, multiroot, dtype, marks=marks)


@pytest.mark.parametrize(("name", "engine", "multiroot", "dtype"), [*sums()])
def test_sums(name: str, engine: str, multiroot: bool, dtype: torch.dtype) -> None:
    kind = ALL[name]
    tables, lengths = of_any_kind(kind, multiroot) if name in KINDS else problem(kind, [4, 1, 3, 2])
    check_sums(kind, to(tables, dtype), lengths, multiroot, engine)
    if dtype == torch.float64:  # words beyond the longest sentence; and strides of zero
        tables, _ = problem(kind, [5])
        wide = {name: x.expand(3, *x.shape[1:]) for name, x in tables.items()}
        check_sums(kind, wide, torch.tensor([4, 2, 1]), multiroot, engine)


@pytest.mark.one_in(9)
@roots
@engines
@kinds
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("scale", [30.0, 300.0])
def test_scores_of_any_size(kind: Kind, engine: str, multiroot: bool, forbidden: float, scale: float) -> None:
    """Also where hardly any sentence has a tree; sentences of one length are done together."""
    for lengths in ([4, 3, 4, 2, 1] * 2, [4] * 9):
        tables, m = problem(kind, lengths, scale=scale, forbidden=forbidden, seed=2)
        check_sums(kind, tables, m, multiroot, engine, {"rtol": 1e-12, "atol": 1e-9})


@pytest.mark.one_in(5)
@engines
@roots
@kinds
def test_sentences_without_trees(kind: Kind, multiroot: bool, engine: str) -> None:
    """They have no marginals, nor a derivative of any order, and spoil no others."""
    for what in impossibilities(kind):
        tables, lengths = impossible(kind, what)
        log_z = torch.tensor(check_sums(kind, tables, lengths, multiroot, engine))
        assert (log_z == -torch.inf).any() or what == "one tree"
        for b, m in enumerate(lengths.tolist()):
            for name, read in kind.read(m, 4, multiroot).items():
                tables[name][b][~read] = torch.nan
        leaves = {name: x.requires_grad_() for name, x in tables.items()}
        total = kind.log_partition(leaves, lengths, multiroot, engine)
        first = torch.autograd.grad(total.sum(), list(leaves.values()), create_graph=True)
        along = sum((g * torch.randn(g.shape, generator=torch.Generator().manual_seed(0))).sum() for g in first)
        second = torch.autograd.grad(along, list(leaves.values()))
        for gradient in (*first, *second):
            assert gradient.isfinite().all() and (gradient[log_z == -torch.inf] == 0).all()


def number_of_trees(kind: Kind, n: int, multiroot: bool) -> float:
    """Log count: OEIS A001764 with several roots, A006013 (shifted) with one; Cayley's formula, where arcs cross."""
    if kind is KINDS["crossing arcs"]:
        return (n - 1) * math.log(n + multiroot)
    if multiroot:  # binom(3n, n) / (2n + 1)
        return math.lgamma(3 * n + 1) - math.lgamma(n + 1) - math.lgamma(2 * n + 1) - math.log(2 * n + 1)
    m = n - 1  # binom(3m + 1, m) / (m + 1)
    return math.lgamma(3 * m + 2) - math.lgamma(m + 1) - math.lgamma(2 * m + 2) - math.log(m + 1)


@pytest.mark.one_in(14)
@roots
@dtypes
@kinds
@pytest.mark.parametrize("n", [5, 60])
def test_numbers_of_trees(kind: Kind, n: int, dtype: torch.dtype, multiroot: bool) -> None:
    tables = {name: torch.zeros(2, *shape, dtype=dtype) for name, shape in kind.shapes(n + 1).items()}
    log_z = kind.log_partition(tables, torch.tensor([n, n - 1]), multiroot)
    expected = [number_of_trees(kind, m, multiroot) for m in (n, n - 1)]
    assert log_z.tolist() == pytest.approx(expected, rel=1e-6 if dtype == torch.float32 else 1e-12)


def test_closed_forms_of_the_counts() -> None:
    for kind, trees in ((KINDS["arcs"], all_trees), (KINDS["crossing arcs"], all_spanning_trees)):
        for n, multiroot in itertools.product(range(1, 6), (False, True)):
            assert round(math.exp(number_of_trees(kind, n, multiroot))) == len(trees(n, multiroot))


@pytest.mark.one_in(30)
@roots
@dtypes
@kinds
@pytest.mark.parametrize("sizes", [[23, 7, 16, 1, 2], [8] * 17 + [9], [60, 3, 40, 9]])
def test_a_batch_is_its_sentences(kind: Kind, sizes: list[int], multiroot: bool, dtype: torch.dtype) -> None:
    """Each alone, without padding, by torch; by compiled code, where torch takes long."""
    tables, lengths = problem(kind, sizes, multiroot=multiroot, junk=[math.nan])
    tables = to(tables, dtype)
    log_z, found = kind.marginals(tables, lengths, multiroot, "compiled")
    drawn = kind.sample(tables, lengths, multiroot, 1)
    torch.testing.assert_close(kind.log_partition(tables, lengths, multiroot), log_z, **EXACT[dtype])
    for b, m in list(enumerate(sizes))[:5]:
        alone = {name: x[None].double() for name, x in kind.corner(tables, b, m).items()}
        expected = kind.marginals(alone, lengths[b : b + 1], multiroot, "torch" if max(sizes) < 20 else "compiled")
        torch.testing.assert_close(log_z[b].double(), expected[0][0], **EXACT[dtype])
        own = kind.corner(found, b, m)
        for name, x in expected[1].items():
            torch.testing.assert_close(own[name].double(), x[0], **EXACT[dtype])
        assert (drawn[0, b, m:] == -1).all() and (drawn[0, b, :m] >= 0).all()


@pytest.mark.one_in(40)
@roots
@dtypes
@kinds
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0, 1000.0])
def test_large_scores_of_long_sentences(kind: Kind, scale: float, dtype: torch.dtype, multiroot: bool) -> None:
    """Compiled code beside torch's in float64, which works in log space alone."""
    tables, lengths = problem(kind, [17, 7, 12, 1], scale=scale, multiroot=multiroot, junk=[math.nan])
    tables = to(tables, dtype)
    expected, exact = kind.marginals(to(tables, torch.float64), lengths, multiroot, "torch")
    log_z, found = kind.marginals(tables, lengths, multiroot, "compiled")
    rough = dtype == torch.float32
    close = {"rtol": 1e-5, "atol": 1e-4} if rough else {"rtol": 1e-12, "atol": 1e-9}
    torch.testing.assert_close(log_z.double(), expected, **close)
    torch.testing.assert_close(kind.log_partition(tables, lengths, multiroot), log_z, rtol=1e-5, atol=1e-4)
    atol = 1e-4 + 2e-5 * scale if rough else 1e-9 + 1e-12 * scale
    for name, x in exact.items():
        torch.testing.assert_close(found[name].double(), x, rtol=1e-3 if rough else 1e-8, atol=atol)


@pytest.mark.one_in(8)
@engines
@dtypes
@kinds
@pytest.mark.parametrize("shift", [1e4, -1e4])
def test_a_shift_of_all_scores_changes_nothing_else(kind: Kind, engine: str, shift: float, dtype: torch.dtype) -> None:
    """A tree of n words has n arcs, as many siblings and 2n stops. Integers, so that the shift does not round."""
    tables, lengths = problem(kind, [14, 5], scale=3.0)
    tables = {name: x.round().to(dtype) for name, x in tables.items()}
    shifts = {name: -2 * shift if name == "stop" else shift for name in tables}
    moved = {name: x + shifts[name] for name, x in tables.items()}
    log_z, plain = kind.marginals(tables, lengths, False, engine)
    shifted, found = kind.marginals(moved, lengths, False, engine)
    total = sum((2 if name == "stop" else 1) * x for name, x in shifts.items())
    torch.testing.assert_close(
        shifted, log_z + total * lengths.to(dtype), rtol=1e-6 if dtype == torch.float32 else 1e-12, atol=1e-6
    )
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-4)


@engines
@pytest.mark.parametrize("name", ["arcs", "siblings"])
@pytest.mark.parametrize("dtype, half, root", [(torch.float32, 40.0, 88.0), (torch.float64, 350.0, 709.0)])
def test_a_bad_root_of_good_trees(name: str, engine: str, dtype: torch.dtype, half: float, root: float) -> None:
    """ROOT's arc to word 5 is too small for real space, but all that word 6, the other root, has to offer is
    nearly as bad, and there are many trees under word 5."""
    n, kind = 12, KINDS[name]
    arcs = torch.zeros(2, n + 1, n + 1, dtype=torch.float64)
    arcs[:, 0], arcs[:, 6] = -torch.inf, -half
    arcs[:, 0, 5], arcs[:, 0, 6] = -root, 0.0
    arcs[:, 4, 6] = arcs[:, 7, 6] = arcs[:, 3, 6] = 0.0
    arcs[1, 6, 5], arcs[1, 5, 6], arcs[1, 4, 6], arcs[1, 7, 6] = -half, 0.0, -half, 0.0
    arcs[1, 1:5, 5] = arcs[1, 7:, 5] = -torch.inf
    tables = {name: torch.zeros(2, *shape, dtype=torch.float64) for name, shape in kind.shapes(n + 1).items()}
    tables["arc"] = arcs.reshape(tables["arc"].shape)
    lengths = torch.tensor([n, n])
    log_z, found = kind.marginals(to(tables, dtype), lengths, False, engine)
    expected, exact = kind.marginals(tables, lengths, False, "torch")
    torch.testing.assert_close(log_z.double(), expected, rtol=1e-6, atol=1e-6)
    for key, x in exact.items():
        torch.testing.assert_close(found[key].double(), x, rtol=1e-5, atol=2e-6)


@engines
@dtypes
def test_later_siblings_a_thousand_nats_apart(engine: str, dtype: torch.dtype) -> None:
    """The best sibling of the best arc is not the best arc's best sibling: shifts must see the sums."""
    kind = KINDS["siblings and stops"]
    tables, lengths = problem(kind, [9, 4])
    tables["arc"][:, 3] += 1000
    tables["sibling"][:, 3] -= 1000
    tables["sibling"][:, :, 2] -= 700
    tables = to(tables, dtype)
    expected = kind.marginals(to(tables, torch.float64), lengths, False, "torch")
    log_z, found = kind.marginals(tables, lengths, False, engine)
    close = {"rtol": 1e-4, "atol": 1e-3 if dtype == torch.float32 else 1e-9}
    torch.testing.assert_close(log_z.double(), expected[0], **close)
    torch.testing.assert_close(to(found, torch.float64), expected[1], **close)


@pytest.mark.one_in(12)
@roots
@engines
@kinds
def test_marginals_add_up(kind: Kind, engine: str, multiroot: bool) -> None:
    """One head per word, one root or more; one stop per head and direction; the last child is a sibling of none."""
    n = 20
    tables, lengths = problem(kind, [n, 1, 11, 2], multiroot=multiroot, junk=[math.nan])
    _, found = kind.marginals(tables, lengths, multiroot, engine)
    close, words = EXACT[torch.float64], (torch.arange(1, n + 1) <= lengths[:, None]).double()
    by_arc = found["arc"] if found["arc"].dim() == 3 else found["arc"].sum(-1)
    torch.testing.assert_close(by_arc[:, :, 1:].sum(1), words, **close)
    of_root = by_arc[:, 0].sum(-1)
    assert (of_root >= 1 - 1e-5).all() and (multiroot or (of_root <= 1 + 1e-5).all())
    if "stop" in found:
        torch.testing.assert_close(found["stop"][:, 1:].sum(-1), words[:, :, None].expand(-1, -1, 2), **close)
    if "sibling" in found:
        torch.testing.assert_close(found["sibling"].sum(-1), by_arc, **close)
    off = ~torch.eye(n, dtype=torch.bool)
    if found.keys() >= {"stop", "sibling"}:
        last = found["stop"].sum(2)[:, 1:, 1:]  # [head, child]: p(it is the last child), but for the diagonal
        followed = found["sibling"].sum(2)[:, 1:, 1:]
        torch.testing.assert_close((last + followed)[:, off], by_arc[:, 1:, 1:][:, off], **close)
    elif "stop" in found and found["arc"].shape[-1] > 1:  # whether a head has children is whether it has a nearest one
        nearest = found["arc"][..., 0]
        first = torch.stack([nearest.tril().sum(2), nearest.triu().sum(2)], -1)
        torch.testing.assert_close(found["stop"][:, 1:, :, 1], first[:, 1:], **close)


@pytest.mark.one_in(12)
@roots
@engines
@kinds
def test_reversal(kind: Kind, engine: str, multiroot: bool) -> None:
    """All but ROOT in the opposite order; which of several roots is the first depends on the side of ROOT."""
    tables, lengths = problem(kind, [9] * 3)
    order = [0, *range(9, 0, -1)]
    if "sibling" in tables:
        tables["sibling"][:, 0] = 0.0
    elif tables["arc"].dim() > 3:
        tables["arc"][:, 0] = tables["arc"][:, 0, :, :1]

    def mirrored(x: Tensor, name: str) -> Tensor:
        for axis, size in enumerate(kind.sizes[name], start=1):
            x = x.index_select(axis, torch.tensor(order)) if size == "N" else x
        return x.flip(2) if name == "stop" else x

    log_z, found = kind.marginals(tables, lengths, multiroot, engine)
    other = {name: mirrored(x, name) for name, x in tables.items()}
    other_log_z, others = kind.marginals(other, lengths, multiroot, engine)
    torch.testing.assert_close(other_log_z, log_z)
    for name, x in found.items():
        torch.testing.assert_close(mirrored(others[name], name)[:, 1:], x[:, 1:])


@engines
def test_valences_and_siblings_of_the_childrens_order(engine: str) -> None:
    """One head, three children on one side: the nearest costs 10 c, the others c; the leftmost root is the first."""
    kind = KINDS["valences and stops"]
    for head, nearest, direction in ((1, 2, 1), (4, 3, 0)):
        arcs, stops = torch.full((1, 5, 5, 2), -torch.inf), torch.zeros(1, 5, 2, 2)
        others = [c for c in range(1, 5) if c != head]
        arcs[0, 0, head] = 0.0
        for c in others:
            arcs[0, head, c, 0], arcs[0, head, c, 1] = 10.0 * c, float(c)
        stops[0, head, :, 1], stops[0, head, :, 0] = 0.25, 0.5
        log_z, found = kind.marginals({"arc": arcs, "stop": stops}, torch.tensor([4]), False, engine)
        assert log_z.item() == pytest.approx(9.0 * nearest + sum(others) + 0.75)
        first = torch.tensor([float(c == nearest) for c in others])
        torch.testing.assert_close(found["arc"][0, head, others], torch.stack([first, 1 - first], -1))
        torch.testing.assert_close(found["stop"][0, head], torch.eye(2)[[1, 0] if direction == 0 else [0, 1]])
    roots_only = torch.full((1, 4, 4, 2), -torch.inf)
    roots_only[0, 0, 1:] = torch.tensor([[10.0, 1.0], [20.0, 2.0], [30.0, 3.0]])
    for n, multiroot, expected in ((3, True, 15.0), (3, False, -math.inf), (1, False, 10.0)):
        log_z = KINDS["valences"].log_partition({"arc": roots_only}, torch.tensor([n]), multiroot, engine)
        assert log_z.item() == pytest.approx(expected)


@pytest.mark.one_in(6)
@roots
@engines
@dtypes
@pytest.mark.parametrize("n", [1, 5, 15])
def test_second_order_trees_of_first_order_scores(n: int, engine: str, dtype: torch.dtype, multiroot: bool) -> None:
    """Siblings that only say whether there is one are valences; of zeros, nothing at all."""
    generator = torch.Generator().manual_seed(n)
    valence = torch.randn(2, n + 1, n + 1, 2, generator=generator, dtype=dtype)
    stops = torch.randn(2, n + 1, 2, 2, generator=generator, dtype=dtype)
    lengths, at = torch.tensor([n, max(1, n - 2)]), torch.arange(n + 1)
    none = at[:, None, None] == at  # (head, 1, sibling): the sibling is the head itself
    siblings = torch.where(none, valence[..., :1], valence[..., 1:])
    tables = {
        "arc": 0 * valence[..., 0],
        "sibling": siblings,
        "stop": torch.where(none, stops[..., :1], stops[..., 1:]),
    }
    log_z, found = KINDS["siblings and stops"].marginals(tables, lengths, multiroot, engine)
    first = to({"arc": valence, "stop": stops}, torch.float64)
    expected, exact = KINDS["valences and stops"].marginals(first, lengths, multiroot, "torch")
    torch.testing.assert_close(log_z.double(), expected, **EXACT[dtype])
    for name, all_of in (("arc", found["arc"]), ("stop", found["stop"].sum(-1))):
        nobody = found["sibling" if name == "arc" else "stop"].diagonal(dim1=1, dim2=3).transpose(1, 2)
        torch.testing.assert_close(torch.stack([nobody, all_of - nobody], -1).double(), exact[name], **EXACT[dtype])
    plain = {"arc": valence[..., 0], "sibling": torch.zeros_like(siblings)}
    log_z, found = KINDS["siblings"].marginals(plain, lengths, multiroot, engine)
    expected, exact = KINDS["arcs"].marginals({"arc": first["arc"][..., :1]}, lengths, multiroot, "torch")
    torch.testing.assert_close(log_z.double(), expected, **EXACT[dtype])
    torch.testing.assert_close(found["arc"].double(), exact["arc"][..., 0], **EXACT[dtype])


# ---------------------------------------------------------------------- where arcs cross


@pytest.mark.one_in(2)
@roots
@engines
@pytest.mark.parametrize("gap", [30.0, 100.0, 300.0, 700.0, 3000.0])
def test_cycles_that_dominate(gap: float, engine: str, multiroot: bool) -> None:
    """Determinants would cancel: Z is exp(-gap) of the product of the pivots' sums."""
    kind, close = KINDS["crossing arcs"], {"rtol": 1e-12, "atol": 1e-10}
    check_sums(kind, {"arc": cycles(gap)}, torch.tensor([5, 5, 5]), multiroot, engine, close)
