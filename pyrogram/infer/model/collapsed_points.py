# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A model at a point, with the Dirichlets that are weights and nothing else integrated out.

Given derivations, whose counts are f, all other parameters and latent values z have the density p(z) exp <f, log w(z)>
times the collapsed joint P(f | α(z)) of Eq. 4: the model with tangents in place of its sentences, without a chart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from pyrogram.grammar import Weights

from .collapsed import log_dirichlet_multinomial
from .computed import read_computed
from .indicators import summed_out
from .points import PointProblem, Terms, line
from .structure import ModelError


@dataclass
class CollapsedPoints(PointProblem):
    """See the module. Densities of latent values are those of their unconstrained coordinates."""

    unconstrained: bool = True

    @staticmethod
    def read(model: Callable[[], Any], loop: str) -> CollapsedPoints:
        """Read a model, for a loop of this name.

        :raises ModelError: for scales, which are no factors of a joint of derivations.
        """
        model = summed_out(model, loop)
        points = CollapsedPoints(read_computed(model, loop, unconstrained=True), model)
        scaled = [name for name, source in points.traced.weight_sources.items() if source.scale != 1]
        scaled += [site.name for site in points.traced.sentences if site.scale != 1]
        if scaled:
            raise ModelError(f"{loop} cannot handle site {scaled[0]!r}, which is scaled or masked; VariationalEM can")
        points.traced = replace(points.traced, reference=points.reference(loop))
        return points

    def objective(self, terms: Terms, weights: Weights, counts: Weights, learnt: Collection[str] = ()) -> Tensor:
        joint = terms.density + terms.log_jacobian + line(terms.log_weights, counts)
        for name, alpha in terms.alpha.items():
            block = self.traced.weight_sources[name].block
            joint = joint + log_dirichlet_multinomial(block, counts[name].cpu(), alpha)
        return joint
