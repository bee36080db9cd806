# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Posterior predictive checks: whether sentences and trees from a fitted model look like those of the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from pyro import poutine
from pyro.infer import MCMC
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.infer.loops.base import GrammarLoop
from pyrogram.infer.model.sites import base_distribution
from pyrogram.infer.prediction import Fitted, posterior_predictive
from pyrogram.random_state import random_state_kept
from pyrogram.tree_statistics import Statistics, corpus_means, tree_statistics
from pyrogram.trees import lengths_of


@dataclass(frozen=True)
class PredictiveCheck:
    """Statistics of the data and of their replications, one pair for each posterior draw; ``print`` shows a table.

    :param realised: means over the sentences of the data, by ``<site>.<statistic>``, shape ``(S,)``: where trees are
        not observed, with trees drawn given the words.
    :param replicated: the same of the model's own sentences and trees.
    """

    realised: dict[str, Tensor]
    replicated: dict[str, Tensor]

    @property
    def p_values(self) -> dict[str, float]:
        """P(replicated > realised) + P(replicated = realised) / 2; near 0 or 1 where the model does not fit.

        Draws in which either is NaN are left out.
        """
        p_values = {}
        for name, realised in self.realised.items():
            both = ~(realised.isnan() | self.replicated[name].isnan())
            gap = (self.replicated[name] - realised)[both]
            p_values[name] = float(((gap > 0).double() + 0.5 * (gap == 0).double()).mean())
        return p_values

    def __str__(self) -> str:
        width = max(map(len, self.realised), default=0)
        lines = [f"{'':{width}}  realised  replicated (5 % .. 95 %)      p"]
        for name, p in self.p_values.items():
            low, high = self.replicated[name].nanquantile(torch.tensor([0.05, 0.95], dtype=torch.float64)).tolist()
            realised, new = float(self.realised[name].nanmean()), float(self.replicated[name].nanmean())
            lines.append(f"{name:{width}}{realised:>10.3f}{new:>12.3f} ({low:.3f} .. {high:.3f}){p:>9.3f}")
        return "\n".join(lines)


def predictive_check(
    model: Callable[..., Any],
    fitted: Fitted,
    *args: Any,
    trees: Tensor | Mapping[str, Tensor] | None = None,
    statistics: Statistics | None = None,
    num_samples: int | None = None,
    **kwargs: Any,
) -> PredictiveCheck:
    """Compare the trees of a model's sentences with those of sentences that it draws itself.

    For each posterior draw of the weights, a corpus of as many new sentences and their trees is drawn. Where trees are
    not observed, those of the data are drawn with the same weights, given the words: the *realised discrepancy* of
    Gelman, Meng and Stern (1996), "Posterior predictive assessment of model fitness via realized discrepancies",
    Statistica Sinica 6, section 2.3. Where they are, this is a plain posterior predictive check.

    New sentences have no more words than ``Sentence(max_length=...)`` says, see there for longer ones.

    :param model: the model that was fitted. Positional and other keyword arguments are its own.
    :param fitted: posterior samples, an ``MCMC``, a guide, or a loop, as for :func:`.posterior_predictive`. Of a loop
        it is the point estimate, so that the check says nothing of the weights' uncertainty; draws from the posterior
        of :class:`.VariationalEM` are those of its ``guide``.
    :param trees: observed ones, shape ``(N, L)``, or by Sentence site.
    :param statistics: functions by name, as for :func:`.tree_statistics`; by default those, and the number of words.
    :param num_samples: S, of a loop or a guide.
    :raises ValueError: if the model observes no sentences, or if ``trees`` are none of its words.
    """
    sentences = _sentences(model, args, kwargs)
    options: dict[str, Any] = {} if isinstance(fitted, MCMC | Mapping) else {"num_samples": num_samples or 100}
    present = posterior_predictive(model, fitted, *args, **options, **kwargs)
    if not isinstance(fitted, GrammarLoop | MCMC | Mapping):  # the same draws of the guide for both
        observed = {*sentences, *(f"{name}.tree" for name in sentences)}
        fitted, options = {name: x for name, x in present.items() if name not in observed}, {}
    new = posterior_predictive(model, fitted, *args, new_sentences=True, **options, **kwargs)
    known: Mapping[str, Tensor] = {next(iter(sentences)): trees} if isinstance(trees, Tensor) else trees or {}
    _check_trees(known, sentences)
    realised: dict[str, Tensor] = {}
    replicated: dict[str, Tensor] = {}
    for name, (sentence, words) in sentences.items():
        law, tree = sentence.derivation(words), f"{name}.tree"
        derivations = known[name].expand(len(new[tree]), *known[name].shape) if name in known else present[tree]
        for means, x, y in ((realised, words, derivations), (replicated, new[name], new[tree])):
            x = x.expand(*y.shape[:-1], x.shape[-1])
            values = tree_statistics(law, x, y, statistics)
            if statistics is None:
                values = {"words": lengths_of(x).double(), **values}
            flat = {n: v.reshape(len(v), -1) for n, v in values.items()}
            means.update({f"{name}.{n}": m for n, m in corpus_means(flat).items()})
    return PredictiveCheck(realised, replicated)


def _check_trees(trees: Mapping[str, Tensor], sentences: Mapping[str, tuple[Sentence, Tensor]]) -> None:
    """
    :raises ValueError: if observed trees are of no site, or no derivations of its words.
    """
    for name, derivations in trees.items():
        if name not in sentences:
            raise ValueError(f"trees has no use for {name!r}, only for the Sentence sites {sorted(sentences)}")
        sentence, words = sentences[name]
        law: Any = sentence.derivation(words)
        shape = law.batch_shape + law.event_shape
        if derivations.shape != shape or not bool(law.support.check(derivations).all()):
            raise ValueError(
                f"trees of site {name!r} must be derivations of its words, shape {tuple(shape)}, padded with -1; these "
                f"have shape {tuple(derivations.shape)}, or some are none"
            )


def _sentences(model: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, tuple[Sentence, Tensor]]:
    """Observed sentences of a model by site, and their words.

    :raises ValueError: if there are none.
    """
    with random_state_kept(), torch.no_grad():
        traced: Any = poutine.trace(model).get_trace(*args, **kwargs)
    sites = {n: (base_distribution(s["fn"]), s) for n, s in traced.nodes.items() if s["type"] == "sample"}
    sentences = {n: (d, s["value"]) for n, (d, s) in sites.items() if isinstance(d, Sentence) and s["is_observed"]}
    if not sentences:
        raise ValueError("the model must observe sentences: it has no observed Sentence site")
    return sentences
