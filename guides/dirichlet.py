# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mean-field Dirichlets."""

from collections.abc import Callable, Mapping
from typing import Any

import pyro.distributions as dist
import torch
from pyro.infer.autoguide.effect import AutoMessenger
from pyro.infer.autoguide.utils import deep_setattr
from pyro.nn.module import PyroParam
from torch import Tensor
from torch.distributions import constraints

from pyrogram.distributions.packed_dirichlet import DIRICHLETS, PackedDirichlet
from pyrogram.infer.model.sites import base_distribution, distribution_name


class MeanFieldDirichlet(AutoMessenger):  # type: ignore[metaclass]
    """An independent Dirichlet for every Dirichlet site of a model: the family of variational Bayes for grammars.

    For ``pyro.infer.SVI``, with ``Trace_ELBO``, ``TraceMeanField_ELBO`` or, without sampling noise,
    :class:`pyrogram.infer.TraceGrammar_ELBO`. Concentrations are parameters ``concentrations.<site>``.

    :param model: a Pyro model.
    :param initial_counts: by site, what to add to the prior's concentration at the start, for example expected counts;
        one for every event by default.
    """

    def __init__(self, model: Callable[..., Any], *, initial_counts: Mapping[str, Tensor] | None = None):
        self.initial_counts = dict(initial_counts or {})
        super().__init__(model)

    def get_posterior(self, name: str, prior: Any) -> Any:
        """The site's Dirichlet; its parameter is made at the first call."""
        base = base_distribution(prior)
        if not isinstance(base, DIRICHLETS):
            raise NotImplementedError(
                f"MeanFieldDirichlet has no family for latent site {name!r} ({distribution_name(base)}); "
                "subclass it and override get_posterior"
            )
        try:
            concentration = _attribute(self, name)
        except AttributeError:
            start = base.concentration.detach() + self.initial_counts.get(name, torch.ones(()))
            start = self._adjust_plates(start, prior.event_dim)
            parameter = PyroParam(start.clone(), constraints.positive, event_dim=prior.event_dim)
            deep_setattr(self, f"concentrations.{name}", parameter)
            concentration = _attribute(self, name)
        if isinstance(base, PackedDirichlet):
            return PackedDirichlet(concentration, base.sizes)
        return dist.Dirichlet(concentration).to_event(prior.event_dim - 1)


def _attribute(guide: MeanFieldDirichlet, name: str) -> Tensor:
    value: Any = guide.concentrations
    for part in name.split("."):
        value = getattr(value, part)
    assert isinstance(value, Tensor)
    return value
