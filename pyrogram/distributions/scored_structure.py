# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What distributions over structures of scored parts have in common, whichever recursion sums over them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.charts.checks import broadcast
from pyrogram.operators import captured
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram
from pyrogram.recursion.torch.semirings import Logarithms

from .charted import Options, Recipe, Summed, differ, structure, traceable
from .constraints import Scores
from .labellings import best_labellings
from .structured import StructuredDistribution, divergence

MOST_ENUMERATED = 10_000


class ScoredStructure(StructuredDistribution):
    """Structures of given sentences, with p(structure) in proportion to exp(sum of the scores of its parts).

    A structure is a table of cells, such as the spans of a sentence. A cell holds the label of the part that is there,
    or -1 if there is none. A subclass says which recursion sums over structures and how scores become its weights;
    here is all that follows.

    :param scores: by name, each shape ``(*batch, *event)``; the first is that of cells, shape ``(*batch, *cells, L)``,
        or without the axis of labels,
        unless a subclass says otherwise. None for a table that is not given.
    :param event_dims: how many dimensions of each are not the batch's.
    :param cells: shape of a structure.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param num_labels: L.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_enumerate_support = True

    lengths: Tensor
    _is_labelled = True  # whether scores were given with the axis of labels
    _labels_are_independent = True  # so that they are summed out, and the recursion is of structures without labels

    def __init__(
        self,
        scores: Mapping[str, Tensor | None],
        event_dims: Mapping[str, int],
        cells: tuple[int, ...],
        num_labels: int,
        lengths: Tensor | None,
        validate_args: bool | None,
    ):
        # As they were given: a view of a tensor that needs gradients could not be copied.
        self._tables = tables = {name: x for name, x in scores.items() if x is not None}
        first = next(iter(tables.values()))
        for name, x in tables.items():
            if not x.is_floating_point():
                raise ValueError(f"{name} scores must be floating-point numbers, not {x.dtype}")
            if x.dtype != first.dtype:
                raise ValueError(f"{name} scores are {x.dtype} but others are {first.dtype}; make them the same")
        n = cells[0]
        self._all_full = lengths is None
        if lengths is None:
            lengths = torch.full((), n, dtype=torch.long, device=first.device)
        elif lengths.is_floating_point() or not (captured() or bool(((lengths >= 1) & (lengths <= n)).all())):
            raise ValueError(f"lengths must be integers in 1..{n}, the number of words of the longest sentence")
        self._event_dims, self.num_labels = dict(event_dims), num_labels
        self.lengths = lengths.long()
        self._own_batch = broadcast(
            self.lengths.shape, *(x.shape[: x.dim() - event_dims[name]] for name, x in self._scores.items())
        )
        self._cache: dict[str, Any] = {}
        validate = self._validate_args if validate_args is None else validate_args
        super().__init__(self._own_batch, torch.Size(cells), validate_args=False)
        self._validate_args = validate
        if validate:
            for name, x in tables.items():
                if not Scores().holds(x):
                    raise ValueError(f"{name} scores must be real numbers or -inf, but some are NaN or +inf")

    # ------------------------------------------------------------------ what a subclass says

    @property
    @abstractmethod
    def _program(self) -> TensorProgram:
        """The recursion that sums over structures."""

    @abstractmethod
    def _weights(self, scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The recursion's log weights from scores ``(B, *event)``; independent labels are summed out already."""

    @abstractmethod
    def _inside(self, lengths: Tensor) -> Tensor:
        """The cells that lie within sentences of these lengths, ``(*lengths.shape, *cells)``."""

    @property
    @abstractmethod
    def _trace(self) -> Trace:
        """The number of each weight that is a part: its cell, from one on, times the number of labels, plus the label.

        Where labels are independent, the cell, from one on.
        """

    @property
    @abstractmethod
    def _most_parts(self) -> int:
        """The greatest number of parts of a structure."""

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        """The elements of each table of scores that a structure is made of, in C order; -1 for none."""
        cells = torch.arange(self.event_shape.numel(), device=value.device).reshape(self.event_shape)
        index = torch.where(value >= 0, cells * self.num_labels + value, -1)
        return {next(iter(self._scores)): index.flatten(value.dim() - len(self.event_shape))}

    # ------------------------------------------------------------------ sums

    @property
    def _scores(self) -> dict[str, Tensor]:
        """By name, with the axis of labels."""
        first = next(iter(self._tables))
        return self._tables if self._is_labelled else {**self._tables, first: self._tables[first][..., None]}

    def _dims(self, name: str) -> int:
        return self._event_dims[name]

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return (*self._tables.values(), self.lengths)

    def _wide(self, batch: torch.Size) -> dict[str, Tensor]:
        """Scores of every sentence."""
        return {n: x.expand(*batch, *x.shape[x.dim() - self._event_dims[n] :]) for n, x in self._scores.items()}

    def _narrow(self, batch: torch.Size) -> dict[str, Tensor]:
        """The same, but the scores that all sentences share are there once: exponentiated once, they are numbers."""
        tables: dict[str, Tensor] = {}
        for n, x in self._wide(batch).items():
            event = self._scores[n].shape[self._scores[n].dim() - self._event_dims[n] :]
            is_shared = tables and self._scores[n].numel() == event.numel()  # those of cells are of each sentence
            tables[n] = self._scores[n].reshape(event) if is_shared else x
        return tables

    def _given(
        self, scores: Mapping[str, Tensor], *, best: bool = False, lengths: Tensor | None = None
    ) -> TensorInputs:
        """What the recursion is run on.

        :param scores: of every sentence, ``(*batch, *event)``.
        :param best: whether labels are maximised rather than summed out.
        :param lengths: ``batch``, other than the distribution's.
        """
        flat = {name: x.reshape(-1, *x.shape[x.dim() - self._event_dims[name] :]) for name, x in scores.items()}
        name, first = next(iter(scores.items()))
        batch = first.shape[: first.dim() - self._event_dims[name]]
        lengths = (self.lengths.expand(batch) if lengths is None else lengths).reshape(-1)
        # Sums over labels read all cells; no other sum reads the padding, but the greatest score says how it is done.
        if not self._all_full or (self._labels_are_independent and self.num_labels > 1):
            outside = ~self._inside(lengths)
            outside = outside.reshape(outside.shape + (1,) * (flat[name].dim() - outside.dim()))
            flat[name] = flat[name].masked_fill(outside, -torch.inf)
        if self._labels_are_independent and self.num_labels == 1:
            flat[name] = flat[name][..., 0]
        elif self._labels_are_independent:
            flat[name] = flat[name].amax(-1) if best else Logarithms().total(flat[name], (-1,))
        return TensorInputs(self._weights(flat), lengths, {}, self._sizes)

    @property
    def _sizes(self) -> dict[str, int]:
        """Of symbols."""
        return {} if self._labels_are_independent else {"L": self.num_labels}

    def _sum(self, scores: Mapping[str, Tensor]) -> Tensor:
        """log Z, shape ``own batch``."""
        return self._program.log_partition(self._given(scores)).reshape(self._own_batch)

    def _summed(self) -> Summed:
        inputs = self._given(self._narrow(self._own_batch))
        return Summed(self._program.recursion, inputs, self._own_batch, {})

    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        first, *others = self._scores
        names = {first: "scores", **{name: f"{name}_scores" for name in others}}
        tensors = {names[name]: x for name, x in self._tables.items()}
        dims = {names[name]: self._event_dims[name] for name in self._scores}
        dims["scores"] -= not self._is_labelled
        if not self._all_full:
            tensors["lengths"], dims["lengths"] = self.lengths, 0
        options = (*self._options, ("validate_args", self._validate_args))
        return (structure, (type(self), tuple(tensors), options), tuple(dims.items())), list(tensors.values())

    @property
    @abstractmethod
    def _options(self) -> Options:
        """Arguments of the constructor besides scores and lengths."""

    def _log_partition(self) -> Tensor:
        return self._sum(self._narrow(self._own_batch))

    def _posterior(self) -> tuple[Tensor, ...]:
        """log Z and its gradient by the scores of every sentence, with a graph where gradients are wanted."""
        if captured():
            log_z, by_name = self._traced_gradient()
            first, *others = self._scores
            counts = by_name["scores"] if self._is_labelled else by_name["scores"][..., None]
            return log_z, counts, *(by_name[f"{name}_scores"] for name in others)

        def compute() -> tuple[Tensor, ...]:
            graph = torch.is_grad_enabled() and any(x.requires_grad for x in self._scores.values())
            with torch.inference_mode(False), torch.enable_grad():
                wide = {}
                for name, x in self._wide(self._own_batch).items():
                    leaf = x.clone() if x.is_inference() else x.detach()
                    wide[name] = x if graph and x.requires_grad else leaf.requires_grad_()
                log_z = self._sum(wide)
                counts = torch.autograd.grad(log_z.sum(), list(wide.values()), create_graph=graph)
            return log_z if graph else log_z.detach(), *counts

        posterior: tuple[Tensor, ...] = self._kept("posterior", compute)
        return posterior

    def expected_counts(self) -> dict[str, Tensor]:
        return {name: self._as_given(counts, name) for name, counts in super().expected_counts().items()}

    def _as_given(self, table: Tensor, name: str) -> Tensor:
        """A table in the shape in which the scores were given."""
        return table if self._is_labelled or name != next(iter(self._scores)) else table[..., 0]

    def marginals(self) -> Tensor:
        """p(a cell holds a label), in the shape of the scores, ``(*batch_shape, *cells, L)`` or without L."""
        return next(iter(self.expected_counts().values()))

    # ------------------------------------------------------------------ values

    @property
    def scores(self) -> Tensor:
        """Of cells, as they were given."""
        return next(iter(self._tables.values()))

    @property
    def dtype(self) -> torch.dtype:
        """Of the scores."""
        return self.scores.dtype

    def counts(self, value: Tensor) -> dict[str, Tensor]:
        return {name: self._as_given(counts, name) for name, counts in super().counts(value).items()}

    def parts(self, value: Tensor) -> Tensor:
        """The cells and labels of structures as zeros and ones, in the shape of :meth:`marginals`."""
        return next(iter(self.counts(value).values())).long()

    def _parts(self, rows: Tensor) -> Tensor:
        """Numbers of parts, with cells from zero on, from those of the recursion's derivations; -1 for none."""
        labels = 1 if self._labels_are_independent else self.num_labels
        return torch.where(rows >= 0, rows - labels, -1).to(self.lengths.device)

    def _read(self, rows: Tensor) -> Tensor:
        """Structures (..., *cells) from the numbers of their parts (..., parts), -1 for none."""
        size = self.event_shape.numel()
        value = rows.new_full((*rows.shape[:-1], size + 1), -1)
        labels = torch.where(rows >= 0, rows % self.num_labels, -1)
        value.scatter_(-1, torch.where(rows >= 0, rows // self.num_labels, size), labels)
        cells: Tensor = value[..., :size].unflatten(-1, self.event_shape)
        return cells

    def _scores_at(self, rows: Tensor, scores: Tensor) -> Tensor:
        """Scores of the labels of cells (..., B, parts, L); zero for the one label of what is no part.

        :param rows: cells, shape ``(..., B, parts)``.
        """
        flat = scores.reshape(-1, self.event_shape.numel(), self.num_labels)
        index = rows.clamp_min(0)[..., None].expand(*rows.shape, self.num_labels)
        values = flat.expand(*rows.shape[:-1], *flat.shape[1:]).gather(-2, index)
        nothing = torch.full_like(values, -torch.inf)
        nothing[..., 0] = 0.0
        return torch.where((rows >= 0)[..., None], values, nothing)

    def _sample(self, count: int) -> Tensor:
        leading = self.batch_shape[: len(self.batch_shape) - len(self._own_batch)]
        # A plate in front only asks for more draws; a dimension of size one that was expanded for more sentences.
        simple = self.batch_shape[len(leading) :] == self._own_batch
        batch = self._own_batch if simple else self.batch_shape
        number = count * leading.numel() if simple else count
        scores = self._narrow(batch)
        rows = self._program.draw(self._given(scores), number, self._trace, self._most_parts)
        rows = self._parts(rows)
        if self._labels_are_independent and self.num_labels > 1:
            logits = self._scores_at(rows, next(iter(scores.values())))
            labels = torch.distributions.Categorical(logits=logits, validate_args=False).sample()
            rows = torch.where(rows >= 0, rows * self.num_labels + labels, -1)
        return self._read(rows).reshape(count, *self.batch_shape, *self.event_shape)

    # ------------------------------------------------------------------ decoding

    def _best(self, scores: Mapping[str, Tensor], k: int, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The k best structures under scores ``(*batch, *event)``: their scores ``(k, B)`` and parts."""
        inputs = self._given(scores, best=True, lengths=lengths)
        values, rows = self._program.best(inputs, k, self._trace, self._most_parts)
        values, rows = values.to(self.lengths.device, self.dtype), self._parts(rows)
        if not self._labels_are_independent or self.num_labels == 1:
            return values, rows
        # A structure that is not among the k best has k others before it, even with its best labels.
        at = self._scores_at(rows, next(iter(scores.values())))
        totals, labels = best_labellings(at, k)  # (k, B, k), (k, B, k, parts)
        totals = torch.where(values[..., None] > -torch.inf, totals.to(values), -torch.inf)
        values, chosen = totals.movedim(0, -2).flatten(-2).topk(k, -1)  # of each sentence
        parts = torch.where(rows[..., None, :] >= 0, rows[..., None, :] * self.num_labels + labels, -1)
        parts = parts.movedim(0, 1).flatten(1, 2)  # (B, k * k, parts)
        rows = parts.gather(1, chosen[..., None].expand(*chosen.shape, parts.shape[-1]))
        rows = torch.where(values[..., None] > -torch.inf, rows, -1)
        return values.movedim(-1, 0), rows.movedim(1, 0)

    def _top_k(self, k: int) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            scores, rows = self._best(self._narrow(self.batch_shape), k)
        structures = self._read(rows).reshape(k, *self.batch_shape, *self.event_shape)
        return structures, scores.reshape(k, *self.batch_shape)

    @traceable
    def mbr(self) -> Tensor:
        """The structure with the fewest expected wrong parts (minimum Bayes risk), shape ``(*batch_shape, *cells)``.

        A part is wrong if it is not in the true structure, or if it is missing. Where all structures have equally many
        parts, this is the one with the most expected right ones. Cells are -1 where no structure is possible.
        """
        with torch.no_grad():
            counts = {
                n: c.expand(*self.batch_shape, *c.shape[len(self._own_batch) :]) for n, c in self._gains().items()
            }
            rows = self._best(counts, 1)[1][0]
            return self._read(rows).reshape(*self.batch_shape, *self.event_shape)

    def _gains(self) -> dict[str, Tensor]:
        """In the place of scores: of a cell, how much likelier it is right than wrong; 0 of what else is possible."""
        counts = dict(zip(self._scores, self._posterior()[1:], strict=True))
        first = next(iter(counts))
        return {n: torch.where(c > 0, 2 * c - 1 if n == first else 0.0, -torch.inf) for n, c in counts.items()}

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All structures, shape ``(T, *batch_shape, *cells)``, or ``(T, 1, .., 1, *cells)`` if not ``expand``.

        :raises NotImplementedError: for more than 10,000 structures, or if lengths differ.
        """
        n = self.event_shape[0]
        if not bool((self.lengths == n).all()):
            raise NotImplementedError("sentences of different lengths have no common support to enumerate")
        with torch.no_grad():
            zeros = {
                name: x.new_zeros(1, *x.shape[x.dim() - self._event_dims[name] :], dtype=torch.float64)
                for name, x in self._scores.items()
            }
            one = self.lengths.new_full((1,), n)
            number = float(self._program.log_partition(self._given(zeros, lengths=one)))
            if number > math.log(MOST_ENUMERATED + 0.5):
                raise NotImplementedError(
                    f"there are too many structures to enumerate, about {math.exp(min(number, 600)):.3g}; the limit is "
                    f"{MOST_ENUMERATED}"
                )
            rows = self._best(zeros, round(math.exp(number)), one)[1][:, 0]
        structures = self._read(rows).to(self.lengths.device)
        structures = structures.reshape(len(structures), *(1,) * len(self.batch_shape), *self.event_shape)
        return structures.expand(-1, *self.batch_shape, *self.event_shape) if expand else structures


@register_kl(ScoredStructure, ScoredStructure)
def _kl(p: ScoredStructure, q: ScoredStructure) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if type(p) is not type(q) or p._program is not q._program or p._scores.keys() != q._scores.keys():
        raise NotImplementedError("p and q are over structures of different kinds")
    if p.event_shape != q.event_shape or differ(p.lengths, q.lengths):
        raise NotImplementedError("p and q are over structures of different lengths, so the divergence is infinite")
    return divergence(p, q)
