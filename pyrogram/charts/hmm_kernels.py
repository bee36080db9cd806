# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled loops over sentences of a hidden Markov chain: into lanes and out of them.

Where tables have a batch of 1, all sentences share them. ``rows`` (B, n) says which row of a table of emissions is that
of a word, ``shift`` by how much (in logarithms) its emissions were divided.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from numba import njit
from numba.extending import overload

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import gather_cells, scatter_cells
from pyrogram.charts.runtime.random_numbers import seed_stream
from pyrogram.charts.runtime.threads import take

from .hmm_lanes import WIDTH, backward, clear, count, forward
from .hmm_log import best, choose, log_draw, log_forward, log_posteriors

GREATEST = 2.0**900
# Sums of counts are formed in this many parts whatever the number of threads, so that they do not depend on it.
PARTS = 8
# What is wanted: log Z, the posteriors of every sentence, or their sum.
LOG_Z, POSTERIORS, SUM = range(3)


@njit(nogil=True)
def _feed(c, initial, end, emission, rows, lengths, sentences, places):
    """Gather weights of up to eight sentences into lanes; what is beyond a sentence's end weighs nothing."""
    P = c.pitch
    n = lengths[sentences[0]]
    c.stops[: n * WIDTH] = 0
    for lane in range(WIDTH):
        places[lane] = sentences[min(lane, len(sentences) - 1)] * P if len(initial) > 1 else 0
    for j in range(0, P, 8):
        gather_cells(c.initial, j, initial, places, j)
    for lane in range(WIDTH):
        places[lane] = sentences[min(lane, len(sentences) - 1)] * P if len(end) > 1 else 0
    for j in range(0, P, 8):
        gather_cells(c.end, j, end, places, j)
    for lane in range(len(sentences)):
        c.stops[(lengths[sentences[lane]] - 1) * WIDTH + lane] = 1
    full = len(sentences) == WIDTH and lengths[sentences[-1]] == n
    for t in range(n):
        for lane in range(WIDTH):
            b = sentences[min(lane, len(sentences) - 1)]
            places[lane] = rows[b, min(t, lengths[b] - 1)] * P
        for j in range(0, P, 8):
            gather_cells(c.emission, t * P + j, emission, places, j)
        if not full:
            for lane in range(WIDTH):
                if lane >= len(sentences) or t >= lengths[sentences[lane]]:
                    for j in range(P):
                        c.emission[(t * P + j) * WIDTH + lane] = 0


def _feed_moves(table, moves, sentences, places, pitch):
    raise NotImplementedError("compiled code only")


@overload(_feed_moves)
def _(table, moves, sentences, places, pitch):
    if table.ndim == 1:  # all sentences share the table
        return lambda table, moves, sentences, places, pitch: None

    def own(table, moves, sentences, places, pitch):
        for lane in range(WIDTH):
            places[lane] = sentences[min(lane, len(sentences) - 1)] * pitch * pitch
        for cell in range(0, pitch * pitch, 8):
            gather_cells(table, cell, moves, places, cell)

    return own


@njit(nogil=True)
def _log_z(c, lane, shift, row, n):
    value = np.log(c.result[lane]) + c.result[WIDTH + lane] * np.log(2.0)
    for t in range(n):
        value += shift[row[t]]
    return value


@njit(nogil=True)
def _untrusted(c, lane, value):
    """Written so that NaN fails."""
    return not (
        np.isfinite(value)
        and c.result[2 * WIDTH + lane] <= GREATEST
        and c.result[3 * WIDTH + lane] <= GREATEST
    )  # fmt: skip


@kernel
def sum_parts(
    c, table, initial, moves, end, emission, shift, rows, lengths, weights, order, turns, adjoints, wanted,
    log_z, failed, move_out, state_out, initial_parts, move_parts, emission_parts,
):  # fmt: skip
    """Do the parts (every PARTS-th block) that come this thread's way."""
    places = np.zeros(WIDTH, np.int64)
    # Sums of transitions are multiplied by their weights at the end; here they stay in lanes' cells.
    moved = np.zeros((c.pitch, c.pitch))
    ended = np.zeros(c.pitch)
    for _ in range(PARTS):
        part = take(turns)
        if part >= PARTS:
            break
        moved[:] = 0
        ended[:] = 0
        for block in range(part, (len(order) + WIDTH - 1) // WIDTH, PARTS):
            sentences = order[block * WIDTH : (block + 1) * WIDTH]
            n = lengths[sentences[0]]
            K = move_out.shape[1]
            _feed(c, initial, end, emission, rows, lengths, sentences, places)
            _feed_moves(table, moves, sentences, places, c.pitch)
            forward(c, table, n, K)
            if adjoints:
                backward(c, table, n, K)
            for lane in range(len(sentences)):
                b = sentences[lane]
                log_z[b] = _log_z(c, lane, shift, rows[b], lengths[b])
                failed[b] = _untrusted(c, lane, log_z[b])
                if failed[b] and adjoints:
                    clear(c, lane, n, K)
            if wanted == POSTERIORS:
                count(c, n, K)
                _write(c, moves, end, lengths, sentences, move_out, state_out)
            elif wanted == SUM:
                count(c, n, K)
                _add(c, rows, lengths, weights, sentences, places, moved, ended,
                     initial_parts[part], emission_parts[part])  # fmt: skip
        if wanted == SUM:
            K = move_out.shape[1]
            for i in range(K):
                for j in range(K):
                    move_parts[part, i, j] += moved[i, j] * moves[0, i, j]
                move_parts[part, i, K] += ended[i] * end[0, i]


@njit(nogil=True)
def _write(c, moves, end, lengths, sentences, move_out, state_out):
    """The posteriors of each sentence."""
    P, K = c.pitch, move_out.shape[1]
    for lane in range(len(sentences)):
        b = sentences[lane]
        own, own_end = b if len(moves) > 1 else 0, b if len(end) > 1 else 0
        for i in range(K):
            for j in range(K):
                move_out[b, i, j] = c.moved[(i * P + j) * WIDTH + lane] * moves[own, i, j]
            move_out[b, i, K] = c.ended[i * WIDTH + lane] * end[own_end, i]
        for t in range(lengths[b]):
            for i in range(K):
                state_out[b, t, i] = c.forward[(t * P + i) * WIDTH + lane]


@njit(nogil=True)
def _add(c, rows, lengths, weights, sentences, places, moved, ended, initial_out, emission_out):
    """Add eight sentences' posteriors to the sums."""
    P = c.pitch
    K = P
    share = np.zeros(WIDTH)
    for lane in range(len(sentences)):
        share[lane] = weights[sentences[lane]]
    for i in range(K):
        for j in range(K):
            total = 0.0
            for lane in range(WIDTH):
                total += c.moved[(i * P + j) * WIDTH + lane] * share[lane]
            moved[i, j] += total
        for lane in range(WIDTH):
            ended[i] += c.ended[i * WIDTH + lane] * share[lane]
    for lane in range(WIDTH):
        places[lane] = lane * P
    for t in range(lengths[sentences[0]]):
        for j in range(0, P, 8):
            scatter_cells(c.forward, t * P + j, c.scattered, places, j)
        for lane in range(len(sentences)):
            b = sentences[lane]
            if t < lengths[b]:
                row, own = emission_out[rows[b, t]], c.scattered[lane * P : (lane + 1) * P]
                for j in range(P):
                    row[j] += own[j] * share[lane]
                if t == 0:
                    for j in range(P):
                        initial_out[j] += own[j] * share[lane]


@kernel
def log_sentences(
    initial, transition, scores, rows, lengths, weights, order, wanted,
    log_z, move_out, state_out, initial_parts, move_parts, emission_parts,
):  # fmt: skip
    K = initial.shape[1]
    n = rows.shape[1]
    cells, terms, later = np.zeros((n, K)), np.zeros(K), np.zeros((2, K))
    states, moved = np.zeros((n, K)), np.zeros((K, K + 1))
    for b in order:
        first, moves = initial[b if len(initial) > 1 else 0], transition[b if len(transition) > 1 else 0]
        own = scores[rows[b]]
        m = lengths[b]
        log_z[b] = log_forward(first, moves, own, m, cells, terms)
        if wanted == LOG_Z:
            continue
        moved[:] = 0
        log_posteriors(moves, own, m, cells, log_z[b], terms, later, moved, states)
        if wanted == POSTERIORS:
            move_out[b] = moved
            state_out[b, :m] = states[:m]
            continue
        move_parts[0] += weights[b] * moved
        for j in range(K):
            initial_parts[0, j] += weights[b] * states[0, j]
            for t in range(m):
                emission_parts[0, rows[b, t], j] += weights[b] * states[t, j]


@kernel
def sample_blocks(
    c, table, initial, moves, end, emission, shift, rows, lengths, order, turns, K, seed, out, failed
):  # fmt: skip
    P = c.pitch
    places, state, terms = np.zeros(WIDTH, np.int64), np.zeros(1, np.uint64), np.zeros(P)
    for _ in order:
        block = take(turns)
        if block * WIDTH >= len(order):
            break
        sentences = order[block * WIDTH : (block + 1) * WIDTH]
        n = lengths[sentences[0]]
        _feed(c, initial, end, emission, rows, lengths, sentences, places)
        _feed_moves(table, moves, sentences, places, P)
        forward(c, table, n, K)
        for lane in range(len(sentences)):
            b = sentences[lane]
            if _untrusted(c, lane, _log_z(c, lane, shift, rows[b], lengths[b])):
                failed[b] = True
                continue
            own, own_end = b if len(moves) > 1 else 0, b if len(end) > 1 else 0
            for s in range(len(out)):
                seed_stream(state, seed, s * len(rows) + b)
                following = -1
                for t in range(lengths[b] - 1, -1, -1):
                    for i in range(K):
                        step = end[own_end, i] if following < 0 else moves[own, i, following]
                        terms[i] = c.forward[(t * P + i) * WIDTH + lane] * step
                    following = choose(terms, K, state)
                    out[s, b, t] = following


@kernel
def sample_logs(initial, transition, scores, rows, lengths, order, seed, out, failed):
    K = initial.shape[1]
    cells, terms, state = np.zeros((rows.shape[1], K)), np.zeros(K), np.zeros(1, np.uint64)
    for b in order:
        first, moves = initial[b if len(initial) > 1 else 0], transition[b if len(transition) > 1 else 0]
        if log_forward(first, moves, scores[rows[b]], lengths[b], cells, terms) == -np.inf:
            continue
        failed[b] = False
        for s in range(len(out)):
            seed_stream(state, seed, s * len(rows) + b)
            log_draw(moves, cells, lengths[b], terms, state, out[s, b])


@kernel
def best_sentences(initial, transition, scores, rows, lengths, turns, states, totals):
    k, K, n = len(totals), initial.shape[1], rows.shape[1]
    value, back = np.zeros((2, K, k)), np.zeros((n, K + 1, k), np.int64)
    for _ in range(len(rows)):
        b = take(turns)
        if b >= len(rows):
            break
        first, moves = initial[b if len(initial) > 1 else 0], transition[b if len(transition) > 1 else 0]
        best(first, moves, scores[rows[b]], lengths[b], value, back, states[:, b], totals[:, b])
