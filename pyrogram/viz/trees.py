# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Dependency trees drawn as SVG: words in a row, their arcs above, gold arcs that they miss below."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pyrogram.atomic import write_atomically
from pyrogram.printable import plural
from pyrogram.viz.arcs import CORRECT, MISSED, PLAIN, WRONG, Arc, Style
from pyrogram.viz.picture import Picture
from pyrogram.viz.svg import INK


@dataclass(frozen=True, repr=False)
class TreeDrawing:
    """A drawing, which notebooks show by themselves.

    :param svg: the picture, a complete SVG element.
    :param summary: what ``print`` shows, a few words.
    """

    svg: str
    summary: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<TreeDrawing: {self.summary}>"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the drawing to a file: all of it or, if that fails, nothing."""
        write_atomically(path, self.svg.encode())
        return Path(path)


def draw_tree(
    heads: Sequence[int] | Tensor,
    forms: Sequence[str],
    tags: Sequence[str] | None = None,
    *,
    gold: Sequence[int] | Tensor | None = None,
    title: str | None = None,
) -> TreeDrawing:
    """Draws a dependency tree; every arc points at the dependent, the root's comes from ROOT, left of the words.

    With ``gold``, arcs that agree with it are solid, wrong ones red and dashed, and the gold arcs that
    are missing are blue and dotted, below the words.

    :param heads: head of each word, 0 for ROOT; padding of -1 on the right is dropped. Any heads are
        drawn, also those of crossing arcs.
    :param forms: the words.
    :param tags: printed under the words.
    :param gold: gold heads of the same words.
    :param title: printed above.
    """
    ours = _checked_heads("heads", heads)
    n = len(ours)
    for name, strings in (("forms", forms), ("tags", tags)):
        if strings is not None and (isinstance(strings, str) or len(strings) != n):
            got = repr(strings) if isinstance(strings, str) else len(strings)
            raise ValueError(f"{name} must be {n} strings, one for each word of heads, got {got}.")
    summary = f"{plural(n, 'word')}"
    if gold is None:
        arcs = [Arc(h, c, PLAIN) for c, h in enumerate(ours, 1)]
        return TreeDrawing(Picture(forms, tags, arcs, [], title).svg(), summary)
    theirs = _checked_heads("gold", gold)
    if len(theirs) != n:
        raise ValueError(f"gold must be {plural(n, 'head')}, one for each word of heads, got {len(theirs)}.")
    pairs = list(enumerate(zip(ours, theirs, strict=True), 1))
    arcs = [Arc(h, c, CORRECT if h == g else WRONG) for c, (h, g) in pairs]
    missed = [Arc(g, c, MISSED) for c, (h, g) in pairs if h != g]
    right = n - len(missed)
    legend = [(CORRECT, f"correct ({right})"), (WRONG, f"wrong ({n - right})"), (MISSED, f"gold, missed ({n - right})")]
    svg = Picture(forms, tags, arcs, missed, title, legend).svg()
    return TreeDrawing(svg, f"{summary}, {right} with the right head")


def draw_posterior(
    marginals: Tensor,
    forms: Sequence[str],
    tags: Sequence[str] | None = None,
    *,
    least: float = 0.05,
    title: str | None = None,
) -> TreeDrawing:
    """Draws all arcs at once, the bolder and the darker the more probable they are; pointing at one shows its number.

    :param marginals: p(arc is in the tree), shape ``(n+1, n+1)`` [head, dependent], 0 for ROOT, as
        ``derivation.marginals()`` has it for each sentence.
    :param forms: the n words.
    :param tags: printed under the words.
    :param least: less probable arcs are left out.
    :param title: printed above.
    :raises ValueError: if the shapes do not fit, or a probability is none.
    """
    n = len(forms)
    table = torch.as_tensor(marginals).detach().to("cpu", torch.float64)
    if isinstance(forms, str) or not n or tuple(table.shape) != (n + 1, n + 1):
        raise ValueError(
            f"marginals must have shape (n+1, n+1) for the n words of forms, got "
            f"{tuple(table.shape)} and {plural(n, 'word')}"
        )
    if tags is not None and (isinstance(tags, str) or len(tags) != n):
        raise ValueError(f"tags must be {n} strings, one for each word, got {len(tags)}.")
    rows = table[:, 1:].tolist()
    if not all(-1e-6 <= p <= 1 + 1e-6 for row in rows for p in row):
        raise ValueError("marginals must be probabilities, from 0 to 1")
    arcs = [
        Arc(head, word, _sure(p))
        for head, row in enumerate(rows)
        for word, p in enumerate(row, 1)
        if p >= least and head != word
    ]
    legend = [(_sure(p), f"{p:g}") for p in (1.0, 0.5, 0.1)]
    svg = Picture(forms, tags, arcs, [], title, legend).svg()
    return TreeDrawing(svg, f"{plural(n, 'word')}, {plural(len(arcs), 'arc')} of probability {least:g} and more")


def _sure(p: float) -> Style:
    """Of an arc with a probability: told by width as well as by shade."""
    return Style(f"{p:.3f}", INK, "", 0.6 + 2.2 * p, min(1.0, 0.15 + 0.85 * p))


def _checked_heads(name: str, heads: Sequence[int] | Tensor) -> list[int]:
    """The heads as a list without padding."""
    if isinstance(heads, Tensor) and (heads.dim() != 1 or heads.is_floating_point()):
        raise ValueError(f"{name} must be integers of shape (n,), got {heads.dtype} of shape {tuple(heads.shape)}.")
    row = [int(h) for h in heads]
    while row and row[-1] == -1:
        row.pop()
    if not row or not all(0 <= h <= len(row) and h != c for c, h in enumerate(row, 1)):
        raise ValueError(f"{name} must be integers from 0 to n, no word its own head, got {row}.")
    return row
