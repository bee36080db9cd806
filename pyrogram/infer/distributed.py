# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Processes that ``torchrun`` starts, on one machine or many, as the ``reduce=`` of loops."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["AllReduce", "all_reduce"]

T = TypeVar("T")


class AllReduce:
    """The processes of a group of ``torch.distributed``; see :func:`all_reduce`.

    A sum is formed once, in process 0, and sent to all: so all have the same bits, whatever the backend and the
    machines. Without processes beside this one every method gives back its argument.

    :param group: of ``torch.distributed``; by default all processes, or this one alone if none were started.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self._alone = group is None and not dist.is_initialized()
        self.rank = 0 if self._alone else dist.get_rank(group)
        self.size = 1 if self._alone else dist.get_world_size(group)
        self._first = 0 if self._alone or group is None else dist.get_global_rank(group, 0)
        backend = "" if self._alone else dist.get_backend(group)
        self._device = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else torch.device("cpu")

    def sum(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Sums over all processes, formed in float64, on the devices and in the dtypes of the tensors given.

        :raises ConnectionError: if another process has ended.
        """
        flat = [t.detach().to(self._device, torch.float64).reshape(-1) for t in tensors.values()]
        total = torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64, device=self._device)

        def exchange() -> None:
            dist.reduce(total, self._first, group=self.group)
            dist.broadcast(total, self._first, group=self.group)

        if not self._alone:
            self._guarded(exchange)
        chunks = zip(tensors.items(), total.split([len(x) for x in flat]), strict=True)
        return {name: chunk.reshape(t.shape).to(t.device, t.dtype) for (name, t), chunk in chunks}

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank; what pickle takes."""
        values: list[Any] = [None] * self.size
        if self._alone:
            return [value]
        self._guarded(lambda: dist.all_gather_object(values, value, group=self.group))
        return values

    def broadcast(self, value: T) -> T:
        """The value of process 0; what pickle takes."""
        values = [value]
        if not self._alone:
            self._guarded(lambda: dist.broadcast_object_list(values, self._first, group=self.group))
        return values[0]

    def _guarded(self, exchange: Callable[[], object]) -> None:
        try:
            exchange()
        except RuntimeError as error:  # of gloo and nccl, a page of text each
            raise ConnectionError(
                f"process {self.rank} of {self.size} has lost another one, which has ended or no longer answers "
                f"({str(error).strip().splitlines()[0]:.200}); see its own message"
            ) from error


def all_reduce(backend: str | None = None) -> AllReduce:
    """All processes that ``torchrun`` has started, for the ``reduce=`` of loops; without torchrun this process alone.

    Every process runs the same program on the same sentences, takes its share of them in each E-step, and has the
    results of all::

        reduce = pyrogram.infer.distributed.all_reduce()
        loop = VariationalEM(model, reduce=reduce).run(corpus.words, checkpoint="vb.safetensors")
        if reduce.rank == 0:
            print(loop.weights())

    >>> pyrogram.infer.distributed.all_reduce().size
    1

    :param backend: of ``torch.distributed``, if the program has not called ``init_process_group`` itself: by default
        ``"gloo"``; ``"nccl"`` for tensors on NVIDIA GPUs, after ``torch.cuda.set_device``.
    """
    if not dist.is_initialized() and "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        dist.init_process_group(backend or "gloo")
    return AllReduce()
