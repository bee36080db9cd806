# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What Markov chains share: their generators, when data are new or averages begin anew, and Pyro's interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar

import torch
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from torch import Tensor

from pyrogram.printable import plural


def generator_of(seed: int | None) -> torch.Generator:
    """A chain's own generator; without a seed, of one from torch's global generator."""
    if seed is not None and not isinstance(seed, Integral):
        raise TypeError(f"seed must be an integer or None, not {seed!r}")
    return torch.Generator().manual_seed(int(torch.randint(2**62, ()) if seed is None else seed))


def same_tensors(old: Sequence[Tensor], new: Sequence[Tensor]) -> bool:
    """Whether tensors have the same elements of the same types; ``old`` are copies, as users may change theirs."""
    return len(old) == len(new) and all(
        (a.dtype, a.device) == (b.dtype, b.device) and torch.equal(a, b) for a, b in zip(old, new, strict=True)
    )


def averages_restart(burn_in: int, done: int, kept: int) -> bool:
    """Whether averages begin anew, for a burn-in that leaves out all of the ``done`` steps of a chain.

    :param kept: the last steps, which are averaged already.
    :raises ValueError: if it would leave out only some of those, for they cannot be taken out.
    """
    first = done - kept
    if burn_in <= first or not kept:
        return False
    if burn_in < done:
        raise ValueError(
            f"expected burn_in of at most {first}, or of at least {done}, which begins averages anew, after "
            f"{plural(done, 'step')} of which all but the first {first} are averaged already, actual {burn_in}."
        )
    return True


class Kernel(MCMCKernel, ABC):
    """Pyro's interface to a chain whose state is its own and which keeps what it learns until the next chain."""

    transforms: ClassVar[dict[str, Any]] = {}  # Pyro's MCMC: samples are in their own space already
    burn_in = 0  #: steps, from the start of the chain, that averages leave out
    _generator: torch.Generator

    @property
    @abstractmethod
    def acceptance(self) -> float:
        """The share of proposals that were accepted; NaN before."""

    @abstractmethod
    def _advance(self) -> object:
        """Move: wholly or not at all."""

    @abstractmethod
    def _samples(self) -> dict[str, Tensor]:
        """The present values; floating-point numbers, for Pyro's MCMC computes statistics of them."""

    @abstractmethod
    def _end(self) -> None:
        """No chain."""

    @abstractmethod
    def _begin(self, *args: Any, **kwargs: Any) -> object:
        """A new chain, over what Pyro's ``MCMC.run`` was given."""

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        """Start a new chain: a kernel may serve several, one after the other."""
        self._end()
        # Several chains must differ, whatever the seed that this kernel has for itself.
        self._generator.manual_seed(int(torch.randint(2**62, ())))
        self.burn_in = warmup_steps
        self._begin(*args, **kwargs)

    @property
    def initial_params(self) -> dict[str, Tensor]:
        """The chain's present values."""
        return self._samples()

    @initial_params.setter
    def initial_params(self, params: Mapping[str, Tensor]) -> None:
        """Not used: a chain begins where it was told to, or at a proposal."""

    def sample(self, params: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """One step; what was there before is the kernel's own state, not ``params``."""
        self._advance()
        return self._samples()

    def logging(self) -> dict[str, Any]:
        rate = self.acceptance
        return {} if rate != rate else {"acc. rate": f"{rate:.3f}"}

    def diagnostics(self) -> dict[str, Any]:
        """For Pyro's ``MCMC.diagnostics``."""
        return {"divergences": [], "acceptance rate": self.acceptance}

    def cleanup(self) -> None:
        """Nothing to do: what was learnt stays here until the next chain."""
