# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How well predicted dependency trees agree with gold ones, and the two baselines every table needs.

Heads are integer tensors of shape ``(N, n)``, padded with -1 on the right; predicted and gold may be padded
to different widths. All fractions are of *words* (micro-averages), unless they say sentences. As in Klein and
Manning [1], a sentence of n words has n arcs: ROOT's arc counts like any other, for directed and for
undirected accuracy. Sentences without words count nowhere.

**References:**

[1] Klein and Manning (2004), "Corpus-Based Induction of Syntactic Structure", section 2,
    https://aclanthology.org/P04-1061
[2] Cohen, Gimpel and Smith (2008), "Logistic Normal Priors for Unsupervised Probabilistic Grammar Induction",
    Table 1 (Attach-Right, the length bins), https://papers.nips.cc/paper/3575
[3] Cohen and Smith (2009), "Shared Logistic Normal Distributions for Soft Parameter Tying in Unsupervised Grammar
    Induction", Table 1 (the sign test), section 4.1 (errors by parent), https://aclanthology.org/N09-1009
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pyrogram.printable import plural

from .significance import Bootstrap, SignTest, binomial_sign_test, bootstrap_difference


def directed_accuracy(predicted: Int[Tensor, "N n"], gold: Int[Tensor, "N m"]) -> float:
    """Fraction of words with the right head (the attachment accuracy of [2])."""
    return _fraction(_Agreement(predicted, gold).directed)


def undirected_accuracy(predicted: Int[Tensor, "N n"], gold: Int[Tensor, "N m"]) -> float:
    """Fraction of words that gold joins to their predicted head, whichever of the two is the head.

    ROOT is nobody's dependent: a word predicted to hang on it is right only if it does in gold.
    """
    return _fraction(_Agreement(predicted, gold).undirected)


def root_accuracy(predicted: Int[Tensor, "N n"], gold: Int[Tensor, "N m"]) -> float:
    """Fraction of sentences whose ROOT has the right child (all the right children, if it has several)."""
    return _fraction(_Agreement(predicted, gold).root)


def exact_match(predicted: Int[Tensor, "N n"], gold: Int[Tensor, "N m"]) -> float:
    """Fraction of sentences in which every word has the right head."""
    return _fraction(_Agreement(predicted, gold).exact)


@dataclass(frozen=True)
class LengthBin:
    """Scores of the sentences of at most ``max_length`` words (of all sentences if that is None).

    The three fractions are None, never NaN, if there is no such sentence.
    """

    max_length: int | None
    sentences: int
    words: int
    directed: float | None
    undirected: float | None
    root: float | None


@dataclass(frozen=True)
class AttachmentScores:
    """A table of scores, one row for each bin of lengths; ``print`` shows it in percent."""

    bins: tuple[LengthBin, ...]

    def __iter__(self) -> Iterator[LengthBin]:
        return iter(self.bins)

    def __len__(self) -> int:
        return len(self.bins)

    def __getitem__(self, index: int) -> LengthBin:
        return self.bins[index]

    def __str__(self) -> str:
        lines = ["length  sentences    words  directed  undirected   root"]
        for b in self.bins:
            length = "all" if b.max_length is None else f"<={b.max_length}"
            directed, undirected, root = map(_percent, (b.directed, b.undirected, b.root))
            lines.append(f"{length:>6}{b.sentences:>11}{b.words:>9}{directed:>10}{undirected:>12}{root:>7}")
        return "\n".join(lines)


def accuracy_by_length(
    predicted: Int[Tensor, "N n"],
    gold: Int[Tensor, "N m"],
    bins: Sequence[int | None] = (10, 20, 40, None),
    scored: Bool[Tensor, "N m"] | None = None,
) -> AttachmentScores:
    """Directed, undirected and root accuracy of the sentences up to each length.

    Bins are cumulative, as in the papers' tables: a sentence of 8 words counts in ``<=10`` and in ``<=20``.

    :param bins: greatest lengths; None stands for all sentences.
    :param scored: which words count, such as all but punctuation; a sentence is as long as it has such words, and one
        without any counts nowhere. None: all of them.
    """
    agreement = _Agreement(predicted, gold, scored)
    return AttachmentScores(tuple(_length_bin(agreement, bound) for bound in bins))


@dataclass(frozen=True)
class TagScore:
    """Scores of the words that have one tag; fractions of words."""

    tag: str
    words: int
    directed: float
    undirected: float


def accuracy_by_tag(
    predicted: Int[Tensor, "N n"],
    gold: Int[Tensor, "N m"],
    tags: Sequence[Sequence[str]],
    scored: Bool[Tensor, "N m"] | None = None,
) -> tuple[TagScore, ...]:
    """Directed and undirected accuracy of the words of each tag (the dependent's), the most frequent tag first.

    :param tags: of every word of every sentence.
    :param scored: which words count; None: all of them.
    """
    agreement = _Agreement(predicted, gold, scored)
    _check_tags(tags, gold)
    mask = agreement.real.tolist()
    flat = [tag for row, real in zip(tags, mask, strict=True) for tag, r in zip(row, real, strict=False) if r]
    words = Counter(flat)
    directed, undirected = (
        Counter(tag for tag, right in zip(flat, hits.tolist(), strict=True) if right)
        for hits in (agreement.directed, agreement.undirected)
    )
    ranked = sorted(words, key=lambda tag: (-words[tag], tag))
    return tuple(TagScore(t, words[t], directed[t] / words[t], undirected[t] / words[t]) for t in ranked)


def paired_bootstrap(
    predicted: Int[Tensor, "*S N n"],
    other: Int[Tensor, "*R N k"],
    gold: Int[Tensor, "N m"],
    scored: Bool[Tensor, "N m"] | None = None,
    *,
    samples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Bootstrap:
    """Directed accuracy of one parser minus that of another, by resampling sentences.

    :param predicted: heads, shape ``(N, n)``; or of S starts, shape ``(S, N, n)``, whose mean accuracy is compared.
        Starts are not resampled: the interval says what other sentences would do, not what other starts would.
    :param other: those of the other parser, of one start or as many.
    :param scored: which words count; None: all of them.
    :param samples: how many samples of N sentences.
    :param seed: the same seed gives the same samples.
    """
    right, others, sizes = (counts.sum(-1).tolist() for counts in _right_starts(predicted, other, gold, scored))
    return bootstrap_difference(right, others, sizes, samples=samples, confidence=confidence, seed=seed)


def sign_test(
    predicted: Int[Tensor, "*S N n"],
    other: Int[Tensor, "*R N k"],
    gold: Int[Tensor, "N m"],
    scored: Bool[Tensor, "N m"] | None = None,
    *,
    unit: Literal["words", "sentences"] = "words",
) -> SignTest:
    """How often one parser is right where another is wrong, by the binomial sign test of [3].

    The caption of Table 1 in [3] names the test and p < 0.05, but not its unit. Words are what accuracy counts. But
    words of a sentence are right or wrong together, so their p-value is too small; sentences are independent.

    :param predicted: heads, shape ``(N, n)``; or of S starts, shape ``(S, N, n)``: of a word, the parser that is right
        in more starts is better.
    :param other: those of the other parser, of one start or as many.
    :param scored: which words count; None: all of them.
    :param unit: what is a throw of the coin: a word of which one parser has the right head and the other has not; or a
        sentence of which one parser has more right heads than the other.
    """
    if unit not in ("words", "sentences"):
        raise ValueError(f"unit must be 'words' or 'sentences', not {unit!r}.")
    first, second, _ = _right_starts(predicted, other, gold, scored)
    if unit == "sentences":
        first, second = first.sum(-1), second.sum(-1)
    # Padding, and words that do not count, are right nowhere: ties.
    return binomial_sign_test(first.flatten().cpu().numpy(), second.flatten().cpu().numpy())


@dataclass(frozen=True)
class ParentErrors:
    """Wrong heads of words whose gold head has one tag.

    :param tag: of the gold head, or ``"ROOT"``.
    :param words: how many words have such a gold head.
    :param errors: how many of these have another head.
    :param share: of all errors; 0 if there are none.
    """

    tag: str
    words: int
    errors: int
    share: float


def errors_by_parent(
    predicted: Int[Tensor, "N n"],
    gold: Int[Tensor, "N m"],
    tags: Sequence[Sequence[str]],
    scored: Bool[Tensor, "N m"] | None = None,
) -> tuple[ParentErrors, ...]:
    """Which parents' dependents are lost: all errors by the tag of the gold head, the most errors first.

    In [3], section 4.1, "the most common attachment errors happen with a noun (25.9%) or a verb (16.9%) parent", a
    result of these being "the most common parents in these data sets": so the parent is taken to be the gold one, and
    the tags to be coarse.

    >>> heads, gold = torch.tensor([[2, 0, 1]]), torch.tensor([[2, 0, 2]])
    >>> errors_by_parent(heads, gold, [["noun", "verb", "noun"]])[0]
    ParentErrors(tag='verb', words=2, errors=1, share=1.0)

    :param tags: of every word of every sentence, perhaps coarser ones than those that were learnt from.
    :param scored: which words count as dependents; None: all of them.
    """
    agreement = _Agreement(predicted, gold, scored)
    _check_tags(tags, gold)
    words, errors = Counter[str](), Counter[str]()
    rows = zip(tags, gold.tolist(), agreement.real.tolist(), agreement.right.tolist(), strict=True)
    for names, heads, real, right in rows:
        for head, counts, hit in zip(heads, real, right, strict=False):
            if counts:
                parent = names[head - 1] if head > 0 else "ROOT"
                words[parent] += 1
                errors[parent] += not hit
    total = max(1, errors.total())
    ranked = sorted(words, key=lambda tag: (-errors[tag], tag))
    return tuple(ParentErrors(tag, words[tag], errors[tag], errors[tag] / total) for tag in ranked)


def attach_right(lengths: Int[Tensor, "N"]) -> Int[Tensor, "N n"]:
    """Heads that attach each word to the word on its right and the last word to ROOT, as in [2].

    :param lengths: number of words of each sentence.
    :returns: heads, as wide as the longest sentence, padded with -1.
    """
    position, length = _positions(lengths)
    heads = torch.where(position < length, position + 1, 0)
    return heads.masked_fill(position > length, -1)


def attach_left(lengths: Int[Tensor, "N"]) -> Int[Tensor, "N n"]:
    """Heads that attach each word to the word on its left and the first word to ROOT.

    :param lengths: number of words of each sentence.
    :returns: heads, as wide as the longest sentence, padded with -1.
    """
    position, length = _positions(lengths)
    return (position - 1).masked_fill(position > length, -1)


class _Agreement:
    """What two corpora of trees agree on, word by word and sentence by sentence."""

    def __init__(self, predicted: Tensor, gold: Tensor, scored: Tensor | None = None) -> None:
        self.length = _checked_lengths("gold", gold)
        ours = _checked_lengths("predicted", predicted).to(gold.device)
        if len(ours) != len(self.length):
            raise ValueError(
                f"predicted and gold must hold the same sentences, got shapes "
                f"{tuple(predicted.shape)} and {tuple(gold.shape)}."
            )
        if not torch.equal(ours, self.length):
            i = int((ours != self.length).nonzero()[0])
            raise ValueError(
                f"predicted and gold must agree on the length of every sentence, got {int(ours[i])} and "
                f"{plural(int(self.length[i]), 'word')} in sentence {i} (shapes {tuple(predicted.shape)} and "
                f"{tuple(gold.shape)})."
            )
        n = int(self.length.max()) if len(self.length) else 0
        h, g = predicted.to(gold.device)[:, :n].long(), gold[:, :n].long()
        position = torch.arange(1, n + 1, device=gold.device)
        real = position <= self.length[:, None]
        if scored is not None:
            if scored.shape != gold.shape or scored.dtype != torch.bool:
                shape = tuple(scored.shape)
                raise ValueError(f"scored must be a mask of shape {tuple(gold.shape)}, got {scored.dtype} of {shape}.")
            real = real & scored[:, :n]
            self.length = real.sum(-1)
        self.real = real
        self.right = right = (h == g) & real
        inverted = (g.gather(1, (h - 1).clamp_min(0)) == position) & (h > 0)
        nonempty = self.length > 0
        self.directed = right[real]
        self.undirected = (right | inverted)[real]
        self.word_length = self.length[:, None].expand(-1, n)[real]
        self.root = (((h == 0) == (g == 0)) | ~real).all(-1)[nonempty]
        self.exact = (right | ~real).all(-1)[nonempty]
        self.length = self.length[nonempty]


def _checked_lengths(name: str, heads: Tensor) -> Tensor:
    """Number of words of each sentence; an error if ``heads`` are not padded heads."""
    shape = tuple(heads.shape)
    if heads.dim() != 2 or heads.is_floating_point() or heads.dtype == torch.bool:
        raise ValueError(f"{name} must be integers of shape (N, n), got {heads.dtype} of shape {shape}.")
    length = (heads >= 0).sum(-1)
    position = torch.arange(1, shape[1] + 1, device=heads.device)
    real = position <= length[:, None]
    if not torch.where(real, (heads >= 0) & (heads <= length[:, None]), heads == -1).all():
        raise ValueError(
            f"{name} must hold heads from 0 to the sentence's length with -1 as padding on the right only, "
            f"got others in shape {shape}."
        )
    return length


def _check_tags(tags: Sequence[Sequence[str]], gold: Tensor) -> None:
    if [len(row) for row in tags] != (gold >= 0).sum(-1).tolist():
        raise ValueError(f"tags must hold a tag for each word of the {plural(len(gold), 'sentence')}, got others.")


def _right_starts(
    predicted: Tensor, other: Tensor, gold: Tensor, scored: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """In how many starts either parser has a word right, and in how many it could: shape ``(N, n)`` each.

    What has one start has it as often as the other has starts.
    """
    both = [heads if heads.dim() == 3 else heads[None] for heads in (predicted, other)]
    starts = max(map(len, both))
    if any(len(heads) not in (1, starts) for heads in both) or not starts:
        raise ValueError(
            f"predicted and other must have one start or as many, got {len(both[0])} and "
            f"{plural(len(both[1]), 'start')}."
        )
    agreements = [[_Agreement(heads, gold, scored) for heads in one] for one in both]
    first, second = (torch.stack([a.right for a in one]).sum(0) * (starts // len(one)) for one in agreements)
    return first, second, agreements[0][0].real * starts


def _positions(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Positions 1..n, for n the longest sentence, next to the lengths as a column."""
    shape = tuple(lengths.shape)
    if lengths.dim() != 1 or lengths.is_floating_point() or bool((lengths < 0).any()):
        raise ValueError(f"lengths must be non-negative integers of shape (N,), got {lengths.dtype} of shape {shape}.")
    n = int(lengths.max()) if len(lengths) else 0
    position = torch.arange(1, n + 1, device=lengths.device)
    return position.expand(len(lengths), n), lengths.long()[:, None]


def _length_bin(agreement: _Agreement, bound: int | None) -> LengthBin:
    longest = torch.iinfo(torch.long).max if bound is None else bound
    words, sentences = agreement.word_length <= longest, agreement.length <= longest
    nonempty = bool(sentences.any())
    return LengthBin(
        max_length=bound,
        sentences=int(sentences.sum()),
        words=int(words.sum()),
        directed=_fraction(agreement.directed[words]) if nonempty else None,
        undirected=_fraction(agreement.undirected[words]) if nonempty else None,
        root=_fraction(agreement.root[sentences]) if nonempty else None,
    )


def _fraction(right: Bool[Tensor, "K"]) -> float:
    if not len(right):
        raise ValueError("gold must hold at least one word, got none.")
    return int(right.sum()) / len(right)


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.1f}"
