# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hierarchical Pitman-Yor processes: observations and internal draws of contexts, and chains of hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.printable import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pyrogram.restaurants.restaurants import Restaurants


def plot_draws(
    restaurants: Restaurants,
    concentration: Tensor | None = None,
    discount: Tensor | None = None,
    *,
    level_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """How many internal draws the contexts of each level have for their observations, each context a dot.

    A draw is an observation of the next coarser context. Under a Pitman-Yor process their number grows like a power of
    the observations, C^ε, under a Dirichlet like their logarithm; if concentrations and discounts are given, a line
    shows the expectation for seats from the process, :func:`expected_draws`.

    :param restaurants: what was observed.
    :param concentration: α of each level, shape ``(L,)``.
    :param discount: ε of each level, shape ``(L,)``.
    :param level_names: for the legend, coarsest first.
    :param ax: where to draw; by default, a new figure.
    :raises ValueError: if one of concentration and discount is missing, or numbers of levels differ.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot_draws needs matplotlib: pip install pyro-grammar[plot]") from error

    L = restaurants.num_levels
    if (concentration is None) != (discount is None):
        raise ValueError("expected concentration and discount, or neither, actual one of them.")
    for name, values in (("concentration", concentration), ("discount", discount), ("level_names", level_names)):
        if values is not None and len(values) != L:
            raise ValueError(f"expected {name} for {plural(L, 'level')}, actual for {len(values)}.")
    if ax is None:
        ax = pyplot.subplots(figsize=(5.2, 4.2), layout="constrained")[1]
    for level in range(L):
        seen, draws = _totals(restaurants, level)
        name = f"level {level}" if level_names is None else level_names[level]
        ax.plot(seen, draws, ".x+1234"[level % 7], color=f"C{level}", markersize=4, alpha=0.5, label=name)
        if concentration is not None and discount is not None and len(seen):
            grid = torch.logspace(0, float(seen.max().log10()), 60, dtype=torch.float64)
            expected = expected_draws(grid, float(concentration[level]), float(discount[level]))
            ax.plot(grid, expected, color=f"C{level}", linewidth=1.2)
    ax.set(xscale="log", yscale="log", xlabel="observations of a context", ylabel="its internal draws")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    return ax


def expected_draws(observations: Tensor, concentration: float, discount: float) -> Tensor:
    """E[T] after C observations of a context whose draws are all told apart: the Pitman-Yor process alone.

    Observation C + 1 has a draw of its own with probability (α + ε T) / (α + C), whose recursion this solves.
    With ε > 0 it is α/ε (Γ(C + α + ε) Γ(α) / (Γ(C + α) Γ(α + ε)) - 1), and α (ψ(C + α) - ψ(α)) with ε = 0.

    :param observations: C, at least 1.
    :param concentration: α >= -ε.
    :param discount: 0 <= ε < 1.
    :returns: in the shape of C, float64.
    :raises ValueError: if α or ε is out of range.
    """
    if not (0 <= discount < 1 and concentration >= -discount):
        raise ValueError(f"expected 0 <= discount < 1, concentration >= -discount, actual {discount}, {concentration}.")
    C = observations.to(torch.float64)
    alpha = torch.tensor(concentration, dtype=torch.float64)
    if discount < 1e-5:  # the difference of logarithms would lose the digits that ε then takes away: two terms in ε
        first, second = (torch.polygamma(k, C + alpha) - torch.polygamma(k, alpha + 1) for k in (0, 1))
        return 1 + alpha * first + discount / 2 * (alpha * (first**2 + second) + 2 * first)
    # With Γ(α + 1) = α Γ(α), the limit for α = 0, and α below zero, need no case of their own.
    growth = torch.lgamma(C + alpha + discount) - torch.lgamma(C + alpha) - torch.lgamma(alpha + discount)
    return ((growth + torch.lgamma(alpha + 1)).exp() - alpha) / discount


def plot_contexts(
    restaurants: Restaurants,
    keys: Sequence[int],
    names: Sequence[str],
    *,
    titles: Sequence[str] | None = None,
    greatest: int = 12,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """What was observed in one context and in its reductions, coarsest first: a panel for each level.

    A bar is how often a value was observed (c), its dark part the internal draws (t), which are observations of the
    panel to the left.

    :param restaurants: what was observed.
    :param keys: of the context at each level, coarsest first.
    :param names: of the values.
    :param titles: of the panels.
    :param greatest: how many values to show, the most frequent ones.
    :param axes: where to draw; by default, a new figure.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot_contexts needs matplotlib: pip install pyro-grammar[plot]") from error

    L = restaurants.num_levels
    if len(keys) != L or len(names) != restaurants.num_values or (titles is not None and len(titles) != L):
        raise ValueError(
            f"expected {L} keys, {restaurants.num_values} names and {L} titles or None, actual {len(keys)}, "
            f"{len(names)} and {titles if titles is None else len(titles)}."
        )
    if axes is not None and len(axes) != L:
        raise ValueError(f"expected one of axes for each of {plural(L, 'level')}, actual {len(axes)}.")
    if axes is None:
        axes = pyplot.subplots(1, L, figsize=(3.4 * L, 0.9 + 0.24 * greatest), layout="constrained", squeeze=False)[1][
            0
        ]
    for level, ax in enumerate(axes):
        table = restaurants.table(level)
        here = table.contexts == int(keys[level])
        values, c, t = table.values[here], table.c[here], table.t[here]
        order = c.argsort(descending=True, stable=True)[:greatest]
        rows = range(len(order))
        ax.barh(rows, c[order].tolist(), color="0.82", label="observations")
        ax.barh(rows, t[order].tolist(), color="C0", label="internal draws")
        ax.set_yticks(rows, [names[int(v)] for v in values[order]], fontsize=8)
        ax.set_ylim(max(len(order), 1) - 0.5, -0.5)
        ax.set_title(f"level {level}" if titles is None else titles[level], fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))  # beside the bars
    return list(axes)


def plot_trace(
    trace: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    *,
    level_names: Sequence[str] | None = None,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Hyperparameters step by step, a panel for each site and a line's style for each of its numbers.

    :param trace: what a sampler's ``trace()`` returns: by site, shape ``(steps, L)`` or ``(steps,)``; or those of
        several chains, all drawn.
    :param level_names: for the legend, one for each number of a site.
    :param axes: where to draw, one for each site; by default, a new figure.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError("plot_trace needs matplotlib: pip install pyro-grammar[plot]") from error

    chains = [trace] if isinstance(trace, Mapping) else list(trace)
    sites = list(chains[0]) if chains else []
    if not sites or any(list(chain) != sites for chain in chains):
        raise ValueError("expected traces of the same sites, at least one, actual none or others.")
    widths = {site: chains[0][site].detach().reshape(max(1, len(chains[0][site])), -1).shape[1] for site in sites}
    if level_names is not None and len(level_names) < max(widths.values()):
        raise ValueError(
            f"expected level_names for {plural(max(widths.values()), 'level')}, actual for {len(level_names)}."
        )
    if axes is None:
        columns = min(len(sites), 3)
        rows = -(-len(sites) // columns)
        size = (3.6 * columns, 2.5 * rows)
        axes = list(pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)[1].flatten())
        for spare in axes[len(sites) :]:
            spare.remove()
    for ax, site in zip(axes, sites, strict=False):
        for number, chain in enumerate(chains):
            values = chain[site].detach().reshape(len(chain[site]), widths[site])
            for level in range(values.shape[1]):
                name = f"level {level}" if level_names is None else level_names[level]
                label = name if number == 0 and values.shape[1] > 1 else None
                style = ("-", "--", ":", "-.")[level % 4]
                ax.plot(range(1, len(values) + 1), values[:, level], style, color=f"C{level}", linewidth=1, label=label)
        ax.set_title(site, fontsize=9)
        ax.set_xlabel("step")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.spines[["top", "right"]].set_visible(False)
    if axes[0].get_legend_handles_labels()[1]:
        axes[0].legend(frameon=False, fontsize=8)
    return list(axes[: len(sites)])


def _totals(restaurants: Restaurants, level: int) -> tuple[Tensor, Tensor]:
    """C and T of every context of a level, as float64."""
    table = restaurants.table(level)
    contexts, place = table.contexts.unique(return_inverse=True)
    zeros = torch.zeros(len(contexts), dtype=torch.float64)
    seen, draws = (zeros.index_add(0, place, counts.to(torch.float64)) for counts in (table.c, table.t))
    return seen, draws
