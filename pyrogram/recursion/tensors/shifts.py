# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights by positions, as a chart reads them: what no rule speaks of is impossible, the best of a group weighs one.

Before: arc[b, h, m] for all h and m, of which 0 <= h <= n_b and 1 <= m <= n_b, h != m, are arcs of the sentence.
After: arc[b, h, m] - max_h arc[b, h, m] for these, -inf for the others; and the sum of the maxima, which log Z lacks.

Numbers near zero are precise ones, in float32 above all. Groups are claimed by pages (:meth:`.Recursion.once`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor

from ..rules.bounds import UNBOUNDED, Bounds
from ..rules.cells import Cells
from ..rules.domains import constraints
from ..rules.language import Constant, Position, Ref, Rule


def shifted(cells: Cells, weights: Mapping[str, Tensor], lengths: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Weights with a batch dimension, and the offset of log Z, shape ``(B,)``."""
    read = {
        name: _read(cells, name, table, lengths)
        for name, table in weights.items()
        if cells.arity[name] and (len(table) == len(lengths) or len(lengths) == 1)
    }
    found = {name: torch.where(read[name], t, -torch.inf) if name in read else t for name, t in weights.items()}
    offset = torch.zeros(len(lengths), dtype=next(iter(found.values())).dtype, device=lengths.device)
    claims: dict[int, list[str]] = {}
    for name in read:
        once = cells.recursion.tables[name].once
        if once is not None:
            claims.setdefault(once[0], []).append(name)
    for names in claims.values():
        best = [found[name].detach().amax(_others(cells, name, found[name])) for name in names]
        top = best[0] if len(best) == 1 else torch.stack(best).amax(0)
        top = top.masked_fill(top == -torch.inf, 0.0)  # a group that nothing is read of
        for name in names:
            shape = [1 if a in _others(cells, name, found[name]) else s for a, s in enumerate(found[name].shape)]
            found[name] = found[name] - top.reshape(shape)
        offset = offset + top.flatten(1).sum(1)
    return found, offset


def _others(cells: Cells, name: str, table: Tensor) -> tuple[int, ...]:
    """The dimensions that do not say to which group a weight belongs."""
    once = cells.recursion.tables[name].once
    assert once is not None
    return tuple(a for a in range(1, table.dim()) if a - 1 not in once[1])


def _read(cells: Cells, name: str, table: Tensor, lengths: Tensor) -> Tensor:
    """Which elements of a table some rule speaks of, with the table's dimensions."""
    found = torch.zeros([1] * table.dim(), dtype=torch.bool, device=table.device)
    for rule, f in {str((rule, f)): (rule, f) for rule, f in _places(cells, name)}.values():
        found = found | _spoken_of(cells, rule, f, table, lengths)
    return found


def _places(cells: Cells, name: str) -> list[tuple[Rule, Ref]]:
    terms = [term for cell in cells.classes for head in cell.heads for term in head.terms]
    return [(term.rule, f) for term in terms for f in term.rule.weights if f.table == name]


def _spoken_of(cells: Cells, rule: Rule, f: Ref, table: Tensor, lengths: Tensor) -> Tensor:
    """The elements of a weight that instances of a rule have."""
    names = [f"axis{a}" for a in range(len(f.positions))]
    given = list(constraints(rule, cells.first, cells.domains) or [])
    for axis, x in zip(names, f.positions, strict=True):
        given += [*(Position(axis) <= x).bounds, *(x <= Position(axis)).bounds]
    bounds = Bounds([*rule.positions, "i", "j", *names], given)
    values: dict[str, Tensor] = {"": torch.zeros((), dtype=torch.long, device=table.device)}
    values["n"] = lengths.reshape(-1, *[1] * (table.dim() - 1))
    for dim, axis in enumerate(names, start=1):
        shape = [1] * table.dim()
        shape[dim] = -1
        values[axis] = torch.arange(table.shape[dim], device=table.device).reshape(shape)
    found = torch.ones([1] * table.dim(), dtype=torch.bool, device=table.device)
    for a, b in itertools.permutations(values, 2):
        most = bounds.most(Position(a), Position(b))
        if most < UNBOUNDED:
            found = found & (values[a] - values[b] <= most)
    for dim, s in enumerate(f.symbols, start=1 + len(names)):
        if isinstance(s, Constant):
            shape = [1] * table.dim()
            shape[dim] = -1
            found = found & (torch.arange(table.shape[dim], device=table.device) == s.value).reshape(shape)
    return found
