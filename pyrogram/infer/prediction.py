# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences and trees from a fitted model, whatever it was fitted by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from pyro import poutine
from pyro.infer import MCMC, Predictive
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import Categorical

from pyrogram.distributions import Sentence
from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights

from .loops.base import GrammarLoop
from .model.mixture import MixtureGrammar
from .model.sites import base_distribution
from .trees.drawing import infer_trees

Fitted = GrammarLoop[Any, Any] | MCMC | Mapping[str, Tensor] | Callable[..., Any]


def posterior_predictive(
    model: Callable[..., Any],
    fitted: Fitted,
    *args: Any,
    num_samples: int | None = None,
    new_sentences: bool = False,
    temperature: Literal[0, 1] = 1,
    **kwargs: Any,
) -> dict[str, Tensor]:
    """Trees of the sentences that a model observes, or new sentences with their trees, after it was fitted.

    It is Pyro's ``Predictive`` on :func:`.infer_trees` of the model, with the weights that were learnt.

    >>> grammar = pyrogram.DMV(num_tags=2)
    >>> words = torch.tensor([[0, 1, 1], [1, 0, -1]])
    >>> model = pyrogram.models.dirichlet.dirichlet
    >>> loop = pyrogram.infer.VariationalEM(model).run(words, grammar, num_steps=2, progress=False)
    >>> found = posterior_predictive(model, loop, words, grammar, num_samples=10)
    >>> {name: tuple(draws.shape) for name, draws in found.items()}
    {'words.tree': (10, 2, 3)}

    :param model: the model that was fitted. Positional and other keyword arguments are its own; they may be other
        sentences than it was fitted to.
    :param fitted: a loop that has run, whose point estimate ``weights()`` the sentences get, however the model makes
        weights (of a mixture of grammars those of a component, drawn for each sentence given its words); a
        ``pyro.infer.MCMC`` that has run, or posterior samples by site, shape ``(S, *shape)``; or a guide.
        Parameters are those in Pyro's store.
    :param num_samples: of a loop or a guide, by default 1; there is one for each posterior sample.
    :param new_sentences: whether all that is observed is drawn anew, in the model's own plates: sentences (up to their
        ``max_length``), and their trees.
    :param temperature: 1 for drawn trees, 0 for the most probable ones, as for :func:`.infer_trees`.
    :returns: by site, shape ``(S, *shape)``. Of a loop the sentences, if they are new, and their trees ``<site>.tree``;
        of others all that ``Predictive`` returns: also latent trees, and with a guide, all sites.
    :raises ValueError: for ``num_samples`` of posterior samples.
    """
    if isinstance(fitted, MCMC):
        fitted = fitted.get_samples()
    options: dict[str, Any] = {"num_samples": 1 if num_samples is None else num_samples}
    if isinstance(fitted, Mapping):
        if num_samples is not None:
            raise ValueError("posterior samples are used once each, so leave out num_samples")
        options = {"posterior_samples": dict(fitted)}
    elif isinstance(fitted, GrammarLoop):
        model = _at_weights(model, fitted)
        names = [site.name for site in fitted._need_problem().traced.sentences]
        options["return_sites"] = [f"{name}.tree" for name in names] + (names if new_sentences else [])
    else:
        options["guide"] = fitted
    if new_sentences:
        model = poutine.uncondition(model)
    found: dict[str, Tensor] = Predictive(infer_trees(model, temperature), **options)(*args, **kwargs)
    return found


def _at_weights(model: Callable[..., Any], loop: GrammarLoop[Any, Any]) -> Callable[..., Any]:
    """The model with what a loop has learnt in place of its sentences' weights."""

    def at_weights(*args: Any, **kwargs: Any) -> Any:
        with _Weights(loop):
            return model(*args, **kwargs)

    return at_weights


class _Weights(Messenger):
    def __init__(self, loop: GrammarLoop[Any, Any]) -> None:
        super().__init__()
        self.loop = loop

    def _pyro_sample(self, msg: Any) -> None:
        sentence = base_distribution(msg["fn"])
        if isinstance(sentence, Sentence):
            weights = self.loop.weights(msg["name"])
            mixture = self.loop._need_problem().traced.site(msg["name"]).mixture
            if mixture is not None:
                weights = _of_drawn_components(mixture, weights, sentence, msg["value"] if msg["is_observed"] else None)
            fitted = sentence.with_weights(weights)
            msg["fn"] = fitted.to_event(len(sentence.batch_shape) - len(msg["fn"].batch_shape))


def _of_drawn_components(
    grammar: MixtureGrammar, weights: Weights, sentence: Sentence, words: Tensor | None
) -> Weights:
    """The weights of a component for each sentence, drawn given its words; from the shares, if it has none yet."""
    log_shares = safe_log(weights[grammar.indicator])
    components = [grammar.component(weights, k) for k in range(grammar.num_components)]
    logits = log_shares.expand(*sentence.batch_shape, grammar.num_components)
    if words is not None:
        logits = logits + torch.stack([sentence.with_weights(own).log_prob(words) for own in components], -1)
    chosen = Categorical(logits=logits).sample()
    return {name: torch.stack([own[name] for own in components])[chosen] for name in grammar.base.blocks}
