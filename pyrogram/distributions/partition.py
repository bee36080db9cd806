# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Partition structures: which segments of which Gaussian vectors make up each multinomial.

Cohen and Smith (2009), Definition 1: expert n is a Gaussian vector whose coordinates are partitioned into segments;
J_k is the set of segments, of all experts, that multinomial k is made of, all as long as it has events N_k:

    eta~_k = (1 / |J_k|) sum of the segments in J_k,        theta_k = softmax(eta~_k).

The definition has the J_k disjoint. Here one segment may take part in several multinomials: they share the vector
itself, while disjoint segments of one long expert are tied by its covariance alone. A packed block counts as one
multinomial, whose segments have all its events; only its softmax is taken over each multinomial by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor

from pyrogram.checks import broadcast_shapes
from pyrogram.grammar import Block
from pyrogram.printable import plural

from .experts import Experts, Link
from .gaussian import Gaussian
from .tied_start import tied_starts


class PartitionStructure:
    """Experts, multinomials, and which segments make up which multinomial.

    :param blocks: the multinomials: name to block, or to its shape ``(*batch, events)``.
    :param experts: families of experts by name.
    :param links: for each block the links that make it up.
    :raises ValueError: if a link names no family or segment, if a segment is not as long as the multinomial, if an
        index is out of range, if a segment is linked twice to one multinomial, or if a multinomial has no segment.
    """

    def __init__(
        self,
        blocks: Mapping[str, Block | Sequence[int]],
        experts: Mapping[str, Experts],
        links: Mapping[str, Sequence[Link]],
    ):
        self.blocks = {
            name: block if isinstance(block, Block) else Block(torch.Size(block)) for name, block in blocks.items()
        }
        self.experts = dict(experts)
        if set(links) != set(self.blocks):
            raise ValueError(f"links must be given for the blocks {list(self.blocks)}, not for {list(links)}")
        self.links = {name: tuple(links[name]) for name in self.blocks}
        self._sizes = {name: self._checked_sizes(name) for name in self.blocks}
        # Whether a link needs no look-up, for expert and multinomial have the same number.
        self._direct = {
            name: [link.index.reshape(-1).tolist() == list(range(self.experts[link.experts].count)) for link in links]
            for name, links in self.links.items()
        }

    def __repr__(self) -> str:
        blocks = {name: tuple(block.shape) for name, block in self.blocks.items()}
        experts = {name: tuple(family.shape) for name, family in self.experts.items()}
        return f"PartitionStructure(blocks={blocks}, experts={experts})"

    @classmethod
    def untied(cls, blocks: Mapping[str, Block | Sequence[int]]) -> PartitionStructure:
        """One expert per multinomial (or packed block): family and block have the same name and shape."""
        shapes = {name: torch.Size(b.shape if isinstance(b, Block) else b) for name, b in blocks.items()}
        return cls(
            blocks,
            {name: Experts(shape) for name, shape in shapes.items()},
            {name: [untied_link(name, shape)] for name, shape in shapes.items()},
        )

    @classmethod
    def from_sets(
        cls,
        experts: Mapping[str, Sequence[Sequence[int]]],
        multinomials: Mapping[str, Sequence[tuple[str, int]]],
    ) -> PartitionStructure:
        """A structure written as in Definition 1, with coordinates and segments counted from 0.

        :param experts: I_n for each expert: its segments as lists of coordinates, in order.
        :param multinomials: J_k for each multinomial: pairs of an expert and the number of a segment.
        :raises ValueError: also if a segment's coordinates are not consecutive.
        """
        families = {}
        for name, sets in experts.items():
            for coordinates in sets:
                start = coordinates[0] if len(coordinates) else 0
                if list(coordinates) != list(range(start, start + len(coordinates))) or not len(coordinates):
                    raise ValueError(f"a segment of expert {name!r} is {list(coordinates)}, not consecutive numbers")
            segments = tuple((s[0], s[-1] + 1) for s in sets)
            families[name] = Experts(torch.Size([sum(map(len, sets))]), segments)
        links, blocks = {}, {}
        for name, pairs in multinomials.items():
            links[name] = [Link(expert, torch.tensor(0), segment) for expert, segment in pairs]
            sizes = [stop - start for start, stop in (_segment(families, link, name) for link in links[name])]
            blocks[name] = Block(torch.Size(sizes[:1] or [1]))
        return cls(blocks, families, links)

    def sizes(self, block: str) -> Tensor:
        """``|J_k|`` of each multinomial of a block, whole numbers, shape ``block.shape[:-1]``."""
        return self._sizes[block].clone()

    def average(self, block: str, values: Mapping[str, Tensor], *, variances: bool = False) -> Tensor:
        """The mean of the segments of each multinomial of a block, shape ``(*batch, *block.shape)``; differentiable.

        Batch dimensions over which all values were expanded (stride 0) are computed once, and expanded again.

        :param values: by family, shape ``(*batch, *experts.shape)``.
        :param variances: the values are variances of independent coordinates, and so is the result: the sum is
            divided by ``|J_k|`` squared (2009, Eq. 7).
        """
        links, shape = self.links[block], self.blocks[block].shape
        batch = broadcast_shapes(*(self._batch(link.experts, values) for link in links))
        total: Tensor | None = None
        for link, direct in zip(links, self._direct[block], strict=True):
            part = self._part(link, direct, values[link.experts], shape)
            total = part if total is None else total + part
        assert total is not None
        sizes = self._sizes[block]
        if len(links) > 1:
            scale = sizes.to(total.device, total.dtype).reciprocal()[..., None]
            total = total * (scale.square() if variances else scale)
        return total.expand(*batch, *shape)

    def tied_start(
        self, experts: Mapping[str, Gaussian], covariances: Mapping[str, Tensor] | None = None
    ) -> dict[str, Gaussian]:
        """Where to start with this structure when training without it has ended: the mixed means stay as they are.

        The second stage of the schedule of Cohen and Smith (2009, section 4.1). Each block needs experts of its own, a
        family of its name and shape. A segment of another family starts at the mean of the multinomials that it takes
        part in, and the own expert takes up the rest, ``|J_k| mu_k`` minus the other segments. Own covariances stay.

        :param experts: trained experts without tying, for each block.
        :param covariances: of the other families, shape ``(*batch, length, length)`` or to be broadcast; identity
            by default. If the given experts have variances, only the diagonals are used.
        :returns: for each family its start.
        :raises ValueError: if a block has no own experts, or if experts are missing.
        """
        return tied_starts({"": self}, {"": experts}, {"": covariances or {}})[""]

    def _batch(self, name: str, values: Mapping[str, Tensor]) -> torch.Size:
        expected = self.experts[name].shape
        if name not in values:
            raise ValueError(f"values lacks experts {name!r} of shape {tuple(expected)}")
        shape = values[name].shape
        if shape[max(len(shape) - len(expected), 0) :] != expected:
            raise ValueError(
                f"values[{name!r}] must have shape (..., {', '.join(map(str, expected))}), not {tuple(shape)}"
            )
        return shape[: len(shape) - len(expected)]

    def _part(self, link: Link, direct: bool, value: Tensor, shape: torch.Size) -> Tensor:
        """What one link adds to the sum of each multinomial, shape (*batch, *shape)."""
        family = self.experts[link.experts]
        value = unexpanded(value, len(family.shape))
        batch = value.shape[: value.dim() - len(family.shape)]
        start, stop = family.segments[link.segment]
        segment = value.reshape(*batch, family.count, family.length)[..., start:stop]
        if not direct:
            index = link.index.to(value.device).reshape(-1)
            segment = segment.index_select(-2, index.clamp_min(0))
            segment = torch.where((index >= 0)[:, None], segment, torch.zeros_like(segment))
        return segment.reshape(*batch, *shape)

    def _checked_sizes(self, name: str) -> Tensor:
        """|J_k| of a block, once its links are known to be right."""
        shape = self.blocks[name].shape
        sizes = torch.zeros(shape[:-1], dtype=torch.long)
        for link in self.links[name]:
            start, stop = _segment(self.experts, link, name)
            if stop - start != shape[-1]:
                raise ValueError(
                    f"segment {link.segment} of experts {link.experts!r} has "
                    f"{plural(stop - start, 'coordinate')}, but the "
                    f"multinomials of block {name!r} have {plural(shape[-1], 'event')}"
                )
            if link.index.shape != shape[:-1] or link.index.is_floating_point():
                raise ValueError(
                    f"the link of block {name!r} to experts {link.experts!r} needs an index of whole numbers of shape "
                    f"{tuple(shape[:-1])}, not {link.index.dtype} of shape {tuple(link.index.shape)}"
                )
            count = self.experts[link.experts].count
            if bool(((link.index < -1) | (link.index >= count)).any()):
                raise ValueError(
                    f"the link of block {name!r} to experts {link.experts!r} needs an index in -1..{count - 1}, not "
                    f"{int(link.index.min())}..{int(link.index.max())}"
                )
            sizes += link.index.cpu() >= 0
        for one, other in combinations(self.links[name], 2):
            if (one.experts, one.segment) == (other.experts, other.segment):
                twice = (one.index == other.index) & (one.index >= 0)
                if bool(twice.any()):
                    raise ValueError(
                        f"segment {one.segment} of experts {one.experts!r} is linked twice to multinomial "
                        f"{_first(twice)} of block {name!r}"
                    )
        if bool((sizes == 0).any()):
            raise ValueError(f"multinomial {_first(sizes == 0)} of block {name!r} has no expert")
        return sizes


def untied_link(name: str, shape: Sequence[int]) -> Link:
    """The link of a block of ``shape`` to a family of the same shape, an expert for every multinomial."""
    batch = torch.Size(shape[:-1])
    return Link(name, torch.arange(batch.numel()).reshape(batch))


def unexpanded(value: Tensor, event_dim: int) -> Tensor:
    """``value`` with its expanded (stride 0) batch dimensions cut to size 1: what to compute with, then expand.

    Autograd sends the whole gradient through the one that is left, which sums up to the same for what was expanded.
    """
    for dim in range(value.dim() - event_dim):
        if value.shape[dim] > 1 and value.stride(dim) == 0:
            value = value.narrow(dim, 0, 1)
    return value


def _segment(experts: Mapping[str, Experts], link: Link, block: str) -> tuple[int, int]:
    if link.experts not in experts:
        raise ValueError(f"block {block!r} is linked to experts {link.experts!r}; there are only {list(experts)}")
    segments = experts[link.experts].segments
    if not 0 <= link.segment < len(segments):
        raise ValueError(
            f"block {block!r} is linked to segment {link.segment} of experts {link.experts!r}, which have "
            f"{plural(len(segments), 'segment')}, counted from 0"
        )
    return segments[link.segment]


def _first(mask: Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in mask.nonzero()[0])
