# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The charts of trees, by compiled code and by torch, and what they are tested on."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from oracle import Heads, Parts, TreeSums, all_spanning_trees, all_trees, parts_by_arc, parts_by_sibling
from oracle import parts_by_valence as by_valence
from torch import Tensor

from pyrogram.distributions import DependencyTree, ProjectiveDependencyTree, SiblingDependencyTree

Tables = dict[str, Tensor]


@dataclass(frozen=True)
class Kind:
    """Trees of one kind of scores.

    :param make: the distribution, from tables by name.
    :param sizes: of the axes of each table; N stands for n + 1.
    """

    make: Callable[..., Any]
    sizes: Mapping[str, tuple[Any, ...]]
    parts: Callable[[Heads], Parts]
    trees: Callable[[int, bool], list[Heads]] = all_trees

    def shapes(self, N: int) -> dict[str, tuple[int, ...]]:
        return {name: tuple(N if size == "N" else size for size in sizes) for name, sizes in self.sizes.items()}

    def corner(self, tables: Mapping[str, Tensor], b: int, length: int) -> Tables:
        """Those of one sentence without padding."""
        return {name: tables[name][b][tuple(map(slice, shape))] for name, shape in self.shapes(length + 1).items()}

    def law(self, tables: Mapping[str, Tensor], lengths: Any, multiroot: bool) -> Any:
        """The trees as a distribution."""
        scores = {f"{name}_scores": x for name, x in tables.items()}
        return self.make(**scores, lengths=lengths, multiroot=multiroot, validate_args=False)

    def log_partition(self, tables: Mapping[str, Tensor], lengths: Any, multiroot: bool, engine: str = "") -> Tensor:
        law = self.law(tables, lengths, multiroot)
        inputs, batch = law._tensor_inputs(law._own_batch), law._own_batch
        found: Tensor = law._program.log_partition(inputs, by_torch=engine == "torch").reshape(batch)
        return found

    def marginals(self, tables: Mapping[str, Tensor], lengths: Any, multiroot: bool, engine: str = "") -> Any:
        """log Z, and marginals by table."""
        graph = torch.is_grad_enabled() and any(x.requires_grad for x in tables.values())
        leaves = {name: x if x.requires_grad else x.detach().requires_grad_() for name, x in tables.items()}
        law = self.law(leaves, lengths, multiroot)
        with torch.enable_grad():
            inputs = law._tensor_inputs(law._own_batch)
        with torch.set_grad_enabled(graph):
            log_z, counts = law._program.marginals(inputs, by_torch=engine == "torch")
        weights, counts = [*inputs.weights.values()], [counts[name] for name in inputs.weights]
        found = torch.autograd.grad(weights, [*leaves.values()], counts, create_graph=graph)
        return log_z, dict(zip(self.sizes, found, strict=True))

    def sample(self, tables: Mapping[str, Tensor], lengths: Any, multiroot: bool, number: int, seed: int = 1) -> Tensor:
        drawn: Tensor = self.law(tables, lengths, multiroot)._sample(number, torch.Generator().manual_seed(seed))
        return drawn

    def top_k(self, tables: Mapping[str, Tensor], lengths: Any, multiroot: bool, k: int) -> tuple[Tensor, Tensor]:
        heads, scores = self.law(tables, lengths, multiroot)._top_k(k)
        return heads, scores

    def truth(self, tables: Mapping[str, Tensor], lengths: Tensor, multiroot: bool) -> list[TreeSums]:
        """By enumeration, of each sentence."""
        found = []
        for b, m in enumerate(lengths.tolist()):
            own = {name: x.detach().double().numpy() for name, x in self.corner(tables, b, m).items()}
            found.append(TreeSums(self.trees(m, multiroot), own, self.parts))
        return found

    def read(self, length: int, n: int, multiroot: bool) -> Tables:
        """Masks of what some tree of so many words can have, in tables of n words, by the definitions."""
        found = {name: torch.zeros(shape, dtype=torch.bool) for name, shape in self.shapes(n + 1).items()}
        for h in range(length + 1):
            for c in range(1, length + 1):
                if h == c:
                    continue
                several = h > 0 or multiroot
                found["arc"][h, c] = True
                if found["arc"].dim() > 2:
                    found["arc"][h, c, 1:] = several
                if "sibling" in found:
                    for r in range(h, c) if h < c else range(c + 1, h + 1):
                        found["sibling"][h, c, r] = several or r == 0
            if h and "stop" in found and "sibling" in found:
                found["stop"][h, 0, 1 : h + 1] = found["stop"][h, 1, h : length + 1] = True
            elif h and "stop" in found:
                found["stop"][h] = True
        return found


def _by_valence(arcs: int, stops: int) -> Kind:
    sizes = {"arc": ("N", "N", arcs)} | ({"stop": ("N", 2, stops)} if stops else {})
    make = functools.partial(ProjectiveDependencyTree, valence=True)
    return Kind(make, sizes, functools.partial(by_valence, arcs=arcs, stops=stops))


def _by_sibling(stops: bool) -> Kind:
    sizes = {"arc": "NN", "sibling": "NNN"} | ({"stop": ("N", 2, "N")} if stops else {})
    return Kind(SiblingDependencyTree, sizes, functools.partial(parts_by_sibling, stops=stops))


KINDS = {
    "arcs": _by_valence(1, 0),
    "arcs and stops": _by_valence(1, 2),
    "valences": _by_valence(2, 0),
    "valences and stops": _by_valence(2, 2),
    "siblings": _by_sibling(False),
    "siblings and stops": _by_sibling(True),
    "crossing arcs": Kind(DependencyTree, {"arc": "NN"}, parts_by_arc, all_spanning_trees),
}
#: Of which the chart reads what no tree has.
MORE = {"three valences": _by_valence(3, 3), "one valence and stops": _by_valence(1, 1)}


def problem(
    kind: Kind,
    lengths: Sequence[int],
    *,
    scale: float = 1.0,
    seed: int = 0,
    forbidden: float = 0.0,
    junk: Sequence[float] = (),
    multiroot: bool = True,
) -> tuple[Tables, Tensor]:
    """Random scores and lengths; a share of all scores is -inf, and what must not be read is junk, in turns."""
    generator, n = torch.Generator().manual_seed(seed), max(lengths)
    tables = {}
    for name, shape in kind.shapes(n + 1).items():
        x = scale * torch.randn(len(lengths), *shape, generator=generator, dtype=torch.float64)
        tables[name] = x.masked_fill(torch.rand(x.shape, generator=generator) < forbidden, -math.inf)
    for b, length in enumerate(lengths if junk else []):
        for name, read in kind.read(length, n, multiroot).items():
            number = int((~read).sum())
            tables[name][b][~read] = torch.tensor(junk, dtype=torch.float64)[torch.arange(number) % len(junk)]
    return tables, torch.tensor(lengths)


def impossible(kind: Kind, what: str) -> tuple[Tables, Tensor]:
    """Sentences some of which have no tree, or one."""
    tables, lengths = problem(kind, [4, 3, 1, 4, 2, 4], seed=3)
    arcs = tables["arc"]
    if what == "one tree":
        tables["arc"] = torch.full_like(arcs, -math.inf)
        for h, c in ((2, 1), (0, 2), (4, 3), (2, 4)):
            tables["arc"][:, h, c] = arcs[:, h, c]
    elif what == "no head":
        arcs[0, :, 2] = -math.inf
    elif what == "no root":
        arcs[0, 0] = arcs[3, 0] = -math.inf
    elif what == "no stop":
        tables["stop"][1, 2, 0] = tables["stop"][3, 1:, 1] = -math.inf
    elif what == "no first child":
        tables["sibling"][0, 0, :, 0] = tables["sibling"][3, 0, :, 0] = -math.inf
    else:
        assert what == "nothing"
        arcs.fill_(-math.inf)
    return tables, lengths


def impossibilities(kind: Kind) -> list[str]:
    of_tables = {"stop": "no stop", "sibling": "no first child"}
    return ["one tree", "no head", "no root", "nothing", *(of_tables[name] for name in kind.sizes if name != "arc")]


def to(tables: Mapping[str, Tensor], dtype: torch.dtype) -> Tables:
    return {name: x.to(dtype) for name, x in tables.items()}


def cycles(gap: float) -> Tensor:
    """Words 1, 2 and words 3, 4 prefer each other to all else by ``gap``; word 5 prefers ROOT."""
    arcs = torch.randn(3, 6, 6)
    for a, b in ((1, 2), (3, 4)):
        arcs[:, a, b] = arcs[:, b, a] = gap
    arcs[:, 0, 5] = gap / 2
    return arcs


def of_any_kind(kind: Kind, multiroot: bool) -> tuple[dict[str, Tensor], Tensor]:
    """Padded sentences of all lengths in no order, a few of which have forbidden parts, with junk where nothing is."""
    tables, lengths = problem(kind, [5, 1, 3, 2, 4, 4, 1, 5, 2], junk=JUNK, multiroot=multiroot, scale=1.5)
    some, _ = problem(kind, lengths.tolist(), forbidden=0.25, seed=5)
    for name, x in tables.items():
        x[[2, 4, 7]] = torch.where(some[name].isinf() & ~x.isnan(), -math.inf, x)[[2, 4, 7]]
    return tables, lengths


ALL = KINDS | MORE
EXACT = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 3e-5, "atol": 3e-5}}
JUNK = [math.nan, math.inf, -math.inf, 1e30, -1e30]
roots = pytest.mark.parametrize("multiroot", [False, True])
engines = pytest.mark.parametrize("engine", ["torch", "compiled"])
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
