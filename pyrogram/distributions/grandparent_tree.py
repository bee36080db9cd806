# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees whose arcs see the head of the head, as a Pyro distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pyrogram.charts import grandparent, projective
from pyrogram.charts.checks import check_tensors
from pyrogram.charts.sibling_trees import siblings_of
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.run.on_tensors import TensorProgram

from .dependency_tree import SummedTreeDistribution


class GrandparentDependencyTree(SummedTreeDistribution):
    r"""Projective dependency trees whose arcs are scored together with the head of the head.

    A value is a tensor of heads, shape ``(n,)``, as in :class:`ProjectiveDependencyTree`. The *grandparent* of a word
    is the head of its head, 0 for ROOT. The score of a tree is the sum, over its arcs, of the arc's score and, unless
    the head is ROOT, of its score with the grandparent and, if given, with the grandparent and the *sibling*, the
    head's child before it on that side. These are Models 0 and 1 of Koo and Collins [1], with sums in place of maxima.
    ``log_prob`` is normalised: log p(tree | scores), in nats, never above 0.

    >>> trees = GrandparentDependencyTree(torch.zeros(4, 4), torch.zeros(4, 4, 4))
    >>> round(float(trees.log_partition.exp()), 4)  # three words have seven trees with one root
    7.0

    Time O(n^4), memory O(n^3) a sentence, O(n^4) with siblings.

    :param arc_scores: shape ``(*batch, n+1, n+1)`` [head, dependent]; -inf forbids an arc. Column 0 and the diagonal
        are not read.
    :param grandparent_scores: shape ``(*batch, n+1, n+1, n+1)`` [grandparent, head, dependent].
    :param grandsibling_scores: shape ``(*batch, n+1, n+1, n+1, n+1)`` [grandparent, head, dependent, sibling]: the
        nearest of the head's other children between the two, or the head itself if there is none; or None.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param multiroot: whether ROOT may have several children.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Koo, T. and Collins, M. (2010). Efficient third-order dependency parsers. ACL, sections 4.1 and 4.2.
    https://aclanthology.org/P10-1001/
    """

    grandparent_scores: Tensor
    grandsibling_scores: Tensor | None

    def __init__(
        self,
        arc_scores: Tensor,
        grandparent_scores: Tensor,
        grandsibling_scores: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        multiroot: bool = False,
        validate_args: bool | None = None,
    ):
        required = {"arc_scores": arc_scores, "grandparent_scores": grandparent_scores}
        check_tensors(required, grandsibling_scores=grandsibling_scores, lengths=lengths)
        scores = {**required, "grandsibling_scores": grandsibling_scores}
        shapes = {"arc_scores": "NN", "grandparent_scores": "NNN", "grandsibling_scores": "NNNN"}
        super().__init__(scores, shapes, lengths, multiroot, validate_args)

    @property
    def _program(self) -> TensorProgram:
        return grandparent.program(self.grandsibling_scores is not None, self.multiroot)

    def _weights(self, scores: Mapping[str, Tensor], lengths: Tensor) -> dict[str, Tensor]:
        arcs, N = scores["arc"], self.event_shape[0] + 1
        # What is in no tree may have any score, and the chart fills cells that no tree needs.
        h, d, x = torch.meshgrid(*[torch.arange(N, device=arcs.device)] * 3, indexing="ij")
        low, high = torch.minimum(h, d), torch.maximum(h, d)
        possible = (h > 0) & (d > 0) & (h != d) & ~((low <= x) & (x <= high))  # of the head's head x
        limits = self.lengths.reshape(1) if self.lengths.dim() == 0 else lengths
        within = torch.arange(N, device=arcs.device) <= limits[:, None]
        within = within[:, :, None, None] & within[:, None, :, None] & within[:, None, None, :]
        with_grandparent = arcs[..., None] + scores["grandparent"].permute(0, 2, 3, 1)
        weights = {
            "root": arcs[:, 0],
            "arc": torch.where(possible & within, with_grandparent, -torch.inf),
        }
        if "grandsibling" in scores:
            between = (x == h) | ((low < x) & (x < high))  # the sibling x
            by_sibling = (possible & within)[:, :, :, None, :] & between[..., None]
            weights["sibling"] = torch.where(by_sibling, scores["grandsibling"].permute(0, 2, 3, 4, 1), -torch.inf)
        return weights

    def _of_weights(self, counts: Mapping[str, Tensor]) -> Sequence[Tensor]:
        by_grandparent = counts["arc"].permute(0, 3, 1, 2)
        arcs = by_grandparent.sum(1)
        arcs = torch.cat([arcs[:, :1] + counts["root"][:, None], arcs[:, 1:]], 1)
        return arcs, by_grandparent, *(x.permute(0, 4, 1, 2, 3) for name, x in counts.items() if name == "sibling")

    @property
    def _sizes(self) -> dict[str, int]:
        return {"G": self.event_shape[0] + 1}

    @property
    def _trace(self) -> Trace:
        return {"root": (0, 1), **projective.arc_numbers(self.event_shape[0] + 1, by_valence=True)}

    def _events(self, heads: Tensor) -> dict[str, Tensor]:
        N = heads.shape[-1] + 1
        h = heads.clamp_min(0)
        above = torch.nn.functional.pad(h, (1, 0)).gather(-1, h)  # ROOT's is not read
        arc = h * N + torch.arange(1, N, device=heads.device)
        with_grandparent = above * N * N + arc
        events = {"arc": arc, "grandparent": with_grandparent}
        if self.grandsibling_scores is not None:
            events["grandsibling"] = with_grandparent * N + siblings_of(heads).clamp_min(0)
        return {n: torch.where(heads >= (0 if n == "arc" else 1), index, -1) for n, index in events.items()}
