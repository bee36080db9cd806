# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Dependency trees whose arcs have labels, as a Pyro distribution."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from pyrogram.charts.checks import broadcast_shapes, check_tensors
from pyrogram.printable import plural
from pyrogram.recursion.torch.semirings import Logarithms

from .charted import Options, traceable
from .constraints import DependencyTrees, LabelledDependencyTrees
from .dependency_tree import DependencyTreeDistribution
from .labellings import best_labellings
from .nonprojective_tree import DependencyTree
from .projective_tree import ProjectiveDependencyTree

MOST_ENUMERATED = 10**6


class LabelledDependencyTree(DependencyTreeDistribution):
    r"""Dependency trees of given sentences with a label for each arc, :math:`p(y) = \exp(\mathrm{score}(y)) / Z`.

    A value is a tensor of heads and labels, shape ``(n, 2)``: ``value[:, 0]`` is a tree as in
    :class:`ProjectiveDependencyTree`, or as in :class:`DependencyTree`, and ``value[c - 1, 1]`` is the label of the arc
    to word c, in 0..L-1. Both are -1 in the padding.

    The score of a tree is the sum of its labelled arcs' scores. Given the heads, labels are independent of each other.
    So log Z is that of trees without labels, whose arcs have the log-sum-exp of their labels' scores. The best tree is
    that of the greatest scores, and the k best trees are among the k best without labels. ``log_prob`` is normalised:
    log p(tree, labels | scores), in nats, never above 0.

    >>> trees = LabelledDependencyTree(torch.zeros(3, 3, 5))
    >>> round(float(trees.log_partition.exp()), 4)  # two trees, five labels for either arc
    50.0
    >>> trees.sample().shape
    torch.Size([2, 2])

    Time and memory are those of trees without labels, and O(n^2 L) for the labels; the k best take O(k^2 n L), too.

    :param arc_scores: shape ``(*batch, n+1, n+1, L)`` [head, dependent, label]; -inf forbids a label of an arc. Column
        0 and the diagonal are not read.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param projective: whether arcs must not cross.
    :param multiroot: whether ROOT may have several children.
    :raises TypeError: if one of them is no tensor.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Koo, T., Globerson, A., Carreras, X. and Collins, M. (2007). Structured prediction models via the matrix-tree
    theorem. EMNLP, section 2. https://aclanthology.org/D07-1015/
    """

    def __init__(
        self,
        arc_scores: Tensor,
        lengths: Tensor | None = None,
        *,
        projective: bool = True,
        multiroot: bool = False,
        validate_args: bool | None = None,
    ):
        check_tensors({"arc_scores": arc_scores}, lengths=lengths)
        self.projective = projective
        super().__init__({"arc_scores": arc_scores}, {"arc_scores": "NNL"}, lengths, multiroot, validate_args, (2,))

    @property
    def support(self) -> LabelledDependencyTrees:
        """Trees of the sentences' lengths with labels."""
        trees = DependencyTrees(self.lengths, self.multiroot, projective=self.projective)
        return LabelledDependencyTrees(trees, self.arc_scores.shape[-1])

    def _unlabelled(self, arcs: Tensor) -> ProjectiveDependencyTree | DependencyTree:
        """Trees with these arc scores, shape ``(*batch, n+1, n+1)``."""
        kind = partial(ProjectiveDependencyTree, valence=False) if self.projective else DependencyTree
        return kind(arcs, lengths=self._lengths, multiroot=self.multiroot, validate_args=False)

    @property
    def _possible(self) -> Tensor:
        """Scores of labelled arcs; -inf of those that are none, whose scores may be anything."""
        place = torch.arange(self.arc_scores.shape[-2], device=self.arc_scores.device)
        is_arc = (place[:, None] != place) & (place > 0)
        if self._lengths is not None:
            is_word = place <= self._lengths[..., None]
            is_arc = is_arc & is_word[..., None] & is_word[..., None, :]
        return torch.where(is_arc[..., None], self.arc_scores, -torch.inf)

    def _trees(self) -> ProjectiveDependencyTree | DependencyTree:
        """With the labels summed out."""
        trees: ProjectiveDependencyTree | DependencyTree = self._kept(
            "trees", lambda: self._unlabelled(Logarithms().total(self._possible, (-1,)))
        )
        return trees

    @property
    def _options(self) -> Options:
        return (("projective", self.projective),)

    def _log_partition(self) -> Tensor:
        return self._trees().log_partition

    def _marginals(self) -> tuple[Tensor, Tensor]:
        trees = self._trees()
        arcs = trees.arc_scores[..., None]
        of_labels = (self._possible - arcs.masked_fill(arcs == -torch.inf, 0.0)).exp()
        return trees.log_partition, trees.marginals()[..., None] * of_labels

    def _events(self, heads: Tensor) -> dict[str, Tensor]:
        heads, labels = heads.unbind(-1)
        N, L = self.arc_scores.shape[-2:]
        arc = heads.clamp_min(0) * N + torch.arange(1, N, device=heads.device)
        return {"arc": torch.where(heads >= 0, arc * L + labels, -1)}

    def _sample(self, count: int) -> Tensor:
        heads = self._trees().expand(self.batch_shape).sample((count,))
        probs = _of_labels(self.arc_scores, heads).double().masked_fill((heads < 0)[..., None], 0.0).softmax(-1)
        labels = torch.multinomial(probs.flatten(0, -2), 1).reshape(heads.shape)
        return torch.stack([heads, labels.masked_fill(heads < 0, -1)], -1)

    def _top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """Of the k best trees by their best labels, the k best labels each; and of all these the k best."""
        arcs = self.arc_scores.detach()
        heads, possible = self._unlabelled(arcs.amax(-1)).expand(self.batch_shape)._top_k(k)  # (k, *batch, n)
        scores, labels = _best_labels(_of_labels(arcs, heads), heads >= 0, k)  # (k, *batch, k), (k, *batch, k, n)
        scores = scores.masked_fill((possible == -torch.inf)[..., None], -torch.inf)
        trees = torch.stack([heads[..., None, :].expand(labels.shape), labels], -1)
        scores = scores.movedim(0, -1).flatten(-2)
        scores, index = scores.topk(k)
        trees = trees.movedim(0, -3).flatten(-4, -3)
        trees = trees.gather(-3, index[..., None, None].expand(*index.shape, *self.event_shape))
        trees = trees.masked_fill((scores == -torch.inf)[..., None, None], -1)
        return trees.movedim(-3, 0), scores.movedim(-1, 0)

    def parts(self, value: Tensor) -> Tensor:
        """The labelled arcs of trees as zeros and ones, in the shape of :meth:`marginals`, of which they are draws."""
        return self.counts(value)["arc"].long()

    @traceable
    def mbr(self) -> Tensor:
        """The tree with the most expected right pairs of head and label, shape ``(*batch_shape, n, 2)``.

        Heads and labels are -1 where no tree is possible.
        """
        with torch.no_grad():
            expected = self.marginals()
            heads = self._unlabelled(expected.amax(-1)).argmax()
            labels = _of_labels(expected, heads).argmax(-1).masked_fill(heads < 0, -1)
            trees = torch.stack([heads, labels], -1)
            return torch.where(self.log_partition[..., None, None] == -torch.inf, -1, trees)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All trees with all labels, shape ``(T, *batch_shape, n, 2)``, or ``(T, 1, .., 1, n, 2)`` if not ``expand``.

        :raises NotImplementedError: for more than 7 words, or 6 if arcs may cross, or a million values; or if lengths
            differ.
        """
        n, L = self.event_shape[0], self.arc_scores.shape[-1]
        heads = self._trees().enumerate_support(expand=False).reshape(-1, n)
        if len(heads) * L**n > MOST_ENUMERATED:
            raise NotImplementedError(
                f"there are too many labels of {plural(len(heads), 'tree')} to enumerate; the limit "
                f"is {MOST_ENUMERATED} values"
            )
        labels = torch.cartesian_prod(*[torch.arange(L, device=heads.device)] * n).reshape(-1, n)
        values = torch.stack([heads.repeat_interleave(len(labels), 0), labels.repeat(len(heads), 1)], -1)
        values = values.reshape(len(values), *(1,) * len(self.batch_shape), n, 2)
        return values.expand(-1, *self.batch_shape, -1, -1) if expand else values


def _of_labels(table: Tensor, heads: Tensor) -> Tensor:
    """What a table ``(*batch, n+1, n+1, L)`` says of the arcs of trees ``(*batch, n)``, shape ``(*batch, n, L)``."""
    n = heads.shape[-1]
    rows = table[..., 1:, :].flatten(-3, -2)  # head times n, plus dependent
    index = heads.clamp_min(0) * n + torch.arange(n, device=heads.device)
    batch = broadcast_shapes(index.shape[:-1], rows.shape[:-2])
    index = index.expand(*batch, n)[..., None].expand(*batch, n, rows.shape[-1])
    return rows.expand(*batch, *rows.shape[-2:]).gather(-2, index)


def _best_labels(scores: Tensor, real: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best labels of the words of trees: sums ``(*batch, k)``, and labels ``(*batch, k, n)``, -1 in the padding.

    :param scores: shape ``(*batch, n, L)``.
    :param real: which of the words are no padding, shape ``(*batch, n)``.
    """
    only_first = torch.full_like(scores, -torch.inf)
    only_first[..., 0] = 0.0
    total, labels = best_labellings(torch.where(real[..., None], scores, only_first), k)
    return total, labels.masked_fill(~real[..., None, :], -1)
