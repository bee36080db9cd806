# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps in collapsed space by several processes, each over its own sentences: approximate, as they do not wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import torch
from torch import Tensor
from typing_extensions import Unpack

from pyrogram.grammar import Weights
from pyrogram.infer.running.reduce import Reduce, summed


class SweepOptions(TypedDict, total=False):
    """Processes that share a sweep; and whether the user takes it as approximate."""

    reduce: Reduce | None
    approximate: bool


def reduce_of_sweeps(loop: str, **options: Unpack[SweepOptions]) -> Reduce | None:
    """The processes, if there are any.

    :raises ValueError: unless the user says that sweeps may be approximate.
    """
    reduce, approximate = options.get("reduce"), options.get("approximate", False)
    if not isinstance(approximate, bool):
        raise TypeError(f"approximate must be True or False, not {approximate!r:.80}")
    if approximate and reduce is None:
        raise ValueError(f"{loop} is exact in one process; leave out approximate=True, or give reduce=")
    if reduce is not None and not approximate:
        raise ValueError(
            f"{loop} takes each sentence given all others, which processes cannot do side by side; say "
            "approximate=True to let each process sweep its own sentences, given those of the others as they were"
            " before the sweep"
        )
    return reduce


def exchanged(reduce: Reduce | None, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> Weights:
    """Counts of all sentences after a sweep: those before it, and what every process has changed.

    :param after: as this process sees them.
    """
    if reduce is None:
        return dict(after)
    changed = summed(reduce, lambda: {name: after[name] - before[name] for name in before})
    return {name: (before[name] + changed[name]).clamp_min(0) for name in before}


def own_generator(reduce: Reduce | None, generator: torch.Generator) -> torch.Generator:
    """A process's own random numbers for a sweep, from a generator that is the same in all before and after it."""
    if reduce is None:
        return generator
    seed = int(torch.randint(2**61, (), generator=generator))
    return torch.Generator().manual_seed((seed + reduce.rank * 0x9E3779B97F4A7C15) % 2**63)
