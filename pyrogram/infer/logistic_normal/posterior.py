# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The mean-field posterior of normal experts: which exist, their weights, their moments.

Cohen, Gimpel and Smith (2008), appendix A; Cohen and Smith (2009), Figure 3. A *group* is what shares a draw of the
experts: a sentence, or the whole corpus. Stored are the experts whose multinomials occur in a group; the others stay at
their prior's optimum (mean μ, variance 1 / Λ_ii) and are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.checks import broadcast_shapes
from pyrogram.distributions.gaussian import Gaussian
from pyrogram.distributions.partition import PartitionStructure
from pyrogram.logistic_normal import experts
from pyrogram.logistic_normal.layout import ranges

from .draws import ExpertDraws
from .layout import Family, arrange, parts_of, starts_of

Array = Any


@dataclass(frozen=True)
class Moments:
    """Sums over groups of E[η - μ] and E[(η - μ)(η - μ)ᵀ] for a family of experts, and over how many groups.

    ``second`` holds only the diagonal if the covariance is diagonal.
    """

    count: Tensor
    first: Tensor
    second: Tensor

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.first + other.first, self.second + other.second)

    def about(self, shift: Tensor) -> Tensor:
        """The second moments about μ + shift instead of μ."""
        count = self.count[..., None]
        if self.second.dim() == self.first.dim():
            return self.second - 2 * self.first * shift + count * shift**2
        shift = shift.expand(broadcast_shapes(shift.shape, self.first.shape[-1:]))  # it may be a number
        cross = self.first[..., :, None] * shift[..., None, :]
        return self.second - cross - cross.mT + count[..., None] * shift[..., :, None] * shift[..., None, :]


class ExpertPosterior:
    """q(η) = Π N(m, v), one factor for every coordinate of every expert of every group.

    :param structure: which segments of which experts make up which multinomials.
    :param rows: by block, the group and the multinomial (flat index) of every row of weights, sorted by group.
    :param num_groups: how many draws of the experts there are.
    :param diagonal: families whose coordinates are independent. If they are packed, each part that makes up a
        multinomial is an expert of its own.
    """

    def __init__(
        self,
        structure: PartitionStructure,
        rows: Mapping[str, tuple[Array, Array]],
        num_groups: int,
        diagonal: Collection[str] = (),
    ):
        self.structure, self.num_groups = structure, num_groups
        self._families: dict[str, Family] = {}
        first = 0
        for name, experts_ in structure.experts.items():
            parts = parts_of(structure, name) if name in diagonal else (experts_.length,)
            self._families[name] = Family(first, experts_.count, experts_.length, parts)
            first = self._families[name].end
        self.rows, self._index, self._sizes = arrange(structure, rows, self._families, first, num_groups)
        self.present = np.bincount(self.rows.expert, minlength=first)
        self.mean = np.zeros(int(self.rows.expert_start[-1]))
        self.variance = np.ones_like(self.mean)
        total = int(self.rows.row_start[-1])
        self._u, self._w, self._psi, self._f = (np.zeros(total) for _ in range(4))
        self._priors: Any = None

    def set_priors(self, gaussians: Mapping[str, Gaussian]) -> None:
        """μ and Σ of every family."""
        self._gaussians = {name: _double(g, self.structure.experts[name].shape) for name, g in gaussians.items()}
        self._priors = _priors([self._gaussians[name] for name in self._families], list(self._families.values()))

    def start(self, means: Mapping[str, Tensor] | None = None) -> None:
        """Put q at the prior's optimum; or, of given means by family, at these with the prior's variances."""
        mu = self._priors.mu
        if means is not None:
            mu = np.concatenate([means[n].to("cpu", torch.float64).reshape(-1).numpy() for n in self._families])
        coordinates = ranges(self._priors.start[self.rows.expert], np.diff(self.rows.expert_start))
        self.mean, self.variance = mu[coordinates], 1 / self._priors.precision_diag[coordinates]
        self.refresh()

    def start_at_draw(self, generator: np.random.Generator) -> None:
        """Put the means of q at a draw from the prior, with the variances of :meth:`start`."""
        self.start()
        self.mean, _ = self.draws(of_q=False).draw(generator)
        self.refresh()

    def put_back(self, mean: Array, variance: Array, groups: Array) -> None:
        """Give some groups other numbers: flat arrays like ``mean`` and ``variance``.

        :param groups: of each group, whether it is one of them.
        """
        chosen = np.repeat(groups[self.rows.expert_group], self.rows.length)
        self.mean, self.variance = np.where(chosen, mean, self.mean), np.where(chosen, variance, self.variance)
        self.refresh()

    def refresh(self) -> None:
        """Recompute the mixtures from ``mean`` and ``variance``."""
        self._u, self._w = experts.averages(self.rows, self.mean, self.variance)
        experts.log_weights(self.rows, self._u, self._w, np.arange(self.num_groups), self._psi)

    def log_weights(self) -> dict[str, Tensor]:
        """log of the weighted grammar, ψ̃ (2009, Eq. 5), by block: one row for each row of weights."""
        return {block: torch.from_numpy(self._block(self._psi, block)) for block in self._index}

    def update(self, counts: Mapping[str, Tensor], groups: Array, *, steps: int = 8, tolerance: float = 1e-8) -> None:
        """Raise the bound in m and v, given expected counts; only in the groups listed."""
        for block, index in self._index.items():
            f = counts[block].to("cpu", torch.float64).numpy()
            if index is None:
                self._f = np.ascontiguousarray(f).reshape(-1)
            else:
                self._f[index] = f
        arrays = (self._f, self.mean, self.variance, self._u, self._w)
        experts.update(self.rows, self._priors, *arrays, groups, steps=steps, tolerance=tolerance)
        experts.log_weights(self.rows, self._u, self._w, groups, self._psi)

    def negative_kl(self, groups: Array | None = None) -> Array:
        """-KL(q || prior) of each group, or only of those listed, in nats, of its stored experts: ``(num_groups,)``."""
        return experts.negative_kl(self.rows, self._priors, self.mean, self.variance, groups)

    def absent_negative_kl(self) -> float:
        """-KL(q || prior) of all experts that are not stored: what mean field loses to their covariance."""
        return float(((self.num_groups - self.present) * self._negative_kl_of_absent()).sum())

    def absent_negative_kl_by_group(self) -> Array:
        """The same of each group, shape ``(num_groups,)``."""
        each = self._negative_kl_of_absent()
        return each.sum() - np.bincount(self.rows.expert_group, each[self.rows.expert], self.num_groups)

    def _negative_kl_of_absent(self) -> Array:
        """By expert, -(log |Σ| + Σ_i log Λ_ii) / 2: zero if Σ is diagonal, negative if not (Hadamard's inequality)."""
        p = self._priors
        log_precision = np.add.reduceat(np.log(p.precision_diag), p.start[:-1])
        return -0.5 * (p.log_det + log_precision)

    def draws(self, of_q: bool) -> ExpertDraws:
        """Draws from q; or from N(m, Σ), about the means of q with the covariances of the prior."""
        return ExpertDraws(self.rows, self._priors, self.mean, self.variance if of_q else None)

    def log_weights_of(self, value: Array) -> dict[str, Tensor]:
        """log softmax of the mixtures of given experts, flat, by block: one row for each row of weights."""
        u, w = experts.averages(self.rows, value, np.zeros_like(value))
        psi = np.zeros_like(self._psi)
        experts.log_weights(self.rows, u, w, np.arange(self.num_groups), psi)
        return {block: torch.from_numpy(self._block(psi, block)) for block in self._index}

    def moments(self, absent: bool = True) -> dict[str, Moments]:
        """By family; :param absent: count the groups in which an expert is not stored, too."""
        _, first, second = experts.moments(self.rows, self._priors, self.mean, self.variance)
        p = self._priors
        by_family = {}
        for name, family in self._families.items():
            n, end, batch, length = family.first, family.end, family.count, family.length
            s1 = first[p.start[n] : p.start[end]].reshape(batch, length)
            s2 = second[p.matrix_start[n] : p.matrix_start[end]].reshape(batch, *([length] * (2 - p.diagonal[n])))
            count = self.present[n : end : len(family.parts)].astype(np.float64)  # all parts occur together
            if absent:
                rest = (self.num_groups - count)[:, None] / p.precision_diag[p.start[n] : p.start[end]].reshape(
                    batch, length
                )
                s2 = s2 + (rest if p.diagonal[n] else rest[..., None] * np.eye(length))
                count = np.full(batch, float(self.num_groups))
            shape = self.structure.experts[name].shape
            tensors = (torch.from_numpy(np.ascontiguousarray(x)) for x in (count, s1, s2))
            c, f, s = tensors
            by_family[name] = Moments(
                c.reshape(shape[:-1]), f.reshape(shape), s.reshape(*shape[:-1], *s.shape[1:]).contiguous()
            )
        return by_family

    def corpus_means(self) -> dict[str, Tensor]:
        """m by family, in the family's shape, where there is one group for all."""
        return self._by_family(self._priors.mu.copy(), self.mean)

    def corpus_variances(self) -> dict[str, Tensor]:
        """v by family, in the family's shape, where there is one group for all."""
        return self._by_family(1 / self._priors.precision_diag, self.variance)

    def _by_family(self, flat: Array, stored: Array) -> dict[str, Tensor]:
        flat[ranges(self._priors.start[self.rows.expert], np.diff(self.rows.expert_start))] = stored
        tensors = {}
        for name, family in self._families.items():
            piece = flat[self._priors.start[family.first] :][: family.count * family.length]
            tensors[name] = torch.from_numpy(piece.copy()).reshape(self.structure.experts[name].shape)
        return tensors

    def _block(self, flat: Array, block: str) -> Array:
        index = self._index[block]
        return flat.reshape(-1, self._sizes[block]) if index is None else flat[index]


def _priors(gaussians: list[Gaussian], families: list[Family]) -> experts.ExpertPriors:
    """The flat arrays of the kernels, of families in double precision with expanded means."""
    precisions, diagonals, log_dets = [], [], []
    for g, family in zip(gaussians, families, strict=True):
        if g.covariance is None:
            assert g.variance is not None
            precision = diagonal = 1 / g.variance
            starts = starts_of(np.tile(family.parts, family.count))[:-1]
            log_det = torch.from_numpy(np.add.reduceat(g.variance.log().reshape(-1).numpy(), starts))
        else:
            # In numpy: torch spreads these small matrices over threads, which takes longer than the work.
            cholesky = np.linalg.cholesky(g.covariance.numpy())
            factor = np.linalg.inv(cholesky)
            inverse, precision = torch.from_numpy(factor), torch.from_numpy(np.swapaxes(factor, -1, -2) @ factor)
            diagonal = precision.diagonal(dim1=-2, dim2=-1)
            log_det = -2 * inverse.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        precisions.append(precision.reshape(-1))
        diagonals.append(diagonal.reshape(-1))
        log_dets.append(log_det.reshape(-1))
    lengths = np.concatenate([np.tile(family.parts, family.count) for family in families])
    counts = [family.count * len(family.parts) for family in families]
    flags = np.repeat([g.covariance is None for g in gaussians], counts)
    return experts.ExpertPriors(
        mu=torch.cat([g.loc.reshape(-1) for g in gaussians]).numpy(),
        start=starts_of(lengths),
        diagonal=flags,
        precision=torch.cat(precisions).numpy(),
        matrix_start=starts_of(np.where(flags, lengths, lengths**2)),
        log_det=torch.cat(log_dets).numpy(),
        precision_diag=torch.cat(diagonals).numpy(),
    )


def _double(gaussian: Gaussian, shape: torch.Size) -> Gaussian:
    """In double precision on the CPU, with the shape of the family."""

    def moved(tensor: Tensor, to: torch.Size) -> Tensor:
        return tensor.detach().to("cpu", torch.float64).expand(to)

    loc = moved(gaussian.loc, shape)
    if gaussian.covariance is None:
        assert gaussian.variance is not None
        return Gaussian(loc, variance=moved(gaussian.variance, shape))
    return Gaussian(loc, covariance=moved(gaussian.covariance, shape + shape[-1:]))
