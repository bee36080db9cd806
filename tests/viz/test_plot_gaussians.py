# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import math
import sys

import matplotlib
import pytest
import torch

from pyrogram.viz import plot_covariance, plot_experts

matplotlib.use("Agg")
from matplotlib import pyplot

#: Variances 4, 1, 9; correlations -0.5, 0.25 and -1/3.
MATRIX = [[4.0, -1.0, 1.5], [-1.0, 1.0, -1.0], [1.5, -1.0, 9.0]]
NAMES = ["NN", "VB", "NNS"]


@pytest.fixture(autouse=True)
def no_figures():
    yield
    pyplot.close("all")


def picture(ax):
    """What is drawn, with NaN where nothing is, and the ends of its scale."""
    (image,) = ax.get_images()
    return image.get_array().filled(math.nan).tolist(), image.get_clim()


def labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def bars(ax):
    """By label, the places of a series' bars (their middles) and their heights."""
    found = {}
    for series in ax.containers:
        found[series.get_label()] = [(b.get_x() + b.get_width() / 2, b.get_height()) for b in series]
    return found


@pytest.mark.parametrize("kind", [list, torch.tensor, lambda m: torch.tensor(m, dtype=torch.float32).requires_grad_()])
def test_a_covariance(kind):
    ax = plot_covariance(kind(MATRIX), NAMES, title="attach[VBD, right]")
    values, limits = picture(ax)
    assert values == MATRIX
    assert limits == (-9.0, 9.0)  # centred at 0
    assert labels(ax.xaxis) == labels(ax.yaxis) == NAMES
    assert ax.get_title() == "attach[VBD, right]"
    assert ax.figure.axes[1].get_ylabel() == "covariance"
    ax.figure.canvas.draw()


def test_zero_is_white_and_signs_differ():
    ax = plot_covariance([[0.5, -0.5], [-0.5, 0.5]], ["a", "b"])
    (image,) = ax.get_images()
    red, white, blue = (image.to_rgba(x) for x in (0.5, 0.0, -0.5))
    assert min(white) > 0.95
    assert red[0] > red[2] and blue[2] > blue[0]


def test_correlations():
    values, limits = picture(plot_covariance(MATRIX, NAMES, correlation=True))
    torch.testing.assert_close(
        torch.tensor(values), torch.tensor([[1, -0.5, 0.25], [-0.5, 1, -1 / 3], [0.25, -1 / 3, 1]])
    )
    assert limits == (-1.0, 1.0)


def test_without_the_diagonal():
    values, limits = picture(plot_covariance(MATRIX, NAMES, diagonal=False))
    assert limits == (-1.5, 1.5)
    assert all(math.isnan(values[i][i]) for i in range(3))
    assert values[0][1:] == [-1.0, 1.5]
    assert picture(plot_covariance(MATRIX, NAMES, correlation=True, diagonal=False))[1] == pytest.approx((-0.5, 0.5))
    assert picture(plot_covariance(torch.eye(3), NAMES, diagonal=False))[1] == (-1.0, 1.0)


def test_one_family_side_by_side():
    ax = plot_covariance(MATRIX, NAMES, families=["noun", "verb", "noun"], limit=2.0)
    values, limits = picture(ax)
    assert values == [[4.0, 1.5, -1.0], [1.5, 9.0, -1.0], [-1.0, -1.0, 1.0]]
    assert limits == (-2.0, 2.0)
    assert labels(ax.xaxis) == ["NN", "NNS", "VB"]
    assert [(text.get_text(), text.xy[1]) for text in ax.texts] == [("noun", 0.5), ("verb", 2.0)]  # type: ignore
    assert sorted(tuple(line.get_ydata()) for line in ax.get_lines()) == [(0, 1), (1.5, 1.5)]


def test_forty_five_tags_in_given_axes():
    ax = pyplot.subplots()[1]
    assert plot_covariance(torch.eye(45), [f"tag{i}" for i in range(45)], ax=ax) is ax
    assert len(labels(ax.xaxis)) == 45
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    "matrix, options, message",
    [
        ([1.0], {}, r"covariance must have shape \(N, N\), got \(1,\)"),
        (torch.ones(2, 3), {}, r"covariance must have shape \(N, N\), got \(2, 3\)"),
        ([["a"]], {}, "covariance must be a matrix of numbers, got"),
        ([[1.0, 0.5], [0.4, 1.0]], {}, "covariance must be symmetric, got elements that differ by 0.1"),
        ([[1.0, math.nan], [math.nan, 1.0]], {}, "covariance must be finite"),
        (torch.eye(3), {}, "names must be 3 strings, one for each coordinate, got 2"),
        (torch.eye(2), {"families": ["noun"]}, "families must be 2 strings, one for each coordinate, got 1"),
        (torch.eye(2), {"families": "ab"}, "families must be 2 strings, one for each coordinate, got 'ab'"),
        (torch.diag(torch.tensor([1.0, 0.0])), {"correlation": True}, "need positive variances, got 0 on"),
        (torch.eye(2), {"limit": 0.0}, "limit must be positive, got 0.0"),
    ],
)
def test_errors_of_covariance(matrix, options, message):
    with pytest.raises(ValueError, match=message):
        plot_covariance(matrix, ["a", "b"], **options)


EXPERTS = {"own": [1.0, 0.0, 5.0], "verb": [0.0, 3.0, 0.0]}


@pytest.mark.parametrize("kind", [list, tuple, lambda v: torch.tensor(v).requires_grad_()])
def test_experts(kind):
    """eta = (1/2, 3/2, 5/2): the events are drawn in the order c, b, a."""
    above, below = plot_experts({n: kind(v) for n, v in EXPERTS.items()}, ["a", "b", "c"], title="t", centred=False)
    drawn = bars(above)
    assert [height for _, height in drawn["own"]] == [2.5, 0.0, 0.5]
    assert [height for _, height in drawn["verb"]] == [0.0, 1.5, 0.0]
    assert all(x < i < y for i, ((x, _), (y, _)) in enumerate(zip(drawn["own"], drawn["verb"], strict=True)))
    (dots,) = (line for line in above.get_lines() if line.get_label() == "sum")
    assert list(dots.get_ydata()) == [2.5, 1.5, 0.5]
    total = sum(math.exp(x) for x in (0.5, 1.5, 2.5))
    (probabilities,) = bars(below).values()
    assert [height for _, height in probabilities] == pytest.approx([math.exp(x) / total for x in (2.5, 1.5, 0.5)])
    assert labels(below.xaxis) == ["c", "b", "a"]
    assert above.get_title() == "t"
    assert above.get_ylabel() == "mean / 2"
    assert {text.get_text() for text in above.get_legend().get_texts()} == {"own", "verb", "sum"}
    above.figure.canvas.draw()


def test_centring_leaves_the_probabilities():
    plain, centred = (plot_experts(EXPERTS, ["a", "b", "c"], centred=c) for c in (False, True))
    heights = [height for _, height in bars(centred[0])["own"]]
    assert heights == pytest.approx([1.5, -1.0, -0.5])
    assert sum(heights) == pytest.approx(0)
    probabilities = [[height for _, height in next(iter(bars(below).values()))] for _, below in (plain, centred)]
    assert probabilities[1] == pytest.approx(probabilities[0])


def test_the_greatest_keep_their_probabilities():
    above, below = plot_experts(EXPERTS, ["a", "b", "c"], greatest=2)
    assert labels(below.xaxis) == ["c", "b"]
    (some,) = bars(below).values()
    (every,) = bars(plot_experts(EXPERTS, ["a", "b", "c"])[1]).values()
    assert some == every[:2]
    assert len(bars(above)["own"]) == 2


def test_experts_in_given_axes():
    pair = pyplot.subplots(1, 2)[1]
    assert plot_experts({"own": torch.zeros(45)}, [f"tag{i}" for i in range(45)], axes=pair) == tuple(pair)
    pair[0].figure.canvas.draw()


@pytest.mark.parametrize(
    "experts, options, message",
    [
        ({}, {}, r"experts must be at least one, all of one length, got lengths \{\}"),
        ({"own": [1.0, 2.0], "verb": [1.0]}, {}, r"one length, got lengths \{'own': 2, 'verb': 1\}"),
        ({"own": torch.ones(2, 2)}, {}, r"experts\['own'\] must be finite numbers of shape \(N,\), got .* \(2, 2\)"),
        ({"own": [1.0, -math.inf]}, {}, r"experts\['own'\] must be finite numbers"),
        ({"own": ["a", "b"]}, {}, r"experts\['own'\] must be numbers, got"),
        ({"own": [1.0, 2.0, 3.0]}, {}, "names must be 3 strings, one for each event, got 2"),
        ({"own": [1.0, 2.0]}, {"greatest": 0}, "greatest must be at least 1, got 0"),
        ({"own": [1.0, 2.0]}, {"axes": [None]}, "axes must be two, for contributions and for probabilities, got 1"),
    ],
)
def test_errors_of_experts(experts, options, message):
    with pytest.raises(ValueError, match=message):
        plot_experts(experts, ["a", "b"], **options)


@pytest.mark.parametrize(
    "call", [lambda: plot_covariance(torch.eye(1), ["a"]), lambda: plot_experts({"own": [1.0]}, ["a"])]
)
def test_gaussians_without_matplotlib(monkeypatch, call):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install pyro-grammar\[plot\]"):
        call()
