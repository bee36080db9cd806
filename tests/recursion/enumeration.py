# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What back-ends are compared with: every derivation of every sentence, listed by the interpreter."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pages import Page

from pyrogram.recursion import Derivations, Grounded, Reals, Recursion, Semiring
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.rules.interpreter import Key
from pyrogram.recursion.rules.language import Word

Array = Any


@dataclass
class Listed:
    """All derivations of one sentence, each as the weights that it is made of, and their log weights."""

    uses: list[tuple[Key, ...]]
    scores: Array

    @property
    def log_z(self) -> float:
        return log_sum(self.scores)

    def probabilities(self) -> dict[tuple[Key, ...], float]:
        """Of derivations; those that are made of the same weights are one."""
        found: dict[tuple[Key, ...], float] = {}
        for uses, score in zip(self.uses, self.scores, strict=True):
            key = tuple(sorted(uses))
            found[key] = found.get(key, 0.0) + float(np.exp(score - self.log_z))
        return found

    def add_counts(self, counts: dict[str, Array], row: int, scale: float) -> None:
        """Add expected counts to tables whose first axis are sentences, or one for all."""
        if self.log_z == -np.inf:
            return
        for uses, score in zip(self.uses, self.scores, strict=True):
            for (name, indices), number in Counter(uses).items():
                table = counts[name]
                share = scale * number * np.exp(score - self.log_z)
                table[(row if len(table) > 1 else 0, *indices)] += share


def log_sum(scores: Array) -> float:
    top = np.max(scores, initial=-np.inf)
    return float(top + np.log(np.exp(scores - top).sum())) if np.isfinite(top) else float(top)


def tables(recursion: Recursion) -> dict[str, tuple[int, tuple[int | str, ...]]]:
    """The weights of a page: how many positions each has, and the sizes of its symbols."""
    refs = {f.table: f for rule in recursion.rules for f in rule.weights}
    return {name: (len(f.positions), recursion.tables[name].sizes) for name, f in sorted(refs.items())}


def random_sentences(
    page: Page,
    recursion: Recursion,
    lengths: list[int],
    rng: np.random.Generator,
    *,
    shared: bool | None = None,
    dtype: str = "float64",
    spread: float = 1.0,
) -> Inputs:
    """Random words and log weights.

    :param shared: one table for all sentences, or one for each; by default one for all if it is not over positions.
    """
    B, n = len(lengths), max(lengths)
    sizes_of = {name: max(size, n + 1) if name == "G" else size for name, size in page.sizes.items()}
    weights = {}
    for name, (positions, sizes) in tables(recursion).items():
        one = not positions if shared is None else shared
        axes = (n + 1,) * positions + tuple(s if isinstance(s, int) else sizes_of[s] for s in sizes)
        weights[name] = (spread * rng.normal(size=(1 if one else B, *axes))).astype(dtype)
    refs = (f for rule in recursion.rules for f in (rule.head, *rule.factors))
    names = {x.words for f in refs for x in f.symbols if isinstance(x, Word)}
    words = {name: rng.integers(0, page.vocabulary, (B, n)) for name in sorted(names)}
    lists = {name: np.array(column) for name, column in page.lists.items()}
    return Inputs(np.array(lengths), weights, words, sizes_of, lists)


def grounded(page: Page, recursion: Recursion, given: Inputs, b: int) -> Grounded:
    words = {name: table[b] for name, table in given.words.items()}
    return Grounded(recursion, int(given.lengths[b]), sizes=given.sizes, lists=page.lists, words=words)


def weights_of(given: Inputs, b: int) -> dict[str, Array]:
    """Log weights of one sentence."""
    return {name: table[b if len(table) > 1 else 0].astype(np.float64) for name, table in given.weights.items()}


def listed(page: Page, recursion: Recursion, given: Inputs) -> list[Listed]:
    """All derivations of all sentences."""
    found = []
    for b in range(len(given.lengths)):
        logs = weights_of(given, b)
        ones = {name: np.ones_like(table) for name, table in logs.items()}
        uses = [keys for _, keys in grounded(page, recursion, given, b).goal(Derivations(), ones)]
        with np.errstate(invalid="ignore"):
            scores = np.array([sum((float(logs[name][indices]) for name, indices in keys), 0.0) for keys in uses])
        found.append(Listed(uses, scores))
    return found


def expected_counts(given: Inputs, truth: list[Listed], scale: Array | None = None) -> dict[str, Array]:
    counts = {name: np.zeros(table.shape) for name, table in given.weights.items()}
    for b, one in enumerate(truth):
        one.add_counts(counts, b, 1.0 if scale is None else float(scale[b]))
    return counts


@dataclass
class Trace:
    """Numbers of the elements of tables of weights, as derivations are written with, and back."""

    given: Inputs

    def __post_init__(self) -> None:
        self.shapes = {name: table.shape[1:] for name, table in self.given.weights.items()}
        self.starts = dict(
            zip(self.shapes, itertools.accumulate(map(math.prod, self.shapes.values()), initial=0), strict=False)
        )

    def numbers(self) -> dict[str, tuple[int, ...]]:
        def strides(shape: tuple[int, ...]) -> list[int]:
            return [math.prod(shape[a + 1 :]) for a in range(len(shape))]

        return {name: (self.starts[name], *strides(shape)) for name, shape in self.shapes.items()}

    def uses(self, row: Array) -> tuple[Key, ...]:
        """The weights of a derivation, sorted."""
        found = []
        for x in row[row >= 0].tolist():
            name = next(n for n in reversed(self.shapes) if self.starts[n] <= x)
            shape = self.shapes[name]
            place = np.unravel_index(x - self.starts[name], shape) if shape else ()
            found.append((name, tuple(int(a) for a in place)))
        return tuple(sorted(found))


class ExpectedCounts(Semiring[Any]):
    """Pairs of Z and, by weight, of the sum over derivations of their product times how often they have the weight."""

    zero: Any = (0.0, {})
    one: Any = (1.0, {})

    def plus(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], {key: a[1].get(key, 0.0) + b[1].get(key, 0.0) for key in {**a[1], **b[1]}}

    def times(self, a: Any, b: Any) -> Any:
        both = {**a[1], **b[1]}
        return a[0] * b[0], {key: a[1].get(key, 0.0) * b[0] + a[0] * b[1].get(key, 0.0) for key in both}

    def weight(self, key: Key, value: float) -> Any:
        return value, {key: value}


def summed(page: Page, recursion: Recursion, given: Inputs) -> tuple[Array, dict[str, Array], list[float]]:
    """Log Z, expected counts and numbers of derivations, where these are too many for a list."""
    log_z, numbers = [], []
    counts = {name: np.zeros(table.shape) for name, table in given.weights.items()}
    for b in range(len(given.lengths)):
        ground = grounded(page, recursion, given, b)
        logs = weights_of(given, b)
        z, parts = ground.goal(ExpectedCounts(), {name: np.exp(table) for name, table in logs.items()})
        numbers.append(ground.goal(Reals(), {name: np.ones_like(table) for name, table in logs.items()}))
        log_z.append(math.log(z) if z > 0 else -math.inf)
        for (name, indices), part in parts.items():
            counts[name][(b if len(counts[name]) > 1 else 0, *indices)] += part / z
    return np.array(log_z), counts, numbers


class LogCounts(Semiring[Any]):
    """Pairs of log Z and, by weight, of how often it is expected to be in a derivation; weights are logarithms."""

    zero: Any = (-math.inf, {})
    one: Any = (0.0, {})

    def plus(self, a: Any, b: Any) -> Any:
        total = float(np.logaddexp(a[0], b[0]))
        shares = [(math.exp(z - total), counts) for z, counts in (a, b) if z > -math.inf]
        found: dict[Key, float] = {}
        for share, counts in shares:
            for key, count in counts.items():
                found[key] = found.get(key, 0.0) + share * count
        return total, found

    def times(self, a: Any, b: Any) -> Any:
        if -math.inf in (a[0], b[0]):
            return self.zero
        return a[0] + b[0], {key: a[1].get(key, 0.0) + b[1].get(key, 0.0) for key in {**a[1], **b[1]}}

    def weight(self, key: Key, value: float) -> Any:
        return self.zero if value == -math.inf else (value, {key: 1.0})


def only(inputs: Inputs, sentences: Array) -> Inputs:
    """Some of the sentences."""
    weights = {name: table if len(table) == 1 else table[sentences] for name, table in inputs.weights.items()}
    words = {name: rows[sentences] for name, rows in inputs.words.items()}
    return replace(inputs, lengths=inputs.lengths[sentences], weights=weights, words=words)


def in_logarithms(page: Page, recursion: Recursion, given: Inputs) -> tuple[Array, dict[str, Array]]:
    """Log Z and expected counts of weights of any size."""
    log_z, counts = [], {name: np.zeros(table.shape) for name, table in given.weights.items()}
    for b in range(len(given.lengths)):
        z, found = grounded(page, recursion, given, b).goal(LogCounts(), weights_of(given, b))
        log_z.append(z)
        for (name, indices), count in found.items():
            counts[name][(b if len(counts[name]) > 1 else 0, *indices)] += count
    return np.array(log_z), counts


def instances_of(sentence: Grounded, item: Key | None = None) -> list[list[tuple[Key, int]]]:
    """All derivations of an item, by default the goal: each as its instances, by head and number among those of it."""
    item = item or (sentence.recursion.goal, ())
    found = []
    for number, x in enumerate(sentence.instances.get(item, ())):
        for parts in itertools.product(*(instances_of(sentence, below) for below in x.items)):
            found.append([(item, number), *itertools.chain.from_iterable(parts)])
    return found
