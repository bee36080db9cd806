# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Footnotes of the table of priors of the lexicalised dependency model."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyrogram.grammars.lexical_dependencies import SITES
from pyrogram.printable import plural
from reproductions.shared.store import Key
from reproductions.shared.treebanks import SAMPLES, about_data

if TYPE_CHECKING:
    from reproductions.pitman_yor.experiment import PitmanYorTable

EISNER = "dirichlet-fixed-maximal"
UNTAGGED = "pitman-yor-sampled-minimal-untagged"  # tags of test sentences are found with their trees (footnote 2)
_PAPER_REDUCTION = 26
_TOLD = ("pitman-yor-sampled-minimal", "pitman-yor-sampled-exact", "dirichlet-sampled-minimal")


def all_notes(study: PitmanYorTable, results: Mapping[Key, Any]) -> tuple[str, ...]:
    """Footnotes."""
    return (*_about_paper(study), *_about_learning(study, results), *_about_scores(), *_about_results(results))


def _about_paper(study: PitmanYorTable) -> tuple[str, ...]:
    return (
        "paper: Table 2, Wall Street Journal, sections 2-21 (39,832 sentences) for training and 23 for test, with a "
        "tagger's tags in test sentences, one chain. Compare the rows with one another first. Its figures for the "
        "Dirichlet with maximal paths could not be read; 80.7 is where its error reduction of 26 % to 85.7 begins.",
        *about_data(study.train, study.test, len(study.lexicon), study.unseen),
        f"tags: {len(study.tag_names)} ({study.tags}), the gold ones of training and {_whose_tags(study)}.",
    )


def _whose_tags(study: PitmanYorTable) -> str:
    if not study.tagged:
        return "of test sentences"
    right = (study.test_tags == study.test.tags)[study.test.is_scored].double().mean()
    return f"those of a bigram tagger in test sentences, of which {100 * float(right):.1f} % are right"


def _about_learning(study: PitmanYorTable, results: Mapping[Key, Any]) -> tuple[str, ...]:
    starts = max((key.start for key in results), default=0)
    told = f"mean and standard deviation over {starts} chains" if starts > 1 else "one chain"
    return (
        f"{told} of {plural(study.steps, 'step')}, whose last state parses. With fixed α and ε, "
        f"minimal and maximal paths leave "
        "nothing to be sampled but trees.",
        "fixed: α = 0.5 for the coarsest context and 3 for finer ones, as Eisner has it, and ε = 0.1 with Pitman-Yor. "
        "sampled: ε ~ Beta(1, 1), α + ε ~ Gamma(1, 0.1), slice-sampled. maximal with Dirichlet, fixed α, is Eisner's "
        "model.",
        "minimal and maximal paths: α and ε are sampled given the product of the predictive probabilities of the "
        "training events one after the other: given the internal draws of maximal paths, α would grow without limit. "
        "exact: the seats are sampled, too, and α and ε given them.",
    )


def _about_scores() -> tuple[str, ...]:
    return (
        "max. prob.: of the tree of greatest probability, as in the paper; MBR: of that with most right heads to be "
        f"expected; sampled: mean accuracy of {SAMPLES} independent trees of each sentence from Eq. 10, the proposals "
        "of the paper's sampler, which it has no figures for. A head that is punctuation counts as wrong.",
        "nats per token: log P(tags, words, cases) of the test sentences, summed over all trees, punctuation included; "
        "not to be compared between rules for unseen words.",
    )


def _about_results(results: Mapping[Key, Any]) -> tuple[str, ...]:
    lines = []
    right = _mean(results, UNTAGGED, "right_tags")
    if right is not None:
        lines.append(
            f"{UNTAGGED}: tags of test sentences are found with the trees, by one chart over both; {100 * right:.1f} % "
            'of them are right. The paper has no figures for it: "very similar performance" to a tagger\'s tags '
            "(footnote 2)."
        )
    base = _mean(results, EISNER, "probable")
    gains = [
        f"{row} {100 * (v - base) / (1 - base):.0f} %"
        for row in _TOLD
        if base and base < 1 and (v := _mean(results, row, "probable"))
    ]
    if gains:
        lines.append(
            f"errors that max. prob. has less than {EISNER}: {', '.join(gains)} "
            f"(paper: pitman-yor-sampled-minimal {_PAPER_REDUCTION} %)."
        )
    for row in _TOLD:
        levels = [
            f"{site} {_levels(results, row, site)}"
            for site in SITES
            if _mean(results, row, f"{site}_alpha_0") is not None
        ]
        if levels:
            lines.append(f"α (ε) of {row}, coarsest context first, means over chains: {'; '.join(levels)}.")
    return tuple(lines)


def _levels(results: Mapping[Key, Any], row: str, site: str) -> str:
    told, level = [], 0
    while (alpha := _mean(results, row, f"{site}_alpha_{level}")) is not None:
        epsilon = _mean(results, row, f"{site}_epsilon_{level}")
        told.append(f"{alpha:.2f} ({epsilon:.2f})")
        level += 1
    return ", ".join(told)


def _mean(results: Mapping[Key, Any], row: str, name: str) -> float | None:
    values = [r.metrics[name] for key, r in results.items() if key.row == row and name in r.metrics]
    return statistics.fmean(values) if values else None
