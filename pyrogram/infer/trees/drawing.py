# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees drawn, or found, given all else that a model says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pyro
from pyro.ops.provenance import get_provenance, track_provenance
from pyro.poutine.messenger import Messenger

from pyrogram.distributions import Sentence
from pyrogram.infer.model.sites import base_distribution

from .sites import GIVEN_ALL_ELSE
from .summing_out import HEADS_AT_ONCE, sum_out


def infer_trees(
    model: Callable[..., Any],
    temperature: Literal[0, 1] = 1,
    *,
    mbr: bool = False,
    heads_at_once: int = HEADS_AT_ONCE,
) -> Callable[..., Any]:
    """A model that also has the derivations of its sentences, given all else: drawn, or the best ones.

    It does for trees what Pyro's ``infer_discrete`` does for sites that can be enumerated.

    * After a :class:`.Sentence` site ``words``, observed or drawn, comes a site ``words.tree`` of its ``derivation``,
      whatever the grammar: heads, states, rules. With temperature 1, the log joint is that of words and trees.
    * A latent site of trees is summed out as by :func:`.collapse_trees`, and drawn after the model has run, under its
      own name. All else is as if it had been observed, also what depends on the tree; what the model computes from a
      tree, and returns, is of another one.

    Run it with weights that were learnt: under ``Predictive`` with posterior samples or a guide, or with parameters in
    Pyro's store.

    >>> grammar = pyrogram.DMV(num_tags=2)
    >>> words = torch.tensor([[0, 1, 1], [1, 0, -1]])
    >>> def model():
    ...     with pyro.plate("sentences", 2):
    ...         pyro.sample("words", Sentence(grammar, grammar.initial_weights(words)), obs=words)
    >>> trace = pyro.poutine.trace(infer_trees(model, temperature=0)).get_trace()
    >>> trace.nodes["words.tree"]["value"]
    tensor([[ 3,  1,  0],
            [ 0,  1, -1]])

    :param temperature: 1 for exact draws, 0 for the most probable derivations (Viterbi), at a deterministic site.
    :param mbr: in place of these, derivations with the most expected right heads (or states, or brackets); with
        temperature 0.
    :param heads_at_once: as for :func:`.collapse_trees`.
    :returns: a model with the same arguments.
    :raises ModelError: when it runs, as :func:`.collapse_trees` does.
    :raises ValueError: for another temperature, or, when it runs, if the model has neither kind of site.
    """
    if temperature not in (0, 1):
        raise ValueError(f"temperature must be 1, for draws, or 0, for the best trees, not {temperature!r}")
    if mbr and temperature == 1:
        raise ValueError("mbr finds the best trees, so it needs temperature=0")

    def site(name: str, derivation: Any, reinterpreted: int) -> None:
        if temperature == 1:
            told: Any = {GIVEN_ALL_ELSE: True}
            pyro.sample(name, derivation.to_event(reinterpreted), infer=told)
        else:
            best = derivation.mbr() if mbr else derivation.argmax()
            upstream = get_provenance(vars(derivation))  # by which pyro.render_model knows what it depends on
            best = track_provenance(best, upstream) if upstream else best
            pyro.deterministic(name, best, event_dim=1 + reinterpreted)

    def inferred(*args: Any, **kwargs: Any) -> Any:
        with _SentenceTrees(site) as sentences:
            run = sum_out(partial(model, *args, **kwargs), None, "infer_trees", heads_at_once)
        for name, (latent, posterior) in run.trees.items():
            with latent.surroundings():
                site(name, posterior, latent.reinterpreted)
        if not run.met and not sentences.met:
            raise ValueError("infer_trees found no Sentence site and no latent site of trees in the model")
        return run.result

    return inferred


class _SentenceTrees(Messenger):
    """Add the derivations of sentences.

    :param site: makes a site from its name, its distribution, and how many dimensions ``to_event`` takes.
    """

    def __init__(self, site: Callable[[str, Any, int], None]) -> None:
        super().__init__()
        self.site, self.met = site, False

    def _pyro_post_sample(self, msg: Any) -> None:
        sentence = base_distribution(msg["fn"])
        if isinstance(sentence, Sentence):
            self.met = True
            reinterpreted = len(sentence.batch_shape) - len(msg["fn"].batch_shape)
            self.site(f"{msg['name']}.tree", sentence.derivation(msg["value"]), reinterpreted)
