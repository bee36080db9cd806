# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What Markov chains share: their generators, whether data are new, and when averages begin anew."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import torch
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
