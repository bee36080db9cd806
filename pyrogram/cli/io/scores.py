# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Scores of predicted trees as text, as JSON and as CSV.

JSON is one object: ``gold``, ``scores`` and ``differences``, of two predicted files. ``scores`` and the rows of CSV
have the same fields: the file, whether punctuation counts, the group (``length`` or ``tag``), its name, how many
sentences and words it has, and fractions of them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyrogram.metrics import AttachmentScores, Bootstrap, SignTest, TagScore
from pyrogram.printable import plural

_NOT_IN_CSV = ("confidence", "seed")  # of a difference


@dataclass(frozen=True)
class TreeScores:
    """Scores of one predicted file, with or without punctuation.

    :param file: its name.
    :param by_tag: empty if the words have no tags.
    """

    file: str
    punctuation: bool
    by_length: AttachmentScores
    by_tag: Sequence[TagScore]

    def rows(self) -> Iterable[dict[str, Any]]:
        """A row for each bin of lengths, and for each tag."""
        where = {"file": self.file, "punctuation": self.punctuation}
        for b in self.by_length:
            numbers = asdict(b)
            bound = numbers.pop("max_length")
            yield {**where, "group": "length", "name": "all" if bound is None else f"<={bound}", **numbers}
        for t in self.by_tag:
            numbers = asdict(t)
            yield {**where, "group": "tag", "name": numbers.pop("tag"), "sentences": None, **numbers, "root": None}


@dataclass(frozen=True)
class Difference:
    """How two predicted files compare, with or without punctuation.

    :param signs: the sign test over ``"words"`` and over ``"sentences"``.
    """

    punctuation: bool
    bootstrap: Bootstrap
    seed: int
    signs: Mapping[str, SignTest]

    def row(self) -> dict[str, Any]:
        """The numbers."""
        signs = {f"{unit}_{name}": x for unit, test in self.signs.items() for name, x in asdict(test).items()}
        return {"punctuation": self.punctuation, **asdict(self.bootstrap), "seed": self.seed, **signs}


def json_text(gold: str, scores: Iterable[Mapping[str, Any]], differences: Iterable[Difference] = ()) -> str:
    """One JSON object."""
    told = {"gold": gold, "scores": list(scores), "differences": [d.row() for d in differences]}
    return json.dumps(told, indent=2) + "\n"


def csv_text(rows: Iterable[Mapping[str, Any]], differences: Iterable[Difference] = ()) -> str:
    """A row for each bin and tag; those of differences of directed accuracy come last, in columns of their own."""
    body = [dict(row) for row in rows]
    for d in differences:
        numbers = {name: x for name, x in d.row().items() if name not in _NOT_IN_CSV}
        body.append({**numbers, "group": "difference"})
    names = list(dict.fromkeys(name for row in body for name in row))
    file = io.StringIO()
    out = csv.DictWriter(file, names, restval="", lineterminator="\n")
    out.writeheader()
    out.writerows(body)
    return file.getvalue()


def text_of(scores: Sequence[TreeScores]) -> str:
    """The tables of one predicted file: by length, without punctuation and with it, and by tag."""
    tables = []
    for score in scores:
        tables.append(f"{'with' if score.punctuation else 'without'} punctuation\n{score.by_length}")
    if scores[0].by_tag:
        tables.append(_by_tag(scores))
    return "\n\n".join(tables)


def _by_tag(scores: Sequence[TreeScores]) -> str:
    """Directed accuracy of the words of every tag."""
    columns = [{t.tag: t for t in score.by_tag} for score in scores]
    order = {t.tag: t.words for score in reversed(scores) for t in reversed(score.by_tag)}
    width = max(map(len, ("tag", *order)))
    names = [f"{'with' if score.punctuation else 'without'} punctuation" for score in scores]
    lines = [f"directed, by tag\n{'tag':<{width}}    words  " + "  ".join(f"{name:>19}" for name in names)]
    for tag in sorted(order, key=lambda tag: (-order[tag], tag)):
        cells = [f"{100 * c[tag].directed:.1f}" if tag in c else "-" for c in columns]
        lines.append(f"{tag:<{width}}{order[tag]:>9}  " + "  ".join(f"{cell:>19}" for cell in cells))
    return "\n".join(lines)


def sentence_of(difference: Difference, first: str, second: str) -> str:
    """A difference in words."""
    b = difference.bootstrap
    how = "with" if difference.punctuation else "without"
    signs = [
        f"better in {plural(test.better, unit.removesuffix('s'))} and worse in {test.worse:,}, p = {test.p_value:.2g}"
        for unit, test in difference.signs.items()
    ]
    return (
        f"{first} minus {second}, {how} punctuation: {100 * b.difference:+.2f} points of directed accuracy, "
        f"{100 * b.confidence:g}% interval {100 * b.low:+.2f} to {100 * b.high:+.2f}, p = {b.p_value:.2g} "
        f"(paired bootstrap of {plural(b.samples, 'sample')} of sentences, seed {difference.seed}); "
        f"{'; '.join(signs)} (sign test)"
    )
