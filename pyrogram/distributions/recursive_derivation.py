# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of a grammar that is a recursion, as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.charts.checks import broadcast_shapes
from pyrogram.charts.trees import has_cycle
from pyrogram.event_map import joined
from pyrogram.grammar import Weights, checked_inputs
from pyrogram.operators import captured, object_of

from .charted import Recipe, Summed, conditional, differ, expected_score, traceable
from .constraints import RecursiveDerivations, Scores
from .row_derivation import RowDerivation
from .sentence import safe_log

if TYPE_CHECKING:
    from pyrogram.grammars.recursive import RecursiveGrammar


class RecursiveDerivation(RowDerivation):
    r"""p(y | x, w), the derivations y of given words x by a recursion.

    A value is a row of events, shape ``(L,)``: elements of the blocks, numbered block after block in C order, as they
    are met on the way down from the goal. A rule's own weights come first, then those of its items, from left to right.
    So a row is not in the order of the words: a chain that is filled from left to right has the last word's events
    first. :meth:`item_counts` has events by the place in the sentence, :meth:`heads` the heads of dependency trees.
    The row is padded with -1 on the right; L is the greatest number of events that a derivation of at most n words has.

    ``log_prob`` is conditional on the words, log p(y | x, w), in nats, never above 0; the joint is
    ``log_prob + log_partition``. Weights need not be normalised.

    :param grammar: the grammar.
    :param weights: non-negative, by block, shape ``(*batch, *block.shape)``.
    :param words: shape ``(*batch, n)``, padded with -1.
    :param log_weights: their logarithms, in place of ``weights``.
    :param evidence: logs of factors of items, or of uses of events, by name, see
        :meth:`.RecursiveGrammar.log_partition`.
    :raises ValueError: if shapes do not fit or, with validation, if a weight is negative, NaN or infinite.
    """

    grammar: RecursiveGrammar

    def __init__(
        self,
        grammar: RecursiveGrammar,
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
        words = checked_inputs(grammar, tables, words)
        self.grammar, self.words, self.evidence = grammar, words, dict(evidence or {})
        blocks = {name: tables[name] for name in grammar.blocks}
        self.weights = None if weights is None else blocks
        self._log_weights = blocks if weights is None else None
        batches = [blocks[name].shape[: blocks[name].dim() - len(b.shape)] for name, b in grammar.blocks.items()]
        batches += [t.shape[: t.dim() - grammar.num_axes(name)] for name, t in self.evidence.items()]
        self._own_batch = broadcast_shapes(words.shape[:-1], *batches)
        self._cache: dict[str, Any] = {}
        L = grammar.longest(words.shape[-1])
        super().__init__(self._own_batch, torch.Size([L]), validate_args=validate_args)
        if self._validate_args and not captured():
            for name, w in blocks.items():
                fits = (w >= 0) & (w < torch.inf) if weights is not None else Scores().check(w.detach())
                if not bool(fits.all()):
                    raise ValueError(f"weights must be non-negative and finite, but some of block {name!r} are not")

    @property
    def log_weights(self) -> Weights:
        """Log weights by block, shape ``(*batch, *block.shape)``; the gradient of a weight of zero is zero."""
        if self._log_weights is not None:
            return self._log_weights
        assert self.weights is not None
        return {name: safe_log(w) for name, w in self.weights.items()}

    @property
    def support(self) -> RecursiveDerivations:
        """Derivations of the words."""
        return RecursiveDerivations(self.grammar.traces, self.words)

    # ------------------------------------------------------------------ sums

    def _inputs(self) -> tuple[Tensor | None, ...]:
        tables = self.weights if self.weights is not None else self._log_weights or {}
        return (*tables.values(), self.words, *self.evidence.values())

    def _evidence(self, batch: torch.Size) -> dict[str, Tensor]:
        """Evidence on the B sentences of a batch, shape ``(B, ...)``."""
        tables = {}
        for name, t in self.evidence.items():
            shape = t.shape[t.dim() - self.grammar.num_axes(name) :]
            tables[name] = t.expand(*batch, *shape).reshape(batch.numel(), *shape)
        return tables

    def _summed(self) -> Summed:
        words = self.words.expand(*self._own_batch, self.words.shape[-1])
        program, inputs = self.grammar.summed(self.log_weights, words, self.evidence)
        return Summed(program.recursion, inputs, self._own_batch, {})

    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        dims = {name: len(block.shape) for name, block in self.grammar.blocks.items()} | {"words": 1}
        dims |= {f"evidence {name}": self.grammar.num_axes(name) for name in self.evidence}
        tensors = [*(self.log_weights[name] for name in self.grammar.blocks), self.words, *self.evidence.values()]
        constants = self.grammar.handle(), tuple(self.evidence), self._validate_args
        return (_derivation, constants, tuple(dims.items())), tensors

    def _posterior(self) -> tuple[Tensor, Weights]:
        """log Z and expected counts ``(*own batch, *shape)``, with a graph where gradients are wanted."""
        if captured():
            log_z, by_name = self._traced_gradient()
            return log_z, {name: by_name[name] for name in self.grammar.blocks}

        def compute() -> tuple[Tensor, Weights]:
            log_weights = self.log_weights
            if not (torch.is_grad_enabled() and any(w.requires_grad for w in log_weights.values())):
                wide = {n: w.expand(*self._own_batch, *self.grammar.blocks[n].shape) for n, w in log_weights.items()}
                tables = wide if self.evidence else log_weights
                return self.grammar.sentence_counts(tables, self.words, evidence=self.evidence)
            wide = {}
            for name, block in self.grammar.blocks.items():
                w = log_weights[name]
                leaf = w if w.requires_grad else w.detach().requires_grad_()
                wide[name] = leaf.expand(*self._own_batch, *block.shape)
            log_z = self.grammar.log_partition(wide, self.words, evidence=self.evidence)
            counts = torch.autograd.grad(log_z.sum(), list(wide.values()), create_graph=True)
            return log_z, dict(zip(wide, counts, strict=True))

        posterior: tuple[Tensor, Weights] = self._kept("posterior", compute)
        return posterior

    def _log_partition(self) -> Tensor:
        if not self.evidence:
            return self.grammar.log_partition(self.log_weights, self.words)
        words = self.words.expand(*self._own_batch, self.words.shape[-1])
        return self.grammar.log_partition(self.log_weights, words, evidence=self.evidence)

    def expected_counts(self) -> Weights:
        """E[f | x, w] of every event, shape ``(*batch_shape, *block.shape)`` by block."""
        counts = self._posterior()[1]
        return {n: c.clone().expand(*self.batch_shape, *self.grammar.blocks[n].shape) for n, c in counts.items()}

    def marginals(self) -> Tensor:
        """How often each event is expected, shape ``(*batch_shape, R)``: expected counts in the order of events."""
        return joined(self.expected_counts(), self.grammar.blocks)

    def entropy(self) -> Tensor:
        """Entropy in nats, shape ``batch_shape``; 0 for a sentence without any derivation."""
        log_z, counts = self._posterior()
        score = self._score(counts, self.log_weights)
        for name, items in self._expected_items(self.evidence).items():
            score = score + self._of_items(name, items, self.evidence[name])
        return torch.where(log_z == -torch.inf, 0.0, log_z - score).expand(self.batch_shape)

    def _expected_items(self, names: Iterable[str]) -> Weights:
        """How often items are expected at each place, by name, shape ``(*own batch, n + 1, ..., *sizes)``."""
        items = sorted(names)
        if not items:
            return {}
        words = self.words.expand(*self._own_batch, self.words.shape[-1])
        return self.grammar.item_counts(self.log_weights, words, *items, evidence=self.evidence)

    def _of_items(self, name: str, counts: Tensor, logs: Tensor) -> Tensor:
        """The sum over an item's places of counts times logs of factors."""
        return expected_score(counts, logs.to(counts), self.grammar.num_axes(name))

    def _score(self, counts: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Tensor:
        """Sum of counts times values of all blocks."""
        blocks = self.grammar.blocks.items()
        return torch.stack([expected_score(counts[name], values[name], len(b.shape)) for name, b in blocks]).sum(0)

    # ------------------------------------------------------------------ values

    def _validate_sample(self, value: Tensor) -> None:
        if captured():
            return
        valid = self.support.check(value)
        if not bool(valid.all()):
            first = int((~valid).flatten().nonzero()[0])
            row = value.expand(*valid.shape, value.shape[-1]).reshape(-1, value.shape[-1])[first].long().tolist()
            words = self.words.expand(*valid.shape, self.words.shape[-1]).reshape(-1, self.words.shape[-1])[first]
            ways = self.grammar.traces(words[words >= 0].tolist()).ways([x for x in row if x >= 0])
            if ways > 1:
                raise ValueError(
                    f"value {first}, {row}, is the row of more than one derivation of the words: give every rule that "
                    f"tells these apart a weight, so that the recursion has an event for the choice"
                )
            raise ValueError(f"values must be derivations of the words, but value {first}, {row}, is none")

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(y | x, w), in nats.

        Validation reads every row again in Python, some milliseconds for a sentence of ten words.

        :param value: shape ``(*sample, *batch, L)``, integers (floats with integral values will do).
        """
        if self._validate_args:
            self._validate_sample(value)
        score = self._score_of(value)
        for name, counts in self.item_counts(value, *self.evidence).items():
            score = score + self._of_items(name, counts, self.evidence[name]).to(score)
        return conditional(score, self.log_partition)

    def counts(self, value: Tensor) -> Weights:
        """f(x, y): how often each event is in given rows, shape ``(*value.shape[:-1], *block.shape)`` by block.

        :raises ValueError: if a row has what is no event; whether it is a derivation, ``support.check`` says.
        """
        R = self.grammar.num_events
        if not bool(((value >= -1) & (value < R)).all()):
            raise ValueError(f"values must be rows of events, 0..{R - 1}, and then -1, but some are not")
        return self._counts_of(value)

    def item_counts(self, value: Tensor, *names: str) -> dict[str, Tensor]:
        """How often items, or events of blocks, are at each place of given derivations, float64, by name.

        Rows have events in the order of the rules. Here they are in the order of the words. The shape of each tensor is
        ``(*value.shape[:-1], n + 1, ..., *sizes)``: positions first, those of words (``w[i]`` stands for i), then
        symbols. :meth:`.RecursiveGrammar.item_counts` has the expected numbers. Rows are read in Python, one by one.

        :param value: rows of events, shape ``(*sample, *batch, L)``; a row of -1 alone has no items.
        :param names: of items or blocks.
        :raises ValueError: if a row is no derivation of its words, or if there is no such item or block.
        """
        return self.grammar.items_of(self.words, value, names) if names else {}

    def heads(self, value: Tensor, **arcs: tuple[int, int]) -> Tensor:
        """The heads of words in given derivations, as in CoNLL, shape ``(*value.shape[:-1], n)``.

        A head is a position, 1 .. n. It is 0 for a root, a word that no arc leads to, and -1 where there is no word or
        no derivation.

        :param value: rows of events, see :meth:`item_counts`.
        :param arcs: by name, items or blocks that a derivation has once for each arc, and which of their positions,
            from 0 on, are those of the head and of the dependent. ``attach=(0, 1)`` is right for rules with
            ``attach[w[i], 1, w[j]]`` and ``attach[w[j], 0, w[i]]``: the first word is the head. ``A=(0, 1), B=(1, 0)``
            is right for items ``A[i, j]`` with the head at i, and ``B[i, j]`` with the head at j.
        :raises ValueError: if a row is no derivation of its words, if an item or a block has no such positions, or if
            the arcs of a row are no tree.
        """
        if not arcs:
            raise ValueError(
                "heads needs the name of an item or a block that has the arcs, as in heads(rows, attach=(0, 1))"
            )
        n, counts = self.words.shape[-1], self.item_counts(value, *arcs)
        total = torch.zeros(n + 1, n + 1, dtype=torch.float64, device=value.device)
        for name, pair in arcs.items():
            positions, sizes = self.grammar.item_axes(name)
            if len({*pair} & {*range(positions)}) != 2:
                raise ValueError(f"{name}={pair} must be two of the {positions} positions of {name}, counted from 0")
            front = counts[name].dim() - positions - len(sizes)
            between = counts[name].movedim([front + place for place in pair], [front, front + 1])
            total = total + between.reshape(*between.shape[:front], n + 1, n + 1, -1).sum(-1)
        number = total.sum(-2)[..., 1:]  # of heads of each word
        heads = (total * torch.arange(n + 1, device=value.device)[:, None]).sum(-2)[..., 1:].long()
        wrong = (number > 1).any(-1) | has_cycle(torch.where(number > 1, 0, heads))
        if bool(wrong.any()):
            raise ValueError(
                f"the arcs of value {int(wrong.flatten().nonzero()[0])} are no tree, for a word has two heads or is "
                f"below itself: look at which positions of {' and '.join(arcs)} are those of head and dependent"
            )
        return torch.where((self.words >= 0) & (value[..., :1] >= 0), heads, -1)

    def parts(self, value: Tensor) -> Tensor:
        """How often each event is in given rows, in the shape of :meth:`marginals`."""
        return joined(self.counts(value), self.grammar.blocks)

    def _draw(self, batch: torch.Size, number: int) -> Tensor:
        flat = self.grammar.flat(self.log_weights, batch)
        return self.grammar.draw(flat, self._sentences(batch), number, evidence=self._evidence(batch))

    def _sentences(self, batch: torch.Size) -> Tensor:
        n = self.words.shape[-1]
        return self.words.expand(*batch, n).reshape(batch.numel(), n)

    # ------------------------------------------------------------------ decoding

    def _best(self, k: int) -> tuple[Tensor, Tensor]:
        return self._best_of(self.log_weights, k, self._evidence(self._own_batch))

    def _best_of(
        self, log_weights: Mapping[str, Tensor], k: int, evidence: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        flat = self.grammar.flat(log_weights, self._own_batch)
        return self.grammar.best(flat, self._sentences(self._own_batch), k, evidence=evidence)

    @traceable
    def mbr(self) -> Tensor:
        """The derivation of least expected loss (minimum Bayes risk), shape ``(*batch_shape, L)``; -1 where none is.

        It has the greatest sum of f(y) E[f] over all events: the most expected pairs of an event of y and an equal
        event of the true derivation, wherever in the sentence they are. So long derivations lose less than short ones.
        """
        with torch.no_grad():
            counts = self._posterior()[1]
            gains = {n: torch.where(c > 0, c, -torch.inf) for n, c in counts.items()}  # what is impossible stays so
            allowed = {n: torch.where(t > -torch.inf, 0.0, t) for n, t in self._evidence(self._own_batch).items()}
            return self._wide(self._best_of(gains, 1, allowed)[1][0], ())

    def _listed(self, words: Tensor) -> Tensor:
        rows = self.grammar.traces([w for w in words[0].tolist() if w >= 0]).rows()
        if len(set(rows)) < len(rows):
            raise NotImplementedError(
                "two derivations have the same events in the same order, so rows of events do not tell them apart"
            )
        L = self.event_shape[0]
        return torch.tensor([[*row, *[-1] * (L - len(row))] for row in rows], dtype=torch.long).reshape(len(rows), L)


def _derivation(handle: int, evidence: tuple[str, ...], validate: bool) -> Callable[..., RecursiveDerivation]:
    """From log weights by block, words and evidence by name to the distribution, for a grammar of that number."""

    def build(*tensors: Tensor) -> RecursiveDerivation:
        grammar = object_of(handle)
        size = len(grammar.blocks)
        return RecursiveDerivation(
            grammar,
            None,
            tensors[size],
            log_weights=dict(zip(grammar.blocks, tensors, strict=False)),
            evidence=dict(zip(evidence, tensors[size + 1 :], strict=True)),
            validate_args=validate,
        )

    return build


@register_kl(RecursiveDerivation, RecursiveDerivation)
def _kl(p: RecursiveDerivation, q: RecursiveDerivation) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if p.grammar.identity != q.grammar.identity:
        raise NotImplementedError("p and q are over derivations of different grammars")
    if p.words.shape[-1] != q.words.shape[-1] or differ(p.words, q.words):
        raise NotImplementedError("p and q are over derivations of different sentences, so the divergence is infinite")
    logs, others = p.log_weights, q.log_weights
    differences = {name: logs[name] - others[name] for name in logs}
    total = q.log_partition - p.log_partition + p._score(p._posterior()[1], differences)
    for name, counts in p._expected_items({*p.evidence, *q.evidence}).items():
        bonus, other = (x.evidence.get(name, torch.zeros(())).to(counts) for x in (p, q))
        total = total + p._of_items(name, counts, bonus - other)
    return torch.where(q.log_partition == -torch.inf, torch.inf, total)
