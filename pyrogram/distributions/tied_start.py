# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From experts trained without tying to where a shared logistic normal starts.

The schedule of Cohen and Smith (2009, section 4.1): train without parameter tying, then add it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .experts import Experts
from .gaussian import Gaussian

if TYPE_CHECKING:
    from .partition import PartitionStructure


def tied_starts(
    structures: Mapping[str, PartitionStructure],
    experts: Mapping[str, Mapping[str, Gaussian]],
    covariances: Mapping[str, Mapping[str, Tensor]] | None = None,
    *,
    shared: Collection[str] | None = None,
) -> dict[str, dict[str, Gaussian]]:
    """:meth:`PartitionStructure.tied_start` of several structures, say one for each language, that share experts.

    Shared experts start at means over the multinomials of all structures, and then every mixed mean stays as it is.

    :param structures: by name.
    :param experts: by name of the structure, trained experts without tying for each block.
    :param covariances: by name of the structure and family; of shared experts the first structure's count.
    :param shared: the families that structures share; by default as :func:`shared_families` has them.
    :raises ValueError: if a block has no own experts, if experts are missing, or if a family cannot be shared.
    """
    together = shared_families(structures, shared)
    means = {key: _own_means(structure, experts[key]) for key, structure in structures.items()}
    sums: dict[tuple[str, str], Tensor] = {}
    counts: dict[tuple[str, str], Tensor] = {}
    for key, structure in structures.items():
        for block, mean in means[key].items():
            for link in structure.links[block]:
                if link.experts in structure.blocks:
                    continue
                family = structure.experts[link.experts]
                owner = ("" if link.experts in together else key, link.experts)
                total = sums.setdefault(owner, mean.new_zeros(family.shape))
                count = counts.setdefault(owner, torch.zeros_like(total))
                start, stop = family.segments[link.segment]
                index = link.index.to(mean.device).reshape(-1)
                members = mean.reshape(-1, mean.shape[-1])[index >= 0]
                for table, values in ((total, members), (count, torch.ones_like(members))):
                    table.view(-1, family.length)[:, start:stop].index_add_(0, index[index >= 0], values)
    averages = {owner: total / counts[owner].clamp_min(1) for owner, total in sums.items()}
    first = {name: key for key, structure in reversed(list(structures.items())) for name in structure.experts}
    starts = {}
    for key, structure in structures.items():
        locs = {name: averages[o, name] for name in structure.experts for o in ("", key) if (o, name) in averages}
        matrices = {
            name: (covariances or {}).get(first[name] if name in together else key, {}).get(name)
            for name in structure.experts
        }
        starts[key] = _start(structure, experts[key], means[key], locs, matrices)
    return starts


def shared_families(
    structures: Mapping[str, PartitionStructure], names: Collection[str] | None = None
) -> frozenset[str]:
    """The families that several structures share: ``names``, or all of one name that are not a block's own experts.

    :raises ValueError: if no structure has one of ``names``, or if their shapes differ.
    """
    having: dict[str, list[str]] = {}
    for key, structure in structures.items():
        for name in structure.experts:
            having.setdefault(name, []).append(key)
    if names is None:
        blocks = {name for structure in structures.values() for name in structure.blocks}
        names = [name for name, keys in having.items() if len(keys) > 1 and name not in blocks]
    for name in names:
        if name not in having:
            raise ValueError(f"there are no experts {name!r} to share; there are {list(having)}")
        first, *others = having[name]
        for other in others:
            one, two = (structures[key].experts[name] for key in (first, other))
            if one != two:
                raise ValueError(
                    f"experts {name!r} have shape {tuple(one.shape)} in {first!r} and {tuple(two.shape)} in {other!r}, "
                    "so they cannot be shared; use one alphabet for both, or leave them out of shared"
                )
    return frozenset(names)


def _own_means(structure: PartitionStructure, experts: Mapping[str, Gaussian]) -> dict[str, Tensor]:
    """mu_k of each block from its own experts, which must be there in the structure and among the given."""
    means = {}
    for name, block in structure.blocks.items():
        numbers = list(range(block.shape[:-1].numel()))
        indices = [link.index.reshape(-1).tolist() for link in structure.links[name] if link.experts == name]
        if structure.experts.get(name) != Experts(block.shape) or indices != [numbers]:
            raise ValueError(f"block {name!r} needs experts of its own, a family of its name and shape")
        if name not in experts:
            raise ValueError(f"experts lacks those of block {name!r}, trained without tying")
        means[name] = experts[name].loc.detach().expand(block.shape)
    return means


def _start(
    structure: PartitionStructure,
    experts: Mapping[str, Gaussian],
    means: Mapping[str, Tensor],
    shared: Mapping[str, Tensor],
    covariances: Mapping[str, Tensor | None],
) -> dict[str, Gaussian]:
    """One structure's start, given the means of the experts that are not a block's own."""
    diagonal = all(experts[name].variance is not None for name in structure.blocks)
    start = {}
    for name, family in structure.experts.items():
        if name in structure.blocks:
            # Mixing is linear: with zeros for its own expert, a multinomial has the others' part of the mean.
            rest = structure.average(name, {**shared, name: torch.zeros_like(means[name])})
            loc = structure.sizes(name).to(rest.device)[..., None] * (means[name] - rest)
            covariance, variance = experts[name].covariance, experts[name].variance
            start[name] = Gaussian(
                loc,
                None if covariance is None else covariance.detach(),
                variance=None if variance is None else variance.detach(),
            )
            continue
        loc = shared[name] if name in shared else next(iter(means.values())).new_zeros(family.shape)
        covariance = covariances.get(name)
        matrix = torch.eye(family.length).to(loc) if covariance is None else covariance.detach().to(loc)
        start[name] = Gaussian(loc, variance=matrix.diagonal(dim1=-2, dim2=-1)) if diagonal else Gaussian(loc, matrix)
    return start
