# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What distributions over dependency trees have in common, whatever their scores look at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.charts import projective
from pyrogram.charts.checks import broadcast, broadcast_shapes, check_lengths
from pyrogram.charts.spanning import nonprojective
from pyrogram.charts.trees import nonprojective_trees, projective_trees
from pyrogram.operators import captured
from pyrogram.printable import plural
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.run.on_tensors import SumsOnTensors, TensorInputs, TensorProgram

from .charted import Options, Recipe, Self, Summed, differ, structure, traceable
from .constraints import DependencyTrees, LabelledDependencyTrees, Scores
from .structured import StructuredDistribution, divergence

LONGEST_ENUMERATED = {True: 7, False: 6}  # of projective trees, and of all


class DependencyTreeDistribution(StructuredDistribution):
    """Trees of given sentences, written as heads, with p(tree) in proportion to exp(score).

    Events are arcs and configurations of arcs. A subclass says which a tree has, and which chart sums over all trees.

    :param scores: all scores, None for what is not given, by the names of their arguments, which become attributes.
        "arc_scores" is the first; its dtype and device are the distribution's.
    :param shapes: by table, a sign for each axis that is not the batch's: N for n + 1, 2, and a letter for any size.
    :param columns: of a word in a tree, besides that of heads.
    """

    arg_constraints = {"arc_scores": Scores()}
    has_enumerate_support = True
    projective = True
    """Whether arcs must not cross."""

    arc_scores: Tensor
    lengths: Tensor
    multiroot: bool

    def __init__(
        self,
        scores: Mapping[str, Tensor | None],
        shapes: Mapping[str, str],
        lengths: Tensor | None,
        multiroot: bool,
        validate_args: bool | None,
        columns: tuple[int, ...] = (),
    ):
        tables = {name: x for name, x in scores.items() if x is not None}
        event_shape = _num_words(tables, shapes), *columns
        event_dims = {name: len(axes) for name, axes in shapes.items()}
        batches = [x.shape[: x.dim() - event_dims[name]] for name, x in tables.items()]
        self._all_full = lengths is None
        if lengths is None:
            lengths = torch.full(batches[0], event_shape[0], dtype=torch.long, device=tables["arc_scores"].device)
        batch_shape = broadcast(*batches, lengths.shape)
        if lengths.is_floating_point():
            raise ValueError(f"lengths must be integers, not {lengths.dtype}")
        self.__dict__.update(scores)
        self._score_names, self._event_dims, self._arc_dims = tuple(scores), event_dims, event_dims["arc_scores"]
        self.lengths, self.multiroot = lengths.long(), multiroot
        self._cache: dict[str, Any] = {}
        validate = self._validate_args if validate_args is None else validate_args
        # torch looks at the scores once more only to complain of them.
        invalid = validate and not Scores().holds(self.arc_scores)
        super().__init__(batch_shape, torch.Size(event_shape), validate_args=invalid)
        self._validate_args = validate
        if not (self._all_full or captured()):  # compiled code does not look
            check_lengths(self.lengths, event_shape[0])
        for name, table in tables.items() if validate else ():
            if name != "arc_scores" and not Scores().holds(table):
                raise ValueError(f"{name} must be real numbers or -inf, but some are NaN or +inf")

    @property
    def support(self) -> DependencyTrees | LabelledDependencyTrees:
        """Trees of the sentences' lengths."""
        return DependencyTrees(self.lengths, self.multiroot, projective=self.projective)

    # ------------------------------------------------------------------ what a subclass says

    @abstractmethod
    def _marginals(self) -> tuple[Tensor, ...]:
        """log Z and its gradients by the scores that are given, in the parameters' own batch shape."""

    # ------------------------------------------------------------------ scores and events

    @property
    def _scores(self) -> dict[str, Tensor]:
        """Those that are given, by the names of the events."""
        tables = {name.removesuffix("_scores"): getattr(self, name) for name in self._score_names}
        return {name: x for name, x in tables.items() if x is not None}

    def _dims(self, name: str) -> int:
        """How many dimensions the table of some events has."""
        return self._event_dims[f"{name}_scores"]

    @property
    def _own_batch(self) -> torch.Size:
        """Of the scores and lengths as they are."""
        shapes = (x.shape[: x.dim() - self._dims(name)] for name, x in self._scores.items())
        return broadcast(self.lengths.shape, *shapes)

    def marginals(self) -> Tensor:
        """p(arc is in the tree), shape ``(*batch_shape, n+1, n+1)`` [head, dependent]; of labels, one more axis."""
        return next(iter(self.expected_counts().values()))

    def parts(self, value: Tensor) -> Tensor:
        """The arcs of trees as zeros and ones, in the shape of :meth:`marginals`, of which they are draws."""
        if self._validate_args:
            self._validate_sample(value)
        heads = torch.nn.functional.pad(value, (1, 0), value=-1)
        return (torch.arange(heads.shape[-1], device=value.device)[:, None] == heads[..., None, :]).long()

    # ------------------------------------------------------------------ probabilities

    def _inputs(self) -> tuple[Tensor | None, ...]:
        return (*(getattr(self, name) for name in self._score_names), self.lengths)

    @property
    def _lengths(self) -> Tensor | None:
        """For what need not look at lengths that are all n."""
        return None if self._all_full else self.lengths

    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        tensors = {name: getattr(self, name) for name in self._score_names if getattr(self, name) is not None}
        dims = {name: self._event_dims[name] for name in tensors}
        if not self._all_full:
            tensors["lengths"], dims["lengths"] = self.lengths, 0
        options = (*self._options, ("multiroot", self.multiroot), ("validate_args", self._validate_args))
        return (structure, (self._kind, tuple(tensors), options), tuple(dims.items())), list(tensors.values())

    @property
    def _kind(self) -> type:
        """The class that makes such trees from scores and lengths alone."""
        return type(self)

    @property
    def _options(self) -> Options:
        """Further arguments of its constructor."""
        return ()

    def _posterior(self) -> Any:
        """log Z and the marginals of all events, in the parameters' own batch shape."""
        if captured():
            log_z, marginals = self._traced_gradient()
            return (log_z, *(marginals[f"{name}_scores"] for name in self._scores))
        return self._kept("posterior", self._marginals)

    def tilted(self: Self, bonus: Tensor) -> Self:
        """The distribution in proportion to p(tree) exp(sum of bonus[i, tree[i]] over words i).

        Its log Z is this one's plus log E[exp(sum of bonus)]. Events and their counts stay as they are.

        >>> tree = pyrogram.distributions.ProjectiveDependencyTree(torch.zeros(4, 4))
        >>> bonus = torch.zeros(3, 4)
        >>> bonus[0, 2] = -torch.inf  # the first word's head is not the second word
        >>> round(float(tree.tilted(bonus).log_partition.exp()), 4)  # of seven trees, five are left
        5.0

        :param bonus: nats, shape ``(*batch, n, n+1)`` [word, head]; -inf forbids an arc.
        :raises ValueError: with validation, if a bonus is NaN or +inf.
        """
        extra = torch.nn.functional.pad(bonus.transpose(-1, -2), (1, 0))  # [head, dependent]
        if self._arc_dims == 3:  # one for both valences
            extra = extra[..., None]
        batch = broadcast_shapes(self.batch_shape, bonus.shape[:-2])
        new = self.expand(batch)
        new.arc_scores, new._cache = self.arc_scores + extra, {}
        if new._validate_args and not Scores().holds(new.arc_scores):
            raise ValueError("bonus must be real numbers or -inf, but some are NaN or +inf")
        return new

    # ------------------------------------------------------------------ decoding

    @traceable
    def mbr(self) -> Tensor:
        """The tree with the most expected right heads (minimum Bayes risk), shape ``(*batch_shape, n)``.

        Heads are -1 where no tree is possible.
        """
        with torch.no_grad():
            expected = self.marginals()
            best = projective.mbr if self.projective else nonprojective.mbr
            heads = best(expected, self.lengths, multiroot=self.multiroot)
            return torch.where(self.log_partition[..., None] == -torch.inf, -1, heads)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All trees, shape ``(T, *batch_shape, n)``, or ``(T, 1, .., 1, n)`` if not ``expand``.

        :raises NotImplementedError: for more than 7 words (728 projective trees at 6, 3,876 at 7), or more than 6 if
            arcs may cross (7,776 trees at 6), or if lengths differ.
        """
        n, longest = self.event_shape[0], LONGEST_ENUMERATED[self.projective]
        if n > longest:
            raise NotImplementedError(
                f"there are too many trees of {plural(n, 'word')} to enumerate; the limit is {longest}"
            )
        if not bool((self.lengths == n).all()):
            raise NotImplementedError(
                "sentences of different lengths have no common support to enumerate; infer.collapse_trees sums their "
                "trees out of a model"
            )
        list_trees = projective_trees if self.projective else nonprojective_trees
        trees = list_trees(n, self.multiroot).to(self.arc_scores.device)
        trees = trees.reshape(len(trees), *(1,) * len(self.batch_shape), n)
        return trees.expand(-1, *self.batch_shape, -1) if expand else trees


def of_heads(values: Tensor, heads: Tensor) -> Tensor:
    """What the head of each word has, shape ``(*batch, n)``; ROOT's in the padding. Batch dimensions broadcast.

    >>> tags = torch.tensor([9, 3, 5, 3])  # ROOT's first
    >>> of_heads(tags, torch.tensor([[2, 0, 2], [0, 1, 2]]))
    tensor([[5, 9, 5],
            [9, 3, 5]])

    :param values: of ROOT and of the words, shape ``(*batch, n+1)``.
    :param heads: shape ``(*batch, n)``, padded with -1.
    """
    batch = broadcast_shapes(values.shape[:-1], heads.shape[:-1])
    return values.expand(*batch, -1).gather(-1, heads.long().clamp_min(0).expand(*batch, -1))


class SummedTreeDistribution(DependencyTreeDistribution):
    """Trees over which a program sums. A subclass says which one, and how scores become its weights."""

    @property
    @abstractmethod
    def _program(self) -> SumsOnTensors:
        """What sums over trees."""

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> Mapping[str, Tensor]:
        """The program's log weights from scores ``(B, *event)`` of B sentences."""
        return scores

    def _of_weights(self, counts: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """Its inverse for expected counts: ``(B, *event)``, in the order of the scores."""
        return [*counts.values()]

    @property
    def _trace(self) -> Trace:
        """The number of each weight that is an arc: its head times n + 1, plus its dependent."""
        return projective.arc_numbers(self.event_shape[0] + 1)

    def _given(self, batch: torch.Size) -> TensorInputs:
        """The sentences of a batch, as the program takes them."""
        flat = {name: _flat(x, batch, self._dims(name)) for name, x in self._scores.items()}
        lengths = _flat(self.lengths, batch, 0)
        return TensorInputs(self._weights(flat, lengths), lengths, {}, self._sizes)

    @property
    def _sizes(self) -> dict[str, int]:
        """Of symbols."""
        return {}

    def _log_partition(self) -> Tensor:
        batch = self._own_batch
        return self._program.log_partition(self._given(batch)).reshape(batch)

    def _summed(self) -> Summed:
        if not isinstance(self._program, TensorProgram):
            return super()._summed()
        return Summed(self._program.recursion, self._given(self._own_batch), self._own_batch, {})

    def _marginals(self) -> tuple[Tensor, ...]:
        batch = self._own_batch
        log_z, counts = self._program.marginals(self._given(batch))
        return tuple(x.reshape(batch + x.shape[1:]) for x in (log_z, *self._of_weights(counts)))

    def _heads_of(self, rows: Tensor) -> Tensor:
        """Trees, from the program's rows ``(..., n)``."""
        heads: Tensor = projective.heads_of(rows, self.event_shape[0] + 1)
        return heads

    def _values(self, rows: Tensor) -> Tensor:
        return self._heads_of(rows).to(self.arc_scores.device).reshape(len(rows), *self.batch_shape, *self.event_shape)

    def _sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        inputs = self._given(self.batch_shape)
        return self._values(self._program.draw(inputs, count, self._trace, self.event_shape[0], generator))

    def _top_k(self, k: int) -> tuple[Tensor, Tensor]:
        scores, rows = self._program.best(self._given(self.batch_shape), k, self._trace, self.event_shape[0])
        return self._values(rows), scores.to(self.arc_scores).reshape(k, *self.batch_shape)


def _flat(x: Tensor, batch: torch.Size, dims: int) -> Tensor:
    """One batch dimension. For short sentences an operation of torch that does nothing takes noticeable time."""
    event = x.shape[x.dim() - dims :]
    return x if len(batch) == 1 and x.shape[: x.dim() - dims] == batch else x.expand(batch + event).reshape(-1, *event)


@register_kl(DependencyTreeDistribution, DependencyTreeDistribution)
def _kl(p: DependencyTreeDistribution, q: DependencyTreeDistribution) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if p._kind is not q._kind:
        raise NotImplementedError("p and q score different events")
    comparable(p, q)
    missing = p._scores.keys() ^ q._scores.keys()
    if missing:
        raise NotImplementedError(
            f"one distribution has {min(missing)} scores and the other has none; give both, zeros will do"
        )
    for name, scores in p._scores.items():
        other, dims = q._scores[name], p._dims(name)
        if q._dims(name) != dims or other.shape[other.dim() - dims :] != scores.shape[scores.dim() - dims :]:
            raise NotImplementedError(
                f"the {name} scores of p and q have different numbers of valences or numbers of labels; "
                "give both the same"
            )
    return divergence(p, q)


def _num_words(tables: Mapping[str, Tensor], shapes: Mapping[str, str]) -> int:
    """
    :param shapes: see :class:`DependencyTreeDistribution`.
    :raises ValueError: if shapes or types of scores do not fit.
    """
    arcs, sizes = tables["arc_scores"], shapes["arc_scores"]
    shape = tuple(arcs.shape[-len(sizes) :])
    if not arcs.is_floating_point():
        raise ValueError(f"arc_scores must be floating-point numbers, not {arcs.dtype}")
    if len(shape) < len(sizes) or shape[0] != shape[1] or shape[0] < 2 or 0 in shape:
        wanted = ", ".join(["n+1", "n+1", *sizes[2:]])
        least = "".join(f", {size} >= 1" for size in sizes[2:])
        raise ValueError(f"arc_scores must have shape (..., {wanted}), n >= 1{least}, not {tuple(arcs.shape)}")
    known = {"N": shape[0], "2": 2}
    for name, x in tables.items():
        axes = shapes[name]
        event = [*x.shape[-len(axes) :]]
        if event != [known.get(axis, size) for axis, size in zip(axes, event, strict=False)] or len(event) < len(axes):
            wanted = ", ".join(str(known.get(axis, axis)) for axis in axes)
            raise ValueError(f"{name} must have shape (..., {wanted}), not {tuple(x.shape)}")
        if x.dtype != arcs.dtype:
            raise ValueError(f"{name} are {x.dtype} but arc_scores are {arcs.dtype}")
    return shape[0] - 1


def comparable(p: DependencyTreeDistribution, q: DependencyTreeDistribution) -> None:
    """
    :raises NotImplementedError: if the support of p is not a part of q's, or not of the same sentences.
    """
    if q.projective and not p.projective:
        raise NotImplementedError("arcs of p may cross and those of q must not, so the divergence is infinite")
    if p.multiroot and not q.multiroot:
        raise NotImplementedError("p may have several roots and q only one, so the divergence is infinite")
    if p.event_shape != q.event_shape or differ(p.lengths, q.lengths):
        raise NotImplementedError("p and q are not over trees of the same sentences, so the divergence is infinite")
