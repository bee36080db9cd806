# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
from typing import Any

import matplotlib
import pytest
import torch
from scipy.stats import binom

from pyrogram.viz import plot_ranks

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.patches import StepPatch


@pytest.fixture(autouse=True)
def no_figures():
    yield
    pyplot.close("all")


def test_heights_and_band():
    ranks = {"a": torch.tensor([0, 1, 2, 3, 3, 7] * 10), "b": torch.arange(60).reshape(30, 2) % 8}
    figure = plot_ranks(ranks, 7, num_bins=4)
    first, second = figure.axes[:2]
    stairs: list[Any] = [patch.get_data() for patch in first.patches if isinstance(patch, StepPatch)]
    band, expected, line = stairs
    low, high = binom.ppf([0.005, 0.995], 60, 0.25)
    assert band.values.tolist() == [high] * 4 and band.baseline.tolist() == [low] * 4
    assert expected.values.tolist() == [15.0] * 4
    assert line.values.tolist() == [20, 30, 0, 10]
    assert len(second.patches) == 4  # two numbers
    assert [first.get_title(), second.get_title()] == ["a", "b"]
    figure.canvas.draw()


def test_ranks_of_other_draws_are_refused():
    with pytest.raises(ValueError, match="ranks of 'a' must be at least one, from 0 to num_draws=3"):
        plot_ranks({"a": torch.tensor([4])}, 3)
