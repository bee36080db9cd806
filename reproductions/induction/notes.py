# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a reader of a reproduction's tables must know: the footnotes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pyrogram.cli.runs.report import SUPERVISED
from pyrogram.printable import plural
from reproductions.induction.published import PUBLISHED
from reproductions.induction.study import Study
from reproductions.induction.systems import MAP_GRID, VB_GRID
from reproductions.shared.store import Key, Result

_GRIDS = {"em-map": MAP_GRID, "vb": VB_GRID}


def notes(study: Study, results: Mapping[Key, Result]) -> tuple[str, ...]:
    """The footnotes, each a sentence or two."""
    return (
        _about_paper(study),
        _about_learning(study),
        *([SUPERVISED] if any(row.name == "supervised" for row in study.rows) else []),
        _about_starts(study),
        _about_stopping(study),
        *_about_alphas(results),
        *_about_plates(study),
        *_about_ties(study),
        *_about_samplers(study, results),
        *_about_ends(study, results),
        *_about_parses(results),
    )


def _about_paper(study: Study) -> str:
    published = PUBLISHED[study.settings.table]
    if not published.figures:
        return f"{published.source}, has bars without numbers, so there is nothing to print beside these."
    texts = published.texts[: len(study.languages)]
    return (
        f"paper: {published.source}: {'; '.join(texts)}, one start, learnt from other and more sentences than these. "
        "Compare the rows of a table with one another before you compare them with the paper."
    )


def _about_learning(study: Study) -> str:
    common = study.settings.common
    sizes = [
        f"{plural(len(l.short), 'sentence')} of at most {plural(common.max_length, 'word')} of {l.name}"
        for l in study.languages
    ]
    alphabet = "; both corpora have one alphabet, that of their union" if len(study.languages) > 1 else ""
    supervised = any(row.name == "supervised" for row in study.rows)
    seen = ", but by the supervised DMV" if supervised else ""
    what = f"learnt from the {common.tags} tags of {' and '.join(sizes)}{alphabet}"
    pooled = " Held-out and test sentences are among them: they are one corpus." * study.settings.pooled
    return f"{what}. Their heads were not seen{seen}.{pooled}"


def _about_starts(study: Study) -> str:
    common = study.settings.common
    if common.starts == 1:
        return "one start: differences between rows may well be chance; --starts 10 shows the spread."
    what = "random weights" if common.init == "random" else f"the {common.init} initialiser and, from the second on, it"
    noise = "" if common.init == "random" else f" times noise of deviation {common.noise:g} on the logarithms"
    return f"mean and standard deviation over {plural(common.starts, 'start')}, the same for every row: {what}{noise}."


def _about_stopping(study: Study) -> str:
    common, bound = study.settings.common, study.settings.dev_max_length
    sizes = " and ".join(f"{len(l.dev):,}" for l in study.languages)
    short = "" if bound is None else f" of at most {plural(bound, 'word')}"
    wait = "an iteration" if common.patience == 1 else plural(common.patience, "iteration")
    gain = f"or when the objective gains less than {common.tolerance:g} of itself, " if common.tolerance else ""
    return (
        f"a run ends when the {sizes} held-out sentences{short} have not become more likely for {wait}, and goes back "
        f"to its best state, {gain}or after {plural(common.steps, 'iteration')}."
    )


def _about_alphas(results: Mapping[Key, Result]) -> list[str]:
    """Which concentrations were chosen, how often."""
    lines = []
    for row, grid in _GRIDS.items():
        chosen = Counter(result.alpha for key, result in results.items() if key.row == row and result.alpha is not None)
        if chosen:
            how = ", ".join(f"{alpha:g} ({times})" for alpha, times in sorted(chosen.items()))
            points = ", ".join(f"{alpha:g}" for alpha in grid)
            lines.append(
                f"{row}: α is chosen for every start by held-out likelihood from {points}; chosen (starts): {how}."
            )
    return lines


def _about_plates(study: Study) -> list[str]:
    names = {row.name for row in study.rows}
    if not names & {"ln", "ln-families"}:
        return []
    return [
        "the log-normal rows draw the weights of the grammar for every sentence, the rows above them have one set for "
        "the corpus, both as in the paper: what lies between them is the plate as well as the prior."
    ]


def _about_ties(study: Study) -> list[str]:
    if not any(row.ties for row in study.rows):
        return []
    return ["the rows SLN go on from LN of the same start, as in the paper; the experts that tie start at means."]


def _about_samplers(study: Study, results: Mapping[Key, Result]) -> list[str]:
    """How often proposals were accepted, and what is averaged."""
    accepted: dict[str, list[float]] = {}
    for key, result in results.items():
        if "acceptance" in result.metrics:
            accepted.setdefault(key.row, []).append(result.metrics["acceptance"])
    if not accepted or study.settings.sweeps is None:
        return []
    told = ", ".join(f"{row} {100 * sum(rates) / len(rates):.1f} %" for row, rates in accepted.items())
    return [
        f"Hastings: weights are averaged over the second half of "
        f"{plural(study.settings.sweeps, 'sweep')}, of which no held-out "
        f"sentence has a say; proposals that were accepted: {told}."
    ]


def _about_ends(study: Study, results: Mapping[Key, Result]) -> list[str]:
    """Runs that were cut off, for their numbers are not those of a finished run."""
    limit = f"num_steps={study.settings.common.steps}"
    cut = Counter(key.row for key, result in results.items() if result.stopped.startswith(limit))
    if not cut:
        return []
    told = ", ".join(f"{times} of {row}" for row, times in cut.items())
    return [f"not yet at their end after {plural(study.settings.common.steps, 'iteration')}: {told}; raise --steps."]


def _about_parses(results: Mapping[Key, Result]) -> list[str]:
    """Starts of earlier versions have no parses, and so their rows no sign tests."""
    lacking = sum(not result.heads for result in results.values())
    if not lacking:
        return []
    return [
        f"{plural(lacking, 'start was', 'starts were')} kept by an earlier version without their parses, so their "
        f"rows have no sign tests; "
        "delete their files in starts/ to compute them anew."
    ]
