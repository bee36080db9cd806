# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Utterances of words that come from a (hierarchical) Pitman-Yor process, the boundaries of words unknown.

The models of Goldwater, Griffiths and Johnson [1], with Dirichlet processes (a discount of 0), and of Mochihashi,
Yamada and Ueda [2], with Pitman-Yor processes; but symbols of new words are independent, as in [1]. The lexicon has no
bound, so there are no blocks, and the loops over grammars with blocks do not apply:
:class:`pyrogram.infer.SegmentationHastings` samples from the posterior. A model with a finite lexicon, for every loop,
is :func:`pyrogram.grammars.segmentation.unigram_grammar`.

**References:**

[1] Goldwater, Griffiths and Johnson (2009), "A Bayesian framework for word segmentation: Exploring the effects of
    context", Cognition 112
[2] Mochihashi, Yamada and Ueda (2009), "Bayesian unsupervised word segmentation with nested Pitman-Yor language
    modeling", https://aclanthology.org/P09-1012
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints

from pyrogram.checks import check_size
from pyrogram.restaurants.checks import as_tensor, parameters


class UnigramSegmentation:
    """Utterances of words that do not depend on one another.

    >>> grammar = UnigramSegmentation("abc", max_length=2)
    >>> utterances = grammar.encode(["abc", "ca"])
    >>> ends = grammar.boundaries([["ab", "c"], ["ca"]])
    >>> utterances.tolist(), ends.tolist()
    ([[0, 1, 2], [2, 0, -1]], [[0, 1, 1], [0, 1, -1]])
    >>> grammar.segments(utterances, ends)
    [['ab', 'c'], ['ca']]

    :param symbols: those that utterances are made of, phonemes for example; those that repeat count once.
    :param max_length: the most symbols of a word. A pass takes time in proportion to it.
    """

    #: 1: no word has a context.
    num_levels = 1

    def __init__(self, symbols: Iterable[str], max_length: int = 10):
        self.symbols = tuple(sorted(set(symbols)))
        self.max_length = check_size("max_length", max_length)
        check_size("the number of symbols", len(self.symbols))
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_symbols={self.num_symbols}, max_length={self.max_length})"

    @property
    def num_symbols(self) -> int:
        """S."""
        return len(self.symbols)

    def encode(self, forms: Sequence[Sequence[str]]) -> Tensor:
        """Utterances without boundaries as ids of symbols, shape ``(N, n)``, padded with -1.

        :raises ValueError: if an utterance is empty, or has a symbol that the grammar has not.
        """
        rows = []
        for i, form in enumerate(forms):
            unknown = [symbol for symbol in form if symbol not in self._ids]
            if unknown or not len(form):
                problem = f"the symbol {unknown[0]!r}, which the grammar has not" if unknown else "no symbols"
                raise ValueError(f"utterance {i} has {problem}; each must be made of the grammar's {self.num_symbols}")
            rows.append([self._ids[symbol] for symbol in form])
        return _padded(rows)

    def boundaries(self, segmentations: Iterable[Sequence[Sequence[str]]]) -> Tensor:
        """Where words end: 1 at the last symbol of each, 0 at others, shape ``(N, n)``, padded with -1."""
        return _padded([[int(i == len(w) - 1) for w in words for i in range(len(w))] for words in segmentations])

    def segments(self, utterances: Tensor, boundaries: Tensor) -> list[list[str]]:
        """The words of utterances; the inverse of :meth:`encode` and :meth:`boundaries`."""
        segments = []
        for row, ends in zip(utterances.tolist(), boundaries.tolist(), strict=True):
            words = [""]
            for symbol, is_end in zip(row, ends, strict=True):
                if symbol >= 0:
                    words[-1] += self.symbols[symbol]
                    words += [""] * (is_end == 1)
            segments.append([word for word in words if word])
        return segments


class BigramSegmentation(UnigramSegmentation):
    """Utterances of words each of which depends on the word before it; the utterance's end is a word, too.

    :param symbols: see :class:`UnigramSegmentation`, as for ``max_length``.
    """

    #: 2: all words, and those after a word.
    num_levels = 2


class SegmentedUtterances(TorchDistribution):
    """Utterances with all their segmentations, those of all utterances together; an observed site::

        pyro.sample("utterances", SegmentedUtterances(grammar, alpha, epsilon, stop=0.5, end=0.5), obs=utterances)

    A value is a tensor of symbols, shape ``(N, n)``, padded with -1. Words w are seen in the order of the utterances:

    * of a :class:`UnigramSegmentation`, w ~ PY(α, ε, P0), and after each word the utterance ends with probability
      ``end``;
    * of a :class:`BigramSegmentation`, w ~ G[word before], G[v] ~ PY(α[1], ε[1], G), G ~ PY(α[0], ε[0], P1). The
      utterance's end is one of the words, P1(end) = ``end``, P1(w) = (1 - ``end``) P0(w), and also what the first word
      of each utterance comes after.

    P0(w) = P(k) prod_i p(w_i) for a word of k symbols, of which P(k) is in proportion to (1 - ``stop``)^k, from 1 to
    the grammar's ``max_length``. The distributions G are integrated out.

    The probability of utterances, with all segmentations summed out, is intractable: ``log_prob`` is refused, and
    :class:`pyrogram.infer.SegmentationHastings` samples from the posterior.

    :param grammar: says whether words have contexts.
    :param concentration: α of each level, the coarsest first, greater than -ε, shape ``(L,)``; a number is that of all
        levels. It is the same for ``discount``, ε, from 0 (a Dirichlet process) to below 1.
    :param stop: the probability that a new word ends after a symbol, between 0 and 1.
    :param end: the probability of the utterance's end, between 0 and 1, see above.
    :param symbols: p, probabilities of symbols, shape ``(S,)``; uniform by default.
    :raises ValueError: if a shape does not fit or, with validation, if a number is out of range.
    """

    arg_constraints: dict[str, Any] = {}  # α > -ε is checked together

    def __init__(
        self,
        grammar: UnigramSegmentation,
        concentration: Any,
        discount: Any,
        *,
        stop: Any,
        end: Any,
        symbols: Any = None,
        validate_args: bool | None = None,
    ):
        L, S = grammar.num_levels, grammar.num_symbols
        values = {"concentration": concentration, "discount": discount, "stop": stop, "end": end}
        values["symbols"] = torch.full((S,), 1 / S, dtype=torch.float64) if symbols is None else symbols
        shapes = {"concentration": (L,), "discount": (L,), "stop": (), "end": (), "symbols": (S,)}
        tensors = {}
        for name, value in values.items():
            tensor = as_tensor(name, value, torch.float64)
            if tensor.shape != shapes[name] and (tensor.dim() or name == "symbols"):
                raise ValueError(f"{name} must have shape {shapes[name]}, not {tuple(tensor.shape)}")
            tensors[name] = tensor.expand(shapes[name])
        self.grammar, self.symbols = grammar, tensors["symbols"]
        self.concentration, self.discount = tensors["concentration"], tensors["discount"]
        self.stop, self.end = tensors["stop"], tensors["end"]
        super().__init__(torch.Size(), torch.Size([1, 1]), validate_args=validate_args)
        if self._validate_args:
            self._check()

    def _check(self) -> None:
        parameters(self.concentration, self.discount, self.grammar.num_levels)
        if not bool((self.concentration > -self.discount).all()):
            raise ValueError(f"concentration must be greater than -discount, not {self.concentration.tolist()}")
        for name in ("stop", "end"):
            if not 0 < float(getattr(self, name)) < 1:
                raise ValueError(f"{name} must be greater than 0 and less than 1, not {float(getattr(self, name))}")
        if not bool((self.symbols > 0).all()) or abs(float(self.symbols.sum()) - 1) > 1e-5:
            raise ValueError(f"symbols must be positive and sum to 1, not {self.symbols.tolist()[:10]}")

    @property
    def support(self) -> Any:
        """Symbols padded with -1."""
        return constraints.independent(constraints.integer_interval(-1, self.grammar.num_symbols - 1), 2)

    def log_prob(self, value: Tensor) -> Tensor:
        """
        :raises NotImplementedError: always.
        """
        raise NotImplementedError(
            "the probability of utterances with all segmentations summed out is intractable: sample segmentations with "
            "SegmentationHastings"
        )


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max((len(row) for row in rows), default=0)
    return torch.tensor([[*row, *[-1] * (longest - len(row))] for row in rows]).reshape(len(rows), longest)
