# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The figures that the two papers print: attachment accuracy in percent on unseen text, by row of their tables.

**References:**

[1] Cohen, Gimpel and Smith (2008), "Logistic Normal Priors for Unsupervised Probabilistic Grammar Induction",
    Table 1: sections 2-21 of the Penn treebank's Wall Street Journal to learn from (sentences of at most ten
    words), section 22 held out, section 23 to test on.
[2] Cohen and Smith (2009), "Shared Logistic Normal Distributions for Soft Parameter Tying in Unsupervised Grammar
    Induction", Table 1: the same for English, and the Chinese treebank. Only minimum Bayes risk decoding is
    reported. Section 4.1 has the most frequent errors of LN, by parent. (In some copies of the text the bold cells
    of the bilingual TieV and TieN rows and of the Chinese TieV row stand beside their place.)
[3] Wang and Blunsom (2013), "Collapsed Variational Bayesian Inference for PCFGs", Figure 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BINS = (10, 20, None)  # longest sentences of a column; None is all
COMPARED = (0, len(BINS) - 1)  # of BINS: what rows are compared on


@dataclass(frozen=True)
class Published:
    """A table of a paper.

    :param source: the paper.
    :param texts: the texts that its figures are of, in the order in which the corpora are given here.
    :param figures: by decoder and row, an accuracy for each of :data:`BINS`, for every text.
    :param error_shares: by family of the parent's tag, the share of all errors in percent, for every text.
    """

    source: str
    texts: tuple[str, ...]
    figures: Mapping[str, Mapping[str, tuple[tuple[float, ...], ...]]]
    error_shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def accuracy(self, row: str, text: int, decoder: str) -> tuple[float | None, ...]:
        """What the paper has for a row, Nones if it has nothing."""
        figures = self.figures.get(decoder, {}).get(row, ())
        return figures[text] if text < len(figures) else (None,) * len(BINS)


LOGNORMAL = Published(
    "Cohen, Gimpel and Smith (2008), Table 1",
    ("Wall Street Journal, section 23",),
    {
        "viterbi": {
            "attach-right": ((38.4, 33.4, 31.7),),
            "em": ((45.8, 39.1, 34.2),),
            "em-map": ((45.9, 39.5, 34.9),),
            "vb": ((46.9, 40.0, 35.7),),
            "vb-em": ((45.9, 39.4, 34.9),),
            "ln": ((56.6, 43.3, 37.4),),
            "ln-families": ((59.3, 45.1, 39.0),),
        },
        "mbr": {
            "attach-right": ((38.4, 33.4, 31.7),),
            "em": ((46.1, 39.9, 35.9),),
            "em-map": ((46.2, 40.6, 36.7),),
            "vb": ((47.1, 41.1, 37.6),),
            "vb-em": ((46.1, 40.6, 36.9),),
            "ln": ((59.1, 45.9, 39.9),),
            "ln-families": ((59.4, 45.9, 40.5),),
        },
    },
)

SHARED = Published(
    "Cohen and Smith (2009), Table 1",
    ("Wall Street Journal, section 23", "Chinese treebank, sections 271-300"),
    {
        "mbr": {
            "attach-right": ((38.4, 33.4, 31.7), (34.9, 34.6, 34.6)),
            "em": ((46.1, 39.9, 35.9), (38.3, 36.1, 32.7)),
            "vb-em": ((46.1, 40.6, 36.9), (38.3, 35.9, 32.4)),
            "ln-families": ((59.4, 45.9, 40.5), (50.1, 40.5, 35.8)),
            "tie-v": ((60.2, 46.2, 40.0), (51.9, 42.0, 35.8)),
            "tie-n": ((60.2, 46.7, 40.9), (43.0, 38.4, 33.7)),
            "tie-vn": ((61.3, 47.4, 41.4), (45.0, 39.2, 34.2)),
            "tie-a": ((59.9, 45.8, 40.9), (47.4, 40.4, 35.2)),
            "bilingual-v": ((61.6, 47.6, 41.7), (51.9, 42.0, 35.8)),
            "bilingual-n": ((61.8, 48.1, 42.1), (48.0, 38.9, 33.8)),
            "bilingual-vn": ((62.0, 48.0, 42.2), (51.5, 41.7, 35.3)),
            "bilingual-a": ((61.3, 47.6, 41.7), (52.0, 41.3, 35.2)),
            "supervised": ((84.5, 74.9, 68.8), (84.3, 66.1, 57.6)),
        },
    },
    {"noun": (25.9, 36.0), "verb": (16.9, 21.2)},  # section 4.1
)

# Figure 6 is bars without numbers (directed accuracies, although its axis says F1).
CVB = Published("Wang and Blunsom (2013), Figure 6", ("Wall Street Journal, section 23",), {})

PUBLISHED = {"lognormal": LOGNORMAL, "shared": SHARED, "cvb": CVB}
