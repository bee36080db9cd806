# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The tables of a reproduction: means and spreads over starts beside a paper's figures, and which orderings hold."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyrogram.choices import DECODERS
from pyrogram.cli.io.files import write_file
from pyrogram.printable import plural
from reproductions.induction.learning import PARTS
from reproductions.induction.notes import notes
from reproductions.induction.parses import ErrorShare, Signs, errors_of, signs_of
from reproductions.induction.published import BINS, COMPARED, PUBLISHED, Published
from reproductions.induction.study import Study
from reproductions.induction.systems import Row
from reproductions.shared.store import Key, Result


@dataclass(frozen=True)
class Cell:
    """A number of a table, in percent.

    :param spread: standard deviation over starts; None if there is but one.
    :param paper: what the paper has; None if it has none.
    """

    mean: float | None
    spread: float | None
    paper: float | None


@dataclass(frozen=True)
class Line:
    """A row of a table, with a cell for each decoder and bin of lengths."""

    row: Row
    starts: int
    cells: Mapping[tuple[str, int], Cell]


@dataclass(frozen=True)
class Ordering:
    """A row compared with another, start by start.

    :param paper: the difference in the paper, in points, for each bin in COMPARED.
    :param here: mean and standard deviation of the differences (None if there is but one).
    :param higher: in how many of the starts the row is better.
    """

    better: str
    worse: str
    starts: int
    paper: tuple[float | None, ...]
    here: tuple[tuple[float, float | None], ...]
    higher: tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """All rows on one part of one corpus."""

    language: int
    part: str
    title: str
    lines: tuple[Line, ...]
    orderings: tuple[Ordering, ...]
    signs: tuple[Signs, ...]
    errors: tuple[ErrorShare, ...]


@dataclass(frozen=True)
class Report:
    """What a reproduction tells.

    :param notes: footnotes.
    """

    title: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


def make_report(study: Study, results: Mapping[Key, Result]) -> Report:
    """Tables of all parts of all corpora."""
    published = PUBLISHED[study.settings.table]
    tables = []
    for i, language in enumerate(study.languages):
        for part, corpus in language.parts.items():
            known = _values(results, i, part)
            lines = tuple(_line(row, known[row.name], published, i) for row in study.rows if row.name in known)
            bounds = [f"{len(corpus.filter(b)):,} of at most {b}" for b in BINS if b is not None]
            size = f"{plural(len(corpus), 'sentence')}, {', '.join(bounds)} words"
            title = f"{language.name}, {PARTS[part]} ({size})"
            orderings = _orderings(study.rows, known, published, i)
            told = signs_of(study, results, i, part), errors_of(study, results, i, part)
            tables.append(Table(i, part, title, lines, orderings, *told))
    title = f"Directed accuracy in %{', beside' if published.figures else ':'} {published.source}"
    return Report(title, tuple(tables), notes(study, results))


_Values = dict[str, list[dict[tuple[str, int], float | None]]]


def _values(results: Mapping[Key, Result], language: int, part: str) -> _Values:
    """Accuracies in percent: by row, for each start, by decoder and bin."""
    by_row: _Values = {}
    for key, result in results.items():
        if language in key.languages:
            scores = [s for s in result.scores if (s.language, s.part) == (language, part)]
            percent = {
                (s.decoder, BINS.index(s.max_length)): None if s.directed is None else 100 * s.directed for s in scores
            }
            by_row.setdefault(key.row, []).append(percent)
    return by_row


def _line(row: Row, starts: Sequence[Mapping[tuple[str, int], float | None]], published: Published, text: int) -> Line:
    cells: dict[tuple[str, int], Cell] = {}
    for decoder in DECODERS:
        paper = published.accuracy(row.name, text, decoder)
        for b in range(len(BINS)):
            values = [v for start in starts if (v := start[decoder, b]) is not None]
            mean = statistics.fmean(values) if values else None
            spread = statistics.stdev(values) if len(values) > 1 else None
            cells[decoder, b] = Cell(mean, spread, paper[b])
    return Line(row, len(starts), cells)


def _orderings(rows: Sequence[Row], known: _Values, published: Published, text: int) -> tuple[Ordering, ...]:
    """Of minimum Bayes risk decoding, which both papers report."""
    orderings = []
    for row in rows:
        if row.above not in known or row.name not in known:
            continue
        better, worse = known[row.name], known[row.above]
        if len(worse) == 1:  # the same for every start
            worse = worse * len(better)
        ours, theirs = (published.accuracy(name, text, "mbr") for name in (row.name, row.above))
        paper, here, higher = [], [], []
        for b in COMPARED:
            pairs = [(p["mbr", b], q["mbr", b]) for p, q in zip(better, worse, strict=True)]
            gaps = [p - q for p, q in pairs if p is not None and q is not None]
            if not gaps:
                break
            p, q = ours[b], theirs[b]
            paper.append(None if p is None or q is None else p - q)
            here.append((statistics.fmean(gaps), statistics.stdev(gaps) if len(gaps) > 1 else None))
            higher.append(sum(gap > 0 for gap in gaps))
        else:
            names = row.name, row.above, len(better)
            orderings.append(Ordering(*names, tuple(paper), tuple(here), tuple(higher)))
    return tuple(orderings)


def length_name(bound: int | None) -> str:
    """A bin of lengths, for a heading."""
    return "all" if bound is None else f"≤ {bound}"


def starts_csv(study: Study, results: Mapping[Key, Result]) -> str:
    """All scores of all starts; fractions, and nats. What does not apply is empty."""
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    kinds = ["directed", "undirected", "root"]
    about = ["alpha", "iterations", "held_out"]
    head = ["row", "start", "corpus", "part", "decoder", "max_length", "sentences", "words"]
    out.writerow([*head, *kinds, *about])
    for key, result in results.items():
        # Rows that need no loop have none of these.
        run = [result.alpha, result.iterations, result.held_out] if result.iterations else [None] * 3
        for s in result.scores:
            name = study.languages[s.language].name
            where = [key.row, key.start, name, s.part, s.decoder, s.max_length or "all", s.sentences, s.words]
            out.writerow([*where, *(getattr(s, kind) for kind in kinds), *run])
    return file.getvalue()


def table_csv(study: Study, report: Report) -> str:
    """Means and spreads beside the paper's figures, in percent."""
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["corpus", "part", "row", "decoder", "max_length", "starts", "mean", "deviation", "paper"])
    for table in report.tables:
        name = study.languages[table.language].name
        for line in table.lines:
            for (decoder, b), cell in line.cells.items():
                where = [name, table.part, line.row.name, decoder, BINS[b] or "all", line.starts]
                out.writerow([*where, cell.mean, cell.spread, cell.paper])
    return file.getvalue()


def write_tables(out: Path, study: Study, results: Mapping[Key, Result], report: Report, text: str) -> None:
    """Write the files of a folder that are for readers.

    :param text: the report as Markdown.
    """
    texts = {"results.csv": starts_csv(study, results), "table.csv": table_csv(study, report), "table.md": text}
    for name, content in texts.items():
        write_file(out / name, content.encode())
