# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A model at a point: parameters and latent values have given values, and multinomials that are weights another part.

The log joint of the model, with its sentences replaced by their tangents, is climbed by gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Block, Weights
from pyrogram.random_state import random_state_kept

from .reading import computed_blocks, coordinates, log_density
from .sites import base_distribution, concentration_of, is_left_out
from .structure import ModelError, Problem
from .tangent import weighted


@dataclass(frozen=True)
class Terms:
    """What a model is at a point.

    :param log_weights: of sources that are computed.
    :param alpha: concentrations of the other sources that are latent, in the shapes of their blocks, float64.
    :param density: log density of latent values that are no sources, and of observed sites that are no sentences.
    :param log_jacobian: of the coordinates of latent values, if these are unconstrained.
    """

    log_weights: Weights
    alpha: Weights
    density: Tensor
    log_jacobian: Tensor

    def weights(self, fixed: Weights) -> Weights:
        """Weights of all sources that are not integrated out, from those that are given."""
        return {**fixed, **{name: w.exp() for name, w in self.log_weights.items()}}


Prior = Callable[[str, Tensor], Tensor]
"""Of a source and its concentrations: what multinomials that are kept in some way contribute to a log joint."""


@dataclass
class PointProblem(Problem):
    """A model whose parameters and latent values stand at a point: unconstrained, in ``traced.unconstrained``.

    :param unconstrained: whether densities of latent values are those of their unconstrained coordinates, and the
        model was read so.
    """

    unconstrained: bool = False
    _evaluated: tuple[Weights, Weights, Terms] | None = None
    _is_constant: bool = False  # whether it is the same at all points

    def evaluate(self, weights: Weights, parameters: Weights) -> Terms:
        """The model at a point, at which it is left; computed once for each, or once at all if it never changes.

        :param weights: of the sources that are not computed.
        """
        kept = self._evaluated
        if kept is None or not (self._is_constant or (_alike(kept[0], weights) and kept[1] is parameters)):
            self.traced.set_parameters(parameters)
            with torch.no_grad():
                terms = self.terms(weights)
                copies = {name: w.clone() for name, w in terms.log_weights.items()}
                kept = self._evaluated = weights, parameters, replace(terms, log_weights=copies)
        return kept[2]

    def terms(self, weights: Weights, point: Mapping[str, Tensor] | None = None) -> Terms:
        """The same, with a graph.

        :param weights: Dirichlets may be left out: no term depends on their values.
        :param point: of latent values; by default the present one.
        """
        trace, log_jacobian = self._run(weights, point)
        alpha = {}
        for name, source in self.traced.weight_sources.items():
            if source.concentration is not None:
                concentration = concentration_of(base_distribution(trace.nodes[name]["fn"]))
                alpha[name] = distinct(concentration).to("cpu", torch.float64, copy=True).expand(source.block.shape)
        log_weights: Weights = {}
        for site in self.traced.sentences:
            function = base_distribution(trace.nodes[site.name]["fn"])
            log_weights |= computed_blocks(site.name, function, self.traced)
        return Terms(log_weights, alpha, log_density(trace, self.traced), log_jacobian)

    def reference(self, loop: str) -> str:
        """Numbers that tell this model from others of the same shapes: what it computes at a point of no importance.

        :raises ModelError: if it computes something else the next time.
        """
        before = self.traced.parameter_values()
        points = {n: (torch.arange(1.0, x.numel() + 1).cos() / 2).reshape(x.shape).to(x) for n, x in before.items()}
        sources = self.traced.weight_sources
        even = {n: s.block.uniform(s.value) for n, s in sources.items() if not (s.is_computed or s.is_constant)}
        uneven = {
            n: sources[n].block.normalize(w * torch.linspace(1, 2, w.numel()).to(w).reshape(w.shape))
            for n, w in even.items()
        }
        digests = []
        try:
            for seed, weights in enumerate((even, even, uneven)):
                self._evaluated = None
                with random_state_kept(seed):
                    terms = self.evaluate(weights, points)
                tables = [*terms.log_weights.values(), *(alpha.log() for alpha in terms.alpha.values())]
                digests.append([float(terms.density), float(terms.log_jacobian), *map(_digest, tables)])
        except (ArithmeticError, AssertionError, ValueError, LinAlgError):  # this point is none of the model's
            return ""
        finally:
            self._evaluated = None
            self.traced.set_parameters(before)
        if not _same(digests[0], digests[1]):
            raise ModelError(
                f"{loop} needs a model that computes the same weights and densities from the same values, but this one "
                "draws random numbers or counts its runs; put networks with dropout into eval mode"
            )
        self._is_constant = not before and _same(digests[0], digests[2])
        if self._is_constant and digests[0][:2] == [0.0, 0.0]:  # names, shapes and priors say all
            return ""
        return " ".join(f"{x:.6g}" for x in digests[0])

    def climb(self, weights: Weights, parameters: Weights, counts: Weights, steps: int, prior: Prior) -> Weights:
        """A point of no smaller log joint, in which sentences are their tangents.

        :param counts: expected counts by source.
        :param steps: of L-BFGS.
        :param prior: see :meth:`objective`.
        """
        if not parameters:
            return parameters
        self.traced.set_parameters(parameters)
        learnt: set[str] = set()  # sources whose concentrations depend on what moves
        reached: list[Weights] = []

        def objective() -> Tensor:
            terms = self.terms(weights)
            learnt.update(name for name, alpha in terms.alpha.items() if alpha.requires_grad)
            return self.objective(terms, counts, prior, learnt)

        def value() -> Tensor:
            reached.append(self.traced.parameter_values())
            terms = self.evaluate(weights, reached[0])  # which the next E-step needs, too
            return self.objective(terms, counts, prior, learnt)

        risen = maximise(self.traced.unconstrained, objective, steps, value)
        return reached[0] if risen else parameters

    def objective(self, terms: Terms, counts: Weights, prior: Prior, learnt: Collection[str]) -> Tensor:
        """The log joint with tangents in place of sentences, up to what does not depend on the point.

        :param prior: of a source and its concentrations: what the density of its multinomials contributes.
        :param learnt: sources whose concentrations depend on the point.
        """
        priors = (prior(name, terms.alpha[name]) for name in sorted(learnt))
        joint = terms.density + terms.log_jacobian + line(terms.log_weights, counts)
        return joint + sum(priors, torch.zeros(()))

    def latents(self, weights: Weights, parameters: Weights) -> Weights:
        """The values of latent sites that are no sources, at a point, at which the model is left."""
        self.traced.set_parameters(parameters)
        with torch.no_grad():
            nodes: dict[str, Any] = dict(self._run(weights, None)[0].nodes)
        latent = [name for name, p in self.traced.hyperparameters.items() if p.is_latent]
        return {name: nodes[name]["value"].detach().clone() for name in latent}

    def fixed(self, weights: Mapping[str, Tensor]) -> Weights:
        """Of weights by source, those that have no prior and are not computed."""
        sources = self.traced.weight_sources.items()
        return {name: weights[name] for name, s in sources if s.is_param or s.is_constant}

    def _run(self, weights: Weights, point: Mapping[str, Tensor] | None) -> tuple[Any, Tensor]:
        """A trace of the model at a point, and the log Jacobian there; random numbers are left alone."""
        sources, points = self.traced.weight_sources, self.traced.hyperparameters
        left_out = {
            n: s.block.uniform(s.value) for n, s in sources.items() if s.concentration is not None and n not in weights
        }
        values = {n: sources[n].at_site(w) for n, w in {**left_out, **weights}.items() if not sources[n].is_constant}
        at = {n: p.unconstrained for n, p in points.items()} if point is None else point
        placed = PointMessenger(values, at, self.unconstrained)
        with random_state_kept(), placed:
            trace = poutine.trace(self.model).get_trace()
        return trace, placed.log_jacobian


class PointMessenger(Messenger):
    """Put sites at given values, in one run.

    :param weights: by source, as their sites have them.
    :param points: the coordinates of other latent sites.
    :param unconstrained: see :func:`coordinates`; then their Jacobian is summed up.
    """

    def __init__(self, weights: Mapping[str, Tensor], points: Mapping[str, Tensor], unconstrained: bool) -> None:
        super().__init__()
        self.weights, self.points, self.unconstrained = weights, points, unconstrained
        self.log_jacobian = torch.zeros((), dtype=torch.float64)

    def _pyro_post_param(self, msg: Any) -> None:
        if msg["name"] in self.weights:
            msg["value"] = self.weights[msg["name"]]

    def _pyro_sample(self, msg: Any) -> None:
        if msg["is_observed"] or is_left_out(msg):
            return
        if msg["name"] in self.weights:
            msg["value"], msg["done"] = self.weights[msg["name"]], True
        elif msg["name"] in self.points:
            at, transform = self.points[msg["name"]], coordinates(self.unconstrained)(msg["fn"].support)
            msg["value"], msg["done"] = transform(at), True
            if self.unconstrained:
                log_det = transform.log_abs_det_jacobian(at, msg["value"]).sum()
                self.log_jacobian = self.log_jacobian + log_det.to("cpu", torch.float64)


def line(log_weights: Weights, counts: Weights) -> Tensor:
    """Counts times log weights of sources that are computed, float64, shape ()."""
    total = torch.zeros((), dtype=torch.float64)
    for name, w in log_weights.items():
        c = counts[name]
        if c.dim() < w.dim():  # those of all sentences, which have weights of their own
            c = c / len(w)
        product = (c * w).sum()
        if math.isnan(float(product.detach())):  # an event of probability zero that is never counted, or a true NaN
            product = weighted(c, w).sum()
        total = total + product.to("cpu", torch.float64)
    return total


def log_dirichlet_density(
    block: Block, alpha: Tensor, weights: Tensor, scale: float = 1.0, unconstrained: bool = False
) -> Tensor:
    """Sum of log Dirichlet densities, each times a scale; of a weight of zero, whose exponent is zero, nothing.

    :param unconstrained: whether the density is that of logits, which have the Jacobian prod w.
    """
    exponents = scale * (alpha - 1) + unconstrained
    kernel = torch.where(exponents == 0, 0.0, exponents * safe_log(weights)).sum()
    return kernel + scale * (torch.lgamma(block.sums(alpha)).sum() - log_gamma(alpha).sum())


def _alike(one: Weights, other: Weights) -> bool:
    """Whether two mappings have the very same tensors."""
    return one.keys() == other.keys() and all(w is other[name] for name, w in one.items())


def _same(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether numbers are the same, NaN included."""
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(one, other, strict=True))


def _digest(log_weights: Tensor) -> float:
    """A number that changes with every element."""
    w = log_weights.detach().exp().flatten().double()
    return float((w * torch.arange(1.0, len(w) + 1, dtype=torch.float64, device=w.device).sin()).sum())


def distinct(x: Tensor) -> Tensor:
    """A view with one of the numbers along each axis that repeats them, of extent 1; it expands to the same tensor."""
    return x[tuple(slice(None) if step else slice(1) for step in x.stride())]


def log_gamma(alpha: Tensor) -> Tensor:
    """log Γ of each concentration, in their shape; of a number that is repeated, as in symmetric priors, once."""
    return torch.lgamma(distinct(alpha)).expand(alpha.shape)


def expected_log_dirichlet(block: Block, prior: Tensor, expected_logs: Tensor) -> Tensor:
    """E_q[log p] of a Dirichlet site, float64: from its concentrations and E_q[log w], in nats."""
    alpha = prior.expand(expected_logs.shape)
    normaliser = torch.lgamma(block.sums(alpha)).sum() - log_gamma(alpha).sum()
    return (normaliser + ((alpha - 1) * expected_logs).sum()).to("cpu", torch.float64)


def maximise(
    parameters: Mapping[str, Tensor],
    objective: Callable[[], Tensor],
    steps: int = 10,
    value: Callable[[], Tensor] | None = None,
) -> bool:
    """A few steps of L-BFGS up an objective, kept only if it rises.

    :param parameters: unconstrained leaves, changed in place.
    :param value: the objective where they have come to, without a graph, if there is a better way to it.
    :returns: whether they were kept.
    """
    leaves = list(parameters.values())
    before = [p.detach().clone() for p in leaves]
    optimiser = torch.optim.LBFGS(leaves, max_iter=steps, line_search_fn="strong_wolfe")
    losses: list[float] = []

    def clear() -> None:  # what optimiser.zero_grad does, which takes as long as some operations
        for parameter in leaves:
            parameter.grad = None

    def closure() -> Tensor:
        clear()
        loss = -objective()
        if loss.requires_grad:
            loss.backward()
        losses.append(float(loss.detach()))
        return loss

    try:
        optimiser.step(closure)
        with torch.no_grad():
            risen = -float((value or objective)()) <= losses[0]
    except (ValueError, LinAlgError):  # a covariance that is no longer positive definite, say
        if not losses:
            raise
        risen = False
    clear()
    if not risen:
        with torch.no_grad():
            for parameter, old in zip(leaves, before, strict=True):
                parameter.copy_(old)
    return risen
