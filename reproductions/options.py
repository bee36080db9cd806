# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which options belong to which table of ``pyrogram reproduce``: what plays no part is refused, not passed over.

And what they are where they are not given: by our protocol, or by the papers'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import typer

from pyrogram.cli.io.errors import CommandError


class WhichTable(str, Enum):
    """The tables that can be asked for."""

    lognormal = "lognormal"
    shared = "shared"
    cvb = "cvb"
    pitman_yor = "pitman-yor"
    topics = "topics"
    segmentation = "segmentation"


class WhichProtocol(str, Enum):
    """Whose way of running the experiments: ours, of many starts, or the papers' own."""

    ours = "ours"
    paper = "paper"


@dataclass(frozen=True)
class Protocol:
    """How an experiment is run, as far as no option says otherwise.

    :param starts: of every row, the first of which is the initialiser itself.
    :param steps: most iterations of a run, or steps of a chain.
    :param tolerance: and ``patience``: when a run ends, see :meth:`pyrogram.infer.EM.run`.
    :param unseen: which words have no id.
    :param pooled: whether the sentences of TRAIN, --dev and --test are one corpus to learn from and to be scored on.
    :param tagged: whether test sentences have a tagger's tags instead of the gold ones.
    """

    starts: int = 10
    steps: int = 500
    tolerance: float = 1e-6
    patience: int = 5
    unseen: str = "rare"
    pooled: bool = False
    tagged: bool = False


_OURS = {"annotations": Protocol(steps=100), "pitman-yor": Protocol(steps=50)}
_DEMO = dict.fromkeys(("lognormal", "shared", "cvb", "topics", "segmentation"), Protocol(starts=2))
_DEMO |= {"pitman-yor": Protocol(starts=2, steps=10)}

# "We run the iterative estimation algorithm until the likelihood of a held-out, unannotated dataset stops increasing"
# (2008, section 5): nothing else ends a run, and the number of steps is there for want of an infinite one.
_UNTIL_IT_FALLS = Protocol(starts=1, steps=10_000, tolerance=0.0, patience=1, pooled=True)
_PAPERS = {
    "lognormal": _UNTIL_IT_FALLS,
    "shared": _UNTIL_IT_FALLS,
    "cvb": Protocol(starts=1, pooled=True),  # 2013, section 4.2: one harmonic start; when it ends is not said
    "morphology": Protocol(starts=5),  # Figure 5
    "annotations": Protocol(starts=5, steps=100),  # section 4.3
    "pitman-yor": Protocol(starts=1, steps=50, unseen="test", tagged=True),  # 2008, section 3.2
    "topics": Protocol(starts=1, unseen="test"),  # section 4.3
    "segmentation": Protocol(),  # 20,000 sweeps of another sampler: --sweeps says how many of ours
}


def protocol_of(which: WhichProtocol, experiment: str, demo: bool) -> Protocol:
    """How an experiment is run.

    :param demo: on the built-in corpus, with fewer starts of ours and shorter chains.
    """
    if which is WhichProtocol.paper:
        return _PAPERS[experiment]
    return (_DEMO if demo else _OURS).get(experiment, Protocol())


# Files are checked by who reads them.
_COMMON = {"table", "train", "train2", "dev", "dev2", "test", "test2", "format"}
_COMMON |= {"protocol", "rows", "starts", "seed", "jobs", "out", "resume", "quiet"}
_STOPPING = {"steps", "tolerance", "patience", "smoothing"}
_INDUCTION = _STOPPING | {"tags", "max_length", "dev_max_length", "unknown", "init", "stops", "distance", "noise"}
_NORMALS = {"covariance", "averaging", "point_estimate"}
_USED = {
    "lognormal": _INDUCTION | _NORMALS,
    "shared": _INDUCTION | _NORMALS,
    "cvb": _INDUCTION | {"sweeps"},
    "morphology": {"steps", "tolerance", "sweeps"},
    "annotations": _STOPPING | {"subtypes", "alpha"},
    "pitman-yor": {"steps", "tags", "unseen"},
    "topics": {"sweeps", "states", "tags", "unseen"},
    "segmentation": {"sweeps"},
}


def experiment_of(table: WhichTable, train: Path | None, format: str) -> str:
    """The table, or which of the experiments of cvb a file is for."""
    from pyrogram.cli.io.corpora import format_of

    if table != WhichTable.cvb or train is None or format not in ("auto", "brackets"):
        return table.value
    if train.suffix.lower() == ".tsv" and format == "auto":
        return "morphology"
    return "annotations" if format_of(train, format) == "brackets" else table.value


def refuse_unused(context: typer.Context, experiment: str) -> None:
    """
    :raises CommandError: if an option was given that plays no part in this experiment.
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in _COMMON | _USED[experiment]:
            of = {"morphology": "cvb with segmented words", "annotations": "cvb with bracketed trees"}
            where = f"reproduce {of.get(experiment, experiment)}"
            raise CommandError(f"--{name.replace('_', '-')} plays no part in {where}; leave it out")


def check_files(table: WhichTable, paths: Mapping[str, Path | None]) -> None:
    """
    :raises CommandError: if files of an induction experiment are missing, or are too many.
    """
    train, train2 = paths["train"], paths["train2"]
    if train is None and any(path is not None for path in paths.values()):
        raise CommandError("the built-in corpus brings its own sentences; give TRAIN, or leave out --dev and --test")
    if train is not None and paths["dev"] is None:
        raise CommandError("give --dev: training stops, and α is chosen, by the likelihood of held-out sentences")
    if train2 is not None and table != WhichTable.shared:
        raise CommandError(f"reproduce {table.value} takes one corpus; TRAIN2 is for reproduce shared")
    if train2 is not None and paths["dev2"] is None:
        raise CommandError("give --dev2, held-out sentences of the language of TRAIN2")
    if train2 is None and (paths["dev2"] is not None or paths["test2"] is not None):
        raise CommandError("--dev2 and --test2 are for a second corpus; give TRAIN2, too")
