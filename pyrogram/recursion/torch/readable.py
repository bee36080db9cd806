# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights by positions, as a chart reads them: what no rule speaks of is impossible.

Before: arc[b, h, m] for all h and m, of which 0 <= h <= n_b and 1 <= m <= n_b, h != m, are arcs of the sentence.
After: arc[b, h, m] for these, -inf for the others.
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


def readable(cells: Cells, weights: Mapping[str, Tensor], lengths: Tensor) -> dict[str, Tensor]:
    """Weights with a batch dimension, of which only those stay that rules speak of."""
    found = dict(weights)
    for name, table in weights.items():
        if cells.arity[name] and (len(table) == len(lengths) or len(lengths) == 1):
            found[name] = torch.where(_read(cells, name, table, lengths), table, -torch.inf)
    return found


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
