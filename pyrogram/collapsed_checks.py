# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of sweeps, before compiled code reads them: compiled code looks at no bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.charts.checks import check_size
from pyrogram.printable import plural

__all__ = [
    "check_batches",
    "check_corpus_counts",
    "check_sentence_counts",
    "check_sentences",
    "check_temperature",
    "check_trees",
    "check_weights",
]

if TYPE_CHECKING:
    from pyrogram.collapsed import CorpusCounts
    from pyrogram.grammar import Block


def check_weights(weights: Mapping[str, Tensor], blocks: Mapping[str, Block]) -> None:
    """
    :raises ValueError: if a weight is negative, NaN or infinite, or missing, or too few.
    """
    for name, block in blocks.items():
        _check_table("weights", weights, name, block)
        if not bool(((weights[name] >= 0) & (weights[name] < torch.inf)).all()):
            raise ValueError(f"weights must be non-negative and finite, but some of block {name!r} are not")


def check_corpus_counts(corpus: CorpusCounts, blocks: Mapping[str, Block]) -> None:
    """
    :raises ValueError: if a block has no counts, or not one of a concentration and weights, or tables of another shape.
    """
    for name, block in blocks.items():
        _check_table("corpus.counts", corpus.counts, name, block)
        if (name in corpus.concentration) == (name in corpus.weights):
            raise ValueError(
                f"block {name!r} must have a concentration in corpus.concentration or else weights in corpus.weights"
            )
        kind = "concentration" if name in corpus.concentration else "weights"
        _check_table(f"corpus.{kind}", getattr(corpus, kind), name, block)


def check_batches(order: Tensor, batch_size: int, num_sentences: int) -> None:
    """
    :raises TypeError: if ``batch_size`` is no integer.
    :raises ValueError: if ``order`` is no permutation of the sentences, or ``batch_size`` is below 1.
    """
    check_size("batch_size", batch_size)
    check_sentences("order", order, num_sentences)
    if len(order) != num_sentences or bool((torch.bincount(order, minlength=num_sentences) != 1).any()):
        raise ValueError(
            f"order must have each of the {plural(num_sentences, 'sentence')} once, but has {len(order)} numbers"
        )


def check_sentences(name: str, sentences: Tensor, num_sentences: int) -> None:
    """
    :raises ValueError: if they are no numbers of sentences, int64, shape ``(B,)``.
    """
    if sentences.dtype != torch.int64 or sentences.dim() != 1:
        raise ValueError(f"{name} must be int64 of shape (B,), not {sentences.dtype} of shape {tuple(sentences.shape)}")
    if bool(((sentences < 0) | (sentences >= num_sentences)).any()):
        raise ValueError(f"{name} must be numbers of sentences, 0 to {num_sentences - 1}, but some are not")


def check_sentence_counts(sentence_counts: Mapping[str, Tensor], size: int, dtype: torch.dtype = torch.float64) -> None:
    """
    :raises ValueError: if sentence counts are those of other sentences, or none.
    """
    values = sentence_counts.get("values")
    if values is None or values.shape != (size,) or values.dtype != dtype or not values.is_contiguous():
        found = "nothing" if values is None else f"{values.dtype} of shape {tuple(values.shape)}"
        raise ValueError(
            f"sentence counts of these sentences have values of {dtype} in shape ({size},), contiguous, not {found}; "
            "take them from expect or collapsed_vb of the same sentences"
        )


def check_trees(trees: Tensor, shape: tuple[int, ...]) -> None:
    """
    :raises ValueError: if derivations are not int64, of this shape.
    """
    if trees.dtype != torch.int64 or trees.shape != shape:
        raise ValueError(f"trees must be int64 of shape {shape}, not {trees.dtype} of shape {tuple(trees.shape)}")


def check_temperature(temperature: float) -> None:
    """
    :raises ValueError: if it is not positive and finite.
    """
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be positive and finite, not {temperature}")


def _check_table(of: str, tables: Mapping[str, Tensor], name: str, block: Block) -> None:
    if name not in tables or tables[name].shape != block.shape:
        given = f"{tuple(tables[name].shape)}" if name in tables else "nothing"
        raise ValueError(f"{of}[{name!r}] must have shape {tuple(block.shape)}, not {given}")
