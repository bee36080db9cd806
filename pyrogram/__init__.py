# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Bayesian probabilistic grammars for Pyro.

>>> corpus = pyrogram.Corpus.builtin().filter(max_length=6)
>>> grammar = pyrogram.DMV(num_tags=len(corpus.vocab))
>>> loop = pyrogram.infer.VariationalEM(pyrogram.models.dirichlet.dirichlet)
>>> weights = loop.run(corpus.words, grammar, num_steps=3, progress=False).weights()
>>> grammar.derivation(weights, corpus.words[:1]).mbr().shape == corpus.words[:1].shape
True
"""

import importlib as _importlib
import importlib.util as _util
import pathlib as _pathlib
import sys as _sys
import typing as _typing

if _typing.TYPE_CHECKING:
    from . import data, distributions, grammars, infer, knowledge, metrics, priors, recursion, testing, viz
    from .data import Corpus
    from .grammars import CFG, DMV, HMM, Bias, Block, Grammar, LatentAnnotations

    # installed from folders beside this one
    guides: _typing.Any
    models: _typing.Any


class _Checkout:
    """Finds models/ and guides/ beside this folder, where a checkout has them; an installation has them within it."""

    @staticmethod
    def find_spec(name: str, path: _typing.Any = None, target: _typing.Any = None) -> _typing.Any:
        if name not in (f"{__name__}.models", f"{__name__}.guides"):
            return None
        folder = _pathlib.Path(__file__).resolve().parent.parent / name.rpartition(".")[2]
        return _util.spec_from_file_location(name, folder / "__init__.py") if folder.is_dir() else None


_sys.meta_path.append(_Checkout)

__version__ = "0.1.0"

__all__ = [
    "CFG",
    "DMV",
    "HMM",
    "Bias",
    "Block",
    "Corpus",
    "Grammar",
    "LatentAnnotations",
    "data",
    "distributions",
    "grammars",
    "guides",
    "infer",
    "knowledge",
    "metrics",
    "models",
    "priors",
    "recursion",
    "testing",
    "viz",
]

# Where each name comes from. They are imported when first asked for: torch and Pyro take two seconds, and
# `pyrogram --help` does not need them.
_HOME = {
    **dict.fromkeys(("CFG", "DMV", "HMM", "Bias", "Block", "Grammar", "LatentAnnotations"), "grammars"),
    "Corpus": "data",
}


def __getattr__(name: str) -> _typing.Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(f"{__name__}.{_HOME.get(name, name)}")
    value = getattr(module, name) if name in _HOME else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
