# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations as rows of integers: what those of rules, of recursions and of subtypes have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.checks import broadcast_shapes
from pyrogram.event_map import first_events, joined
from pyrogram.grammar import Weights, checked_inputs
from pyrogram.operators import captured, object_of
from pyrogram.printable import plural

from .charted import Recipe, Summed, differ
from .constraints import Scores
from .sentence import safe_log
from .structured import StructuredDistribution, divergence

MOST_ENUMERATED = 10_000


class RowDerivation(StructuredDistribution):
    """p(y | x, w); a value is a row of integers, shape ``(L,)``, padded with -1 on the right: events, unless it says.

    ``log_prob`` is conditional on the words, log p(y | x, w), in nats, never above 0; the joint is
    ``log_prob + log_partition``. Weights need not be normalised.

    :param grammar: the grammar.
    :param weights: non-negative, by block, shape ``(*batch, *block.shape)``; a batch is one grammar per sentence.
    :param words: shape ``(*batch, n)``, padded with -1.
    :param log_weights: their logarithms, in place of ``weights``.
    :param evidence: by name, as log Z of the grammar takes it.
    :raises ValueError: if shapes do not fit or, with validation, if a weight is negative, NaN or infinite.
    """

    arg_constraints: dict[str, Any] = {}
    has_enumerate_support = True
    grammar: Any
    support: Any

    def __init__(
        self,
        grammar: Any,
        weights: Mapping[str, Tensor] | None,
        words: Tensor,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
        evidence: Mapping[str, Tensor] | None = None,
        validate_args: bool | None = None,
    ):
        if (weights is None) == (log_weights is None):
            raise ValueError("give either weights or log_weights")
        tables = weights if weights is not None else log_weights or {}
        words = checked_inputs(grammar, tables, words, argument="log_weights" if weights is None else "weights")
        self.grammar, self.words, self.evidence = grammar, words, dict(evidence or {})
        self._tables = {name: tables[name] for name in grammar.blocks}  # weights, or their logarithms
        self.weights = None if weights is None else self._tables
        batches = [w.shape[: w.dim() - self._dims(name)] for name, w in self._tables.items()]
        for name, t in self.evidence.items():
            if (axes := self._num_axes(name)) > t.dim():
                raise ValueError(f"evidence on {name} must have {plural(axes, 'dimension')} at least, not {t.dim()}")
            batches.append(t.shape[: t.dim() - axes])
        self._own_batch = broadcast_shapes(words.shape[:-1], *batches)
        self._cache: dict[str, Any] = {}
        length = self._length(words.shape[-1])
        super().__init__(self._own_batch, torch.Size([length]), validate_args=validate_args)
        if self._validate_args and not captured():
            for name, w in self._tables.items():
                if weights is None and not Scores().holds(w.detach()):
                    raise ValueError(f"log_weights must be real numbers or -inf, but some of block {name!r} are not")
                if weights is not None and not bool(((w >= 0) & (w < torch.inf)).all()):
                    raise ValueError(f"weights must be non-negative and finite, but some of block {name!r} are not")

    @property
    def log_weights(self) -> Weights:
        """Log weights by block, shape ``(*batch, *block.shape)``; the gradient of a weight of zero is zero."""
        return self._tables if self.weights is None else {name: safe_log(w) for name, w in self.weights.items()}

    # ------------------------------------------------------------------ what a kind of derivations must say

    def _length(self, n: int) -> int:
        """The width L of derivations of n words."""
        return int(self.grammar.longest(n))

    def _num_axes(self, name: str) -> int:
        """How many axes the evidence of a name has, besides the batch's."""
        raise NotImplementedError

    def _log_factors(self, value: Tensor) -> Tensor:
        """The sum of the logs of the factors that derivations have by evidence; of what is none, any."""
        raise NotImplementedError

    @abstractmethod
    def _is_alike(self, other: Any) -> bool:
        """Whether another distribution is over derivations of the same grammar."""

    def _divergence(self, other: Any, total: Tensor) -> Tensor:
        """KL(p || q), from that without factors of evidence, +inf where p allows what q forbids."""
        return total

    @abstractmethod
    def _refusal(self, first: int, row: list[float], words: Tensor) -> str:
        """What is wrong with a value that is no derivation of its words."""

    @abstractmethod
    def _listed(self, words: Tensor) -> Tensor:
        """All derivations of one sentence, shape ``(T, at most L)``.

        :param words: shape ``(1, n)``.
        :raises NotImplementedError: if rows do not tell derivations apart.
        """

    @property
    def _scores(self) -> Weights:
        return self.log_weights

    def _dims(self, name: str) -> int:
        return len(self.grammar.blocks[name].shape)

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        blocks = self.grammar.blocks
        inside = {name: (first, first + blocks[name].shape.numel()) for name, first in first_events(blocks).items()}
        return {n: torch.where((value >= a) & (value < b), value - a, -1) for n, (a, b) in inside.items()}

    @property
    def _logs(self) -> Tensor:
        """Log weights of all events, shape ``(*batch, R)``."""
        return joined(self.log_weights, self.grammar.blocks)

    # ------------------------------------------------------------------ sums

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return (*self._tables.values(), self.words, *self.evidence.values())

    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        dims = {name: len(block.shape) for name, block in self.grammar.blocks.items()} | {"words": 1}
        dims |= {f"evidence {name}": self._num_axes(name) for name in self.evidence}
        tensors = [*(self.log_weights[name] for name in self.grammar.blocks), self.words, *self.evidence.values()]
        constants = type(self), self.grammar.handle(), tuple(self.evidence), self._validate_args
        return (_derivation, constants, tuple(dims.items())), tensors

    def _wide_words(self) -> Tensor:
        """The words of each sentence of the own batch."""
        return self.words.expand(*self._own_batch, self.words.shape[-1])

    def _evidence(self, batch: torch.Size) -> dict[str, Tensor]:
        """Evidence on the B sentences of a batch, shape ``(B, ...)``."""
        tables = {}
        for name, t in self.evidence.items():
            shape = t.shape[t.dim() - self._num_axes(name) :]
            tables[name] = t.expand(*batch, *shape).reshape(batch.numel(), *shape)
        return tables

    def _summed(self) -> Summed:
        recursion, inputs, symbols = self.grammar.summed(self.log_weights, self._wide_words(), self.evidence)
        return Summed(recursion, inputs, self._own_batch, symbols)

    @property
    def _known(self) -> dict[str, Any]:
        """Evidence, if there is any, as methods of grammars take it."""
        return {"evidence": self.evidence} if self.evidence else {}

    def _log_partition(self) -> Tensor:
        words = self._wide_words() if self.evidence else self.words
        log_z: Tensor = self.grammar.log_partition(self.log_weights, words, **self._known)
        return log_z

    def _posterior(self) -> tuple[Tensor, Weights]:
        """log Z and expected counts ``(*own batch, *shape)``, with a graph where gradients are wanted."""
        if captured():
            log_z, by_name = self._traced_gradient()
            return log_z, {name: by_name[name] for name in self.grammar.blocks}

        def compute() -> tuple[Tensor, Weights]:
            logs, wide = self.log_weights, Weights()
            with_graph = torch.is_grad_enabled() and any(w.requires_grad for w in logs.values())
            for name, block in self.grammar.blocks.items():
                w = logs[name] if logs[name].requires_grad or not with_graph else logs[name].detach().requires_grad_()
                wide[name] = w.expand(*self._own_batch, *block.shape)
            if not with_graph:
                tables = wide if self.evidence else logs
                log_z_and_counts: tuple[Tensor, Weights]
                log_z_and_counts = self.grammar.sentence_counts(tables, self.words, **self._known)
                return log_z_and_counts
            log_z = self.grammar.log_partition(wide, self.words, **self._known)
            counts = torch.autograd.grad(log_z.sum(), list(wide.values()), create_graph=True)
            return log_z, dict(zip(wide, counts, strict=True))

        posterior: tuple[Tensor, Weights] = self._kept("posterior", compute)
        return posterior

    def _posteriors(self) -> tuple[Tensor, ...]:
        log_z, counts = self._posterior()
        return log_z, *counts.values()

    # ------------------------------------------------------------------ values

    def _validate_sample(self, value: Tensor) -> None:
        if captured():
            return
        valid = self.support.check(value)
        if not bool(valid.all()):
            first = int((~valid).flatten().nonzero()[0])
            wide = (x.expand(*valid.shape, x.shape[-1]).reshape(-1, x.shape[-1]) for x in (value, self.words))
            row, words = (x[first] for x in wide)
            raise ValueError(self._refusal(first, row.tolist(), words))

    def _log_weight(self, value: Tensor) -> Tensor:
        """The log weight of derivations, without factors of evidence."""
        return super()._score(value)

    def _score(self, value: Tensor) -> Tensor:
        log_weight = self._log_weight(value)
        return log_weight + self._log_factors(value).to(log_weight) if self.evidence else log_weight

    def _draw(self, batch: torch.Size, number: int) -> Tensor:
        """Derivations of each of the B sentences of a batch, shape ``(number, B, at most L)``."""
        flat = self.grammar.expanded(self.log_weights, batch)
        drawn: Tensor = self.grammar.draw(flat, self._sentences(batch), number, evidence=self._evidence(batch))
        return drawn

    def _best(self, k: int) -> tuple[Tensor, Tensor]:
        """Log weights of the k best of the own batch, with factors, ``(k, B)``; rows ``(k, B, at most L)``."""
        return self._best_of(self.log_weights, k, self._evidence(self._own_batch))

    def _best_of(
        self, log_weights: Mapping[str, Tensor], k: int, evidence: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The same of other weights and factors.

        :param evidence: shape ``(B, ...)``.
        """
        flat, words = self.grammar.expanded(log_weights, self._own_batch), self._sentences(self._own_batch)
        best: tuple[Tensor, Tensor] = self.grammar.best(flat, words, k, evidence=evidence)
        return best

    def _sentences(self, batch: torch.Size) -> Tensor:
        """Words of each of the B sentences of a batch, shape ``(B, n)``."""
        return self.words.expand(*batch, self.words.shape[-1]).reshape(batch.numel(), self.words.shape[-1])

    def _padded(self, rows: Tensor) -> Tensor:
        """In the width of this distribution's values."""
        return torch.nn.functional.pad(rows.to(self.words.device), (0, self.event_shape[0] - rows.shape[-1]), value=-1)

    def _wide(self, rows: Tensor, front: tuple[int, ...]) -> Tensor:
        """Derivations ``(*front, B, L)`` of the own batch, as a copy in the shape of the whole."""
        extra = (1,) * (len(self.batch_shape) - len(self._own_batch))
        rows = self._padded(rows).reshape(*front, *extra, *self._own_batch, self.event_shape[0])
        return rows.expand(*front, *self.batch_shape, -1).clone()

    def _sample(self, count: int) -> Tensor:
        leading = self.batch_shape[: len(self.batch_shape) - len(self._own_batch)]
        # A plate in front only asks for more draws; a dimension of size one that was expanded for more sentences.
        if self.batch_shape[len(leading) :] == self._own_batch:
            return self._padded(self._draw(self._own_batch, count * leading.numel()))
        return self._padded(self._draw(self.batch_shape, count))

    def _top_k(self, k: int) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            scores, rows = self._best(k)
            front = (1,) * (len(self.batch_shape) - len(self._own_batch))
            scores = scores.to(next(iter(self._tables.values()))).reshape(k, *front, *self._own_batch)
            return self._wide(rows, (k,)), scores.expand(k, *self.batch_shape)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All derivations, those of weight zero too, shape ``(T, *batch_shape, L)``, or ``(T, 1, .., 1, L)``.

        :raises NotImplementedError: for more than 10,000 derivations, if not all sentences are the same, or if two
            derivations have the same events in the same order.
        """
        sentences = self.words.reshape(-1, self.words.shape[-1])
        if len(sentences) == 0 or not bool((sentences == sentences[0]).all()):
            raise NotImplementedError("different sentences have no common support to enumerate")
        ones = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in self.grammar.blocks.items()}
        number = float(self.grammar.log_partition(ones, sentences[:1].cpu())[0])
        if number > math.log(MOST_ENUMERATED):
            raise NotImplementedError(
                f"there are too many derivations to enumerate, about {math.exp(min(number, 600)):.3g}; "
                f"the limit is {MOST_ENUMERATED}"
            )
        rows = self._padded(self._listed(sentences[:1]))
        rows = rows.reshape(len(rows), *(1,) * len(self.batch_shape), self.event_shape[0])
        return rows.expand(-1, *self.batch_shape, -1) if expand else rows


def _derivation(
    kind: type[RowDerivation], handle: int, evidence: tuple[str, ...], validate: bool
) -> Callable[..., RowDerivation]:
    """From log weights by block, words and evidence by name to the distribution, for a grammar of that number."""

    def build(*tensors: Tensor) -> RowDerivation:
        grammar = object_of(handle)
        size = len(grammar.blocks)
        logs, known = tensors[:size], tensors[size + 1 :]
        return kind(
            grammar,
            None,
            tensors[size],
            log_weights=dict(zip(grammar.blocks, logs, strict=True)),
            evidence=dict(zip(evidence, known, strict=True)),
            validate_args=validate,
        )

    return build


@register_kl(RowDerivation, RowDerivation)
def _kl(p: RowDerivation, q: RowDerivation) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if type(p) is not type(q) or not p._is_alike(q):
        raise NotImplementedError("p and q are over derivations of different grammars")
    if p.words.shape[-1] != q.words.shape[-1] or differ(p.words, q.words):
        raise NotImplementedError("p and q are over derivations of different sentences, so the divergence is infinite")
    return torch.where(q.log_partition == -torch.inf, torch.inf, p._divergence(q, divergence(p, q)))
