# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mean-field Gaussians."""

from operator import attrgetter
from typing import Any

import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer.autoguide.utils import deep_setattr
from pyro.nn.module import PyroParam
from torch import Tensor
from torch.distributions import constraints

from pyrogram.distributions.packed_dirichlet import DIRICHLETS
from pyrogram.infer.model.sites import base_distribution, distribution_name

from .dirichlet import MeanFieldDirichlet


class MeanFieldGaussian(MeanFieldDirichlet):
    """An independent Normal for each coordinate of every Gaussian site: the family of Cohen, Gimpel and Smith (2008).

    For ``pyro.infer.SVI``. Parameters are ``locs.<site>`` and ``scales.<site>`` (standard deviations); they start at
    the prior's mean and at what is best for a coordinate that no data touches, variance 1 / (inverse covariance)_ii.
    Sites inside a plate have a row of parameters for each of its elements, also if the plate is subsampled; then the
    rows of the minibatch are used. Dirichlet sites have Dirichlets, as in :class:`.MeanFieldDirichlet`.

    :param model: a Pyro model.
    :param initial_counts: of Dirichlet sites, as in :class:`.MeanFieldDirichlet`.
    """

    def get_posterior(self, name: str, prior: Any) -> Any:
        """The site's Normals or Dirichlet; parameters are made at the first call."""
        base = base_distribution(prior)
        if isinstance(base, DIRICHLETS):
            return super().get_posterior(name, prior)
        if not isinstance(base, (dist.Normal, dist.MultivariateNormal)):
            raise NotImplementedError(
                f"MeanFieldGaussian has no family for latent site {name!r} ({distribution_name(base)}); "
                "subclass it and override get_posterior"
            )
        try:
            loc, scale = attrgetter(name)(self.locs), attrgetter(name)(self.scales)
        except AttributeError:
            self._make_parameters(name, prior.event_dim, base)
            loc, scale = attrgetter(name)(self.locs), attrgetter(name)(self.scales)
        return dist.Normal(loc, scale).to_event(prior.event_dim)

    @torch.no_grad()
    def _make_parameters(self, name: str, event_dim: int, base: Any) -> None:
        scale = base.scale if isinstance(base, dist.Normal) else _conditional_scale(base)
        loc, scale = (self._adjust_plates(start, event_dim).clone() for start in (base.loc, scale))
        # Hidden from plates: a subsampled one would cut the start down to its minibatch (with module_local_params).
        with poutine.block():
            deep_setattr(self, f"locs.{name}", PyroParam(loc, event_dim=event_dim))
            deep_setattr(self, f"scales.{name}", PyroParam(scale, constraints.positive, event_dim=event_dim))


def _conditional_scale(prior: dist.MultivariateNormal) -> Tensor:
    """Standard deviation of each coordinate given the others."""
    precision: Tensor = prior.precision_matrix
    return precision.diagonal(dim1=-2, dim2=-1).rsqrt()
