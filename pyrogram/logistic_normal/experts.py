# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The variational Gaussians of (shared) logistic normal experts, a set of its own for every group.

A *group* is what shares one draw of the experts: a sentence, or the corpus. In each, q(eta) = prod N(m, v), with v a
variance, is one factor of the mean field; the other is a grammar with the log weights psi (2008, appendix A, and 2009,
Figure 3, with Lambda = Sigma^-1 where the appendix prints Sigma). For a multinomial k, the mean of the segments J_k,

    u_k = sum of m / |J_k|      w_k = sum of v / |J_k|^2      psi_k = u_k - log sum_i exp(u_ki + w_ki / 2)

and a group's bound is log Z(exp psi) + negative_kl. Only what occurs in a group is stored; arrays of numbers are flat,
row behind row, and belong to the caller.
"""

from __future__ import annotations

import numpy as np

from pyrogram.logistic_normal import sums
from pyrogram.logistic_normal.arrays import State
from pyrogram.logistic_normal.batches import Scratch, update_blocks
from pyrogram.logistic_normal.direction import make_cells
from pyrogram.logistic_normal.layout import ExpertLayout, ExpertPriors
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.threads import run_workers

__all__ = ["ExpertLayout", "ExpertPriors", "averages", "log_weights", "moments", "negative_kl", "update"]


def averages(layout: ExpertLayout, m: Array, v: Array) -> tuple[Array, Array]:
    """Mixed means u and mixed variances w of all multinomial rows."""
    _check_arrays(m=(m, layout.expert_start), v=(v, layout.expert_start))
    u, w = np.zeros(layout.row_start[-1]), np.zeros(layout.row_start[-1])
    sums.average(layout.arrays, m, v, u, w)
    return u, w


def log_weights(layout: ExpertLayout, u: Array, w: Array, groups: Array, psi: Array) -> None:
    """psi = u - log sum exp(u + w/2) of the multinomial rows of the listed groups, in place."""
    _check_arrays(u=(u, layout.row_start), w=(w, layout.row_start), psi=(psi, layout.row_start))
    groups = _check_groups(layout, groups)
    start = layout.row_start[layout.row_ptr]
    sizes = np.diff(start)[groups]

    def work(turns: Array) -> None:
        mem = np.zeros(int(sizes.max(initial=0)) + sums.WIDTH)
        sums.log_weights(layout.arrays, u, w, groups, turns, mem, psi)

    run_workers(work, cost=20.0 * sizes.sum())


def negative_kl(layout: ExpertLayout, priors: ExpertPriors, m: Array, v: Array, groups: Array | None = None) -> Array:
    """(G,): minus the Kullback-Leibler divergence from q to the prior, summed over the expert rows of each group.

    :param groups: those wanted, zero for others; None: all.
    """
    _check_arrays(m=(m, layout.expert_start), v=(v, layout.expert_start))
    _check_priors(layout, priors)
    out = np.zeros(layout.num_groups)
    groups = np.arange(layout.num_groups) if groups is None else _check_groups(layout, groups)
    share = len(groups) / max(layout.num_groups, 1)

    def work(turns: Array) -> None:
        d, y = np.zeros((2, int(layout.length.max(initial=0))))
        sums.negative_kl(layout.arrays, priors.arrays, m, v, groups, turns, d, y, out)

    run_workers(work, cost=share * _cost(layout, priors, 10.0, 2))
    return out


def moments(layout: ExpertLayout, priors: ExpertPriors, m: Array, v: Array) -> tuple[Array, Array, Array]:
    """What the M-step needs of each expert, summed over its rows.

    :returns: the number of rows (N,); sum of m - mu, flat like ``priors.mu``; sum of (m - mu)(m - mu)' + diag(v), flat
        like ``priors.precision``: only the diagonal of it where the covariance is diagonal.
    """
    _check_arrays(m=(m, layout.expert_start), v=(v, layout.expert_start))
    _check_priors(layout, priors)
    first = np.zeros((sums.PARTS, len(priors.mu)))
    second = np.zeros((sums.PARTS, len(priors.precision)))

    def work(turns: Array) -> None:
        d = np.zeros(int(layout.length.max(initial=0)))
        sums.moments(layout.arrays, priors.arrays, m, v, turns, d, first, second)

    run_workers(work, cost=_cost(layout, priors, 4.0, 2))
    return np.bincount(layout.expert, minlength=len(priors.length)), first.sum(0), second.sum(0)


def update(
    layout: ExpertLayout,
    priors: ExpertPriors,
    f: Array,
    m: Array,
    v: Array,
    u: Array,
    w: Array,
    groups: Array,
    *,
    steps: int = 8,
    tolerance: float = 1e-8,
) -> None:
    """Raise the bound of the listed groups by Newton steps for each of their experts, in place on m, v, u and w.

    An expert that shares no multinomial with another climbs alone, those that do take turns. No step lowers the bound.

    :param f: expected counts, flat like u.
    :param u, w: what :func:`averages` returns for m and v; kept so.
    :param groups: distinct, ascending.
    :param steps: at most so many Newton steps for each expert row.
    :param tolerance: in nats: an expert is done (the experts of a group that take turns are done) when the last step
        was taken with no more than this to gain.
    :raises ValueError: if arrays have another size or dtype than the rows say.
    """
    _check_arrays(m=(m, layout.expert_start), v=(v, layout.expert_start))
    _check_arrays(f=(f, layout.row_start), u=(u, layout.row_start), w=(w, layout.row_start))
    _check_priors(layout, priors)
    order, block_ptr = layout.blocks(_check_groups(layout, groups))
    x, prior, state = layout.arrays, priors.arrays, State(f, m, v, u, w)
    gain = np.zeros(layout.num_groups)
    most = int(np.diff(layout.att_ptr).max(initial=0))
    sizes = (
        int(layout.length.max(initial=0)),
        layout.most_coordinates,
        layout.most_slots,
        most,
        not priors.diagonal.all(),
    )

    def work(turns: Array) -> None:
        mem, cells = make_cells(*sizes)
        scratch = Scratch(mem, cells, np.zeros((most, 6), np.int64), np.zeros((3, 8), np.int64))
        update_blocks(scratch, x, prior, state, order, block_ptr, turns, (steps, tolerance), gain)

    run_workers(work, cost=steps * _cost(layout, priors, 100.0, 3) * len(order) / max(len(layout.expert), 1))


def _cost(layout: ExpertLayout, priors: ExpertPriors, per_coordinate: float, power: int) -> float:
    """Rough number of operations of all expert rows: so many per coordinate, and length**power if full."""
    length = layout.length.astype(np.float64)
    return float((per_coordinate * length + np.where(priors.diagonal[layout.expert], 0, length**power)).sum())


def _check_arrays(**arrays: tuple[Array, Array]) -> None:
    for name, (array, start) in arrays.items():
        if array.shape != (start[-1],) or array.dtype != np.float64 or not array.flags.c_contiguous:
            shown = f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"{name} must be a contiguous float64 array of shape ({start[-1]},), but is {shown}")


def _check_groups(layout: ExpertLayout, groups: Array) -> Array:
    groups = np.ascontiguousarray(groups, np.int64)
    if len(groups) and (groups[0] < 0 or groups[-1] >= layout.num_groups or (np.diff(groups) <= 0).any()):
        raise ValueError(f"groups must ascend strictly within 0..{layout.num_groups - 1}, but are {groups}")
    return groups


def _check_priors(layout: ExpertLayout, priors: ExpertPriors) -> None:
    if len(layout.expert) and (layout.expert.min() < 0 or layout.expert.max() >= len(priors.length)):
        raise ValueError(f"expert must be in 0..{len(priors.length) - 1}, as there are so many priors")
    if (priors.length[layout.expert] != layout.length).any():
        raise ValueError("expert_start gives experts other lengths than their priors have")
