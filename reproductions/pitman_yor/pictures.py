# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pictures of chains of the lexicalised dependency model: hyperparameters, internal draws, and one context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from pyrogram.data.lexical import CASES
from pyrogram.distributions import HierarchicalPitmanYor
from pyrogram.grammars.lexical_dependencies import SITES
from pyrogram.models import observed_events
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pyrogram.restaurants.restaurants import Paths, Restaurants
    from reproductions.pitman_yor.experiment import PitmanYorTable

_RESEATED = 20  # sweeps over exact seats, given the chain's last hyperparameters


def all_pictures(study: PitmanYorTable, learnt: Mapping[Key, Learnt]) -> dict[str, Figure]:
    """By name: ``traces`` of all chains of a row, ``draws`` and ``contexts`` of the first chain of another.

    The rows are those with most to be seen, as far as there are any: Pitman-Yor before Dirichlet; draws and contexts
    of exact seats, which are drawn anew, and else those that the paths say.
    """
    figures = {}
    chains = _best(
        learnt, [f"{p}-sampled-{q}" for p in ("pitman-yor", "dirichlet") for q in ("minimal", "exact", "maximal")]
    )
    if chains:
        figures["traces"] = _traces(chains)
    ranked = [
        f"{p}-{how}-{q}"
        for p in ("pitman-yor", "dirichlet")
        for how in ("sampled", "fixed")
        for q in ("exact", "minimal", "maximal")
    ]
    chains = _best(learnt, ranked)
    for key, run in sorted(chains.items(), key=lambda item: item[0].start)[:1]:
        seats = _seats(study, key, run)
        figures |= {
            "draws": _draws(seats, run, exact=key.row.endswith("exact")),
            "contexts": _context(study, seats["words"]),
        }
    return figures


def _best(learnt: Mapping[Key, Learnt], rows: list[str]) -> dict[Key, Learnt]:
    """The chains of the first of these rows that has any."""
    for row in rows:
        if chains := {key: run for key, run in learnt.items() if key.row == row}:
            return chains
    return {}


def _traces(chains: Mapping[Key, Learnt]) -> Figure:
    """A panel for each site, a line for each level and chain."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    from pyrogram.viz.restaurants import plot_trace

    kinds = [k for k in ("strength", "discount") if any(f"tags_{k}_0" in run.curves for run in chains.values())]
    names = [f"{site}_{kind}" for kind in kinds for site in SITES]
    figure = Figure(figsize=(3.6 * len(SITES), 2.5 * len(kinds)), layout="constrained")
    axes = list(figure.subplots(len(kinds), len(SITES), squeeze=False).flatten())
    plot_trace([{name: _trace(run, name) for name in names} for run in chains.values()], axes=axes)
    handles, labels = axes[0].get_legend_handles_labels()
    if (legend := axes[0].get_legend()) is not None:  # among so many lines there is no room for it
        legend.remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    for name, ax in zip(names, axes, strict=True):
        if name.endswith("strength"):
            ax.set_yscale("log")
            ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_title(name.replace("_strength", ": strength α + ε").replace("_discount", ": discount ε"), fontsize=9)
    return figure


def _trace(run: Learnt, name: str) -> Tensor:
    """Shape ``(steps, L)``."""
    return torch.tensor(list(_levels(run, name)), dtype=torch.float64).T


def _levels(run: Learnt, name: str) -> Iterator[tuple[float, ...]]:
    level = 0
    while (curve := run.curves.get(f"{name}_{level}")) is not None:
        yield curve
        level += 1


def _seats(study: PitmanYorTable, key: Key, run: Learnt) -> dict[str, Restaurants]:
    """The training events at their tables, given a chain's last hyperparameters."""
    train, grammar = study.train, study.grammar
    values, contexts = observed_events(grammar.events(train.tags, train.words, train.cases, train.heads))
    paths = cast("Paths", key.row.rpartition("-")[2])
    generator = torch.Generator().manual_seed(study.seed + key.start)
    seats = {}
    for site in SITES:
        alpha, epsilon = (run.parameters[f"{site}.{name}"] for name in ("alpha", "epsilon"))
        process = HierarchicalPitmanYor(contexts[site], alpha, epsilon, grammar.num_values[site], paths=paths)
        seats[site] = process.restaurants(values[site], generator)
        for _ in range(_RESEATED if paths == "exact" else 0):
            seats[site].reseat(alpha, epsilon, generator)
    return seats


def _draws(seats: Mapping[str, Restaurants], run: Learnt, exact: bool) -> Figure:
    """A panel for each site; what the process expects is a line, where seats are the process's own."""
    from matplotlib.figure import Figure

    from pyrogram.viz.restaurants import plot_draws

    figure = Figure(figsize=(4.0 * len(SITES), 3.4), layout="constrained")
    for site, ax in zip(SITES, figure.subplots(1, len(SITES)), strict=True):
        prior = [run.parameters[f"{site}.{name}"] for name in ("alpha", "epsilon")] if exact else [None, None]
        plot_draws(seats[site], *prior, ax=ax)
        ax.set_title(site, fontsize=9)
        for dots in ax.collections + ax.lines:
            dots.set_rasterized(len(dots.get_xdata()) > 500)
    return figure


def _context(study: PitmanYorTable, seats: Restaurants) -> Figure:
    """The words in the context below ROOT that has most internal draws, and in its reductions."""
    from matplotlib.figure import Figure

    from pyrogram.viz.restaurants import plot_contexts

    features = _features(study)
    keys = study.grammar.keys("words", features)
    table = seats.table(-1)
    contexts, place = table.contexts.unique(return_inverse=True)
    draws = torch.zeros(len(contexts), dtype=torch.long).index_add(0, place, table.t)
    inside = torch.isin(contexts, keys[-1])
    best = contexts[inside][draws[inside].argmax()]
    i = int((keys[-1] == best).nonzero()[0])
    tag, parent, word = (
        names[int(features[name][i])]
        for name, names in (("tag", study.tag_names), ("parent_tag", study.tag_names), ("parent_word", study.lexicon))
    )
    side = ("left", "right")[int(features["direction"][i])]
    case = CASES[int(features["parent_case"][i])]
    titles = [tag, f"{tag}, {side} of {parent}", f"{tag}, {side} of {word}/{parent}, {case}"]
    figure = Figure(figsize=(3.4 * len(titles), 3.6), layout="constrained")
    axes = list(figure.subplots(1, len(titles)))
    plot_contexts(seats, [int(k[i]) for k in keys], study.lexicon, titles=titles, axes=axes)
    return figure


def _features(study: PitmanYorTable) -> dict[str, Tensor]:
    """Of the training words whose parent is a word: what their word is conditioned on, each ``(M,)``."""
    train = study.train
    parent = (train.heads - 1).clamp_min(0)
    inside = train.heads > 0
    position = torch.arange(train.heads.shape[1]).expand_as(parent)
    features = {"tag": train.tags, "direction": (position > parent).long()}
    for name, values in (("tag", train.tags), ("word", train.words), ("case", train.cases)):
        features[f"parent_{name}"] = values.gather(1, parent)
    return {name: values[inside] for name, values in features.items()}
