# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Latent sites of derivations, as a run of a model meets them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from pyro import poutine
from pyro.poutine.block_messenger import BlockMessenger
from pyro.poutine.condition_messenger import ConditionMessenger
from pyro.poutine.indep_messenger import IndepMessenger
from pyro.poutine.messenger import Messenger
from pyro.poutine.replay_messenger import ReplayMessenger
from pyro.poutine.runtime import _PYRO_STACK
from torch import Tensor

from pyrogram.distributions import StateSequence
from pyrogram.distributions.charted import ChartDistribution
from pyrogram.distributions.dependency_tree import DependencyTreeDistribution
from pyrogram.infer.model.sites import base_distribution, distribution_name
from pyrogram.infer.model.structure import ModelError

Tree = DependencyTreeDistribution | StateSequence
"""Derivations that label words: with their heads, or with their states."""

GIVEN_ALL_ELSE = "given_all_else"
"""Among what a site tells inference: that its distribution is that of a tree given all else, data included."""


@dataclass(frozen=True)
class TreeSite:
    """A latent site of derivations that label words.

    :param function: its distribution, with ``to_event`` if the model says so.
    :param value: a draw, shape ``function.shape()``.
    :param plates: those inside of the model that it is in.
    :param scale: by handlers inside of the model.
    :param mask: likewise.
    """

    name: str
    function: Any
    value: Tensor
    plates: tuple[Any, ...]
    scale: Any
    mask: Any

    @property
    def tree(self) -> Tree:
        """The distribution without ``to_event``."""
        tree: Tree = base_distribution(self.function)
        return tree

    @property
    def reinterpreted(self) -> int:
        """How many dimensions of its batch ``to_event`` has made the event's."""
        return len(self.tree.batch_shape) - len(self.function.batch_shape)

    @property
    def dims(self) -> frozenset[int]:
        """Dimensions of the plates."""
        return dims_of(self.plates)

    @property
    def labels(self) -> Tensor:
        """The value with one dimension of words: that of ``to_event`` and that of the tree's words together."""
        return self.value.flatten(len(self.function.batch_shape))

    def possible(self) -> Tensor:
        """Which labels words may have, as far as a label alone can tell, shape ``(*labels.shape, L)``."""
        tree = self.tree
        if isinstance(tree, StateSequence):
            allowed = (tree.emissions() > -torch.inf) & (tree.words >= 0)[..., None]
        else:
            arcs = tree.arc_scores.detach() > -torch.inf
            arcs = (arcs.any(-1) if tree._dims("arc") == 3 else arcs) & tree._inside(tree.lengths)
            allowed = arcs[..., 1:].transpose(-1, -2)  # [word, head]
        L = allowed.shape[-1]
        return allowed.expand(*self.value.shape, L).reshape(*self.labels.shape, L)

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """The plates, scale and mask of the site, for another statement."""
        with ExitStack() as stack:
            for plate in self.plates:
                stack.enter_context(IndepMessenger(plate.name, plate.size, plate.dim))
            if not (isinstance(self.scale, float | int) and self.scale == 1):
                stack.enter_context(poutine.scale(scale=self.scale))
            if self.mask is not None:
                stack.enter_context(poutine.mask(mask=self.mask))
            yield


class TreeSites(Messenger):
    """Draw the latent derivations of a model, and hide them from the handlers around it.

    :param names: of the sites, or None for all; a site that a handler around the model gives a value stays as it is.
    :param caller: for messages.
    """

    def __init__(self, names: Collection[str] | None, caller: str) -> None:
        super().__init__()
        self.names, self.caller = names, caller
        self.latent: dict[str, TreeSite] = {}
        self.conditioned: set[str] = set()

    def _pyro_sample(self, msg: Any) -> None:
        name, tree = msg["name"], base_distribution(msg["fn"])
        if msg["is_observed"] or msg["value"] is not None or not isinstance(tree, ChartDistribution):
            return
        if (self.names is not None and name not in self.names) or msg["infer"].get(GIVEN_ALL_ELSE):
            return
        if _is_given(msg):
            self.conditioned.add(name)
            return
        if not isinstance(tree, Tree) or len(tree.event_shape) != 1:  # a label for each word
            raise ModelError(
                f"{self.caller} takes dependency trees and state sequences, not the {distribution_name(tree)} of site "
                f"{name!r}; an observed Sentence site sums out derivations of any grammar"
            )
        plates = tuple(plate for plate in msg["cond_indep_stack"] if plate.vectorized)
        value: Tensor = msg["fn"].sample()
        msg["value"], msg["done"], msg["stop"] = value, True, True
        self.latent[name] = TreeSite(name, msg["fn"], value, plates, msg["scale"], msg["mask"])


def dims_of(plates: Any) -> frozenset[int]:
    """The dimensions of plates that are vectorised."""
    return frozenset(plate.dim for plate in plates if plate.vectorized)


def _is_given(msg: Any) -> bool:
    """Whether a handler around the model, as far as the site is seen, gives it a value."""
    for handler in reversed(_PYRO_STACK):
        if isinstance(handler, BlockMessenger) and handler.hide_fn(msg):
            return False
        values = {ConditionMessenger: "data", ReplayMessenger: "trace"}.get(type(handler))
        if values is not None and msg["name"] in (getattr(handler, values) or ()):
            return True
    return False
