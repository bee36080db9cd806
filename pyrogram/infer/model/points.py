# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Models whose weights are computed: by a network, from features, from normals that the model squashes itself.

Parameters and latent values stand at a point. Multinomials that are weights, and nothing else, are set apart: these
have closed forms. All else is moved up the log joint by its gradient, in which sentences are replaced by tangents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.infer.autoguide.initialization import InitMessenger, init_to_median
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import constraints, transform_to
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from pyrogram.charts.checks import checked_words
from pyrogram.distributions import Sentence
from pyrogram.grammar import Weights

from .priors import maximise
from .selection import Computed, Found, leaves_of, selections
from .sites import (
    MULTINOMIALS,
    base_distribution,
    block_of_param,
    concentration_of,
    constraint_of,
    distribution_name,
    is_learnt,
    is_left_out,
    leaf_of,
    random_state_kept,
)
from .sources import WeightReader, multinomial_source
from .structure import Hyperparameter, ModelError, Problem, SentenceSite, TracedModel, WeightSource
from .tangent import weighted
from .tracing import check_constraints, flat_words


@dataclass
class PointProblem(Problem):
    """A model whose parameters and latent values stand at a point: unconstrained, in ``traced.unconstrained``."""

    _evaluated: tuple[Weights, Weights, Weights, float] | None = None

    def evaluate(self, weights: Weights, parameters: Weights) -> tuple[Weights, float]:
        """Log weights of the sources that are computed, and the log density of latent values and other observed sites.

        :param weights: of the other sources.
        :param parameters: a point, at which the model is left.
        """
        kept = self._evaluated
        if kept is None or kept[0] is not weights or kept[1] is not parameters:
            self.traced.set_parameters(parameters)
            with torch.no_grad():
                trace = self._run(weights)
                found = {name: w.clone() for name, w in self._log_weights(trace).items()}
                kept = self._evaluated = weights, parameters, found, float(self._log_density(trace))
        return kept[2:]

    def reference(self, loop: str) -> str:
        """Numbers that tell this model from others of the same shapes: what it computes at a point of no importance.

        :raises ModelError: if it computes something else the next time.
        """
        before = self.traced.parameter_values()
        points = {n: (torch.arange(1.0, x.numel() + 1).cos() / 2).reshape(x.shape).to(x) for n, x in before.items()}
        sources = self.traced.weight_sources
        weights = {n: s.block.uniform(s.value) for n, s in sources.items() if not (s.is_computed or s.is_constant)}
        found = []
        try:
            for seed in (0, 1):
                with random_state_kept(seed):
                    computed, density = self.evaluate(dict(weights), points)
                found.append([density, *(_digest(w) for w in computed.values())])
        except (ValueError, LinAlgError):  # this point is none of the model's
            return ""
        finally:
            self.traced.set_parameters(before)
        if any(a != b and not (math.isnan(a) and math.isnan(b)) for a, b in zip(*found, strict=True)):
            raise ModelError(
                f"{loop} needs a model that computes the same weights and densities from the same values, but this one "
                "draws random numbers or counts its runs; put networks with dropout into eval mode"
            )
        return " ".join(f"{x:.6g}" for x in found[0])

    def climb(self, weights: Weights, parameters: Weights, counts: Weights, steps: int) -> Weights:
        """A point of no smaller log joint, in which sentences are their tangents.

        :param counts: expected counts by source.
        :param steps: of L-BFGS.
        """
        if not parameters:
            return parameters
        self.traced.set_parameters(parameters)

        def objective() -> Tensor:
            trace = self._run(weights)
            total = self._log_density(trace)
            for name, w in self._log_weights(trace).items():
                c = counts[name]
                if c.dim() < w.dim():  # those of all sentences, which have weights of their own
                    c = c / len(w)
                total = total + weighted(c, w).sum().to("cpu", torch.float64)
            return total

        maximise(self.traced.unconstrained, objective, steps)
        return self.traced.parameter_values()

    def latents(self, weights: Weights, parameters: Weights) -> Weights:
        """The values of all latent sites."""
        self.traced.set_parameters(parameters)
        with torch.no_grad():
            nodes = dict(self._run(weights).nodes)
        latent = [n for n, s in nodes.items() if s["type"] == "sample" and not s["is_observed"] and not is_left_out(s)]
        return {name: nodes[name]["value"].detach().clone() for name in latent}

    def _run(self, weights: Weights) -> Any:
        sources = self.traced.weight_sources
        given = {n: sources[n].at_site(w) for n, w in weights.items() if not sources[n].is_constant}
        with _PointMessenger(given, self.traced.hyperparameters):
            return poutine.trace(self.model).get_trace()

    def _log_weights(self, trace: Any) -> Weights:
        found = {}
        for site in self.traced.sentences:
            function = base_distribution(trace.nodes[site.name]["fn"])
            log_weights = function.log_weights
            for block in function.grammar.blocks:
                source = self.traced.weight_sources.get(f"{site.name}.{block}")
                if source is not None and source.is_computed:
                    found[source.name] = log_weights[block]
        return found

    def _log_density(self, trace: Any) -> Tensor:
        """Of all sites but sentences and weights that are sources."""
        total = torch.zeros((), dtype=torch.float64)
        for name, site in trace.nodes.items():
            if site["type"] != "sample" or is_left_out(site) or name in self.traced.weight_sources:
                continue
            if site["is_observed"] and isinstance(base_distribution(site["fn"]), Sentence):
                continue
            density = scale_and_mask(site["fn"].log_prob(site["value"]), site["scale"], site["mask"])
            total = total + density.sum().to("cpu", torch.float64)
        return total


def read_points(model: Callable[[], Any], loop: str) -> TracedModel:
    """Run the model, without disturbing the random number generator, and say what it is; see :class:`PointProblem`.

    Latent values begin near the medians of their priors.

    :raises ModelError: for a discrete latent site, a minibatch, or weights whose origin cannot be followed.
    """
    with random_state_kept(), torch.enable_grad(), _LatentMessenger(), InitMessenger(_begin):
        trace = poutine.trace(model).get_trace()
    nodes: dict[str, Any] = dict(trace.nodes)
    samples = {n: s for n, s in nodes.items() if s["type"] == "sample" and not is_left_out(s)}
    sentences = {n: s for n, s in samples.items() if s["is_observed"] and _is_sentence(s)}
    if not sentences:
        raise ModelError(f"{loop} found no observed Sentence site in the model; pass obs=words to pyro.sample")
    for name, site in samples.items():
        _check(name, site, loop)
    candidates = {source.name: (source, leaf) for source, leaf in _candidates(nodes)}
    found = selections(model)
    reached = {n: leaves_of(s["fn"].log_prob(s["value"]).sum()) for n, s in samples.items() if n not in sentences}
    _check_known(nodes, reached, loop)
    opened = _open(candidates, samples, found, reached)
    for name in opened & samples.keys():
        _check_mode(name, samples[name], loop)
    for name in opened:
        del candidates[name]
    by_value = {id(nodes[name]["value"]): source for name, (source, _) in candidates.items()}
    reader = WeightReader(by_value, lambda: found, loop, computed=True)
    sites = [_site(reader, name, site) for name, site in sentences.items()]
    for name in reader.used.keys() & samples.keys():
        reader.used[name] = replace(reader.used[name], scale=_factor(samples[name]))
    check_constraints(reader.used, {name: site for name, site in nodes.items() if is_learnt(site)}, loop)
    points = {}
    for name, site in nodes.items():
        if name in reader.used:
            continue
        if is_learnt(site):
            points[name] = Hyperparameter(site["value"], leaf_of(site["value"]), constraint_of(site))
        elif name in samples and not site["is_observed"]:
            points[name] = _point(site)
    for site in sites:
        checked_words(site.words, site.grammar.num_words)
    if not any(len(site.words) for site in sites):
        raise ValueError("the corpus has no sentences; give one at least")
    if not points and all(source.is_constant for source in reader.used.values()):
        raise ModelError(f"{loop} has nothing to learn: all weights of the model are constants")
    return TracedModel(sites, reader.used, {}, points)


def _digest(log_weights: Tensor) -> float:
    """A number that changes with every element."""
    w = log_weights.detach().exp().flatten().double()
    return float((w * torch.arange(1.0, len(w) + 1, dtype=torch.float64, device=w.device).sin()).sum())


def _begin(site: Any) -> Tensor:
    """Where a latent value begins: at the median of its prior, if it is a number; real vectors at a draw.

    Where all begin at zero, symmetry is never broken.
    """
    support = site["fn"].support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    if support.is_discrete or (support is constraints.real and base_distribution(site["fn"]).event_shape):
        drawn: Tensor = site["fn"].sample()
        return drawn
    return init_to_median(site)  # type: ignore[no-any-return]


def _is_sentence(site: Any) -> bool:
    return isinstance(base_distribution(site["fn"]), Sentence)


def _check(name: str, site: Any, loop: str) -> None:
    if any(frame.full_size not in (None, frame.size) for frame in site["cond_indep_stack"]):
        raise ModelError(
            f"{loop} needs the whole corpus, but site {name!r} is in a subsampled plate; give the plate no "
            "subsample_size, or use pyro.infer.SVI"
        )
    if _is_sentence(site) and not bool((torch.as_tensor(site["scale"]) == torch.as_tensor(site["scale"]).max()).all()):
        raise ModelError(f"{loop} needs one scale for all sentences of site {name!r}; pyro.infer.SVI takes any")
    if not site["is_observed"] and site["fn"].support.is_discrete:
        found = distribution_name(base_distribution(site["fn"]))
        raise ModelError(
            f"{loop} cannot handle the discrete latent site {name!r} ({found}); pyro.infer.SVI with TraceEnum_ELBO can"
        )


def _check_mode(name: str, site: Any, loop: str) -> None:
    """Multinomials that are updated by gradient need a density that is finite everywhere."""
    function = base_distribution(site["fn"])
    if isinstance(function, MULTINOMIALS) and _factor(site) != 0 and bool((concentration_of(function) < 1).any()):
        raise ModelError(
            f"{loop} needs concentrations of at least 1, but that of site {name!r} goes down to "
            f"{float(concentration_of(function).detach().min()):g}; use pyro.infer.SVI, or NUTS"
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
    """Sentences with the sources of their weights, those that are masked left out."""
    function = base_distribution(site["fn"])
    words = flat_words(function, site["value"])
    found = reader.site(name, function, words)
    if site["mask"] is not None:
        shape = torch.broadcast_shapes(function.batch_shape, site["value"].shape[:-1])
        inner = len(function.batch_shape) - len(site["fn"].batch_shape)  # dimensions of one event, under to_event
        outer = torch.as_tensor(site["mask"], device=words.device).expand(shape[: len(shape) - inner])
        kept = outer.reshape(*outer.shape, *(1,) * inner).expand(shape).reshape(-1)
        if not bool(kept.all()) and any(reader.used[source].per_sentence for source in found.source_of_block.values()):
            raise ModelError(
                f"{reader.loop} cannot handle the mask on site {name!r}, whose sentences have weights of their own; "
                "leave out those sentences instead"
            )
        found = replace(found, words=words[kept])
    return replace(found, scale=float(torch.as_tensor(site["scale"]).max()))


def _candidates(nodes: Mapping[str, Any]) -> list[tuple[WeightSource, Tensor]]:
    """Multinomials that may be weights, and the leaves of autograd's graph behind them."""
    found = []
    for name, site in nodes.items():
        if is_learnt(site):
            block, value = block_of_param(site), site["value"]
            if block is not None:
                found.append((WeightSource(name, block, value), leaf_of(value)))
        elif site["type"] == "sample" and not site["is_observed"] and not is_left_out(site):
            function = base_distribution(site["fn"])
            if isinstance(function, MULTINOMIALS):
                found.append((multinomial_source(name, function, site["value"]), site["value"]))
    return found


def _open(
    candidates: Mapping[str, tuple[WeightSource, Tensor]],
    samples: Mapping[str, Any],
    found: Mapping[str, Found],
    reached: Mapping[str, set[int]],
) -> set[str]:
    """Candidates that are not weights alone: other sites depend on them, or weights that are computed."""
    blocks = [block for by_block in found.values() for block in by_block.values()]
    selected = {name for block in blocks if not isinstance(block, Computed) for name in block.sources}
    result = {name for block in blocks if isinstance(block, Computed) for name in block.sources}
    result |= candidates.keys() - selected
    for name, leaves in reached.items():
        result |= {other for other, (_, leaf) in candidates.items() if other != name and id(leaf) in leaves}
        if math.isnan(_factor(samples[name])):
            result.add(name)
    size = -1
    while len(result) > size:  # a block that is made of such a one is computed, too
        size = len(result)
        for block in blocks:
            if not isinstance(block, Computed) and not candidates.keys() - result >= set(block.sources):
                result |= set(block.sources)
    return result & candidates.keys()


def _point(site: Any) -> Hyperparameter:
    """Where a latent value begins."""
    support = site["fn"].support
    leaf = transform_to(support).inv(site["value"]).detach().clone().requires_grad_()
    return Hyperparameter(site["value"].detach(), leaf, support)


class _LatentMessenger(Messenger):
    """Make latent values leaves of autograd's graph, and a parameter that is asked for twice the same tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.parameters: dict[str, Tensor] = {}

    def _pyro_post_param(self, msg: Any) -> None:
        msg["value"] = self.parameters.setdefault(msg["name"], msg["value"])

    def _pyro_post_sample(self, msg: Any) -> None:
        if not msg["is_observed"] and not is_left_out(msg) and msg["value"].is_floating_point():
            msg["value"] = msg["value"].detach().requires_grad_()


class _PointMessenger(Messenger):
    """Put sites at given values.

    :param weights: by source.
    :param points: of other latent sites, in unconstrained coordinates; and parameters, which stay as they are.
    """

    def __init__(self, weights: Mapping[str, Tensor], points: Mapping[str, Hyperparameter]) -> None:
        super().__init__()
        self.weights, self.points = weights, points

    def _pyro_post_param(self, msg: Any) -> None:
        if msg["name"] in self.weights:
            msg["value"] = self.weights[msg["name"]]

    def _pyro_sample(self, msg: Any) -> None:
        if msg["is_observed"] or is_left_out(msg):
            return
        if msg["name"] in self.weights:
            msg["value"], msg["done"] = self.weights[msg["name"]], True
        elif msg["name"] in self.points:
            point = self.points[msg["name"]]
            msg["value"], msg["done"] = transform_to(msg["fn"].support)(point.unconstrained), True
