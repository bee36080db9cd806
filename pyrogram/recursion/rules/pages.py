# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How a page of rules becomes a checked recursion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from .latex import latex
from .lowering import lower
from .recursions import Recursion


@overload
def recursion(page: Callable[..., None]) -> Callable[..., Recursion]: ...
@overload
def recursion(*, first: int) -> Callable[[Callable[..., None]], Callable[..., Recursion]]: ...
def recursion(page: Callable[..., None] | None = None, *, first: int = 1) -> Callable[..., Any]:
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

    :param page: the function. Its other parameters are those of the new function.
    :param first: the first position: 1 for words, 0 for fence posts, ``@recursion(first=0)``.
    :raises InvalidRecursion: from the new function, in one sentence that names the rule or the item.
    """
    if page is None:
        return functools.partial(recursion, first=first)
    written, begin = page, first

    @functools.wraps(written)
    def build(*args: Any, first: int = begin, **options: Any) -> Recursion:
        rules = Recursion(written.__name__, first)
        written(rules, *args, **options)
        rules.check_finished()
        lower(rules)
        rules.formulas = latex
        return rules

    return build
