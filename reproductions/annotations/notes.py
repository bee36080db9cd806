# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Footnotes of the experiment with latent annotations, and its Figure 7."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.printable import plural
from reproductions.annotations.treebank import LONGEST, THRESHOLD, annotated, short, treebank_of
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key, Result
from reproductions.shared.tables import mean_and_spread, values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reproductions.annotations.experiment import Annotations

METHODS = {"em": "EM", "vb": "VB", "cvb": "CVB", "variable-cvb": "CVB over nodes"}
BASE = "base"
NOISE = 0.01
SURE = 20  # iterations before any stop: subtypes that have hardly begun to differ gain next to nothing


def all_notes(study: Annotations, results: Mapping[Key, Any]) -> Sequence[str]:
    """All of them."""
    best = best_on_dev(results)
    lines = (_about_paper(study), *_about_data(study), *_about_learning(study, results), *_about_scores(study))
    named = "; ".join(f"{row}: {k.start} ({100 * r.metrics['f1']:.1f})" for row, (k, r) in best.items())
    return (*lines, f"starts with the best F1 on --dev, as the paper reports (their F1): {named}.") if named else lines


def best_on_dev(results: Mapping[Key, Result]) -> dict[str, tuple[Key, Result]]:
    """By row, the start with the best F1 on the development part; the first of equals."""
    best: dict[str, tuple[Key, Result]] = {}
    for key, result in results.items():
        if key.row != BASE and not math.isnan(mine := result.metrics["dev_f1"]):
            if key.row not in best or mine > best[key.row][1].metrics["dev_f1"]:
                best[key.row] = key, result
    return best


def _about_paper(study: Annotations) -> str:
    trees = len(treebank_of(study.files).parts["train"])
    return (
        "paper: Wang and Blunsom (2013), Table 1: Wall Street Journal, section 23, the best of 5 starts on section 22, "
        f"learnt from the 39,832 trees of sections 2-21, where there are {trees:,} here. Its Figure 7 has no numbers, "
        "and it does not say what α is, nor how sentences are parsed. Compare the rows with one another first."
    )


def _about_data(study: Annotations) -> tuple[str, ...]:
    bank = treebank_of(study.files)
    grammar, trees, held_out = annotated(study.files, 1)
    known, rules = bank.known, grammar.cfg.rules
    events = {k: LatentAnnotations(grammar.cfg, k).rules.num_events for k in study.subtypes}
    told = ", ".join(f"{count:,} ({k})" for k, count in events.items())
    lexical = sum(len(right) == 1 and right[0] not in grammar.num_subtypes for _, right in rules)
    return (
        f"learnt from {plural(len(trees), 'tree')} of {study.files.train.name}, without traces and "
        f"function tags, binarised to "
        f"the right, new nodes with their parent's label alone, chains of phrases made one: "
        f"{plural(len(rules), 'rule')}, "
        f"{lexical:,} of them of words; with subtypes, {told} rules.",
        f"words that occur once in training, and unknown ones, are replaced by one of "
        f"{plural(len(known.classes), 'class')} by "
        "capitals, digits, hyphens and endings, where the paper has one for all; "
        f"{plural(len(known.words), 'word is', 'words are')} kept.",
        f"held-out trees: the {len(held_out)} of {len(bank.parts['dev'])} of {study.files.dev.name} that have no rule "
        "that is new.",
    )


def _about_learning(study: Annotations, results: Mapping[Key, Any]) -> tuple[str, ...]:
    starts = max((key.start for key in results), default=0)
    told = f"mean and standard deviation over {starts} starts, the same for every row" if starts > 1 else "one start"
    cut = dict.fromkeys(
        key.row for key, r in results.items() if r.iterations >= study.steps and "num_steps" in r.stopped
    )
    so_did = f" (so did {', '.join(cut)})" if cut else ""
    return (
        f"{told} of one number of subtypes: the treebank's grammar, its weights changed by up to {100 * NOISE:g} %.",
        f"α = {study.alpha:g} for every annotated rule; EM has no prior.",
        f"a run ends, after {SURE} iterations at the least, when held-out trees have not become more likely for "
        f"{plural(study.patience, 'iteration')}, or when the objective changes by less than "
        f"{study.tolerance:g} of itself, or "
        f"after {plural(study.steps, 'iteration')}{so_did}; it goes back to where held-out trees "
        f"were most likely. Without this, "
        "EM overfits.",
    )


def _about_scores(study: Annotations) -> tuple[str, ...]:
    tests = short(treebank_of(study.files), "test")
    return (
        f"scores: PARSEVAL by EVALB's conventions on the {plural(len(tests), 'sentence')} of "
        f"{study.files.test.name} of at most "
        f"{LONGEST} words; parses have the greatest product of posteriors of rules (max-rule); symbols over spans with "
        f"a posterior below {THRESHOLD:g} under the treebank's grammar are not looked at. Like EVALB, the scores leave "
        "out sentences without a parse, and those whose parse takes other words for punctuation.",
        "seconds: of processor time, in one thread, for learning, held-out trees included, without reading or parsing.",
        "objectives of different rows are different quantities.",
    )


def figure_7(study: Annotations, results: Mapping[Key, Learnt]) -> Figure | None:
    """F1 against the number of subtypes: means over starts with standard deviations; None if there is no F1."""
    from matplotlib.figure import Figure

    f1 = next(measure for measure in study.measures if measure.name == "f1")
    lines = {}
    for method in METHODS:
        known = {k: values(results, f"{method}-{k}", f1) for k in sorted(study.subtypes)}
        lines[method] = {k: mean_and_spread(scores) for k, scores in known.items() if scores}
    if not any(lines.values()):
        return None
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    ax = figure.subplots()
    for i, (method, points) in enumerate(lines.items()):
        if points:
            x = [math.log2(k) + 0.025 * (i - 1.5) for k in points]  # beside one another, not one over the other
            y, spread = zip(*points.values(), strict=True)
            errors = [0.0 if math.isnan(s) else s for s in spread]
            ax.errorbar(x, y, errors, marker="o", markersize=4, capsize=3, linewidth=1.2, label=METHODS[method])
    base = values(results, BASE, f1)
    if base:
        ax.axhline(base[0], color="0.5", linewidth=1.0, linestyle="--", label="treebank grammar")
    ax.set_xticks([math.log2(k) for k in sorted(study.subtypes)], [str(k) for k in sorted(study.subtypes)])
    ax.set_xlabel("subtypes of every symbol")
    ax.set_ylabel("labelled F1, %")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return figure
