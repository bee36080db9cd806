# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums and multiples of biases."""

import pytest
import torch

from pyrogram.bias import Bias


def test_sums_and_multiples() -> None:
    roots = Bias({"root": torch.tensor([1.0, -torch.inf])}, told=("Roots.",))
    arcs = Bias(parts={"arc_scores": torch.arange(8.0).reshape(2, 2, 2)}, told=("Arcs.",))
    both = roots * 2 + 0.5 * arcs + roots
    assert both.events["root"].tolist() == [3.0, -torch.inf]
    assert both.parts["arc_scores"].tolist() == [[[0.0, 0.5], [1.0, 1.5]], [[2.0, 2.5], [3.0, 3.5]]]
    assert str(both) == "Roots.\nArcs."
    total = sum([roots, arcs])
    assert isinstance(total, Bias) and total.told == both.told
    assert roots.events["root"].tolist() == [1.0, -torch.inf]  # as it was


def test_blocks_are_broadcast() -> None:
    one = Bias({"attach": torch.ones(3, 1, 3)}) + Bias({"attach": torch.ones(3, 2, 1)})
    assert one.events["attach"].shape == (3, 2, 3) and (one.events["attach"] == 2).all()


def test_nothing_of_what_is_forbidden_is_nothing() -> None:
    forbidden = Bias({"root": torch.tensor([-torch.inf, 1.0])})
    assert (0.0 * forbidden).events["root"].tolist() == [0.0, 0.0]


def test_some_sentences() -> None:
    arcs = Bias({"root": torch.ones(2)}, {"arc_scores": torch.arange(3.0)[:, None, None].expand(3, 2, 2)})
    some = arcs[torch.tensor([2, 0])]
    assert some.parts["arc_scores"][:, 0, 0].tolist() == [2.0, 0.0] and some.events["root"].tolist() == [1.0, 1.0]


def test_learnt_multiples() -> None:
    times = torch.tensor(2.0, requires_grad=True)
    scaled = Bias({"root": torch.tensor([0.0, 3.0])}) * times
    scaled.events["root"].sum().backward()  # type: ignore[no-untyped-call]
    assert times.grad == 3.0


def test_what_is_no_bias() -> None:
    with pytest.raises(TypeError):
        Bias() + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        Bias() * "2"  # type: ignore[operator]
    with pytest.raises(TypeError, match="told must be a tuple of sentences, not one string"):
        Bias(told="Verbs are roots.")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"nats of 'root' of biases that are added .* shapes \(2,\) and \(3,\)"):
        Bias({"root": torch.zeros(2)}) + Bias({"root": torch.zeros(3)})
