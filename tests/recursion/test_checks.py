# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What compiled code is called with is checked before: words, sizes, lists of rules and their order."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import torch
from enumeration import expected_counts, listed, random_sentences
from fake_device import fake_launcher
from pages import PAGES, RULES, Page, hmm, pcfg_rules, projective
from reference import in_logarithms

from pyrogram.distributions.span_tree import span_trees
from pyrogram.recursion import InvalidRecursion
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.device_engine import DeviceEngine
from pyrogram.recursion.run.engine import LanesEngine
from pyrogram.recursion.run.program import Program
from pyrogram.recursion.run.tensor_inputs import TensorInputs
from pyrogram.recursion.torch.engine import TorchEngine

PAGE = next(page for page in PAGES if page.name == "pcfg_rules")


@pytest.fixture(scope="module")
def engine() -> Program:
    return Program(pcfg_rules())


def changed(**what: Any) -> Inputs:
    given = random_sentences(PAGE, pcfg_rules(), [2, 3], np.random.default_rng(0))
    return dataclasses.replace(given, **what)


def lists(**columns: list[int]) -> dict[str, Any]:
    return dict(lists={name: np.array(column) for name, column in {**RULES, **columns}.items()})


def without(mapping: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: x for key, x in mapping.items() if key != name}


def weights(dtype: Any = np.float64, **shapes: tuple[int, ...]) -> dict[str, Any]:
    given = random_sentences(PAGE, pcfg_rules(), [2, 3], np.random.default_rng(0))
    return dict(weights={**given.weights, **{name: np.zeros(shape, dtype) for name, shape in shapes.items()}})


MISTAKES = {
    "word too large": (
        dict(words={"w": np.array([[0, 1, 0], [2, 1, 3]])}),
        r"words w are not all in 0 \.\. 2, the symbols of lexical\[a, w\[j\]\]",
    ),
    "negative word": (dict(words={"w": np.array([[0, -1, 0], [2, 1, 1]])}), r"words w are not all in 0 \.\. 2"),
    "no words": (dict(words={}), "words w are missing"),
    "too few words": (
        dict(words={"w": np.zeros((2, 2), int)}),
        r"words w have shape \(2, 2\), and the batch has size 2",
    ),
    "words of other sentences": (dict(words={"w": np.zeros((3, 3), int)}), r"have shape \(3, 3\)"),
    "no size": (dict(sizes=without(PAGE.sizes, "S")), "size S is missing, or not positive: None"),
    "no column": (dict(lists=without(lists()["lists"], "left")), "column left of a list of rules is missing"),
    "short column": (lists(left=[0, 1]), "column left has length 2, and its list 3"),
    "no such symbol": (lists(parent=[0, 1, 3]), r"column parent has 3 in row 2, which is not in 0 \.\. 2"),
    "negative symbol": (lists(right=[0, -1, 0]), "column right has -1 in row 1"),
    "parents first": (
        lists(above=[2, 1, 2], below=[1, 0, 0]),
        r"unary\[u\].*: row 0 of the list reads what row 1 adds to; rows stand in topological order",
    ),
    "no weights": (dict(weights={}), "weights lexical are missing|weights rule are missing"),
    "weights of one sentence too few": (
        weights(lexical=(3, 3, 3)),
        r"weights lexical have shape \(3, 3, 3\), and \(1 or 2, 3, 3\) is wanted",
    ),
    "a symbol too few": (weights(unary=(1, 2)), r"weights unary have shape \(1, 2\), and \(1 or 2, 3\) is wanted"),
    "an axis too many": (weights(root=(1, 3, 1)), r"weights root have shape \(1, 3, 1\)"),
    "a circle": (lists(above=[1, 0, 2], below=[0, 1, 0]), "row 0 of the list reads what row 1 adds to"),
    "a rule of a symbol to itself": (
        lists(above=[1, 1, 2], below=[0, 1, 0]),
        "row 1 of the list reads what row 1 adds",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_in_a_sentence(engine: Program, name: str) -> None:
    what, message = MISTAKES[name]
    for call in (
        lambda given: engine.log_counts(given),
        lambda given: engine.best(given, 1, {}, 1),
        lambda given: engine.draw(given, 1, 0, {}, 1),
    ):
        with pytest.raises(InvalidRecursion, match=message):
            call(changed(**what))


def test_padding_may_be_anything(engine: Program) -> None:
    words = np.array([[0, 1, -1], [2, 1, 0]])
    same = engine.log_counts(changed(words={"w": words}))[0]
    words = np.array([[0, 1, 99], [2, 1, 0]])
    np.testing.assert_array_equal(engine.log_counts(changed(words={"w": words}))[0], same)


def test_tables_over_positions_reach_to_the_last(engine: Program) -> None:
    lanes = LanesEngine(projective())
    for table in (np.zeros((1, 4, 3)), np.zeros((1, 3, 4))):
        given = Inputs(np.array([3, 2]), {"arc": table}, {}, {}, {})
        with pytest.raises(InvalidRecursion, match=r"and \(1 or 2, 4 or more, 4 or more\) is wanted"):
            lanes.log_counts(given, np.array([0, 1]))
    given = Inputs(np.array([3, 2]), {"arc": np.zeros((1, 4, 4), np.float32)}, {}, {}, {})
    with pytest.raises(InvalidRecursion, match="weights arc are float32, and float64 is wanted"):
        lanes.log_counts(given, np.array([0, 1]))


def test_integers_are_integers_and_nothing_is_missing() -> None:
    """Fractions would be cut off in silence."""
    given = random_sentences(
        next(page for page in PAGES if page.name == "hmm"), hmm(), [3, 2], np.random.default_rng(0)
    )
    program = Program(hmm())
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"words": {"w": given.words["w"] + 0.5}}, "words w must be integers, not float64"),
        ({"words": {"w": given.words["w"] > 0}}, "words w must be integers, not bool"),
        ({"words": {}}, "words w are missing"),
        ({"weights": {k: t for k, t in given.weights.items() if k != "final"}}, "weights final are missing"),
        ({"sizes": {"K": 3}}, "size W is missing"),
    ]
    for changes, message in wrong:
        with pytest.raises(InvalidRecursion, match=message):
            program.log_counts(dataclasses.replace(given, **changes))


def test_an_axis_with_too_few_symbols_for_positions() -> None:
    page = next(page for page in PAGES if page.name == "grandparents")
    given = random_sentences(page, page.make(), [4, 5], np.random.default_rng(0))
    few = dataclasses.replace(given, weights={**given.weights, "arc": given.weights["arc"][..., :5]}, sizes={"G": 5})
    with pytest.raises(InvalidRecursion, match=r"size G is 5, and positions, the symbols of .*, go to 5$"):
        Program(page.make()).log_counts(few)


SHORT = [
    Page("binary trees of spans", functools.partial(span_trees, binary=True)),
    Page("trees of spans", functools.partial(span_trees, binary=False)),
    next(page for page in PAGES if page.name == "semi_markov"),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("page", SHORT, ids=str)
def test_tables_need_only_the_positions_that_rules_speak_of(page: Page) -> None:
    """Nothing begins at n, so that row n may be missing; more than n is as good."""
    made = page.make()
    given = random_sentences(page, made, [4, 1, 3, 2, 4, 4, 2, 3, 1], np.random.default_rng(0))
    truth = listed(page, made, given)
    log_z, counts = [one.log_z for one in truth], expected_counts(given, truth)
    (name,) = (w.name for w in Program(made).tables if w.last == (-1, 0))
    whole = given.weights[name]
    longer = np.pad(whole, ((0, 0), (0, 1), (0, 2), *[(0, 0)] * (whole.ndim - 3)), constant_values=9.0)
    for table in (np.ascontiguousarray(whole[:, :-1]), longer):
        own = dataclasses.replace(given, weights={**given.weights, name: table})
        found = [Program(made).log_counts(own), in_logarithms(made, own)]
        weights = {key: torch.tensor(t) for key, t in own.weights.items()}
        rest = torch.tensor(own.lengths), {}
        by_torch = TorchEngine(made).marginals(weights, *rest, own.sizes)
        found.append((by_torch[0].numpy(), {key: t.numpy() for key, t in by_torch[1].items()}))
        of_device = DeviceEngine(made, "float64", fake_launcher()).log_counts(TensorInputs(weights, *rest, own.sizes))
        found.append((of_device[0].numpy(), {key: t.numpy() for key, t in of_device[1].items()}))
        for values, posteriors in found:
            np.testing.assert_allclose(values, log_z, rtol=1e-11)
            rows, columns = (min(a, b) for a, b in zip(table.shape[1:3], whole.shape[1:3], strict=True))
            assert posteriors[name].shape == table.shape
            np.testing.assert_allclose(
                posteriors[name][:, :rows, :columns], counts[name][:, :rows, :columns], atol=1e-11
            )
            assert abs(posteriors[name].sum() - counts[name].sum()) < 1e-10
    few = dataclasses.replace(given, weights={**given.weights, name: whole[:, :-2]})
    with pytest.raises(InvalidRecursion, match=r"9, 4 or more, 5 or more(, 2)?\) is wanted"):
        Program(made).log_counts(few)


def test_words_are_looked_at_in_every_call() -> None:
    """What else is checked follows from shapes, and is checked once for all calls with the same ones."""
    program, words = Program(pcfg_rules()), np.array([[0, 1, 0], [2, 1, 2]])
    program.log_counts(changed(words={"w": words}))
    with pytest.raises(InvalidRecursion, match="words w are not all in"):
        program.log_counts(changed(words={"w": words + 1}))
