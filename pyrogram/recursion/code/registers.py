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


def tile_of_sums() -> tuple[int, int]:
    """Rows and columns of sums that are formed at once.

    All of their vectors, and a row and a column of what is multiplied, should stay in registers. AVX can read one
    factor from memory while it multiplies, so its sums may take all registers. A processor whose additions are unknown
    is taken for one with few.
    """
    return _tile_on(objects.processor())


@functools.lru_cache(maxsize=8)
def _tile_on(processor: tuple[str, str]) -> tuple[int, int]:
    """The same, kept for each processor."""
    additions = re.findall(r"\bv?addpd|\bfadd\b", objects.assembly_of(_SUM))
    return {1: (4, 4), 2: (4, 2)}.get(len(additions), (2, 2))
