# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The arrays that compiled loops over experts take, in groups: a name for each group, a field for each array."""

from typing import NamedTuple

from pyrogram.runtime.arrays import Array


class LayoutArrays(NamedTuple):
    """The arrays of :class:`.ExpertLayout` that compiled code reads."""

    row_ptr: Array
    row_start: Array
    group_ptr: Array
    expert: Array
    expert_group: Array
    expert_start: Array
    att_ptr: Array
    att_row: Array
    att_coord: Array
    att_scale: Array
    att_slot: Array
    att_offset: Array
    att_first: Array
    att_times: Array
    kind: Array  # equal for rows of the same phase and pattern
    phase: Array


class PriorArrays(NamedTuple):
    """The arrays of :class:`.layout.ExpertPriors` that compiled code reads."""

    mu: Array
    start: Array
    diagonal: Array
    precision: Array
    matrix_start: Array
    precision_diag: Array
    log_det: Array


class State(NamedTuple):
    """Expected counts, which are read, and q with its averages u and w, which are changed in place."""

    f: Array
    m: Array
    v: Array
    u: Array
    w: Array
