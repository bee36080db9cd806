# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Random recursions: compiled code against the interpreter, which shares none of the analysis of rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from corners import CORNERS
from enumeration import Trace, listed, random_sentences, summed
from pages import Page
from random_recursions import LISTS, SIZES, random_recursions
from reference import in_logarithms

from pyrogram.recursion import InvalidRecursion, Recursion, recursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.engine import LanesEngine, plain_tables
from pyrogram.recursion.run.program import Program

FEW = 300  # derivations, that are listed one by one


def check(page: Page) -> None:
    made = page.make()
    rng = np.random.default_rng(int(page.name.rpartition("_")[2]))
    given = random_sentences(page, made, [3, 1, 2, 4], rng)
    engine = Program(made)
    try:
        log_z, counts, numbers = summed(page, made, given)
        engine.log_counts(given)
    except InvalidRecursion:  # the lists are not in topological order: both say so, or the compiled code alone
        with pytest.raises(InvalidRecursion, match="topological order"):
            engine.log_counts(given)
        return
    found, compiled = engine.log_counts(given)
    np.testing.assert_allclose(found, log_z, rtol=1e-10, atol=1e-10, err_msg=str(made))
    for name, table in counts.items():
        np.testing.assert_allclose(compiled[name], table, rtol=1e-9, atol=1e-9, err_msg=f"{name} in\n{made}")
    if max(numbers) > FEW:
        return
    trace = Trace(given)
    truth = listed(page, made, given)
    scores, best = engine.best(given, 3, trace.numbers(), 200)
    _, draws = engine.draw(given, 300, 0, trace.numbers(), 200)
    for b, one in enumerate(truth):
        ranks = np.argsort(-one.scores, kind="stable")[:3]
        np.testing.assert_allclose(scores[: len(ranks), b], one.scores[ranks], atol=1e-10, err_msg=str(made))
        assert (scores[len(ranks) :, b] == -np.inf).all()
        for rank in range(len(ranks)):
            uses = trace.uses(best[rank, b])
            exact = [one.scores[x] for x in range(len(one.uses)) if tuple(sorted(one.uses[x])) == uses]
            assert np.isclose(exact, scores[rank, b], atol=1e-9).any(), f"{uses} in\n{made}"
        if one.uses:
            drawn = Counter(trace.uses(row) for row in draws[:, b])
            for key, p in one.probabilities().items():
                assert abs(drawn[key] - 300 * p) < 7 * np.sqrt(300 * p * max(1 - p, 0)) + 2, f"{key} in\n{made}"
            assert drawn.keys() <= one.probabilities().keys()


@pytest.mark.one_in(12)
@pytest.mark.parametrize("seed", range(7))
def test_a_random_recursion(seed: int) -> None:
    for page in random_recursions([seed]):
        check(page)


def check_plain(page: Page) -> bool:
    """Whether the page is one for lanes, whose numbers are then compared."""
    made = page.make()
    given = random_sentences(page, made, [5, 4, 3, 2, 1, 4], np.random.default_rng(0))
    log_z, counts, _ = summed(page, made, given)
    order = np.argsort(-given.lengths, kind="stable")
    found, compiled = LanesEngine(made).log_counts(given, order)
    np.testing.assert_allclose(found, log_z, rtol=1e-10, atol=1e-10, err_msg=str(made))
    for name, table in counts.items():
        np.testing.assert_allclose(compiled[name], table, rtol=1e-9, atol=1e-9, err_msg=f"{name} in\n{made}")
    check_whole_rows(page, made)
    return True


def check_whole_rows(page: Page, made: Recursion) -> None:
    """Full blocks of one length, whose posteriors go out by rows; against logarithms, for lists would be too long."""
    given = random_sentences(page, made, [9] * 8, np.random.default_rng(1), shared=False, spread=0.3)
    log_z, counts = in_logarithms(made, given)
    found, compiled = LanesEngine(made).log_counts(given, np.arange(8))
    np.testing.assert_allclose(found, log_z, rtol=1e-10, atol=1e-10, err_msg=str(made))
    for name, table in counts.items():
        np.testing.assert_allclose(compiled[name], table, rtol=1e-9, atol=1e-9, err_msg=f"{name} in\n{made}")


def test_random_recursions_without_symbols() -> None:
    assert sum(check_plain(page) for page in random_recursions([4, 7, 8], plain=True)) > 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("page", CORNERS, ids=lambda page: page.__name__)
def test_corners_without_symbols(page: Callable[[Any], None]) -> None:
    check_plain(Page(page.__name__, recursion(page), SIZES, LISTS))


def of_kinds(made: Recursion, given: Inputs) -> Iterator[tuple[dict[str, bool], Inputs]]:
    """Weights in logarithms; shared ones of symbols alone as numbers; all as numbers, if all are shared."""

    def with_numbers(names: Iterable[str]) -> Inputs:
        return replace(given, weights={**given.weights, **{name: np.exp(given.weights[name]) for name in names}})

    yield {}, given
    plain = plain_tables(made)
    if plain and all(len(given.weights[name]) == 1 for name in plain):
        yield {"shared": True}, with_numbers(plain)
    if all(len(table) == 1 for table in given.weights.values()):
        yield {"logs": False}, with_numbers(given.weights)


def check_symbols(page: Page, *widths: int) -> bool:
    """The same for pages with symbols, of weights by sentence and of weights that all sentences share; alone, too."""
    made = page.make()
    given = random_sentences(page, made, [5, 4, 3, 2, 1, 4, 5, 2, 3, 3], np.random.default_rng(0))
    try:
        log_z, counts, _ = summed(page, made, given)
    except InvalidRecursion:  # the lists are not in topological order
        return False
    order = np.argsort(-given.lengths, kind="stable")
    results = []
    for options, own in of_kinds(made, given):
        try:
            results += [LanesEngine(made, **options, width=width).log_counts(own, order) for width in widths]
        except InvalidRecursion:  # nor are rows that no derivation has
            return False
    for found, compiled in results:
        np.testing.assert_allclose(found, log_z, rtol=1e-10, atol=1e-10, err_msg=str(made))
        for name, table in counts.items():
            np.testing.assert_allclose(compiled[name], table, rtol=1e-9, atol=1e-9, err_msg=f"{name} in\n{made}")
    return True


def check_descents(page: Page) -> bool:
    """The same for best derivations and draws, which are few enough for a list."""
    made = page.make()
    given = random_sentences(page, made, [4, 3, 2, 1, 4, 2, 3, 3, 1, 2], np.random.default_rng(0))
    try:
        numbers = summed(page, made, given)[2]
    except InvalidRecursion:  # the lists are not in topological order
        return False
    if max(numbers) > FEW:
        return False
    order, truth, trace = np.argsort(-given.lengths, kind="stable"), listed(page, made, given), Trace(given)
    for options, own in of_kinds(made, given):
        engine = LanesEngine(made, **options)
        try:
            (scores,), (best,) = engine.best(given, order, 1, trace.numbers(), 200)
        except InvalidRecursion:  # nor are rows that no derivation has
            return False
        log_z, draws = engine.draw(own, order, (FEW, 200), 0, trace.numbers())
        for b, one in enumerate(truth):
            np.testing.assert_allclose(scores[b], np.max(one.scores, initial=-np.inf), atol=1e-10, err_msg=str(made))
            if not one.uses:
                assert log_z[b] == -np.inf
                continue
            uses = trace.uses(best[b])
            exact = [score for used, score in zip(one.uses, one.scores, strict=True) if tuple(sorted(used)) == uses]
            assert np.isclose(exact, scores[b], atol=1e-9).any(), f"{uses} in\n{made}"
            np.testing.assert_allclose(log_z[b], one.log_z, atol=1e-9)
            drawn = Counter(trace.uses(row) for row in draws[:, b])
            for key, p in one.probabilities().items():
                assert abs(drawn[key] - FEW * p) < 7 * np.sqrt(FEW * p * max(1 - p, 0)) + 2, f"{key} in\n{made}"
            assert drawn.keys() <= one.probabilities().keys(), str(made)
    return True


def test_random_recursions_with_symbols() -> None:
    assert sum(check_symbols(page, 8) for page in random_recursions([15, 36])) > 1
    assert sum(check_descents(page) for page in random_recursions(range(5, 7))) > 0


@pytest.mark.one_in(40)
@pytest.mark.parametrize("page", CORNERS, ids=lambda page: page.__name__)
def test_corners_with_symbols(page: Callable[[Any], None]) -> None:
    check_symbols(Page(page.__name__, recursion(page), SIZES, LISTS), 8)
    check_descents(Page(page.__name__, recursion(page), SIZES, LISTS))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_random_recursions_with_symbols(block: int) -> None:
    pages = list(random_recursions(range(1000 + 150 * block, 1150 + 150 * block)))
    found = [check_symbols(page, 8, 1) for page in pages]
    assert sum(found) > 4  # of 150 that fit lanes, and have a derivation for every length
    assert sum(map(check_descents, pages)) > 4


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_random_recursions_without_symbols(block: int) -> None:
    found = [check_plain(page) for page in random_recursions(range(1000 + 90 * block, 1090 + 90 * block), plain=True)]
    assert sum(found) > 20  # of 90 that fit lanes


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_random_recursions(block: int) -> None:
    for page in random_recursions(range(1000 + 55 * block, 1055 + 55 * block)):
        check(page)
