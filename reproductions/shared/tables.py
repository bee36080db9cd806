# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The table of an experiment, for terminals, as Markdown and as CSV, and the picture of its curves."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from pyrogram.cli.io.files import write_file
from pyrogram.cli.io.output import footnotes
from reproductions.shared.experiment import Curve, Measure, Pictured, TrialStudy, Written
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key, Result, read_start, unpack_learnt

_LARGE = 1e6


def values(results: Mapping[Key, Result | Learnt], row: str, measure: Measure) -> list[float]:
    """A metric of all starts of a row, as it is shown; starts without it are left out."""
    numbers = [_number(result, measure.name) for key, result in results.items() if key.row == row]
    return [100 * v if measure.percent else v for v in numbers if not math.isnan(v)]


def _number(result: Result | Learnt, name: str) -> float:
    return result.iterations if name == "iterations" else result.metrics.get(name, math.nan)


def mean_and_spread(known: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of numbers however large, the latter NaN if there is none."""
    unit = max(abs(v) for v in known) or 1.0
    if math.isinf(unit):
        return statistics.fmean(known), math.nan
    scaled = [v / unit for v in known]
    return unit * statistics.fmean(scaled), unit * statistics.stdev(scaled) if len(scaled) > 1 else math.nan


def shown(value: float, digits: int, scale: float = 0.0) -> str:
    """A number for readers, in powers of ten if it, or the ``scale`` of what it stands beside, is too large."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.{digits}f}" if max(abs(value), abs(scale)) < _LARGE else f"{value:.1e}"


def cell(study: TrialStudy, results: Mapping[Key, Result], row: str, measure: Measure) -> str:
    """Mean ± standard deviation over starts (the paper's figure)."""
    known = values(results, row, measure)
    paper = study.experiment.published.get(row, {}).get(measure.name)
    mean, spread = mean_and_spread(known) if known else (math.nan, math.nan)
    text = shown(mean, measure.digits) if known else ""
    if not math.isnan(spread):
        text += f" ± {shown(spread, measure.digits, mean)}"
    if paper is not None:
        text += f" ({shown(100 * paper if measure.percent else paper, measure.digits)})"
    return text


def differences(study: TrialStudy, results: Mapping[Key, Result]) -> list[tuple[str, str, str]]:
    """Rows compared start by start: which with which, mean ± deviation, and in how many starts the first is greater."""
    measure = next(m for m in study.experiment.measures if m.name == study.experiment.compared)
    rows = []
    for trial in study.trials:
        ours = values(results, trial.name, measure)
        for other in (*([trial.above] if trial.above else []), *trial.also):
            theirs = values(results, other, measure)
            if len(theirs) == 1:
                theirs = theirs * len(ours)
            if not ours or len(ours) != len(theirs):
                continue
            gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
            spread = f" ± {statistics.stdev(gaps):.{measure.digits}f}" if len(gaps) > 1 else ""
            text = f"{statistics.fmean(gaps):+.{measure.digits}f}{spread}"
            rows.append((f"{trial.name} − {other}", text, f"{sum(g > 0 for g in gaps)}/{len(gaps)}"))
    return rows


def heading(study: TrialStudy) -> str:
    """Above the differences."""
    measure = next(m for m in study.experiment.measures if m.name == study.experiment.compared)
    return f"Differences between rows in {measure.label}, and in how many starts they are positive"


def terminal(study: TrialStudy, results: Mapping[Key, Result]) -> Iterator[RenderableType]:
    """What to print."""
    yield Text(study.experiment.title, style="bold")
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column("", no_wrap=True)
    for measure in study.experiment.measures:
        label = measure.label + (" %" if measure.percent else "")
        # Words and figures are not cut off: a table that is wider than the terminal is printed in parts.
        texts = [*label.split(), *(cell(study, results, trial.name, measure) for trial in study.trials)]
        grid.add_column(label, justify="right", min_width=max(map(len, texts)))
    for trial in study.trials:
        grid.add_row(Text(trial.label), *(cell(study, results, trial.name, m) for m in study.experiment.measures))
    yield grid
    compared = differences(study, results)
    if compared:
        yield Text(heading(study))
        grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_header=False)
        for names, gap, higher in compared:
            grid.add_row(Text(names), gap, higher)
        yield grid
    yield footnotes(study.experiment.notes(results))


def markdown(study: TrialStudy, results: Mapping[Key, Result]) -> str:
    """The same as Markdown."""
    measures = study.experiment.measures
    names = [m.label + (" %" if m.percent else "") for m in measures]
    lines = [f"# {study.experiment.title}", "", f"| | {' | '.join(names)} |", "|---" + "|---:" * len(names) + "|"]
    for trial in study.trials:
        lines.append(f"| {trial.label} | {' | '.join(cell(study, results, trial.name, m) for m in measures)} |")
    compared = differences(study, results)
    if compared:
        lines += ["", f"{heading(study)}:", "", "| | difference | starts |", "|---|---:|---:|"]
        lines += [f"| {' | '.join(columns)} |" for columns in compared]
    return "\n".join([*lines, "", *(f"- {note}" for note in study.experiment.notes(results))]) + "\n"


def write_trials(out: Path, study: TrialStudy, results: Mapping[Key, Result]) -> None:
    """Write the files of a folder that are for readers."""
    learnt = {key: unpack_learnt(data) for key in results if (data := read_start(out, key, study.settings)) is not None}
    texts = {
        "results.csv": _results_csv(study, results),
        "curves.csv": _curves_csv(learnt),
        "table.md": markdown(study, results),
    }
    for name, text in texts.items():
        write_file(out / name, text.encode())
    if isinstance(study.experiment, Written):
        for name, data in study.experiment.written(learnt).items():
            write_file(out / name, data)
    if find_spec("matplotlib") is not None:
        picture = curves_svg(study, learnt)
        if picture is not None:
            write_file(out / "curves.svg", picture)
        if isinstance(study.experiment, Pictured):
            for name, figure in study.experiment.pictures(learnt).items():
                write_file(out / f"{name}.svg", _svg(figure))


def _results_csv(study: TrialStudy, results: Mapping[Key, Result]) -> str:
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    names = sorted({name for result in results.values() for name in result.metrics})
    lines.writerow(["row", "start", *names, "iterations", "stopped"])
    for key, result in results.items():
        numbers = [result.metrics.get(name, math.nan) for name in names]
        told = ["" if math.isnan(v) else v for v in numbers]
        lines.writerow([key.row, key.start, *told, result.iterations, result.stopped])
    return file.getvalue()


def _curves_csv(learnt: Mapping[Key, Learnt]) -> str:
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(["row", "start", "curve", "iteration", "value"])
    for key, run in learnt.items():
        for name, curve in sorted(run.curves.items()):  # safetensors have no order
            lines.writerows([key.row, key.start, name, i, v] for i, v in enumerate(curve, 1) if not math.isnan(v))
    return file.getvalue()


def curves_svg(study: TrialStudy, learnt: Mapping[Key, Learnt]) -> bytes | None:
    """A panel for each curve of the experiment: every start thin, in the colour of its row."""
    panels = [c for c in study.experiment.curves if any(c.y in run.curves for run in learnt.values())]
    if not panels:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(panels), 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, curve in zip(axes, panels, strict=True):
        _draw(ax, curve, study, learnt)
    axes[-1].legend(frameon=False)
    return _svg(figure)


def _svg(figure: Any) -> bytes:
    """The same bytes for the same figure."""
    from matplotlib import rc_context

    picture = io.BytesIO()
    with rc_context({"svg.hashsalt": "pyrogram"}):
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def _draw(ax: Any, curve: Curve, study: TrialStudy, learnt: Mapping[Key, Learnt]) -> None:
    least = math.inf
    for number, trial in enumerate(study.trials):
        runs = [run.curves for key, run in learnt.items() if key.row == trial.name and curve.y in run.curves]
        for i, run in enumerate(runs):
            x: Sequence[float] = run[curve.x] if curve.x else range(1, len(run[curve.y]) + 1)
            known = [(a, b) for a, b in zip(x, run[curve.y], strict=True) if not math.isnan(b)]
            least = min([least, *(b for _, b in known)])
            label = trial.label if i == 0 else None
            ax.plot(*zip(*known, strict=True), color=f"C{number % 10}", linewidth=1.0, alpha=0.7, label=label)
    ax.set_xlabel(curve.x_label)
    ax.set_ylabel(curve.label)
    ax.set_xscale("log" if curve.log_x else "linear")
    ax.set_yscale("log" if curve.log_y else "linear")
    if curve.span is not None and 0 < least < math.inf:
        ax.set_ylim(least / curve.span**0.05 if curve.log_y else None, curve.span * least)
    ax.spines[["top", "right"]].set_visible(False)
