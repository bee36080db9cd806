# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What :class:`.PitmanYorSampler` reads off a model that runs: its processes, and where its latent sites start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import biject_to

from pyrogram.distributions.hierarchical_pitman_yor import HierarchicalPitmanYor
from pyrogram.grammar import Weights
from pyrogram.infer.model.sites import base_distribution, distribution_name, is_left_out
from pyrogram.infer.model.structure import ModelError
from pyrogram.random_state import random_state_kept


class StartMessenger(Messenger):
    """Put every continuous latent site where chains start: at 0 in unconstrained coordinates.

    What is drawn from the prior, as models are read elsewhere, may lie where no process can be.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []  #: sites that the model came to

    def _pyro_sample(self, msg: Any) -> None:
        if msg["is_observed"] or msg["done"] or site_is_subsample(msg) or msg["fn"].support.is_discrete:
            return
        with random_state_kept(), torch.no_grad():
            transform = biject_to(msg["fn"].support)
            msg["value"] = transform(torch.zeros_like(transform.inv(msg["fn"].sample())))
        msg["done"] = True
        self.names.append(msg["name"])


@contextmanager
def start_at_zero(loop: str) -> Iterator[None]:
    """A model that runs herein starts where chains do.

    :param loop: name of the loop, for messages.
    :raises ValueError: of one sentence with the latent sites, if the model cannot run there.
    """
    start = StartMessenger()
    try:
        with start:
            yield
    except ValueError as error:  # to which Pyro adds the shapes of all sites
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{loop} cannot start with latent sites {start.names} at 0 in unconstrained coordinates: {reason}; their "
            "priors may have to be narrower"
            if start.names
            else f"{loop} cannot run the model: {reason}"
        ) from error


def tensors_in(arguments: Any) -> Iterator[Tensor]:
    """All tensors of arguments, those in containers, too."""
    if isinstance(arguments, Tensor):
        yield arguments
    elif isinstance(arguments, Mapping):
        yield from tensors_in(list(arguments.values()))
    elif isinstance(arguments, (list, tuple)):
        for x in arguments:
            yield from tensors_in(x)


class ProcessMessenger(Messenger):
    """Collect the observed hierarchical Pitman-Yor processes of a model that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.sites: dict[str, HierarchicalPitmanYor] = {}

    def _pyro_post_sample(self, msg: Any) -> None:
        if is_process(msg):
            self.sites[msg["name"]] = base_distribution(msg["fn"])


def is_process(site: Any) -> bool:
    """Whether a site observes a hierarchical Pitman-Yor process."""
    return bool(site["is_observed"]) and isinstance(base_distribution(site["fn"]), HierarchicalPitmanYor)


def check_process(name: str, site: Any, loop: str) -> None:
    """:raises ModelError: for a process that is scaled, masked or batched."""
    process = base_distribution(site["fn"])
    scaled = bool((torch.as_tensor(site["scale"]) != 1).any()) or site["mask"] is not None
    if scaled or process.batch_shape or site["value"].dim() != 1:
        raise ModelError(
            f"{loop} cannot handle site {name!r} with batch shape {tuple(process.batch_shape)} and values of shape "
            f"{tuple(site['value'].shape)}, or in a subsampled plate, scaled or masked: values must have shape (N,)"
        )


def latent_starts(model: Callable[..., Any], loop: str, args: Any, kwargs: Any) -> Weights:
    """Where latent sites start, in unconstrained coordinates, float64: at 0.

    :param loop: name of the loop, for messages.
    :raises ModelError: if one is discrete, or in a scaled plate.
    """
    with random_state_kept(), torch.no_grad():
        nodes: dict[str, Any] = dict(poutine.trace(model).get_trace(*args, **kwargs).nodes)
    starts = {}
    for name, site in nodes.items():
        if site["type"] != "sample" or site["is_observed"] or is_left_out(site):
            continue
        support, scale = site["fn"].support, torch.as_tensor(site["scale"])
        if support.is_discrete:
            raise ModelError(
                f"{loop} cannot handle the discrete latent site {name!r} "
                f"({distribution_name(base_distribution(site['fn']))}); make it observed, or sum it out"
            )
        if bool((scale != 1).any()) or site["mask"] is not None:
            raise ModelError(f"{loop} cannot handle latent site {name!r} in a subsampled plate, scaled or masked")
        starts[name] = torch.zeros_like(biject_to(support).inv(site["value"].detach()), dtype=torch.float64)
    return starts


class HyperparameterMessenger(Messenger):
    """Put hyperparameters at a point, given in unconstrained coordinates, and sum their log prior."""

    def __init__(self, point: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.point, self.values = point, Weights()
        self.terms: dict[str, Tensor] = {}
        self.log_jacobian = torch.zeros((), dtype=torch.float64)

    @property
    def log_prior(self) -> Tensor:
        return sum(self.terms.values(), torch.zeros((), dtype=torch.float64))

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] not in self.point:
            return
        unconstrained = self.point[msg["name"]]
        transform = biject_to(msg["fn"].support)
        value = transform(unconstrained)
        self.terms[msg["name"]] = msg["fn"].log_prob(value).sum().to("cpu", torch.float64)
        jacobian = transform.log_abs_det_jacobian(unconstrained, value).sum()
        self.log_jacobian = self.log_jacobian + jacobian.to("cpu", torch.float64)
        self.values[msg["name"]] = value
        msg["value"], msg["done"] = value, True
