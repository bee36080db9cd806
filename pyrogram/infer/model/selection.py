# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the weights of a sentence are made of, found by what the model's code does to the multinomials that it draws.

A block of weights is a *selection* if each of its elements is an entry of a multinomial, one minus a probability, or a
constant: ``rows[family]``, ``stop.expand(...)``, ``stack([p, 1 - p], -1)``, ``clone()``, ``log_weights=w.log()``. The
entries of all multinomials are numbered, and the model is run at a random point. The derivative of a selection in the
direction of the numbers *is* the number of the entry that was selected. Whatever else the code may do to weights (a
softmax, a product, a sort) has derivatives that are no numbers of entries of equal value, or other ones at another
point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.grammar import Block
from pyrogram.random_state import random_state_kept

from .sites import (
    MULTINOMIALS,
    base_distribution,
    block_of_param,
    block_of_site,
    concentration_of,
    distribution_name,
    is_left_out,
    leaf_of,
)
from .structure import ModelError

_SLACK = 64.0  # in rounding errors: the code may take a logarithm and its exponential


@dataclass(frozen=True, eq=False)
class Selection:
    """Where each element of a block comes from.

    :param sources: the sites that it is made of.
    :param source: the place of the element's site in ``sources``, or -1 for a constant; shape ``block.shape``, as
        ``entry`` on the CPU.
    :param entry: the element's place in the multinomials of that site, flattened.
    :param constants: the elements that are constants, others anything; shape ``block.shape``.
    """

    sources: tuple[str, ...]
    source: Tensor
    entry: Tensor
    constants: Tensor

    @property
    def whole(self) -> str | None:
        """The site of which it is all multinomials in their order, if it is."""
        alone = len(self.sources) == 1 and bool((self.source == 0).all())
        in_order = alone and bool((self.entry.flatten() == torch.arange(self.entry.numel())).all())
        return self.sources[0] if in_order else None

    @property
    def constant(self) -> bool:
        """Whether it is made of constants alone."""
        return not self.sources

    def same_as(self, other: object) -> bool:
        """Whether another one selects the same, constants included."""
        if not isinstance(other, Selection) or self.sources != other.sources:
            return False
        fixed = self.source < 0
        return (
            torch.equal(self.source, other.source)
            and torch.equal(self.entry, other.entry)
            and torch.equal(self.constants[fixed], other.constants[fixed])
        )


@dataclass(frozen=True)
class Computed:
    """A block that is no selection.

    :param cause: what it is, in words.
    :param sources: the multinomials that autograd's graph leads to.
    :param is_followed: whether all that it is computed from is known to Pyro, and autograd's graph leads there.
    """

    cause: str
    sources: frozenset[str]
    is_followed: bool = True


Origins = Mapping[str, Selection | Computed]
"""By block."""

_DIFFERS = "computed from values in a way that differs from draw to draw"


def selections(model: Callable[[], Any]) -> dict[str, Origins]:
    """By Sentence site and block, the selection that the block is, or else what it is.

    Disturbs no random number generator.
    """
    first, *others = (_at_a_point(model, *point) for point in _POINTS)
    return {
        site: {block: _same(origin, [o.get(site, {}).get(block) for o in others]) for block, origin in blocks.items()}
        for site, blocks in first.items()
    }


# Seeds, and powers of random numbers: a plain point; the same, in the reverse order and near the boundary, where sorts
# and floors do something else; another one, for a median is the same in the reverse order.
_POINTS = (0, 1), (0, -12), (1, 6)


def _same(origin: Selection | Computed, others: list[Selection | Computed | None]) -> Selection | Computed:
    """What a block is, if it is the same at all points."""
    if isinstance(origin, Computed) or all(origin.same_as(other) for other in others):
        return origin
    sources = frozenset(origin.sources).union(*(other.sources for other in others if other is not None))
    constant = origin.source < 0
    for other in others:
        if isinstance(other, Selection):
            both = constant & (other.source < 0)
            if not torch.equal(origin.constants[both], other.constants[both]):
                return Computed(_DIFFERS, sources, is_followed=False)
    return Computed(_DIFFERS, sources, is_followed=bool(sources))


def _at_a_point(model: Callable[[], Any], seed: int, power: int) -> dict[str, Origins]:
    with random_state_kept(seed), torch.enable_grad():
        with _NumberingMessenger(power) as numbered:
            trace = poutine.trace(model).get_trace()
        origins: dict[str, Origins] = {}
        nodes: dict[str, Any] = dict(trace.nodes)
        for name, site in nodes.items():
            function = base_distribution(site["fn"]) if site["type"] == "sample" else None
            if site.get("is_observed") and isinstance(function, Sentence):
                origins[name] = {
                    block: numbered.selection(_weights(function, block), function.grammar.blocks[block])
                    for block in function.grammar.blocks
                }
        return origins


def _weights(function: Sentence, block: str) -> Tensor:
    return function.log_weights[block].exp() if function.weights is None else function.weights[block]


@dataclass(frozen=True)
class _Numbered:
    """A site of multinomials.

    :param first: the number of its first entry.
    :param value: the point, shape ``(*batch, E)``; of probabilities p with 1 - p after each.
    :param leaf: what the model's code was given.
    :param numbers: of its elements, in its shape.
    :param is_pair: whether these are probabilities p.
    """

    name: str
    first: int
    value: Tensor
    leaf: Tensor
    numbers: Tensor
    is_pair: bool


class _NumberingMessenger(Messenger):
    """Put multinomials at a random point, and number their entries.

    Other latent values and parameters become leaves of autograd's graph, which then tells that they are reached.
    """

    def __init__(self, power: int) -> None:
        super().__init__()
        self.power = power
        self._sources: dict[str, _Numbered] = {}
        self._given: dict[str, Tensor] = {}  # to the model, by parameter
        self._others: dict[int, tuple[Tensor, str]] = {}  # by the id of a leaf: the leaf, and what it is
        self._next = 1

    # ------------------------------------------------------------------ at the sites

    def _pyro_post_param(self, msg: Any) -> None:
        name, value = msg["name"], msg["value"]
        if name not in self._given:
            block, leaf = block_of_param(msg), leaf_of(value)
            if block is not None and leaf.requires_grad:
                self._given[name] = self._numbered(name, block, value)
            else:
                self._given[name] = value
                self._others[id(leaf)] = leaf, f"pyro.param {name!r}"
        if self._given[name].shape == value.shape:
            msg["value"] = self._given[name]

    def _pyro_sample(self, msg: Any) -> None:
        function = base_distribution(msg["fn"])
        if not msg["is_observed"] and isinstance(function, MULTINOMIALS) and msg["value"] is None:
            shape = msg["fn"].batch_shape + msg["fn"].event_shape
            like = concentration_of(function).new_empty(shape)
            is_pair = isinstance(function, dist.Beta)
            value = self._numbered(msg["name"], block_of_site(function, shape), like, is_pair)
            msg["value"], msg["done"] = value, True

    def _pyro_post_sample(self, msg: Any) -> None:
        if "logistic_normal" in msg["infer"]:
            normal = msg["infer"]["logistic_normal"]
            msg["value"] = self._numbered(msg["name"], normal.structure.blocks[normal.block], msg["value"])
            return
        if msg["is_observed"] or is_left_out(msg) or msg["name"] in self._sources:
            return
        value = msg["value"]
        if isinstance(value, Tensor) and value.is_floating_point() and not msg["fn"].support.is_discrete:
            msg["value"] = leaf = value.detach().requires_grad_()
            label = f"{msg['name']!r} ({distribution_name(base_distribution(msg['fn']))})"
            self._others[id(leaf)] = leaf, label

    def _numbered(self, name: str, block: Block, like: Tensor, is_pair: bool = False) -> Tensor:
        """A random point in the shape of a site's value, as a leaf of autograd's graph."""
        shape = (*like.shape, 2) if is_pair else like.shape
        size = block.shape.numel()
        point = block.normalize((torch.rand(shape, dtype=like.dtype, device=like.device) + 0.1) ** self.power)
        numbers = torch.arange(self._next, self._next + size, dtype=like.dtype, device=like.device)
        if self._next + size > 2 / torch.finfo(like.dtype).eps:
            raise ModelError(
                f"{name!r} has more entries than {like.dtype} can number; use float64, or hand its value to Sentence "
                "unchanged"
            )
        numbers = numbers.reshape(block.shape).expand(shape)
        leaf, numbers = (point[..., 0], numbers[..., 0]) if is_pair else (point, numbers)
        leaf = leaf.clone().requires_grad_()
        batch = point.shape[: point.dim() - len(block.shape)]
        self._sources[name] = _Numbered(name, self._next, point.reshape(*batch, size), leaf, numbers, is_pair)
        self._next += size
        return leaf

    # ------------------------------------------------------------------ what came of it

    def selection(self, weights: Tensor, block: Block) -> Selection | Computed:
        """A block of weights as a selection, or what it is instead."""
        known = {id(source.leaf): source.name for source in self._sources.values()}
        origin = self._selection(weights, block, known)
        if isinstance(origin, str):
            reached = leaves_of(weights)
            is_followed = not reached - known.keys() - self._others.keys()
            return Computed(origin, frozenset(known[x] for x in reached & known.keys()), is_followed)
        return origin

    def _selection(self, weights: Tensor, block: Block, known: Mapping[int, str]) -> Selection | str:
        reached = leaves_of(weights)
        others = sorted({self._others[x][1] for x in reached & self._others.keys()})
        unknown = len(reached - self._others.keys() - known.keys())
        if others or unknown:
            more = [f"{unknown} parameters that Pyro does not know"] if unknown else []
            return f"computed from {' and '.join([*others, *more])}"
        made_of = " and ".join(sorted(repr(known[x]) for x in reached))
        try:
            number, value = self._derivative(weights), weights.detach()
        except RuntimeError:
            return f"computed from {made_of} by an operation without second derivatives"
        value, number = (x.reshape(-1, block.shape.numel()) for x in (value, number))
        rounded = number.round()
        exact = (number - rounded).abs() <= _SLACK * torch.finfo(value.dtype).eps * number.abs()
        if not bool(exact.all()) or not bool((rounded == rounded[:1]).all()):
            return f"computed from {made_of}, not a selection of its entries"
        return self._checked(rounded[0].long(), value, made_of, block)

    def _derivative(self, weights: Tensor) -> Tensor:
        """In the direction of the numbers, from derivatives against it: J v is the derivative of u J by u, times v."""
        if not weights.requires_grad:
            return torch.zeros_like(weights)
        u = torch.zeros_like(weights, requires_grad=True)
        sources = list(self._sources.values())
        leaves = [source.leaf for source in sources]
        total = (weights * u).sum()  # of single numbers: where gradients are given, torch imports sympy
        grads = torch.autograd.grad(total, leaves, create_graph=True, retain_graph=True, allow_unused=True)
        pairs = [(g, s.numbers) for g, s in zip(grads, sources, strict=True) if g is not None and g.requires_grad]
        if not pairs:
            return torch.zeros_like(weights)
        product = torch.stack([(g * numbers).sum() for g, numbers in pairs]).sum()
        return torch.autograd.grad(product, u, materialize_grads=True)[0]

    def _checked(self, number: Tensor, value: Tensor, made_of: str, block: Block) -> Selection | str:
        """The selection with these numbers, if values are those of the entries.

        :param number: shape ``(E,)``; negative for one minus the entry before.
        :param value: shape ``(B, E)``.
        """
        names: list[str] = []
        source, entry, expected = torch.full_like(number, -1), torch.zeros_like(number), value
        for site in self._sources.values():
            size, place = site.value.shape[-1], number.abs() - site.first
            mask = (number != 0) & (place >= 0) & (place < size)
            if not bool(mask.any()):
                continue
            if not site.is_pair and bool((mask & (number < 0)).any()):
                return f"computed from {made_of}, not a selection of its entries"
            entries = site.value.detach().reshape(-1, size)
            if len(entries) not in (1, len(value)):
                return f"made of {site.name!r}, of which there is one for each element of another plate"
            source.masked_fill_(mask, len(names))
            entry = torch.where(mask, place + (number < 0).long(), entry)
            expected = torch.where(mask, entries[:, entry.clamp(max=size - 1)].to(expected), expected)
            names.append(site.name)
        if bool(((number != 0) & (source < 0)).any()):
            return f"computed from {made_of}, not a selection of its entries"
        slack = _SLACK * torch.finfo(value.dtype).eps
        if not torch.allclose(value, expected, rtol=slack, atol=slack if bool((number < 0).any()) else 0.0):
            return f"computed from {made_of}, not a selection of its entries"
        if len(value) > 1 and not bool((value == value[:1])[:, source < 0].all()):
            return "made of constants that differ from sentence to sentence"
        source, entry = (x.cpu().reshape(block.shape) for x in (source, entry))
        return Selection(tuple(names), source, entry, value[0].reshape(block.shape).clone())


def leaves_of(result: Tensor) -> set[int]:
    """The ids of all leaves that autograd's graph leads to."""
    if not result.requires_grad:
        return set()
    if result.grad_fn is None:
        return {id(result)}
    leaves, seen, todo = set(), set(), [result.grad_fn]
    while todo:
        function = todo.pop()
        if function in seen:
            continue
        seen.add(function)
        if hasattr(function, "variable"):
            leaves.add(id(function.variable))
        todo += [f for f, _ in function.next_functions if f is not None]
    return leaves
