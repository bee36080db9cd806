# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How the experts and multinomials of all groups lie in memory, and in which order they are worked on.

What a *group* is, and what is computed from these, is said in :mod:`.experts`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from pyrogram.logistic_normal.arrays import LayoutArrays, PriorArrays
from pyrogram.logistic_normal.phases import find_phases
from pyrogram.printable import plural
from pyrogram.runtime.arrays import Array

# So many groups are one turn of a thread, and deal their experts to common vectors.
BLOCK = 64


@dataclass(eq=False)
class ExpertLayout:
    """Which multinomials and experts occur in which group, and how they belong together.

    A *multinomial row* is a multinomial in a group, an *expert row* an expert in a group; each expert once. All
    arrays are int64 but ``att_scale``, which is float64.

    :param row_group: (R,), the group of each multinomial row, ascending.
    :param row_start: (R+1,), row r has the coordinates ``row_start[r]:row_start[r+1]`` of f, u, w and psi.
    :param expert_group: (E,), the group of each expert row, ascending.
    :param expert: (E,), the expert of each expert row: its number in :class:`ExpertPriors`.
    :param expert_start: (E+1,), expert row e has the coordinates ``expert_start[e]:expert_start[e+1]`` of m and v.
    :param group_ptr: (G+1,), the expert rows of group g are ``group_ptr[g]:group_ptr[g+1]``.
    :param att_ptr: (E+1,), the attachments of expert row e are ``att_ptr[e]:att_ptr[e+1]``.
    :param att_row: (A,), the multinomial row, of the same group, that takes part.
    :param att_coord: (A,), the first of the expert's coordinates that take part; they are as many as the row's.
    :param att_scale: (A,), 1/|J|, one over the number of segments that the multinomial is the mean of.
    :raises ValueError: if the arrays do not fit together.
    """

    row_group: Array
    row_start: Array
    expert_group: Array
    expert: Array
    expert_start: Array
    group_ptr: Array
    att_ptr: Array
    att_row: Array
    att_coord: Array
    att_scale: Array

    def __post_init__(self) -> None:
        for field in fields(self):
            dtype = np.float64 if field.name == "att_scale" else np.int64
            setattr(self, field.name, np.ascontiguousarray(getattr(self, field.name), dtype))
        self.length = np.diff(self.expert_start)
        self.row_size = np.diff(self.row_start)
        self._check()
        self.row_ptr = np.searchsorted(self.row_group, np.arange(self.num_groups + 1))
        self._plan()

    @property
    def num_groups(self) -> int:
        return len(self.group_ptr) - 1

    def _check(self) -> None:
        """Compiled code does not check bounds."""
        for name in ("row_group", "expert", "group_ptr", "att_row"):
            if getattr(self, name).ndim != 1:
                raise ValueError(f"{name} must have one dimension, not shape {getattr(self, name).shape}")
        R, E, A = len(self.row_group), len(self.expert), len(self.att_row)
        groups = np.arange(self.num_groups + 1)
        for name, size in (
            *(("row_start", R + 1), ("expert_group", E), ("expert_start", E + 1), ("att_ptr", E + 1)),
            *(("att_coord", A), ("att_scale", A)),
        ):
            if getattr(self, name).shape != (size,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, expected ({size},)")
        for name in ("row_start", "expert_start", "att_ptr"):
            array, least = getattr(self, name), 0 if name == "att_ptr" else 1
            if array[0] != 0 or (np.diff(array) < least).any():
                raise ValueError(f"{name} must begin with 0 and ascend, but is {array}")
        for name in ("row_group", "expert_group"):
            array = getattr(self, name)
            if len(array) and (array[0] < 0 or array[-1] >= self.num_groups or (np.diff(array) < 0).any()):
                raise ValueError(f"{name} must ascend within 0..{self.num_groups - 1}, but is {array}")
        if (self.group_ptr != np.searchsorted(self.expert_group, groups)).any():
            raise ValueError("group_ptr does not say where the groups of expert_group begin")
        if self.att_ptr[-1] != A:
            raise ValueError(
                f"att_ptr ends with {self.att_ptr[-1]}, but {plural(A, 'attachment is', 'attachments are')} there"
            )
        if A == 0:
            return
        owner = np.repeat(np.arange(E), np.diff(self.att_ptr))
        if self.att_row.min() < 0 or self.att_row.max() >= R:
            raise ValueError(f"att_row must be in 0..{R - 1}")
        if (self.row_group[self.att_row] != self.expert_group[owner]).any():
            raise ValueError("att_row names rows of other groups than their experts'")
        if self.att_coord.min() < 0 or (self.att_coord + self.row_size[self.att_row] > self.length[owner]).any():
            raise ValueError("att_coord names coordinates that the experts do not have")

    def _plan(self) -> None:
        """Find the rows that can be done side by side.

        ``phase``: rows of one group and phase share no multinomial row; -1 if it has all of its rows to itself.
        ``kind``: rows with the same number are of one phase and *pattern*: equal in length, and in the sizes and
        places of their attachments.
        """
        E, A = len(self.expert), len(self.att_row)
        per_row = np.diff(self.att_ptr)
        owner = np.repeat(np.arange(E), per_row)
        order = np.lexsort((np.arange(A), self.att_row, owner))
        new = np.ones(A, np.bool_)
        new[1:] = (np.diff(owner[order]) != 0) | (np.diff(self.att_row[order]) != 0)
        run = np.cumsum(new) - 1
        first = np.zeros(A, np.bool_)
        first[order[new]] = True
        leader, times = np.empty(A, np.int64), np.empty(A, np.int64)  # the first attachment to the same row
        leader[order] = order[new][run]
        times[order] = np.bincount(run, minlength=1)[run]
        self.att_first, self.att_times = first, times
        size = self.row_size[self.att_row]
        slots: Array = np.cumsum(first) - first
        places: Array = np.cumsum(size * first) - size * first
        begin = self.att_ptr[owner]
        self.att_slot: Array = (slots - slots[begin])[leader]
        self.att_offset: Array = (places - places[begin])[leader]
        pattern = _numbered(self.length)
        for k in range(per_row.max(initial=0)):
            (more,) = (per_row > k).nonzero()
            a = self.att_ptr[more] + k
            attachment = _numbered(self.att_coord[a], size[a], self.att_slot[a])
            pattern = pattern * (len(attachment) + 1)
            pattern[more] += 1 + attachment
            pattern = _numbered(pattern)
        experts_of_row = np.bincount(self.att_row[first], minlength=len(self.row_group))
        shares = np.zeros(E, np.bool_)
        shares[owner[experts_of_row[self.att_row] > 1]] = True
        self.phase = np.full(E, -1)
        next_phase = np.zeros(len(self.row_group), np.int64)
        find_phases(self.att_ptr, self.att_row, shares, next_phase, self.phase)
        self.kind = _numbered(self.phase + 1, pattern)
        self._by_rank = np.lexsort((self.expert, self.kind))
        self._rank = np.empty(E, np.int64)
        self._rank[self._by_rank] = np.arange(E)
        self.most_slots = int(np.bincount(owner[first], minlength=1).max())
        self.most_coordinates = int((self.att_offset + size).max(initial=0))

    @property
    def arrays(self) -> LayoutArrays:
        """For compiled code."""
        return LayoutArrays(*(getattr(self, name) for name in LayoutArrays._fields))

    def blocks(self, groups: Array) -> tuple[Array, Array]:
        """Expert rows of the groups, block after block of so many groups, and where the blocks begin."""
        counts = np.diff(self.group_ptr)[groups]
        chosen = ranges(self.group_ptr[groups], counts)
        block = np.repeat(np.arange(len(groups)) // BLOCK, counts)
        keys = block * len(self.expert) + self._rank[chosen]
        keys.sort()
        ends = np.cumsum(np.bincount(block, minlength=-(-len(groups) // BLOCK)))
        return self._by_rank[keys % max(len(self.expert), 1)], np.concatenate([[0], ends])


@dataclass(eq=False)
class ExpertPriors:
    """The Gaussian of each expert: N experts of any lengths, their numbers one behind the other.

    :param mu: flat means.
    :param start: (N+1,), int64, expert n has the coordinates ``start[n]:start[n+1]`` of ``mu`` and ``precision_diag``.
    :param diagonal: (N,), bool, whether the covariance is diagonal.
    :param precision: flat inverse covariances: matrices row by row, or their diagonals.
    :param matrix_start: (N+1,), int64, where each expert's precision begins.
    :param log_det: (N,), log |Sigma|.
    :param precision_diag: flat diagonals of the precisions.
    :raises ValueError: if the arrays do not fit together.
    """

    mu: Array
    start: Array
    diagonal: Array
    precision: Array
    matrix_start: Array
    log_det: Array
    precision_diag: Array

    def __post_init__(self) -> None:
        for field in fields(self):
            dtype = {"start": np.int64, "matrix_start": np.int64, "diagonal": np.bool_}.get(field.name, np.float64)
            setattr(self, field.name, np.ascontiguousarray(getattr(self, field.name), dtype))
        if self.start.ndim != 1 or not len(self.start) or self.start[0] != 0 or (np.diff(self.start) < 1).any():
            raise ValueError(f"start must begin with 0 and ascend, but is {self.start}")
        self.length = np.diff(self.start)
        if self.diagonal.shape != self.length.shape:
            raise ValueError(f"diagonal has shape {self.diagonal.shape}, expected {self.length.shape}")
        sizes = np.where(self.diagonal, self.length, self.length**2)
        if not np.array_equal(self.matrix_start, np.concatenate([[0], np.cumsum(sizes)])):
            raise ValueError("matrix_start does not fit the lengths of the experts and whether they are diagonal")
        for name, size in (
            *(("mu", self.start[-1]), ("precision_diag", self.start[-1])),
            *(("precision", self.matrix_start[-1]), ("log_det", len(self.length))),
        ):
            if getattr(self, name).shape != (size,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, expected ({size},)")

    @property
    def arrays(self) -> PriorArrays:
        """For compiled code."""
        return PriorArrays(*(getattr(self, name) for name in PriorArrays._fields))


def _numbered(*keys: Array) -> Array:
    """Numbers 0, 1, ... that are equal where all keys are."""
    number = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        number = np.unique(number * (key.max(initial=0) + 1) + key, return_inverse=True)[1]
    return number


def ranges(starts: Array, sizes: Array) -> Array:
    """The numbers of the ranges start .. start + size, one range behind the other."""
    ends = np.cumsum(sizes)
    numbers: Array = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
    return numbers
