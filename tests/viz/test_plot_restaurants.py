# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import matplotlib
import pytest
import torch

from pyrogram.restaurants.restaurants import Restaurants
from pyrogram.viz import expected_draws, plot_contexts, plot_draws, plot_trace

matplotlib.use("Agg")
from matplotlib import pyplot

ALPHA, EPSILON = torch.tensor([0.5, 2.0]), torch.tensor([0.0, 0.6])
KEYS = torch.tensor([0, 0, 0, 0, 0, 0]), torch.tensor([7, 7, 7, 8, 8, 9])
VALUES = torch.tensor([1, 1, 0, 1, 2, 1])


@pytest.fixture(autouse=True)
def no_figures():
    yield
    pyplot.close("all")


def seated(paths="minimal"):
    restaurants = Restaurants(2, 3, paths)
    restaurants.add(KEYS, VALUES, ALPHA, EPSILON)
    return restaurants


@pytest.mark.parametrize(
    ("alpha", "epsilon"),
    [
        *[(0.5, 0.0), (3.0, 0.4), (0.0, 0.3), (-0.2, 0.5), (1e-9, 0.9), (-0.3, 0.3)],
        *[(1.0, 1e-15), (1.0, 9e-6), (2.0, 2e-5), (0.0, 1e-7), (-1e-7, 1e-6)],
    ],
)
def test_expected_draws_obey_the_recursion(alpha, epsilon):
    # Observation n + 1 has a draw of its own with probability (α + ε T) / (α + n), linear in T.
    draws, expected = 1.0, []
    for n in range(1, 40):
        expected.append(draws)
        draws += (alpha + epsilon * draws) / (alpha + n)
    torch.testing.assert_close(
        expected_draws(torch.arange(1, 40), alpha, epsilon), torch.tensor(expected, dtype=torch.float64)
    )


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.5, 1.0), (-0.5, 0.4), (1.0, -0.1)])
def test_expected_draws_refuse_parameters_out_of_range(alpha, epsilon):
    with pytest.raises(ValueError, match="0 <= discount < 1"):
        expected_draws(torch.ones(1), alpha, epsilon)


def test_draws_by_context():
    ax = plot_draws(seated(), ALPHA, EPSILON, level_names=["all", "word"])
    lines = {line.get_label(): line for line in ax.get_lines()}
    # Level 1: (7: 1 1 0), (8: 1 2) and (9: 1) have two, two and one draws: five observations of level 0.
    assert sorted(zip(lines["word"].get_xdata(), lines["word"].get_ydata(), strict=True)) == [(1, 1), (2, 2), (3, 2)]
    assert list(zip(lines["all"].get_xdata(), lines["all"].get_ydata(), strict=True)) == [(5, 3)]
    assert len(ax.get_lines()) == 4
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["all", "word"]
    ax.figure.canvas.draw()


def test_draws_without_parameters_have_no_lines_of_expectation():
    assert len(plot_draws(seated()).get_lines()) == 2


def test_draws_refuse_half_of_the_parameters():
    with pytest.raises(ValueError, match="concentration and discount, or neither"):
        plot_draws(seated(), ALPHA)
    with pytest.raises(ValueError, match="level_names for 2 levels, actual for 1"):
        plot_draws(seated(), level_names=["all"])


def test_contexts_show_observations_and_draws():
    left, right = plot_contexts(seated(), [0, 7], ["a", "b", "c"], titles=["all", "word"])
    widths = {ax.get_title(): [bar.get_width() for bar in ax.patches] for ax in (left, right)}  # type: ignore
    assert widths == {"all": [3, 1, 1, 1, 1, 1], "word": [2, 1, 1, 1]}  # c of all values, then t
    assert [t.get_text() for t in right.get_yticklabels()] == ["b", "a"]
    left.figure.canvas.draw()


def test_contexts_show_the_most_frequent_values_only():
    (left, _) = plot_contexts(seated(), [0, 7], ["a", "b", "c"], greatest=1)
    assert [t.get_text() for t in left.get_yticklabels()] == ["b"]


def test_an_unseen_context_is_an_empty_panel():
    axes = plot_contexts(seated(), [0, 1234], ["a", "b", "c"])
    assert len(axes[1].patches) == 0
    axes[1].figure.canvas.draw()


def test_contexts_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="expected 2 keys, 3 names"):
        plot_contexts(seated(), [0], ["a", "b", "c"])


def test_trace_of_several_chains():
    trace = {"discount": torch.rand(5, 2), "scale": torch.rand(5)}
    axes = plot_trace([trace, trace], level_names=["coarse", "fine"])
    assert [ax.get_title() for ax in axes] == ["discount", "scale"]
    assert [len(ax.get_lines()) for ax in axes] == [4, 2]
    assert [t.get_text() for t in axes[0].get_legend().get_texts()] == ["coarse", "fine"]
    axes[0].figure.canvas.draw()
    with pytest.raises(ValueError, match="same sites"):
        plot_trace([trace, {"discount": torch.rand(5, 2)}])
