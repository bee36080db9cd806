# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Transition matrices of samplers over all tuples of derivations of a tiny corpus, for any grammar."""

import itertools
import math

import numpy as np
import torch
from scipy.special import gammaincc, gammaln

from pyrogram.grammar import PackedBlock


class TinyCorpus:
    """All derivations of a few sentences; a state is a tuple of their numbers.

    :param alpha: concentrations by block.
    :param agrees: whether a derivation of a sentence, by its number, agrees with what is known; None: all do.
    """

    def __init__(self, grammar, words, alpha, agrees=None):
        self.grammar, self.words, self.alpha = grammar, words, {n: np.asarray(a, float) for n, a in alpha.items()}
        uniform = {n: b.uniform(torch.ones(())) for n, b in grammar.blocks.items()}
        self.trees, self.counts = [], []
        for i, sentence in enumerate(words):
            short = sentence[: int((sentence >= 0).sum())]
            given = grammar.derivation(uniform, short)
            values = given.enumerate_support()
            if agrees is not None:
                values = values[[agrees(i, row) for row in values.tolist()]]
            self.trees.append([tuple(v) for v in values.tolist()])
            counts = {n: c.double().numpy() for n, c in given.counts(values).items()}
            self.counts.append([{n: c[k] for n, c in counts.items()} for k in range(len(values))])
        self.states = list(itertools.product(*(range(len(t)) for t in self.trees)))
        self.number = {s: k for k, s in enumerate(self.states)}
        joints = np.array([self.log_joint(self.total(s)) for s in self.states])
        self.evidence = math.log(np.exp(joints - joints.max()).sum()) + joints.max()
        self.posterior = np.exp(joints - self.evidence)

    def rows(self, block, table):
        """A block's multinomials, one after the other."""
        if isinstance(block, PackedBlock):
            return np.split(table, np.cumsum(block.sizes)[:-1])
        return list(table.reshape(-1, block.shape[-1]))

    def total(self, state, without=()):
        chosen = [self.counts[i][k] for i, k in enumerate(state) if i not in without]
        return {n: sum((c[n] for c in chosen), np.zeros(a.shape)) for n, a in self.alpha.items()}

    def log_joint(self, counts):
        value = 0.0
        for n, block in self.grammar.blocks.items():
            for f, a in zip(self.rows(block, counts[n]), self.rows(block, self.alpha[n]), strict=True):
                value += gammaln(f + a).sum() - gammaln((f + a).sum()) - gammaln(a).sum() + gammaln(a.sum())
        return float(value)

    def log_weights(self, counts):
        logs = {}
        for n, block in self.grammar.blocks.items():
            pseudo = counts[n] + self.alpha[n]
            rows = [np.log(row) - np.log(row.sum()) for row in self.rows(block, pseudo)]
            logs[n] = np.concatenate(rows).reshape(pseudo.shape)
        return logs

    def proposal(self, i, counts, temperature):
        logs = self.log_weights(counts)
        scores = [sum(float((c[n] * logs[n]).sum()) for n in logs) / temperature for c in self.counts[i]]
        weights = np.exp(np.array(scores) - max(scores))
        return weights / weights.sum()

    def sweep(self, order, batch_size, temperature=1.0):
        """The transition matrix of a sweep."""
        matrix = np.eye(len(self.states))
        for start in range(0, len(order), batch_size):
            matrix = matrix @ self.batch(order[start : start + batch_size], temperature)
        return matrix

    def batch(self, sentences, temperature=1.0):
        """Proposals from weights without any tree of the batch, accepted one after the other."""
        matrix = np.zeros((len(self.states),) * 2)
        for s in self.states:
            rest = self.total(s, sentences)
            q = {i: self.proposal(i, rest, temperature) for i in sentences}
            now = {s: 1.0}
            for i in sentences:
                after = {}
                for state, mass in now.items():
                    for k, share in enumerate(q[i]):
                        moved = (*state[:i], k, *state[i + 1 :])
                        ratio = (self.log_joint(self.total(moved)) - self.log_joint(self.total(state))) / temperature
                        accept = min(1.0, math.exp(ratio) * q[i][state[i]] / share)
                        after[moved] = after.get(moved, 0.0) + mass * share * accept
                        after[state] = after.get(state, 0.0) + mass * share * (1 - accept)
                now = after
            for state, mass in now.items():
                matrix[self.number[s], self.number[state]] += mass
        return matrix

    def tempered(self, temperature):
        weights = self.posterior ** (1 / temperature)
        return weights / weights.sum()

    def as_trees(self, state):
        """A state as the value of derivations, padded."""
        width = max(len(t[0]) for t in self.trees)
        rows = [self.trees[i][k] for i, k in enumerate(state)]
        return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])

    def as_state(self, trees):
        found = []
        for i, row in enumerate(trees.tolist()):
            found.append(self.trees[i].index(tuple(row[: len(self.trees[i][0])])))
        return tuple(found)

    def posterior_mean(self):
        """The posterior means of the weights."""
        mean = {n: np.zeros(a.shape) for n, a in self.alpha.items()}
        for share, s in zip(self.posterior, self.states, strict=True):
            for n, logs in self.log_weights(self.total(s)).items():
                mean[n] += share * np.exp(logs)
        return mean


def p_value(observed, probabilities):
    """Of Pearson's chi-square; what is expected less than five times is put together."""
    expected = np.asarray(probabilities) * observed.sum()
    assert observed[expected == 0].sum() == 0
    big = expected >= 5
    o = np.append(observed[big], observed[~big].sum())
    e = np.append(expected[big], expected[~big].sum())
    o, e = o[e > 0], e[e > 0]
    return float(gammaincc((len(e) - 1) / 2, ((o - e) ** 2 / e).sum() / 2))
