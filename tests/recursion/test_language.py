# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The language: what is refused, in which words, and how a recursion is printed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pages import PAGES, Page, dmv, dmv_words, hmm, pcfg_rules, projective

from pyrogram.recursion import InvalidRecursion, Recursion, recursion
from pyrogram.recursion.rules.lowering import lower

DECLARED = """
i, j, k, r = p.positions("i j k r")
n = p.n
X, Y, Z = p.items("X Y Z")
F = p.items("F", 3)
x, y = p.symbols("x y", 3)
u = p.symbols("u", "U")
A, B, C, D = p.columns("A B C D", "U")
w = p.words("w")
a = p.weights("a")
b = p.weights("b", 2)
c = p.weights("c", 3)
"""


def page(rules: str, first: int = 1) -> Recursion:
    """A recursion with these rules, and with a goal unless they speak of it."""
    goal = "" if "Z" in rules else "Z[()] += a[1]"

    def example(p: Any) -> None:
        exec(f"{DECLARED}\n{rules}\n{goal}", {"p": p})

    return recursion(example)(first=first)


MISTAKES = {
    # of writing
    "assigned": ("X[i, i] = a[i]", "a rule for X[i, i] is written with +=, not with ="),
    "weight as head": ("a[i] += b[i, 0]", "a is a weight, so no rule may add to it"),
    "chained comparison": (
        "X[i, j] += a[k] * (i < k < j)",
        "a comparison of positions has no truth value while rules are written: "
        "write (i < k) * (k < j) for i < k < j, and two rules for an if",
    ),
    "if": ("if i < j: X[i, j] += 1", "a comparison of positions has no truth value"),
    "and": ("X[i, j] += a[i] * (i < j and j < k)", "a comparison of positions has no truth value"),
    "ampersand": (
        "X[i, j] += a[i] * ((i < j) & (j < k))",
        "(i < j): rules know +, * and comparisons of positions by <, <=, > and >=, and no other",
    ),
    "equals": (
        "X[i, j] += a[i] * (i == j)",
        "False is no factor of a rule: positions are compared by <, <=, > and >=, "
        "and i == j is (i <= j) * (j <= i), or one index for both",
    ),
    "differs": ("X[i, j] += a[i] * (i != j)", "True is no factor of a rule"),
    "equals as index": (
        "X[i, i] += b[i, i == j]",
        "b[i, False]: False stands where the table has a symbol",
    ),
    "other number": (
        "X[i, i] += 0.5 * a[i]",
        "0.5 is no factor of a rule: factors are items, weights, comparisons of positions and 1; "
        "another number is a weight",
    ),
    "two": ("X[i, i] += 2", "2 is no factor of a rule"),
    "none": ("X[i, i] += None", "None is no factor of a rule"),
    "minus": ("X[i, i] += a[i] - b[i, 0]", "a[i]: rules know +, * and comparisons"),
    "negative": ("X[i, i] += -a[i]", "a[i]: rules know +, * and comparisons"),
    "quotient": ("X[i, i] += a[i] * a[i] / b[i, 0]", "a[i] * a[i]: rules know +, * and comparisons"),
    "one over": ("X[i, i] += 1 / a[i]", "a[i]: rules know +, * and comparisons"),
    "power": ("X[i, i] += a[i] ** 2", "a[i]: rules know +, * and comparisons"),
    "sum minus": ("X[i, i] += (a[i] + 1) - a[i]", "a[i] + 1: rules know +, * and comparisons"),
    "table for an item": (
        "X[i, j] += a[i] * Y * (i < j)",
        "Y stands without indices: write Y[...], or Y[()] if it has none",
    ),
    "table for a goal": ("Z += X[1, n]", "Z stands without indices: write Z[...], or Z[()] if it has none"),
    "table as sum": ("X[i, i] += a", "a stands without indices"),
    "lost": (
        "head = X[i, i]; head += a[i]",
        "X[i, i] += a[i] was added to a variable and is lost: += stands directly after the item",
    ),
    "sum in a variable": (
        "s = a[i]; s += b[i, 0]; X[i, i] += s",
        "a[i] += b[i, 0] is no factor of a rule: a sum in a variable grows by x = x + y, not by x += y",
    ),
    # of indices
    "symbol as position": ("X[i, x] += a[i]", "X[i, x]: x stands where X has a position"),
    "float as position": ("X[i, 1.5] += 1", "X[i, 1.5]: 1.5 stands where X has a position"),
    "half a position": ("X[i, i + 0.5] += 1", "only whole numbers are added to position i, not 0.5"),
    "difference of positions": ("X[i, j - i] += 1", "only whole numbers are added to position j, not i"),
    "twice a position": ("X[i, 2 * i] += 1", "i: rules know +, * and comparisons"),
    "minus a position": ("X[i, -i] += 1", "i: rules know +, * and comparisons"),
    "position compared with a symbol": ("X[i, i] += 1 * (i < x)", "x is not a position"),
    "position as symbol": ("F[i] += 1", "F[i]: i stands where the table has a symbol"),
    "position as symbol of a weight": ("F[i, x] += c[i]", "c[i]: i stands where the table has a symbol"),
    "no symbol": ("F[()] += 1", "F[()] has fewer indices than F has symbols, 1"),
    "symbol of another size": ("F[i, u] += 1", "F[i, u]: u runs over U symbols, and the table has 3 there"),
    "constant out of range": ("F[i, 3] += 1", "F[i, 3]: symbol 3 is not in 0 .. 2"),
    "negative constant": ("F[i, -1] += 1", "F[i, -1]: symbol -1 is not in 0 .. 2"),
    "comparison of another size": (
        "X[i, i] += c[i, i < j]",
        "c[i, (i < j)]: a comparison is an index of an axis of size 2, and a single one",
    ),
    "two comparisons as an index": (
        "X[i, i] += b[i, (i < j) * (j < k)]",
        "b[i, (i < j) * (j < k)]: (i < j) * (j < k) stands where the table has a symbol",
    ),
    "column at a position": ("F[i, A[i]] += 1", "A[i]: the index of a column is a symbol of size 'U'"),
    "column at another symbol": ("F[i, A[x]] += 1", "A[x]: the index of a column is a symbol of size 'U'"),
    "word at a symbol": ("F[i, w[x]] += 1", "w[x]: the index of a word is a position"),
    "column without row": ("F[i, A] += 1", "F[i, A]: A stands where the table has a symbol"),
    "string": ('X["i", j] += 1', "X['i', j]: i stands where X has a position"),
    "before the first": (
        "Z[()] += X[0, n]",
        "Z[()] += X[0, n]: position 0 of X[0, n] is before the first one, 1; "
        "fence posts, which begin with 0, are first=0",
    ),
    "after the last": (
        "X[i, n + 1] += a[i]",
        "X[i, n + 1] += a[i]: position n + 1 of X[i, n + 1] is after the last one, n",
    ),
    "weight before the first": (
        "X[i, i] += a[-1]",
        "X[i, i] += a[-1]: position -1 of a[-1] is before the first one, 0",
    ),
    "word 0": ("X[i, i] += c[w[0]]", "X[i, i] += c[w[0]]: there is no word w[0], for words are numbered from 1"),
    "word elsewhere": (
        "F[i, w[k]] += a[k]",
        "F[i, w[k]] += a[k]: the position of w[k] is none of the positions of F[i, w[k]]",
    ),
    # of declarations
    "declared twice": ('p.positions("i")', "i is declared twice, as position and as position"),
    "declared as two": ('p.items("a")', "a is declared twice, as weight and as item"),
    "name of the length": ('p.positions("n")', "'n' cannot be the name of a position"),
    "no name": ('p.positions("i,j")', "'i,j' cannot be the name of a position"),
    "list of names": ('p.items(["V", "W"])', "names (item) are one string, separated by blanks, and not ['V', 'W']"),
    "size 0": ('p.symbols("z", 0)', "a size of z must be a positive number or the name of one, not 0"),
    "size that is no number": (
        'p.items("V", 2.0)',
        "a size of V must be a positive number or the name of one, not 2.0",
    ),
    # of recursions
    "two arities": ("X[i, i] += a[i]; Z[()] += X[1]", "Z[()] += X[1]: positions of X[1] are 1, and elsewhere 2"),
    "two arities of members": (
        "F[i, 0] += 1; F[i, i, 1] += 1",
        "F[i, i, 1] += 1: positions of F[i, i, 1] are 2, and elsewhere 1",
    ),
    "three positions": (
        "X[i, j, k] += a[i] * (i < j) * (j < k)",
        "X[i, j, k] += a[i] * (i < j) * (j < k): X[i, j, k] is over 3 positions, and an item over two at most",
    ),
    "no goal": ("X[i, i] += 1\nZ = 0", "a recursion has one item without indices, its goal, and example has none"),
    "two goals": (
        "X[()] += a[1]; Z[()] += X[()]",
        "a recursion has one item without indices, its goal, and example has 2, X and Z",
    ),
    "no proof": (
        "X[i, j] += X[i, k] * X[k + 1, j]; Z[()] += X[1, n]",
        "X[i, j] += X[i, k] * X[k + 1, j]: no rule without items leads to X, so it is never proved",
    ),
    "item without rules": (
        "Z[()] += X[1, n]",
        "Z[()] += X[1, n]: no rule adds to X",
    ),
    "never": (
        "X[i, i] += 1; Y[i, j] += X[i, j] * (i < j)",
        "Y[i, j] += X[i, j] * (i < j) never applies: no positions fit into all of its items, weights and comparisons",
    ),
    "contradiction": ("X[i, j] += a[i] * (i < j) * (j < i)", "never applies"),
    "any width": (
        "X[i, j] += a[i]",
        "X[i, j] += a[i]: nothing says that i <= j in X[i, j]; multiply by (i <= j)",
    ),
    "empty span": ("X[i, i - 1] += 1", "X[i, i - 1] += 1: nothing says that i <= i - 1 in X[i, i - 1]"),
    "shrinking": ("X[i, i] += 1; X[i, j] += X[i, j + 1]", "nothing says that i <= j in X[i, j]"),
    "itself": ("X[i, j] += a[i] * (i <= j); X[i, j] += X[i, j] * a[j]", "X at a cell needs itself at the same cell"),
    "itself by another": (
        "X[i, i] += 1; X[i, j] += Y[i, j] * a[j]; Y[i, j] += X[i, j]",
        "X at a cell needs itself at the same cell, by way of Y",
    ),
    "itself beside an empty one": (
        "X[i, i] += 1; X[i, j] += X[i, k] * X[k, j]",
        "X at a cell needs itself at the same cell",
    ),
    "outside": (
        "X[i, j] += a[i] * (i <= j); X[i, j] += X[i, k] * (j < k) * (i <= j)",
        "X[i, j] += X[i, k] * (j < k) * (i <= j) reads X[i, k], which need not lie within X[i, j], "
        "so there is no order of filling",
    ),
    "goal within": ("Z[()] += a[1]; X[i, i] += Z[()]", "X[i, i] += Z[()] reads Z[()], which"),
    "later point": (
        "F[n, x] += 1; F[i, x] += F[i + 1, x]",
        "F[i, x] += F[i + 1, x] reads F[i + 1, x], which",
    ),
    "two lists of unary rules": (
        "F[i, x] += 1; F[i, A[u]] += F[i, B[u]]; F[i, C[u]] += F[i, D[u]]",
        "F[j, A[u]] and F[j, C[u]] both read F at their own cell: make one list of the two",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_in_a_sentence(name: str) -> None:
    rules, message = MISTAKES[name]
    with pytest.raises(InvalidRecursion) as error:
        page(rules)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_first_positions_are_0_and_1() -> None:
    with pytest.raises(
        InvalidRecursion, match="the first position of example is 1, of words, or 0, of fence posts, not 2"
    ):
        page("X[i, i] += 1", first=2)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("X[other_i, other_i] += 1", "X[q, q] += 1: q is not declared as position of example"),
        ("X[i, i] += c[other_x]", "X[i, i] += c[z]: z is not declared as symbol of example"),
        ("X[i, i] += c[other_A[u]]", "X[i, i] += c[E[u]]: E is not declared as column of example"),
        ("X[i, i] += c[other_w[i]]", "X[i, i] += c[v[i]]: v is not declared as words of example"),
        ("X[i, i] += other_a[i]", "X[i, i] += a[i]: a belongs to another recursion than example"),
    ],
)
def test_what_belongs_to_another_recursion_is_refused(rule: str, message: str) -> None:
    foreign = Recursion("foreign")
    names = dict(
        other_i=foreign.positions("q"),
        other_x=foreign.symbols("z", 3),
        other_A=foreign.columns("E", "U"),
        other_w=foreign.words("v"),
        other_a=foreign.weights("a"),
    )

    def example(p: Any) -> None:
        exec(f"{DECLARED}\n{rule}\nZ[()] += a[1]", {"p": p, **names})

    with pytest.raises(InvalidRecursion, match=re.escape(message)):
        recursion(example)()


def test_sums_and_products_in_any_order() -> None:
    """Macros: Python's sum, 1 + x, products of sums, and sums on the left."""
    made = page("X[i, i] += (1 + a[i]) * sum(b[i, v] for v in range(2)); Z[()] += 0 + X[1, 1] * (a[1] + 1)")
    assert str(made).splitlines() == [
        "X[i, i] += b[i, 0]",
        "X[i, i] += b[i, 1]",
        "X[i, i] += a[i] * b[i, 0]",
        "X[i, i] += a[i] * b[i, 1]",
        "Z[()] += X[1, 1] * a[1]",
        "Z[()] += X[1, 1]",
    ]


def test_comparisons_as_printed() -> None:
    made = page("X[i, j] += a[i] * (i + 1 <= j) * (k > i) * (j >= k) * (2 <= n) * (k < n)")
    assert str(made).splitlines()[0] == "X[i, j] += a[i] * (i < j) * (i < k) * (k <= j) * (1 < n) * (k < n)"


def test_a_comparison_as_an_index_is_two_rules() -> None:
    made = page("X[i, j] += b[i, i < j] * (i <= j)")
    assert str(made).splitlines()[:2] == [
        "X[i, j] += b[i, 1] * (i <= j) * (i < j)",
        "X[i, j] += b[i, 0] * (i <= j) * (j <= i)",
    ]


def test_a_comparison_as_an_index_of_a_head() -> None:
    made = recursion(_with_cases)()
    assert str(made).splitlines()[:2] == [
        "X[i, j, 1] += a[i] * (i <= j) * (i < j)",
        "X[i, j, 0] += a[i] * (i <= j) * (j <= i)",
    ]


def _with_cases(p: Any) -> None:
    i, j = p.positions("i j")
    X, Z = p.items("X", 2), p.items("Z")
    a = p.weights("a")
    X[i, j, i < j] += a[i] * (i <= j)
    Z[()] += X[1, p.n, 1]


def test_the_page_of_trees_prints_as_it_is_written() -> None:
    assert str(projective()) == (
        "RC[i, i] += 1\n"
        "LC[i, i] += 1\n"
        "IR[i, j] += arc[i, j] * RC[i, k] * LC[k + 1, j]\n"
        "IL[i, j] += arc[j, i] * RC[i, k] * LC[k + 1, j]\n"
        "RC[i, j] += IR[i, k] * RC[k, j]\n"
        "LC[i, j] += LC[i, k] * IL[k, j]\n"
        "Z[()] += arc[0, r] * LC[1, r] * RC[r, n]"
    )


def test_cells_of_trees() -> None:
    """Domains, ranges and order, as one derives them by hand."""
    narrow, wide, goal = lower(projective()).classes
    assert str(narrow).splitlines() == ["spans of width 0", "    RC[i, j] += 1", "    LC[i, j] += 1"]
    title, *lines = str(wide).splitlines()
    assert title == "spans of width 1 and more"
    right = [
        "    IR[i, j] += arc[i, j] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])",
        "    RC[i, j] += sum(k = i + 1 .. j: IR[i, k] * RC[k, j])",
    ]
    left = [
        "    IL[i, j] += arc[j, i] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])",
        "    LC[i, j] += sum(k = i .. j - 1: LC[i, k] * IL[k, j])",
    ]
    assert [x for x in lines if x in right] == right
    assert [x for x in lines if x in left] == left
    assert len(lines) == 4
    assert str(goal).splitlines()[1] == "    Z[()] += sum(r = 1 .. n: arc[0, r] * LC[1, r] * RC[r, n])"


@pytest.mark.parametrize("case", PAGES, ids=str)
def test_formulas_are_balanced(case: Page) -> None:
    text = case.make()._repr_latex_()
    assert text is not None
    depth = 0
    for sign in re.sub(r"\\[{}]", "", text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    assert text.count(r"\begin{align*}") == text.count(r"\end{align*}") == 1
    heads = {rule.head for rule in case.make().rules}
    assert text.count("&=") == len(heads)


def test_formulas_have_sums_with_their_ranges() -> None:
    text = projective()._repr_latex_() or ""
    assert (
        r"\mathrm{IR}_{i, j} &= \sum_{k=i}^{j-1} \mathrm{arc}_{i, j} \, \mathrm{RC}_{i, k} \, \mathrm{LC}_{k+1, j}"
        in text
    )
    assert r"Z &= \sum_{r=1}^{n} \mathrm{arc}_{0, r}" in text
    assert r"\sum_{y}" in (hmm()._repr_latex_() or "")
    assert r"\mathrm{left}_{q}" in (pcfg_rules()._repr_latex_() or "")
    assert "[i < j]" in (dmv()._repr_latex_() or "")


def test_keys_are_equal_for_equal_recursions() -> None:
    assert projective().key() == projective().key()
    assert dmv_words(V=2).key() != dmv_words(V=3).key()
    assert page("X[i, i] += 1").key() != page("X[i, i] += 1", first=0).key()
    assert page("X[i, i] += a[i] * (i < j)").key() != page("X[i, i] += a[i] * (i <= j)").key()

    def sized(S: int) -> Recursion:
        def one(p: Any) -> None:
            t, x = p.positions("t"), p.symbols("x", S)
            X, Z, a = p.items("X", S), p.items("Z"), p.weights("a", S)
            X[t, x] += a[x]
            Z[()] += X[1, x]

        return recursion(one)()

    assert sized(2).key() != sized(3).key()


def test_arguments_of_a_page() -> None:
    """A decorated page keeps its name and its documentation, and takes its own arguments."""
    assert dmv_words.__name__ == "dmv_words"
    assert "V valences" in (dmv_words.__doc__ or "")
    assert len(dmv_words(V=3).rules) > len(dmv_words().rules)
    assert [made.first for made in (pcfg_rules(), projective())] == [0, 1]
