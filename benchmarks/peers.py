# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Engines for projective dependency trees behind one face: ours, torch-struct's and supar's.

Every engine is called in its fastest public way, with scores ready in its own layout. Trees have a single root.
"""

from __future__ import annotations

import sys
import types
from importlib.util import find_spec
from typing import Any, Protocol

import torch
from torch import Tensor


class Engine(Protocol):
    """What is measured; scores are ``prepare``'s, marginals come back as [head, dependent] with ROOT."""

    name: str

    def prepare(self, arcs: Tensor) -> Tensor:
        """Our scores (B, n+1, n+1) [head, dependent] in the engine's layout, as a leaf that requires gradients."""

    def restore(self, values: Tensor) -> Tensor:
        """The transpose of ``prepare``, for marginals and trees as indicators."""

    def log_z(self, scores: Tensor) -> Tensor:
        """log Z, without a graph."""

    def log_z_and_gradient(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """log Z and the marginals, by backward."""

    def samples(self, scores: Tensor, count: int) -> Any:
        """Posterior draws; NotImplementedError where the library's own fail."""

    def best(self, scores: Tensor) -> Tensor:
        """Viterbi trees: heads (ours), or indicators in the engine's layout."""

    def mbr(self, scores: Tensor) -> Tensor:
        """The trees of the most expected right heads, from scores."""


def by_gradient(scores: Tensor, log_z: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and its gradient at a leaf."""
    scores.grad = None
    log_z.sum().backward()
    assert scores.grad is not None
    return log_z, scores.grad


class Pyrogram:
    """Ours, through the distribution."""

    name = "pyrogram"

    def __init__(self) -> None:
        from pyrogram.distributions import ProjectiveDependencyTree

        self._tree = ProjectiveDependencyTree

    def prepare(self, arcs: Tensor) -> Tensor:
        return arcs.clone().requires_grad_()

    def restore(self, values: Tensor) -> Tensor:
        return values

    def log_z(self, scores: Tensor) -> Tensor:
        with torch.no_grad():
            return self._tree(scores).log_partition

    def log_z_and_gradient(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return by_gradient(scores, self._tree(scores).log_partition)

    def expected_counts(self, scores: Tensor) -> Tensor:
        with torch.no_grad():
            return self._tree(scores).expected_counts()["arc"]

    def samples(self, scores: Tensor, count: int) -> Tensor:
        return self._tree(scores).sample((count,))

    def best(self, scores: Tensor) -> Tensor:
        with torch.no_grad():
            return self._tree(scores).argmax()

    def mbr(self, scores: Tensor) -> Tensor:
        return self._tree(scores).mbr()


class TorchStruct:
    """torch-struct's ``DependencyCRF``; scores of roots lie on the diagonal.

    log Z comes from the distribution's structure: its lazy properties would build a graph even under ``no_grad``, and
    ``marginals`` would build a graph of the gradient. Scores always require gradients, without which it changes a
    leaf in place and fails.
    """

    name = "torch-struct"

    def __init__(self) -> None:
        import torch_struct

        self._lib = torch_struct
        torch_struct.DepTree.multiroot = False  # its constructor sets the class attribute, too

    def prepare(self, arcs: Tensor) -> Tensor:
        scores = arcs[:, 1:, 1:].clone()
        scores.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
        return scores.requires_grad_()

    def restore(self, values: Tensor) -> Tensor:
        b, n, _ = values.shape
        arcs = values.new_zeros(b, n + 1, n + 1)
        arcs[:, 1:, 1:] = values
        arcs.diagonal(dim1=1, dim2=2).zero_()
        arcs[:, 0, 1:] = values.diagonal(dim1=1, dim2=2)
        return arcs

    def log_z(self, scores: Tensor) -> Tensor:
        with torch.no_grad():
            return self._lib.DepTree(self._lib.LogSemiring).sum(scores)

    def log_z_and_gradient(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return by_gradient(scores, self._lib.DepTree(self._lib.LogSemiring).sum(scores))

    def _distribution(self, scores: Tensor) -> Any:
        return self._lib.DependencyCRF(scores, multiroot=False)

    def samples(self, scores: Tensor, count: int) -> Tensor:
        return self._distribution(scores).sample((count,))

    def best(self, scores: Tensor) -> Tensor:
        return by_gradient(scores, self._lib.DepTree(self._lib.MaxSemiring).sum(scores))[1]

    def mbr(self, scores: Tensor) -> Tensor:
        return self.best(self.log_z_and_gradient(scores)[1].detach().requires_grad_())


class Supar:
    """supar's ``DependencyCRF``; scores are [dependent, head].

    In memory the batch comes last: then its charts do, too, and it copies none of them at each of n steps, which
    makes it two to ten times faster than with a contiguous batch. ``forward`` is called rather than the lazy property,
    which would build a graph even under ``no_grad``. Its sampler fails (1.1.4 does not unpack what it saved).
    """

    name = "supar"

    def __init__(self) -> None:
        # The packages' own __init__ import parsers, and with them transformers and stanza. We need the charts.
        if "supar" not in sys.modules:
            spec = find_spec("supar")
            assert spec is not None and spec.submodule_search_locations is not None
            for name, below in (("supar", ""), ("supar.utils", "/utils")):
                package = types.ModuleType(name)
                package.__path__ = [place + below for place in spec.submodule_search_locations]
                sys.modules.setdefault(name, package)
        from supar.structs.semiring import LogSemiring, MaxSemiring
        from supar.structs.tree import DependencyCRF

        self._crf, self._log, self._max = DependencyCRF, LogSemiring, MaxSemiring

    def prepare(self, arcs: Tensor) -> Tensor:
        return arcs.permute(1, 2, 0).contiguous().permute(2, 1, 0).detach().requires_grad_()

    def restore(self, values: Tensor) -> Tensor:
        return values.mT

    def log_z(self, scores: Tensor) -> Tensor:
        with torch.no_grad():
            return self._crf(scores).forward(self._log)

    def log_z_and_gradient(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return by_gradient(scores, self._crf(scores).forward(self._log))

    def samples(self, scores: Tensor, count: int) -> Any:
        raise NotImplementedError("supar 1.1.4 cannot sample trees")

    def best(self, scores: Tensor) -> Tensor:
        return by_gradient(scores, self._crf(scores).forward(self._max))[1]

    def mbr(self, scores: Tensor) -> Tensor:
        expected = self.log_z_and_gradient(scores)[1]
        return self.best(expected.detach().requires_grad_())


ENGINES = {engine.name: engine for engine in (Pyrogram, TorchStruct, Supar)}
