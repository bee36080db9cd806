# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences and trees from a fitted model, whatever it was fitted by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from pyro import poutine
from pyro.infer import MCMC, Predictive, infer_discrete
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import Categorical

from pyrogram.distributions import Sentence
from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.random_state import random_state_kept

from .loops.base import GrammarLoop
from .model.composed import MixtureGrammar
from .model.indicators import depth_of, indicators
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
    >>> draws = posterior_predictive(model, loop, words, grammar, num_samples=10)
    >>> {name: tuple(x.shape) for name, x in draws.items()}
    {'words.tree': (10, 2, 3)}

    :param model: the model that was fitted. Positional and other keyword arguments are its own; they may be other
        sentences than it was fitted to.
    :param fitted: a loop that has run, whose point estimate ``weights()`` the sentences get, however the model makes
        weights (of a mixture of grammars those of one component for each sentence, given its words); a
        ``pyro.infer.MCMC`` that has run, or posterior samples by site, shape ``(S, *shape)``; or a guide.
        Parameters are those in Pyro's store.
        Discrete sites of sentences that have no values, such as the components of a mixture, are drawn given the words.
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
        model = _at_weights(model, fitted, temperature)
        names = [site.name for site in fitted._need_problem().traced.sentences]
        options["return_sites"] = [f"{name}.tree" for name in names] + (names if new_sentences else [])
    else:
        options["guide"] = fitted
    chosen: dict[str, Tensor] = {}
    if new_sentences:
        model = poutine.uncondition(model)
    elif not isinstance(fitted, GrammarLoop):
        chosen = _choices(model, options, temperature, args, kwargs)
        if chosen:
            options = {"posterior_samples": {**options.get("posterior_samples", {}), **chosen}}
    draws: dict[str, Tensor] = Predictive(infer_trees(model, temperature), **options)(*args, **kwargs)
    return {**chosen, **draws}


def _choices(
    model: Callable[..., Any],
    options: Mapping[str, Any],
    temperature: Literal[0, 1],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[str, Tensor]:
    """Draws of discrete sites that nobody gives values to, given the sentences, and those of the guide.

    ``Predictive`` would draw them from their priors: components of mixtures that know nothing of the words.

    :param options: of ``Predictive``.
    :returns: nothing, if all are given.
    """
    with random_state_kept(), torch.no_grad():
        nodes: Mapping[str, Any] = poutine.trace(model).get_trace(*args, **kwargs).nodes
        known = set(options.get("posterior_samples", {}))
        if "guide" in options:
            known = set(poutine.trace(options["guide"]).get_trace(*args, **kwargs).nodes)
    missing = set(indicators(nodes)) - known
    if not missing:
        return {}
    draws: dict[str, Tensor] = options.get("posterior_samples", {})
    if "guide" in options:
        draws = Predictive(options["guide"], num_samples=options["num_samples"])(*args, **kwargs)

    def enumerated(site: Any) -> Any:
        return {"enumerate": "parallel"} if site["name"] in missing else {}

    traces = []
    with torch.no_grad():
        for s in range(options.get("num_samples") or len(next(iter(draws.values())))):
            # Conditioned within: infer_discrete hides its first run from what is without.
            at = poutine.condition(model, {name: x[s] for name, x in draws.items()})
            inferred = infer_discrete(poutine.infer_config(at, enumerated), -1 - depth_of(nodes), temperature)
            traces.append(poutine.trace(inferred).get_trace(*args, **kwargs).nodes)
    choices = {name: torch.stack([trace[name]["value"] for trace in traces]) for name in sorted(missing)}
    return {**(draws if "guide" in options else {}), **choices}


def _at_weights(model: Callable[..., Any], loop: GrammarLoop[Any, Any], temperature: int) -> Callable[..., Any]:
    """The model with what a loop has learnt in place of its sentences' weights."""
    # Before the model runs, for a loop may run it, too.
    fitted = {site.name: (loop.weights(site.name), site.mixture) for site in loop._need_problem().traced.sentences}
    at_weights: Callable[..., Any] = _Weights(fitted, temperature)(model)
    return at_weights


class _Weights(Messenger):
    """Put weights in the place of those of sentences.

    :param fitted: by Sentence site, the weights, and the mixture that they are of, if any.
    :param temperature: 1 for components that are drawn given the words, 0 for the most probable ones.
    """

    def __init__(self, fitted: Mapping[str, tuple[Weights, MixtureGrammar | None]], temperature: int) -> None:
        super().__init__()
        self.fitted, self.temperature = fitted, temperature

    def _pyro_sample(self, msg: Any) -> None:
        sentence = base_distribution(msg["fn"])
        if isinstance(sentence, Sentence):
            if msg["name"] not in self.fitted:
                raise ValueError(
                    f"the loop has no weights for site {msg['name']!r}, only for {sorted(self.fitted)}; give the model "
                    "that it was fitted to"
                )
            weights, mixture = self.fitted[msg["name"]]
            if mixture is not None:
                words = msg["value"] if msg["is_observed"] else None
                weights = self._of_components(mixture, weights, sentence, words)
            fitted = sentence.with_weights(weights)
            msg["fn"] = fitted.to_event(len(sentence.batch_shape) - len(msg["fn"].batch_shape))

    def _of_components(
        self, grammar: MixtureGrammar, weights: Weights, sentence: Sentence, words: Tensor | None
    ) -> Weights:
        """The weights of a component for each sentence, given its words; from the shares, if it has none yet."""
        components = [grammar.component(weights, k) for k in range(grammar.num_components)]
        logits = safe_log(weights[grammar.indicator]).expand(*sentence.batch_shape, grammar.num_components)
        if words is not None:
            logits = logits + torch.stack([sentence.with_weights(w).log_prob(words) for w in components], -1)
        best = self.temperature == 0 and words is not None
        chosen = logits.argmax(-1) if best else Categorical(logits=logits).sample()
        return {name: torch.stack([w[name] for w in components])[chosen] for name in grammar.base.blocks}
