# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The exact mean-field evidence lower bound for SVI, derivations and weights both in q."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer import ELBO
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram.distributions import Gaussian, LogisticNormalWeights, Sentence
from pyrogram.distributions.packed_dirichlet import DIRICHLETS, block_of, expected_log
from pyrogram.distributions.sentence import safe_log
from pyrogram.infer.model.sites import base_distribution, depends_on, distribution_name
from pyrogram.infer.model.structure import ModelError


class TraceGrammar_ELBO(ELBO):
    """The bound that :class:`VariationalEM` climbs, for ``pyro.infer.SVI``: no samples, no variance.

    For a guide of independent Dirichlets and normals and a q(derivations) that is free,

        bound = sum over sentences of log Z(w)  -  sum over latent sites of KL(guide || prior),

    where w is exp E_q[log w] for Dirichlet weights, and for logistic normals the weighted grammar exp ψ̃ of Cohen,
    Gimpel and Smith (2008, appendix A): the bound on E_q[log softmax η] with ζ at its optimum.

    ``pyro.infer.Trace_ELBO`` sums the derivations out under every *sample* of the weights instead: its bound is
    higher, and noisy. The model's observed sites must be sentences whose weights are Dirichlet sites, logistic normals
    or parameters, unchanged, for the bound holds only where log p is linear in log w; minibatches are unbiased.

    Its arguments are those of ``pyro.infer.ELBO``.

    :raises ModelError: by name, for any other site.
    """

    def _get_trace(self, model: Any, guide: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Traces in which every Dirichlet site and every normal expert has its mean."""
        with _ExpectedLogWeights():
            guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        model_trace = poutine.trace(poutine.replay(model, guide_trace)).get_trace(*args, **kwargs)
        return model_trace, guide_trace

    def differentiable_loss(
        self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Tensor:
        """Minus the bound, in nats."""
        model_trace, guide_trace = self._get_trace(model, guide, args, kwargs)
        weights: dict[int, Callable[[], Tensor]] = {}  # id of weights -> log weights
        latent: list[str] = []
        loss = torch.zeros(())
        for name, site in model_trace.nodes.items():
            if site["type"] == "param":
                weights[id(site["value"])] = partial(safe_log, site["value"])
            if site["type"] != "sample" or poutine.util.site_is_subsample(site):
                continue
            if "logistic_normal" in site["infer"]:
                weights[id(site["value"])] = partial(
                    _expected_log_softmax, site["infer"]["logistic_normal"], guide_trace
                )
            if site["infer"].get("_deterministic", False) or site["is_observed"]:
                continue
            latent.append(name)
            weights[id(site["value"])] = partial(_expected_log_dirichlet, name, guide_trace)
            loss = loss + (self._kl(name, site, guide_trace) * site["scale"]).sum()
        self._check_mean_field(latent, model_trace, guide_trace)
        for name, site in model_trace.nodes.items():
            if site["type"] == "sample" and site["is_observed"] and not poutine.util.site_is_subsample(site):
                if not site["infer"].get("_deterministic", False):
                    loss = loss - self._log_likelihood(name, site, weights)
        return loss

    def _kl(self, name: str, site: dict[str, Any], guide_trace: Any) -> Tensor:
        """KL(guide || prior) of one latent site."""
        functions = [site["fn"], guide_trace.nodes[name]["fn"]] if name in guide_trace else [site["fn"]]
        kinds = [distribution_name(base_distribution(function)) for function in functions]
        if site["mask"] is not None:
            raise ModelError(f"TraceGrammar_ELBO cannot handle the mask on latent site {name!r}")
        if all(isinstance(base_distribution(f), DIRICHLETS) for f in functions) and len(set(kinds)) == 1 < len(kinds):
            return kl_divergence(functions[1], functions[0])
        if "gaussian" in site["infer"] and kinds[1:] == ["Normal"]:
            q = base_distribution(functions[1])
            return gaussian_kl(q.loc, q.variance, site["infer"]["gaussian"], site["fn"].event_dim)
        raise ModelError(
            f"TraceGrammar_ELBO needs a Dirichlet prior and guide, or a logistic normal's Gaussian and a guide of "
            f"independent normals, for latent site {name!r}, not "
            f"{' and '.join(kinds) if len(kinds) == 2 else kinds[0] + ' without a guide'}; "
            "pyro.infer.Trace_ELBO can handle others"
        )

    def _check_mean_field(self, latent: list[str], model_trace: Any, guide_trace: Any) -> None:
        """The expectation of a divergence is not the divergence at the expectation, so there must be nothing to expect.

        Guide sites that the model lacks (auxiliary ones) would be left out of the bound.
        """
        for name, site in guide_trace.nodes.items():
            if site["type"] == "sample" and not site["is_observed"] and name not in model_trace:
                raise ModelError(f"TraceGrammar_ELBO found no site {name!r} in the model, but in the guide")
        for name in latent:
            for trace in (model_trace, guide_trace):
                for kind, tensor in _parameters(trace.nodes[name]):
                    for other in latent:
                        if depends_on(tensor, trace.nodes[other]["value"]):
                            raise ModelError(
                                f"TraceGrammar_ELBO needs independent weights, but the {kind} of site {name!r} depends "
                                f"on {other!r}; pyro.infer.Trace_ELBO can handle it"
                            )

    def _log_likelihood(self, name: str, site: dict[str, Any], weights: dict[int, Callable[[], Tensor]]) -> Tensor:
        function = site["fn"]
        if not isinstance(function, Sentence) or function.weights is None or site["mask"] is not None:
            raise ModelError(f"TraceGrammar_ELBO can observe only unmasked Sentence sites with weights=, not {name!r}")
        for block, tensor in function.weights.items():
            if id(tensor) not in weights:
                raise ModelError(
                    f"TraceGrammar_ELBO needs block {block!r} of site {name!r} to be the value of a Dirichlet site, of "
                    "a logistic_normal or of a pyro.param, unchanged; pyro.infer.Trace_ELBO can handle others"
                )
        log_weights = {block: weights[id(tensor)]() for block, tensor in function.weights.items()}
        function._validate_sample(site["value"])
        expected = Sentence(function.grammar, log_weights=log_weights, known=function.known, validate_args=False)
        weighted: Tensor = expected.log_prob(site["value"]).expand(function.batch_shape) * site["scale"]
        return weighted.sum()

    def loss(self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
        """Minus the bound, as a number."""
        with torch.enable_grad():  # for what depends on what is read off autograd's graph
            return float(self.differentiable_loss(model, guide, *args, **kwargs).detach())

    def loss_and_grads(self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
        """Minus the bound; its gradient goes to the parameters."""
        loss = self.differentiable_loss(model, guide, *args, **kwargs)
        if loss.requires_grad:
            loss.backward()
        return float(loss.detach())


def gaussian_kl(mean: Tensor, variance: Tensor, prior: Gaussian, event_dim: int) -> Tensor:
    """KL(N(mean, diag variance) || prior) in nats, summed over the last ``event_dim`` dimensions."""
    d = mean - prior.loc
    if prior.covariance is None:
        assert prior.variance is not None
        terms = prior.variance.log() + (d**2 + variance) / prior.variance - variance.log() - 1
        return 0.5 * terms.flatten(terms.dim() - event_dim).sum(-1)
    cholesky = torch.linalg.cholesky(prior.covariance)
    log_det = 2 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    precision = torch.cholesky_inverse(cholesky)
    quadratic = (d * (precision @ d[..., None])[..., 0]).sum(-1)
    rest = (precision.diagonal(dim1=-2, dim2=-1) * variance - variance.log() - 1).sum(-1)
    terms = log_det + quadratic + rest
    divergence: Tensor = 0.5 * (terms if event_dim == 1 else terms.flatten(terms.dim() - event_dim + 1).sum(-1))
    return divergence


def _expected_log_dirichlet(name: str, guide_trace: Any) -> Tensor:
    """E_q[log w] of the weights of a Dirichlet site."""
    q = base_distribution(guide_trace.nodes[name]["fn"])
    return expected_log(block_of(q), q.concentration)


def _expected_log_softmax(logistic_normal: LogisticNormalWeights, guide_trace: Any) -> Tensor:
    """ψ̃ = u - log sum exp(u + w / 2), u and w the mixed means and variances (2009, Eq. 5 to 7)."""
    q = {family: base_distribution(guide_trace.nodes[site]["fn"]) for family, site in logistic_normal.sites.items()}
    u = logistic_normal.structure.average(logistic_normal.block, {family: normal.loc for family, normal in q.items()})
    w = logistic_normal.structure.average(
        logistic_normal.block, {family: normal.variance for family, normal in q.items()}, variances=True
    )
    block = logistic_normal.structure.blocks[logistic_normal.block]
    return u - block.broadcast(block.logsumexp(u + w / 2))


def _parameters(site: dict[str, Any]) -> list[tuple[str, Tensor]]:
    """What a latent site's distribution is made of."""
    gaussian = site["infer"].get("gaussian")
    function = base_distribution(site["fn"]) if gaussian is None else gaussian
    kinds = ("concentration", "loc", "scale", "covariance", "variance")
    pairs = [(kind, function.__dict__.get(kind)) for kind in kinds]
    return [(kind, tensor) for kind, tensor in pairs if isinstance(tensor, Tensor)]


class _ExpectedLogWeights(Messenger):
    """Give every Dirichlet site and every normal of a guide its mean instead of a draw."""

    def _pyro_sample(self, msg: Any) -> None:
        function = base_distribution(msg["fn"])
        if msg["is_observed"]:
            return
        if isinstance(function, DIRICHLETS):
            value = function.concentration / block_of(function).totals(function.concentration)
        elif isinstance(function, dist.Normal):
            value = function.loc.expand(msg["fn"].batch_shape + msg["fn"].event_shape)
        else:
            return
        msg["value"] = value.clone() if value.requires_grad else value.detach().requires_grad_()
        msg["done"] = True
