# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The columns of the matrix in docs/priors-and-inferences.md, and what each inference says of each model."""

import functools
from collections.abc import Callable
from typing import Any

import pyro
import torch
from infer.matrix_models import GRAMMARS, PRIORS, Model
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO
from pyro.infer.autoguide import AutoGuide, AutoNormal
from pyro.infer.mcmc.util import initialize_model
from pyro.optim import Adam  # type: ignore[attr-defined]

from pyrogram.infer import EM, CollapsedVB, GrammarLoop, ModelError, TreeGibbs, TreeHastings, VariationalEM

LOOPS: dict[str, Callable[..., GrammarLoop]] = {
    "EM": EM,
    "EM, unconstrained": functools.partial(EM, unconstrained=True),
    "VariationalEM": VariationalEM,
    "CollapsedVB": CollapsedVB,
    "TreeGibbs": TreeGibbs,
    "TreeHastings": TreeHastings,
}
INFERENCES = [*LOOPS, "SVI", "NUTS"]


def model_of(grammar: str, prior: str) -> Model:
    """A model whose parameters begin anew."""
    pyro.clear_param_store()
    return PRIORS[prior](GRAMMARS[grammar])


def way(grammar: str, prior: str, inference: str) -> str:
    """How an inference handles the weights of a model; after a plus, the numbers that their prior depends on.

    :raises ModelError: with the cause, if it refuses the model.
    """
    model = model_of(grammar, prior)
    if inference == "SVI":
        elbo, guide = elbo_and_guide(model)
        SVI(model, guide, Adam({"lr": 0.01}), elbo).step()
        return "gradient"
    if inference == "NUTS":
        latent = latent_sites(model)
        if not latent:
            raise ModelError("NUTS needs latent sites, and the model has none")
        potential(model)
        return "drawn"
    loop = LOOPS[inference](model)
    loop._read((), {})
    found = dict.fromkeys(way for ways in loop.plan().values() for way in ways.values())
    above = way_of_hyperparameters(loop) if not found.keys() & {"gradient", "guide"} else None
    return " and ".join(found) + (f" + {above}" if above and above not in found else "")


def way_of_hyperparameters(loop: GrammarLoop) -> str | None:
    """Of parameters and latent sites that priors depend on."""
    problem = loop._problem
    if isinstance(loop, TreeGibbs | TreeHastings):
        return "drawn" if problem.start else "constant" if problem.traced.hyperparameters else None
    if not problem.traced.hyperparameters:
        return None
    return "guide" if getattr(problem, "is_random", False) else "gradient"


def latent_sites(model: Model) -> dict[str, Any]:
    nodes: dict[str, Any] = dict(poutine.trace(model).get_trace().nodes)
    return {
        name: site["fn"]
        for name, site in nodes.items()
        if site["type"] == "sample" and not site["is_observed"] and type(site["fn"]).__name__ != "_Subsample"
    }


def indicators(model: Model) -> list[str]:
    """Latent sites that Pyro enumerates."""
    return [name for name, fn in latent_sites(model).items() if fn.has_enumerate_support]


def elbo_and_guide(model: Model) -> tuple[Trace_ELBO, AutoGuide | Callable[[], None]]:
    hidden = indicators(model)
    elbo = TraceEnum_ELBO(max_plate_nesting=1) if hidden else Trace_ELBO()
    if set(latent_sites(model)) <= set(hidden):
        return elbo, lambda: None
    return elbo, AutoNormal(poutine.block(model, hide=hidden))


def potential(model: Model) -> tuple[dict[str, Any], Callable[..., Any], dict[str, Any]]:
    """Where NUTS begins, the energy that it follows, and the transforms of its sites."""
    start, energy, transforms, _ = initialize_model(model, max_plate_nesting=1)
    return start, energy, transforms


def cell(grammar: str, prior: str, inference: str) -> tuple[str, str]:
    """How an inference handles a model, or nothing; and why not."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            return way(grammar, prior, inference), ""
        except ModelError as error:
            return "", str(error)
