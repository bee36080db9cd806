# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees as a Pyro distribution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.charts import projective
from pyrogram.charts.checks import check_stops, check_tensors
from pyrogram.charts.trees import arc_valences, over_valences, stop_valences, tree_scores

from .charted import Options, Summed, copied
from .dependency_tree import DependencyTreeDistribution, comparable, expected_difference


class ProjectiveDependencyTree(DependencyTreeDistribution):
    r"""Projective dependency trees of given sentences, :math:`p(y) = \exp(\mathrm{score}(y)) / Z`.

    A value is a tensor of heads, shape ``(n,)``, as in CoNLL: word c (counted from 1) has head ``value[c - 1]``

    1. in 0..n, where 0 is ROOT, left of the sentence, and 1..n are words;
    2. -1 in the padding, after the sentence's length;
    3. such that following heads from any word leads to ROOT, and arcs do not cross;
    4. with exactly one child of ROOT (any number from one on, if ``multiroot``).

    The score of a tree is the sum of its arcs' scores and, if given, of the scores of both stops of every word.
    ``log_prob`` is normalised: log p(tree | scores), in nats, never above 0.

    >>> trees = ProjectiveDependencyTree(torch.zeros(4, 4))
    >>> round(float(trees.log_partition.exp()), 4)  # three words have seven trees with one root
    7.0
    >>> trees.enumerate_support().shape
    torch.Size([7, 3])

    Time O(n^3), memory O(n^2) a sentence.

    :param arc_scores: shape ``(*batch, n+1, n+1)`` [head, dependent], or ``(*batch, n+1, n+1, V)`` [head,
        dependent, valence: how many children the head has nearer by on that side, V - 1 standing for more]; -inf
        forbids an arc. Column 0 and the diagonal are not read.
    :param stop_scores: shape ``(*batch, n+1, 2, S)`` [head, direction (0 left, 1 right), valence: how many children the
        head has on that side, S - 1 standing for more], or None; S is V, and any number where arcs have no valence.
        Row 0, ROOT's, is not read.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param multiroot: whether ROOT may have several children.
    :param valence: whether ``arc_scores`` has the last dimension of valences; needed where they are not two, or where
        the shape ends in (2, 2, 2) and does not tell.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Eisner, J. and Satta, G. (1999). Efficient parsing for bilexical context-free grammars and head
    automaton grammars. ACL, section 5. https://aclanthology.org/P99-1059/
    """

    stop_scores: Tensor | None

    def __init__(
        self,
        arc_scores: Tensor,
        stop_scores: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        multiroot: bool = False,
        valence: bool | None = None,
        validate_args: bool | None = None,
    ):
        check_tensors({"arc_scores": arc_scores}, stop_scores=stop_scores, lengths=lengths)
        shape = tuple(arc_scores.shape)
        if valence is None:
            if shape[-3:] == (2, 2, 2):
                raise ValueError(
                    f"arc_scores of shape {shape} may be one word with valence or a batch without it; "
                    "say valence=True or valence=False"
                )
            valence = len(shape) >= 3 and shape[-1] == 2 and shape[-2] == shape[-3]
        if not arc_scores.is_floating_point():
            raise ValueError(f"arc_scores must be floating-point numbers, not {arc_scores.dtype}")
        arcs = arc_scores if valence else arc_scores.unsqueeze(-1)
        square = arcs.dim() >= 3 and arcs.shape[-2] == arcs.shape[-3] >= 2
        if not square or arcs.shape[-1] < 1:
            raise ValueError(f"arc_scores must have shape (..., n+1, n+1) or (..., n+1, n+1, V), n >= 1, not {shape}")
        n = arcs.shape[-2] - 1
        if stop_scores is not None:
            check_stops(stop_scores, n, arcs.shape[-1])
        self._valence = valence
        scores = {"arc_scores": arc_scores, "stop_scores": stop_scores}
        super().__init__(scores, {"arc_scores": 2 + valence, "stop_scores": 3}, (n,), lengths, multiroot, validate_args)

    @property
    def _kind(self) -> type:
        return ProjectiveDependencyTree

    @property
    def _options(self) -> Options:
        return (("valence", self._valence),)

    def _posterior(self) -> Any:
        log_z, arcs, stops = super()._posterior()
        return log_z, arcs if arcs.dim() - log_z.dim() == 3 else arcs[..., None], stops

    @property
    def _arcs(self) -> Tensor:
        return self.arc_scores if self._valence else self.arc_scores.unsqueeze(-1)

    def _log_partition(self) -> Tensor:
        return projective.log_partition(self._arcs, self.stop_scores, self._lengths, multiroot=self.multiroot)

    def _summed(self) -> Summed:
        trees, inputs, batch = projective.prepare(self._arcs, self.stop_scores, self._lengths, self.multiroot)
        return Summed(trees.recursion, inputs, batch, {})

    def _marginals(self) -> tuple[Tensor, Tensor, Tensor | None]:
        return projective.marginals(self._arcs, self.stop_scores, self._lengths, multiroot=self.multiroot)

    def _score(self, heads: Tensor) -> Tensor:
        return tree_scores(heads, self._arcs, self.stop_scores)

    def _sample(self, count: int) -> Tensor:
        arcs = self._arcs.expand(*self.batch_shape, *self._arcs.shape[-3:])
        return projective.sample(arcs, self.stop_scores, self.lengths, num_samples=count, multiroot=self.multiroot)

    def _top_k(self, k: int) -> tuple[Tensor, Tensor]:
        arcs = self._arcs.expand(*self.batch_shape, *self._arcs.shape[-3:])
        return projective.top_k(arcs, self.stop_scores, self.lengths, k=k, multiroot=self.multiroot)

    def marginals(self) -> Tensor:
        """p(arc is in the tree), shape ``(*batch_shape, n+1, n+1)`` [head, dependent]."""
        arcs = over_valences(self._posterior()[1])
        return arcs.expand(*self.batch_shape, *arcs.shape[-2:])

    def expected_counts(self) -> dict[str, Tensor]:
        """The gradient of log Z: posterior of every arc and stop, in the shape of the scores."""
        _, arcs, stops = self._posterior()
        expected = {"arc": arcs if self._valence else arcs[..., 0]}
        if stops is not None:
            expected["stop"] = stops
        dims = len(self.batch_shape)
        own_dims = len(arcs.shape) - 3
        # Copies, so that a caller may change them in place.
        return {
            k: copied(v).expand(*self.batch_shape, *v.shape[own_dims:]) if own_dims <= dims else copied(v)
            for k, v in expected.items()
        }

    def counts(self, value: Tensor) -> dict[str, Tensor]:
        """The events of a tree, as indicators in the shape of the scores: the gradient of its score."""
        if self._validate_args:
            self._validate_sample(value)
        arcs, stops = self._indicators(value)
        counted = {"arc": arcs if self._valence else over_valences(arcs)}
        if self.stop_scores is not None:
            counted["stop"] = stops
        return counted

    def _indicators(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Arcs (..., n+1, n+1, V) and stops (..., n+1, 2, S) of a tree as zeros and ones."""
        V, S = self._arcs.shape[-1], 2 if self.stop_scores is None else self.stop_scores.shape[-1]
        heads = value.long()
        n = heads.shape[-1]
        real = heads >= 0
        dtype = self.arc_scores.dtype
        c = torch.arange(1, n + 1, device=heads.device)
        index = (heads.clamp_min(0) * (n + 1) + c) * V + arc_valences(heads, V)
        arcs = torch.zeros(*heads.shape[:-1], (n + 1) ** 2 * V, dtype=dtype, device=heads.device)
        arcs = arcs.scatter_add(-1, index, real.to(dtype)).unflatten(-1, (n + 1, n + 1, V))
        stops = torch.nn.functional.one_hot(stop_valences(heads, S), S).to(dtype)
        stops = stops * torch.nn.functional.pad(real, (1, 0))[..., None, None]
        return arcs, stops

    def entropy(self) -> Tensor:
        """Entropy in nats, shape ``batch_shape``; 0 where no tree is possible."""
        log_z, arcs, stops = self._posterior()
        pairs = [(self._arcs.expand(arcs.shape), arcs)]
        if stops is not None and self.stop_scores is not None:
            pairs.append((self.stop_scores.expand(stops.shape), stops))
        return projective.entropy(log_z, pairs).expand(self.batch_shape)


@register_kl(ProjectiveDependencyTree, ProjectiveDependencyTree)
def _kl(p: ProjectiveDependencyTree, q: ProjectiveDependencyTree) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    comparable(p, q)
    _, arcs, stops = p._posterior()
    if p._valence != q._valence or p._arcs.shape[-1] != q._arcs.shape[-1]:
        raise NotImplementedError(
            "one distribution's arc scores have other valences than the other's; give both the same"
        )
    p_arcs, q_arcs = torch.broadcast_tensors(p._arcs, q._arcs)
    total = q.log_partition - p.log_partition + expected_difference(arcs, p_arcs, q_arcs, 3)
    if stops is not None or q.stop_scores is not None:
        if p.stop_scores is None or q.stop_scores is None:
            raise NotImplementedError(
                "one distribution has stop scores and the other has none; give both, zeros will do"
            )
        assert stops is not None
        if p.stop_scores.shape[-1] != q.stop_scores.shape[-1]:
            raise NotImplementedError("the stop scores of p and q have different numbers of valences")
        total = total + expected_difference(stops, p.stop_scores, q.stop_scores, 3)
    return torch.where(q.log_partition == -torch.inf, torch.inf, total)
