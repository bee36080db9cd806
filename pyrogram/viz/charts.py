# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Charts that can be touched: a page with the values of all items, their rules, and weights to change."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pyrogram.atomic import write_atomically
from pyrogram.printable import plural
from pyrogram.recursion.rules.charts import Chart
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.viz.direction import is_right_to_left
from pyrogram.viz.svg import text_width


@runtime_checkable
class HasChart(Protocol):
    """A distribution over the derivations of sentences that a recursion sums over."""

    def chart(self, sentence: int | Sequence[int] | None = None) -> Chart: ...


@dataclass(frozen=True, repr=False)
class ChartDrawing:
    """A page of HTML and script that needs nothing else, which notebooks show by themselves.

    :param page: the whole page.
    :param summary: what ``print`` shows, a few words.
    :param height: pixels that it needs before it is touched.
    """

    page: str
    summary: str
    height: int

    def _repr_html_(self) -> str:
        # In a frame, so that its names and styles do not meet the notebook's; the page mends the height.
        page = html.escape(self.page, quote=True)
        return (
            f'<iframe srcdoc="{page}" style="width: 100%; height: {self.height}px; border: 0" title="chart"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<ChartDrawing: {self.summary}>"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page to a file, for any browser: all of it or, if that fails, nothing."""
        write_atomically(path, self.page.encode())
        return Path(path)


def chart(
    of: HasChart | Chart | Recursion,
    weights: Mapping[str, Any] | None = None,
    n: int | None = None,
    *,
    sentence: int | Sequence[int] | None = None,
    forms: Sequence[str] | None = None,
    title: str | None = None,
    **options: Any,
) -> ChartDrawing:
    """Draws the chart of one sentence to be touched: a triangle of cells, filled item by item.

    Each item has its inside, outside and marginal value. Pointing at one shows the instances of rules that add to it.
    Weights can be changed, the filling can be watched, and a derivation drawn from the goal down, step by step.

    >>> from pyrogram.distributions import ProjectiveDependencyTree
    >>> import torch
    >>> chart(ProjectiveDependencyTree(torch.zeros(4, 4)), forms=["we", "see", "her"])
    <ChartDrawing: 19 items, 25 instances of rules, Z = 7>

    :param of: the derivation of a sentence, such as :class:`.ProjectiveDependencyTree`, or one by
        ``grammar.derivation``; or a :class:`.Chart`; or a recursion, with weights and n as :class:`.Chart` has them.
    :param weights: of a recursion: by table, a function of the indices or an array, not logarithms.
    :param n: length of the sentence of a recursion.
    :param sentence: which one of a batch of derivations.
    :param forms: the words as they are written; by default their numbers.
    :param title: what a screen reader says of the picture.
    :param options: ``sizes``, ``lists``, ``words`` and ``symbols`` of a recursion.
    :raises TypeError: if there is nothing to draw, or a derivation is not summed by a recursion over spans.
    :raises ValueError: if forms are not as many as words, or the chart is too large.
    """
    if isinstance(of, Recursion):
        if weights is None or n is None:
            raise TypeError("the chart of a recursion needs weights and n, the length of the sentence")
        drawn = Chart(of, weights, n, **options)
    elif weights is not None or n is not None or options:
        extra = ", ".join([*(["weights"] if weights is not None else []), *(["n"] if n is not None else []), *options])
        raise TypeError(f"a {type(of).__name__} has its weights and its sentence, so it takes no {extra}")
    elif isinstance(of, Chart):
        drawn = of
    elif isinstance(of, HasChart):
        drawn = of.chart(sentence)
    else:
        raise TypeError(f"chart draws a derivation, a Chart or a Recursion, not {type(of).__name__}")
    words = [str(i) for i in range(1, drawn.n + 1)] if forms is None else [str(x) for x in forms]
    if len(words) != drawn.n:
        raise ValueError(f"forms must be {plural(drawn.n, 'word')}, as many as the sentence has, not {len(words)}")
    data = _data(drawn, words, title)
    page = resources.files("pyrogram.viz").joinpath("chart.html").read_text(encoding="utf-8")
    page = page.replace("/*DATA*/null", json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"))
    count = sum(map(len, drawn.instances.values()))
    z = drawn.inside().get(drawn.goal, 0.0)
    rows = _rows(drawn)
    height = 230 + 17 * sum(rows) + 25 * len(rows)
    return ChartDrawing(
        page, f"{plural(len(drawn.instances), 'item')}, {plural(count, 'instance')} of rules, Z = {z:.4g}", height
    )


def _data(drawn: Chart, words: Sequence[str], title: str | None) -> dict[str, Any]:
    """What the page's script reads: items in the order of filling, each with its instances of rules."""
    item = {key: t for t, key in enumerate(drawn.instances)}
    weight = {key: t for t, key in enumerate(drawn.weights)}
    rules = list(dict.fromkeys(str(x.rule) for ways in drawn.instances.values() for x in ways))
    at = {text: r for r, text in enumerate(rules)}
    labels = {key: _label(drawn, key) for key in drawn.instances}
    widest = max([text_width(label, 12.0) for label in labels.values()] + [0.0])
    return {
        "title": title or f"chart of {' '.join(words)}",
        "n": drawn.n,
        "first": drawn.recursion.first,
        "goal": item.get(drawn.goal, -1),
        "words": list(words),
        "rtl": is_right_to_left(words),
        "column": round(max(widest + 64.0, max(text_width(w, 15.0) for w in words) + 12.0)),
        "rules": rules,
        "weights": [{"text": drawn.text(key), "value": value} for key, value in drawn.weights.items()],
        "items": [
            {
                "text": drawn.text(key),
                "label": labels[key],
                "at": list(drawn.positions(key)),
                "rules": [[at[str(x.rule)], [weight[w] for w in x.weights], [item[i] for i in x.items]] for x in ways],
            }
            for key, ways in drawn.instances.items()
        ],
    }


def _label(drawn: Chart, key: tuple[str, tuple[int, ...]]) -> str:
    """An item in its cell, which says its positions: the table and the symbols, or these alone if they are names."""
    name, _ = key
    symbols = drawn.names(key)
    named = all(size in drawn.symbols for size in drawn.recursion.tables[name].sizes)
    return " ".join(symbols if symbols and named else [name, *symbols])


def _rows(drawn: Chart) -> list[int]:
    """The greatest number of items in a cell, of each width of cells."""
    cells: dict[tuple[int, ...], int] = {}
    for key in drawn.instances:
        cells[drawn.positions(key)] = cells.get(drawn.positions(key), 0) + 1
    levels: dict[int, int] = {}
    for at, count in cells.items():
        level = at[1] - at[0] if len(at) == 2 else -1 if at else drawn.n + 1
        levels[level] = max(levels.get(level, 0), count)
    return list(levels.values())


__all__ = ["ChartDrawing", "chart"]
