# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One sentence of a hidden Markov chain in log space, where nothing underflows; draws, and the k best sequences.

``initial`` (K,), ``moves`` (K, K+1) [state, next state or the end] and ``scores`` (n, K) are log weights.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from numba import njit

from pyrogram.charts.runtime.random_numbers import uniform


@njit(nogil=True)
def log_sum(terms, count):
    top = -np.inf
    for t in range(count):
        top = max(top, terms[t])
    if not np.isfinite(top):
        return top
    total = 0.0
    for t in range(count):
        total += np.exp(terms[t] - top)
    return top + np.log(total)


@njit(nogil=True)
def log_forward(initial, moves, scores, n, cells, terms):
    """Fill ``cells`` (n, K), the log weight of all sequences up to each word and state; returns log Z."""
    K = len(initial)
    for t in range(n):
        for j in range(K):
            if t == 0:
                cells[t, j] = initial[j] + scores[t, j]
                continue
            for i in range(K):
                terms[i] = cells[t - 1, i] + moves[i, j]
            cells[t, j] = log_sum(terms, K) + scores[t, j]
    for i in range(K):
        terms[i] = cells[n - 1, i] + moves[i, K]
    return log_sum(terms, K)


@njit(nogil=True)
def log_posteriors(moves, scores, n, cells, log_z, terms, later, move_out, state_out):
    """Add the posteriors of transitions (K, K+1) and write those of states (n, K), from filled forward cells.

    :param later: (2, K) scratch.
    """
    K = cells.shape[1]
    state_out[:n] = 0
    if log_z == -np.inf:
        return
    for i in range(K):
        later[(n - 1) % 2, i] = moves[i, K]
        p = np.exp(cells[n - 1, i] + moves[i, K] - log_z)
        move_out[i, K] += p
        state_out[n - 1, i] = p
    for t in range(n - 2, -1, -1):
        after, here = later[(t + 1) % 2], later[t % 2]
        for i in range(K):
            for j in range(K):
                terms[j] = moves[i, j] + scores[t + 1, j] + after[j]
                if terms[j] > -np.inf:
                    move_out[i, j] += np.exp(cells[t, i] + terms[j] - log_z)
            here[i] = log_sum(terms, K)
            state_out[t, i] = np.exp(cells[t, i] + here[i] - log_z) if here[i] > -np.inf else 0.0


@njit(nogil=True)
def choose(terms, count, state):
    """An index in proportion to non-negative terms."""
    total = 0.0
    for t in range(count):
        total += terms[t]
    remaining = uniform(state) * total
    chosen = -1
    for t in range(count):
        if terms[t] > 0:
            chosen = t
            remaining -= terms[t]
            if remaining < 0:
                break
    return chosen


@njit(nogil=True)
def log_draw(moves, cells, n, terms, state, out):
    """Write one sequence, drawn from its last state to its first."""
    K = cells.shape[1]
    following = K
    for t in range(n - 1, -1, -1):
        top = -np.inf
        for i in range(K):
            terms[i] = cells[t, i] + moves[i, following]
            top = max(top, terms[i])
        for i in range(K):
            terms[i] = np.exp(terms[i] - top)
        following = choose(terms, K, state)
        out[t] = following


@njit(nogil=True)
def best(initial, moves, scores, n, value, back, states, totals):
    """Write the sequences (k, n) of highest weight, best first, and their log weights (k,), -inf where there are fewer.

    :param value: (2, K, k) scratch, log weights of the best beginnings of each state, best first.
    :param back: (n, K + 1, k) scratch, ``state * k + rank`` of what each comes from; the last row is the end's.
    """
    K, k = len(initial), len(totals)
    value[0] = -np.inf
    for j in range(K):
        value[0, j, 0] = initial[j] + scores[0, j]
    for t in range(1, n + 1):
        before, here = value[(t - 1) % 2], value[t % 2]
        targets = K if t < n else 1
        for j in range(targets):
            into = j if t < n else K
            found = here[j]
            found[:] = -np.inf
            for i in range(K):
                for rank in range(k):
                    candidate = before[i, rank] + moves[i, into]
                    if not candidate > found[k - 1]:
                        break
                    place = k - 1
                    while place > 0 and found[place - 1] < candidate:
                        found[place] = found[place - 1]
                        back[t - 1, into, place] = back[t - 1, into, place - 1]
                        place -= 1
                    found[place] = candidate
                    back[t - 1, into, place] = i * k + rank
            if t < n:
                for rank in range(k):
                    found[rank] += scores[t, j]
    for which in range(k):
        totals[which] = value[n % 2, 0, which]
        if totals[which] == -np.inf:
            break
        into, rank = K, which
        for t in range(n - 1, -1, -1):
            came = back[t, into, rank]
            into, rank = came // k, came % k
            states[which, t] = into
