# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How well predicted phrase structure agrees with gold: PARSEVAL, by the conventions of EVALB's ``COLLINS.prm``.

Trees are ``nltk.Tree``, or anything with ``label()`` and children that are such trees or strings. A *bracket* is a
label with the words that it spans. What counts:

* nodes above phrases or words, but not tags (the nodes right above a word);
* not the top node, if its label is one of ``top_labels``; a treebank's own S on top counts;
* spans over words that are no punctuation: words whose tag is in ``punctuation`` are taken out before spans are
  counted, and brackets of nothing else with them;
* ADVP and PRT are the same label (``equal_labels``);
* brackets are multisets: a chain NP over NP is two brackets, and a predicted one matches only one of them;
* a sentence's length counts punctuation.

A sentence is *skipped*, and counts in no score, if it has no parse, if it is nothing but punctuation, or if the
predicted tags take out other words than the gold tags do. EVALB's summary leaves out the same sentences, as "Error" and
"Skip". A parser that fails on hard sentences therefore looks better: read the scores with the number of skipped ones.
Precision, recall and their harmonic mean F1 are of all brackets together (micro-averages). A sentence is an *exact
match* if all its brackets are right; tags play no part in it. A predicted bracket *crosses* if it overlaps a gold one
and neither holds the other.

**References:**

[1] Black et al. (1991), "A Procedure for Quantitatively Comparing the Syntactic Coverage of English Grammars",
    https://aclanthology.org/H91-1060
[2] Sekine and Collins (1997), EVALB, https://nlp.cs.nyu.edu/evalb/
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrogram.folding import fold

__all__ = ["BracketScores", "Conventions", "ParsevalBin", "brackets", "parseval"]

Bracket = tuple[str, int, int]


@dataclass(frozen=True)
class Conventions:
    """What is left out, and which labels are the same; by default as in ``COLLINS.prm``.

    :param punctuation: tags of words that are taken out.
    :param top_labels: labels of a top node that is no bracket.
    :param equal_labels: from a label to the one that it counts as.
    """

    punctuation: frozenset[str] = frozenset({",", ":", "``", "''", ".", "-NONE-"})
    top_labels: frozenset[str] = frozenset({"TOP", "ROOT", "S1", ""})
    equal_labels: Mapping[str, str] = field(default_factory=lambda: {"PRT": "ADVP"})


COLLINS = Conventions()


@dataclass(frozen=True)
class ParsevalBin:
    """Scores of the sentences of at most ``max_length`` words (of all sentences if that is None).

    ``sentences`` is their number, ``skipped`` the number of those among them that count in no score. Fractions are
    None, never NaN, where there is nothing to divide by. ``crossing`` is the mean number of crossing brackets of a
    sentence, ``no_crossing`` and ``two_crossing`` the fractions of sentences with none and at most two.
    """

    max_length: int | None
    sentences: int
    skipped: int
    precision: float | None
    recall: float | None
    f1: float | None
    unlabelled_precision: float | None
    unlabelled_recall: float | None
    unlabelled_f1: float | None
    exact: float | None
    crossing: float | None
    no_crossing: float | None
    two_crossing: float | None
    tagging: float | None


@dataclass(frozen=True)
class BracketScores:
    """A table of scores, one row for each bin of lengths; ``print`` shows it in percent."""

    bins: tuple[ParsevalBin, ...]

    def __iter__(self) -> Iterator[ParsevalBin]:
        return iter(self.bins)

    def __len__(self) -> int:
        return len(self.bins)

    def __getitem__(self, index: int) -> ParsevalBin:
        return self.bins[index]

    def __str__(self) -> str:
        lines = ["length  sentences  skipped  precision  recall     F1  unlabelled F1  exact  crossing  tagging"]
        for b in self.bins:
            length = "all" if b.max_length is None else f"<={b.max_length}"
            labelled = f"{_percent(b.precision):>11}{_percent(b.recall):>8}{_percent(b.f1):>7}"
            crossing = "-" if b.crossing is None else f"{b.crossing:.2f}"
            lines.append(
                f"{length:>6}{b.sentences:>11}{b.skipped:>9}{labelled}{_percent(b.unlabelled_f1):>15}{_percent(b.exact):>7}"
                f"{crossing:>10}{_percent(b.tagging):>9}"
            )
        return "\n".join(lines)


def parseval(
    predicted: Sequence[Any],
    gold: Sequence[Any],
    bins: Sequence[int | None] = (10, 20, 40, None),
    conventions: Conventions = COLLINS,
) -> BracketScores:
    """PARSEVAL scores of the sentences up to each length; bins are cumulative.

    :param predicted: trees; None for a sentence without a parse, which is skipped.
    :param gold: trees of the same sentences.
    :param bins: greatest lengths, punctuation included; None stands for all sentences.
    :raises ValueError: if the trees are not of the same number of sentences, or words.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"predicted and gold must hold the same sentences, got {len(predicted)} and {len(gold)}")
    compared = [_compare(i, p, g, conventions) for i, (p, g) in enumerate(zip(predicted, gold, strict=True))]
    return BracketScores(tuple(_bin(compared, bound) for bound in bins))


def brackets(tree: Any, *, keep: Sequence[bool] | None = None, conventions: Conventions = COLLINS) -> Counter[Bracket]:
    """The brackets ``(label, i, k)`` of a tree, over the words i .. k - 1 of those that are kept.

    :param keep: which words are; by default those whose tag in this tree is no punctuation.
    """
    if keep is None:
        keep = [tag not in conventions.punctuation for tag in _tags(tree)]
    position = [0]
    for kept in keep:
        position.append(position[-1] + bool(kept))
    counts: Counter[Bracket] = Counter()
    words = itertools.count()

    def count_bracket(node: Any, spans: list[tuple[int, int]]) -> tuple[int, int]:
        start, end = (spans[0][0], spans[-1][1]) if spans else (0, 0)
        label = node.label()
        top = node is tree and label in conventions.top_labels
        if not (_is_tag(node) or top or position[start] == position[end]):
            counts[conventions.equal_labels.get(label, label), position[start], position[end]] += 1
        return start, end

    def span(word: Any) -> tuple[int, int]:
        i = next(words)
        return i, i + 1

    fold(tree, span, count_bracket)
    return counts


@dataclass(frozen=True)
class _Compared:
    """What two trees of a sentence have in common; of a sentence that is skipped, zeros and its length."""

    length: int
    skipped: bool = True
    predicted: int = 0
    gold: int = 0
    matched: int = 0
    unlabelled: int = 0
    crossing: int = 0
    tags: int = 0
    right_tags: int = 0


def _compare(number: int, predicted: Any, gold: Any, conventions: Conventions) -> _Compared:
    gold_tags = _tags(gold)
    length = sum(tag != "-NONE-" for tag in gold_tags)
    if predicted is None:
        return _Compared(length)
    tags = _tags(predicted)
    if len(tags) != len(gold_tags):
        raise ValueError(
            f"predicted and gold must have the same words, but in sentence {number} they have {len(tags)} and "
            f"{len(gold_tags)}"
        )
    keep = [tag not in conventions.punctuation for tag in gold_tags]
    if not any(keep) or keep != [tag not in conventions.punctuation for tag in tags]:
        return _Compared(length)
    truth = brackets(gold, keep=keep, conventions=conventions)
    guess = brackets(predicted, keep=keep, conventions=conventions)
    spans: Counter[tuple[int, int]] = Counter()
    true_spans: Counter[tuple[int, int]] = Counter()
    for counted, by_label in ((spans, guess), (true_spans, truth)):
        for (_, i, k), count in by_label.items():
            counted[i, k] += count
    crossing = sum(
        count for (i, k), count in spans.items() if any(i < a < k < b or a < i < b < k for a, b in true_spans)
    )
    return _Compared(
        length,
        skipped=False,
        predicted=guess.total(),
        gold=truth.total(),
        matched=(guess & truth).total(),
        unlabelled=(spans & true_spans).total(),
        crossing=crossing,
        tags=sum(keep),
        right_tags=sum(k and p == g for k, p, g in zip(keep, tags, gold_tags, strict=True)),
    )


def _bin(compared: Sequence[_Compared], bound: int | None) -> ParsevalBin:
    short = [c for c in compared if bound is None or c.length <= bound]
    chosen = [c for c in short if not c.skipped]
    n = len(chosen)
    predicted, gold, matched, unlabelled = (
        sum(getattr(c, name) for c in chosen) for name in ("predicted", "gold", "matched", "unlabelled")
    )
    return ParsevalBin(
        max_length=bound,
        sentences=len(short),
        skipped=len(short) - n,
        precision=_ratio(matched, predicted),
        recall=_ratio(matched, gold),
        f1=_ratio(2 * matched, predicted + gold),
        unlabelled_precision=_ratio(unlabelled, predicted),
        unlabelled_recall=_ratio(unlabelled, gold),
        unlabelled_f1=_ratio(2 * unlabelled, predicted + gold),
        exact=_ratio(sum(c.matched == c.predicted == c.gold for c in chosen), n),
        crossing=_ratio(sum(c.crossing for c in chosen), n),
        no_crossing=_ratio(sum(c.crossing == 0 for c in chosen), n),
        two_crossing=_ratio(sum(c.crossing <= 2 for c in chosen), n),
        tagging=_ratio(sum(c.right_tags for c in chosen), sum(c.tags for c in chosen)),
    )


def _ratio(count: int, total: int) -> float | None:
    return count / total if total else None


def _tags(tree: Any) -> list[str]:
    """The tag of every word; that of a word that hangs on a phrase, beside others, is the phrase's label."""
    tags = []
    agenda = [(tree, "")]
    while agenda:
        node, above = agenda.pop()
        if isinstance(node, str):
            tags.append(above)
        else:
            agenda.extend((child, str(node.label())) for child in reversed(node))
    return tags


def _is_tag(node: Any) -> bool:
    return len(node) == 1 and isinstance(node[0], str)


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.1f}"
