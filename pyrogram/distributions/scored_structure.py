# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What distributions over structures of scored parts have in common, whichever program sums over them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.checks import broadcast
from pyrogram.operators import captured
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.run.on_tensors import SumsOnTensors, TensorInputs, TensorProgram
from pyrogram.recursion.torch.semirings import Logarithms

from .charted import Recipe, Summed, copied, differ, structure, traceable
from .constraints import Scores
from .labellings import with_best_labels, with_drawn_labels
from .structured import StructuredDistribution, divergence

MOST_ENUMERATED = 10_000


class ScoredStructure(StructuredDistribution):
    """Structures of given sentences, with p(structure) in proportion to exp(sum of the scores of its parts).

    A structure is made of cells, such as the arcs or the spans of a sentence, each with a label, one of L. The first
    table of scores is that of cells, with a last axis of labels or without; others are of whatever cells and labels
    make together. A subclass says which program sums over structures, how scores become its weights, which events a
    value has, and which value is made of some cells and labels; here is all that follows.

    Unless a subclass says otherwise, a value is a table of cells. A cell holds its label, or -1 if there is none.

    :param scores: by their arguments' names, which become attributes; each of shape ``(*batch, *event)``, None for what
        is not given. Events are named after them: those of "arc_scores" are "arc".
    :param event_dims: how many dimensions of each are not the batch's.
    :param event_shape: of a value; its first size is the number n of words.
    :param num_labels: L.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param options: the constructor's arguments besides scores, lengths and ``validate_args``.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_enumerate_support = True

    lengths: Tensor
    num_labels: int
    _part = "part"  # the events of an argument that is called "scores"
    _is_labelled = True  # whether the table of cells has an axis of labels
    _labels_are_independent = True  # so that they are summed out, and the program's structures have no labels
    _lengths_are_many = False  # whether there is a length for each row of scores even where all are n
    _reads_padding = True  # whether scores of what is in no sentence say how the program sums, by the greatest of all

    def __init__(
        self,
        scores: Mapping[str, Tensor | None],
        event_dims: Mapping[str, int],
        event_shape: tuple[int, ...],
        num_labels: int,
        lengths: Tensor | None,
        options: Mapping[str, Hashable],
        validate_args: bool | None,
    ):
        # As they were given: a view of a tensor that needs gradients could not be copied.
        self.__dict__.update(scores)
        self._arguments, self._event_dims, batches = {}, {}, []
        n, first = event_shape[0], next(iter(scores.values()))
        assert first is not None
        for argument, x in scores.items():
            if x is None:
                continue
            name, dims = self._part if argument == "scores" else argument.removesuffix("_scores"), event_dims[argument]
            self._arguments[name], self._event_dims[name] = argument, dims
            batches.append(x.shape[: x.dim() - dims])
            if not x.is_floating_point():
                raise ValueError(f"{self._called(name)} must be floating-point numbers, not {x.dtype}")
            if x.dtype != first.dtype:
                raise ValueError(f"{self._called(name)} are {x.dtype} but others are {first.dtype}; make them the same")
        self._cells, self.num_labels, self._options = next(iter(self._arguments)), num_labels, options
        self._all_full = lengths is None
        if lengths is None:
            lengths = torch.full(batches[0] if self._lengths_are_many else (), n, device=first.device)
        else:
            self._check_lengths(lengths, n)
            batches.append(lengths.shape)
        self.lengths, self._own_batch = lengths.long(), broadcast(*batches)
        self._cache: dict[str, Any] = {}
        validate = self._validate_args if validate_args is None else validate_args
        wrong = [name for name, x in self._scores.items() if validate and not Scores().holds(x)]
        # torch looks at the scores once more only to complain of them.
        super().__init__(self._own_batch, torch.Size(event_shape), validate_args=bool(wrong))
        self._validate_args = validate
        if wrong:
            raise ValueError(f"{self._called(wrong[0])} must be real numbers or -inf, but some are NaN or +inf")

    # ------------------------------------------------------------------ what a subclass says

    @property
    @abstractmethod
    def _program(self) -> SumsOnTensors:
        """What sums over structures."""

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> Mapping[str, Tensor]:
        """The program's log weights from scores ``(1 or B, *event)`` of B sentences, without labels if they are summed.

        They are differentiable: see :meth:`_of_weights`.
        """
        return scores

    @property
    def _sizes(self) -> dict[str, int]:
        """Of the program's symbols."""
        return {}

    @property
    @abstractmethod
    def _trace(self) -> Trace:
        """The number of each weight that is a part: that of its element in the program's table of cells and labels."""

    @property
    def _most_parts(self) -> int:
        """The greatest number of parts of a structure."""
        return self.event_shape[0]

    def _parts(self, rows: Tensor) -> Tensor:
        """Numbers of parts, elements of the program's table of cells, from those of a trace; -1 for none."""
        return rows.to(self.lengths.device)

    def _inside(self, lengths: Tensor) -> Tensor:
        """Which cells are those of sentences of these lengths, shape ``(*batch, *cells)``."""
        raise NotImplementedError

    def _read(self, rows: Tensor) -> Tensor:
        """Structures (..., *event_shape) from the numbers of their parts, elements of the table of cells; -1 for none.

        :param rows: shape ``(..., parts)``.
        """
        size = self.event_shape.numel()
        value = rows.new_full((*rows.shape[:-1], size + 1), -1)
        labels = torch.where(rows >= 0, rows % self.num_labels, -1)
        value.scatter_(-1, torch.where(rows >= 0, rows // self.num_labels, size), labels)
        cells: Tensor = value[..., :size].unflatten(-1, self.event_shape)
        return cells

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        cells = torch.arange(self.event_shape.numel(), device=value.device).reshape(self.event_shape)
        index = torch.where(value >= 0, cells * self.num_labels + value, -1)
        return {self._cells: index.flatten(value.dim() - len(self.event_shape))}

    def _by_part(self, table: Tensor) -> Tensor:
        """Of a table of all events of cells, sums over what is neither cell nor label."""
        return table

    @property
    def _kind(self) -> type:
        """The class that makes such structures from scores, lengths and options alone."""
        return type(self)

    def _called(self, name: str) -> str:
        """What messages call a table of scores."""
        return f"{name} scores"

    def _check_lengths(self, lengths: Tensor, n: int) -> None:
        if lengths.is_floating_point() or not (captured() or bool(((lengths >= 1) & (lengths <= n)).all())):
            raise ValueError(f"lengths must be integers in 1..{n}, the number of words of the longest sentence")

    def _check_comparable(self, other: ScoredStructure) -> None:
        """
        :raises NotImplementedError: if there is no divergence from another distribution.
        """
        same_tables = self._arguments.keys() == other._arguments.keys()
        if type(self) is not type(other) or self._program is not other._program or not same_tables:
            raise NotImplementedError("p and q are over structures of different kinds")
        if self.event_shape != other.event_shape or differ(self.lengths, other.lengths):
            raise NotImplementedError("p and q are over structures of different lengths, so the divergence is infinite")

    # ------------------------------------------------------------------ scores

    @property
    def _scores(self) -> dict[str, Tensor]:
        """Those that are given, by the names of the events."""
        tables = ((name, self.__dict__[argument]) for name, argument in self._arguments.items())
        return {name: x for name, x in tables if x is not None}

    def _dims(self, name: str) -> int:
        return self._event_dims[name]

    @property
    def dtype(self) -> torch.dtype:
        """Of the scores."""
        return self._scores[self._cells].dtype

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return (*self._scores.values(), self.lengths)

    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        tensors = {self._arguments[name]: x for name, x in self._scores.items()}
        dims = {argument: self._event_dims[name] for name, argument in self._arguments.items()}
        if not self._all_full:
            tensors["lengths"], dims["lengths"] = self.lengths, 0
        options = (*self._options.items(), ("validate_args", self._validate_args))
        return (structure, (self._kind, tuple(tensors), options), tuple(dims.items())), list(tensors.values())

    def _flat(self, batch: torch.Size, *, shared: bool = True) -> dict[str, Tensor]:
        """Scores of the B sentences of a batch, ``(B, *event)``.

        :param shared: whether those that all sentences share are there once, ``(1, *event)``, but for those of cells:
            exponentiated once, they are numbers.
        """
        tables = {}
        for name, x in self._scores.items():
            event = x.shape[x.dim() - self._event_dims[name] :]
            is_shared = shared and name != self._cells and x.numel() == math.prod(event)
            tables[name] = x.reshape(1, *event) if is_shared else _in_one(x, batch, event)
        return tables

    def _flat_lengths(self, batch: torch.Size) -> Tensor:
        return _in_one(self.lengths, batch, torch.Size())

    def _tensor_inputs(self, batch: torch.Size) -> TensorInputs:
        """The sentences of a batch, as the program takes them."""
        return self._weighted(self._flat(batch), self._flat_lengths(batch))

    def _weighted(self, scores: Mapping[str, Tensor], lengths: Tensor, *, best: bool = False) -> TensorInputs:
        """What the program is run on, from scores as :meth:`_flat` has them.

        :param lengths: shape ``(B,)``.
        :param best: whether labels are maximised rather than summed out.
        """
        cells = self._without_labels(scores[self._cells], lengths, best)
        if cells is not scores[self._cells]:
            scores = {**scores, self._cells: cells}
        return TensorInputs(self._weights(scores, lengths), lengths, {}, self._sizes)

    def _without_labels(self, cells: Tensor, lengths: Tensor, best: bool = False) -> Tensor:
        """Scores of the program's cells, ``(B, *cells)``; of dependent labels, as they are.

        What is in no sentence may have any score. Sums over labels read it.
        """
        is_summed = self._is_labelled and self._labels_are_independent
        if (self._reads_padding and not self._all_full) or (is_summed and self.num_labels > 1):
            outside = ~self._inside(lengths)
            cells = cells.masked_fill(outside.reshape(outside.shape + (1,) * (cells.dim() - outside.dim())), -torch.inf)
        if not is_summed:
            return cells
        return cells.amax(-1) if best else Logarithms().total(cells, (-1,))

    # ------------------------------------------------------------------ sums

    def _log_partition(self) -> Tensor:
        return self._program.log_partition(self._tensor_inputs(self._own_batch)).reshape(self._own_batch)

    def _summed(self) -> Summed:
        if not isinstance(self._program, TensorProgram):
            return super()._summed()
        return Summed(self._program.recursion, self._tensor_inputs(self._own_batch), self._own_batch, {})

    def _posterior(self) -> tuple[Tensor, ...]:
        """log Z and its gradients by the scores, in the own batch shape."""
        if captured():
            log_z, counts = self._traced_gradient()
            return log_z, *(counts[argument] for argument in self._arguments.values())
        posterior: tuple[Tensor, ...] = self._kept("posterior", self._marginals)
        return posterior

    def _marginals(self) -> tuple[Tensor, ...]:
        """The same, with a graph where gradients are wanted."""
        batch, scores = self._own_batch, self._flat(self._own_batch, shared=False)
        graph = torch.is_grad_enabled() and any(x.requires_grad for x in scores.values())
        with torch.inference_mode(False):  # with gradients
            for name, x in scores.items():
                # A view, for one table may be computed from another, whose events are not its own.
                leaf = x.clone() if x.is_inference() else x.view_as(x) if graph else x.detach()
                scores[name] = leaf if leaf.requires_grad else leaf.requires_grad_()
            inputs = self._weighted(scores, self._flat_lengths(batch))
            with torch.set_grad_enabled(graph):
                log_z, counts = self._program.marginals(inputs)
            if not all(inputs.weights.get(name) is x for name, x in scores.items()):
                counts = self._of_weights(counts, inputs.weights, scores, graph)
        return tuple(x.reshape(batch + x.shape[1:]) for x in (log_z, *(counts[name] for name in scores)))

    def _of_weights(
        self, counts: Mapping[str, Tensor], weights: Mapping[str, Tensor], scores: Mapping[str, Tensor], graph: bool
    ) -> dict[str, Tensor]:
        """Expected counts of scores from those of weights that were made of them, by the chain rule.

        :param graph: whether they are differentiated in turn.
        """
        by_weight = [counts[name] for name in weights]
        gradients = torch.autograd.grad([*weights.values()], [*scores.values()], by_weight, create_graph=graph)
        return dict(zip(scores, gradients, strict=True))

    def marginals(self) -> Tensor:
        """p(a cell holds a label), in the shape of the scores, ``(*batch_shape, *cells, L)`` or without L."""
        cells = self._by_part(copied(self._posterior()[1]))
        return cells.expand(*self.batch_shape, *cells.shape[len(self._own_batch) :])

    def parts(self, value: Tensor) -> Tensor:
        """The cells and labels of structures as zeros and ones, in the shape of :meth:`marginals`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._by_part(self._indicators(value.long())[self._cells]).long()

    # ------------------------------------------------------------------ structures

    def _sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        leading = self.batch_shape[: len(self.batch_shape) - len(self._own_batch)]
        # A plate in front only asks for more draws; a dimension of size one that was expanded for more sentences.
        simple = self.batch_shape[len(leading) :] == self._own_batch
        batch, number = (self._own_batch, count * leading.numel()) if simple else (self.batch_shape, count)
        rows = self._program.draw(self._tensor_inputs(batch), number, self._trace, self._most_parts, generator)
        rows = self._parts(rows)
        if self._labels_are_independent and self.num_labels > 1:
            rows = with_drawn_labels(rows, self._flat(batch)[self._cells], generator)
        return self._read(rows).reshape(count, *self.batch_shape, *self.event_shape)

    def _best(
        self, program: SumsOnTensors, inputs: TensorInputs, trace: Trace, cells: Tensor, k: int
    ) -> tuple[Tensor, Tensor]:
        """The scores ``(k, B)`` and the parts ``(k, B, parts)`` of the k best structures.

        :param inputs: with the greatest scores of labels, if they are independent.
        :param cells: scores of cells and labels, as :meth:`_flat` has them.
        """
        values, rows = program.best(inputs, k, trace, self._most_parts)
        values, rows = values.to(self.lengths.device, self.dtype), self._parts(rows)
        if self._labels_are_independent and self.num_labels > 1:
            return with_best_labels(values, rows, cells)
        return values, rows

    def _best_by(self, scores: Mapping[str, Tensor], lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The same by scores as :meth:`_flat` has them."""
        inputs = self._weighted(scores, lengths, best=True)
        return self._best(self._program, inputs, self._trace, scores[self._cells], k)

    def _whole(self, values: Tensor, axes: int = 0) -> Tensor:
        """What the sentences of the own batch have, in the whole batch.

        :param values: shape ``(*front, B, *rest)``, so many axes in front.
        """
        front, rest = values.shape[:axes], values.shape[axes + 1 :]
        ones = (1,) * (len(self.batch_shape) - len(self._own_batch))
        values = values.reshape(*front, *ones, *self._own_batch, *rest)
        if self._own_batch == self.batch_shape:
            return values
        return values.expand(*front, *self.batch_shape, *rest).contiguous()

    def _top_k(self, k: int) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            scores, rows = self._best_by(self._flat(self._own_batch), self._flat_lengths(self._own_batch), k)
        return self._whole(self._read(rows), 1), self._whole(scores, 1)

    @traceable
    def mbr(self) -> Tensor:
        """The structure with the fewest expected wrong parts (minimum Bayes risk), shape ``(*batch_shape, *cells)``.

        A part is wrong if it is not in the true structure, or if it is missing. Where all structures have equally many
        parts, this is the one with the most expected right ones. Cells are -1 where no structure is possible.
        """
        with torch.no_grad():
            gains = {}
            for name, counts in zip(self._scores, self._posterior()[1:], strict=True):
                # Of a cell, how much likelier it is right than wrong; 0 of what else is possible.
                gain = torch.where(counts > 0, 2 * counts - 1 if name == self._cells else 0.0, -torch.inf)
                gains[name] = gain.reshape(-1, *gain.shape[len(self._own_batch) :])
            return self._whole(self._read(self._best_by(gains, self._flat_lengths(self._own_batch), 1)[1][0]))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All structures, shape ``(T, *batch_shape, *cells)``, or ``(T, 1, .., 1, *cells)`` if not ``expand``.

        :raises NotImplementedError: for more than 10,000 structures, or if lengths differ.
        """
        n = self.event_shape[0]
        if not bool((self.lengths == n).all()):
            raise NotImplementedError("sentences of different lengths have no common support to enumerate")
        with torch.no_grad():
            tables = self._flat(self._own_batch)
            zeros = {name: x.new_zeros(1, *x.shape[1:], dtype=torch.float64) for name, x in tables.items()}
            one = self.lengths.new_full((1,), n)
            number = float(self._program.log_partition(self._weighted(zeros, one)))
            if number > math.log(MOST_ENUMERATED + 0.5):
                raise NotImplementedError(
                    f"there are too many structures to enumerate, about {math.exp(min(number, 600)):.3g}; the limit is "
                    f"{MOST_ENUMERATED}"
                )
            rows = self._best_by(zeros, one, round(math.exp(number)))[1][:, 0]
        return self._listed(self._read(rows), expand)

    def _listed(self, values: Tensor, expand: bool) -> Tensor:
        """A list of structures as :meth:`enumerate_support` has it."""
        values = values.to(self.lengths.device).reshape(-1, *(1,) * len(self.batch_shape), *self.event_shape)
        return values.expand(-1, *self.batch_shape, *self.event_shape) if expand else values


def _in_one(x: Tensor, batch: torch.Size, event: torch.Size) -> Tensor:
    """One batch dimension. For short sentences an operation of torch that does nothing takes noticeable time.

    :param x: shape ``(*batch, *event)``, as far as batches broadcast.
    """
    return x if len(batch) == 1 and x.shape == batch + event else x.expand(batch + event).reshape(-1, *event)


@register_kl(ScoredStructure, ScoredStructure)
def _kl(p: ScoredStructure, q: ScoredStructure) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    p._check_comparable(q)
    missing = p._scores.keys() ^ q._scores.keys()
    if missing:
        raise NotImplementedError(
            f"one distribution has {min(missing)} scores and the other has none; give both, zeros will do"
        )
    for (name, scores), other in zip(p._scores.items(), q._scores.values(), strict=True):
        dims = p._dims(name)
        if q._dims(name) != dims or other.shape[other.dim() - dims :] != scores.shape[scores.dim() - dims :]:
            raise NotImplementedError(
                f"the {name} scores of p and q have different numbers of valences or numbers of labels; "
                "give both the same"
            )
    return divergence(p, q)
