# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The concentrations of a model's Dirichlet sites as functions of its parameters, at the cost of the prior alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyro.poutine.messenger import Messenger
from torch import Tensor

from .reading import unwrapped


def concentrations(model: Callable[[], Any], values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Run a model as far as its Dirichlet sites, without drawing from them.

    :param values: the values that the sites take.
    :returns: the concentration of each, differentiable.
    """
    collector = _Collector(values)
    with suppress(_Enough), collector:
        model()
    return collector.found


class _Enough(Exception):
    """All concentrations are known; the rest of the model need not run."""


class _Collector(Messenger):
    def __init__(self, values: dict[str, Tensor]):
        super().__init__()
        self.values = values
        self.found: dict[str, Tensor] = {}

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in self.values:
            self.found[msg["name"]] = unwrapped(msg["fn"]).concentration
            msg["value"] = self.values[msg["name"]]
            msg["done"] = True
            if len(self.found) == len(self.values):
                raise _Enough
