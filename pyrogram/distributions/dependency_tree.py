# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What distributions over dependency trees have in common, whatever their scores look at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping

import torch
from torch import Tensor

from pyrogram.checks import broadcast_shapes
from pyrogram.operators import captured
from pyrogram.printable import plural
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.run.on_tensors import SumsOnTensors, TensorInputs
from pyrogram.trees import nonprojective_trees, projective_trees

from .charted import Self, differ, traceable
from .constraints import DependencyTrees, LabelledDependencyTrees, Scores
from .scored_structure import ScoredStructure

LONGEST_ENUMERATED = {True: 7, False: 6}  # of projective trees, and of all


class DependencyTreeDistribution(ScoredStructure):
    """Trees of given sentences, written as heads, with p(tree) in proportion to exp(score).

    The cells of a tree are its arcs, [head, dependent]. Other events are configurations of arcs. Unless a subclass says
    otherwise, there are none, and arcs are the program's weights.

    :param scores: all scores, None for what is not given, by the names of their arguments, which become attributes.
        "arc_scores" is the first; its dtype and device are the distribution's.
    :param shapes: by table, a sign for each axis that is not the batch's: N for n + 1, 2, and a letter for any size;
        the last one of arcs is L if it is that of labels.
    :param options: other arguments of the constructor.
    """

    arg_constraints = {"arc_scores": Scores()}
    projective = True
    """Whether arcs must not cross."""
    _lengths_are_many = True
    _reads_padding = False

    arc_scores: Tensor
    multiroot: bool

    def __init__(
        self,
        scores: Mapping[str, Tensor | None],
        shapes: Mapping[str, str],
        lengths: Tensor | None,
        multiroot: bool,
        validate_args: bool | None,
        **options: Hashable,
    ):
        tables = {name: x for name, x in scores.items() if x is not None}
        n, L = _num_words(tables, shapes), tables["arc_scores"].shape[-1]
        self.multiroot, self._is_labelled = multiroot, shapes["arc_scores"][-1] == "L"
        super().__init__(
            scores,
            {name: len(axes) for name, axes in shapes.items()},
            (n, 2) if self._is_labelled else (n,),
            L if self._is_labelled else 1,
            lengths,
            {**options, "multiroot": multiroot},
            validate_args,
        )

    @property
    def support(self) -> DependencyTrees | LabelledDependencyTrees:
        """Trees of the sentences' lengths."""
        return DependencyTrees(self.lengths, self.multiroot, projective=self.projective)

    # ------------------------------------------------------------------ what a subclass says

    @property
    @abstractmethod
    def _arcs(self) -> SumsOnTensors:
        """What sums over trees by the scores of arcs alone."""

    @property
    def _program(self) -> SumsOnTensors:
        return self._arcs

    @property
    def _trace(self) -> Trace:
        return arc_numbers(self.event_shape[0] + 1)

    def _events(self, value: Tensor) -> dict[str, Tensor]:
        if not self._is_labelled:
            return {"arc": arcs_of(value)}
        heads, labels = value.unbind(-1)
        return {"arc": torch.where(heads >= 0, arcs_of(heads) * self.num_labels + labels, -1)}

    # ------------------------------------------------------------------ arcs

    def _inside(self, lengths: Tensor) -> Tensor:
        place = torch.arange(self.event_shape[0] + 1, device=lengths.device)
        real = place <= lengths[..., None]
        return (place[:, None] != place) & (place > 0) & real[..., None, :] & real[..., None]

    def _read(self, rows: Tensor) -> Tensor:
        N, L = self.event_shape[0] + 1, self.num_labels
        if not self._is_labelled:
            return heads_of(rows, N)
        arcs = rows // L
        return torch.stack([heads_of(arcs, N), _by_dependent(arcs, rows % L, N)], -1)

    def _called(self, name: str) -> str:
        return f"{name}_scores"

    def _check_lengths(self, lengths: Tensor, n: int) -> None:
        if lengths.is_floating_point():
            raise ValueError(f"lengths must be integers, not {lengths.dtype}")
        if captured() or not lengths.numel():
            return
        values = lengths.numpy() if lengths.is_cpu else lengths  # for few numbers, numpy is quicker
        if not (1 <= values.min() and values.max() <= n):  # compiled code does not look
            raise ValueError(f"lengths must lie in 1..{n}, not {int(values.min())}..{int(values.max())}")

    def _check_comparable(self, other: ScoredStructure) -> None:
        if self._kind is not other._kind:
            raise NotImplementedError("p and q score different events")
        comparable(self, other)

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
        extra = extra.reshape(*extra.shape, *[1] * (self._dims("arc") - 2))  # one for all valences and labels
        batch = broadcast_shapes(self.batch_shape, bonus.shape[:-2])
        new = self.expand(batch)
        new.arc_scores, new._cache = self.arc_scores + extra, {}
        new._own_batch = broadcast_shapes(self._own_batch, bonus.shape[:-2])
        if new._validate_args and not Scores().holds(new.arc_scores):
            raise ValueError("bonus must be real numbers or -inf, but some are NaN or +inf")
        return new

    # ------------------------------------------------------------------ decoding

    @traceable
    def mbr(self) -> Tensor:
        """The tree with the most expected right heads, or pairs of head and label (minimum Bayes risk).

        Shape ``(*batch_shape, n)``, with labels ``(*batch_shape, n, 2)``; -1 where no tree is possible.
        """
        with torch.no_grad():
            log_z, expected, lengths = self._posterior()[0], self._expected_arcs(), self._flat_lengths(self._own_batch)
            expected = expected.reshape(-1, *expected.shape[log_z.dim() :])
            inputs = TensorInputs({"arc": self._without_labels(expected, lengths, best=True)}, lengths)
            trace = arc_numbers(self.event_shape[0] + 1)
            trees = self._read(self._best(self._arcs, inputs, trace, expected, 1)[1][0])
            impossible = log_z.reshape(-1, *[1] * len(self.event_shape)) == -torch.inf
            return self._whole(torch.where(impossible, -1, trees))

    def _expected_arcs(self) -> Tensor:
        """By which :meth:`mbr` finds the best tree, in the own batch: expected numbers of arcs, with their labels."""
        return self._by_part(self._posterior()[1])

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All trees, shape ``(T, *batch_shape, n)``, or ``(T, 1, .., 1, n)`` if not ``expand``.

        :raises NotImplementedError: for more than 7 words (728 projective trees at 6, 3,876 at 7), or more than 6 if
            arcs may cross (7,776 trees at 6), or if lengths differ.
        """
        return self._listed(self._all_trees(), expand)

    def _all_trees(self) -> Tensor:
        """Heads of all trees, shape ``(T, n)``."""
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
        return list_trees(n, self.multiroot)


def arc_numbers(N: int, *, by_valence: bool = False) -> Trace:
    """Head times N, plus dependent: the number of an arc in the rows of derivations."""
    return {"arc": (0, N, 1, 0) if by_valence else (0, N, 1)}


def heads_of(rows: Tensor, N: int) -> Tensor:
    """Heads ``(*batch, N-1)`` of the trees that consist of these arcs, numbered as by :func:`arc_numbers`.

    :param rows: shape ``(*batch, k)``; -1 for none, as are heads in the padding.
    """
    return _by_dependent(rows, rows // N, N)


def _by_dependent(arcs: Tensor, values: Tensor, N: int) -> Tensor:
    """What arcs have, in the order of their dependents; -1 where there is none."""
    in_order = values.new_full((*values.shape[:-1], N), -1)
    return in_order.scatter_(-1, torch.where(arcs >= 0, arcs % N, 0), values)[..., 1:]


def arcs_of(heads: Tensor) -> Tensor:
    """The numbers of the arcs of trees in a table [head, dependent], -1 in the padding, shape ``(*batch, n)``."""
    N = heads.shape[-1] + 1
    return torch.where(heads >= 0, heads * N + torch.arange(1, N, device=heads.device), -1)


def stops_of(heads: Tensor, valences: Tensor, number: int) -> Tensor:
    """The numbers of the stops of words in a table [head, direction, valence], -1 in the padding, ``(*batch, 2 n)``.

    :param valences: of each position on each side, whatever they are, shape ``(*batch, n+1, 2)``.
    :param number: of valences.
    """
    side = torch.arange(valences.shape[-2] * 2, device=heads.device)
    stops = (side * number + valences.flatten(-2))[..., 2:]  # ROOT has none
    return torch.where((heads >= 0).repeat_interleave(2, -1), stops, -1)


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
