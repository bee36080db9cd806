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
from pyro.infer.autoguide.initialization import InitMessenger
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
    is_latent,
    is_learnt,
    is_left_out,
    is_logistic_normal,
    multinomials,
    observed_sentence,
)
from .structure import ModelError, leaf_of

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
    is_followed = bool(sources)
    for other in others:
        if isinstance(other, Selection):
            both = (origin.source < 0) & (other.source < 0)
            is_followed &= torch.equal(origin.constants[both], other.constants[both])
    return Computed("computed from values in a way that differs from draw to draw", sources, is_followed)


def _at_a_point(model: Callable[[], Any], seed: int, power: int) -> dict[str, Origins]:
    with random_state_kept(seed), torch.enable_grad():
        with _RandomMessenger(power):
            nodes: dict[str, Any] = dict(poutine.trace(model).get_trace().nodes)
        entries, origins = _Entries(nodes), dict[str, Origins]()
        for name, site in nodes.items():
            if (function := observed_sentence(site)) is not None:
                blocks = function.grammar.blocks.items()
                origins[name] = {n: entries.origin(_weights(function, n), block) for n, block in blocks}
        return origins


def _weights(function: Sentence, block: str) -> Tensor:
    return function.log_weights[block].exp() if function.weights is None else function.weights[block]


class LatentMessenger(InitMessenger):
    """Make latent values leaves of autograd's graph, and a parameter that is asked for twice the same tensor.

    Sites without a value of their own, such as a Delta, keep what they are computed from.

    :param begin: where a latent site begins.
    """

    def __init__(self, begin: Callable[[Any], Tensor]) -> None:
        super().__init__(begin)
        self.parameters: dict[str, Tensor] = {}

    def _pyro_sample(self, msg: Any) -> None:
        if not is_left_out(msg):
            super()._pyro_sample(msg)

    def _pyro_post_param(self, msg: Any) -> None:
        msg["value"] = self.parameters.setdefault(msg["name"], msg["value"])

    def _pyro_post_sample(self, msg: Any) -> None:
        if is_latent(msg) and msg["value"].is_floating_point():
            msg["value"] = msg["value"].detach().requires_grad_()


class _RandomMessenger(LatentMessenger):
    """Put multinomials at a random point: those of parameters and of logistic normals, too."""

    def __init__(self, power: int) -> None:
        super().__init__(self._begin)
        self.power = power

    def _begin(self, site: Any) -> Tensor:
        function = base_distribution(site["fn"])
        if not isinstance(function, MULTINOMIALS):
            drawn: Tensor = site["fn"].sample()
            return drawn
        block = block_of_site(function, site["fn"].batch_shape + site["fn"].event_shape)
        point = self._point(block, concentration_of(function), block.shape)
        return point[..., 0] if isinstance(function, dist.Beta) else point

    def _pyro_post_param(self, msg: Any) -> None:
        block = block_of_param(msg)
        if msg["name"] not in self.parameters and block is not None and is_learnt(msg):
            self.parameters[msg["name"]] = self._point(block, msg["value"], block.shape).requires_grad_()
        super()._pyro_post_param(msg)

    def _pyro_post_sample(self, msg: Any) -> None:
        super()._pyro_post_sample(msg)
        if is_logistic_normal(msg):
            normal, value = msg["infer"]["logistic_normal"], msg["value"]
            block = normal.structure.blocks[normal.block]
            msg["value"] = self._point(block, value, value.shape).requires_grad_()

    def _point(self, block: Block, like: Tensor, shape: torch.Size) -> Tensor:
        point = block.normalize((torch.rand(shape, dtype=like.dtype, device=like.device) + 0.1) ** self.power)
        return point.detach()


class _Entries:
    """The entries of all multinomials of a run, numbered from 1, in which blocks are looked for.

    :param nodes: of the run's trace.
    """

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self._sources = {source.name: source for source in multinomials(nodes)}
        self._names = {id(source.leaf): name for name, source in self._sources.items()}
        self._first: dict[str, int] = {}
        following = 1
        for name, source in self._sources.items():
            self._first[name], dtype = following, source.value.dtype
            following += source.block.shape.numel()
            if following > 2 / torch.finfo(dtype).eps:
                raise ModelError(
                    f"{name!r} has more entries than {dtype} can number; use float64, or hand its value to Sentence "
                    "unchanged"
                )
        self._others: dict[int, str] = {}  # by the id of a leaf that is no multinomial, what it is
        for name, site in nodes.items():
            if name not in self._sources and is_learnt(site):
                self._others[id(leaf_of(site["value"]))] = f"pyro.param {name!r}"
            elif name not in self._sources and is_latent(site):
                self._others[id(site["value"])] = f"{name!r} ({distribution_name(base_distribution(site['fn']))})"

    def origin(self, weights: Tensor, block: Block) -> Selection | Computed:
        """A block of weights as a selection, or what it is instead."""
        reached = set(leaves_of(weights))
        sources = frozenset(self._names[x] for x in reached & self._names.keys())
        origin = self._selection(weights, block, reached)
        if isinstance(origin, Selection):
            return origin
        return Computed(origin, sources, not reached - self._names.keys() - self._others.keys())

    def _selection(self, weights: Tensor, block: Block, reached: set[int]) -> Selection | str:
        """A selection, or why there is none.

        :param reached: the ids of the leaves that autograd's graph leads to.
        """
        others = sorted({self._others[x] for x in reached & self._others.keys()})
        unknown = len(reached - self._others.keys() - self._names.keys())
        if others or unknown:
            more = [f"{unknown} parameters that Pyro does not know"] if unknown else []
            return f"computed from {' and '.join([*others, *more])}"
        made_of = " and ".join(sorted(repr(self._names[x]) for x in reached))
        try:
            number, value = self._derivative(weights), weights.detach()
        except RuntimeError:
            return f"computed from {made_of} by an operation without second derivatives"
        value, number = (x.reshape(-1, block.shape.numel()) for x in (value, number))
        rounded = number.round()
        exact = (number - rounded).abs() <= _SLACK * torch.finfo(value.dtype).eps * number.abs()
        selection: Selection | str | None = None
        if bool(exact.all()) and bool((rounded == rounded[:1]).all()):
            selection = self._checked(rounded[0].long(), value, block)
        return selection or f"computed from {made_of}, not a selection of its entries"

    def _derivative(self, weights: Tensor) -> Tensor:
        """In the direction of the numbers, from derivatives against it: J v is the derivative of u J by u, times v."""
        if not weights.requires_grad:
            return torch.zeros_like(weights)
        u = torch.zeros_like(weights, requires_grad=True)
        leaves = [source.leaf for source in self._sources.values()]
        total = (weights * u).sum()  # of single numbers: where gradients are given, torch imports sympy
        grads = torch.autograd.grad(total, leaves, create_graph=True, retain_graph=True, allow_unused=True)
        products = []
        for grad, source in zip(grads, self._sources.values(), strict=True):
            if grad is not None and grad.requires_grad:
                first, shape = self._first[source.name], source.block.shape
                numbers = torch.arange(first, first + shape.numel(), dtype=grad.dtype, device=grad.device)
                products.append((grad * source.at_site(numbers.reshape(shape))).sum())
        if not products:
            return torch.zeros_like(weights)
        return torch.autograd.grad(torch.stack(products).sum(), u, materialize_grads=True)[0]

    def _checked(self, number: Tensor, value: Tensor, block: Block) -> Selection | str | None:
        """The selection with these numbers, if values are those of the entries; or else why there is none, if it shows.

        :param number: shape ``(E,)``; negative for one minus the entry before.
        :param value: shape ``(B, E)``.
        """
        names: list[str] = []
        source, entry, expected = torch.full_like(number, -1), torch.zeros_like(number), value
        for name, site in self._sources.items():
            size, place = site.block.shape.numel(), number.abs() - self._first[name]
            mask = (place >= 0) & (place < size)
            if not bool(mask.any()):
                continue
            if site.probability is None and bool((mask & (number < 0)).any()):
                return None
            entries = site.value.detach().reshape(-1, size)
            if len(entries) not in (1, len(value)):
                return f"made of {name!r}, of which there is one for each element of another plate"
            source.masked_fill_(mask, len(names))
            entry = torch.where(mask, place + (number < 0).long(), entry)
            expected = torch.where(mask, entries[:, entry.clamp(max=size - 1)].to(expected), expected)
            names.append(name)
        slack = _SLACK * torch.finfo(value.dtype).eps
        is_same = torch.allclose(value, expected, rtol=slack, atol=slack if bool((number < 0).any()) else 0.0)
        if not is_same or bool(((number != 0) & (source < 0)).any()):
            return None
        if len(value) > 1 and not bool((value == value[:1])[:, source < 0].all()):
            return "made of constants that differ from sentence to sentence"
        source, entry = (x.cpu().reshape(block.shape) for x in (source, entry))
        return Selection(tuple(names), source, entry, value[0].reshape(block.shape).clone())


def leaves_of(result: Tensor) -> dict[int, Tensor]:
    """All leaves that autograd's graph leads to, by their ids."""
    if not result.requires_grad:
        return {}
    if result.grad_fn is None:
        return {id(result): result}
    leaves, seen, todo = dict[int, Tensor](), set(), [result.grad_fn]
    while todo:
        function = todo.pop()
        if function in seen:
            continue
        seen.add(function)
        if hasattr(function, "variable"):
            leaves[id(function.variable)] = function.variable
        todo += [f for f, _ in function.next_functions if f is not None]
    return leaves
