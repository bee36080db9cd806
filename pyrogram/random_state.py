# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Random numbers that leave the caller's generators as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["random_state_kept", "seeded"]


@contextmanager
def random_state_kept(seed: int | None = None) -> Iterator[None]:
    """Leave torch's random number generators as they were.

    :param seed: where they stand meanwhile; by default as they are.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        if seed is not None:  # torch.manual_seed would leave word for CUDA, which may begin after this
            torch.default_generator.manual_seed(seed)
            if devices:
                torch.cuda.manual_seed_all(seed)
        yield


@contextmanager
def seeded(generator: torch.Generator | None) -> Iterator[None]:
    """torch's global generators for a while where another one is, from which they then differ; None: as they are."""
    if generator is None:
        yield
        return
    with random_state_kept(int(torch.randint(2**62, (), generator=generator))):
        yield
