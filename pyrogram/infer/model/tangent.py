# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences without charts: the tangent of log Z, which is a lower bound.

log Z is convex in the log weights, and its gradient there is the expected counts f. So at any log weights v,

    log Z(v)  >=  log Z(v0) + <f(v0), v - v0>,

with equality at v0. A model whose sentences have <f, log w> for a log probability is an ordinary Pyro model: to
maximise it is the M-step of EM, SVI on it updates q of all that the weights are made of, and HMC on it, f the counts of
given derivations, is a Gibbs step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyrogram.charts.checks import broadcast_shapes
from pyrogram.distributions import Sentence
from pyrogram.distributions.constraints import PaddedWords

from .sites import base_distribution

Counts = Mapping[str, Mapping[str, Tensor]]


def tangent(model: Callable[..., Any], counts: Counts) -> Callable[..., Any]:
    """A model in which the log probability of observed sentences is <counts, log weights>, and no chart is run.

    It is the bound that EM climbs in its M-step (Dempster, Laird and Rubin 1977), in nats, for weights of any kind;
    with features, Berg-Kirkpatrick et al. (2010) climb it so.

    The site keeps its name, its plates, its scale and its value. Its ``log_prob`` is no probability: it is log Z of the
    sentences less a constant if the weights are those that counts were expected under, and less than that elsewhere.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a", "a"]])
    >>> def model(p):
    ...     with pyro.plate("sentences", 2):
    ...         pyro.sample("words", Sentence(grammar, {"rules": torch.stack([p, 1 - p])}), obs=words)
    >>> line = tangent(model, {"words": {"rules": torch.tensor([1.0, 2.0])}})
    >>> pyro.poutine.trace(line).get_trace(torch.tensor(0.5)).log_prob_sum()  # 1 log p + 2 log (1 - p)
    tensor(-2.0794)

    :param model: a Pyro model with observed :class:`.Sentence` sites.
    :param counts: by the name of the site and by block. Of shape ``block.shape``, they are those of all sentences that
        the site observes (of the minibatch, if it is one) together, and each has an equal share of the result; of shape
        ``(*batch, *block.shape)``, where weights have a batch, they are those of each sentence.
    :returns: a model with the same arguments.
    :raises ValueError: when it runs, if counts of a site or a block are missing or have another shape, or if sentences
        are masked.
    """

    def tangent_model(*args: Any, **kwargs: Any) -> Any:
        with TangentMessenger(counts):
            return model(*args, **kwargs)

    return tangent_model


def linear(function: Sentence, counts: Mapping[str, Tensor], site: str) -> tuple[Tensor, Tensor]:
    """<counts, log weights>: of the weights that all sentences share, shape (), and of each one's own, ``(*batch)``.

    :param site: for messages.
    """
    shared: list[Tensor] = []
    per_sentence: list[Tensor] = []
    log_weights = function.log_weights
    for name, block in function.grammar.blocks.items():
        w = log_weights[name]
        if name not in counts:
            raise ValueError(f"counts of site {site!r} lack block {name!r}")
        c = counts[name].to(w.device)
        if c.shape != w.shape:
            raise ValueError(
                f"counts of block {name!r} of site {site!r} must have the shape of its weights, {tuple(w.shape)}, not "
                f"{tuple(c.shape)}"
            )
        terms = weighted(c, w).flatten(w.dim() - len(block.shape)).sum(-1)
        (per_sentence if terms.dim() else shared).append(terms)
    nothing = torch.zeros(())
    return sum(shared, nothing), sum(per_sentence, nothing)


def weighted(counts: Tensor, log_weights: Tensor) -> Tensor:
    """Counts times log weights; an event that is never counted may have probability zero."""
    return counts * torch.where(counts != 0, log_weights, 0.0)


class TangentMessenger(Messenger):
    """Put tangents in the place of observed sentences; see :func:`tangent`."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def _pyro_sample(self, msg: Any) -> None:
        function = base_distribution(msg["fn"])
        if msg["is_observed"] and isinstance(function, Sentence):
            if msg["name"] not in self.counts:
                raise ValueError(f"counts lack site {msg['name']!r}; they are of {sorted(self.counts)}")
            shared, per_sentence = linear(function, self.counts[msg["name"]], msg["name"])
            line = Tangent(shared, per_sentence, function, function.batch_shape)
            msg["fn"] = line.to_event(len(function.batch_shape) - len(msg["fn"].batch_shape))

    def _pyro_post_sample(self, msg: Any) -> None:
        if isinstance(base_distribution(msg["fn"]), Tangent) and msg["mask"] is not None:
            raise ValueError(
                f"tangent cannot handle the mask on site {msg['name']!r}; leave out those sentences, and their counts"
            )


class Tangent(TorchDistribution):
    """Numbers of nats: one in equal shares for all sentences, and one for each.

    :param shared: shape ().
    :param per_sentence: shape (), or one that broadcasts to ``batch_shape``.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, shared: Tensor, per_sentence: Tensor, sentence: Sentence, batch_shape: torch.Size) -> None:
        self.shared, self.per_sentence, self.sentence = shared, per_sentence, sentence
        super().__init__(batch_shape, sentence.event_shape, validate_args=False)

    @property
    def support(self) -> PaddedWords:
        return self.sentence.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> Tangent:
        return Tangent(self.shared, self.per_sentence, self.sentence, torch.Size(batch_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        shape = broadcast_shapes(self.batch_shape, value.shape[:-1])
        each: Tensor = self.shared / max(shape.numel(), 1) + self.per_sentence
        return each.expand(shape)
