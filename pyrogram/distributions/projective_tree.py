# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees as a Pyro distribution."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions.kl import register_kl

from pyrogram.charts import projective
from pyrogram.charts.trees import arc_valences, projective_trees, stop_valences, tree_scores

from .constraints import DependencyTrees, Scores

LONGEST_ENUMERATED = 7


class ProjectiveDependencyTree(TorchDistribution):
    r"""Projective dependency trees of given sentences, :math:`p(y) = \exp(\mathrm{score}(y)) / Z`.

    A value is a tensor of heads, shape ``(n,)``, as in CoNLL: word c (counted from 1) has head ``value[c - 1]``

    1. in 0..n, where 0 is the wall, left of the sentence, and 1..n are words;
    2. -1 in the padding, after the sentence's length;
    3. such that following heads from any word leads to the wall, and arcs do not cross;
    4. with exactly one child of the wall (any number from one on, if ``multiroot``).

    The score of a tree is the sum of its arcs' scores and, if given, of the scores of both stops of every word.
    ``log_prob`` is normalised: log p(tree | scores), in nats, never above 0.

    Time O(n^3), memory O(n^2) a sentence.

    :param arc_scores: shape ``(*batch, n+1, n+1)`` [head, dependent], or ``(*batch, n+1, n+1, 2)`` [head,
        dependent, valence of the dependent: 0 for the head's nearest child on that side, else 1]; -inf forbids an
        arc. Column 0 and the diagonal are not read.
    :param stop_scores: shape ``(*batch, n+1, 2, 2)`` [head, direction (0 left, 1 right), valence: 1 if the head
        has a child on that side, else 0], or None. Row 0, the wall's, is not read.
    :param lengths: numbers of words, shape ``batch``, or None if all sentences have n.
    :param multiroot: whether the wall may have several children.
    :param valence: whether ``arc_scores`` has the last dimension of valences; needed only where its shape ends
        in (2, 2, 2) and does not tell.
    :raises ValueError: if shapes do not fit together or, with validation, if a score is NaN or +inf.

    **References:**

    [1] Eisner, J. and Satta, G. (1999). Efficient parsing for bilexical context-free grammars and head
    automaton grammars. ACL, section 5. https://aclanthology.org/P99-1059/
    """

    arg_constraints = {"arc_scores": Scores()}
    has_enumerate_support = True

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
        if not square or arcs.shape[-1] != (2 if valence else 1):
            raise ValueError(f"arc_scores must have shape (..., n+1, n+1) or (..., n+1, n+1, 2), n >= 1, not {shape}")
        n = arcs.shape[-2] - 1
        if stop_scores is not None and tuple(stop_scores.shape[-3:]) != (n + 1, 2, 2):
            raise ValueError(f"stop_scores must have shape (..., {n + 1}, 2, 2), not {tuple(stop_scores.shape)}")
        self._all_full = lengths is None
        if lengths is None:
            lengths = torch.full(arcs.shape[:-3], n, dtype=torch.long, device=arcs.device)
        batch_shape = projective.broadcast(
            arcs.shape[:-3], lengths.shape, torch.Size() if stop_scores is None else stop_scores.shape[:-3]
        )
        if lengths.is_floating_point():
            raise ValueError(f"lengths must be integers, not {lengths.dtype}")
        self.arc_scores, self.stop_scores, self.lengths = arc_scores, stop_scores, lengths.long()
        self.multiroot = multiroot
        self._valence = valence
        self._cache: dict[str, Any] = {}
        validate = self._validate_args if validate_args is None else validate_args
        # torch looks at the scores once more only to complain of them.
        invalid = validate and (projective.is_traced(arc_scores) or not Scores().holds(arc_scores))
        super().__init__(batch_shape, torch.Size([n]), validate_args=invalid)
        self._validate_args = validate
        if validate:
            self._validate_parameters()

    def _validate_parameters(self) -> None:
        if self.stop_scores is not None and not Scores().holds(self.stop_scores):
            raise ValueError("stop_scores must be real numbers or -inf, but some are NaN or +inf")
        if not self._all_full:
            projective.check_lengths(self.lengths, self.event_shape[0])

    @property
    def support(self) -> DependencyTrees:
        """Projective trees of the sentences' lengths."""
        return DependencyTrees(self.lengths, self.multiroot)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ProjectiveDependencyTree:
        """The same distribution in a larger batch; nothing is copied, and what is computed stays computed."""
        new: ProjectiveDependencyTree = self._get_checked_instance(type(self), _instance)
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("_batch_shape", "_validate_args")})
        super(ProjectiveDependencyTree, new).__init__(torch.Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __getstate__(self) -> dict[str, Any]:
        # What was computed hangs on a graph: torch refuses to copy that, and a pickle would cut it off unnoticed.
        return {**self.__dict__, "_cache": {}}

    # ------------------------------------------------------------------ charts

    @property
    def _arcs(self) -> Tensor:
        return self.arc_scores if self._valence else self.arc_scores.unsqueeze(-1)

    @property
    def _lengths(self) -> Tensor | None:
        """For the charts, which need not look at lengths that are all n."""
        return None if self._all_full else self.lengths

    def _kept(self, name: str, compute: Any) -> Any:
        """Compute once, and again if what was kept was computed without the graph that is now wanted."""
        if name not in self._cache or (torch.is_grad_enabled() and not self._cache[name][0]):
            self._cache[name] = (torch.is_grad_enabled(), compute())
        return self._cache[name][1]

    def _posterior(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """log Z and the marginals of arcs and stops, in the parameters' own batch shape."""
        return self._kept(  # type: ignore[no-any-return]
            "posterior",
            lambda: projective.marginals(self._arcs, self.stop_scores, self._lengths, multiroot=self.multiroot),
        )

    @property
    def log_partition(self) -> Tensor:
        """log Z in nats, shape ``batch_shape``; -inf for a sentence without any possible tree."""

        def compute() -> Tensor:
            return projective.log_partition(self._arcs, self.stop_scores, self._lengths, multiroot=self.multiroot)

        # The marginals' chart has log Z as well.
        log_z = self._posterior()[0] if "posterior" in self._cache else self._kept("log_z", compute)
        return log_z if log_z.shape == self.batch_shape else log_z.expand(self.batch_shape)

    # ------------------------------------------------------------------ probabilities

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(tree), in nats.

        :param value: heads, shape ``(*sample, *batch, n)``, integers (floats with integral values will do).
        """
        if self._validate_args:
            self._validate_sample(value)
        score = tree_scores(value.long(), self._arcs, self.stop_scores)
        log_z = self.log_partition
        return torch.where(log_z > -torch.inf, score - log_z, torch.full_like(score, -torch.inf))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Independent trees, exact, shape ``(*sample_shape, *batch_shape, n)``.

        :raises ValueError: if a sentence has no possible tree.
        """
        sample_shape = torch.Size(sample_shape)
        arcs = self._arcs.expand(*self.batch_shape, *self._arcs.shape[-3:])
        with torch.no_grad():
            heads = projective.sample(
                arcs,
                self.stop_scores,
                self.lengths,
                num_samples=sample_shape.numel(),
                multiroot=self.multiroot,
            )
        return heads.reshape(*sample_shape, *self.batch_shape, heads.shape[-1])

    def marginals(self) -> Tensor:
        """p(arc is in the tree), shape ``(*batch_shape, n+1, n+1)`` [head, dependent]."""
        arcs = self._posterior()[1].sum(-1)
        return arcs.expand(*self.batch_shape, *arcs.shape[-2:])

    def expected_counts(self) -> dict[str, Tensor]:
        """The gradient of log Z: posterior of every arc and stop, in the shape of the scores."""
        _, arcs, stops = self._posterior()
        expected = {"arc": arcs if self._valence else arcs[..., 0]}
        if stops is not None:
            expected["stop"] = stops
        dims = len(self.batch_shape)
        own = len(arcs.shape) - 3
        # Copies, so that a caller may change them in place.
        return {
            k: _copy(v).expand(*self.batch_shape, *v.shape[own:]) if own <= dims else _copy(v)
            for k, v in expected.items()
        }

    def counts(self, value: Tensor) -> dict[str, Tensor]:
        """The events of a tree, as indicators in the shape of the scores: the gradient of its score."""
        arcs, stops = self._indicators(value)
        counted = {"arc": arcs if self._valence else arcs.sum(-1)}
        if self.stop_scores is not None:
            counted["stop"] = stops
        return counted

    def _indicators(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Arcs (..., n+1, n+1, 2) and stops (..., n+1, 2, 2) of a tree as zeros and ones."""
        heads = value.long()
        n = heads.shape[-1]
        real = heads >= 0
        dtype = self.arc_scores.dtype
        c = torch.arange(1, n + 1, device=heads.device)
        index = (heads.clamp_min(0) * (n + 1) + c) * 2 + arc_valences(heads)
        arcs = torch.zeros(*heads.shape[:-1], (n + 1) ** 2 * 2, dtype=dtype, device=heads.device)
        arcs = arcs.scatter_add(-1, index, real.to(dtype)).unflatten(-1, (n + 1, n + 1, 2))
        stops = torch.nn.functional.one_hot(stop_valences(heads), 2).to(dtype)
        stops = stops * torch.nn.functional.pad(real, (1, 0))[..., None, None]
        return arcs, stops

    def entropy(self) -> Tensor:
        """Entropy in nats, shape ``batch_shape``."""
        log_z, arcs, stops = self._posterior()
        pairs = [(self._arcs.expand(arcs.shape), arcs)]
        if stops is not None and self.stop_scores is not None:
            pairs.append((self.stop_scores.expand(stops.shape), stops))
        return projective.entropy(log_z, pairs).expand(self.batch_shape)

    # ------------------------------------------------------------------ decoding

    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable trees, best first: heads ``(k, *batch_shape, n)`` and log probabilities.

        Where there are fewer than k possible trees, heads are -1 and log probabilities -inf.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        arcs = self._arcs.expand(*self.batch_shape, *self._arcs.shape[-3:])
        heads, scores = projective.top_k(arcs, self.stop_scores, self.lengths, k=k, multiroot=self.multiroot)
        log_z = self.log_partition.detach()
        return heads, torch.where(scores > -torch.inf, scores - log_z, scores)

    def argmax(self) -> Tensor:
        """The most probable tree (Viterbi), shape ``(*batch_shape, n)``."""
        return self.top_k(1)[0][0]

    @property
    def mode(self) -> Tensor:
        """The most probable tree."""
        return self.argmax()

    def mbr(self) -> Tensor:
        """The tree with the most expected right heads (minimum Bayes risk), shape ``(*batch_shape, n)``.

        Heads are -1 where no tree is possible.
        """
        with torch.no_grad():
            heads = projective.mbr(self.marginals()[..., None], self.lengths, multiroot=self.multiroot)
            return torch.where(self.log_partition[..., None] > -torch.inf, heads, -1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All trees, shape ``(T, *batch_shape, n)``, or ``(T, 1, .., 1, n)`` if not ``expand``.

        :raises NotImplementedError: for more than 7 words (728 trees at 6, 3,876 at 7), or if lengths differ.
        """
        n = self.event_shape[0]
        if n > LONGEST_ENUMERATED:
            raise NotImplementedError(
                f"there are too many trees of {n} words to enumerate; the limit is {LONGEST_ENUMERATED}"
            )
        if not bool((self.lengths == n).all()):
            raise NotImplementedError("sentences of different lengths have no common support to enumerate")
        # A copy: the list of trees is kept for all distributions, and a caller may change what he gets.
        trees = projective_trees(n, self.multiroot).clone().to(self.arc_scores.device)
        trees = trees.reshape(len(trees), *(1,) * len(self.batch_shape), n)
        return trees.expand(-1, *self.batch_shape, -1) if expand else trees


def _copy(values: Tensor) -> Tensor:
    """A copy, by numpy where it can: torch would wake its threads, which then spin and get in the way of ours."""
    if values.requires_grad or projective.choose_engine(values, None) == "torch":
        return values.clone()
    return torch.from_numpy(values.numpy().copy())


@register_kl(ProjectiveDependencyTree, ProjectiveDependencyTree)
def _kl(p: ProjectiveDependencyTree, q: ProjectiveDependencyTree) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids."""
    if p.multiroot and not q.multiroot:
        raise NotImplementedError("p may have several roots and q only one, so the divergence is infinite")
    if p.event_shape != q.event_shape or not bool((p.lengths == q.lengths).all()):
        raise NotImplementedError("p and q are over trees of different lengths, so the divergence is infinite")
    _, arcs, stops = p._posterior()
    p_arcs, q_arcs = torch.broadcast_tensors(p._arcs, q._arcs) if p._valence == q._valence else (p._arcs, q._arcs)
    if p._valence != q._valence:
        raise NotImplementedError(
            "one distribution's arc scores have valence and the other's do not; give both valence"
        )
    total = q.log_partition - p.log_partition + _expected_difference(arcs, p_arcs, q_arcs, 3)
    if stops is not None or q.stop_scores is not None:
        if p.stop_scores is None or q.stop_scores is None:
            raise NotImplementedError(
                "one distribution has stop scores and the other has none; give both, zeros will do"
            )
        assert stops is not None
        total = total + _expected_difference(stops, p.stop_scores, q.stop_scores, 3)
    return torch.where(q.log_partition > -torch.inf, total, torch.inf)


def _expected_difference(posterior: Tensor, p_scores: Tensor, q_scores: Tensor, event_dim: int) -> Tensor:
    difference = torch.where(posterior > 0, p_scores - q_scores, torch.zeros_like(posterior))
    return (posterior * difference).flatten(-event_dim).sum(-1)
