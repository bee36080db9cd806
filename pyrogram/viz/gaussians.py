# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Logistic normal priors: what covaries with what, and what each expert contributes to a multinomial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = Tensor | Sequence[float]
Matrix = Tensor | Sequence[Sequence[float]]


def plot_covariance(
    covariance: Matrix,
    names: Sequence[str],
    *,
    families: Sequence[str] | None = None,
    correlation: bool = False,
    diagonal: bool = True,
    limit: float | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """A heat map of a covariance matrix: red is positive, blue negative, white 0, with the same scale for both.

    :param covariance: symmetric, shape ``(N, N)``.
    :param names: of the N coordinates, say tags.
    :param families: of the N coordinates: those of one family are put side by side, families in the order in which
        they first appear, with lines between them.
    :param correlation: show the correlations; the scale then goes from -1 to 1 unless ``diagonal`` is false.
    :param diagonal: colour the diagonal. Variances are often far greater than covariances; without them (grey) the
        scale is that of what is left.
    :param limit: the scale goes from ``-limit`` to ``limit``; by default to the greatest magnitude that is coloured.
    :param ax: where to draw; by default, a new figure, larger for more coordinates.
    :param title: printed above.
    :returns: the axes with the heat map.
    :raises ValueError: if the matrix is not symmetric and finite, if it has no correlations (a variance that is not
        positive), or if names or families do not fit it.
    """
    try:
        from matplotlib import colormaps, pyplot
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError("plot_covariance needs matplotlib: pip install pyro-grammar[plot]") from error

    matrix = _checked_matrix(covariance)
    size = len(matrix)
    _check_strings("names", names, size, "coordinate")
    if limit is not None and not limit > 0:
        raise ValueError(f"limit must be positive, got {limit}.")
    order = list(range(size))
    if families is not None:
        _check_strings("families", families, size, "coordinate")
        first = {family: i for i, family in reversed(list(enumerate(families)))}
        order.sort(key=lambda i: first[families[i]])
        matrix = matrix[order][:, order]
    if correlation:
        matrix = _correlations(matrix)
    off = matrix.masked_fill(torch.eye(size, dtype=torch.bool), 0.0)
    if limit is None:
        limit = 1.0 if correlation and diagonal else float((matrix if diagonal else off).abs().max())
    shown = matrix if diagonal else matrix.clone().fill_diagonal_(torch.nan)

    if ax is None:
        side = max(3.6, 1.4 + 0.17 * size)
        ax = pyplot.subplots(figsize=(side + 1.2, side), layout="compressed")[1]
    colours = colormaps["RdBu_r"].with_extremes(bad="0.85")
    limit = limit or 1.0  # of zeros any scale is right
    image = ax.imshow(shown.tolist(), cmap=colours, vmin=-limit, vmax=limit, interpolation="nearest")
    font = 8 if size <= 30 else 7
    labels = [names[i] for i in order]
    ax.set_xticks(range(size), labels, rotation=90, fontsize=font)
    ax.set_yticks(range(size), labels, fontsize=font)
    ax.tick_params(length=0, pad=2)
    ax.spines[:].set_visible(False)
    if families is not None:
        _mark_families(ax, [families[i] for i in order])
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.7, aspect=25, label="correlation" if correlation else "covariance")
    bar.locator = MaxNLocator(6)
    bar.update_ticks()
    if title is not None:
        ax.set_title(title)
    return ax


def plot_experts(
    experts: Mapping[str, Vector],
    names: Sequence[str],
    *,
    greatest: int | None = None,
    centred: bool = True,
    axes: Sequence[Axes] | None = None,
    title: str | None = None,
) -> tuple[Axes, Axes]:
    """What each expert contributes to one multinomial of a shared logistic normal, and the probabilities it comes to.

    Above, for each event, one bar for each expert, its mean divided by ``|J|``, and a dot for their sum, the mixed mean
    (Cohen and Smith 2009, Definition 1); below, softmax of the mixed mean. Events are in the order of their
    probabilities.

    :param experts: name of each expert in J to the mean of its segment, shape ``(N,)``, as it is, not divided.
    :param names: of the N events.
    :param greatest: show only so many events, those of the greatest probabilities; all by default.
    :param centred: subtract from each expert its average over all events, which softmax does not see: a bar above 0
        makes an event more probable.
    :param axes: where to draw, a pair: contributions and probabilities; by default, a new figure.
    :param title: printed above.
    :returns: both axes.
    :raises ValueError: if there are no experts, or if they or ``names`` do not have one length.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot_experts needs matplotlib: pip install pyro-grammar[plot]") from error

    contributions, mixed = _contributions(experts, centred)
    size = len(mixed)
    _check_strings("names", names, size, "event")
    if greatest is not None and greatest < 1:
        raise ValueError(f"greatest must be at least 1, got {greatest}.")
    if axes is not None and len(axes) != 2:
        raise ValueError(f"axes must be two, for contributions and for probabilities, got {len(axes)}.")
    probabilities = mixed.softmax(0)
    order = probabilities.argsort(descending=True, stable=True)[:greatest].tolist()
    if axes is None:
        width = min(max(4.8, 1.4 + 0.09 * len(order) * (len(contributions) + 1.5)), 12.0)
        grid = {"height_ratios": [2, 1]}
        axes = pyplot.subplots(2, sharex=True, figsize=(width, 4.2), gridspec_kw=grid, layout="constrained")[1]
    above, below = axes
    width = 0.84 / len(contributions)
    for j, (name, part) in enumerate(contributions.items()):
        places = [i + (j - (len(contributions) - 1) / 2) * width for i in range(len(order))]
        above.bar(places, part[order].tolist(), width, color=f"C{j}", label=name)
    above.plot(range(len(order)), mixed[order].tolist(), "o", color="black", markersize=3.5, label="sum")
    above.axhline(0, color="0.4", linewidth=0.8)
    above.set_ylabel(f"mean / {len(contributions)}" + (", centred" if centred else ""))
    above.legend(frameon=False, fontsize=9)
    below.bar(range(len(order)), probabilities[order].tolist(), 0.84, color="0.45")
    below.set_ylabel("probability")
    above.tick_params(axis="x", length=0, labelbottom=False)
    font = 8 if len(order) <= 30 else 7
    below.set_xticks(range(len(order)), [names[i] for i in order], rotation=90 if len(order) > 6 else 0, fontsize=font)
    for panel in (above, below):
        panel.set_xlim(-0.7, len(order) - 0.3)
        panel.spines[["top", "right"]].set_visible(False)
    if title is not None:
        above.set_title(title)
    return above, below


def _checked_matrix(covariance: Matrix) -> Tensor:
    """The matrix in float64 on the CPU."""
    try:
        matrix = torch.as_tensor(covariance).detach().to("cpu", torch.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"covariance must be a matrix of numbers, got {covariance!r}.") from error
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ValueError(f"covariance must have shape (N, N), got {tuple(matrix.shape)}.")
    if not bool(matrix.isfinite().all()):
        raise ValueError("covariance must be finite, got NaN or infinity.")
    apart = float((matrix - matrix.T).abs().max())
    if apart > 1e-4 * float(matrix.abs().max()):  # what float32 loses
        raise ValueError(
            f"covariance must be symmetric, got elements that differ by {apart:g} from their mirror image."
        )
    return matrix


def _correlations(matrix: Tensor) -> Tensor:
    variances = matrix.diagonal()
    if not bool((variances > 0).all()):
        raise ValueError(f"correlations need positive variances, got {float(variances.min()):g} on the diagonal.")
    scale = variances.rsqrt()
    return matrix * scale * scale[:, None]


def _mark_families(ax: Axes, families: Sequence[str]) -> None:
    """Lines between families of neighbours, and their names at the right."""
    start = 0
    for family, members in groupby(families):
        stop = start + len(list(members))
        if start:
            ax.axhline(start - 0.5, color="0.35", linewidth=0.6)
            ax.axvline(start - 0.5, color="0.35", linewidth=0.6)
        ax.annotate(
            family,
            (1, (start + stop - 1) / 2),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8 if len(families) <= 30 else 7,
            color="0.25",
        )
        start = stop


def _contributions(experts: Mapping[str, Vector], centred: bool) -> tuple[dict[str, Tensor], Tensor]:
    """Each expert's mean divided by their number, and the sum."""
    contributions = {}
    for name, mean in experts.items():
        try:
            part = torch.as_tensor(mean).detach().to("cpu", torch.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"experts[{name!r}] must be numbers, got {mean!r}.") from error
        if part.dim() != 1 or not len(part) or not bool(part.isfinite().all()):
            raise ValueError(f"experts[{name!r}] must be finite numbers of shape (N,), got shape {tuple(part.shape)}.")
        contributions[name] = (part - part.mean() if centred else part) / len(experts)
    lengths = {name: len(part) for name, part in contributions.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"experts must be at least one, all of one length, got lengths {lengths}.")
    return contributions, torch.stack(list(contributions.values())).sum(0)


def _check_strings(argument: str, strings: Sequence[str], size: int, unit: str) -> None:
    if isinstance(strings, str) or len(strings) != size:
        got = repr(strings) if isinstance(strings, str) else len(strings)
        raise ValueError(f"{argument} must be {size} strings, one for each {unit}, got {got}.")
