# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pages at the edge of the language, each of a kind that compiled code has got wrong or might."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CORNERS: list[Callable[[Any], None]] = []


def corner(page: Callable[[Any], None]) -> Callable[[Any], None]:
    CORNERS.append(page)
    return page


@corner
def prefixes(p: Any) -> None:
    """A constant in a head: only spans from 1 on have this rule."""
    i, j, k = p.positions("i j k")
    X, Z = p.items("X Z")
    a, b = p.weights("a b")
    X[1, j] += a[1, j]
    X[i, j] += X[i, k] * b[k, j] * (k < j)
    Z[()] += X[i, j]


@corner
def suffixes(p: Any) -> None:
    """The length in a head."""
    i, j = p.positions("i j")
    X, Z = p.items("X Z")
    a = p.weights("a")
    X[i, p.n] += a[i]
    Z[()] += X[i, j]


@corner
def an_item_of_a_word_beside_one_of_the_cell(p: Any) -> None:
    """Y is read at the cell that is filled, in a sum in which another item is that of a word."""
    i, j, k = p.positions("i j k")
    w, g = p.words("w"), p.symbols("g", 3)
    X, Y, Z = p.items("X", 3), p.items("Y", 3), p.items("Z")
    a, b = p.weights("a", 3), p.weights("b")
    X[i, i, g] += a[i, g]
    Y[i, j, g] += b[i, j] * X[i, k, w[j]] * X[k + 1, j, g]
    X[i, j, g] += Y[i, k, g] * X[k, j, w[i]]
    Z[()] += X[1, p.n, 0]


@corner
def an_item_of_width_zero_alone(p: Any) -> None:
    """Y is read at widths where no rule proves it."""
    i, j, k = p.positions("i j k")
    X, Y, Z = p.items("X Y Z")
    a, b = p.weights("a b")
    X[i, i] += a[i, i]
    Y[i, i] += 1
    X[i, j] += Y[i, k - 1] * X[k + 1, j]
    X[i, j] += b[i, j] * Y[i + 1, j - 1]
    Z[()] += X[1, p.n]


@corner
def widths_with_a_gap(p: Any) -> None:
    """Spans of width 0 and 3: those between have no rule, and are read."""
    i, j = p.positions("i j")
    X, Z = p.items("X Z")
    a, b = p.weights("a b")
    X[i, i] += a[i, i]
    X[i, i + 3] += b[i, i + 3]
    Z[()] += X[i, j]


@corner
def points_with_a_gap(p: Any) -> None:
    i = p.positions("i")
    X, Z = p.items("X Z")
    a = p.weights("a")
    X[1] += a[1]
    X[3] += a[3]
    Z[()] += X[i]


@corner
def both_ends_of_a_sum(p: Any) -> None:
    """A sum that reads its own cell at both ends, which are one where the span is a word."""
    i, j, k = p.positions("i j k")
    A, B, Z = p.items("A B Z")
    a, b = p.weights("a b")
    B[i, j] += b[i, j] * (i <= j)
    A[i, j] += B[i, k] * B[k, j] * a[k, j]
    Z[()] += A[1, p.n]


@corner
def no_order_with_zeros_for_narrow_spans(p: Any) -> None:
    """If B had spans of one word, with zeros as lanes give them, A would need itself."""
    i, j, k = p.positions("i j k")
    A, B, Z = p.items("A B Z")
    a, b = p.weights("a b")
    A[i, j] += a[i, j] * (i <= j)
    B[i, j] += b[i, j] * (i < j)
    A[i, j] += A[i, k] * B[k, j]
    Z[()] += A[1, p.n]


@corner
def gaps_in_trees(p: Any) -> None:
    """A gap in a page that is otherwise one of trees."""
    i, j, k = p.positions("i j k")
    X, Y, Z = p.items("X Y Z")
    a, b = p.weights("a b")
    X[i, i] += a[i, i]
    X[i, i + 2] += b[i, i + 2]
    Y[i, i] += 1
    Y[i, j] += X[i, k] * Y[k + 1, j]
    Z[()] += Y[1, p.n]


@corner
def brackets_of_the_cell(p: Any) -> None:
    """Comparisons that no sum takes up."""
    i, j, k = p.positions("i j k")
    X, Y, Z = p.items("X Y Z")
    a, b = p.weights("a b")
    X[i, j] += a[i, j] * (i <= j)
    Y[i, j] += X[i, j] * b[i, j] * (i < 3) * (j > 2) + X[i, k] * X[k, j] * (i + 2 <= j) * (i < k)
    Z[()] += Y[i, j] * (j < p.n) + Y[1, p.n]


@corner
def one_symbol_to_begin_with(p: Any) -> None:
    """Some symbols of a cell have no rule."""
    t = p.positions("t")
    x, y = p.symbols("x y", 2)
    X, Z = p.items("X", 2), p.items("Z")
    move = p.weights("move", 2, 2)
    X[1, 0] += 1
    X[t, x] += X[t - 1, y] * move[y, x]
    Z[()] += X[p.n, x]


@corner
def offsets_in_heads(p: Any) -> None:
    """The variable of P[j + 1] begins with 1, so that P[1] has no such rule; that of X[i - 1, j] ends with n."""
    i, j = p.positions("i j")
    P, X, Z = p.items("P X Z")
    a, b = p.weights("a b")
    P[j] += a[j]
    P[j + 1] += b[j + 1]
    X[i - 1, j] += a[i] * b[j - 1] * (i <= j)
    X[i, i] += 1
    Z[()] += P[j] * X[i, j]


@corner
def words_in_heads(p: Any) -> None:
    """A word as a symbol of a head, at an offset from its position."""
    j = p.positions("j")
    x, y = p.symbols("x y", 3)
    w = p.words("w")
    F, Z = p.items("F", 3), p.items("Z")
    a = p.weights("a", 3, 3)
    F[1, x] += 1
    F[j + 1, w[j]] += F[j, x] * a[x, w[j + 1]]
    Z[()] += F[p.n, y] * a[y, y]


@corner
def the_same_symbol_twice(p: Any) -> None:
    """Only the diagonal has a rule."""
    t = p.positions("t")
    x, y = p.symbols("x y", 2)
    X, Z = p.items("X", 2, 2), p.items("Z")
    a = p.weights("a", 2)
    X[t, x, x] += a[t, x]
    Z[()] += X[p.n, x, y] * a[1, y]


@corner
def names_of_the_compiler(p: Any) -> None:
    """Tables and indices with names that compiled code has, too."""
    b, z, rank = p.positions("b z rank")
    start, chart = p.items("start chart")
    scale, order, width, k, out = p.weights("scale order width k out")
    start[b, z] += scale[b, z] * order[b] * width[z] * (b <= z)
    start[b, z] += start[b, rank] * start[rank + 1, z] * k[rank] * out[()]
    chart[()] += start[1, p.n]


@corner
def members_and_items_of_like_names(p: Any) -> None:
    """X_1 is not X at symbol 1."""
    i = p.positions("i")
    X = p.items("X", 2)
    X_1, Z = p.items("X_1 Z")
    a, b = p.weights("a b")
    X[i, i, 1] += a[i]
    X_1[i, i] += b[i]
    Z[()] += X[1, 1, 1] * X_1[p.n, p.n]


@corner
def unary_rules_before_others(p: Any) -> None:
    """In whatever order the page has them, unary rules come last in a cell."""
    i = p.positions("i")
    u, x = p.symbols("u", "U"), p.symbols("x", 3)
    above, below = p.columns("above below", "U")
    X, Z = p.items("X", 3), p.items("Z")
    a, unary = p.weights("a", 3), p.weights("unary", "U")
    X[i, i, above[u]] += unary[u] * X[i, i, below[u]]
    X[i, i, x] += a[i, x]
    Z[()] += X[1, 1, x]


@corner
def items_without_positions(p: Any) -> None:
    """The goal is not the only item of its cell."""
    i = p.positions("i")
    T, Z = p.items("T", 2), p.items("Z")
    a = p.weights("a", 2)
    T[0] += a[i, 0]
    T[1] += a[i, 1]
    Z[()] += T[0] * T[1]


@corner
def a_sum_within_bounds_of_both_sides(p: Any) -> None:
    """Several lower and upper limits of one sum."""
    i, j, k, m = p.positions("i j k m")
    X, Z = p.items("X Z")
    a = p.weights("a")
    X[i, j] += a[i, j] * (i <= j)
    Z[()] += X[i, k] * X[m, j] * (i + 1 <= m) * (m <= k + 1) * (k < j) * (2 <= m) * (m < p.n)


@corner
def a_sum_from_the_later_of_two_places(p: Any) -> None:
    """Neither lower limit implies the other, nor either upper one."""
    i, j, k = p.positions("i j k")
    X, Y, Z = p.items("X Y Z")
    a = p.weights("a")
    X[i, j] += a[i, j] * (i <= j)
    Y[i, j] += X[i, k] * X[k, j] * (2 <= k) * (k <= 3)
    Z[()] += Y[1, p.n] + Y[2, p.n] * (2 <= p.n)


@corner
def numbers_in_terms(p: Any) -> None:
    """1 + a weight, and Python's sum."""
    i, j, k = p.positions("i j k")
    X, Z = p.items("X Z")
    a = p.weights("a", 2)
    X[i, i] += 1 + a[i, 0] * (1 + a[i, 1])
    X[i, j] += sum(a[k, v] * X[i, k] * X[k + 1, j] for v in range(2))
    Z[()] += X[1, p.n]


@corner
def one_weight_in_an_axiom_and_beside_an_empty_sum(p: Any) -> None:
    """In a cell of width zero both rules speak of one element, and one of them adds nothing to it."""
    i, j, k = p.positions("i j k")
    B, Z = p.items("B Z")
    a = p.weights("a")
    B[i, j] += B[i, k] * B[k + 1, j] * a[j, i]
    B[i, j] += a[i, j] * (i <= j)
    Z[()] += B[1, p.n]


@corner
def weights_at_the_last_word(p: Any) -> None:
    """In sentences of several lengths side by side they are at several places."""
    i, j, k = p.positions("i j k")
    X, Z = p.items("X Z")
    a, b = p.weights("a b")
    X[i, i] += a[i]
    X[i, j] += X[i, k] * X[k + 1, j]
    Z[()] += X[1, p.n] * b[p.n] * b[p.n - 1] * (p.n > 1) + X[1, p.n] * a[p.n]


@corner
def weights_of_short_sentences(p: Any) -> None:
    """The same weights in rules for some lengths and for all."""
    i, j = p.positions("i j")
    x = p.symbols("x", 3)
    X, Z = p.items("X Z")
    a, b = p.weights("a"), p.weights("b", 3)
    X[i, j] += a[j] * b[x] * (i <= j)
    Z[()] += X[1, p.n] * (p.n <= 2) * b[x] * a[1]
    Z[()] += X[1, p.n]


@corner
def rows_of_two_rules_in_turn(p: Any) -> None:
    """A row of a list reads what both rules have added to in earlier rows."""
    i, j, k = p.positions("i j k")
    x, u = p.symbols("x", 3), p.symbols("u", "U")
    above, below = p.columns("above below", "U")
    X, Z = p.items("X", 3), p.items("Z")
    a, g, h = p.weights("a", 3), p.weights("g", "U"), p.weights("h", "U")
    X[i, i + 1, x] += a[x]
    X[i, j, x] += X[i, k, x] * X[k, j, 0]
    X[i, j, above[u]] += g[u] * X[i, j, below[u]]
    X[i, i + 1, above[u]] += h[u] * X[i, i + 1, below[u]]
    Z[()] += X[1, p.n, x]


@corner
def the_first_word_beside_another(p: Any) -> None:
    """A weight of two words, of which one is always the same."""
    j = p.positions("j")
    w = p.words("w")
    F, Z = p.items("F"), p.items("Z")
    a, t = p.weights("a"), p.weights("t", "U", "U")
    F[1] += a[1]
    F[j] += F[j - 1] * t[w[1], w[j]] * a[j]
    Z[()] += F[p.n] * t[w[p.n], w[1]]


@corner
def a_rule_that_short_sentences_do_not_have(p: Any) -> None:
    j = p.positions("j")
    w = p.words("w")
    F, Z = p.items("F"), p.items("Z")
    a, t = p.weights("a"), p.weights("t", "U")
    F[1] += a[1]
    F[j] += F[j - 1] * t[w[j]]
    F[3] += a[3] * t[w[3]] * t[w[2]]
    Z[()] += F[p.n]


@corner
def a_sum_with_two_last_positions(p: Any) -> None:
    """P is read at the point that is filled, where the constant is the greater of the two."""
    j, k = p.positions("j k")
    P, F, Z = p.items("P F Z")
    a, b = p.weights("a b")
    F[j] += P[k] * a[k, j] * (k <= j) * (k <= 2)
    Z[()] += F[j]
    P[j] += b[j]


@corner
def rows_that_read_cells_at_the_end(p: Any) -> None:
    """Some of those that they read have the width that is filled, and no other rule."""
    i, j = p.positions("i j")
    u = p.symbols("u", "U")
    above, below = p.columns("above below", "U")
    X, Z = p.items("X", 3), p.items("Z")
    a, g = p.weights("a", 3), p.weights("g", "U")
    x = p.symbols("x", 3)
    X[i, i, x] += a[i, x]
    X[i, i + 2, x] += a[i, x] * (i < 2)
    X[i, p.n, above[u]] += g[u] * X[i, p.n, below[u]]
    Z[()] += X[i, j, x] * (1 < j)


@corner
def alike_sums_of_one_symbol(p: Any) -> None:
    """Of two sums of equally many splits one reads a symbol that is given."""
    i, j, k = p.positions("i j k")
    A, X, Z = p.items("A"), p.items("X", 3), p.items("Z")
    a, b = p.weights("a", 3), p.weights("b")
    x = p.symbols("x", 3)
    X[i, i, x] += a[i, x]
    A[i, i] += b[i, i]
    A[i, j] += A[i, k] * X[k + 1, j, 2] * b[i, j]
    A[i, j] += A[i, k] * A[k + 1, j]
    X[i, j, 2] += A[i, k] * A[k + 1, j] * b[i, j]
    Z[()] += A[1, p.n]


@corner
def a_goal_beside_points(p: Any) -> None:
    """An item without positions in a sum over symbols alone."""
    k = p.positions("k")
    x, u = p.symbols("x", 3), p.symbols("u", "U")
    above, below = p.columns("above below", "U")
    E, F, Z = p.items("E", 3), p.items("F", 3), p.items("Z")
    a, b = p.weights("a", 3), p.weights("b", 3)
    F[k, x] += b[k, x]
    E[x] += F[k, x] * a[k, x]
    Z[()] += F[2, above[u]] * E[below[u]] * b[1, x]


@corner
def a_constant_where_words_stand(p: Any) -> None:
    i, j, k = p.positions("i j k")
    B, Z = p.items("B Z")
    w = p.words("w")
    a = p.weights("a", "U", "U")
    B[i, i] += a[1, w[i]]
    B[i, j] += B[i, k] * B[k + 1, j] * a[w[j], w[i]]
    Z[()] += B[1, p.n] * a[0, 1]


@corner
def weights_that_stand_together(p: Any) -> None:
    """Where one of them has no element, there is no rule."""
    i, j = p.positions("i j")
    A, Z = p.items("A Z")
    u, v = p.weights("u v")
    A[i, i] += 1
    A[i, j] += A[i, j - 1] * u[i - 2, j] * v[i, j]
    Z[()] += A[1, p.n] + A[2, p.n] * v[1, 2]


@corner
def spans_of_width_two_by_columns(p: Any) -> None:
    """A sum at a cell of a width of its own reads that very cell, as the last of a column."""
    i, j, k = p.positions("i j k")
    A, C, Z = p.items("A C Z")
    one = p.weights("one")
    A[i, i] += one[i]
    A[i, j] += A[i, k] * A[k + 1, j]
    A[i, i + 2] += one[i]
    C[i, j] += A[i, k] * A[k, j]
    Z[()] += C[1, p.n]


@corner
def two_weights_at_each_split(p: Any) -> None:
    """Each stands in one place, and the posterior of one must not be read as the weight that it was."""
    i, j, k = p.positions("i j k")
    A, Z = p.items("A Z")
    u, v = p.weights("u v")
    A[i, i] += 1
    A[i, j] += A[i, k] * A[k + 1, j] * u[i, k, j] * v[i, k, j]
    Z[()] += A[1, p.n]


@corner
def the_column_before(p: Any) -> None:
    """A sum reads cells of the column before, up to its own row."""
    i, j, k = p.positions("i j k")
    B, Z = p.items("B Z")
    one = p.weights("one")
    B[i, i] += 1
    B[i, j] += B[k, j - 1] * (i <= k)
    Z[()] += B[1, p.n] * one[1]


@corner
def products_of_the_column_before(p: Any) -> None:
    i, j, k = p.positions("i j k")
    B, Z = p.items("B Z")
    u = p.weights("u")
    B[i, i] += 1
    B[i, i + 1] += 1
    B[i, j] += B[i, k] * B[k, j - 1] * u[i, j]
    Z[()] += B[1, p.n]


@corner
def rows_that_read_other_symbols(p: Any) -> None:
    """A row reads what earlier rows have added to, at all symbols x and not only at its own."""
    i, u = p.positions("i"), p.symbols("u", "U")
    above, below = p.columns("above below", "U")
    a, x, y = p.symbols("a", 3), p.symbols("x", 2), p.symbols("y", 2)
    X, Z = p.items("X", 3, 2), p.items("Z")
    f, g = p.weights("f", 3, 2), p.weights("g", "U")
    X[i, a, x] += f[a, x]
    X[i, above[u], x] += g[u] * X[i, below[u], y]
    Z[()] += X[p.n, a, x]


@corner
def the_word_before(p: Any) -> None:
    """There is none before the first one, so that X[1] has no rule."""
    j, x = p.positions("j"), p.symbols("x", 3)
    w = p.words("w")
    X, Z = p.items("X", 3), p.items("Z")
    a, b = p.weights("a"), p.weights("b", 3)
    X[j, w[j - 1]] += a[j]
    Z[()] += X[j, x] * b[x] + a[1]


@corner
def the_end_in_rules(p: Any) -> None:
    """Of items, weights and comparisons that know n, and of items without positions that read one another."""
    i, j, k = p.positions("i j k")
    x, y = p.symbols("x y", 3)
    X, Y, E, F, Z = p.items("X"), p.items("Y", 3), p.items("E", 3), p.items("F", 3), p.items("Z")
    a, b = p.weights("a"), p.weights("b", 3)
    X[i, i] += a[i]
    X[i, j] += X[i, k] * X[k + 1, j] * a[p.n - 1] * (i + 2 <= p.n)
    Y[i, p.n, x] += X[i, p.n] * b[x]
    Y[i, j, x] += X[i, j] * a[j + 1] * b[x]
    E[x] += Y[1, p.n, x] * a[p.n]
    F[x] += E[x] + E[y] * b[x] * a[1]
    Z[()] += F[x] * E[x]


@corner
def one_inner_sum_of_several_items(p: Any) -> None:
    """Two of the terms have it everywhere, one where a comparison holds."""
    i, j, k = p.positions("i j k")
    X, Y, V, Z = p.items("X Y V Z")
    a, b = p.weights("a b")
    X[i, i] += a[i, i]
    X[i, j] += a[i, j] * X[i, k] * X[k + 1, j]
    Y[i, j] += b[i, j] * X[i, k] * X[k + 1, j]
    V[i, j] += b[j, i] * X[i, k] * X[k + 1, j] * (i < 2) + Y[i, j] * X[i, j]
    Z[()] += X[1, p.n] + Y[1, p.n] + V[1, p.n]


@corner
def rows_that_read_their_cell_in_a_sum(p: Any) -> None:
    """One of the products reads what earlier rows have added to: that of an item of width zero."""
    i, j, k = p.positions("i j k")
    x, u = p.symbols("x", 3), p.symbols("u", "U")
    above, below = p.columns("above below", "U")
    X, E, Z = p.items("X", 3), p.items("E"), p.items("Z")
    a, g = p.weights("a", 3), p.weights("g", "U")
    E[i, j] += a[i, 0] * (i <= j)
    X[i, i, x] += a[i, x]
    X[i, j, above[u]] += g[u] * X[i, k, below[u]] * E[k, j]
    Z[()] += X[1, p.n, x]


@corner
def one_inner_sum_of_the_goal(p: Any) -> None:
    i, j, k = p.positions("i j k")
    A, Z = p.items("A Z")
    a = p.weights("a")
    A[i, j] += a[i] * (i <= j)
    Z[()] += a[1] * A[1, k] * A[k, p.n] + a[p.n] * A[1, k] * A[k, p.n]


@corner
def one_inner_sum_of_rows_and_of_others(p: Any) -> None:
    """Rows that read their own cell do not form it before the others."""
    i, j, k = p.positions("i j k")
    x, u = p.symbols("x", 3), p.symbols("u", "U")
    above, below = p.columns("above below", "U")
    A, B, X, Z = p.items("A"), p.items("B"), p.items("X", 3), p.items("Z")
    a, b = p.weights("a"), p.weights("b", 3)
    A[i, j] += a[i] * (i <= j)
    X[i, j, x] += b[x] * (i <= j)
    X[i, j, above[u]] += X[i, j, below[u]] * A[i, k] * A[k, j]
    B[i, j] += a[j] * A[i, k] * A[k, j]
    Z[()] += X[1, p.n, x] * B[1, p.n]


@corner
def an_item_without_positions_that_short_sentences_lack(p: Any) -> None:
    """So that a rule which reads it in sentences of one word adds nothing."""
    j, x = p.positions("j"), p.symbols("x", 3)
    E, F, Z = p.items("E", 3), p.items("F", 3), p.items("Z")
    b = p.weights("b", 3)
    F[j, x] += b[j, x]
    E[x] += F[j, x] * (2 <= j)
    Z[()] += E[0] * (p.n <= 1) + F[p.n, 1]
