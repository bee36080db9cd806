# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The one run that all loops and samplers share: step by step, with checkpoints, until there is a reason to stop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from torch import Tensor
from tqdm import tqdm
from typing_extensions import Self

from .checkpoint import load_state, save_state
from .reduce import Reduce, is_first, of_first, together


class RunOptions(TypedDict, total=False):
    """The options that every ``run`` has; see :meth:`Resumable._run`."""

    progress: bool
    callback: Callable[[Any], Any] | None
    checkpoint: str | Path | None
    checkpoint_every: int
    resume: bool


def run_options(kwargs: dict[str, Any]) -> RunOptions:
    """The options that every ``run`` has, taken out of keyword arguments of which the others are a model's."""
    return cast(RunOptions, {name: kwargs.pop(name) for name in RunOptions.__annotations__ if name in kwargs})


class Resumable(ABC):
    """What goes on step by step and can be saved with all that it needs to go on with the same numbers.

    A subclass has a ``run`` of its own, which takes the model's arguments and then calls :meth:`_run`.
    """

    reduce: Reduce | None = None  #: processes that take every step together; the first one writes and decides

    def __init__(self) -> None:
        self.history: list[float] = []  #: one number for each step, in nats
        self.stopped = ""  #: why the last run ended

    @abstractmethod
    def _advance(self) -> float:
        """One step, wholly or not at all; what it returns is appended to the history."""

    @abstractmethod
    def _fingerprint(self) -> str:
        """A hash of all that the run is about: its checkpoint is refused by others."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of another one of this kind over the same data.

        :raises ValueError: if it is not such a state.
        """

    def _shown(self) -> dict[str, str]:
        """What the progress bar says after a step."""
        return {"log_joint": f"{self.history[-1]:.1f}"}

    def _run(
        self,
        num_steps: int,
        *,
        progress: bool = True,
        callback: Callable[[Any], Any] | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        resume: bool = True,
        ready: Callable[[], object] | None = None,
        step: Callable[[], object] | None = None,
        ended: Callable[[], str] | None = None,
    ) -> Self:
        """Many steps.

        :param num_steps: most steps of this run; those of the checkpoint that it resumes count.
        :param progress: show a progress bar.
        :param callback: called after every step with this object; stops the run by returning True. Of several
            processes, each calls its own, and that of process 0 decides.
        :param checkpoint: file to save to every ``checkpoint_every`` steps, at the end, and when interrupted; it is
            replaced atomically, and a run resumed from it gives the same numbers to the last bit. Of several processes,
            process 0 reads and writes it, and any number of them can go on from it.
        :param resume: go on from ``checkpoint`` if it exists.
        """
        if num_steps < 0 or checkpoint_every < 1:
            raise ValueError(f"need num_steps >= 0 and checkpoint_every >= 1, not {num_steps} and {checkpoint_every}")
        last = len(self.history) + num_steps
        save: Callable[[], None] | None = None
        if checkpoint is not None:
            path, fingerprint = Path(checkpoint), self._fingerprint()
            save = partial(self._save, path, fingerprint)
            if of_first(self.reduce, resume and path.exists()):
                self._load(path, fingerprint)
        if ready is not None:
            ready()
        advance, reason = step or self._advance, "" if ended is None else ended()
        hidden = not progress or not is_first(self.reduce)
        try:
            with tqdm(total=last, initial=len(self.history), disable=hidden, desc=type(self).__name__) as bar:
                while len(self.history) < last and not reason:
                    advance()
                    reason = "" if ended is None else ended()
                    bar.update()
                    bar.set_postfix(self._shown(), refresh=False)
                    if save is not None and len(self.history) % checkpoint_every == 0:
                        save()
                    if callback is not None and of_first(self.reduce, callback(self) is True):
                        reason = reason or "callback asked to stop"
            self.stopped = reason or f"num_steps={num_steps} reached"
        finally:
            if save is not None and self.history:
                save()
        return self

    def _save(self, path: Path, fingerprint: str) -> None:
        if is_first(self.reduce):
            save_state(path, self.state_dict(), fingerprint)

    def _load(self, path: Path, fingerprint: str) -> None:
        def read() -> dict[str, Tensor]:
            return load_state(path, fingerprint) if is_first(self.reduce) else {}

        try:
            self.load_state_dict(of_first(self.reduce, together(self.reduce, read)))
        except ValueError as error:
            if str(path) in str(error):
                raise
            raise ValueError(f"{path}: {error}; delete it or pass resume=False") from error


def with_history(state: Mapping[str, Tensor], **histories: list[float]) -> dict[str, Tensor]:
    """A state with histories beside it."""
    return {**state, **{name: torch.tensor(h, dtype=torch.float64) for name, h in histories.items()}}
