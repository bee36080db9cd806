# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How much of the lanes of sentences fits into the registers of the processor at hand.

LLVM is asked: a sum of two vectors of 64 bytes is compiled, and the number of its additions says how many registers a
vector takes: one with AVX-512, which has 32 of them, two with AVX, of 16, four with SSE and NEON.
"""

from __future__ import annotations

import functools
import re

from . import objects

_SUM = """
define void @sum(ptr %a, ptr %b) {
  %x = load <8 x double>, ptr %a, align 8
  %y = load <8 x double>, ptr %b, align 8
  %z = fadd <8 x double> %x, %y
  store <8 x double> %z, ptr %a, align 8
  ret void
}
"""


@functools.lru_cache(maxsize=8)
def registers_of_a_vector(cpu: str, features: str) -> int:
    """How many registers hold 64 bytes.

    :param cpu: the processor, as LLVM calls it.
    """
    return max(1, len(re.findall(r"\bv?f?addpd|\bfadd\b", objects.assembly_of(_SUM))))


def tile_of_sums() -> tuple[int, int]:
    """Rows and columns of sums that are formed at once.

    All of their vectors, and a row and a column of what is multiplied, should stay in registers. AVX can read one
    factor from memory while it multiplies, so its sums may take all registers.
    """
    return {1: (4, 4), 2: (4, 2)}.get(registers_of_a_vector(*objects.processor()), (2, 2))
