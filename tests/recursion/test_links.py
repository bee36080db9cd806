# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Positions that are data: random recursions over random links, against the interpreter and between engines."""

import math
import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pyrogram.recursion import Grounded, Inputs, InvalidRecursion, Program, Reals, Recursion, TorchEngine, recursion
from pyrogram.recursion.rules.interpreter import Best, Derivations
from pyrogram.recursion.rules.lowering import lower
from pyrogram.recursion.rules.traces import Traces

S, R, V = 3, 4, 2
SIZES = {"S": S, "R": R}
LISTS = {"A": [0, 2], "B": [1, 0]}
TREES = [
    "F[v, x] += tri[w[v], x, y, z] * F[l[v], y] * F[m[v], z]",
    "F[v, x] += bi[u[v], x, y] * F[o[v], y]",
    "F[v, x] += leaf[w[v], x]",
    "Z[()] += start[x] * F[p.n, x]",
]
# As they are on the page, and then what mixes links with all else.
POOL = [
    *TREES[:3],
    "F[v, x] += F[l[v], x] * F[m[v], x] * one[v]",
    "F[v, x] += bi[w[v], x, y] * F[l[v], y] * P[m[v]]",
    "F[v, A[q]] += pair[q] * F[o[v], B[q]]",
    "F[v, 1] += bi[u[v], y, y] * F[l[v], y]",
    "F[v, x] += bi[0, x, y] * F[l[v], y] * F[l[v], 0]",
    "F[v, w[v]] += F[m[v], 2] * two[u[v], v]",
    "P[v] += P[l[v]] * P[m[v]]",
    "P[v] += uni[0, w[v]] * (v <= 3)",
    "F[v, x] += uni[x, w[v]]",
    "P[v] += one[v] * F[o[v], x]",
    "P[v] += P[v - 1] * F[l[v], 0]",
    "F[v, x] += bi[w[v], x, y] * F[v - 1, y]",
]
WEIGHTS: dict[str, Any] = {
    "tri": (R, S, S, S),
    "bi": (R, S, S),
    "uni": (S, R),
    "leaf": (R, S),
    "start": (S,),
    "pair": (2,),
    "one": (None,),
    "two": (None, R),
}


def page_of(rules: tuple[str, ...]) -> Recursion:
    @recursion
    def linked(p: Any) -> None:
        names = {"p": p, "v": p.positions("v"), "w": p.words("w"), "u": p.words("u"), "q": p.symbols("q", 2)}
        names |= dict(zip("xyz", p.symbols("x y z", "S"), strict=True))
        names |= dict(zip("lmo", p.links("l m o"), strict=True))
        names |= dict(zip("AB", p.columns("A B", 2), strict=True))
        names |= {"F": p.items("F", "S"), "P": p.items("P"), "Z": p.items("Z")}
        for name, shape in (("tri", "RSSS"), ("bi", "RSS"), ("uni", "SR"), ("leaf", "RS"), ("start", "S"), ("one", "")):
            names[name] = p.weights(name, *shape)
        names["two"], names["pair"] = p.weights("two", "R"), p.weights("pair", 2)
        exec("\n".join(rules).replace("two[u[v], v]", "two[v, u[v]]"), names)

    return linked()


def random_page(seed: int) -> Recursion:
    choose = random.Random(seed)
    rules = tuple(POOL[2:3] + choose.sample(POOL[:2] + POOL[3:], choose.randint(2, 5)))
    try:
        return page_of((*rules, TREES[3]))
    except InvalidRecursion:  # a P that nothing proves
        return page_of((*rules, POOL[10], TREES[3]))


def random_inputs(page: Recursion, seed: int, spread: float = 1.0, trees: bool = False) -> Inputs:
    """Sentences of 1 to 7 positions, whose links lead anywhere before, or to no tree but each position once."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, 9)
    N, n = len(lengths), int(lengths.max())
    words = {name: rng.integers(0, S, (N, n)) for name in "wu"}
    for name in "lmo":
        words[name] = np.array([[rng.integers(-1, v) or -1 for v in range(1, n + 1)] for _ in range(N)])
    if trees:
        words |= {name: np.full((N, n), -1) for name in "lmo"}
        for b, length in enumerate(lengths):
            roots: list[int] = []
            for v in range(1, length + 1):
                if len(roots) > 1 and rng.random() < 0.6:
                    words["m"][b, v - 1], words["l"][b, v - 1] = roots.pop(), roots.pop()
                roots.append(v)
    weights = {}
    for table in Program(page).tables:
        shape = tuple(n + 1 if x is None else x for x in WEIGHTS[table.name])
        weights[table.name] = spread * rng.standard_normal((1, *shape))
        weights[table.name][rng.random((1, *shape)) < 0.1] = -np.inf
    words = {name: rows for name, rows in words.items() if re.search(rf"\b{name}\[", str(page))}
    lists = {name: np.array(column) for name, column in LISTS.items()}
    used = {x for x in ("A", "B") if f"{x}[" in str(page)}
    return Inputs(lengths, weights, words, SIZES, {name: lists[name] for name in used})


def grounded(page: Recursion, inputs: Inputs, b: int) -> Grounded:
    words = {name: rows[b].tolist() for name, rows in inputs.words.items()}
    return Grounded(page, int(inputs.lengths[b]), sizes=inputs.sizes, lists=inputs.lists, words=words)


def logarithm(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def check(page: Recursion, inputs: Inputs) -> int:
    program = Program(page)
    numbers = {name: np.exp(table[0]) for name, table in inputs.weights.items()}
    log_z, counts = program.log_counts(inputs)
    each = program.log_counts(inputs, by_sentence=True)[1]
    trace, first = {}, 0
    for table in program.tables:
        shape = inputs.weights[table.name].shape[1:]
        trace[table.name] = (first, *(np.empty(shape, np.int8).strides))
        first += math.prod(shape)
    width = 400
    scores, rows = program.best(inputs, 3, trace, width)
    best, row = program.best(inputs, 1, trace, width)
    flat = np.concatenate([inputs.weights[table.name].reshape(-1) for table in program.tables])
    drawn_z, draws = program.draw(inputs, 5, 0, trace, width)
    np.testing.assert_allclose(drawn_z, log_z, rtol=1e-12)
    for b in range(len(inputs.lengths)):
        sentence = grounded(page, inputs, b)
        np.testing.assert_allclose(log_z[b], logarithm(sentence.goal(Reals(), numbers)), rtol=1e-11, atol=1e-11)
        three = [logarithm(product) for product, _ in sentence.goal(Derivations(3), numbers)]
        np.testing.assert_allclose(scores[:, b], ([x for x in three if x > -np.inf] + [-np.inf] * 3)[:3], atol=1e-9)
        np.testing.assert_allclose(best[0, b], logarithm(sentence.goal(Best(), numbers)), atol=1e-9)
        for found, score in ((row[0, b], best[0, b]), *zip(rows[:, b], scores[:, b], strict=True)):
            if score > -np.inf:
                np.testing.assert_allclose(flat[found[found >= 0]].sum(), score, atol=1e-9)
        if log_z[b] > -np.inf:
            assert (flat[draws[:, b][draws[:, b] >= 0]] > -np.inf).all()
    tensors = {name: torch.from_numpy(table).requires_grad_() for name, table in inputs.weights.items()}
    words = {name: torch.from_numpy(rows) for name, rows in inputs.words.items()}
    lists = {name: torch.from_numpy(column) for name, column in inputs.lists.items()}
    engine, lengths = TorchEngine(page), torch.from_numpy(inputs.lengths)
    z, expected = engine.marginals(tensors, lengths, words, inputs.sizes, lists)
    np.testing.assert_allclose(z.detach().numpy(), log_z, rtol=1e-11, atol=1e-11)
    directions = {name: np.random.default_rng(0).uniform(-1, 1, w.shape) for name, w in inputs.weights.items()}
    along = torch.stack([(x * torch.from_numpy(directions[name])).sum() for name, x in expected.items()]).sum()
    second = torch.autograd.grad(along, list(tensors.values()), allow_unused=True, materialize_grads=True)
    tangents = program.tangents(inputs, directions)[1]
    for name, hessian in zip(tensors, second, strict=True):
        np.testing.assert_allclose(counts[name], expected[name].detach().numpy(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(each[name].sum(0), counts[name][0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(tangents[name], hessian.numpy(), rtol=1e-8, atol=1e-8)
    own = {name: np.repeat(table, len(log_z), 0) for name, table in inputs.weights.items()}
    of_own = program.log_counts(replace(inputs, weights=own))
    np.testing.assert_allclose(of_own[0], log_z, rtol=1e-11, atol=1e-11)
    for name, table in of_own[1].items():
        np.testing.assert_allclose(table.sum(0), counts[name][0], rtol=1e-9, atol=1e-9)
    return int((log_z > -np.inf).sum())


@pytest.mark.parametrize("seed", [0, 1, pytest.param(range(2, 40), marks=pytest.mark.slow)], ids=str)
def test_random_recursions(seed: int | range) -> None:
    for s in [seed] if isinstance(seed, int) else seed:
        page = random_page(s)
        assert check(page, random_inputs(page, s)) > 0


@pytest.mark.parametrize("spread", [1.0, 40.0, 300.0])
def test_trees(spread: float) -> None:
    """Also of weights of which no product is a float."""
    page = page_of(tuple(TREES))
    inputs = random_inputs(page, 5, spread, trees=True)
    if spread < 100.0:
        assert check(page, inputs) > 5
        return
    program = Program(page)
    log_z, counts = program.log_counts(inputs)
    tensors = {name: torch.from_numpy(table) for name, table in inputs.weights.items()}
    words = {name: torch.from_numpy(rows) for name, rows in inputs.words.items()}
    z, expected = TorchEngine(page).marginals(tensors, torch.from_numpy(inputs.lengths), words, SIZES, {})
    np.testing.assert_allclose(log_z, z.numpy(), rtol=1e-11)
    for name, table in counts.items():
        np.testing.assert_allclose(table, expected[name].numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 5, 8, 9, 17])
def test_numbers_of_symbols(size: int) -> None:
    """Vectors that are whole and that are not; weights read in place are those of each sentence's own table."""
    page = page_of(tuple(TREES))
    inputs = random_inputs(page, 6, trees=True)
    rng = np.random.default_rng(size)
    shapes = {"tri": (R, *(size,) * 3), "bi": (R, size, size), "leaf": (R, size), "start": (size,)}
    weights = {name: rng.standard_normal((1, *shape)) for name, shape in shapes.items()}
    inputs = replace(inputs, weights=weights, sizes={"S": size, "R": R})
    own = {name: np.repeat(table, len(inputs.lengths), 0) for name, table in weights.items()}
    (log_z, counts), (expected, each) = (Program(page).log_counts(x) for x in (inputs, replace(inputs, weights=own)))
    np.testing.assert_allclose(log_z, expected, rtol=1e-12)
    for name, table in counts.items():
        np.testing.assert_allclose(table[0], each[name].sum(0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("weight", [-1.0, -60.0, 60.0, -700.0])
@pytest.mark.parametrize("shape", ["chain", "comb"])
def test_a_long_tree(weight: float, shape: str) -> None:
    """Of 2,000 positions, each with a weight of e to some power."""
    n = 2000
    page = page_of(tuple(TREES))
    v = np.arange(1, n + 1)
    words = {name: np.zeros((1, n), np.int64) for name in "wu"} | {name: np.full((1, n), -1) for name in "lmo"}
    if shape == "chain":
        words["o"][0, 1:], words["w"][0, 1:] = v[:-1], 3  # word 3 has no axiom
    else:
        words["l"][0, 2::2], words["m"][0, 2::2], words["w"][0, 2::2] = v[:-1:2][:999], v[1::2][:999], 3
        n = 1999
    weights = {name: np.full((1, *WEIGHTS[name]), weight) for name in ("tri", "bi", "leaf", "start")}
    weights["leaf"][:, 3] = -np.inf
    inputs = Inputs(np.array([n]), weights, words, SIZES, {})
    log_z, counts = Program(page).log_counts(inputs)
    inner = n - 1 if shape == "chain" else n // 2
    np.testing.assert_allclose(log_z[0], (n + 1) * weight + n * math.log(S), rtol=1e-11)
    np.testing.assert_allclose(counts["bi" if shape == "chain" else "tri"].sum(), inner, rtol=1e-10)
    np.testing.assert_allclose(counts["leaf"].sum(), n - inner, rtol=1e-10)


def test_rows_are_read_again() -> None:
    page = page_of(tuple(TREES))
    inputs = random_inputs(page, 7, trees=True)
    trace = {"tri": (0, 27, 9, 3, 1), "bi": (108, 9, 3, 1), "leaf": (144, S, 1), "start": (156, 1)}
    firsts = [(name, start, WEIGHTS[name]) for name, (start, *_) in trace.items()]

    def number(table: str, index: tuple[int, ...]) -> int:
        return int(trace[table][0] + np.ravel_multi_index(index, WEIGHTS[table]))

    def element(place: int) -> tuple[str, tuple[int, ...]]:
        name, start, shape = next(x for x in reversed(firsts) if x[1] <= place)
        return name, tuple(int(x) for x in np.unravel_index(place - start, shape))

    _, rows = Program(page).draw(inputs, 3, 0, trace, 50)
    for b, n in enumerate(inputs.lengths):
        words = {name: table[b].tolist() for name, table in inputs.words.items()}
        traces = Traces(lower(page), words, int(n), SIZES, {}, number, element)
        ones = {name: np.ones(shape) for name, shape in WEIGHTS.items() if name in trace}
        if S**n < 1000:
            assert len(traces.rows()) == round(grounded(page, inputs, b).goal(Reals(), ones))
        assert all(traces.ways(row[row >= 0].tolist()) == 1 for row in rows[:, b])


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (["F[l[v], x] += leaf[w[v], x]"], "a link is the position of an item on the right"),
        (["F[v, x] += one[l[v]] * F[l[v], x]"], "a link is the position of an item on the right"),
        (["F[v, x] += F[l[v] + 1, x]"], "a link is the position of an item on the right"),
        (["F[v, x] += leaf[w[l[v]], x]"], "the index of a word is a position|a link is the position of an item"),
        (["F[v + 1, x] += F[l[v], x]"], "is not the position of"),
        (["F[p.n, x] += F[l[v], x]"], "is not the position of"),
        (["F[v, x] += F[l[v + 1], x]"], "the index of a link is a variable"),
        (["F[v, x] += F[l[1], x]"], "the index of a link is a variable"),
        (["F[v, x] += F[l[m[v]], x]"], "the index of a link is a variable"),
        (["Z[()] += F[l[v], 0]"], "is not the position of"),
    ],
)
def test_links_elsewhere(rules: list[str], message: str) -> None:
    with pytest.raises(InvalidRecursion, match=message):
        page_of((*rules, TREES[2], TREES[3]))


@pytest.mark.parametrize("links", [[-1, 2, 1], [-1, 3, 1], [1, 1, 1]])
def test_links_that_do_not_lead_to_a_position_before_their_own(links: list[int]) -> None:
    page = page_of(tuple(TREES))
    inputs = random_inputs(page, 8, trees=True)
    inputs.words["l"][0], inputs.lengths[0] = -1, 3
    inputs.words["l"][0, :3] = links
    with pytest.raises(InvalidRecursion, match="a link leads to a position before its own"):
        Program(page).log_counts(inputs)
    with pytest.raises(InvalidRecursion, match="a link leads to a position before its own"):
        grounded(page, inputs, 0)
    with pytest.raises(InvalidRecursion, match="links l are missing"):
        Program(page).log_counts(replace(inputs, words={k: x for k, x in inputs.words.items() if k != "l"}))


def test_sentences_of_a_grammar_have_no_links() -> None:
    from pyrogram.grammars import Block, RecursiveGrammar

    shapes = {name: Block(torch.Size(WEIGHTS[name])) for name in ("tri", "bi", "leaf", "start")}
    with pytest.raises(TypeError, match="linked has links, l, m, o, and sentences of a grammar are words alone"):
        RecursiveGrammar(shapes, page_of(tuple(TREES)), R)
