# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which weights of a dependency grammar are tied softly: TieV, TieN, TieV&N and TieA of Cohen and Smith (2009, 4.1).

Every multinomial keeps an expert of its own. For each tied family of tags there is, besides, for each direction one
expert shared by all attach multinomials whose head is of that family, and for each direction and valence one shared by
their stop multinomials. The same for languages: families of one name and shape share their experts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from pyrogram.distributions.experts import Experts, Link
from pyrogram.distributions.partition import PartitionStructure, untied_link
from pyrogram.grammar import Block, Grammar
from pyrogram.printable import plural

#: What the paper's letters stand for: a name, and families of :data:`pyrogram.data.FAMILIES`. Its "nominal parents"
#: are common and proper nouns here, not pronouns, which hardly ever have dependents.
TIES: Mapping[str, tuple[str, frozenset[str]]] = {
    "V": ("verb", frozenset({"verb"})),
    "N": ("noun", frozenset({"noun", "proper"})),
    "A": ("adjective", frozenset({"adjective"})),
}


def tie(
    grammar: Grammar | Mapping[str, Block],
    families: Sequence[str],
    tied: str | Mapping[str, Collection[str]] = "V&N",
    *,
    blocks: Sequence[str] = ("attach", "stop"),
    covariance: bool = False,
) -> PartitionStructure:
    """The partition structure that ties multinomials whose heads are of one family of tags.

    Own experts are families named after their blocks. Shared experts of block ``b``, shape ``(V, *rest, N)``, and tie
    ``t`` are the family ``"<b>.<t>"`` of shape ``(*rest, N)``: for ``attach`` one for each direction (and valence, if
    the grammar's attachments depend on it), for ``stop`` one for each direction and valence.

    Two languages share the experts of such a family if their shapes are equal. Those of ``stop`` always are; those of
    ``attach`` only over one alphabet, say the universal tags.

    :param grammar: a grammar, or its blocks.
    :param families: family of each tag, as :func:`pyrogram.data.tag_families` has them.
    :param tied: letters of :data:`TIES`, joined by ``&``; or names of ties of your own, each with its families.
    :param blocks: the blocks that are tied: their first dimension is the head.
    :param covariance: tie by covariance alone, Definition 1 to the letter: in place of a shared vector of N
        coordinates, one long expert with a segment for each multinomial of the family, ``(*rest, members * N)``.
    :raises ValueError: if a letter or family is unknown or has no tag, or if ``families`` does not fit a block.
    """
    shapes = grammar.blocks if isinstance(grammar, Grammar) else grammar
    experts = {name: Experts(block.shape) for name, block in shapes.items()}
    links = {name: [untied_link(name, block.shape)] for name, block in shapes.items()}
    for name in blocks:
        if name not in shapes:
            raise ValueError(f"there is no block {name!r} to tie; the blocks are {list(shapes)}")
        shape = shapes[name].shape
        if len(shape) < 2 or shape[0] != len(families):
            raise ValueError(
                f"block {name!r} of shape {tuple(shape)} needs one family for each head in its first dimension, but "
                f"families has {len(families)}"
            )
    for group, heads in _groups(families, tied).items():
        for name in blocks:
            family = f"{name}.{group}"
            rest, size = shapes[name].shape[1:-1], shapes[name].shape[-1]
            within = torch.arange(rest.numel()).reshape(rest)
            segments = [[head] for head in heads] if covariance else [heads]
            ends = tuple((j * size, (j + 1) * size) for j in range(len(segments)))
            experts[family] = Experts(torch.Size([*rest, len(segments) * size]), ends)
            for j, members in enumerate(segments):
                index = torch.full(shapes[name].shape[:-1], -1)
                index[members] = within
                links[name].append(Link(family, index, j))
    return PartitionStructure(shapes, experts, links)


def _groups(families: Sequence[str], tied: str | Mapping[str, Collection[str]]) -> dict[str, list[int]]:
    """The heads of each tie."""
    if isinstance(tied, str):
        letters = [letter.strip() for letter in tied.split("&")]
        unknown = [letter for letter in letters if letter not in TIES]
        if unknown:
            raise ValueError(f"tied must be letters of {list(TIES)} joined by '&', not {tied!r}")
        tied = dict(TIES[letter] for letter in letters)
    groups = {}
    for name, wanted in tied.items():
        if isinstance(wanted, str):
            raise ValueError(f"tied[{name!r}] must be a collection of families, not the text {wanted!r}")
        groups[name] = [tag for tag, family in enumerate(families) if family in wanted]
        if not groups[name]:
            raise ValueError(f"no tag is of the families {sorted(wanted)} of tie {name!r}, so there is nothing to tie")
    return groups


def family_covariance(families: Sequence[str], within: float = 0.5) -> Tensor:
    """Covariance of events that are tags: 1 on the diagonal, ``within`` in a family, else 0; shape ``(V, V)``.

    Where Cohen, Gimpel and Smith (2008, section 5) start the covariances of attachments, with 0.5.

    :raises ValueError: unless ``0 <= within < 1``, for the result would not be positive definite.
    """
    _check_within(within)
    numbers = {family: i for i, family in enumerate(dict.fromkeys(families))}
    index = torch.tensor([numbers[family] for family in families])
    same = (index[:, None] == index).to(torch.get_default_dtype())
    return within * same + (1 - within) * torch.eye(len(families))


def start_covariances(
    structure: PartitionStructure,
    families: Sequence[str],
    within: float = 0.5,
    *,
    over_tags: Sequence[str] = ("root", "attach"),
) -> dict[str, Tensor]:
    """Covariances to start from, for each family of experts of a structure, shape ``(length, length)``.

    A segment that makes up multinomials over tags has :func:`family_covariance`, others the identity. The same
    coordinate of two segments of one expert covaries ``within`` as much, or they would not be tied.

    :param families: family of each tag.
    :param over_tags: blocks whose events are tags.
    """
    _check_within(within)
    covariances = {}
    tags = {link.experts for name in over_tags for link in structure.links.get(name, ())}
    for name, family in structure.experts.items():
        count = len(family.segments)
        size = family.length // count
        if any(stop - start != size for start, stop in family.segments):
            raise ValueError(f"experts {name!r} have segments of different lengths; say their covariance yourself")
        segment = family_covariance(families, within) if name in tags else torch.eye(size)
        if segment.shape[-1] != size:
            raise ValueError(
                f"experts {name!r} have {plural(size, 'coordinate')} a segment, but families has {len(families)}"
            )
        between = within * torch.ones(count, count) + (1 - within) * torch.eye(count)
        covariances[name] = torch.kron(between, segment)
    return covariances


def _check_within(within: float) -> None:
    if not 0 <= within < 1:
        raise ValueError(f"within must be at least 0 and less than 1, not {within}")
