# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Corpora tree by tree: explicit products and sums, in plain loops, that share nothing with the package."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from oracle import all_trees, events
from scipy.special import digamma, gammaln

Tables = dict[str, np.ndarray]
Corpus = Sequence[Sequence[int]]


def shapes(num_tags: int, valence_attach: bool) -> dict[str, tuple[int, ...]]:
    V = num_tags
    return {"root": (V,), "attach": (V, 2, 2, V) if valence_attach else (V, 2, V), "stop": (V, 2, 2, 2)}


def tree_events(
    sentence: Sequence[int], heads: Sequence[int], valence_attach: bool
) -> list[tuple[str, tuple[int, ...]]]:
    """Every event of one derivation: the block and the index of the weight that it multiplies."""
    tag = [-1, *sentence]
    out: list[tuple[str, tuple[int, ...]]] = []
    arcs, stops = events(tuple(heads))
    for h, c, v in arcs:
        if h == 0:
            out.append(("root", (tag[c],)))
        else:
            d = 0 if c < h else 1
            out.append(("stop", (tag[h], d, v, 0)))
            out.append(("attach", (tag[h], d, v, tag[c]) if valence_attach else (tag[h], d, tag[c])))
    out += [("stop", (tag[h], d, v, 1)) for h, d, v in stops]
    return out


def derivations(sentence: Sequence[int], tables: Mapping[str, np.ndarray]) -> Iterator[tuple[float, Tables]]:
    """Weight and event counts of every tree of one sentence."""
    extended = tables["attach"].ndim == 4
    for heads in all_trees(len(sentence), False):
        weight = 1.0
        counts = {name: np.zeros(table.shape) for name, table in tables.items()}
        for block, index in tree_events(sentence, heads, extended):
            weight *= float(tables[block][index])
            counts[block][index] += 1
        yield weight, counts


def agreeing(known: Sequence[int]) -> list[int]:
    """The numbers of the trees that have the known heads; -1 is unknown."""
    trees = all_trees(len(known), False)
    return [k for k, tree in enumerate(trees) if all(h in (-1, x) for h, x in zip(known, tree, strict=True))]


def likelihood_and_counts(
    corpus: Corpus, tables: Mapping[str, np.ndarray], known: Corpus | None = None
) -> tuple[float, Tables]:
    """log of the product of the sentences' sums of weights, and the posterior expectation of all counts.

    :param known: heads, -1 where unknown, of each sentence; the sums are over trees that agree.
    """
    total = 0.0
    expected = {name: np.zeros(table.shape) for name, table in tables.items()}
    for i, sentence in enumerate(corpus):
        trees = list(derivations(sentence, tables))
        if known is not None:
            trees = [trees[k] for k in agreeing(known[i])]
        z = math.fsum(weight for weight, _ in trees)
        total += math.log(z)
        for weight, counts in trees:
            for name in expected:
                expected[name] += weight / z * counts[name]
    return total, expected


def normalized(counts: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Each multinomial divided by its sum; where that is zero, as it was."""
    out = otherwise.copy()
    for k in np.ndindex(counts.shape[:-1]):
        total = math.fsum(counts[k])
        if total > 0:
            out[k] = counts[k] / total
    return out


def sub_normalized(concentration: np.ndarray) -> np.ndarray:
    """exp E[log theta] of each Dirichlet."""
    out = np.zeros(concentration.shape)
    for k in np.ndindex(concentration.shape[:-1]):
        out[k] = np.exp(digamma(concentration[k]) - digamma(math.fsum(concentration[k])))
    return out


def divergence(q: np.ndarray, p: np.ndarray) -> float:
    """Sum over multinomials of KL(Dirichlet(q) || Dirichlet(p)), term by term."""
    total = 0.0
    for k in np.ndindex(q.shape[:-1]):
        total += gammaln(q[k].sum()) - gammaln(p[k].sum())
        for a, b in zip(q[k], p[k], strict=True):
            total += gammaln(b) - gammaln(a) + (a - b) * (digamma(a) - digamma(q[k].sum()))
    return float(total)


def bound(corpus: Corpus, posterior: Tables, prior: Tables) -> float:
    """The evidence lower bound of a q of Dirichlets, with the best q(trees) for it."""
    log_z, _ = likelihood_and_counts(corpus, {name: sub_normalized(q) for name, q in posterior.items()})
    return log_z - sum(divergence(posterior[name], prior[name]) for name in posterior)


def collapsed(corpus: Corpus, prior: Tables) -> tuple[float, Tables]:
    """log evidence under Dirichlet priors, and the exact posterior means: a sum over all tuples of trees."""
    ones = {name: np.ones(p.shape) for name, p in prior.items()}
    choices = [[counts for _, counts in derivations(sentence, ones)] for sentence in corpus]
    logs, means = [], []
    for chosen in itertools.product(*choices):
        log_joint, mean = 0.0, {}
        for name, p in prior.items():
            pseudo = p + sum(counts[name] for counts in chosen)
            log_joint += float((gammaln(pseudo).sum(-1) - gammaln(pseudo.sum(-1))).sum())
            log_joint -= float((gammaln(p).sum(-1) - gammaln(p.sum(-1))).sum())
            mean[name] = pseudo / pseudo.sum(-1, keepdims=True)
        logs.append(log_joint)
        means.append(mean)
    best = max(logs)
    shares = [math.exp(x - best) for x in logs]
    total = math.fsum(shares)
    expected = {
        name: sum((s / total * m[name] for s, m in zip(shares, means, strict=True)), np.zeros(p.shape))
        for name, p in prior.items()
    }
    return best + math.log(total), expected


def random_tables(num_tags: int, valence_attach: bool, seed: int, concentration: float = 1.0) -> Tables:
    generator = np.random.default_rng(seed)
    return {
        name: generator.dirichlet(np.full(shape[-1], concentration), size=shape[:-1])
        for name, shape in shapes(num_tags, valence_attach).items()
    }
