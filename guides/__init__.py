# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational families."""

from .dirichlet import MeanFieldDirichlet
from .gaussian import MeanFieldGaussian

__all__ = ["MeanFieldDirichlet", "MeanFieldGaussian"]


def __dir__() -> list[str]:
    return __all__
