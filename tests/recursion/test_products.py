# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules with several weights, at positions with offsets."""

from typing import Any

import numpy as np

from pyrogram.recursion import recursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.program import Program


@recursion(first=0)
def three(p: Any) -> None:
    """Binary trees over fence posts, with products of three weights, in which positions have offsets."""
    i, j, k = p.positions("i j k")
    B, Z = p.items("B Z")
    w = p.words("w")
    a, b, c = p.weights("a", "V"), p.weights("b", "V", "V"), p.weights("c")
    B[i, i + 1] += a[w[i + 1]]
    B[i, j] += b[w[i + 1], w[j]] * c[i, j] * a[w[j]] * B[i, k] * B[k, j]
    Z[()] += B[0, p.n]


def brute(w: list[int], a: Any, b: Any, c: Any, i: int, j: int) -> Any:
    """The sum over trees of a span."""
    if j == i + 1:
        return a[w[i]]
    inner = sum(brute(w, a, b, c, i, k) * brute(w, a, b, c, k, j) for k in range(i + 1, j))
    return b[w[i], w[j - 1]] * c[i, j] * a[w[j - 1]] * inner


def test_products_of_three_with_offsets() -> None:
    """Against the sum over trees, and its differences: every factor has the posterior of the rule."""
    made = three()
    rng = np.random.default_rng(0)
    n, V, words = 5, 3, [2, 0, 2, 1, 0]
    tables = {"a": rng.uniform(0.2, 1, V), "b": rng.uniform(0.2, 1, (V, V)), "c": rng.uniform(0.2, 1, (n + 1, n + 1))}

    def log_z(tables: dict[str, Any]) -> float:
        return float(np.log(brute(words, tables["a"], tables["b"], tables["c"], 0, n)))

    for dtype in (np.float64, np.float32):
        given = {name: np.log(t)[None].astype(dtype) for name, t in tables.items()}
        sentences = Inputs(np.array([n]), given, {"w": np.array([words])}, {"V": V}, {})
        program = Program(made)
        found, counts = program.log_counts(sentences)
        tolerance = {"rtol": 1e-12 if dtype is np.float64 else 1e-5}
        np.testing.assert_allclose(found, [log_z(tables)], **tolerance)
        for name, table in tables.items():
            for place in np.ndindex(table.shape):
                step = 1e-5
                ends = []
                for sign in (1, -1):
                    moved = {k: t.copy() for k, t in tables.items()}
                    moved[name][place] *= np.exp(sign * step)
                    ends.append(log_z(moved))
                expected = (ends[0] - ends[1]) / (2 * step)
                assert abs(counts[name][0][place] - expected) < (1e-9 if dtype is np.float64 else 1e-5)
