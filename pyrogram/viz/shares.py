# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a grammar takes from which sources: bars of the whole, and a heat map of its multinomials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.printable import plural
from pyrogram.viz.heat import heat_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_shares(
    shares: Tensor,
    rows: Sequence[str],
    sources: Sequence[str],
    *,
    whole: Tensor | None = None,
    greatest: int = 10,
    axes: Sequence[Axes] | None = None,
    title: str | None = None,
) -> tuple[Axes, Axes]:
    """The shares of sources in a grammar; of all but the greatest, the sum.

    Above, a bar for each source, its share in the whole; below, a row for each multinomial, darker where a source has
    more of it. Shares of 10 % and more are printed as well, so that no number needs to be read off a colour.

    :param shares: of each source in each row, shape ``(R, K)``; rows sum to 1. See :meth:`.Sources.table`.
    :param rows: names of the R multinomials.
    :param sources: names of the K sources.
    :param whole: share of each source in all rows together, shape ``(K,)``; by default, the mean over rows.
    :param greatest: how many sources have a place of their own: those with most of the whole.
    :param axes: where to draw, a pair: bars and heat map, one above the other; by default, a new figure.
    :param title: printed above.
    :returns: both axes.
    :raises ValueError: for shares that do not sum to 1, or names that do not fit them.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot_shares needs matplotlib: pip install pyro-grammar[plot]") from error

    table = _checked("shares", shares, (len(rows), len(sources)))
    total = table.mean(0) if whole is None else _checked("whole", whole, (len(sources),))
    if greatest < 1:
        raise ValueError(f"greatest must be at least 1, got {greatest}.")
    order = total.argsort(descending=True, stable=True).tolist()
    shown, rest = order[:greatest], order[greatest:]
    names = [sources[k] for k in shown]
    pairs = [(total[shown], total[rest]), (table[:, shown], table[:, rest])]
    total, table = (torch.cat([a, b.sum(-1, keepdim=True)], -1) if rest else a for a, b in pairs)
    if rest:
        names.append(plural(len(rest), "other"))
    if axes is None:
        heights = [1.6, 0.19 * len(rows) + 0.9]
        grid = {"height_ratios": heights}
        size = (max(4.0, 1.8 + 0.5 * len(names)), sum(heights) + 0.4)
        axes = pyplot.subplots(2, sharex=True, figsize=size, gridspec_kw=grid, layout="constrained")[1]
    elif len(axes) != 2:
        raise ValueError(f"axes must be two, for bars and for the heat map, got {len(axes)}.")
    bars, heat = axes
    places = range(len(names))
    bars.bar(places, (100 * total).tolist(), 0.8, color=["#08519c"] * len(shown) + ["0.6"] * bool(rest))
    for x, share in enumerate(total.tolist()):
        bars.annotate(
            f"{100 * share:.0f}", (x, 100 * share), (0, 2), textcoords="offset points", ha="center", fontsize=8
        )
    bars.set_ylabel("% of all")
    bars.set_ylim(0, 115 * float(total.max()))
    bars.spines[["top", "right"]].set_visible(False)
    bars.tick_params(axis="x", length=0, labelbottom=False)
    heat_map(heat, table.tolist(), rows, lambda share: f"{100 * share:.0f}")
    heat.set_xticks(places, names, rotation=90, fontsize=8)
    heat.set_xlabel("source (numbers are %)", fontsize=8)
    if title is not None:
        bars.set_title(title)
    return bars, heat


def _checked(argument: str, shares: Tensor, shape: tuple[int, ...]) -> Tensor:
    """In float64 on the CPU."""
    table = torch.as_tensor(shares).detach().to("cpu", torch.float64)
    if tuple(table.shape) != shape or not table.numel():
        raise ValueError(f"{argument} must have shape {shape}, by rows and sources, got {tuple(table.shape)}.")
    if not bool((table >= 0).all()) or not bool(((table.sum(-1) - 1).abs() < 1e-3).all()):
        raise ValueError(f"{argument} must be at least 0 and sum to 1 over the sources.")
    return table
