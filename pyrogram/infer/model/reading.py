# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a Pyro model says about a grammar, read off a run of it, and a few at random points (:mod:`.selection`).

A loop needs to know which observed sites are sentences, and what each block of weights is made of. Multinomials that
are weights, and nothing else, are set apart: values of a ``pyro.param``, of a Dirichlet or Beta site, or of a logistic
normal, whole or entry by entry. These have closed forms. All else, parameters and latent values, is
moved by the gradient of the log joint, in which sentences are replaced by tangents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.infer.autoguide.initialization import init_to_median
from torch import Tensor
from torch.distributions import biject_to, constraints, transform_to

from pyrogram.charts.checks import broadcast_shapes, checked_words
from pyrogram.distributions import Sentence, simplex_of
from pyrogram.distributions.charted import ChartDistribution
from pyrogram.grammar import Weights
from pyrogram.random_state import random_state_kept
from pyrogram.sentences import Sentences

from .selection import Computed, LatentMessenger, Origins, leaves_of, selections
from .sites import (
    MULTINOMIALS,
    base_distribution,
    concentration_of,
    constraint_of,
    distribution_name,
    is_latent,
    is_learnt,
    is_left_out,
    multinomials,
    no_sentences,
    observed_sentence,
)
from .sources import WeightReader, expanded_mean, held_normals, of_each
from .structure import Hyperparameter, ModelError, SentenceSite, TracedModel, WeightSource, leaf_of


def read(
    model: Callable[[], Any],
    loop: str,
    *,
    unconstrained: bool = False,
    opened: Collection[str] = (),
    logistic_normals: bool = False,
) -> TracedModel:
    """Run the model, without disturbing the random number generator, and say what it is.

    Latent values and parameters that are no sources of weights are the result's ``hyperparameters``. They begin near
    the medians of their priors.

    :param loop: name of the loop, for messages.
    :param unconstrained: see :func:`coordinates`.
    :param opened: latent sites that are not to be sources, though they could be.
    :param logistic_normals: whether these may be sources, and their Gaussian sites the result's ``gaussians``: they
        are, if all of them can be.
    :raises ModelError: for a discrete latent site, a minibatch, or weights whose origin cannot be followed.
    :raises ValueError: if there are no sentences, or words that a grammar does not have.
    """
    with random_state_kept(), torch.enable_grad(), LatentMessenger(partial(_begin, at_mean=logistic_normals)):
        trace = poutine.trace(model).get_trace()
    nodes: dict[str, Any] = dict(trace.nodes)
    samples = {n: s for n, s in nodes.items() if s["type"] == "sample" and not is_left_out(s)}
    sentences = {n: s for n, s in samples.items() if observed_sentence(s) is not None}
    if not sentences:
        raise no_sentences(loop, nodes)
    for name, site in samples.items():
        _check(name, site, loop)
    found = multinomials(nodes)
    candidates = {source.name: source for source in found if source.logistic_normal is None}
    normals = {source.name: source for source in found if source.logistic_normal is not None}
    origins = selections(model)
    others = {n: s for n, s in samples.items() if n not in sentences}
    reached = {n: set(leaves_of(s["fn"].log_prob(s["value"]).sum())) for n, s in others.items()}
    _check_known(nodes, reached, loop)
    reasons = _open(candidates, samples, origins, reached, opened)
    for name in reasons:
        del candidates[name]
    reasons |= dict.fromkeys(normals, ", a logistic normal")
    gaussians = held_normals(nodes, normals, origins, candidates.keys(), reached) if logistic_normals else None
    if gaussians is not None:
        candidates |= normals
    reader = WeightReader(candidates, origins, loop, reasons)
    sites = [_site(reader, name, site) for name, site in sentences.items()]
    for name in reader.used.keys() & samples.keys():
        reader.used[name] = replace(reader.used[name], scale=_factor(samples[name]))
    _check_sources(reader.used, nodes, loop)
    points = {}
    for name, site in nodes.items():
        if name in reader.used or name in (gaussians or {}):
            continue
        if is_learnt(site):
            points[name] = Hyperparameter(site["value"], leaf_of(site["value"]), constraint_of(site))
        elif is_latent(site):
            points[name] = _point(site, unconstrained)
    if not any(len(site.words) for site in sites):
        raise ValueError("the corpus has no sentences; give one at least")
    for corpus in sites:
        checked_words(corpus.words, corpus.grammar.num_words)
    if not points and all(source.is_constant for source in reader.used.values()):
        raise ModelError(f"{loop} has nothing to learn: all weights of the model are constants")
    return TracedModel(sites, reader.used, gaussians or {}, points)


def coordinates(unconstrained: bool) -> Callable[[Any], Any]:
    """The map from a support to the transform that gives its values coordinates.

    :param unconstrained: whether these are as many as the support has dimensions, so that densities can be transformed.
        Otherwise a multinomial has logits, one more than it needs, up which it is easier to climb.
    """
    return biject_to if unconstrained else transform_to


def computed_log_weights(trace: Any, traced: TracedModel) -> Weights:
    """Log weights of the sources that are computed, in a trace of the model."""
    log_weights: Weights = {}
    for site in traced.sentences:
        log_weights |= computed_blocks(site.name, base_distribution(trace.nodes[site.name]["fn"]), traced)
    return log_weights


def computed_blocks(site: str, function: Sentence, traced: TracedModel) -> Weights:
    """Log weights of those blocks of one site that are computed, by source."""
    named = {f"{site}.{block}": block for block in function.grammar.blocks}
    computed = {n: b for n, b in named.items() if n in traced.weight_sources and traced.weight_sources[n].is_computed}
    log_weights = function.log_weights if computed else {}
    blocks = function.grammar.blocks
    return {name: of_each(log_weights[block], blocks[block], function) for name, block in computed.items()}


def log_density(trace: Any, traced: TracedModel) -> Tensor:
    """The log density of all sites of a trace but sentences, weights that are sources, and normal experts; float64.

    That of an observed multinomial with a weight of zero is left out where it is infinite: it would hide all else.
    """
    total = torch.zeros((), dtype=torch.float64)
    for name, site in trace.nodes.items():
        if site["type"] != "sample" or is_left_out(site) or name in traced.weight_sources or name in traced.gaussians:
            continue
        if observed_sentence(site) is not None:
            continue
        density = scale_and_mask(site["fn"].log_prob(site["value"]), site["scale"], site["mask"])
        if site["is_observed"] and isinstance(base_distribution(site["fn"]), MULTINOMIALS):
            density = density[density.isfinite()]
        total = total + density.sum().to("cpu", torch.float64)
    return total


def _begin(site: Any, at_mean: bool) -> Tensor:
    """Where a latent value begins: at the median of its prior, if it is a number; real vectors at a draw.

    Where all begin at zero, symmetry is never broken.

    :param at_mean: whether Gaussian sites of logistic normals begin at their means.
    """
    if at_mean and "gaussian" in site["infer"]:
        return expanded_mean(site)
    support = site["fn"].support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    if support.is_discrete or (support is constraints.real and base_distribution(site["fn"]).event_shape):
        drawn: Tensor = site["fn"].sample()
        return drawn
    return init_to_median(site)  # type: ignore[no-any-return]


def _check(name: str, site: Any, loop: str) -> None:
    if any(frame.full_size not in (None, frame.size) for frame in site["cond_indep_stack"]):
        raise ModelError(
            f"{loop} needs the whole corpus, but site {name!r} is in a subsampled plate; give the plate no "
            "subsample_size, or use pyro.infer.SVI"
        )
    scale = torch.as_tensor(site["scale"])
    if isinstance(base_distribution(site["fn"]), Sentence) and not bool((scale == scale.max()).all()):
        raise ModelError(f"{loop} needs one scale for all sentences of site {name!r}; pyro.infer.SVI takes any")
    if not site["is_observed"] and site["fn"].support.is_discrete:
        kind = distribution_name(base_distribution(site["fn"]))
        raise ModelError(
            f"{loop} cannot handle the discrete latent site {name!r} ({kind}); pyro.infer.SVI with TraceEnum_ELBO can"
        )


def _check_known(nodes: Mapping[str, Any], reached: Mapping[str, set[int]], loop: str) -> None:
    """Densities must depend on nothing that would be left as it is.

    :param reached: by site, the ids of the leaves that its density depends on.
    """
    known = {id(leaf_of(s["value"])) for s in nodes.values() if s["type"] == "param"}
    known |= {id(s["value"]) for s in nodes.values() if s["type"] == "sample"}
    for name, leaves in reached.items():
        if leaves - known:
            raise ModelError(
                f"{loop} cannot learn what the density of site {name!r} depends on: a tensor that requires a gradient, "
                "and that Pyro does not know; make it a pyro.param, or detach it"
            )


def _factor(site: Any) -> float:
    """What the log density of a site is multiplied by, its mask included; NaN where elements have others."""
    one = torch.ones((), dtype=torch.float64)
    factors = one * site["scale"] * (one if site["mask"] is None else torch.as_tensor(site["mask"]))
    return float(factors.max()) if bool((factors == factors.max()).all()) else math.nan


def _site(reader: WeightReader, name: str, site: Any) -> SentenceSite:
    """Sentences with the sources of their weights, each as often as ``log_prob`` has it; those that are masked not."""
    function = base_distribution(site["fn"])
    shape = broadcast_shapes(function.batch_shape, site["value"].shape[:-1])
    sentences = Sentences.of(function.observed(site["value"].long())).flat(shape)
    corpus = reader.site(name, function, sentences)
    if site["mask"] is not None:
        inner = len(function.batch_shape) - len(site["fn"].batch_shape)  # dimensions of one event, under to_event
        outer = torch.as_tensor(site["mask"], device=sentences.words.device).expand(shape[: len(shape) - inner])
        kept = outer.reshape(*outer.shape, *(1,) * inner).expand(shape).reshape(-1)
        if not bool(kept.all()) and any(reader.used[source].per_sentence for source in corpus.source_of_block.values()):
            raise ModelError(
                f"{reader.loop} cannot handle the mask on site {name!r}, whose sentences have weights of their own; "
                "leave out those sentences instead"
            )
        corpus = replace(corpus, sentences=sentences[kept])
    return replace(corpus, scale=float(torch.as_tensor(site["scale"]).max()))


def _check_sources(used: Mapping[str, WeightSource], nodes: Mapping[str, Any], loop: str) -> None:
    """
    :raises ModelError: if a site has the name of a block that is no site; if concentrations are not positive, which
        Pyro refuses only where it validates; if weights are parameters of another constraint.
    """
    for name, source in used.items():
        if source.is_computed and name in nodes:
            raise ModelError(
                f"{loop} needs another name for site {name!r}, which is that of a block of a Sentence site"
            )
        alpha = source.concentration
        if alpha is not None and not bool((alpha > 0).all()):
            raise ModelError(
                f"{loop} needs positive concentrations, but that of site {name!r} goes down to {float(alpha.min()):g}; "
                "make it positive, be it by little"
            )
        if not source.is_param:
            continue
        actual, needed = constraint_of(nodes[name]), simplex_of(source.block)
        if type(actual) is not type(needed) or getattr(actual, "sizes", None) != getattr(needed, "sizes", None):
            code = "constraints.simplex" if needed is constraints.simplex else "simplex_of(block)"
            raise ModelError(
                f"{loop} needs pyro.param {name!r} to have constraint={code}, for it is estimated as probabilities; "
                f"its constraint is {repr(actual).strip('()')}"
            )


def _open(
    candidates: Mapping[str, WeightSource],
    samples: Mapping[str, Any],
    origins: Mapping[str, Origins],
    reached: Mapping[str, set[int]],
    opened: Collection[str],
) -> dict[str, str]:
    """Candidates that are not weights alone, each with the reason, in words, or none of use.

    Other sites depend on them, or weights that are computed; or they are no weights at all.

    :param opened: others that are to be treated so.
    """
    blocks = [block for by_block in origins.values() for block in by_block.values()]
    selected = {name for block in blocks if not isinstance(block, Computed) for name in block.sources}
    result = {name: "" for block in blocks if isinstance(block, Computed) for name in block.sources}
    result |= dict.fromkeys((candidates.keys() - selected) | (candidates.keys() & opened), "")
    for name, leaves in reached.items():
        function = base_distribution(samples[name]["fn"])
        known = "; give derivations that are known to Sentence, as known=" * isinstance(function, ChartDistribution)
        for other, source in candidates.items():
            if other != name and id(source.leaf) in leaves:
                result[other] = f", on which site {name!r} ({distribution_name(function)}) depends, too{known}"
        if math.isnan(_factor(samples[name])):
            result.setdefault(name, "")
    size = -1
    while len(result) > size:  # a block that is made of such a one is computed, too
        size = len(result)
        for block in blocks:
            if not isinstance(block, Computed) and not candidates.keys() - result.keys() >= set(block.sources):
                result = {**dict.fromkeys(block.sources, ""), **result}
    return {name: reason for name, reason in result.items() if name in candidates}


def _point(site: Any, unconstrained: bool) -> Hyperparameter:
    """Where a latent value begins."""
    support, function = site["fn"].support, base_distribution(site["fn"])
    leaf = coordinates(unconstrained)(support).inv(site["value"]).detach().clone().requires_grad_()
    alpha = concentration_of(function).detach() if isinstance(function, MULTINOMIALS) and _factor(site) != 0 else None
    return Hyperparameter(site["value"].detach(), leaf, support, is_latent=True, concentration=alpha)
