# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The picture of what a grammar takes from whom: bars, colours, and numbers, read back."""

import sys
from typing import Any

import matplotlib
import pytest
import torch

from pyrogram.knowledge import Shares, Sources
from pyrogram.viz import plot_shares

matplotlib.use("Agg")
from matplotlib import pyplot

SHARES = torch.tensor([[0.1, 0.6, 0.25, 0.05], [0.5, 0.0, 0.3, 0.2]], dtype=torch.float64)
ROWS, SOURCES = ["ROOT", "NOUN left"], ["de_pud", "hi_pud", "fr_pud", "ko_pud"]


@pytest.fixture(autouse=True)
def no_figures():
    yield
    pyplot.close("all")


def columns(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_xticklabels()]


def heights(ax: Any) -> list[float]:
    return [bar.get_height() for bar in ax.patches]


def test_the_sources_of_the_greatest_shares():
    bars, heat = plot_shares(SHARES, ROWS, SOURCES, greatest=2, title="en")
    assert columns(heat) == ["de_pud", "hi_pud", "2 others"]  # means 0.3, 0.3, 0.275, 0.125
    assert [text.get_text() for text in heat.get_yticklabels()] == ROWS
    assert heights(bars) == pytest.approx([30, 30, 40])
    assert [text.get_text() for text in bars.texts] == ["30", "30", "40"]
    (image,) = heat.get_images()
    torch.testing.assert_close(
        torch.tensor(image.get_array()), torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5]]).double()
    )
    assert image.get_clim() == (0, 1)
    printed = {text.get_position(): text.get_text() for text in heat.texts}
    assert printed == {(0, 0): "10", (1, 0): "60", (2, 0): "30", (0, 1): "50", (2, 1): "50"}
    assert bars.get_title() == "en"
    bars.figure.canvas.draw()


def test_one_source_and_the_others():
    _, heat = plot_shares(SHARES, ROWS, SOURCES, greatest=1)
    assert columns(heat) == ["de_pud", "3 others"]


def test_numbers_can_be_read_on_their_colours():
    """A contrast of 4.5 to 1 at least (WCAG 2.1), which does not depend on hue."""
    even = torch.linspace(0.1, 0.9, 33)
    _, heat = plot_shares(torch.stack([even, 1 - even], 1), [""] * 33, ["a", "b"])
    (image,) = heat.get_images()
    assert len(heat.texts) == 66

    def luminance(colour: Any) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for text in heat.texts:
        x, y = text.get_position()
        shades = sorted(
            map(luminance, (image.to_rgba(image.get_array()[y, x]), matplotlib.colors.to_rgb(text.get_color())))
        )
        assert (shades[1] + 0.05) / (shades[0] + 0.05) > 4.5, (text.get_text(), shades)


def test_all_sources_and_the_whole():
    figure = pyplot.figure()
    own = figure.subplots(2)
    bars, heat = plot_shares(SHARES, ROWS, SOURCES, whole=torch.tensor([0.0, 0.1, 0.7, 0.2]), axes=own)
    assert (bars, heat) == tuple(own)
    assert columns(heat) == ["fr_pud", "ko_pud", "hi_pud", "de_pud"]
    assert heights(bars) == pytest.approx([70, 20, 10, 0], abs=1e-5)


def test_the_table_of_sources():
    sources = Sources(("N", "V"), ("aa_x", "bb_y"), ("", ""), {})
    heads = torch.tensor([[[0.1, 0.9], [0.2, 0.8]], [[0.3, 0.7], [0.4, 0.6]]])
    rows, table = sources.table(Shares(torch.tensor([0.5, 0.5]), heads))
    assert rows == ["ROOT", "N left", "N right", "V left", "V right"]
    assert table[:, 0].tolist() == pytest.approx([0.5, 0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": ["a"]}, r"shares must have shape \(1, 4\), by rows and sources, got \(2, 4\)"),
        ({"sources": ["a"]}, "shares must have shape"),
        ({"shares": SHARES / 2}, "sum to 1 over the sources"),
        ({"shares": torch.tensor([[1.5, -0.5, 0, 0]] * 2)}, "at least 0"),
        ({"whole": SHARES[0, :3]}, "whole must have shape"),
        ({"greatest": 0}, "greatest must be at least 1"),
        ({"axes": [None]}, "axes must be two"),
    ],
)
def test_bad_arguments(arguments, message):
    given = {"shares": SHARES, "rows": ROWS, "sources": SOURCES, **arguments}
    with pytest.raises(ValueError, match=message):
        plot_shares(given.pop("shares"), given.pop("rows"), given.pop("sources"), **given)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pyro-grammar\[plot\]"):
        plot_shares(SHARES, ROWS, SOURCES)
