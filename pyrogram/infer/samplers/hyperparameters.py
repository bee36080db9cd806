# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Latent sites that Dirichlets' concentrations depend on, sampled given the derivations.

Their density given the derivations is that of the model, with the weights integrated out: p(h) times the collapsed
joint P(x, t | α(h)) of Eq. 4. It is taken in unconstrained coordinates, where slice sampling or NUTS moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyro.poutine as poutine
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import biject_to

from pyrogram.distributions import Sentence
from pyrogram.grammar import Weights
from pyrogram.infer.model.collapsed import log_dirichlet_multinomial
from pyrogram.infer.model.indicators import indicators, of_component
from pyrogram.infer.model.priors import evaluate_priors
from pyrogram.infer.model.selection import selections
from pyrogram.infer.model.sites import MULTINOMIALS, base_distribution, distribution_name, is_left_out
from pyrogram.infer.model.sources import selected
from pyrogram.infer.model.structure import ModelError, TracedModel
from pyrogram.infer.model.tracing import depends_on

Model = Callable[..., Any]


class HyperparameterPrior:
    """The latent sites of a model that are no block's weights, in unconstrained coordinates.

    :param model: the model.
    :param loop: name of the loop, for messages.
    :raises ModelError: if such a site is discrete, or in a scaled plate.
    """

    def __init__(self, model: Model, loop: str, args: Any, kwargs: Any) -> None:
        self.model, self.loop = model, loop
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            trace = poutine.trace(model).get_trace(*args, **kwargs)
        nodes: dict[str, Any] = dict(trace.nodes)
        choices = indicators(nodes)
        weights = _sites_of_weights(nodes, partial(model, *args, **kwargs), choices, loop) | choices.keys()
        self.start = {
            name: self._start(name, site)
            for name, site in nodes.items()
            if name not in weights and _is_hyperparameter(site)
        }
        if self.start:
            self._check_observed(nodes)

    def _start(self, name: str, site: dict[str, Any]) -> Tensor:
        support = site["fn"].support
        if support.is_discrete:
            found = distribution_name(base_distribution(site["fn"]))
            raise ModelError(
                f"{self.loop} cannot handle the discrete latent site {name!r} ({found}); "
                "make it observed, or sum it out"
            )
        scale = torch.as_tensor(site["scale"])
        if bool((scale != 1).any()) or site["mask"] is not None:
            raise ModelError(f"{self.loop} cannot handle latent site {name!r} in a subsampled plate, scaled or masked")
        like = biject_to(support).inv(site["value"].detach())
        return torch.zeros_like(like, dtype=torch.float64)

    def _check_observed(self, nodes: Mapping[str, Any]) -> None:
        """Refuse observed weights, from which hyperparameters could be learnt."""
        for name, site in nodes.items():
            function = base_distribution(site["fn"]) if site["type"] == "sample" and site["is_observed"] else None
            if isinstance(function, MULTINOMIALS):
                raise ModelError(
                    f"{self.loop} cannot use observed site {name!r} ({distribution_name(function)}) beside "
                    f"{sorted(self.start)}, on which it may depend; pyro.infer.SVI with a guide, or NUTS, can"
                )

    def at(self, point: Mapping[str, Tensor]) -> Model:
        """The model with these sites at a point, and hidden."""
        return partial(_run_given, self.model, point)

    def values(self, point: Mapping[str, Tensor], model: Callable[[], Any], traced: TracedModel) -> Weights:
        """The sites' own values, in the model's dtype."""
        given = HyperparameterMessenger(point)
        with torch.no_grad(), given:
            evaluate_priors(model, traced)
        return given.values

    def density(
        self, point: Mapping[str, Tensor], model: Callable[[], Any], traced: TracedModel, counts: Weights
    ) -> tuple[Tensor, Tensor, Weights]:
        """log p(h) P(x, t | α(h)), without and with the Jacobian of the unconstrained coordinates; and α by source."""
        given = HyperparameterMessenger(point)
        with given:
            priors = evaluate_priors(model, traced)
        alpha: Weights = {}
        log_joint = given.log_prior
        for name, source in traced.weight_sources.items():
            if source.concentration is not None:
                found = priors[name]
                assert isinstance(found, Tensor)
                alpha[name] = found.to("cpu", torch.float64).expand(source.block.shape)
                log_joint = log_joint + log_dirichlet_multinomial(source.block, counts[name].cpu(), alpha[name])
        return log_joint, log_joint + given.log_jacobian, alpha

    def check(self, model: Callable[[], Any], traced: TracedModel) -> None:
        """Refuse sites that no concentration depends on, directly or through others."""
        leaves = {name: u.clone().requires_grad_() for name, u in self.start.items()}
        given = HyperparameterMessenger(leaves)
        with given:
            priors = evaluate_priors(model, traced)
        useful = [p for p in priors.values() if isinstance(p, Tensor)]
        for name, leaf in leaves.items():
            others = [lp for other, lp in given.terms.items() if other != name]
            if not any(depends_on(t, leaf) for t in [*useful, *others]):
                raise ModelError(
                    f"{self.loop} found no use for latent site {name!r}: no Dirichlet's concentration depends on it; "
                    "pyro.infer.SVI with a guide, or NUTS, can"
                )


class HyperparameterMessenger(Messenger):
    """Put hyperparameters at a point, given in unconstrained coordinates, and sum their log prior."""

    def __init__(self, point: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.point, self.values = point, Weights()
        self.terms: dict[str, Tensor] = {}
        self.log_jacobian = torch.zeros((), dtype=torch.float64)

    @property
    def log_prior(self) -> Tensor:
        return sum(self.terms.values(), torch.zeros((), dtype=torch.float64))

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] not in self.point:
            return
        unconstrained = self.point[msg["name"]]
        transform = biject_to(msg["fn"].support)
        value = transform(unconstrained)
        # At a fixed point a loop reads the model, and nothing may look as if it could be learnt.
        self.terms[msg["name"]] = msg["fn"].log_prob(value).sum().to("cpu", torch.float64)
        jacobian = transform.log_abs_det_jacobian(unconstrained, value).sum()
        self.log_jacobian = self.log_jacobian + jacobian.to("cpu", torch.float64)
        self.values[msg["name"]] = value
        msg["value"], msg["done"] = value, True


def _run_given(model: Model, point: Mapping[str, Tensor], *args: Any, **kwargs: Any) -> Any:
    with poutine.block(hide=list(point)), HyperparameterMessenger(point):
        return model(*args, **kwargs)


def _sites_of_weights(
    nodes: Mapping[str, Any], model: Callable[[], Any], choices: Mapping[str, int], loop: str
) -> set[str]:
    """The sites that weights of sentences, and shares of components, are or are selected from."""
    by_value = {id(site["value"]): name for name, site in nodes.items() if site["type"] in ("sample", "param")}
    found: set[str] = set()
    for site in nodes.values():
        function = base_distribution(site["fn"]) if site["type"] == "sample" else None
        if not isinstance(function, Sentence):
            continue
        names = [by_value.get(id(w)) for w in (function.weights or {}).values()]
        if None not in names and names:
            found |= {name for name in names if name is not None}
            continue
        parts = [(of_component(model, name, k), name) for name, size in choices.items() for k in range(size)]
        every = [selections(*part) for part in parts or [(model, "")]]
        chosen = [selected(own, name, block, loop) for each in every for name, own in each.items() for block in own]
        return {name for selection in chosen for name in selection.sources}
    return found


def _is_hyperparameter(site: Any) -> bool:
    if site["type"] != "sample" or site["is_observed"] or is_left_out(site):
        return False
    return not {"logistic_normal", "gaussian"} & set(site["infer"])
