# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a Pyro model says about a grammar, read off one trace of it.

A loop needs to know which observed sites are sentences, and what each block of weights is: the value of a
``pyro.param``, of a Dirichlet or Beta site or of a logistic normal, a selection of entries of several, or a constant.
A block is site ``attach`` if the tensor handed to ``Sentence`` *is* the tensor that ``pyro.sample("attach", ...)``
returned; where it is not, :mod:`.selection` finds out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import constraints

from pyrogram.charts.checks import broadcast_shapes, checked_words
from pyrogram.distributions import Sentence, simplex_of
from pyrogram.distributions.charted import ChartDistribution
from pyrogram.grammar import Block

from .indicators import indicators, indicators_of_sentences, of_component
from .selection import selections
from .sites import (
    MULTINOMIALS,
    base_distribution,
    block_of_param,
    concentration_of,
    constraint_of,
    distribution_name,
    is_learnt,
    is_left_out,
    no_sentences,
    random_state_kept,
)
from .sources import ELSEWHERE, WeightReader, logistic_normal_source, multinomial_source
from .structure import (
    GaussianSite,
    Hyperparameter,
    ModelError,
    SentenceSite,
    TracedModel,
    WeightSource,
)


def trace_model(model: Callable[..., Any], loop: str, *args: Any, **kwargs: Any) -> TracedModel:
    """Run the model once, without disturbing the random number generator, and say what it is.

    :param loop: name of the loop, for messages.
    :raises ModelError: if a site is none of those that the loops handle.
    :raises ValueError: if there are no sentences, or words that a grammar does not have.
    """
    with random_state_kept(), torch.enable_grad(), LeafMessenger():
        trace = poutine.trace(model).get_trace(*args, **kwargs)
    candidates: dict[int, WeightSource] = {}
    gaussians: dict[str, GaussianSite] = {}
    density = 0.0
    sentences = []
    parameters: dict[str, dict[str, Any]] = {}
    nodes: dict[str, Any] = {n: s for n, s in trace.nodes.items() if s["type"] == "sample" or is_learnt(s)}
    choices = indicators(nodes)
    for name, site in nodes.items():
        if site["type"] == "param":
            parameters[name] = site
        elif site["type"] == "sample":
            _check_scale(site, loop)
            function = base_distribution(site["fn"])
            if site["is_observed"] and isinstance(function, Sentence):
                sentences.append((name, function, flat_words(function, site["value"])))
            elif "logistic_normal" in site["infer"]:
                candidates[id(site["value"])] = logistic_normal_source(name, site)
            elif is_left_out(site):
                continue
            elif site["is_observed"]:
                _check_observed(name, site, loop)
                own = float(site["fn"].log_prob(site["value"]).sum())
                density += own if math.isfinite(own) else 0.0  # of a weight of zero: it would hide all else
            elif "gaussian" in site["infer"]:
                gaussians[name] = GaussianSite(name, site["infer"]["gaussian"], site["value"])
            elif isinstance(function, MULTINOMIALS):
                candidates[id(site["value"])] = multinomial_source(name, function, site["value"])
            elif name not in choices:
                raise ModelError(
                    f"{loop} cannot handle latent site {name!r} ({distribution_name(function)}), only Dirichlet, "
                    f"Beta and logistic-normal weights; {ELSEWHERE}"
                )
    if not sentences:
        raise no_sentences(loop, nodes)
    for name, site in parameters.items():
        block = block_of_param(site) or Block(site["value"].shape)  # other constraints are refused by name
        candidates[id(site["value"])] = WeightSource(name, block, site["value"])
    given = partial(model, *args, **kwargs)
    reader = WeightReader(candidates, lambda: selections(given), loop, computed=False)
    sites = _sites(reader, nodes, sentences, given)
    used = reader.used
    if used and all(source.is_constant for source in used.values()):
        raise ModelError(f"{loop} has nothing to learn: all weights of the model are constants")
    _check_used(candidates, used, gaussians, parameters, loop)
    traced = TracedModel(sites, used, gaussians, _hyperparameters(used, parameters), density)
    _check_dependence(traced, loop)
    check_corpora(sites)
    return traced


def check_corpora(sites: Sequence[SentenceSite]) -> None:
    """
    :raises ValueError: if there are no sentences, or words that a grammar does not have.
    """
    if not any(len(site.words) for site in sites):
        raise ValueError("the corpus has no sentences; give one at least")
    for site in sites:
        checked_words(site.words, site.grammar.num_words)


def _sites(
    reader: WeightReader,
    nodes: Mapping[str, Any],
    sentences: list[tuple[str, Sentence, Tensor]],
    model: Callable[[], Any],
) -> list[SentenceSite]:
    """Sentences with the sources of their weights: of the grammar, or of components between which a site chooses."""
    found, sizes, chosen = [], indicators(nodes), indicators_of_sentences(nodes, reader.loop)
    for name, function, words in sentences:
        own = chosen.get(name)
        if own is None:
            found.append(reader.site(name, function, words))
        else:
            parts = [selections(of_component(model, own, k), own) for k in range(sizes[own])]
            found.append(reader.mixture(name, function, words, own, parts))
    return found


class LeafMessenger(Messenger):
    """Make values of Dirichlet and Gaussian sites leaves of autograd's graph, which then tells what depends on them.

    Gaussian sites take their means, as a view that costs no memory however many sentences there are. A parameter that
    is asked for twice is the same tensor, so that it can be recognised.
    """

    def __init__(self) -> None:
        super().__init__()
        self.parameters: dict[str, Tensor] = {}

    def _pyro_post_param(self, msg: Any) -> None:
        first = self.parameters.setdefault(msg["name"], msg["value"])
        if first.shape == msg["value"].shape:
            msg["value"] = first

    def _pyro_sample(self, msg: Any) -> None:
        if not msg["is_observed"] and "gaussian" in msg["infer"]:
            msg["value"] = expanded_mean(msg).detach().requires_grad_()
            msg["done"] = True

    def _pyro_post_sample(self, msg: Any) -> None:
        if not msg["is_observed"] and isinstance(base_distribution(msg["fn"]), MULTINOMIALS):
            msg["value"] = msg["value"].detach().requires_grad_()


def expanded_mean(msg: Any) -> Tensor:
    """The mean of a Gaussian site, in the shape of a draw, expanded rather than copied."""
    shape = msg["fn"].batch_shape + msg["fn"].event_shape
    loc: Tensor = msg["infer"]["gaussian"].loc
    return loc.expand(shape)


def flat_words(function: Sentence, value: Tensor) -> Tensor:
    """Sentences as integers, shape (N, n), each as often as the site's log_prob has it; they know their evidence."""
    batch = broadcast_shapes(function.batch_shape, value.shape[:-1])
    return function.observed(value.long()).expand(*batch, value.shape[-1]).reshape(-1, value.shape[-1])


def _check_observed(name: str, site: Any, loop: str) -> None:
    """Observed multinomials are constants, and so must be their density; nothing else is observed but sentences."""
    function = base_distribution(site["fn"])
    if not isinstance(function, MULTINOMIALS):
        what = (
            "; give derivations that are known to Sentence, as known="
            if isinstance(function, ChartDistribution)
            else ""
        )
        raise ModelError(
            f"{loop} cannot use observed site {name!r} ({distribution_name(function)}), only sentences{what}; "
            f"{ELSEWHERE}"
        )
    if concentration_of(function).requires_grad or site["value"].requires_grad:
        raise ModelError(
            f"{loop} cannot use observed site {name!r} ({distribution_name(function)}), whose concentration or value "
            f"is itself to be learnt; {ELSEWHERE}"
        )


def _check_scale(site: dict[str, Any], loop: str) -> None:
    """Loops see the whole corpus: no minibatches, no masks."""
    scale = site["scale"]
    if not (isinstance(scale, (int, float)) and scale == 1) and not (
        isinstance(scale, Tensor) and bool((scale == 1).all())
    ):
        raise ModelError(
            f"{loop} needs the whole corpus, but site {site['name']!r} is in a subsampled or scaled plate; "
            "give the plate no subsample_size, or use pyro.infer.SVI"
        )
    mask = site["mask"]
    if mask is not None and not bool(torch.as_tensor(mask).all()):
        raise ModelError(f"{loop} cannot handle the mask on site {site['name']!r}; leave out those sentences instead")


def _check_used(
    candidates: dict[int, WeightSource],
    used: dict[str, WeightSource],
    gaussians: dict[str, GaussianSite],
    parameters: dict[str, dict[str, Any]],
    loop: str,
) -> None:
    for source in candidates.values():
        if not source.is_param and source.name not in used:
            kind = "Dirichlet site" if source.logistic_normal is None else "the logistic normal"
            raise ModelError(f"{loop} found no sentence whose weights are {kind} {source.name!r}; {ELSEWHERE}")
    for source in used.values():
        for name in source.logistic_normal.sites.values() if source.logistic_normal is not None else ():
            if name not in gaussians:
                raise ModelError(
                    f"{loop} found no latent Gaussian site {name!r}, of which {source.name!r} is made: it was "
                    f"observed, hidden or renamed (by poutine.block or autoname.scope); {ELSEWHERE}"
                )
    mixed = {site for s in used.values() if s.logistic_normal is not None for site in s.logistic_normal.sites.values()}
    for name in gaussians.keys() - mixed:
        raise ModelError(f"{loop} found no weights made of Gaussian site {name!r}; {ELSEWHERE}")
    check_constraints(used, parameters, loop)
    check_concentrations(used, loop)


def check_names(used: Mapping[str, WeightSource], names: Iterable[str], loop: str) -> None:
    """
    :raises ModelError: if a site of the model has the name of a block that is no site.
    """
    for name in sorted(set(names) & used.keys()):
        if used[name].is_computed:
            raise ModelError(
                f"{loop} needs another name for site {name!r}, which is that of a block of a Sentence site"
            )


def check_concentrations(used: Mapping[str, WeightSource], loop: str) -> None:
    """
    :raises ModelError: if some are not positive, which Pyro refuses only where it validates.
    """
    for name, source in used.items():
        alpha = source.concentration
        if alpha is not None and not bool((alpha > 0).all()):
            raise ModelError(
                f"{loop} needs positive concentrations, but that of site {name!r} goes down to {float(alpha.min()):g}; "
                "make it positive, be it by little"
            )


def check_constraints(used: Mapping[str, WeightSource], parameters: Mapping[str, Any], loop: str) -> None:
    """
    :raises ModelError: if weights are parameters of another constraint.
    """
    for name in used.keys() & parameters.keys():
        found, needed = constraint_of(parameters[name]), simplex_of(used[name].block)
        if type(found) is not type(needed) or getattr(found, "sizes", None) != getattr(needed, "sizes", None):
            what = "constraints.simplex" if needed is constraints.simplex else "simplex_of(block)"
            raise ModelError(
                f"{loop} needs pyro.param {name!r} to have constraint={what}, for it is estimated as probabilities; "
                f"its constraint is {repr(found).strip('()')}"
            )


def _hyperparameters(used: dict[str, WeightSource], parameters: dict[str, dict[str, Any]]) -> dict[str, Hyperparameter]:
    """Parameters other than weights."""
    return {
        name: Hyperparameter(site["value"], site["value"].unconstrained(), constraint_of(site))
        for name, site in parameters.items()
        if name not in used
    }


def _check_dependence(traced: TracedModel, loop: str) -> None:
    """Each parameter must be one that a prior depends on, and priors must depend on nothing else."""
    priors = list(traced.prior_tensors())
    for source in traced.weight_sources.values():
        for family, name in source.logistic_normal.sites.items() if source.logistic_normal is not None else ():
            assert source.logistic_normal is not None
            given, shape = traced.gaussians[name].gaussian.shape, source.logistic_normal.structure.experts[family].shape
            if len(given) > len(shape):
                raise ModelError(
                    f"{loop} needs one mean and covariance for Gaussian site {name!r}, but there is one for each "
                    f"element of a plate (shape {tuple(given)} for experts of shape {tuple(shape)}); {ELSEWHERE}"
                )
    latent = {
        n: s.value if s.probability is None else s.probability
        for n, s in traced.weight_sources.items()
        if s.logistic_normal is None
    }
    latent.update({n: s.value for n, s in traced.gaussians.items()})
    for name, kind, tensor in priors:
        site = f"{'Dirichlet' if kind == 'concentration' else 'Gaussian'} site {name!r}"
        for other, value in latent.items():
            if depends_on(tensor, value):
                raise ModelError(
                    f"{loop} cannot handle {site}, for its {kind} depends on the weights {other!r}; {ELSEWHERE}"
                )
        if tensor.requires_grad and not any(depends_on(tensor, p) for p in traced.unconstrained.values()):
            raise ModelError(
                f"{loop} cannot learn the {kind} of {site}: it requires a gradient, but depends on no pyro.param; "
                "make it one, or detach it"
            )
    for name, parameter in traced.unconstrained.items():
        if not any(depends_on(tensor, parameter) for _, _, tensor in priors):
            raise ModelError(
                f"{loop} found no use for pyro.param {name!r}: it is neither a block of weights nor part of a "
                f"Dirichlet's concentration or a logistic normal's loc or covariance; {ELSEWHERE}"
            )


def depends_on(result: Tensor, on: Tensor) -> bool:
    """Whether autograd's graph leads from ``on`` to ``result``."""
    if not (result.requires_grad and on.requires_grad):
        return False
    return torch.autograd.grad(result.sum(), on, retain_graph=True, allow_unused=True)[0] is not None
