# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The order in which experts that share a multinomial take turns."""

from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel


@kernel
def find_phases(att_ptr: Array, att_row: Array, shares: Array, next_phase: Array, phase: Array) -> None:
    """The phase of each expert row that shares a multinomial row: after all rows before that it shares one with."""
    for e in range(len(shares)):
        if not shares[e]:
            continue
        earliest = 0
        for a in range(att_ptr[e], att_ptr[e + 1]):
            earliest = max(earliest, next_phase[att_row[a]])
        phase[e] = earliest
        for a in range(att_ptr[e], att_ptr[e + 1]):
            next_phase[att_row[a]] = earliest + 1
