# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Learning what priors depend on, by raising the bound with q held fixed: the M-step of variational EM.

A mean or a covariance that *is* a ``pyro.param`` has a closed form (Cohen, Gimpel and Smith 2008, appendix A). For
all else (concentrations, low-rank covariances, whatever code computes from ``pyro.param`` sites) there is L-BFGS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.distributions import transform_to

from pyrogram.distributions.gaussian import Gaussian
from pyrogram.infer.model.points import expected_log_dirichlet, maximise
from pyrogram.infer.model.sites import depends_on
from pyrogram.infer.model.structure import Hyperparameter, TracedModel

from .posterior import Moments
from .priors import Priors, evaluate_priors, map_gaussian, present_priors

_LEAST_VARIANCE = 1e-8


@dataclass
class MStepPlan:
    """Which parameter is learnt how; ``means`` and ``covariances`` map a parameter to its Gaussian sites."""

    means: dict[str, list[str]] = field(default_factory=dict)
    covariances: dict[str, list[str]] = field(default_factory=dict)
    numerical: list[str] = field(default_factory=list)


def plan_m_step(traced: TracedModel) -> MStepPlan:
    """Sort the parameters; those of ``means`` and ``covariances`` have a closed form."""
    plan = MStepPlan()
    for name, parameter in traced.hyperparameters.items():
        users = [(s, k, t) for s, k, t in traced.prior_tensors() if depends_on(t, parameter.unconstrained)]
        same = all(t is parameter.value for _, _, t in users)
        sites = [s for s, _, _ in users]
        kinds = {k for _, k, _ in users}
        if same and kinds == {"loc"} and _mean_is_optimum(traced, sites):
            plan.means[name] = sites
        elif same and kinds and kinds <= {"variance", "covariance"} and _covariances_are_own(traced, sites):
            plan.covariances[name] = sites
        else:
            plan.numerical.append(name)
    return plan


def _covariance_of(gaussian: Gaussian) -> Tensor:
    tensor = gaussian.variance if gaussian.covariance is None else gaussian.covariance
    assert tensor is not None
    return tensor


def _mean_is_optimum(traced: TracedModel, sites: list[str]) -> bool:
    """Whether the mean over groups is the optimum: no broadcasting, and one covariance for all sites that share it."""
    gaussians = [traced.gaussians[s] for s in sites]
    full = all(g.loc.shape == _family_shape(traced, s) for g, s in zip(gaussians, sites, strict=True))
    return full and all(_covariance_of(g) is _covariance_of(gaussians[0]) for g in gaussians)


def _covariances_are_own(traced: TracedModel, sites: list[str]) -> bool:
    """Whether every expert has a covariance of its own."""
    for s in sites:
        gaussian, shape = traced.gaussians[s], _family_shape(traced, s)
        if _covariance_of(gaussian).shape != (shape if gaussian.covariance is None else shape + shape[-1:]):
            return False
    return True


def _family_shape(traced: TracedModel, site: str) -> torch.Size:
    for source in traced.weight_sources.values():
        for family, name in source.logistic_normal.sites.items() if source.logistic_normal is not None else ():
            if name == site:
                assert source.logistic_normal is not None
                return torch.Size(source.logistic_normal.structure.experts[family].shape)
    raise KeyError(site)


def current_priors(model: Callable[[], Any], traced: TracedModel, plan: MStepPlan) -> Priors:
    """The priors at the parameters' present values, without a graph.

    The model need not be run where every parameter *is* a mean or a covariance: checking the latter is slow.
    """
    if plan.numerical:
        return present_priors(model, traced)
    values = {
        id(p.value): transform_to(p.constraint)(p.unconstrained.detach().clone())
        for p in traced.hyperparameters.values()
    }

    def present(tensor: Tensor) -> Tensor:
        value: Tensor = values.get(id(tensor), tensor)
        return value.detach()

    return {n: present(p) if isinstance(p, Tensor) else map_gaussian(p, present) for n, p in traced.priors().items()}


def learn_priors(
    model: Callable[[], Any],
    traced: TracedModel,
    plan: MStepPlan,
    old: Priors,
    expected_logs: Mapping[str, Tensor],
    moments: Mapping[str, Moments],
) -> None:
    """Raise E_q[log prior] in the parameters, in place.

    :param old: the priors that ``moments`` are about.
    :param expected_logs: E_q[log w] by Dirichlet site.
    :param moments: by Gaussian site.
    """
    for name, sites in plan.means.items():
        pooled = _pooled([moments[s] for s in sites])
        present = pooled.count[..., None] > 0
        shift = torch.where(present, pooled.first / pooled.count.clamp_min(1)[..., None], 0.0)
        parameter = traced.hyperparameters[name]
        write(parameter, _loc(old, sites[0]).detach().to("cpu", torch.float64) + shift)
    if plan.numerical:
        rest = {name: traced.hyperparameters[name].unconstrained for name in plan.numerical}
        maximise(rest, lambda: _expected_log_prior(traced, evaluate_priors(model, traced), old, expected_logs, moments))
    if plan.covariances:
        new = current_priors(model, traced, plan)
        for name, sites in plan.covariances.items():
            centred = [Moments(m.count, m.first, m.about(_shift(new, old, s))) for s in sites for m in [moments[s]]]
            pooled = _pooled(centred)
            write(traced.hyperparameters[name], _new_covariance(pooled, traced.hyperparameters[name].value))


def _new_covariance(moments: Moments, before: Tensor) -> Tensor:
    """Mean second moments; positive definite; as before where an expert never occurs."""
    second, diagonal = moments.second, moments.second.dim() == moments.first.dim()
    count = moments.count.reshape(*moments.count.shape, *([1] * (second.dim() - moments.count.dim())))
    covariance = torch.where(count > 0, second / count.clamp_min(1), before.detach().to("cpu", torch.float64))
    if diagonal:
        return covariance.clamp_min(_LEAST_VARIANCE)
    singular: Tensor = torch.linalg.cholesky_ex(covariance).info > 0
    ridge: Tensor = (singular * _LEAST_VARIANCE)[..., None, None] * torch.eye(
        covariance.shape[-1], dtype=covariance.dtype
    )
    return covariance + ridge


def _expected_log_prior(
    traced: TracedModel,
    new: Priors,
    old: Priors,
    expected_logs: Mapping[str, Tensor],
    moments: Mapping[str, Moments],
) -> Tensor:
    """E_q[log prior] up to what does not depend on the parameters."""
    total = torch.zeros((), dtype=torch.float64)
    for name, prior in new.items():
        if isinstance(prior, Gaussian):
            total = total + _gaussian_term(prior, _shift(new, old, name), moments[name])
        else:
            total = total + expected_log_dirichlet(traced.weight_sources[name].block, prior, expected_logs[name])
    return total


def _gaussian_term(gaussian: Gaussian, shift: Tensor, moments: Moments) -> Tensor:
    second = moments.about(shift)
    covariance = _covariance_of(gaussian).to("cpu", torch.float64)
    if gaussian.covariance is None:
        covariance = covariance.expand(second.shape)
        return -0.5 * (moments.count[..., None] * covariance.log() + second / covariance).sum()
    cholesky = torch.linalg.cholesky(covariance)
    log_det = 2 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    trace = torch.cholesky_solve(second, cholesky.expand(second.shape)).diagonal(dim1=-2, dim2=-1).sum(-1)
    total: Tensor = -0.5 * (moments.count * log_det + trace).sum()
    return total


def _loc(priors: Priors, site: str) -> Tensor:
    prior = priors[site]
    assert isinstance(prior, Gaussian)
    return prior.loc


def _shift(new: Priors, old: Priors, site: str) -> Tensor:
    return _loc(new, site).to("cpu", torch.float64) - _loc(old, site).detach().to("cpu", torch.float64)


def _pooled(moments: list[Moments]) -> Moments:
    total = moments[0]
    for m in moments[1:]:
        total = total + m
    return total


def write(parameter: Hyperparameter, value: Tensor) -> None:
    """Set a parameter to a value that its constraint allows, through the unconstrained leaf behind it."""
    with torch.no_grad():
        leaf = parameter.unconstrained
        leaf.copy_(transform_to(parameter.constraint).inv(value.to(leaf.device, leaf.dtype)))
