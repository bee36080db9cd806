# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A table of probabilities as a heat map, the greater ones printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DARK = 0.72  # a number from which white is easier to read than black
LEAST = 0.095  # a number from which it is printed


def heat_map(ax: Axes, table: list[list[float]], rows: Sequence[str], written: Callable[[float], str]) -> None:
    """Draw the cells and the names of the rows; those of the columns are the caller's.

    :param table: numbers from 0 to 1, by row.
    :param written: how a number is printed.
    """
    ax.imshow(table, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for y, row in enumerate(table):
        for x, number in enumerate(row):
            if number >= LEAST:
                shade = "white" if number > DARK else "black"
                ax.text(x, y, written(number), ha="center", va="center", fontsize=7, color=shade)
    ax.set_yticks(range(len(rows)), rows, fontsize=8 if len(rows) <= 30 else 7)
    ax.tick_params(length=0, pad=2)
    ax.spines[:].set_visible(False)
