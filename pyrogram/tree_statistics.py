# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Numbers that say what a derivation looks like: depth, branching, dependency length, rules, changes of state.

Weights of an unsupervised grammar are many, and states that swap their names are other weights and the same trees.
These numbers are few, and know no names. So chains are watched by them, and replicated trees are compared in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, singledispatch
from typing import Any

import torch
from torch import Tensor

from pyrogram.distributions.constraints import DependencyTrees, LeftmostDerivations, States
from pyrogram.draws import FlatRules, depths

__all__ = ["Statistic", "Statistics", "corpus_means", "ready_made", "tree_statistics"]

Statistic = Callable[[Tensor, Tensor], Tensor]
"""From words (..., n) and their derivations (..., L) to a number for each, shape (...); NaN where there is none."""

Statistics = Mapping[str, Statistic]


def tree_statistics(
    derivation: Any, words: Tensor, trees: Tensor, statistics: Statistics | None = None
) -> dict[str, Tensor]:
    """Statistics of derivations, by name, shape ``(*sample, *batch)``, float64.

    =================  =========================================================================================
    **dependency trees** (:class:`.DMV`)
    ------------------------------------------------------------------------------------------------------------
    depth              arcs from ROOT to the word that is farthest from it
    dependency_length  mean of ``|head - dependent|`` over the arcs between words
    left_heads         the share of these arcs whose head is left of its dependent
    mean_children      mean number of children of the words that have any
    most_children      the greatest number of children of a word
    -----------------  -----------------------------------------------------------------------------------------
    **leftmost derivations** (:class:`.CFG`)
    ------------------------------------------------------------------------------------------------------------
    depth              nonterminals from the root to the one that is farthest from it, both counted
    rules              the number of rules
    -----------------  -----------------------------------------------------------------------------------------
    **states** (:class:`.HMM`)
    ------------------------------------------------------------------------------------------------------------
    changes            the number of words whose state is another one than that of the word before
    =================  =========================================================================================

    For derivations of other kinds there is none ready. Means over nothing, as of the arcs of a sentence of one word,
    are NaN.

    >>> words = torch.tensor([[0, 1, 1], [1, 0, -1]])
    >>> grammar = pyrogram.DMV(num_tags=2)
    >>> law = grammar.derivation(grammar.initial_weights(words, "uniform"), words)
    >>> tree_statistics(law, words, torch.tensor([[2, 0, 2], [0, 1, -1]]))["depth"]
    tensor([2., 2.], dtype=torch.float64)

    :param derivation: a distribution over derivations, as of ``grammar.derivation``, or its support.
    :param words: shape ``(*batch, n)``, padded with -1.
    :param trees: derivations, as the distribution draws them, shape ``(*sample, *batch, L)``, padded with -1.
    :param statistics: others, by name: each a function of words ``(..., n)`` and derivations ``(..., L)`` to numbers
        ``(...)``.
    :raises TypeError: if ``statistics`` are no functions by name.
    :raises ValueError: if a function returns another shape.
    """
    if statistics is None:
        statistics = ready_made(getattr(derivation, "support", derivation))
    if not isinstance(statistics, Mapping):
        raise TypeError(f"statistics must be functions by name, not {statistics!r:.80}")
    words = words.expand(*trees.shape[:-1], words.shape[-1])
    results = {name: torch.as_tensor(statistic(words, trees)) for name, statistic in statistics.items()}
    for name, values in results.items():
        if values.shape != trees.shape[:-1]:
            raise ValueError(
                f"statistic {name!r} must return a number for each derivation, shape {tuple(trees.shape[:-1])}, not "
                f"{tuple(values.shape)}"
            )
    return {name: values.to(torch.float64) for name, values in results.items()}


def corpus_means(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Means over the sentences that have a value, shape ``(..., N)`` to ``(...)``, by name; NaN if none has."""
    return {name: x.nanmean(-1) for name, x in values.items()}


@singledispatch
def ready_made(support: Any) -> dict[str, Statistic]:
    """The statistics that there are for derivations of a kind, by name; see :func:`tree_statistics`.

    :param support: of a distribution over derivations. A grammar with derivations of its own registers its statistics
        by ``ready_made.register``.
    """
    return {}


@ready_made.register
def _(support: DependencyTrees) -> dict[str, Statistic]:
    return {
        "depth": _of_trees(_depth),
        "dependency_length": _of_trees(_dependency_length),
        "left_heads": _of_trees(_left_heads),
        "mean_children": _of_trees(_mean_children),
        "most_children": _of_trees(_most_children),
    }


@ready_made.register
def _(support: LeftmostDerivations) -> dict[str, Statistic]:
    return {"depth": _of_trees(partial(_depth_of_rules, support.rules)), "rules": _of_trees(_num_rules)}


@ready_made.register
def _(support: States) -> dict[str, Statistic]:
    return {"changes": _of_trees(_changes)}


def _of_trees(statistic: Callable[[Tensor], Tensor]) -> Statistic:
    return lambda words, trees: statistic(trees)


# ---------------------------------------------------------------------- heads


def _depth(heads: Tensor) -> Tensor:
    """By jumps along arcs that double in length: n words take log n of them."""
    above = torch.nn.functional.pad(heads.clamp_min(0).long(), (1, 0))
    arcs = torch.nn.functional.pad((heads >= 0).long(), (1, 0))
    for _ in range(heads.shape[-1].bit_length()):
        arcs = arcs + arcs.gather(-1, above)
        above = above.gather(-1, above)
    return arcs.amax(-1)


def _between_words(heads: Tensor) -> tuple[Tensor, Tensor]:
    """Which words have a word for a head, and how far it is to the left."""
    return heads > 0, torch.arange(1, heads.shape[-1] + 1, device=heads.device) - heads


def _dependency_length(heads: Tensor) -> Tensor:
    arcs, distance = _between_words(heads)
    return (arcs * distance.abs()).sum(-1) / arcs.sum(-1)


def _left_heads(heads: Tensor) -> Tensor:
    arcs, distance = _between_words(heads)
    return (arcs & (distance > 0)).sum(-1) / arcs.sum(-1)


def _num_children(heads: Tensor) -> Tensor:
    """Of each word, shape (..., n)."""
    n = heads.shape[-1]
    none = torch.zeros(*heads.shape[:-1], n + 1, dtype=torch.long, device=heads.device)
    return none.scatter_add_(-1, heads.clamp_min(0).long(), (heads > 0).long())[..., 1:]


def _mean_children(heads: Tensor) -> Tensor:
    children = _num_children(heads)
    return children.sum(-1) / (children > 0).sum(-1)


def _most_children(heads: Tensor) -> Tensor:
    return _num_children(heads).amax(-1)


# ---------------------------------------------------------------------- rules and states


def _num_rules(rows: Tensor) -> Tensor:
    return (rows >= 0).sum(-1)


def _depth_of_rules(rules: FlatRules, rows: Tensor) -> Tensor:
    return depths(rows.reshape(-1, rows.shape[-1]).long(), rules).reshape(rows.shape[:-1])


def _changes(states: Tensor) -> Tensor:
    return ((states[..., 1:] != states[..., :-1]) & (states[..., 1:] >= 0)).sum(-1)
