# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Small random recursions that are well formed, for the comparison of a back-end with the interpreter.

A page is drawn as text, rule by rule; a rule stays if the recursion is still valid with it. So whatever the checks let
pass is tried, and not only the kinds of rules that papers have.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pages import Page

from pyrogram.recursion import InvalidRecursion, Recursion, recursion

SIZES = dict(S=3, U=3, Q=2)
# above and below: unary rules in topological order, children first
LISTS = dict(above=[1, 2, 2], below=[0, 0, 1], parent=[2, 0], left=[1, 1], right=[0, 2])

DECLARATIONS = """
i, j, k, m = p.positions("i j k m")
x, y, z = p.symbols("x y z", "S")
u, q = p.symbols("u", "U"), p.symbols("q", "Q")
above, below = p.columns("above below", "U")
parent, left, right = p.columns("parent left right", "Q")
w = p.words("w")
n = p.n
Z = p.items("Z")
A, B, P, D = p.items("A B P D")
X, Y, F, E = p.items("X Y F E", "S")
one, two = p.weights("one two")
a, b = p.weights("a b", "S")
c = p.weights("c", 2)
f = p.weights("f", "S", "S")
g, h = p.weights("g", "U"), p.weights("h", "Q")
""".strip().splitlines()

SPANS, POINTS, OTHERS = ("A", "B", "X", "Y"), ("P", "F"), ("D", "E")
WITH_SYMBOL = "XYFE"
SPAN_HEADS = ["i, j"] * 8 + ["i, i", "i, i + 1", "j - 1, j", "1, j", "i, n", "i - 1, j", "i, i + 2", "2, 2"]
POINT_HEADS = ["j"] * 6 + ["1", "n", "j + 1", "2"]
# @ is an item over a span, $ one over a point, and % one without positions
SPAN_BODIES = ["@[i, k] * @[k + 1, j]", "@[i, k] * @[k, j]"] * 3 + [
    "@[i, j]",
    "@[i + 1, j]",
    "@[i, j - 1]",
    "@[i + 1, j - 1]",
    "@[i, k] * @[k + 1, m] * @[m, j]",
    "@[i, k] * (k < j)",
    "@[k, j] * (i < k)",
    "@[k, m] * (i < k) * (m <= j)",
    "@[i, i] * @[i + 1, j]",
    "$[k] * @[i, j - 1] * (k < i)",
    "$[i - 1] * (i < j)",
    "1",
]
POINT_BODIES = ["$[k] * @[k + 1, j]", "$[k] * @[k, j]"] * 2 + [
    "$[j - 1]",
    "$[k] * (k < j)",
    "@[k, j]",
    "@[1, j] * $[j]",
    "$[j]",
    "@[k, m] * (m < j)",
    "1",
]
OTHER_BODIES = ["@[1, n]", "$[n]", "@[1, n]", "$[i]", "@[1, k] * @[k, n]", "@[1, k] * @[k + 1, n]"]
OTHER_BODIES += ["@[i, j]", "@[i, k] * @[k + 1, j]", "%[]", "$[k] * %[]"]


@dataclass
class Writer:
    """Draws one page.

    :param plain: whether items have no symbols, and most rules are of the usual kinds, as those of trees.
    """

    seed: int
    plain: bool = False
    rules: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.most = 6 if self.plain else None  # bodies, of which the first are the usual ones
        self.first = 1 if self.plain else self.random.randrange(2)
        choose = self.random
        spans, points, others = (x[: len(x) // 2] if self.plain else x for x in (SPANS, POINTS, OTHERS))
        self.spans = choose.sample(spans, choose.randint(1, min(3, len(spans))))
        self.points = choose.sample(points, choose.randint(0, len(points)))
        self.others = choose.sample(others, choose.choice([0, 0, 1]))

    def page(self) -> Page:
        for name in (*self.spans, *self.points, *self.others):
            self._try(lambda name=name: self._rule(name, axiom=True), wanted=1)  # type: ignore[misc]
        for name in (*self.spans, *self.points, *self.others, "Z"):
            self._try(lambda name=name: self._rule(name, axiom=False), wanted=self.random.randint(1, 2))  # type: ignore[misc]
        self.random.shuffle(self.rules)
        return Page(f"random_{self.seed}", functools.partial(made_of, tuple(self.rules), self.first), SIZES, LISTS)

    def _try(self, draw: Callable[[], str], wanted: int) -> None:
        for _ in range(20 * wanted):
            rule = draw()
            try:
                made_of((*self.rules, rule, "Z[()] += one[1]"), self.first)
            except InvalidRecursion:
                continue
            self.rules.append(rule)
            wanted -= 1
            if not wanted:
                return

    def _rule(self, name: str, axiom: bool) -> str:
        choose = self.random
        if name in SPANS:
            heads, bodies = SPAN_HEADS[:10] if self.plain else SPAN_HEADS, SPAN_BODIES
        elif name in POINTS:
            heads, bodies = POINT_HEADS[:7] if self.plain else POINT_HEADS, POINT_BODIES
        else:
            heads, bodies = [""], OTHER_BODIES
        head = choose.choice(heads)
        body = "1" if axiom and name not in OTHERS else choose.choice(bodies[: self.most])
        if name in WITH_SYMBOL and name in SPANS and choose.random() < 0.15 and not axiom:
            return f"{name}[{head}, above[u]] += g[u] * {name}[{head}, below[u]]"
        if name in SPANS and (body == "1" or head not in ("i, j", "i - 1, j")):
            body += " * (i <= j)" if "i" in head and "j" in head else ""
        terms = [self._filled(body)]
        terms += [self._weight(f"{head} {body}") for _ in range(choose.choice([0, 1, 1, 2]))]
        if choose.random() < (0.1 if self.plain else 0.25):
            terms.append(self._bracket(f"{head} {body}"))
        return f"{name}[{self._indices(name, head)}] += {' * '.join(terms)}"

    def _indices(self, name: str, positions: str) -> str:
        found = [positions] if positions else []
        if name in WITH_SYMBOL:
            found.append(self._symbol(positions))
        return ", ".join(found) or "()"

    def _symbol(self, text: str) -> str:
        names = [v for v in "ijk" if v in text]
        found = ["x", "x", "y", "y", "z", "0", "2", "parent[q]", "left[q]", "right[q]"]
        return self.random.choice([*found, f"w[{self.random.choice(names)}]"] if names else found)

    def _filled(self, body: str) -> str:
        found = ""
        while body:
            sign, body = body[0], body[1:]
            names = {"@": self.spans, "$": self.points or self.spans, "%": self.others or self.spans}.get(sign)
            if names is None:
                found += sign
                continue
            name = self.random.choice(names)
            end = body.index("]")
            found += f"{name}[{self._indices(name, body[1:end])}]"
            body = body[end + 1 :]
        return found

    def _weight(self, text: str) -> str:
        choose = self.random
        names = [v for v in "ijkm" if f"{v}" in text] or ["1"]
        at, other = choose.choice([*names, names[0], "1"]), choose.choice(names)
        offset = "" if self.plain else choose.choice(["", "", "", " - 1", " + 1"])
        plain = [
            f"one[{at}{offset}]",
            f"two[{at}, {other}]",
            f"c[{at}, {at} < {other}]" if at != other else f"c[{at}, 1]",
            f"b[{at}, w[{at}]]",
        ]
        if self.plain:
            return choose.choice(plain)
        symbol = self._symbol(text)
        return choose.choice(
            [
                *plain,
                f"a[{symbol}]",
                f"b[{at}, {symbol}]",
                f"f[{symbol}, {self._symbol(text)}]",
                "h[q]",
            ]
        )

    def _bracket(self, text: str) -> str:
        names = [v for v in "ijkm" if v in text] + ["n", "2"]
        a, b = self.random.sample(names, 2)
        if "n" not in (a, b) and a.isdigit() and b.isdigit():
            return "1"
        return f"({a} {self.random.choice(['<', '<=', '+ 1 <'])} {b})"


def made_of(rules: tuple[str, ...], first: int) -> Recursion:
    """The recursion with these rules."""
    code = "\n".join([*DECLARATIONS, *rules])

    def random_page(p: Any) -> None:
        exec(code, {"p": p})

    return recursion(random_page)(first=first)


def random_recursions(seeds: Iterable[int], plain: bool = False) -> Iterator[Page]:
    """One page for each seed for which one is found: a goal with a proof is what may lack.

    :param plain: only pages whose items have no symbols.
    """
    for seed in seeds:
        page = Writer(seed, plain).page()
        try:
            page.make()
        except InvalidRecursion:
            continue
        yield page
