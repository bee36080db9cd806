# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How a page of rules becomes a checked recursion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .cells import lower
from .language import Recursion
from .latex import latex
from .once import check_once


def recursion(page: Callable[..., None]) -> Callable[..., Recursion]:
    """Turn a function that adds rules to the :class:`Recursion` it is given into one that makes and checks it.

    >>> @recursion
    ... def pairs(p):
    ...     i, j, k = p.positions("i j k")
    ...     X, Z = p.items("X Z")
    ...     word = p.weights("word")
    ...     X[i, i] += word[i]
    ...     X[i, j] += X[i, k] * X[k + 1, j]
    ...     Z[()] += X[1, p.n]
    >>> print(pairs())
    X[i, i] += word[i]
    X[i, j] += X[i, k] * X[k + 1, j]
    Z[()] += X[1, n]

    :raises InvalidRecursion: from the new function, in one sentence that names the rule or the item.
    """

    @functools.wraps(page)
    def build(*args: Any, first: int = 1, **options: Any) -> Recursion:
        made = Recursion(page.__name__, first)
        page(made, *args, **options)
        lower(made)
        check_once(made)
        made.formulas = functools.partial(latex, made)
        return made

    return build
