# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The weights of a grammar as a heat map, with the names of heads, rules, states and words."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from pyrogram.viz.heat import heat_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class HasAxes(Protocol):
    """A grammar, as far as it is needed here."""

    @property
    def blocks(self) -> Mapping[str, Any]: ...

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]: ...


def plot_weights(
    grammar: HasAxes,
    weights: Mapping[str, Tensor],
    block: str,
    *,
    symbols: Sequence[str] | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """One block of a grammar's weights: a row for each multinomial, a column for each of its events.

    Multinomials of different sizes, the rules of a context-free grammar by their left sides, have a row for each rule.
    Weights of 0.095 and more are printed, so that no number needs to be read off a shade.

    :param weights: by block, shape ``block.shape``; of one grammar.
    :param block: the name of the block.
    :param symbols: names in place of the numbers 0, 1, ... of the grammar's axes: tags of a DMV, words of an HMM.
    :param ax: where to draw; by default, a new figure.
    :param title: printed above; by default, the name of the block.
    :returns: the axes.
    :raises ValueError: if there is no such block, or its weights have another shape or are no probabilities.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot_weights needs matplotlib: pip install pyro-grammar[plot]") from error

    if block not in grammar.blocks or block not in weights:
        raise ValueError(f"there is no block {block!r}; the grammar has {', '.join(grammar.blocks)}")
    shape = tuple(grammar.blocks[block].shape)
    table = torch.as_tensor(weights[block]).detach().to("cpu", torch.float64)
    if tuple(table.shape) != shape:
        raise ValueError(f"weights of block {block!r} must have shape {shape}, got {tuple(table.shape)}")
    if not bool(((table >= 0) & (table <= 1 + 1e-6)).all()):
        raise ValueError(f"weights of block {block!r} must be probabilities, from 0 to 1")
    named = grammar.axes.get(block, {str(k): [str(x) for x in range(size)] for k, size in enumerate(shape)})
    names = [_named(labels, symbols) for labels in named.values()]
    axes = list(named)
    if hasattr(grammar.blocks[block], "sizes"):  # rules, which are on the vertical axis
        table, names, axes = table.reshape(-1, 1), [names[-1], ["weight"]], [axes[-1], ""]
    rows = [" ".join(x) for x in itertools.product(*names[:-1])] or [""]
    table = table.reshape(len(rows), -1)
    if ax is None:
        size = (1.8 + max(2.2, 0.34 * table.shape[1]), 0.9 + 0.24 * len(rows))
        ax = pyplot.subplots(figsize=size, layout="constrained")[1]
    heat_map(ax, table.tolist(), rows, lambda p: f"{p:.2f}".lstrip("0"))
    upright = max(map(len, names[-1])) <= 3
    ax.set_xticks(range(table.shape[1]), names[-1], rotation=0 if upright else 90, fontsize=8)
    ax.set_xlabel(axes[-1].replace("_", " "))
    ax.set_ylabel(", ".join(axes[:-1]).replace("_", " "))
    ax.set_title(block if title is None else title)
    return ax


def _named(labels: Sequence[str], symbols: Sequence[str] | None) -> list[str]:
    """The names along an axis: those that are numbers 0, 1, ... may have other ones."""
    if symbols is not None and [str(x) for x in range(min(len(labels), len(symbols)))] == list(labels[: len(symbols)]):
        return [*map(str, symbols[: len(labels)]), *labels[len(symbols) :]]
    return list(labels)
