# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import math
import sys

import matplotlib
import pytest
import torch

from pyrogram.viz import plot_bound

matplotlib.use("Agg")
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def no_figures():
    yield
    pyplot.close("all")


def data(ax):
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.get_lines()]


@pytest.mark.parametrize("kind", [list, tuple, torch.tensor, lambda x: [torch.tensor(v) for v in x]])
def test_one_run(kind):
    ax = plot_bound(kind([-3.0, -2.0, -1.5]))
    assert data(ax) == [([1, 2, 3], [-3.0, -2.0, -1.5])]
    assert ax.get_xlabel() == "iteration"
    assert ax.get_legend() is None


def test_axes_and_label():
    ax = pyplot.subplots()[1]
    assert plot_bound([-2.0, -1.0], ax=ax, label="ELBO") is ax
    assert ax.get_ylabel() == "ELBO"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ELBO"]
    ax.figure.canvas.draw()


@pytest.mark.parametrize("kind", [list, lambda runs: [torch.tensor(run) for run in runs]])
def test_many_runs(kind):
    ax = plot_bound(kind([[-4.0, -2.0], [-6.0, -4.0, -3.0]]), label="bound")
    first, second, mean = data(ax)
    assert first == ([1, 2], [-4.0, -2.0])
    assert second == ([1, 2, 3], [-6.0, -4.0, -3.0])
    assert mean == ([1, 2, 3], [-5.0, -3.0, -2.5])
    thin, _, thick = ax.get_lines()
    assert thin.get_linewidth() < thick.get_linewidth()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["bound, mean of 2"]


def test_held_out_has_its_own_axis():
    ax = plot_bound([-400.0, -300.0, -200.0], held_out=[-6.0, math.nan, -5.0])
    right = ax.figure.axes[1]
    assert data(ax) == [([1, 2, 3], [-400.0, -300.0, -200.0])]
    assert data(right) == [([1, 3], [-6.0, -5.0])]
    assert ax.get_lines()[0].get_linestyle() != right.get_lines()[0].get_linestyle()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["objective", "held out"]
    ax.figure.canvas.draw()


def test_held_out_of_many_runs():
    held_out = [[-6.0, math.nan], [-8.0, math.nan, -5.0]]
    ax = plot_bound([[-4.0, -2.0], [-6.0, -4.0, -3.0]], held_out=held_out)
    assert data(ax.figure.axes[1])[-1] == ([1, 3], [-7.0, -5.5])


@pytest.mark.parametrize("history", [[], [[]], [[1.0], []], [1.0, [2.0]], [None], [["a", None]]])
def test_errors(history):
    with pytest.raises(ValueError, match="history must be numbers or a list of sequences of numbers"):
        plot_bound(history)


def test_held_out_must_match():
    with pytest.raises(ValueError, match=r"held_out must have as many runs and iterations .* \[1\] and \[2\]"):
        plot_bound([1.0, 2.0], held_out=[1.0])


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install pyro-grammar\[plot\]"):
        plot_bound([1.0])
