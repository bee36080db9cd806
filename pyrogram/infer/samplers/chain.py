# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What Markov chains share: many steps with a progress bar, saving and resuming; and Pyro's kernel interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import torch
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from torch import Tensor
from tqdm import tqdm
from typing_extensions import Self

from pyrogram.infer.loops.checkpoint import load_state, save_state


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


def begins_anew(burn_in: int, done: int, kept: int) -> bool:
    """Whether averages begin anew, for a burn-in that leaves out all of the ``done`` steps of a chain.

    :param kept: the last steps, which are averaged already.
    :raises ValueError: if it would leave out only some of those, for they cannot be taken out.
    """
    first = done - kept
    if burn_in <= first or not kept:
        return False
    if burn_in < done:
        raise ValueError(
            f"expected burn_in of at most {first}, or of at least {done}, which begins averages anew, after {done} "
            f"steps of which all but the first {first} are averaged already, actual {burn_in}."
        )
    return True


class Chain(ABC):
    """A Markov chain that :meth:`_run` moves, and saves with all that it needs to go on with the same numbers.

    A subclass has a ``run`` of its own, which takes what the chain is over and then calls :meth:`_run`.
    """

    history: list[float]  #: one number for each step, in nats

    @abstractmethod
    def _step(self) -> object:
        """Move, and append to the history: wholly or not at all."""

    @abstractmethod
    def _fingerprint(self) -> str:
        """A hash of what the chain is over: its checkpoint is refused by others."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of another chain of this kind over the same.

        :raises ValueError: if it is not the state of such a chain.
        """

    def _progress(self) -> dict[str, str]:
        """What the progress bar says after a step."""
        return {"log_joint": f"{self.history[-1]:.1f}"}

    def _run(
        self,
        num_steps: int,
        progress: bool,
        callback: Callable[[Self], Any] | None,
        checkpoint: str | Path | None,
        checkpoint_every: int,
        resume: bool,
        ready: Callable[[], object] | None = None,
    ) -> Self:
        """Many steps; those of the checkpoint that it resumes count.

        :param ready: called when the checkpoint is taken over, before the first step: what it raises ends the run.
        """
        if num_steps < 0 or checkpoint_every < 1:
            raise ValueError(f"need num_steps >= 0 and checkpoint_every >= 1, not {num_steps}, {checkpoint_every}")
        last = len(self.history) + num_steps
        path, name = (None, "") if checkpoint is None else (Path(checkpoint), self._fingerprint())
        if path is not None and resume and path.exists():
            self.load_state_dict(load_state(path, name))
        if ready is not None:
            ready()
        try:
            with tqdm(total=last, initial=len(self.history), disable=not progress, desc=type(self).__name__) as bar:
                while len(self.history) < last:
                    self._step()
                    bar.update()
                    bar.set_postfix(self._progress(), refresh=False)
                    if path is not None and len(self.history) % checkpoint_every == 0:
                        save_state(path, self.state_dict(), name)
                    if callback is not None and callback(self) is True:
                        break
        finally:
            if path is not None and self.history:
                save_state(path, self.state_dict(), name)
        return self


class Kernel(MCMCKernel, ABC):
    """Pyro's interface to a chain whose state is its own and which keeps what it learns until the next chain.

    A subclass has ``setup``, a step, and what Pyro's samples are.
    """

    transforms: ClassVar[dict[str, Any]] = {}  # Pyro's MCMC: samples are in their own space already
    _generator: torch.Generator

    @property
    @abstractmethod
    def acceptance(self) -> float:
        """The share of proposals that were accepted; NaN before."""

    @abstractmethod
    def _step(self) -> object:
        """Move: wholly or not at all."""

    @abstractmethod
    def _samples(self) -> dict[str, Tensor]:
        """The present values; floating-point numbers, for Pyro's MCMC computes statistics of them."""

    def _reseed(self) -> None:
        """Several chains must differ, whatever the seed that this kernel has for itself."""
        self._generator.manual_seed(int(torch.randint(2**62, ())))

    @property
    def initial_params(self) -> dict[str, Tensor]:
        """The chain's present values."""
        return self._samples()

    @initial_params.setter
    def initial_params(self, params: Mapping[str, Tensor]) -> None:
        """Not used: a chain begins where it was told to, or at a proposal."""

    def sample(self, params: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """One step; what was there before is the kernel's own state, not ``params``."""
        self._step()
        return self._samples()

    def logging(self) -> dict[str, Any]:
        found = self.acceptance
        return {} if found != found else {"acc. rate": f"{found:.3f}"}

    def diagnostics(self) -> dict[str, Any]:
        """For Pyro's ``MCMC.diagnostics``."""
        return {"divergences": [], "acceptance rate": self.acceptance}

    def cleanup(self) -> None:
        """Nothing to do: what was learnt stays here until the next chain."""
