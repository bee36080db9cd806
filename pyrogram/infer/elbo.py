# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The exact mean-field evidence lower bound for SVI, derivations and Dirichlet weights both in q."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer import ELBO
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram.distributions import Sentence

from .reading import ModelError, depends, kind_of, unwrapped
from .variational import expected_log


class TraceGrammar_ELBO(ELBO):
    """The bound that :class:`VariationalEM` climbs, for ``pyro.infer.SVI``: no samples, no variance.

    For a guide of independent Dirichlets and a q(derivations) that is free,

        bound = sum over sentences of log Z(exp E_q[log w])  -  sum over Dirichlet sites of KL(guide || prior).

    ``pyro.infer.Trace_ELBO`` sums the derivations out under every *sample* of the weights instead: its bound is
    higher, and noisy. The model's observed sites must be sentences whose weights are the Dirichlet sites (or
    parameters), unchanged, for the bound holds only where log p is linear in log w; minibatches are unbiased.

    :raises ModelError: by name, for any other site.
    """

    def _get_trace(self, model: Any, guide: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Traces in which every weight is exp E_q[log w]."""
        with _ExpectedLogWeights():
            guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        model_trace = poutine.trace(poutine.replay(model, guide_trace)).get_trace(*args, **kwargs)
        return model_trace, guide_trace

    def differentiable_loss(
        self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Tensor:
        """Minus the bound, in nats."""
        model_trace, guide_trace = self._get_trace(model, guide, args, kwargs)
        weights: dict[int, str] = {}
        latent: list[str] = []
        loss = torch.zeros(())
        for name, site in model_trace.nodes.items():
            if site["type"] == "param":
                weights[id(site["value"])] = name
            if site["type"] != "sample" or poutine.util.site_is_subsample(site):
                continue
            if site["infer"].get("_deterministic", False) or site["is_observed"]:
                continue
            latent.append(name)
            weights[id(site["value"])] = name
            loss = loss + (self._divergence(name, site, guide_trace) * site["scale"]).sum()
        self._check_mean_field(latent, model_trace, guide_trace)
        for name, site in model_trace.nodes.items():
            if site["type"] == "sample" and site["is_observed"] and not poutine.util.site_is_subsample(site):
                if not site["infer"].get("_deterministic", False):
                    loss = loss - self._log_likelihood(name, site, weights)
        return loss

    def _divergence(self, name: str, site: dict[str, Any], guide_trace: Any) -> Tensor:
        """KL(guide || prior) of one latent site."""
        functions = [site["fn"], guide_trace.nodes[name]["fn"]] if name in guide_trace else [site["fn"]]
        kinds = [kind_of(unwrapped(function)) for function in functions]
        if kinds != ["Dirichlet", "Dirichlet"]:
            raise ModelError(
                f"TraceGrammar_ELBO needs a Dirichlet prior and guide for latent site {name!r}, not "
                f"{' and '.join(kinds) if len(kinds) == 2 else kinds[0] + ' without a guide'}; "
                "pyro.infer.Trace_ELBO can handle others"
            )
        if site["mask"] is not None:
            raise ModelError(f"TraceGrammar_ELBO cannot handle the mask on latent site {name!r}")
        return kl_divergence(functions[1], functions[0])

    def _check_mean_field(self, latent: list[str], model_trace: Any, guide_trace: Any) -> None:
        """The expectation of a divergence is not the divergence at the expectation, so there must be nothing to expect.

        Guide sites that the model lacks (auxiliary ones) would be left out of the bound.
        """
        for name, site in guide_trace.nodes.items():
            if site["type"] == "sample" and not site["is_observed"] and name not in model_trace:
                raise ModelError(f"TraceGrammar_ELBO found no site {name!r} in the model, but in the guide")
        for name in latent:
            for trace in (model_trace, guide_trace):
                concentration = unwrapped(trace.nodes[name]["fn"]).concentration
                for other in latent:
                    if depends(concentration, trace.nodes[other]["value"]):
                        raise ModelError(
                            f"TraceGrammar_ELBO needs independent weights, but the concentration of Dirichlet site "
                            f"{name!r} depends on {other!r}; pyro.infer.Trace_ELBO can handle it"
                        )

    def _log_likelihood(self, name: str, site: dict[str, Any], weights: dict[int, str]) -> Tensor:
        function = site["fn"]
        if not isinstance(function, Sentence) or function.weights is None or site["mask"] is not None:
            raise ModelError(f"TraceGrammar_ELBO can observe only unmasked Sentence sites with weights=, not {name!r}")
        for block, tensor in function.weights.items():
            if id(tensor) not in weights:
                raise ModelError(
                    f"TraceGrammar_ELBO needs block {block!r} of site {name!r} to be the value of a Dirichlet site or "
                    "of a pyro.param, unchanged; pyro.infer.Trace_ELBO can handle others"
                )
        weighted: Tensor = function.log_prob(site["value"]) * site["scale"]
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


class _ExpectedLogWeights(Messenger):
    """Give every Dirichlet site of a guide the value exp E[log w] instead of a draw."""

    def _pyro_sample(self, msg: Any) -> None:
        function = unwrapped(msg["fn"])
        if not msg["is_observed"] and isinstance(function, dist.Dirichlet):
            value = expected_log(function.concentration).exp()
            msg["value"] = value if value.requires_grad else value.detach().requires_grad_()
            msg["done"] = True
