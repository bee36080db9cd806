# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The objective of an inference, iteration by iteration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

History = Sequence[float] | Sequence[Sequence[float]]


def plot_bound(
    history: History,
    *,
    held_out: History | None = None,
    ax: Axes | None = None,
    label: str | None = None,
) -> Axes:
    """Plots what a loop's ``step`` returned, one value for each iteration, from 1.

    Several runs (many starts) are thin lines, with their mean thick; a run that stopped early counts in
    the mean with its last value.

    :param history: the objective of one run, or a list of several runs.
    :param held_out: an objective on other sentences, dashed, on an axis of its own at the right; the same
        number of runs. It may be NaN in iterations in which nobody looked.
    :param ax: where to draw; by default, a new figure.
    :param label: the objective's name, for the axis and the legend.
    :returns: the axes with the objective.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError("plot_bound needs matplotlib: pip install pyro-grammar[plot]") from error

    runs = _runs("history", history)
    others = [] if held_out is None else _runs("held_out", held_out)
    if others and list(map(len, others)) != list(map(len, runs)):
        raise ValueError(
            f"held_out must have as many runs and iterations as history, got {[len(r) for r in others]} "
            f"and {[len(r) for r in runs]}."
        )
    if ax is None:
        ax = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")[1]
    name = label or "objective"
    lines = _draw(ax, runs, "C0", "-", name)
    ax.set_xlabel("iteration")
    ax.set_ylabel(name)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    if others:
        right = ax.twinx()
        lines += _draw(right, others, "C1", "--", "held out")
        right.set_ylabel("held out")
        right.spines["top"].set_visible(False)
    if others or label:
        ax.legend(handles=lines, loc="lower right", frameon=False)
    return ax


def _runs(name: str, history: History) -> list[list[float]]:
    """The history as a list of runs, each with at least one iteration."""
    values: list[Any] = list(history)
    try:
        runs = [[float(x) for x in run] for run in (values if any(map(_is_run, values)) else [values])]
    except (TypeError, ValueError):  # numbers among runs, runs among numbers, or neither
        runs = []
    if not runs or not all(runs):
        raise ValueError(f"{name} must be numbers or a list of sequences of numbers, got {history!r}.")
    return runs


def _is_run(value: object) -> bool:
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0  # a tensor () is a number


def _draw(ax: Axes, runs: list[list[float]], colour: str, dash: str, label: str) -> list[Line2D]:
    """Draws the runs and returns the lines that the legend shows."""
    thin: dict[str, Any] = {"linewidth": 1.8} if len(runs) == 1 else {"linewidth": 0.8, "alpha": 0.4}
    lines = [_curve(ax, run, color=colour, linestyle=dash, label=label, **thin) for run in runs]
    if len(runs) == 1:
        return lines
    name = f"{label}, mean of {len(runs)}"
    return [_curve(ax, _mean(runs), color=colour, linestyle=dash, label=name, linewidth=2.2)]


def _curve(ax: Axes, run: list[float], **style: Any) -> Line2D:
    kept = [i for i, value in enumerate(run) if not math.isnan(value)]
    return ax.plot([i + 1 for i in kept], [run[i] for i in kept], **style)[0]


def _mean(runs: list[list[float]]) -> list[float]:
    """The mean of each iteration; a run that has stopped counts with its last value."""
    longest = max(map(len, runs))
    full = [run + [_last(run)] * (longest - len(run)) for run in runs]
    return [math.fsum(column) / len(runs) for column in zip(*full, strict=True)]


def _last(run: list[float]) -> float:
    return next((value for value in reversed(run) if not math.isnan(value)), math.nan)
