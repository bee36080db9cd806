# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Bayesian probabilistic grammars for Pyro.

>>> grammar = pyrogram.DMV(num_tags=len(corpus.vocab))
>>> pyro.sample("words", pyrogram.distributions.Sentence(grammar, weights), obs=words)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data, distributions, infer, metrics
    from .data import Corpus
    from .grammars import CFG, DMV, HMM, Block, Grammar, LatentAnnotations

__version__ = "0.1.0"

__all__ = [
    "CFG",
    "DMV",
    "HMM",
    "Block",
    "Corpus",
    "Grammar",
    "LatentAnnotations",
    "data",
    "distributions",
    "infer",
    "metrics",
]

# Where each name comes from. They are imported when first asked for: torch and Pyro take two seconds, and
# `pyrogram --help` does not need them.
_MODULES = {
    **dict.fromkeys(("CFG", "DMV", "HMM", "Block", "Grammar", "LatentAnnotations"), "grammars"),
    "Corpus": "data",
}
_PACKAGES = {"charts", "data", "distributions", "grammars", "guides", "infer", "metrics", "models", "testing", "viz"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name not in _PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES.get(name, name)}")
    value = getattr(module, name) if name in _MODULES else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
