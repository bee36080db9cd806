# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a Pyro model says about a grammar, read off one trace of it.

A loop needs to know which observed sites are sentences, and what each block of weights is: the value of a
``pyro.param`` or of a Dirichlet site. Weights are recognised by identity: a block is site ``attach`` if the tensor
handed to ``Sentence`` *is* the tensor that ``pyro.sample("attach", ...)`` returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import constraints

from pyrogram.distributions import Sentence
from pyrogram.grammar import Block, Grammar

_ELSEWHERE = "pyro.infer.SVI with a guide, or NUTS, can"


class ModelError(NotImplementedError):
    """A model that a loop cannot handle; the message names the site and says what can."""


@dataclass(frozen=True)
class SentenceSite:
    """An observed site of sentences, shape ``(N, n)``, and what site each of its grammar's blocks is the value of."""

    name: str
    grammar: Grammar
    words: Tensor
    sources: dict[str, str]


@dataclass(frozen=True)
class Source:
    """A site that weights come from: a ``pyro.param`` (no concentration) or a Dirichlet."""

    name: str
    block: Block
    value: Tensor
    concentration: Tensor | None = None

    @property
    def learns_prior(self) -> bool:
        """Whether the concentration depends on some ``pyro.param``."""
        return self.concentration is not None and self.concentration.requires_grad


@dataclass(frozen=True)
class Reading:
    """Sentences, sources of weights, and the parameters that concentrations depend on, unconstrained."""

    sentences: list[SentenceSite]
    sources: dict[str, Source]
    hyperparameters: dict[str, Tensor] = field(default_factory=dict)


def read_model(model: Callable[..., Any], loop: str, *args: Any, **kwargs: Any) -> Reading:
    """Run the model once, without disturbing the random number generator, and say what it is.

    :param loop: name of the loop, for messages.
    :raises ModelError: if a site is none of those that the loops handle.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices), torch.enable_grad(), _Watched():
        trace = poutine.trace(model).get_trace(*args, **kwargs)
    candidates: dict[int, Source] = {}
    sentences = []
    parameters: dict[str, dict[str, Any]] = {}
    nodes: dict[str, Any] = dict(trace.nodes)
    for name, site in nodes.items():
        if site["type"] == "param":
            parameters[name] = site
        elif site["type"] == "sample":
            _check_scale(site, loop)
            function = unwrapped(site["fn"])
            if site["is_observed"] and isinstance(function, Sentence):
                sentences.append((name, function, _flat_words(function, site["value"])))
            elif site["infer"].get("_deterministic", False) or site_is_subsample(site):
                continue
            elif site["is_observed"]:
                raise ModelError(
                    f"{loop} cannot use observed site {name!r} ({kind_of(function)}), only sentences; {_ELSEWHERE}"
                )
            elif isinstance(function, dist.Dirichlet):
                candidates[id(site["value"])] = Source(
                    name, Block(site["value"].shape), site["value"], function.concentration
                )
            else:
                raise ModelError(
                    f"{loop} cannot handle latent site {name!r} ({kind_of(function)}), only Dirichlet weights; "
                    f"{_ELSEWHERE}"
                )
    if not sentences:
        raise ModelError(f"{loop} found no observed Sentence site in the model; pass obs=words to pyro.sample")
    for name, site in parameters.items():
        candidates[id(site["value"])] = Source(name, Block(site["value"].shape), site["value"])
    used = {s.name: s for name, f, words in sentences for s in _sources(name, f, candidates, loop).values()}
    sites = [
        SentenceSite(name, f.grammar, words, {b: s.name for b, s in _sources(name, f, candidates, loop).items()})
        for name, f, words in sentences
    ]
    _check_used(candidates, used, parameters, loop)
    return Reading(sites, used, _hyperparameters(used, parameters, loop))


class _Watched(Messenger):
    """Make the values of Dirichlet sites leaves of autograd's graph, which then tells what depends on them."""

    def _pyro_post_sample(self, msg: Any) -> None:
        if not msg["is_observed"] and isinstance(unwrapped(msg["fn"]), dist.Dirichlet):
            msg["value"] = msg["value"].detach().requires_grad_()


def _flat_words(function: Sentence, value: Tensor) -> Tensor:
    """Sentences as integers, shape (N, n), each as often as the site's log_prob has it."""
    batch = torch.broadcast_shapes(function.batch_shape, value.shape[:-1])
    return value.long().expand(*batch, value.shape[-1]).reshape(-1, value.shape[-1])


def _sources(name: str, function: Sentence, candidates: dict[int, Source], loop: str) -> dict[str, Source]:
    """The source of each block of one Sentence site."""
    if function.weights is None:
        raise ModelError(f"{loop} needs Sentence site {name!r} to be given weights=, not log_weights=; {_ELSEWHERE}")
    found = {}
    for block_name, block in function.grammar.blocks.items():
        tensor = function.weights[block_name]
        if tensor.shape != block.shape:
            raise ModelError(
                f"{loop} needs one grammar for all sentences, but block {block_name!r} of site {name!r} has the batch "
                f"shape {tuple(tensor.shape[: tensor.dim() - len(block.shape)])}; {_ELSEWHERE}"
            )
        source = candidates.get(id(tensor))
        if source is None:
            raise ModelError(
                f"{loop} needs block {block_name!r} of site {name!r} to be the value of a pyro.param or of a Dirichlet "
                f"site, unchanged; {_ELSEWHERE}"
            )
        found[block_name] = Source(source.name, block, source.value, source.concentration)
    return found


def _check_scale(site: dict[str, Any], loop: str) -> None:
    """Loops see the whole corpus: no minibatches, no masks."""
    scale = site["scale"]
    if not (isinstance(scale, (int, float)) and scale == 1) and not (
        isinstance(scale, Tensor) and bool((scale == 1).all())
    ):
        raise ModelError(
            f"{loop} needs the whole corpus, but site {site['name']!r} is in a subsampled or scaled plate; "
            "give the plate no subsample_size, or use pyro.infer.SVI"
        )
    mask = site["mask"]
    if mask is not None and not bool(torch.as_tensor(mask).all()):
        raise ModelError(f"{loop} cannot handle the mask on site {site['name']!r}; leave out those sentences instead")


def _check_used(
    candidates: dict[int, Source], used: dict[str, Source], parameters: dict[str, dict[str, Any]], loop: str
) -> None:
    for source in candidates.values():
        if source.concentration is not None and source.name not in used:
            raise ModelError(f"{loop} found no sentence whose weights are Dirichlet site {source.name!r}; {_ELSEWHERE}")
    for name in used.keys() & parameters.keys():
        constraint = _constraint(parameters[name])
        if not constraint.startswith("Simplex"):
            raise ModelError(
                f"{loop} needs pyro.param {name!r} to have constraint=constraints.simplex, for it is estimated as "
                f"probabilities; its constraint is {constraint}"
            )


def _constraint(site: dict[str, Any]) -> str:
    constraint = site["kwargs"].get("constraint", constraints.real)
    if constraint is constraints.real:
        # PyroModule and pyro.param("name") leave it to the store, which makes its constraints public nowhere else.
        constraint = pyro.get_param_store()._constraints.get(site["name"], constraint)
    return repr(constraint).strip("()")


def _hyperparameters(used: dict[str, Source], parameters: dict[str, dict[str, Any]], loop: str) -> dict[str, Tensor]:
    """Parameters other than weights: each must be one that a concentration depends on, and it on nothing else."""
    rest = {n: s["value"].unconstrained() for n, s in parameters.items() if n not in used}
    learnt = {n: s.concentration for n, s in used.items() if s.concentration is not None and s.learns_prior}
    for name, concentration in learnt.items():
        for source in used.values():
            if depends(concentration, source.value):
                raise ModelError(
                    f"{loop} cannot handle Dirichlet site {name!r}, for its concentration depends on the weights "
                    f"{source.name!r}; {_ELSEWHERE}"
                )
        if not any(depends(concentration, parameter) for parameter in rest.values()):
            raise ModelError(
                f"{loop} cannot learn the concentration of Dirichlet site {name!r}: it requires a gradient, but "
                "depends on no pyro.param; make it one, or detach it"
            )
    for name, parameter in rest.items():
        if not any(depends(concentration, parameter) for concentration in learnt.values()):
            raise ModelError(
                f"{loop} found no use for pyro.param {name!r}: it is neither a block of weights nor part of a "
                f"Dirichlet's concentration; {_ELSEWHERE}"
            )
    return rest


def depends(result: Tensor, on: Tensor) -> bool:
    """Whether autograd's graph leads from ``on`` to ``result``."""
    if not (result.requires_grad and on.requires_grad):
        return False
    return torch.autograd.grad(result.sum(), on, retain_graph=True, allow_unused=True)[0] is not None


def unwrapped(function: Any) -> Any:
    """A distribution without its ``to_event``s."""
    while isinstance(function, torch.distributions.Independent):
        function = function.base_dist
    return function


def kind_of(function: Any) -> str:
    """A distribution's name, for messages."""
    return type(function).__name__
