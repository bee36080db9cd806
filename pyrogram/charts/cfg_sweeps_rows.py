# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rows of own counts, one after the other in memory, and cells, in which each of eight sentences has a lane."""

# mypy: disable-error-code="no-untyped-def"
from pyrogram.charts.runtime.compiling import borrowing
from pyrogram.charts.runtime.lanes import fill, gather_cells, load, scatter_cells, store

LANES = 8


@borrowing
def read_rows(cells, own, rows, D):
    """Rows of D values, which begin at ``rows``, into D cells."""
    for e in range(0, D // 8 * 8, 8):
        gather_cells(cells, e, own, rows, e)
    for e in range(D // 8 * 8, D):
        for lane in range(LANES):
            cells[e * 8 + lane] = own[rows[lane] + e]


@borrowing
def sum_by_multinomial(runs, cells, sums):
    """Sums over the events in the row, of each multinomial."""
    zero = fill(sums, 0.0)
    for A in range(len(sums) // 8):
        store(sums, A, zero)
    for run in range(len(runs)):
        A, e, end = runs[run]
        one, two, three = load(sums, A), zero, zero
        while e + 2 < end:
            one, two, three = one + load(cells, e), two + load(cells, e + 1), three + load(cells, e + 2)
            e += 3
        while e < end:
            one = one + load(cells, e)
            e += 1
        store(sums, A, one + (two + three))


@borrowing
def write_rows(cells, own, rows, D, size):
    """The reverse of :func:`read_rows`, for as many sentences as there are."""
    e = 0
    while size == LANES and e + 8 <= D:
        scatter_cells(cells, e, own, rows, e)
        e += 8
    while e < D:
        for lane in range(size):
            own[rows[lane] + e] = cells[e * 8 + lane]
        e += 1
