# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From Markov chains to ArviZ."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pyrogram.grammar import Grammar

from .chains import ChainDraws, Chains, draws_of

Axes = Mapping[str, Sequence[str]]


def to_inference_data(
    chains: Chains, *, grammar: Grammar | None = None, coords: Mapping[str, Sequence[str]] | None = None
) -> Any:
    """The draws of finished chains as ArviZ knows them, with dimensions named as in the grammar.

    ``posterior`` holds the values of latent sites by chain and draw; ``sample_stats`` the log joint of every draw as
    ``lp``, and statistics of trees, if the sampler keeps them. Sites that are the weights of a block have its
    ``axes``: ``posterior["attach"].sel(head="NOUN", direction="left")``. ArviZ's own ``from_pyro`` reads the kernel's
    model, which a sampler over trees has no use for.

    :param chains: a ``pyro.infer.MCMC`` that has run; or samplers over trees that ran by themselves, with
        ``keep_weights``.
    :param grammar: whose blocks sites of the same name and shape are. By default it is found in the model, if a sampler
        over trees ran in this process; without it, dimensions have no names.
    :param coords: what lies along axes, by name, in place of numbers: ``{"head": tags, "child": tags}``.
    :raises ImportError: without arviz.
    :raises ValueError: for coordinates of an axis that there is none of, or of another length.
    """
    try:
        arviz: Any = importlib.import_module("arviz")
    except ImportError as error:
        raise ImportError("to_inference_data needs arviz: pip install 'pyro-grammar[arviz]'") from error
    draws = draws_of(chains)
    dims, labels = _named(draws, dict(_axes_of_sites(draws, grammar)), coords or {})
    posterior = {name: np.asarray(x.detach().cpu()) for name, x in draws.values.items()}
    stats = {"lp" if n == "log joint" else n: np.asarray(x.detach().cpu()) for n, x in draws.statistics.items()}
    groups = {"posterior": posterior, **({"sample_stats": stats} if stats else {})}
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups, dims=dims, coords=labels)
    return arviz.from_dict(**groups, dims=dims, coords=labels)


def _axes_of_sites(draws: ChainDraws, grammar: Grammar | None) -> Iterator[tuple[str, Axes]]:
    """Sites that are the weights of a block, and the block's axes."""
    if grammar is not None:
        for name, axes in grammar.axes.items():
            if name in draws.values and draws.values[name].shape[2:] == grammar.blocks[name].shape:
                yield name, axes
    elif draws.kernel is not None:
        yield from draws.kernel.axes_of_sites().items()


def _named(
    draws: ChainDraws, axes_of_sites: Mapping[str, Axes], coords: Mapping[str, Sequence[str]]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Names of the dimensions of sites, and labels by name; an axis with other labels gets a name of its own."""
    dims: dict[str, list[str]] = {}
    labels: dict[str, list[str]] = {}
    for site, axes in axes_of_sites.items():
        if site in draws.values and len(axes) == draws.values[site].dim() - 2:
            dims[site] = []
            for axis, names in axes.items():
                name = axis if labels.get(axis, list(names)) == list(names) else f"{axis} of {site}"
                labels[name] = list(names)
                dims[site].append(name)
    for name, names in coords.items():
        if name not in labels or len(names) != len(labels[name]):
            has = f"has {len(labels[name])}" if name in labels else f"is not among {sorted(labels)}"
            raise ValueError(f"coords has {len(names)} names for the axis {name!r}, which {has}")
        labels[name] = [str(label) for label in names]
    return dims, labels
