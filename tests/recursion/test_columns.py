# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Long sentences of whatever rules bring words: chains without symbols, spans, both."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from enumeration import Trace, only, random_sentences, summed
from pages import Page
from reference import in_logarithms

from pyrogram.recursion import InvalidRecursion, recursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.emit.powers import rules_of_words
from pyrogram.recursion.run.engine import LanesEngine
from pyrogram.recursion.run.program import Program

# Rules that advance by a column, rules that stay in it, and what the advance is made of: names of points are in order,
# and a rule that stays reads an earlier one.
ADVANCING = ["{X}[j - 1] * a[j]", "{X}[j - 1] * b[j - 1, j] * e[0]", "{X}[j - 1] * c[w[j]]", "{X}[j - 1] * S[j - 1, j]",
             "{X}[j - 2] * T[j - 2, j]", "{X}[j - 1]"]  # fmt: skip
SPANNING = ["{X}[k] * U[k, j] * (k < j)", "{X}[k] * U[k, j] * b[k, j] * (k < j)"]
STAYING = ["{X}[j] * a[j]", "{X}[j] * e[0]"]
SPANS = ["U[i, j] += U[i, j - 1] * a[j] * (i + 1 < j)", "U[i, j] += d[i, j] * U[i, k] * U[k, j]",
         "U[i, j] += d[i, j] * S[i, i + 1] * U[i + 1, j]", "U[i, j] += e[0] * U[i, j - 1] * S[j - 1, j]",
         "U[i, j] += d[i, j] * U[i, k] * U[k, j - 1]"]  # fmt: skip


def random_page(seed: int) -> Page | None:
    """A chain of some items over points, perhaps with spans; None if it is not for lanes, or no rule brings a word."""
    draw = random.Random(seed)
    names, spans = "ABC"[: draw.randint(1, 3)], draw.random() < 0.4
    rules = ["S[j - 1, j] += g[j]", "T[j - 2, j] += S[j - 2, j - 1] * S[j - 1, j]"]
    if spans:
        rules += ["U[j - 1, j] += S[j - 1, j]", *draw.sample(SPANS, draw.randint(1, 2))]
    for x, name in enumerate(names):
        rules.append(f"{name}[0] += {draw.choice(['1', 'e[0]'])}")
        bodies = draw.sample(ADVANCING, draw.randint(1, 3)) + (draw.sample(SPANNING, 1) if spans else [])
        bodies += draw.sample(STAYING, draw.randint(0, 1)) if x else []
        for body in bodies:
            earlier = names[:x] if "[j] " in body else names
            rules.append(f"{name}[j] += {body.format(X=draw.choice(earlier))}")
    rules.append(f"Z[()] += {names[-1]}[p.n] * e[0]")
    code = "\n".join(rules)

    def page(p: Any) -> None:
        i, j, k = p.positions("i j k")
        w = p.words("w")
        own = dict(zip("STUABCZ", p.items("S T U A B C Z"), strict=True))
        own |= dict(zip("abdg", p.weights("a b d g"), strict=True))
        own |= {"c": p.weights("c", "W"), "e": p.weights("e", 1)}
        exec(code, {"p": p, "i": i, "j": j, "k": k, "w": w, **own})

    try:
        made = recursion(page)(first=0)
    except InvalidRecursion:
        return None
    if rules_of_words(LanesEngine(made).cells) is None:
        return None
    return Page(f"page_{seed}", lambda: made, {"W": 3})


def pages(seeds: range) -> list[Page]:
    return [page for page in map(random_page, seeds) if page is not None]


def compare(found: Any, log_z: Any, counts: dict[str, Any], name: str, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(found[0], log_z, rtol=tolerance, atol=tolerance, err_msg=name)
    for table, expected in counts.items():
        np.testing.assert_allclose(found[1][table], expected, rtol=tolerance, atol=20 * tolerance, err_msg=name)


def check_all_derivations(page: Page) -> None:
    """Against the interpreter."""
    made = page.make()
    given = random_sentences(page, made, [14, 1, 3, 13], np.random.default_rng(0))
    log_z, counts, _ = summed(page, made, given)
    found = LanesEngine(made).log_counts(given, np.array([0, 3, 2, 1]))
    compare(found, log_z, counts, str(made))


def check_long_sentences(page: Page) -> None:
    """Against logarithms, with counts and without."""
    made, rng = page.make(), np.random.default_rng(0)
    for rare in (1.0, 8.0):
        given = random_sentences(page, made, [150, 149, 40], rng, spread=2.0)
        for table in given.weights.values():
            table -= rare + table.max()
        log_z, counts = in_logarithms(made, given)
        compare(LanesEngine(made).log_counts(given, np.arange(3)), log_z, counts, str(made), 1e-9)
        alone = Program(made).log_counts(given, counts=False)
        np.testing.assert_allclose(alone[0], log_z, rtol=1e-11, err_msg=str(made))


def check_draws(page: Page) -> None:
    """How often draws have each weight, against expected counts."""
    made, number = page.make(), 1000
    given = random_sentences(page, made, [15], np.random.default_rng(0))
    counts, trace = in_logarithms(made, given)[1], Trace(given)
    _, rows = LanesEngine(made).draw(given, np.arange(1), (number, 300), 0, trace.numbers())
    sizes = sum(table.size for table in given.weights.values())
    drawn = np.bincount(rows[rows >= 0], minlength=sizes) / number
    expected = np.concatenate([counts[name].reshape(-1) for name in given.weights])
    once = np.where(expected > 0, 1 / number, 0.0)  # what is rarer than that may be drawn, too
    assert (np.abs(drawn - expected) <= 6 * np.sqrt(15 * expected / number) + once + 1e-9).all(), str(made)


@recursion
def chain(p: Any) -> None:
    """A hidden Markov chain of two states, written out."""
    t, w = p.positions("t"), p.words("w")
    F, Z = p.items("F", 2), p.items("Z")
    initial, final = p.weights("initial final", 2)
    transition, emission = p.weights("transition", 2, 2), p.weights("emission", 2, "W")
    for z in range(2):
        F[1, z] += initial[z] * emission[z, w[1]]
        for y in range(2):
            F[t, z] += F[t - 1, y] * transition[y, z] * emission[z, w[t]]
        Z[()] += F[p.n, z] * final[z]


def test_long_chains_of_constant_symbols() -> None:
    """Of 2,000 words, whose log Z is far below the least number; also without counts."""
    made = chain()
    given = random_sentences(Page("chain", chain, {"W": 3}), made, [2000, 300, 12], np.random.default_rng(0))
    for table in given.weights.values():
        table -= np.log(np.exp(table).sum(-1, keepdims=True))
    given.weights["emission"] -= 9.0
    log_z, counts = in_logarithms(made, given)
    assert log_z[0] < -18_000
    found = LanesEngine(made).log_counts(given, np.arange(3))
    compare(found, log_z, counts, "chain")
    few = only(given, np.array([1, 2]))
    found = LanesEngine(made).log_counts(few, np.arange(2), counts=False)
    np.testing.assert_allclose(found[0], log_z[1:], rtol=1e-12)


@pytest.mark.parametrize("words, initial, transition, emission, final", [
    ([0] * 11 + [1, 0], [0, None], [[0, -680], [None, 0]], [[0, -500], [0, -430]], [-660, 0]),
    ([1] + [0] * 29, [0, -600], [[-50, None], [None, 0]], [[0, 0], [0, -500]], [0, 0]),
], ids=["a steep column", "many columns"])  # fmt: skip
def test_what_is_flushed_to_zero_and_grows_later(
    words: list[int], initial: list[Any], transition: list[Any], emission: list[Any], final: list[Any]
) -> None:
    """The second state, which all of Z is from: by the factor of its column, or by those that come."""
    made, n = chain(), len(words)
    tables = dict(initial=initial, transition=transition, emission=emission, final=final)
    weights = {name: np.array([table], np.float64) * np.log(2.0) for name, table in tables.items()}
    weights = {name: np.nan_to_num(table, nan=-np.inf, neginf=-np.inf) for name, table in weights.items()}
    given = Inputs(np.array([n]), weights, {"w": np.array([words])}, {"W": 2}, {})
    exact, counts = in_logarithms(made, given)
    program = Program(made)
    np.testing.assert_allclose(program.log_counts(given, counts=False)[0], exact, rtol=1e-12)
    compare(program.log_counts(given), exact, counts, "chain")


def test_random_chains() -> None:
    found = pages(range(2))
    assert len(found) > 1
    for page in found:
        check_all_derivations(page)
        check_draws(page)
        check_long_sentences(page)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_chains(block: int) -> None:
    for page in pages(range(1000 + 40 * block, 1040 + 40 * block)):
        check_all_derivations(page)
        check_draws(page)
        check_long_sentences(page)
