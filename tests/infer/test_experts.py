# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Newton's method for logistic normal experts against scipy, with the bound written again in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from pyrogram.logistic_normal import experts
from pyrogram.logistic_normal.experts import ExpertLayout, ExpertPriors
from pyrogram.runtime.lanes import load, log, store

Array = Any
# An expert in a group: its number, and for each attachment the multinomial row of the group and its first coordinate.
Expert = tuple[int, list[tuple[int, int]]]


class Problem:
    """A layout, written as lists, and the bound given counts, computed from these lists.

    :param lengths: the length of each expert.
    :param groups: for each group the sizes of its multinomials, and its experts.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        groups: Sequence[tuple[list[int], list[Expert]]],
        *,
        full: Sequence[bool] | bool = True,
        seed: int = 0,
        size: float = 3.0,
        spread: float = 1.0,
    ):
        self.groups = groups
        generator = np.random.default_rng(seed)
        flags = [full] * len(lengths) if isinstance(full, bool) else list(full)
        self.mus = [generator.normal(size=length) for length in lengths]
        self.covariances = []
        for length, flag in zip(lengths, flags, strict=True):
            root = generator.normal(size=(length, length))
            sigma = root @ root.T / length + 0.3 * np.eye(length)
            self.covariances.append(spread * (sigma if flag else np.diag(np.diag(sigma))))
        self.priors = evaluate_priors(self.mus, self.covariances, flags)
        row_group, sizes, expert_group, expert, counts = [], [], [], [], []
        att_row, att_coord, att_scale = [], [], []
        for g, (rows, members) in enumerate(groups):
            base = len(row_group)
            row_group += [g] * len(rows)
            sizes += rows
            parts = np.bincount([row for _, links in members for row, _ in links], minlength=len(rows))
            for n, links in members:
                expert_group.append(g)
                expert.append(n)
                counts.append(len(links))
                for row, coord in links:
                    att_row.append(base + row)
                    att_coord.append(coord)
                    att_scale.append(1 / parts[row])
        self.rows = ExpertLayout(
            row_group=np.array(row_group),
            row_start=starts(sizes),
            expert_group=np.array(expert_group),
            expert=np.array(expert),
            expert_start=starts([lengths[n] for n in expert]),
            group_ptr=np.searchsorted(expert_group, np.arange(len(groups) + 1)),
            att_ptr=starts(counts),
            att_row=np.array(att_row),
            att_coord=np.array(att_coord),
            att_scale=np.array(att_scale),
        )
        self.f = generator.gamma(0.5, size, size=sum(sizes))
        total = sum(lengths[n] for n in expert)
        self.m, self.v = generator.normal(size=total), generator.gamma(2.0, 0.5, size=total)
        self.u, self.w = experts.averages(self.rows, self.m, self.v)

    def update(self, *groups: int, **options: Any) -> None:
        chosen = np.array(groups) if groups else np.arange(len(self.groups))
        experts.update(self.rows, self.priors, self.f, self.m, self.v, self.u, self.w, chosen, **options)

    def bound(self, m: torch.Tensor, v: torch.Tensor, group: int | None = None) -> torch.Tensor:
        """Expected log-likelihood, and minus the divergence of every expert, in torch."""
        total = torch.zeros(())
        row = coordinate = e = 0
        f = torch.from_numpy(self.f)
        for g, (sizes, members) in enumerate(self.groups):
            parts: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in sizes]
            for n, links in members:
                length = len(self.mus[n])
                own_m, own_v = m[coordinate : coordinate + length], v[coordinate : coordinate + length]
                for k, c in links:
                    parts[k].append((own_m[c : c + sizes[k]], own_v[c : c + sizes[k]]))
                prior = MultivariateNormal(torch.from_numpy(self.mus[n]), torch.from_numpy(self.covariances[n]))
                if group in (None, g):
                    total = total - kl_divergence(MultivariateNormal(own_m, own_v.diag()), prior)
                coordinate += length
                e += 1
            for k, size in enumerate(sizes):
                u = sum((a for a, _ in parts[k]), torch.zeros(size)) / max(len(parts[k]), 1)
                w = sum((b for _, b in parts[k]), torch.zeros(size)) / max(len(parts[k]), 1) ** 2
                counts = f[row : row + size]
                if group in (None, g):
                    total = total + counts @ (u - torch.logsumexp(u + w / 2, 0))
                row += size
        return total

    def value(self) -> float:
        return self.bound(torch.from_numpy(self.m), torch.from_numpy(self.v)).item()

    def gradient(self) -> Array:
        """By m and by log v."""
        m, s = torch.from_numpy(self.m.copy()).requires_grad_(), torch.from_numpy(np.log(self.v)).requires_grad_()
        return torch.cat(torch.autograd.grad(self.bound(m, s.exp()), [m, s])).numpy()

    def optimum(self) -> tuple[float, Array, Array]:
        """By scipy, from the prior's means and unit variances."""

        def negative(x: Array) -> tuple[float, Array]:
            y = torch.from_numpy(x).requires_grad_()
            m, s = y.chunk(2)
            value = -self.bound(m, s.exp())
            return value.item(), torch.autograd.grad(value, y)[0].numpy()

        mu = np.concatenate([self.mus[n] for n in self.rows.expert])
        start = np.concatenate([mu, np.zeros_like(mu)])
        options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50}
        found = scipy.optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
        m, s = np.split(found.x, 2)
        return -found.fun, m, np.exp(s)


def starts(sizes: Sequence[int]) -> Array:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))])


def evaluate_priors(mus: list[Array], covariances: list[Array], full: Sequence[bool]) -> ExpertPriors:
    precisions = [np.linalg.inv(sigma) for sigma in covariances]
    lengths = [len(mu) for mu in mus]
    return ExpertPriors(
        mu=np.concatenate(mus),
        start=starts(lengths),
        diagonal=~np.array(full),
        precision=np.concatenate([p.ravel() if flag else np.diag(p) for p, flag in zip(precisions, full, strict=True)]),
        matrix_start=starts([n**2 if flag else n for n, flag in zip(lengths, full, strict=True)]),
        log_det=np.array([np.linalg.slogdet(sigma)[1] for sigma in covariances]),
        precision_diag=np.concatenate([np.diag(p) for p in precisions]),
    )


def own(*sizes: int) -> tuple[list[int], list[list[tuple[list[int], list[Expert]]]]]:
    """One expert per multinomial, in twenty groups in which some do not occur."""
    groups = []
    for g in range(20):
        present = [n for n in range(len(sizes)) if (g + n) % 3 or g == 0]
        groups.append(([sizes[n] for n in present], [(n, [(k, 0)]) for k, n in enumerate(present)]))
    return list(sizes), groups


LAYOUTS: dict[str, tuple[list[int], list[Any]]] = {
    "own": own(3, 2, 5),
    "wide": own(17, 8, 9, 23),
    "two experts per multinomial": ([3, 3], [([3], [(0, [(0, 0)]), (1, [(0, 0)])])] * 3),
    "one segment in several multinomials": ([4], [([4] * k, [(0, [(r, 0) for r in range(k)])]) for k in (1, 2, 3, 3)]),
    "own experts and a shared one": (
        [4, 4, 4, 4],
        [
            ([4, 4, 4], [(0, [(0, 0)]), (1, [(1, 0)]), (2, [(2, 0)]), (3, [(0, 0), (1, 0)])]),
            ([4, 4], [(1, [(0, 0)]), (2, [(1, 0)]), (3, [(0, 0)])]),
            ([4], [(2, [(0, 0)])]),
        ],
    ),
    "a long expert": (
        [2, 6, 3],
        [
            ([2, 4, 3], [(0, [(0, 0)]), (1, [(0, 0), (1, 2)]), (2, [(2, 0)])]),
            ([4], [(1, [(0, 2)])]),
            ([2], [(0, [(0, 0)]), (1, [(0, 0)])]),
        ],
    ),
    "two segments of one expert in one multinomial": (
        [6, 3],
        [([3, 3], [(0, [(0, 0), (0, 3)]), (1, [(0, 0), (1, 0)])])] * 2,
    ),
    "one event": ([1, 2], [([1, 2], [(0, [(0, 0)]), (1, [(1, 0)])]), ([1], [(0, [(0, 0)])])]),
    "an expert that takes part in nothing": ([3, 2], [([3], [(0, [(0, 0)]), (1, [])])]),
}


LARGE = ("own", "wide")  # scipy takes long


@pytest.mark.one_in(40)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("layout", [pytest.param(x, marks=pytest.mark.slow) if x in LARGE else x for x in LAYOUTS])
def test_optimum_is_scipys(layout: str, full: bool) -> None:
    problem = Problem(*LAYOUTS[layout], full=full, seed=1)
    problem.update(steps=200, tolerance=1e-13)
    value, m, v = problem.optimum()
    assert problem.value() >= value - 1e-9
    np.testing.assert_allclose(problem.m, m, atol=2e-4)
    np.testing.assert_allclose(problem.v, v, rtol=2e-4)
    np.testing.assert_allclose(problem.gradient(), 0, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_full_and_diagonal_priors_side_by_side(layout: str) -> None:
    lengths, groups = LAYOUTS[layout]
    problem = Problem(lengths, groups, full=[n % 2 == 0 for n in range(len(lengths))], seed=2)
    problem.update(steps=200, tolerance=1e-13)
    np.testing.assert_allclose(problem.gradient(), 0, atol=1e-5)


@pytest.mark.one_in(36)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("size", "spread"), [(1.0, 1.0), (1e-3, 1.0), (1e6, 1.0), (30.0, 1e6), (3.0, 1e-6), (1e6, 1e3)]
)
def test_never_lowers_the_bound(layout: str, full: bool, size: float, spread: float) -> None:
    """From wild starts, a step at a time; and in the end nothing is left to gain."""
    problem = Problem(*LAYOUTS[layout], full=full, seed=3, size=size, spread=spread)
    problem.m *= 5
    problem.v *= np.exp(5 * np.random.default_rng(4).normal(size=len(problem.v)))
    problem.u, problem.w = experts.averages(problem.rows, problem.m, problem.v)
    problem.f[::7] = 0
    before = problem.value()
    for _ in range(12):
        problem.update(steps=1, tolerance=0.0)
        after = problem.value()
        assert after >= before - 1e-11 * (1 + abs(before))
        before = after
    assert np.isfinite([*problem.m, *problem.v]).all()


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(("size", "spread"), [(1e-3, 1.0), (1e6, 1.0), (30.0, 1e4), (3.0, 1e-6), (1e6, 1e3)])
def test_optimum_of_extreme_problems(full: bool, size: float, spread: float) -> None:
    """The gradient by log v and by m relative to what its terms add up to."""
    problem = Problem(*LAYOUTS["wide"], full=full, seed=5, size=size, spread=spread)
    problem.f[::5] = 0
    problem.update(steps=200, tolerance=1e-13)
    scale = 1 + problem.f.max() + np.abs(problem.priors.precision).max()
    np.testing.assert_allclose(problem.gradient() / scale, 0, atol=1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("full", [True, False])
def test_segments_of_one_expert_in_one_multinomial_with_many_counts(full: bool) -> None:
    """Their cross terms are bounded: slower than Newton, but steps lead to the optimum."""
    problem = Problem([6], [([3], [(0, [(0, 0), (0, 3)])])] * 3, full=full, seed=13, size=30.0)
    before, top = problem.value(), problem.optimum()[0]
    problem.update(steps=60, tolerance=0.0)
    assert top - problem.value() < 0.01 * (top - before)


@pytest.mark.parametrize("full", [True, False])
def test_a_few_steps_from_the_prior_suffice(full: bool) -> None:
    """Newton's steps, not a fixed point's: digits double."""
    problem = Problem(*LAYOUTS["wide"], full=full, seed=6, size=1.0)
    at_prior(problem)
    problem.update(steps=7, tolerance=0.0)
    np.testing.assert_allclose(problem.gradient(), 0, atol=1e-7)


def at_prior(problem: Problem) -> None:
    picks = np.concatenate(
        [np.arange(problem.priors.start[n], problem.priors.start[n + 1]) for n in problem.rows.expert]
    )
    problem.m[:], problem.v[:] = problem.priors.mu[picks], 1 / problem.priors.precision_diag[picks]
    problem.u[:], problem.w[:] = experts.averages(problem.rows, problem.m, problem.v)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_counts_the_prior_stays(layout: str, full: bool) -> None:
    problem = Problem(*LAYOUTS[layout], full=full)
    at_prior(problem)
    problem.f[:] = 0
    m, v, u, w = (x.copy() for x in (problem.m, problem.v, problem.u, problem.w))
    problem.update()
    for name, expected in {"m": m, "v": v, "u": u, "w": w}.items():
        np.testing.assert_allclose(getattr(problem, name), expected, rtol=1e-15, atol=1e-16, err_msg=name)
    start = Problem(*LAYOUTS[layout], full=full)
    start.f[:] = 0
    start.update(steps=2)  # what remains is quadratic
    np.testing.assert_allclose(start.m, m, atol=1e-12)
    np.testing.assert_allclose(start.v, v, rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_mixtures_follow(layout: str) -> None:
    problem = Problem(*LAYOUTS[layout], seed=7)
    for _ in range(30):
        problem.update(steps=2, tolerance=0.0)
    u, w = experts.averages(problem.rows, problem.m, problem.v)
    np.testing.assert_allclose(problem.u, u, atol=1e-13)
    np.testing.assert_allclose(problem.w, w, atol=1e-13)


def test_only_the_groups_listed() -> None:
    """Bit by bit: neither do the others change, nor does it matter what is done side by side."""
    whole, some = (Problem(*LAYOUTS["wide"], seed=8) for _ in range(2))
    m, v, u, w = (x.copy() for x in (some.m, some.v, some.u, some.w))
    whole.update()
    some.update(1, 4, 5)
    group_of_row = np.repeat(some.rows.row_group, some.rows.row_size)
    group_of_expert = np.repeat(some.rows.expert_group, some.rows.length)
    for name, old, group in (
        ("m", m, group_of_expert),
        ("v", v, group_of_expert),
        ("u", u, group_of_row),
        ("w", w, group_of_row),
    ):
        listed = np.isin(group, [1, 4, 5])
        np.testing.assert_array_equal(getattr(some, name), np.where(listed, getattr(whole, name), old), err_msg=name)


def test_nothing_depends_on_threads() -> None:
    lengths, groups = LAYOUTS["own experts and a shared one"]
    wide = LAYOUTS["wide"]
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found = []
        for layout in ((lengths, groups * 2000), (wide[0], wide[1] * 100)):
            problem = Problem(*layout, seed=9)
            problem.update()
            psi = np.zeros_like(problem.u)
            experts.log_weights(problem.rows, problem.u, problem.w, np.arange(len(problem.groups)), psi)
            found += [problem.m, problem.v, problem.u, problem.w, psi]
            found += [*experts.moments(problem.rows, problem.priors, problem.m, problem.v)]
            found += [experts.negative_kl(problem.rows, problem.priors, problem.m, problem.v)]
        results.append(found)
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_log_weights_and_divergences(layout: str) -> None:
    """By torch's distributions; rows of other groups stay as they are."""
    lengths, groups = LAYOUTS[layout]
    problem = Problem(lengths, groups, full=[n % 2 == 0 for n in range(len(lengths))], seed=10)
    problem.v[:2], problem.v[-1] = 1e-200, 1e5
    problem.u, problem.w = experts.averages(problem.rows, problem.m, problem.v)
    rows = problem.rows
    psi = np.full_like(problem.u, 7.0)
    experts.log_weights(rows, problem.u, problem.w, np.array([0]), psi)
    for r, g in enumerate(rows.row_group):
        part = slice(rows.row_start[r], rows.row_start[r + 1])
        z = torch.from_numpy(problem.u + problem.w / 2)[part]
        expected = problem.u[part] - torch.logsumexp(z, 0).item() if g == 0 else 7.0
        np.testing.assert_allclose(psi[part], expected, rtol=1e-14)
    expected = np.zeros(len(groups))
    for e, n in enumerate(rows.expert):
        part = slice(rows.expert_start[e], rows.expert_start[e + 1])
        q = Normal(torch.from_numpy(problem.m[part]), torch.from_numpy(problem.v[part]).sqrt())
        full = MultivariateNormal(q.loc, scale_tril=q.scale.diag())
        prior = MultivariateNormal(torch.from_numpy(problem.mus[n]), torch.from_numpy(problem.covariances[n]))
        expected[rows.expert_group[e]] -= kl_divergence(full, prior).item()
    np.testing.assert_allclose(experts.negative_kl(rows, problem.priors, problem.m, problem.v), expected, rtol=1e-10)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_moments(layout: str) -> None:
    lengths, groups = LAYOUTS[layout]
    full = [n % 2 == 0 for n in range(len(lengths))]
    problem = Problem(lengths, groups * 3, full=full, seed=11)
    counts, first, second = experts.moments(problem.rows, problem.priors, problem.m, problem.v)
    for n, mu in enumerate(problem.mus):
        where = [int(problem.rows.expert_start[e]) for e in (problem.rows.expert == n).nonzero()[0]]
        d = np.array([problem.m[s : s + len(mu)] - mu for s in where])
        variances = np.array([problem.v[s : s + len(mu)] for s in where])
        expected = d.T @ d + np.diag(variances.sum(0))
        assert counts[n] == len(where)
        part = slice(problem.priors.start[n], problem.priors.start[n + 1])
        np.testing.assert_allclose(first[part], d.sum(0), rtol=1e-12, atol=1e-12)
        matrix = second[problem.priors.matrix_start[n] : problem.priors.matrix_start[n + 1]]
        np.testing.assert_allclose(matrix, expected.ravel() if full[n] else np.diag(expected), rtol=1e-12, atol=1e-12)


def test_what_is_not_finite_stays_in_its_row() -> None:
    """Counts that are NaN or infinite move nothing, and nobody else feels them."""
    problem, clean, before = (Problem(*LAYOUTS["wide"], seed=12) for _ in range(3))
    problem.f[3] = np.nan
    problem.f[problem.rows.row_start[5]] = np.inf
    problem.update()
    clean.update()
    bad = np.isin(np.arange(len(problem.rows.expert)), [0, 5])
    own = np.repeat(bad, problem.rows.length)
    np.testing.assert_array_equal(problem.m[~own], clean.m[~own])
    np.testing.assert_array_equal(problem.v[~own], clean.v[~own])
    np.testing.assert_allclose(problem.m[own], before.m[own], rtol=1e-14)
    assert np.isfinite(problem.v).all()


def test_no_groups() -> None:
    problem = Problem(*LAYOUTS["own"])
    m = problem.m.copy()
    experts.update(
        problem.rows, problem.priors, problem.f, problem.m, problem.v, problem.u, problem.w, np.zeros(0, np.int64)
    )
    np.testing.assert_array_equal(problem.m, m)


ONE_ROW: dict[str, Any] = {
    "row_group": [0],
    "row_start": [0, 3],
    "expert_group": [0],
    "expert": [0],
    "expert_start": [0, 3],
    "group_ptr": [0, 1],
    "att_ptr": [0, 1],
    "att_row": [0],
    "att_coord": [0],
    "att_scale": [1.0],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("row_group", [1]),
        ("row_start", [0, 0]),
        ("row_start", [0, 3, 6]),
        ("expert_group", [-1]),
        ("expert_start", [1, 4]),
        ("group_ptr", [0, 0]),
        ("att_ptr", [0, 2]),
        ("att_row", [1]),
        ("att_row", [-1]),
        ("att_coord", [1]),
        ("att_coord", [-1]),
        ("att_scale", [1.0, 1.0]),
    ],
)
def test_layouts_that_do_not_fit(name: str, value: list[Any]) -> None:
    ExpertLayout(**ONE_ROW)
    with pytest.raises(ValueError, match=name):
        ExpertLayout(**{**ONE_ROW, name: value})


def test_arguments_that_do_not_fit() -> None:
    problem = Problem(*LAYOUTS["own"])
    with pytest.raises(ValueError, match="groups must ascend"):
        problem.update(1, 0)
    with pytest.raises(ValueError, match="groups must ascend"):
        problem.update(3, 20)
    with pytest.raises(ValueError, match="m must be"):
        experts.averages(problem.rows, problem.m[:-1], problem.v)
    with pytest.raises(ValueError, match="f must be"):
        problem.f = problem.f.astype(np.float32)
        problem.update()
    other = Problem([3, 2], [([3], [(0, [(0, 0)])])])
    with pytest.raises(ValueError, match="as there are so many priors"):
        experts.negative_kl(problem.rows, other.priors, problem.m, problem.v)
    other = Problem([3, 2, 4], [([3], [(0, [(0, 0)])])])
    with pytest.raises(ValueError, match="other lengths"):
        experts.moments(problem.rows, other.priors, problem.m, problem.v)
    p = other.priors
    with pytest.raises(ValueError, match="log_det"):
        ExpertPriors(p.mu, p.start, p.diagonal, p.precision, p.matrix_start, p.log_det[:-1], p.precision_diag)
    with pytest.raises(ValueError, match="matrix_start"):
        ExpertPriors(p.mu, p.start, ~p.diagonal, p.precision, p.matrix_start, p.log_det, p.precision_diag)


def test_experts_that_begin_elsewhere_are_refused() -> None:
    """Each of these fits all that follows from it, and would be read before the arrays or behind them."""
    two = {"mu": [0.0] * 2, "start": [0, 1, 2], "diagonal": [True] * 2, "precision": [1.0] * 2, "log_det": [0.0] * 2}
    two |= {"matrix_start": [0, 1, 2], "precision_diag": [1.0] * 2}
    ExpertPriors(**{name: np.array(x) for name, x in two.items()})
    below = {"mu": [], "start": [-2, -1, 0], "precision_diag": []}
    back = {"start": [0, 3, 2], "matrix_start": [0, 3, 2]}
    deep, few = {"start": [[0, 1, 2]]}, {"diagonal": [True]}
    for change, name in ((below, "start"), (back, "start"), (deep, "start"), (few, "diagonal")):
        with pytest.raises(ValueError, match=f"^{name} "):
            ExpertPriors(**{name: np.array(x) for name, x in (two | change).items()})
    for name in ("expert", "row_group", "group_ptr", "att_row"):
        with pytest.raises(ValueError, match=f"^{name} must have one dimension"):
            ExpertLayout(**{**ONE_ROW, name: [ONE_ROW[name]]})


def test_logarithm_in_lanes() -> None:
    from numba import njit

    @njit
    def logs(x: Array) -> None:
        for i in range(len(x) // 8):
            store(x, i, log(load(x, i)))

    generator = np.random.default_rng(0)
    x = np.concatenate([np.exp(generator.uniform(-708, 709, 4000)), 1 + generator.uniform(-1e-3, 1e-3, 3992)])
    x = np.concatenate([x, [1.0, 2.0**-1022, 1.7e308, 0.5**0.5, np.nextafter(1, 0), np.nextafter(1, 2), 0.5, 2.0]])
    found = x.copy()
    logs(found)
    np.testing.assert_allclose(found, np.log(x), rtol=4e-16, atol=0)
    wrong = np.array([0.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -0.0, -np.nan])
    logs(wrong)
    assert np.isnan(wrong).all()
