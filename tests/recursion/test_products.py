# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights that stand together, and their products."""

from typing import Any

import numpy as np

from pyrogram.charts.dmv import dmv
from pyrogram.charts.hmm import chain
from pyrogram.charts.projective import first_order
from pyrogram.recursion import recursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.rules.bounds import Bounds
from pyrogram.recursion.rules.products import with_given, with_products
from pyrogram.recursion.run.program import Program


def test_stops_and_children_of_the_dmv_become_one() -> None:
    products = with_products(dmv(valence_attach=True))
    possible = 0
    for rule in products.recursion.rules:
        found = [f for f in rule.weights if f.table in products.factors]
        if found and Bounds([*rule.positions, "n"], rule.bounds).possible:
            assert rule.head.table in ("IR", "IL") and found == list(rule.weights)
            stop, attach = products.of(found[0])
            head, child = found[0].positions  # heads first, for stops have no other axis
            assert stop.table == "stop" and stop.symbols[0].position == attach.symbols[0].position == head
            assert attach.symbols[-1].position == child and attach.symbols[2] == stop.symbols[2]
            possible += 1
    assert possible == 4


def test_a_weight_that_rules_share_stays_alone_where_it_is_said() -> None:
    """Without valence the choice of a child is a factor of both valences, which is taken out of their sum."""
    assert with_products(dmv(), shared=False).factors == {}
    assert len(with_products(dmv()).factors) == 4
    assert len(with_products(dmv(valence_attach=True), shared=False).factors) == 8


def test_shared_weights_that_stand_together_become_one() -> None:
    """With evidence the choice of a child and the factor of its arc are one, which is taken out of the sum."""
    made = dmv(evidence=True)
    products = with_products(made, shared=False)
    assert sorted([f.table for f in parts] for parts in products.factors.values()) == [["arc", "attach"]] * 2
    for before, rule in zip(made.rules, products.recursion.rules, strict=True):
        if before.head.table in ("IR", "IL"):
            stop, product = rule.weights
            assert (stop, *products.of(product)) == before.weights  # in their order
        else:
            assert rule == before
    by_valence = with_products(dmv(valence_attach=True, evidence=True), shared=False).factors.values()
    assert all([f.table for f in parts] == ["stop", "arc", "attach"] for parts in by_valence) and len(by_valence) == 8


@recursion(first=0)
def apart(p: Any) -> None:
    """Two rules that share two weights, with one of their own between them."""
    i, j, k = p.positions("i j k")
    B, Z = p.items("B Z")
    a, b, c = p.weights("a b c")
    B[i, i + 1] += 1
    B[i, j] += a[i, j] * c[i] * b[i, j] * B[i, k] * B[k, j]
    B[i, j] += a[i, j] * c[j] * b[i, j] * B[i, k] * B[k, j] * B[i, k]
    Z[()] += B[0, p.n]


def test_weights_that_do_not_stand_side_by_side_stay_alone() -> None:
    """Derivations name them in the order of the rule."""
    assert with_products(apart(), shared=False).factors == {}


def test_what_is_given_is_multiplied_into_what_stands_beside_it() -> None:
    """In chains the factor of a state, and what it emits; not at the first word, which is a position of its own."""
    made = chain(evidence=True)
    products = with_given(made, frozenset(["bonus"]))
    (parts,) = products.factors.values()
    assert [f.table for f in parts] == ["bonus", "emission"]
    first, later, last = products.recursion.rules
    assert (first, last) == (made.rules[0], made.rules[2])
    transition, product = later.weights
    assert transition.table == "transition"
    assert [(f.table, f.positions) for f in products.of(product)] == [
        ("bonus", made.rules[1].head.positions),
        ("emission", ()),
    ]
    assert with_given(made, frozenset()).recursion.rules == made.rules


def test_weights_of_groups_stay_alone() -> None:
    assert with_products(first_order(valences=2, stops=2)).factors == {}


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
    """Against the sum over trees, and its differences: every factor has the posterior of the product."""
    made = three()
    (factors,) = with_products(made).factors.values()
    assert [f.table for f in factors] == ["b", "c", "a"]
    rng = np.random.default_rng(0)
    n, V, words = 5, 3, [2, 0, 2, 1, 0]
    tables = {"a": rng.uniform(0.2, 1, V), "b": rng.uniform(0.2, 1, (V, V)), "c": rng.uniform(0.2, 1, (n + 1, n + 1))}

    def log_z(tables: dict[str, Any]) -> float:
        return float(np.log(brute(words, tables["a"], tables["b"], tables["c"], 0, n)))

    for dtype in (np.float64, np.float32):
        given = {name: np.log(t)[None].astype(dtype) for name, t in tables.items()}
        sentences = Inputs(np.array([n]), given, {"w": np.array([words])}, {"V": V}, {})
        program = Program(made)
        assert program.in_many
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
