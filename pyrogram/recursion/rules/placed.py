# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Items at words become items at symbols: a weight for each word says which symbol it is.

Before, of a phrase that is its own head h:

    X[j - 1, j, w[j]] += 1
    X[i, j, h] += X[i, k, h] * D[k, j, h]

After:

    X[j - 1, j, h'] += word.w.T[j, h']
    X[i, j, h] += X[i, k, h] * D[k, j, h]

So items lie side by side for sentences whose words differ. Weights at words stay as they are, and so do items at words
on right sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .language import Ref, Rule, Size, Variable, Word
from .recursions import Recursion, with_rules


@dataclass(frozen=True)
class WordWeight:
    """A weight that is one where the symbol is the word.

    :param words: the name of the words.
    :param size: of the axis of symbols.
    """

    words: str
    size: Size

    @property
    def name(self) -> str:
        """Of its table."""
        return f"word.{self.words}.{self.size}"

    def scores(self, words: Tensor, sizes: Mapping[str, int], dtype: torch.dtype) -> Tensor:
        """Its logarithms, ``(B, n + 1, size)``, for words ``(B, n)``."""
        symbols = torch.arange(sizes[self.size] if isinstance(self.size, str) else self.size, device=words.device)
        at = torch.nn.functional.pad(words, (1, 0))[..., None]
        return torch.where(at == symbols, 0.0, -torch.inf).to(dtype)


def placed(recursion: Recursion) -> tuple[Recursion, tuple[WordWeight, ...]]:
    """The recursion without words for symbols of items on left sides, and the weights that take their place."""
    weights: dict[str, WordWeight] = {}
    rules = [_placed(recursion, rule, weights) for rule in recursion.rules]
    if not weights:
        return recursion, ()
    return with_rules(recursion, rules, {name: (w.size,) for name, w in weights.items()}), tuple(weights.values())


def _placed(recursion: Recursion, rule: Rule, weights: dict[str, WordWeight]) -> Rule:
    symbols, added = list(rule.head.symbols), []
    for axis, (x, size) in enumerate(zip(symbols, recursion.tables[rule.head.table].sizes, strict=True)):
        if isinstance(x, Word):
            weight = WordWeight(x.words, size)
            weights[weight.name] = weight
            symbols[axis] = Variable(f"{x.words}.{axis}", size)
            added.append(Ref(weight.name, False, (x.position,), (symbols[axis],)))
    if not added:
        return rule
    return replace(rule, head=replace(rule.head, symbols=tuple(symbols)), factors=(*added, *rule.factors), written=None)
