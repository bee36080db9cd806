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

from .reading import ModelError, kind_of, unwrapped
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
        weights = {}
        loss = torch.zeros(())
        for name, site in model_trace.nodes.items():
            if site["type"] == "param":
                weights[id(site["value"])] = name
            if site["type"] != "sample" or poutine.util.site_is_subsample(site):
                continue
            if site["infer"].get("_deterministic", False) or site["is_observed"]:
                continue
            if name not in guide_trace or not isinstance(unwrapped(site["fn"]), dist.Dirichlet):
                kind = kind_of(unwrapped(site["fn"]))
                raise ModelError(
                    f"TraceGrammar_ELBO needs a Dirichlet prior and guide for latent site {name!r} ({kind}); "
                    "pyro.infer.Trace_ELBO can handle others"
                )
            weights[id(site["value"])] = name
            divergence = kl_divergence(guide_trace.nodes[name]["fn"], site["fn"])
            loss = loss + (divergence * site["scale"]).sum()
        for name, site in model_trace.nodes.items():
            if site["type"] == "sample" and site["is_observed"] and not poutine.util.site_is_subsample(site):
                if not site["infer"].get("_deterministic", False):
                    loss = loss - self._log_likelihood(name, site, weights)
        return loss

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
        with torch.no_grad():
            return float(self.differentiable_loss(model, guide, *args, **kwargs))

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
            msg["value"] = expected_log(function.concentration).exp()
            msg["done"] = True
