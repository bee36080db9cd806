# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How well predicted trees, parses and segmentations agree with gold ones, baselines, and tests of differences."""

from .constituents import BracketScores, Conventions, brackets, parseval
from .dependencies import (
    AttachmentScores,
    LengthBin,
    ParentErrors,
    TagScore,
    accuracy_by_length,
    accuracy_by_tag,
    attach_left,
    attach_right,
    directed_accuracy,
    errors_by_parent,
    exact_match,
    paired_bootstrap,
    root_accuracy,
    sign_test,
    undirected_accuracy,
)
from .segmentation import (
    Agreement,
    SegmentationScores,
    closest_segmentations,
    perplexity,
    segmentation_scores,
)
from .significance import Bootstrap, SignTest

__all__ = [
    "Agreement",
    "AttachmentScores",
    "Bootstrap",
    "BracketScores",
    "Conventions",
    "LengthBin",
    "ParentErrors",
    "SegmentationScores",
    "SignTest",
    "TagScore",
    "accuracy_by_length",
    "accuracy_by_tag",
    "attach_left",
    "attach_right",
    "brackets",
    "closest_segmentations",
    "directed_accuracy",
    "errors_by_parent",
    "exact_match",
    "paired_bootstrap",
    "parseval",
    "perplexity",
    "root_accuracy",
    "segmentation_scores",
    "sign_test",
    "undirected_accuracy",
]


def __dir__() -> list[str]:
    return __all__
