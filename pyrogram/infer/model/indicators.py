# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Discrete latent sites that choose a grammar for each sentence are summed out, as Pyro's enumeration does it.

In one run, the site has all values along a dimension on the left of all plates. The ``Sentence`` then has the weights
of all components, and is replaced by one of a :class:`.MixtureGrammar`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.distributions.partition import unexpanded
from pyrogram.grammar import Weights
from pyrogram.random_state import random_state_kept

from .composed import MixtureGrammar
from .selection import leaves_of
from .sites import base_distribution, is_latent, observed_sentence
from .structure import ModelError

ENUMERATED = "pyro.infer.SVI with TraceEnum_ELBO can"


def indicators(nodes: Mapping[str, Any]) -> list[str]:
    """Latent sites that choose between finitely many values for each element of a plate."""
    latent = {name: site for name, site in nodes.items() if is_latent(site) and site["cond_indep_stack"]}
    kinds = dist.Categorical, dist.Bernoulli
    return [name for name, site in latent.items() if isinstance(base_distribution(site["fn"]), kinds)]


def indicators_of_sentences(nodes: Mapping[str, Any], loop: str) -> dict[str, str]:
    """By Sentence site, the indicator in its plates, if there is one.

    :raises ModelError: if there are two of them, or an indicator belongs to no sentences, or to those of two sites.
    """
    choices, by_site = indicators(nodes), dict[str, str]()
    for name, site in nodes.items():
        function = observed_sentence(site)
        if function is None:
            continue
        matching = [choice for choice in choices if _plates(nodes[choice]) == _plates(site)]
        if len(matching) > 1:
            raise ModelError(
                f"{loop} can handle one discrete latent site of each sentence, not both {matching[0]!r} and "
                f"{matching[1]!r}; {ENUMERATED}"
            )
        if not matching:
            continue
        choice = matching[0]
        if choice in by_site.values():
            raise ModelError(
                f"{loop} can handle a discrete latent site of one Sentence site, but {choice!r} belongs to several; "
                f"{ENUMERATED}"
            )
        if len(function.batch_shape) > len(site["fn"].batch_shape):
            raise ModelError(
                f"{loop} can handle a discrete latent site of each sentence, but {choice!r} belongs to groups of them, "
                f"site {name!r} under to_event; {ENUMERATED}"
            )
        if not torch.equal(*(torch.as_tensor(nodes[x]["scale"], dtype=torch.float64) for x in (name, choice))):
            raise ModelError(
                f"{loop} needs one scale for the discrete latent site {choice!r} and the sentences of {name!r}; put "
                "both under the same poutine.scale"
            )
        by_site[name] = choice
    unused = set(choices) - set(by_site.values())
    if unused:
        raise ModelError(
            f"{loop} found no sentences that the discrete latent site {min(unused)!r} belongs to; {ENUMERATED}"
        )
    return by_site


def _plates(site: Any) -> set[tuple[str, int]]:
    """By name, and by the step of those that are loops."""
    return {(frame.name, frame.counter) for frame in site["cond_indep_stack"]}


def depth_of(nodes: Mapping[str, Any]) -> int:
    """How many dimensions the plates of a model have."""
    frames = [frame for site in nodes.values() if site["type"] == "sample" for frame in site["cond_indep_stack"]]
    return max((-frame.dim for frame in frames if frame.dim is not None), default=0)


def summed_out(model: Callable[[], Any], loop: str) -> Callable[[], Any]:
    """A model in which sentences with an indicator are those of a mixture; the same, if there is no indicator.

    :param loop: name of the loop, for messages.
    :raises ModelError: see :func:`indicators_of_sentences`; and if another site depends on an indicator.
    """
    with random_state_kept():
        nodes: dict[str, Any] = dict(poutine.trace(model).get_trace().nodes)
    chosen = indicators_of_sentences(nodes, loop)
    if not chosen:
        return model
    depth = depth_of(nodes)

    def mixed() -> Any:
        with _SummingOut(chosen, depth, loop):
            return model()

    with random_state_kept(), torch.no_grad():
        mixed()  # whatever it refuses is said here, without what Pyro's traces add to messages
    return mixed


class _SummingOut(Messenger):
    """Hides indicators, and gives sentences their mixtures.

    :param chosen: the indicator by Sentence site.
    :param depth: how many dimensions the plates have.
    """

    def __init__(self, chosen: Mapping[str, str], depth: int, loop: str) -> None:
        super().__init__()
        self.chosen, self.depth, self.loop = chosen, depth, loop
        self.shares: dict[str, Tensor] = {}  #: by indicator, ``(*batch, K)``

    def _pyro_sample(self, msg: Any) -> None:
        name, function = msg["name"], base_distribution(msg["fn"])
        if name in self.chosen.values():
            self.shares[name] = self._shares(function)
            support: Tensor = function.enumerate_support(expand=False)
            msg["value"] = support.reshape(len(support), *(1,) * self.depth)
            msg["done"] = msg["stop"] = True
        elif msg["is_observed"] and name in self.chosen:
            self._mix(msg, function, self.chosen[name])
        elif len(getattr(msg["fn"], "batch_shape", ())) > self.depth:
            raise ModelError(
                f"{self.loop} cannot sum out the discrete latent site {min(self.chosen.values())!r}, on which site "
                f"{name!r} depends as well as sentences; {ENUMERATED}"
            )

    def _shares(self, function: Any) -> Tensor:
        """The probabilities of the values of an indicator; the leaf of autograd's graph, if they are its value.

        ``Categorical`` normalises, and the result is no entry of a site any more.
        """
        by_logits = "probs" not in function.__dict__  # it expands logits over plates, probabilities of logits not
        if isinstance(function, dist.Bernoulli):
            p = unexpanded(function.logits, 0).sigmoid() if by_logits else unexpanded(function.probs, 0)
            return torch.stack([1 - p, p], -1)
        if by_logits:
            return unexpanded(function.logits, 1).softmax(-1)
        shares: Tensor = unexpanded(function.probs, 1)
        flat, leaves = shares.detach().reshape(-1), list(leaves_of(shares).values())
        if len(leaves) != 1 or leaves[0].shape != flat.shape:
            return shares
        accuracy = 10 * torch.finfo(shares.dtype).eps
        is_value = torch.allclose(leaves[0].detach().to(flat), flat, rtol=accuracy, atol=0.0)
        return leaves[0] if is_value else shares

    def _mix(self, msg: Any, function: Sentence, indicator: str) -> None:
        shares = self.shares[indicator]
        by_block = function.log_weights if function.weights is None else function.weights
        grammar = MixtureGrammar(function.grammar, indicator, shares.shape[-1])
        weights: Weights = {indicator: shares.log() if function.weights is None else shares}
        for k in range(grammar.num_components):
            for block, w in by_block.items():
                each = w.dim() - len(function.grammar.blocks[block].shape) > self.depth
                weights[f"{block}[{k}]"] = w[k] if each else w
        kind = "log_weights" if function.weights is None else "weights"
        options: dict[str, Any] = {kind: weights, "normalized": function.normalized, "known": function.known}
        mixture = Sentence(grammar, validate_args=function._validate_args, **options)
        inner = len(function.batch_shape) - len(msg["fn"].batch_shape)  # dimensions of one event, under to_event
        outer = len(function.batch_shape) - self.depth - inner  # the values of the indicator
        msg["fn"] = mixture.expand(function.batch_shape[max(outer, 0) :]).to_event(inner)
