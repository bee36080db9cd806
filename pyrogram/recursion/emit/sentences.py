# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences in blocks, and which of these a thread takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from ..code.expressions import Array, Expression, Name, Number, take
from ..code.statements import Code

INF = Number(math.inf, "real")
LOG_Z = Array("log_z", "real")
SENTENCES: list[Array | Name] = [
    Array("lengths", "int"),
    Array("order", "int"),
    Name("count", "int"),
    Name("parts", "int"),
    Array("turns", "int"),
]


@contextmanager
def blocks(code: Code, lanes: int) -> Iterator[Expression]:
    """All blocks of the parts that this thread takes: part p has blocks p, p + parts, ...; where each begins."""
    parts = Name("parts", "int")
    part = code.set("part", take(Array("turns", "int")))
    with code.loop_while(part < parts):
        block = code.set("block", part)
        with code.loop_while(block * lanes < Name("count", "int")):
            yield code.set("begin.of", block * lanes)
            code.set("block", block + parts)
        code.set("part", take(Array("turns", "int")))
