# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The interpreter against what it does not know: closed forms, head vectors, paths, and derivations listed by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pages import dmv_words, hmm, pcfg, projective, semi_markov, several_roots, siblings

from pyrogram.recursion import (
    Best,
    Derivations,
    Entropy,
    Grounded,
    InvalidRecursion,
    Reals,
    Recursion,
    Semiring,
    recursion,
)


def one(*indices: int) -> float:
    return 1.0


def is_projective(heads: tuple[int, ...], roots: int | None) -> bool:
    """Whether heads of the words 1 .. n are a tree without crossing arcs, with this number of children of ROOT."""
    n = len(heads)
    if roots is not None and heads.count(0) != roots:
        return False
    for d in range(1, n + 1):
        seen, h = set(), d
        while h:
            if h in seen:
                return False
            seen.add(h)
            h = heads[h - 1]
    spans = [tuple(sorted((h, d))) for d, h in enumerate(heads, start=1)]
    return not any(a < c < b < d for (a, b), (c, d) in itertools.permutations(spans, 2))


def trees(n: int, roots: int | None = 1) -> list[tuple[int, ...]]:
    return [heads for heads in itertools.product(range(n + 1), repeat=n) if is_projective(heads, roots)]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_projective_trees_are_as_many_as_head_vectors(n: int) -> None:
    weights = dict(arc=one, sibling=one, root=one)
    for page, roots in ((projective, 1), (siblings, 1), (several_roots, None)):
        assert Grounded(page(), n).goal(Reals(), weights) == len(trees(n, roots))


def test_trees_have_the_weights_of_their_arcs() -> None:
    """Log Z and the best tree, from a list of head vectors."""
    n = 4
    arc = np.random.default_rng(0).random((n + 1, n + 1))
    products = [math.prod(arc[h, d] for d, h in enumerate(heads, start=1)) for heads in trees(n)]
    grounded = Grounded(projective(), n)
    assert grounded.goal(Reals(), {"arc": arc}) == pytest.approx(sum(products))
    assert grounded.goal(Best(), {"arc": arc}) == pytest.approx(max(products))


def test_a_tree_of_the_dmv_has_its_decisions() -> None:
    """Each of the two trees of two words: attachments, and stops with the valence of the moment."""
    rng = np.random.default_rng(1)
    attach, stop, root = rng.random((3, 2, 3)), rng.random((3, 2, 2, 2)), rng.random(3)
    left, right, go, end = 0, 1, 0, 1
    a, b = 2, 0  # the words
    leaf = {w: stop[w, left, 0, end] * stop[w, right, 0, end] for w in (a, b)}
    first_is_head = root[a] * attach[a, right, b] * stop[a, right, 0, go] * stop[a, right, 1, end]
    second_is_head = root[b] * attach[b, left, a] * stop[b, left, 0, go] * stop[b, left, 1, end]
    expected = first_is_head * stop[a, left, 0, end] * leaf[b] + second_is_head * stop[b, right, 0, end] * leaf[a]
    grounded = Grounded(dmv_words(), 2, sizes=dict(T=3), words=dict(w=[a, b]))
    assert grounded.goal(Reals(), dict(attach=attach, stop=stop, root=root)) == pytest.approx(expected)


def brackets(p: Any) -> None:
    i, j, k = p.positions("i j k")
    X, Z = p.items("X Z")
    X[i, i] += 1
    X[i, j] += X[i, k] * X[k + 1, j]
    Z[()] += X[1, p.n]


@pytest.mark.parametrize(("n", "catalan"), [(1, 1), (2, 1), (3, 2), (4, 5), (5, 14), (6, 42), (7, 132)])
def test_binary_bracketings_are_catalan_numbers(n: int, catalan: int) -> None:
    assert Grounded(recursion(brackets)(), n).goal(Reals(), {}) == catalan


@pytest.mark.parametrize("n", [1, 2, 6])
def test_segmentations_are_powers(n: int) -> None:
    """Of labels of K kinds for segments: K (K + 1) ** (n - 1)."""
    weights = dict(initial=one, final=one, segment=one, transition=one)
    assert Grounded(semi_markov(), n, sizes=dict(K=2)).goal(Reals(), weights) == 2 * 3 ** (n - 1)


def test_a_hidden_markov_model_sums_over_its_paths() -> None:
    rng = np.random.default_rng(2)
    K, words = 3, [1, 0, 2, 1]
    initial, final, transition, emission = rng.random(K), rng.random(K), rng.random((K, K)), rng.random((K, 3))
    products = []
    for path in itertools.product(range(K), repeat=len(words)):
        p = initial[path[0]] * final[path[-1]]
        p *= math.prod(transition[x, y] for x, y in itertools.pairwise(path))
        products.append(p * math.prod(emission[x, w] for x, w in zip(path, words, strict=True)))
    weights = dict(initial=initial, final=final, transition=transition, emission=emission)
    grounded = Grounded(hmm(), len(words), sizes=dict(K=K, W=3), words=dict(w=words))
    assert grounded.goal(Reals(), weights) == pytest.approx(sum(products))
    check_derivations(grounded, weights, products)


def derivations(words: list[int], symbol: int, binary: Any, lexical: Any) -> Iterator[float]:
    """Weights of the derivations of words from a symbol, top down."""
    if len(words) == 1:
        yield lexical[symbol, words[0]]
    for k in range(1, len(words)):
        for left, right in itertools.product(range(len(binary)), repeat=2):
            for a in derivations(words[:k], left, binary, lexical):
                for b in derivations(words[k:], right, binary, lexical):
                    yield binary[symbol, left, right] * a * b


def test_a_grammar_sums_over_its_derivations() -> None:
    rng = np.random.default_rng(3)
    words = [0, 2, 1, 0]
    root, binary, lexical = rng.random(2), rng.random((2, 2, 2)), rng.random((2, 3))
    products = [root[s] * p for s in range(2) for p in derivations(words, s, binary, lexical)]
    weights = dict(root=root, binary=binary, lexical=lexical)
    grounded = Grounded(pcfg(), 4, sizes=dict(S=2, W=3), words=dict(w=words))
    assert grounded.goal(Reals(), weights) == pytest.approx(sum(products))
    check_derivations(grounded, weights, products)


def check_derivations(grounded: Grounded, weights: dict[str, Any], products: list[float]) -> None:
    """All derivations, the best, the k best and the entropy are those of the list of products."""
    products = sorted(products, reverse=True)
    everything = grounded.goal(Derivations(), weights)
    np.testing.assert_allclose(sorted((v for v, _ in everything), reverse=True), products)
    for v, keys in everything:
        assert v == pytest.approx(math.prod(weights[name][indices] for name, indices in keys))
    for k in (1, 5, len(products) + 3):
        np.testing.assert_allclose([v for v, _ in grounded.goal(Derivations(k), weights)], products[:k])
    assert grounded.goal(Best(), weights) == pytest.approx(products[0])
    z, r = grounded.goal(Entropy(), weights)
    p = np.array(products) / sum(products)
    assert math.log(z) - r / z == pytest.approx(-(p * np.log(p)).sum())


def test_values_of_items() -> None:
    """By table and indices: here the number of bracketings of each span."""
    values = Grounded(recursion(brackets)(), 4).values(Reals(), {})
    assert values["X", (2, 4)] == 2
    assert values["X", (1, 4)] == values["Z", ()] == 5
    assert ("X", (4, 2)) not in values


def test_weights_are_functions_or_arrays() -> None:
    n = 3
    arc = np.random.default_rng(4).random((n + 1, n + 1))
    grounded = Grounded(projective(), n)
    assert grounded.goal(Reals(), {"arc": arc}) == grounded.goal(Reals(), {"arc": lambda h, d: arc[h, d]})


def test_a_sentence_without_derivations_has_zero() -> None:
    def even(p: Any) -> None:
        i, j, k = p.positions("i j k")
        X, Z = p.items("X Z")
        X[i, i + 1] += 1
        X[i, j] += X[i, k] * X[k + 1, j]
        Z[()] += X[1, p.n]

    made = recursion(even)()
    assert [Grounded(made, n).goal(Reals(), {}) for n in range(1, 7)] == [0, 1, 0, 1, 0, 2]
    assert Grounded(made, 3).goal(Derivations(), {}) == ()


class Shortest(Semiring[float]):
    """Least sums: a semiring of a reader's own."""

    zero = math.inf
    one = 0.0

    def plus(self, a: float, b: float) -> float:
        return min(a, b)

    def times(self, a: float, b: float) -> float:
        return a + b


def test_a_semiring_of_a_readers_own() -> None:
    n = 4
    cost = np.random.default_rng(5).random((n + 1, n + 1))
    sums = [sum(cost[h, d] for d, h in enumerate(heads, start=1)) for heads in trees(n)]
    assert Grounded(projective(), n).goal(Shortest(), {"arc": cost}) == pytest.approx(min(sums))


def cyclic() -> Recursion:
    @recursion
    def unary(p: Any) -> None:
        i = p.positions("i")
        x, u = p.symbols("x", 2), p.symbols("u", "U")
        above, below = p.columns("above below", "U")
        X, Z = p.items("X", 2), p.items("Z")
        rule = p.weights("rule", "U")
        X[i, x] += 1
        X[i, above[u]] += rule[u] * X[i, below[u]]
        Z[()] += X[1, 0]

    return unary()


def test_a_list_of_rules_in_a_circle_is_refused() -> None:
    lists = dict(above=[0, 1], below=[1, 0])
    with pytest.raises(InvalidRecursion, match=r"X\[1, [01]\] needs itself"):
        Grounded(cyclic(), 1, sizes=dict(U=2), lists=lists)


def test_what_is_missing_is_named() -> None:
    @recursion
    def page(p: Any) -> None:
        t, x = p.positions("t"), p.symbols("x", "K")
        w = p.words("w")
        r = p.symbols("r", "R")
        column = p.columns("column", "R")
        F, Z = p.items("F", "K"), p.items("Z")
        a, b = p.weights("a", "K"), p.weights("b", "K", "V")
        F[1, x] += a[x]
        F[t, column[r]] += F[t - 1, column[r]] * b[column[r], w[t]]
        Z[()] += F[p.n, x]

    made, sizes, lists = page(), {"K": 2, "R": 2}, {"column": [0, 1]}
    with pytest.raises(InvalidRecursion, match=r"^sizes lacks 'K', over which x runs in F\[1, x\] \+= a\[x\]$"):
        Grounded(made, 2)
    with pytest.raises(InvalidRecursion, match=r"^lists\['column'\] needs length 2, for F\[t, "):
        Grounded(made, 2, sizes=sizes)
    with pytest.raises(InvalidRecursion, match=r"^words\['w'\] needs length 2, for F\[t, "):
        Grounded(made, 2, sizes=sizes, lists=lists, words={"w": [0]})
    for wrong, kind in (([0.0, 1.7], "integers, not float64"), ([True, False], "integers, not bool")):
        with pytest.raises(InvalidRecursion, match=f"^words w must be {kind}$"):
            Grounded(made, 2, sizes=sizes, lists=lists, words={"w": wrong})
        with pytest.raises(InvalidRecursion, match=f"^column column must be {kind}$"):
            Grounded(made, 2, sizes=sizes, lists={"column": wrong}, words={"w": [0, 1]})  # type: ignore[dict-item]
    with pytest.raises(InvalidRecursion, match=r"^words w must be 0 or more, not \[0, -1\]$"):
        Grounded(made, 2, sizes=sizes, lists=lists, words={"w": [0, -1]})
    grounded = Grounded(made, 2, sizes=sizes, lists=lists, words={"w": [0, 2, -1]})  # padding is not read
    with pytest.raises(InvalidRecursion, match=r"^weights lacks the table 'b'; it has \['a'\]$"):
        grounded.goal(Reals(), {"a": np.ones(2)})
    with pytest.raises(InvalidRecursion, match=r"^weights\['b'\] has no element \[0, 2\], which a rule needs$"):
        grounded.goal(Reals(), {"a": np.ones(2), "b": np.ones((2, 2))})
    assert grounded.goal(Reals(), {"a": np.ones(2), "b": np.ones((2, 3))}) == 2
    assert grounded.goal(Reals(), {"a": [1, 1], "b": [[1, 1, 1], [1, 1, 1]]}) == 2
    with pytest.raises(InvalidRecursion, match=r"^weights\['b'\] has no element \[0, 2\], which a rule needs$"):
        grounded.goal(Reals(), {"a": [1, 1], "b": [[1, 1], [1, 1]]})
