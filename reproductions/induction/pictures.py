# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Pictures of a reproduction: objectives of all starts, a learnt covariance, what shared experts contribute.

They are made of the files of the starts, and are the same bytes for the same files.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pyrogram.cli.io.files import write_file
from pyrogram.grammars.tying import TIES
from reproductions.induction import covariances
from reproductions.induction.learning import Language
from reproductions.induction.study import Study
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key, read_start, unpack_learnt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREATEST = 16  # events of a multinomial that are shown
_WITH_CHILDREN = frozenset({"noun", "verb"})


def write_pictures(out: Path, study: Study) -> None:
    """Write curves and learnt correlations and, with matplotlib, the pictures for which there is something to show."""
    learnt = {
        key: unpack_learnt(data) for key in study.tasks() if (data := read_start(out, key, study.settings)) is not None
    }
    learnt = {key: run for key, run in learnt.items() if run.curves.get("objective")}
    write_file(out / "curves.csv", curves_csv(study, learnt).encode())
    if text := covariances.markdown(study, learnt):
        write_file(out / "covariances.md", text.encode())
    if find_spec("matplotlib") is None:
        return
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "pyrogram"}):
        for name, draw in (("curves", _curves), ("covariance", _covariance), ("experts", _experts)):
            figure = draw(study, learnt)
            if figure is not None:
                picture = io.BytesIO()
                figure.savefig(picture, format="svg", metadata={"Date": None})
                write_file(out / f"{name}.svg", picture.getvalue())


def curves_csv(study: Study, learnt: Mapping[Key, Learnt]) -> str:
    """Objective before and held-out log-likelihood after every iteration of every start, in nats."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(["row", "corpus", "start", "iteration", "objective", "held_out"])
    for key, run in learnt.items():
        corpus = " + ".join(study.languages[i].name for i in key.languages)
        for i, (value, held_out) in enumerate(zip(run.curves["objective"], run.curves["held_out"], strict=True), 1):
            lines.writerow([key.row, corpus, key.start, i, value, "" if math.isnan(held_out) else held_out])
    return file.getvalue()


def _panels(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Any]]:
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[count:]:
        panel.set_axis_off()
    return figure, panels[:count]


def _curves(study: Study, learnt: Mapping[Key, Learnt]) -> Figure | None:
    """A panel for each row and corpus: all starts, the objective on the left and held-out likelihood on the right."""
    from pyrogram.viz import plot_bound

    groups: dict[tuple[str, tuple[int, ...]], list[Learnt]] = {}
    for key, run in learnt.items():
        groups.setdefault((key.row, key.languages), []).append(run)
    if not groups:
        return None
    labels = {row.name: row.label for row in study.rows}
    figure, panels = _panels(len(groups), 3, 5.0, 3.0)
    for panel, ((row, numbers), runs) in zip(panels, groups.items(), strict=True):
        plot_bound([r.curves["objective"] for r in runs], held_out=[r.curves["held_out"] for r in runs], ax=panel)
        later = [value for r in runs for value in r.curves["objective"][1:] if math.isfinite(value)]
        if later:  # the first value, of a start, may be so low that nothing else is seen
            margin = 0.05 * (max(later) - min(later)) + 1e-9
            panel.set_ylim(min(later) - margin, max(later) + margin)
        corpus = f", {Path(study.languages[numbers[0]].name).name}" if len(study.languages) > 1 == len(numbers) else ""
        panel.set_title(f"{labels[row]}{corpus}", fontsize="medium")
        legend = panel.get_legend()
        if legend is not None:
            legend.remove()
    figure.suptitle("objective (blue, left) and held-out log-likelihood (orange, right), nats; the mean is thick")
    return figure


def _best(study: Study, learnt: Mapping[Key, Learnt], rows: Sequence[str]) -> Iterator[tuple[str, Language, Learnt]]:
    """Of the first row that was learnt, for each language alone, the start with the most likely held-out sentences."""
    for i, language in enumerate(study.languages):
        for row in rows:
            runs = [l for key, l in learnt.items() if key.row == row and key.languages == (i,)]
            if runs:
                yield row, language, max(runs, key=lambda l: l.held_out)
                break


def _covariance(study: Study, learnt: Mapping[Key, Learnt]) -> Figure | None:
    """Correlations of the root's children, and of the children of the most frequent tag on each side."""
    from pyrogram.viz import plot_covariance

    best = [
        (row, language, run.parameters)
        for row, language, run in _best(study, learnt, ("ln-families", "ln"))
        if "covariance.root" in run.parameters
    ]
    if not best:
        return None
    figure, panels = _panels(3 * len(best), 3, 6.0, 5.6)
    for (row, language, parameters), start in zip(best, range(0, len(panels), 3), strict=True):
        head, tags = _most_frequent(language, _WITH_CHILDREN), language.short.vocab.symbols
        matrices = {"root": parameters["covariance.root"]}
        for d, side in enumerate(("left", "right")):
            matrices[f"attach[{tags[head]}, {side}]"] = parameters["covariance.attach"][head, d]
        for panel, (name, matrix) in zip(panels[start : start + 3], matrices.items(), strict=True):
            title = f"correlations in {name}\n{row}, {Path(language.name).name}"
            plot_covariance(
                matrix, tags, families=language.families, correlation=True, diagonal=False, ax=panel, title=title
            )
    return figure


def _experts(study: Study, learnt: Mapping[Key, Learnt]) -> Figure | None:
    """What a tag's own expert and the one that its family shares contribute to its children on the right."""
    from pyrogram.viz import plot_experts

    tied = [row for row in study.rows if row.ties and not row.bilingual]
    best = list(_best(study, learnt, [row.name for row in tied]))
    if not best:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.6 * len(best)), layout="constrained")
    grid = figure.subplots(2 * len(best), 1, squeeze=False)[:, 0]
    for i, (name, language, run) in enumerate(best):
        row = next(row for row in tied if row.name == name)
        tie, families = TIES[row.ties[0]]
        head, tags = _most_frequent(language, families), language.short.vocab.symbols
        experts = {
            f"{tags[head]}'s own": run.parameters["loc.experts.attach"][head, 1],
            f"shared by {tie}s": run.parameters[f"loc.experts.attach.{tie}"][1],
        }
        title = f"{row.label}, {Path(language.name).name}: attach[{tags[head]}, right]"
        plot_experts(experts, tags, greatest=min(GREATEST, len(tags)), axes=(grid[2 * i], grid[2 * i + 1]), title=title)
    return figure


def _most_frequent(language: Language, families: frozenset[str]) -> int:
    """The most frequent tag of the training sentences: of some families, if it is known which tags are of these."""
    words = language.short.words
    counts = torch.bincount(words[words >= 0], minlength=len(language.short.vocab))
    if language.families is not None:
        counts = counts * torch.tensor([family in families for family in language.families])
    return int(counts.argmax())
