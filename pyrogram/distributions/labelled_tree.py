# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Dependency trees whose arcs have labels, as a Pyro distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from pyrogram.checks import check_tensors
from pyrogram.printable import plural
from pyrogram.recursion.run.on_tensors import SumsOnTensors

from . import nonprojective_tree, projective_tree
from .constraints import DependencyTrees, LabelledDependencyTrees
from .dependency_tree import DependencyTreeDistribution, arcs_of

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
        scores, shapes = {"arc_scores": arc_scores}, {"arc_scores": "NNL"}
        super().__init__(scores, shapes, lengths, multiroot, validate_args, projective=projective)

    @property
    def support(self) -> LabelledDependencyTrees:
        """Trees of the sentences' lengths with labels."""
        trees = DependencyTrees(self.lengths, self.multiroot, projective=self.projective)
        return LabelledDependencyTrees(trees, self.num_labels)

    @property
    def _arcs(self) -> SumsOnTensors:
        if self.projective:
            return projective_tree.program(1, 0, self.multiroot)
        return nonprojective_tree.program(self.multiroot)

    def _parts(self, rows: Tensor) -> Tensor:
        rows = super()._parts(rows)
        return rows if self.projective else arcs_of(rows)  # which are heads

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All trees with all labels, shape ``(T, *batch_shape, n, 2)``, or ``(T, 1, .., 1, n, 2)`` if not ``expand``.

        :raises NotImplementedError: for more than 7 words, or 6 if arcs may cross, or a million values; or if lengths
            differ.
        """
        n, L = self.event_shape[0], self.num_labels
        heads = self._all_trees()
        if len(heads) * L**n > MOST_ENUMERATED:
            raise NotImplementedError(
                f"there are too many labels of {plural(len(heads), 'tree')} to enumerate; the limit "
                f"is {MOST_ENUMERATED} values"
            )
        labels = torch.cartesian_prod(*[torch.arange(L, device=heads.device)] * n).reshape(-1, n)
        values = torch.stack([heads.repeat_interleave(len(labels), 0), labels.repeat(len(heads), 1)], -1)
        return self._listed(values, expand)
