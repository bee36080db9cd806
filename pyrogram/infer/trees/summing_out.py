# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Latent trees summed out of a model."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

import pyro
import torch
from pyro import poutine

from .arc_factors import ArcFactors
from .sites import Tree, TreeSite, TreeSites

HEADS_AT_ONCE = 2**18


def collapse_trees(
    model: Callable[..., Any],
    sites: str | Collection[str] | None = None,
    *,
    heads_at_once: int = HEADS_AT_ONCE,
) -> Callable[..., Any]:
    """A model without its latent trees: they are summed out, exactly, by the dynamic program.

    Latent sites of :class:`.ProjectiveDependencyTree` (so of ``DMV.derivation``), :class:`.SiblingDependencyTree` and
    :class:`.StateSequence` can be summed out if their likelihood, which is all that depends on a tree, is a sum over
    words i of some l_i(head of i), whatever that is; ::

        heads = pyro.sample("heads", grammar.derivation(weights, words))
        tags = of_heads(torch.nn.functional.pad(words, (1, 0), value=ROOT), heads)
        pyro.sample("tokens", Categorical(emission[tags]).to_event(1), obs=tokens)

    Then log sum_y p(y) exp(sum_i l_i(y_i)) is log Z of the tree with l added to its arcs. The l_i are found by running
    the model on heads that differ in one word, and need not be a tree. So the model must take heads with more
    dimensions on the left (``heads[..., i]``, :func:`.of_heads`), as for enumeration in parallel. Whether it does, and
    whether the likelihood is such a sum, is checked in every run.

    What is left is a model for SVI with any guide, for NUTS, and for ``Predictive``, with gradients. Its log joint is
    that of the model with all trees added up: a factor ``<site>.collapsed`` has what other sites, whose log
    probabilities are given a drawn tree, lack. What is not observed and depends on a tree is drawn given that tree. A
    tree that a handler around the model conditions or replays stays a site. :func:`.infer_trees` draws the trees.

    >>> import math, pyro
    >>> def model():
    ...     heads = pyro.sample("heads", pyrogram.distributions.ProjectiveDependencyTree(torch.zeros(3, 3)))
    ...     pyro.factor("evidence", (heads[..., 0] == 0) * math.log(3))  # three times as likely in one of two trees
    >>> trace = pyro.poutine.trace(collapse_trees(model)).get_trace()
    >>> round(float(trace.log_prob_sum().exp()), 4)
    2.0

    A stack has n^2 trees for n words (n K for K states, and for a ``to_event`` of m sentences, m n^2).

    :param model: a Pyro model.
    :param sites: names of tree sites; by default all.
    :param heads_at_once: how many heads the model is given at a time, which bounds the memory; if there are more, a
        gradient takes the model's runs again.
    :returns: a model with the same arguments.
    :raises ModelError: when it runs, if the likelihood is no such sum, if it and its tree have different scales, or for
        derivations of other kinds.
    :raises ValueError: when it runs, if a site is missing.
    """
    names = [sites] if isinstance(sites, str) else sites

    def collapsed(*args: Any, **kwargs: Any) -> Any:
        run = sum_out(partial(model, *args, **kwargs), names, "collapse_trees", heads_at_once)
        missing = set(names or ()) - run.met
        if missing or not run.met:
            raise ValueError(f"collapse_trees found no latent site of trees {sorted(missing) or ''} in the model")
        return run.result

    return collapsed


class Run(NamedTuple):
    """A run of a model whose latent trees are summed out.

    :param result: what the model returns.
    :param trees: by name, the site as it was drawn, and the distribution of its trees given all else.
    :param met: names of tree sites, those included that a handler around the model gave a value.
    """

    result: Any
    trees: dict[str, tuple[TreeSite, Tree]]
    met: set[str]


def sum_out(model: Callable[[], Any], names: Collection[str] | None, caller: str, heads_at_once: int) -> Run:
    """Run a model, sum out its latent trees, and add factors of what the sums gain over the trees drawn."""
    with poutine.trace() as recorded, TreeSites(names, caller) as sites:
        result = model()
    for name in sites.conditioned:  # so that the model has the same sites as without its values
        pyro.factor(f"{name}.collapsed", torch.zeros(()))
    trees: dict[str, tuple[TreeSite, Tree]] = {}
    if sites.latent:
        bonuses = ArcFactors(model, recorded.trace.nodes, sites.latent, caller, heads_at_once).bonuses()
        for name, site in sites.latent.items():
            posterior = site.tree.tilted(bonuses[name])
            gained = posterior.log_partition - site.tree.log_partition
            for _ in range(site.reinterpreted):
                gained = gained.sum(-1)
            with site.surroundings():
                pyro.factor(f"{name}.collapsed", gained)
            trees[name] = (site, posterior)
    return Run(result, trees, sites.conditioned | sites.latent.keys())
