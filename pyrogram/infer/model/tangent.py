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

import pyro.distributions as dist
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyrogram.checks import broadcast_shapes
from pyrogram.distributions import Sentence

from .sites import base_distribution, observed_sentence

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
    tangent_model: Callable[..., Any] = TangentMessenger(counts)(model)
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
        if (function := observed_sentence(msg)) is not None:
            if msg["name"] not in self.counts:
                raise ValueError(f"counts lack site {msg['name']!r}; they are of {sorted(self.counts)}")
            shared, per_sentence = linear(function, self.counts[msg["name"]], msg["name"])
            msg["fn"] = in_place_of(msg["fn"], msg["value"], shared, per_sentence)

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["name"] in self.counts and msg["is_observed"] and msg["mask"] is not None:
            raise ValueError(
                f"tangent cannot handle the mask on site {msg['name']!r}; leave out those sentences, and their counts"
            )


def in_place_of(sentences: Any, value: Tensor, shared: Tensor, per_sentence: Tensor) -> Any:
    """Nats as the log probability of sentences.

    :param sentences: the site's distribution.
    :param value: the words.
    :param shared: nats of all sentences together, of which each has an equal share, shape ().
    :param per_sentence: nats of each, shape () or one that broadcasts to the batch.
    """
    function = base_distribution(sentences)
    shape = broadcast_shapes(function.batch_shape, value.shape[:-1])
    each = (shared / max(shape.numel(), 1) + per_sentence).expand(shape)
    line = dist.Delta(value.expand(*shape, -1), each, event_dim=1, validate_args=False)
    return line.to_event(len(function.batch_shape) - len(sentences.batch_shape))
