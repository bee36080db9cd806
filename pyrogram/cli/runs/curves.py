# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The objective of every start, iteration by iteration: as numbers and as a picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from pyrogram.cli.runs.starts import Start


def curve_csv(starts: Sequence[Start]) -> str:
    """Start, iteration, objective before it and held-out log-likelihood after it (empty without such sentences).

    With ``em-map`` the first objective may be -inf, see :class:`pyrogram.infer.EM`.
    """
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["start", "iteration", "objective", "held_out"])
    for start in starts:
        for i, (value, held_out) in enumerate(zip(start.objective, start.held_out, strict=True), 1):
            out.writerow([start.number, i, value, "" if math.isnan(held_out) else held_out])
    return file.getvalue()


def load_drawing() -> None:
    """Import what :func:`curve_svg` needs, which takes half a second."""
    if find_spec("matplotlib") is not None:
        for module in ("matplotlib.pyplot", "matplotlib.backends.backend_svg", "pyrogram.viz"):
            import_module(module)


def curve_svg(starts: Sequence[Start], objective: str) -> bytes | None:
    """The same as a picture, the same bytes for the same numbers; None without matplotlib."""
    if find_spec("matplotlib") is None:
        return None
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from pyrogram.viz import plot_bound

    picture = io.BytesIO()
    with rc_context({"svg.hashsalt": "pyrogram"}):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        watched = not all(math.isnan(value) for start in starts for value in start.held_out)
        plot_bound(
            [start.objective for start in starts],
            held_out=[start.held_out for start in starts] if watched else None,
            ax=figure.subplots(),
            label=objective,
        )
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()
