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
import pathlib as _pathlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from . import data, distributions, grammars, infer, knowledge, metrics, priors, recursion, testing, viz
    from .data import Corpus
    from .grammars import CFG, DMV, HMM, Bias, Block, Grammar, LatentAnnotations

    # installed from folders beside this one
    guides: _typing.Any
    models: _typing.Any

_folder = _pathlib.Path(__file__).resolve().parent
if not (_folder / "models").is_dir() and (_folder.parent / "pyproject.toml").is_file():
    # A checkout: models/ and guides/ stand beside this folder, and an installation has them within it.
    __path__.append(str(_folder.parent))

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
    if name not in __all__ and name != "charts":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(f"{__name__}.{_HOME.get(name, name)}")
    value = getattr(module, name) if name in _HOME else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
