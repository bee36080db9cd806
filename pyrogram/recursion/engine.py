# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion that runs: compiled functions, and what they are called with."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import derivations, scalar
from .cells import Cells, lower
from .checks import check_lists, check_weights, check_words
from .language import Recursion
from .layout import Layout
from .machine import llvm, objects
from .machine.statements import Function
from .machine.threads import run_workers

Numbers = Any  # a numpy array

PARTS = 8  # in which sums over sentences are formed, whatever the number of threads


@functools.lru_cache(maxsize=1)
def _compiler() -> str:
    """A hash of the compiler itself."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


def compiled(
    recursion: Recursion, kind: str, make: Callable[[], Sequence[Function]], dtype: str, lanes: int
) -> objects.Compiled:
    """Functions of a recursion, from the cache or made now.

    :param kind: tells these functions from others of the recursion.
    """

    def text() -> tuple[str, dict[str, list[str]]]:
        functions = make()
        return llvm.assembly(functions, dtype, lanes), {f.name: [p.name for p in f.parameters] for f in functions}

    source = "\n".join([recursion.key(), kind, dtype, str(lanes), _compiler()])
    return objects.load(source, text)


_FUNCTIONS = {"log_counts": scalar.log_counts, "best": derivations.best, "draw": derivations.draw}


@dataclass
class Sentences:
    """What a recursion is run on.

    :param lengths: numbers of words, shape ``(B,)``.
    :param weights: log weights by table, shape ``(B, *axes)`` or ``(1, *axes)``, positions first.
    :param words: by name, shape ``(B, n)``.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    """

    lengths: Numbers
    weights: Mapping[str, Numbers]
    words: Mapping[str, Numbers]
    sizes: Mapping[str, int]
    lists: Mapping[str, Numbers]

    def only(self, sentences: Numbers) -> Sentences:
        """Some of the sentences."""
        weights = {name: table if len(table) == 1 else table[sentences] for name, table in self.weights.items()}
        words = {name: rows[sentences] for name, rows in self.words.items()}
        return replace(self, lengths=self.lengths[sentences], weights=weights, words=words)

    @property
    def pitch(self) -> int:
        """The number of positions of the longest sentence, 0 included."""
        return int(self.lengths.max(initial=1)) + 1

    def values(self) -> dict[str, Any]:
        """The parameters that all functions have."""
        found: dict[str, Any] = {"pitch": self.pitch, "lengths": _int64(self.lengths)}
        found |= {f"size.{name}": size for name, size in self.sizes.items()}
        found |= {f"list.{name}": _int64(column) for name, column in self.lists.items()}
        for name, words in self.words.items():
            found[f"words.{name}"] = _int64(words)
            found[f"words.{name}.b"] = words.shape[1]
        for name, table in self.weights.items():
            found |= strided(f"weight.{name}", table, ("b", *range(table.ndim - 1)))
            if len(table) == 1:
                found[f"weight.{name}.b"] = 0
        return found


def check_given(cells: Cells, dtype: Numbers, given: Sentences) -> None:
    """
    :param dtype: of the weights.
    :raises InvalidRecursion: if compiled code could not run on the sentences: see :mod:`.checks`.
    """
    check_lists(cells, given.sizes, given.lists)
    check_words(cells, given.sizes, given.words, given.lengths)
    check_weights(cells, given.sizes, given.weights, given.lengths, dtype)


class ScalarEngine:
    """One sentence at a time in logarithms, see :mod:`.scalar`.

    :param recursion: the rules.
    :param dtype: of the weights, ``float64`` or ``float32``.
    """

    def __init__(self, recursion: Recursion, dtype: str = "float64") -> None:
        self.recursion, self.dtype = recursion, np.dtype(dtype)
        self.cells = lower(recursion)
        self.layout = Layout(self.cells)
        self._compiled: dict[str, objects.Compiled] = {}

    def log_counts(
        self, given: Sentences, *, counts: bool = True, scale: Numbers | None = None
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights: summed over sentences that share."""
        B = len(given.lengths)
        values = given.values() | self._sentences(given)
        log_z = np.empty(B)
        outputs: dict[str, Numbers] = {}
        shared = counts and any(len(table) == 1 for table in given.weights.values()) and B > 1
        values["parts"] = min(PARTS, B) if shared else B
        for w in self.layout.weights:
            table = given.weights[w.name]
            own = len(table) == B and not (shared and len(table) == 1)
            shape = (1 if own else values["parts"], len(table) if own else 1, *table.shape[1:])
            out = outputs[w.name] = np.zeros(shape if counts else (1,) * len(shape), self.dtype)
            values |= strided(f"out.{w.name}", out, ("part", "b", *range(table.ndim - 1)))
            if own:
                values[f"out.{w.name}.part"] = 0
            else:
                values[f"out.{w.name}.b"] = 0
        values |= {
            "log_z": log_z,
            "with_counts": int(counts),
            "scale": np.ones(B) if scale is None else np.ascontiguousarray(scale, np.float64),
        }
        size = self._cells(given)
        self._run("log_counts", values, lambda: {"chart": np.empty(size), "given": np.empty(size)})
        summed = {name: out[0] if len(out) == 1 else out.sum(0) for name, out in outputs.items()}
        return log_z, summed if counts else {}

    def best(self, given: Sentences, k: int, trace: Mapping[str, Sequence[int]], width: int) -> tuple[Numbers, Numbers]:
        """Scores of the k best derivations, shape ``(k, B)``, and the weights in them, shape ``(k, B, width)``.

        :param trace: by table, a number to begin with and the strides of the axes, which make a number of an element.
            Elements of other tables are not written.
        """
        B = len(given.lengths)
        scores = np.empty((k, B))
        values = given.values() | self._sentences(given) | {"k": k, "batch": B, "scores": scores}
        found = self._trace(values, trace, (k, B, width))
        size = self._cells(given) * k
        self._run("best", values, lambda: {"chart": np.empty(size), "agenda": self._agenda(given)})
        return scores, found

    def draw(
        self, given: Sentences, number: int, seed: int, trace: Mapping[str, Sequence[int]], width: int
    ) -> tuple[Numbers, Numbers]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations, ``(number, B, width)``; see :meth:`best`."""
        B = len(given.lengths)
        log_z = np.empty(B)
        values = given.values() | self._sentences(given) | {"draws": number, "batch": B, "log_z": log_z, "seed": seed}
        found = self._trace(values, trace, (number, B, width))
        size = self._cells(given)
        self._run("draw", values, lambda: {"chart": np.empty(size), "agenda": self._agenda(given)})
        return log_z, found

    def _run(self, name: str, values: dict[str, Any], own: Callable[[], dict[str, Any]]) -> None:
        """Call a function on every thread, which is compiled when it is first needed.

        :param own: memory of a thread.
        """
        if name not in self._compiled:
            make = _FUNCTIONS[name]
            self._compiled[name] = compiled(
                self.recursion, f"scalar {name}", lambda: [make(lower(self.recursion))], self.dtype.name, 8
            )
        call, count, n = self._compiled[name], values["count"], values["pitch"]

        def work(turns: Numbers) -> None:
            call(name, {**values, **own(), "turns": turns})

        if count:
            run_workers(work, cost=count * 100.0 * n**3)

    def _sentences(self, given: Sentences) -> dict[str, Any]:
        check_given(self.cells, self.dtype, given)
        B = len(given.lengths)
        return {"order": np.arange(B), "count": B, "parts": B}

    def _symbols(self, given: Sentences) -> dict[str, int]:
        """How many elements each item has at its positions."""
        return {
            name: math.prod(s if isinstance(s, int) else given.sizes[s] for s in sizes)
            for name, sizes in self.cells.sizes.items()
        }

    def _cells(self, given: Sentences) -> int:
        pitch = given.pitch
        return sum(pitch ** self.cells.arity[name] * count for name, count in self._symbols(given).items())

    def _agenda(self, given: Sentences) -> Numbers:
        """Room for the items that a derivation has still to prove.

        The way down from the goal meets each item once at most: of a column for each position, or of all columns where
        points and spans read one another.
        """
        width = 4 + max(map(len, self.cells.sizes.values()), default=0)
        most = max(len(rule.items) for rule in self.recursion.rules)
        kinds = {self.cells.arity[name] for name in self.cells.sizes} - {0}
        steps = given.pitch ** max(len(kinds), 1) * sum(self._symbols(given).values())
        return np.zeros((most * steps + 2) * width, np.int64)

    def _trace(self, values: dict[str, Any], trace: Mapping[str, Sequence[int]], shape: tuple[int, ...]) -> Numbers:
        found = np.full(shape, -1, np.int64)
        values |= {"trace": found, "trace_width": shape[-1]}
        for w in self.layout.weights:
            numbers = trace.get(w.name, (-1, *(0,) * w.num_axes))
            values |= {f"trace.{w.name}": numbers[0]}
            values |= {f"trace.{w.name}.{axis}": s for axis, s in enumerate(numbers[1:])}
        return found


def strided(name: str, table: Numbers, axes: Sequence[object]) -> dict[str, Any]:
    """The parameters of a table: its address, and the strides of its axes in elements."""
    strides = {f"{name}.{x}": s // table.itemsize for x, s in zip(axes, table.strides, strict=True)}
    return {name: table, **strides}


def _int64(array: Any) -> Numbers:
    return np.ascontiguousarray(array, np.int64)
