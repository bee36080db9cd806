# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Whether a run goes on with the arguments that it had."""

from __future__ import annotations

from typing import Any


def same_arguments(a: Any, b: Any) -> bool:
    """Whether two sets of arguments are the very same objects, or equal plain values."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same_arguments(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_arguments(a[k], b[k]) for k in a)
    return a is b or (isinstance(a, (int, float, str, bool)) and isinstance(b, (int, float, str, bool)) and a == b)
