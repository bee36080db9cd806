# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Table 3 of Wallach, Sutton and McCallum (2008), the words of states, and the notes of the experiment."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pyrogram.printable import plural
from pyrogram.viz import draw_topics
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key
from reproductions.shared.treebanks import SAMPLES, about_data
from reproductions.topics.alignment import align_states

if TYPE_CHECKING:
    from reproductions.topics.experiment import Topics

BURN_IN, THIN = 50, 5  # of trees of test sentences
POS = "pos"
_PAPER_STATES, _WORDS, _SHOWN = 150, 10, 20


def states_of(learnt: Learnt) -> Tensor:
    """The states of all training words of a chain, shape ``(T,)``."""
    return learnt.parameters["states"].long()


def topic_files(study: Topics, chains: Mapping[Key, Tensor]) -> dict[str, bytes]:
    """A list of all states of one chain, and a drawing of those that chains agree on most, by file name.

    The chain is the first of the row with as many states as the paper's Table 3, or of the one nearest to that.
    """
    rows = {key.row for key in chains}
    if not rows:
        return {}
    row = min(rows, key=lambda name: abs(int(name.removeprefix("states-")) - _PAPER_STATES))
    states = [chain for key, chain in sorted(chains.items(), key=lambda item: item[0].start) if key.row == row]
    table = _Table(study, states)
    order = sorted(range(table.number), key=lambda k: -float(table.agreed[k]))[:_SHOWN]
    drawing = draw_topics([table.words(k) for k in order], headings=[table.heading(k) for k in order])
    return {"topics.svg": drawing.svg.encode(), "topics.md": _markdown(table, row).encode()}


class _Table:
    """The states of the first chain: their words, their commonest tag, and how far other chains have them, too."""

    def __init__(self, study: Topics, states: Sequence[Tensor]) -> None:
        self.study, self.states = study, states[0]
        real = study.train.words >= 0
        words, tags = study.train.words[real], study.train.tags[real]
        self.number = int(self.states.max()) + 1
        self.sizes = torch.bincount(self.states, minlength=self.number)
        aligned = [align_states(self.states, other) for other in states[1:]]
        self.agreements = [agreement for _, agreement in aligned]
        overlaps = [overlap for overlap, _ in aligned]
        self.overlap = torch.stack(overlaps).mean(0) if overlaps else torch.full((self.number,), torch.nan)
        self.agreed = self.sizes * self.overlap.nan_to_num(1.0)
        self._by_word = _table(self.states, words, self.number, len(study.lexicon))
        self._by_tag = _table(self.states, tags, self.number, len(study.tag_names))

    def words(self, k: int) -> list[str]:
        counts, ids = self._by_word[k].sort(descending=True, stable=True)
        return [self.study.lexicon[i] for i, n in zip(ids[:_WORDS].tolist(), counts.tolist(), strict=False) if n]

    def heading(self, k: int) -> str:
        overlap = float(self.overlap[k])
        return f"{self.tag(k)}" + ("" if overlap != overlap else f", {100 * overlap:.0f} %")

    def tag(self, k: int) -> str:
        return self.study.tag_names[int(self._by_tag[k].argmax())]


def _table(states: Tensor, values: Tensor, K: int, size: int) -> Tensor:
    return torch.bincount(states * size + values.long(), minlength=K * size).reshape(K, size)


def _markdown(table: _Table, row: str) -> str:
    told = whole = ""
    if table.agreements:
        others = plural(len(table.agreements), "other chain")
        told = f"agreement: of a state with the corresponding ones of {others}, mean; "
        shares = ", ".join(f"{100 * a:.0f} %" for a in table.agreements)
        whole = f" Of all words, {shares} have corresponding states."
    lines = [
        f"# {row.removeprefix('states-')} states, chain 1",
        "",
        f"{told}tag: the commonest.{whole}",
        "",
        "| words | agreement % | tag | most likely words |",
        "|---:|---:|---|---|",
    ]
    for k in table.sizes.argsort(descending=True, stable=True).tolist():
        if table.sizes[k]:
            overlap = "" if table.overlap[k].isnan() else f"{100 * float(table.overlap[k]):.0f}"
            words = " ".join(_code(word) for word in table.words(k))
            lines.append(f"| {int(table.sizes[k]):,} | {overlap} | {_code(table.tag(k))} | {words} |")
    return "\n".join(lines) + "\n"


def _code(word: str) -> str:
    """A word in a cell of a Markdown table."""
    ticks = "``" if "`" in word else "`"
    pad = " " if "`" in word else ""
    return f"{ticks}{pad}{word}{pad}{ticks}".replace("|", "\\|")


def v_measure(states: Tensor, tags: Tensor) -> float:
    """How far two clusterings of words are one: harmonic mean of homogeneity and completeness (Rosenberg and
    Hirschberg 2007), from 0 to 1.
    """
    joint = _table(states, tags, int(states.max()) + 1, int(tags.max()) + 1).double() / len(states)

    def entropy(p: Tensor) -> float:
        return -float(torch.xlogy(p, p).sum())

    by_state, by_tag, both = entropy(joint.sum(1)), entropy(joint.sum(0)), entropy(joint)
    shared = by_state + by_tag - both
    return 1.0 if by_state + by_tag == 0 else 2 * shared / (by_state + by_tag)


def _means(study: Topics, results: Mapping[Key, Any], name: str, unit: float, digits: int) -> str:
    """A metric of every row that has it, its mean over chains."""
    told = []
    for trial in study.trials:
        values = [r.metrics[name] for key, r in results.items() if key.row == trial.name and name in r.metrics]
        told += [f"{trial.name} {unit * statistics.fmean(values):.{digits}f}"] if values else []
    return ", ".join(told)


def all_notes(study: Topics, results: Mapping[Key, Any]) -> tuple[str, ...]:
    """Footnotes."""
    return (*_about_paper(study), *_about_learning(study, results), *_about_scores(study, results))


def _about_paper(study: Topics) -> tuple[str, ...]:
    return (
        "paper: Table 4, Wall Street Journal, sections 2-21 (39,832 sentences) for training and 23 for test, one "
        "chain. Compare the rows with one another first.",
        *about_data(study.train, study.test, len(study.lexicon), study.unseen),
    )


def _about_learning(study: Topics, results: Mapping[Key, Any]) -> tuple[str, ...]:
    starts = max((key.start for key in results if key.row != POS), default=0)
    told = f"mean and standard deviation over {starts} chains" if starts > 1 else "one chain"
    return (
        f"{told} of {plural(study.sweeps, 'sweep')}; α m and β are optimised every 10 sweeps, and "
        f"the last sample of states "
        "is taken, as in the paper, which does not say how many sweeps there were, nor what β is.",
        f"part-of-speech tags: {len(study.tag_names)}, the gold ones of training and of test sentences.",
    )


def _about_scores(study: Topics, results: Mapping[Key, Any]) -> tuple[str, ...]:
    rates = [result.metrics["acceptance"] for result in results.values() if "acceptance" in result.metrics]
    rate = f" ({100 * statistics.fmean(rates):.0f} % of the proposals accepted)" if rates else ""
    base = next((r.metrics["sampled"] for key, r in results.items() if key.row == POS), None)
    agreement = _means(study, results, "v_measure", 100, 1)
    seconds = _means(study, results, "seconds", 1, 0)
    lines = [
        f"sampled: mean accuracy of {SAMPLES} sampled trees of each sentence, by Metropolis-Hastings, {BURN_IN} steps "
        f"before the first and {THIN} for each{rate}. max. prob.: of the tree of greatest probability, MBR: of that "
        "with most expected right heads, states summed out.",
    ]
    if agreement:
        lines.append(f"V-measure of the states and the gold tags of training words, %: {agreement}.")
        lines.append(f"seconds of processor time, in one thread, for the sweeps of a chain: {seconds}.")
    if base is not None:
        gaps = []
        for trial in study.trials[1:]:
            differences = [100 * (r.metrics["sampled"] - base) for key, r in results.items() if key.row == trial.name]
            if differences:
                higher = sum(gap > 0 for gap in differences)
                gaps.append(f"{trial.name} {statistics.fmean(differences):+.1f} ({higher}/{len(differences)})")
        if gaps:
            lines.append(
                f"sampled trees, difference to tags, and in how many chains it is positive: {', '.join(gaps)}."
            )
    return tuple(lines)
