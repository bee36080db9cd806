# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Logistic normals that are weights, and nothing else: their Gaussians have a q that Newton's method moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from .selection import Computed, Origins
from .sites import is_latent, is_learnt, is_left_out
from .structure import GaussianSite, WeightSource, leaf_of


def held_normals(
    nodes: Mapping[str, Any],
    normals: Mapping[str, WeightSource],
    origins: Mapping[str, Origins],
    multinomials: Collection[str],
    reached: Mapping[str, set[int]],
) -> dict[str, GaussianSite] | None:
    """The Gaussian sites of the logistic normals of a model, if all can have a q that Newton's method moves.

    All weights then are made of logistic normals and other multinomials. Nothing else is latent, scaled or masked; only
    priors have densities that depend on something, which is a parameter; and there are no parameters but these.

    :param normals: the logistic normals.
    :param origins: what blocks are made of, by site.
    :param multinomials: other sources.
    :param reached: by site, the ids of the leaves that its density depends on.
    """
    latent = {n: s for n, s in nodes.items() if is_latent(s)}
    gaussians = {n: s for n, s in latent.items() if "gaussian" in s["infer"]}
    structures = {n: s.logistic_normal for n, s in normals.items() if s.logistic_normal is not None}
    needed = {name for normal in structures.values() for name in normal.sites.values()}
    blocks = [block for by_block in origins.values() for block in by_block.values()]
    selections = [block for block in blocks if not isinstance(block, Computed)]
    untied = {selection.whole for selection in selections}
    selected = {name for selection in selections for name in selection.sources}
    computed = len(selections) < len(blocks)
    if not normals or computed or not normals.keys() <= selected <= {*normals, *multinomials}:
        return None
    for name in normals.keys() - untied:  # its entries are tied, which those of each sentence cannot be
        if normals[name].value.shape != normals[name].block.shape:
            return None
    if gaussians.keys() != needed or latent.keys() - gaussians.keys() - set(multinomials):
        return None
    sites = [s for s in nodes.values() if s["type"] == "sample" and not is_left_out(s)]
    if any(s["mask"] is not None or bool((torch.as_tensor(s["scale"]) != 1).any()) for s in sites):
        return None
    parameters = {id(leaf_of(s["value"])) for n, s in nodes.items() if is_learnt(s) and n not in multinomials}
    priors = {n: leaves - {id(nodes[n]["value"])} for n, leaves in reached.items()}
    if any(leaves - parameters if n in latent else leaves for n, leaves in priors.items()):
        return None
    if parameters - set().union(*priors.values()):
        return None
    for normal in structures.values():
        for family, name in normal.sites.items():
            if len(gaussians[name]["infer"]["gaussian"].shape) > len(normal.structure.experts[family].shape):
                return None  # a mean for each element of a plate
    return {n: GaussianSite(n, s["infer"]["gaussian"], s["value"]) for n, s in gaussians.items()}


def expanded_mean(site: Any) -> Tensor:
    """The mean of a Gaussian site, in the shape of a draw: a view, however many sentences there are."""
    loc: Tensor = site["infer"]["gaussian"].loc
    return loc.expand(site["fn"].batch_shape + site["fn"].event_shape)
