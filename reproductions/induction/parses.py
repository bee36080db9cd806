# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the parses of every start say besides accuracies: which differences are significant, and where errors are."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pyrogram.data import Corpus
from pyrogram.metrics import SignTest, errors_by_parent
from pyrogram.metrics.significance import binomial_sign_test
from reproductions.induction.published import BINS, COMPARED, PUBLISHED
from reproductions.induction.study import Study
from reproductions.shared.store import Key, Result

UNITS = ("words", "sentences")
COLUMNS = tuple((b, unit) for b in COMPARED for unit in UNITS)  # bin of lengths, what is counted
LEVEL = 0.05  # of significance (2009, Table 1)
ERRORS_OF = "ln-families"  # "the LN prior from Cohen et al., 2008" (2009, section 4.1)


@dataclass(frozen=True)
class Signs:
    """Sign tests of a row against another one.

    :param tests: for each of COLUMNS, the test of each start; None where a bin has no sentence.
    """

    better: str
    worse: str
    tests: tuple[tuple[SignTest, ...] | None, ...]


@dataclass(frozen=True)
class ErrorShare:
    """Errors whose gold head is of one family of tags, in percent.

    :param words: share of all words that have such a head.
    :param errors: share of all errors, mean over starts.
    :param spread: its standard deviation; None of one start.
    :param paper: the paper's.
    """

    family: str
    words: float
    errors: float
    spread: float | None
    paper: float | None


def signs_of(study: Study, results: Mapping[Key, Result], language: int, part: str) -> tuple[Signs, ...]:
    """Every row against the one that it is compared with, where the parses of both are kept."""
    corpus = study.languages[language].parts[part]
    right = {row: [_right(heads, corpus) for heads in starts] for row, starts in _heads(results, language, part)}
    signs = []
    for row in study.rows:
        if row.name in right and row.above in right:
            ours, theirs = right[row.name], right[row.above]
            theirs = theirs * len(ours) if len(theirs) == 1 else theirs  # the same for every start
            pairs = list(zip(ours, theirs, strict=True))
            signs.append(Signs(row.name, row.above, tuple(_tests(pairs, corpus, b, unit) for b, unit in COLUMNS)))
    return tuple(signs)


def errors_of(study: Study, results: Mapping[Key, Result], language: int, part: str) -> tuple[ErrorShare, ...]:
    """Errors of :data:`ERRORS_OF` by family of the gold head, the most frequent first; none without its parses."""
    known = study.languages[language]
    starts = dict(_heads(results, language, part)).get(ERRORS_OF)
    published = PUBLISHED[study.settings.table].error_shares
    if not published or starts is None or known.families is None:
        return ()
    corpus = known.parts[part]
    assert corpus.heads is not None
    tags = [[known.families[w] for w in row if w >= 0] for row in corpus.words.tolist()]
    shares: dict[str, list[float]] = {}
    words = {}
    for heads in starts:
        padded = torch.full_like(corpus.words, -1)
        padded[corpus.words >= 0] = heads
        for error in errors_by_parent(padded, corpus.heads, tags):
            words[error.tag] = 100 * error.words / len(heads)
            shares.setdefault(error.tag, []).append(100 * error.share)
    lines = []
    for family, each in shares.items():
        spread = statistics.stdev(each) if len(each) > 1 else None
        paper = published[family][language] if family in published else None
        lines.append(ErrorShare(family, words[family], statistics.fmean(each), spread, paper))
    return tuple(sorted(lines, key=lambda line: -line.errors))


def _heads(results: Mapping[Key, Result], language: int, part: str) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Heads of all words by row, for each start; only of rows all of whose starts have them."""
    rows: dict[str, list[Result]] = {}
    for key, result in results.items():
        if language in key.languages:
            rows.setdefault(key.row, []).append(result)
    name = f"{language}.{part}"
    for row, starts in rows.items():
        if all(name in result.heads for result in starts):
            yield row, [result.heads[name] for result in starts]


def _right(heads: torch.Tensor, corpus: Corpus) -> np.ndarray:
    """Which words have the right head, of all sentences one after the other."""
    assert corpus.heads is not None
    is_right: np.ndarray = (heads == corpus.heads[corpus.heads >= 0]).numpy()
    return is_right


def _tests(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], corpus: Corpus, b: int, unit: str
) -> tuple[SignTest, ...] | None:
    lengths = corpus.lengths.numpy()
    bound = BINS[b]
    short = np.repeat(lengths <= (lengths.max() if bound is None else bound), lengths)
    if not short.any():
        return None
    sentence = np.repeat(np.arange(len(lengths)), lengths)[short]
    tests = []
    for pair in pairs:
        scores = [right[short] for right in pair]
        if unit == "sentences":
            scores = [np.bincount(sentence, right, minlength=len(lengths)) for right in scores]
        tests.append(binomial_sign_test(*(score.astype(np.int64) for score in scores)))
    return tuple(tests)
