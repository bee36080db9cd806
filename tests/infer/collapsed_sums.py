# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference on tiny corpora, tree by tree, in plain loops that share nothing with the package."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from infer.tree_sums import Corpus, Tables, agreeing, derivations
from scipy.special import gammaln

Trees = list[list[tuple[float, Tables]]]


def all_counts(corpus: Corpus, like: Mapping[str, np.ndarray]) -> list[list[Tables]]:
    """The event counts of every tree of every sentence."""
    ones = {name: np.ones(table.shape) for name, table in like.items()}
    return [[counts for _, counts in derivations(sentence, ones)] for sentence in corpus]


def log_beta(table: np.ndarray) -> float:
    return float((gammaln(table).sum(-1) - gammaln(table.sum(-1))).sum())


def log_joint(counts: Mapping[str, np.ndarray], prior: Mapping[str, np.ndarray]) -> float:
    """Eq. 4."""
    return sum(log_beta(counts[name] + prior[name]) - log_beta(prior[name]) for name in prior)


def added(tables: Sequence[Tables]) -> Tables:
    return {name: sum((t[name] for t in tables), np.zeros(tables[0][name].shape)) for name in tables[0]}


def log_weight(counts: Tables, log_tables: Tables) -> float:
    return sum(float((counts[n][counts[n] > 0] * log_tables[n][counts[n] > 0]).sum()) for n in counts)


def normalised(logs: Sequence[float]) -> np.ndarray:
    weights = np.exp(np.asarray(logs) - max(logs))
    return weights / weights.sum()


def expectation(shares: np.ndarray, trees: Sequence[Tables]) -> Tables:
    return {n: sum(s * t[n] for s, t in zip(shares, trees, strict=True)) for n in trees[0]}


class FieldOfTrees:
    """Q(t_1), ..., Q(t_N) as vectors over all trees."""

    def __init__(self, corpus: Corpus, prior: Tables, start: Tables, known: Corpus | None = None) -> None:
        self.prior, self.trees = prior, all_counts(corpus, prior)
        if known is not None:  # heads, -1 where unknown
            self.trees = [[trees[k] for k in agreeing(h)] for trees, h in zip(self.trees, known, strict=True)]
        with np.errstate(divide="ignore"):
            logs = {n: np.log(w) for n, w in start.items()}
        self.q = [normalised([log_weight(t, logs) for t in trees]) for trees in self.trees]

    def means(self) -> list[Tables]:
        return [expectation(q, trees) for q, trees in zip(self.q, self.trees, strict=True)]

    def others(self, i: int, seen: Sequence[Tables]) -> Tables:
        zero = {n: np.zeros(p.shape) for n, p in self.prior.items()}
        return added([zero, *(seen[j] for j in range(len(seen)) if j != i)])

    def figure3(self, order: Sequence[int], batch_size: int = 1) -> None:
        """One sweep; sentences of a batch see each other as they were before it."""
        for start in range(0, len(order), batch_size):
            seen = self.means()
            for i in order[start : start + batch_size]:
                rest = self.others(i, seen)
                logs = {}
                for n, alpha in self.prior.items():
                    pseudo = rest[n] + alpha
                    logs[n] = np.log(pseudo) - np.log(pseudo.sum(-1, keepdims=True))
                self.q[i] = normalised([log_weight(t, logs) for t in self.trees[i]])

    def figure2(self, order: Sequence[int]) -> None:
        """One sweep of the exact mean field, by enumerating the trees of all other sentences."""
        for i in order:
            others = [j for j in range(len(self.trees)) if j != i]
            logs = np.zeros(len(self.trees[i]))
            for chosen in itertools.product(*(range(len(self.trees[j])) for j in others)):
                share = math.prod(float(self.q[j][k]) for j, k in zip(others, chosen, strict=True))
                zero = {n: np.zeros(p.shape) for n, p in self.prior.items()}
                rest = added([zero, *(self.trees[j][k] for j, k in zip(others, chosen, strict=True))])
                joints = [log_joint(added([rest, t]), self.prior) for t in self.trees[i]]
                logs += share * (np.array(joints) - log_joint(rest, self.prior))
            self.q[i] = normalised(list(logs))

    def objective(self) -> float:
        """The approximate free energy, as the entropies of Q and the joint at expected counts."""
        entropy = -sum(float((q[q > 0] * np.log(q[q > 0])).sum()) for q in self.q)
        return entropy + log_joint(added(self.means()), self.prior)

    def weights(self) -> Tables:
        pseudo = added([self.prior, *self.means()])
        return {n: p / p.sum(-1, keepdims=True) for n, p in pseudo.items()}
