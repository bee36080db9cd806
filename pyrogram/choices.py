# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Arguments that are one of a few names; among them the decoders, which are the same for every model that has both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DECODERS", "Decoder", "best", "check_choice"]

Decoder = Literal["viterbi", "mbr"]
DECODERS: tuple[Decoder, ...] = get_args(Decoder)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """:raises ValueError: unless the argument is one of the choices."""
    if value not in choices:
        raise ValueError(f"expected {name} to be one of {', '.join(map(repr, choices))}, actual {value!r:.100}.")


def best(derivations: Any, decoder: str) -> Tensor:
    """The best value of a distribution over derivations.

    :param decoder: ``"viterbi"``: the most probable one; ``"mbr"``: the one with the most expected right parts.
    :raises ValueError: for another decoder.
    """
    check_choice("decoder", decoder, DECODERS)
    value: Tensor = derivations.mbr() if decoder == "mbr" else derivations.argmax()
    return value
