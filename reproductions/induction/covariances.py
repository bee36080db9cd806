# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which covariances a logistic normal has learnt, and what they tie together (2008, section 5.2, last paragraph)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pyrogram.distributions import PartitionStructure
from pyrogram.grammars import start_covariances
from reproductions.induction.learning import Language
from reproductions.induction.study import Study
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key

LEAST = 0.01  # correlations below it count as none
SHOWN = 12  # correlations of a row
ROWS = {"ln": False, "ln-families": True}  # whether families of tags are correlated at the start


@dataclass(frozen=True)
class BlockCorrelations:
    """The correlations of all multinomials of a block.

    :param pairs: numbers i < j of the events that each is about, shape ``(2, P)``.
    :param before: at the start, shape ``(P,)``.
    :param after: what was learnt, shape ``(*multinomials, P)``.
    :param deviations: learnt standard deviations, shape ``(*multinomials, R)``.
    """

    pairs: Tensor
    before: Tensor
    after: Tensor
    deviations: Tensor


def correlations(language: Language, families: bool, parameters: Mapping[str, Tensor]) -> dict[str, BlockCorrelations]:
    """By block; those without a full covariance are left out."""
    blocks, by_block = language.grammar.blocks, {}
    start: dict[str, Tensor] = {}
    if families and language.families is not None:
        start = start_covariances(PartitionStructure.untied(blocks), language.families)
    for name, block in blocks.items():
        covariance = parameters.get(f"covariance.{name}")
        if covariance is None:
            continue
        i, j = torch.triu_indices(block.shape[-1], block.shape[-1], 1)
        deviations = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
        after = covariance[..., i, j] / (deviations[..., i] * deviations[..., j])
        before = start[name].to(after)[i, j] if name in start else torch.zeros_like(i, dtype=after.dtype)
        by_block[name] = BlockCorrelations(torch.stack([i, j]), before, after, deviations)
    return by_block


def markdown(study: Study, learnt: Mapping[Key, Learnt]) -> str:
    """For each row of logistic normals and each language, of the start whose held-out sentences are the likeliest."""
    lines = []
    for row, families in ROWS.items():
        for number, language in enumerate(study.languages):
            starts = [run for key, run in learnt.items() if key.row == row and key.languages == (number,)]
            if starts:
                best = max(starts, key=lambda run: run.held_out)
                if by_block := correlations(language, families, best.parameters):
                    lines += [f"## {row}, {language.name}\n", *_table(by_block), *_greatest(language, by_block)]
    return "\n".join(["# Learnt correlations\n", *lines]) if lines else ""


def _table(by_block: Mapping[str, BlockCorrelations]) -> Iterator[str]:
    yield (
        f"| block | pairs of events | correlated at the start | at the end by {LEAST:g} or more | greatest | "
        "multinomials with such a pair | standard deviations |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, c in by_block.items():
        strong = c.after.abs() >= LEAST
        multinomials = c.after.shape[:-1].numel()
        before = int((c.before != 0).sum()) * multinomials
        some = int(strong.any(-1).sum())
        low, high = float(c.deviations.min()), float(c.deviations.max())
        yield (
            f"| {name} | {c.after.numel():,} | {before:,} | {int(strong.sum()):,} | {float(c.after.abs().max()):.2f} | "
            f"{some} of {multinomials} | {low:.2f} to {high:.2f} |"
        )
    yield ""


def _greatest(language: Language, by_block: Mapping[str, BlockCorrelations]) -> Iterator[str]:
    """The greatest correlations, with the events that they tie together."""
    entries = []
    for name, c in by_block.items():
        for place in map(tuple, (c.after.abs() >= LEAST).nonzero().tolist()):
            pair = place[-1]
            entries.append((float(c.after[place]), float(c.before[pair]), name, place[:-1], c.pairs[:, pair].tolist()))
    entries.sort(key=lambda entry: -abs(entry[0]))
    if not entries:
        yield f"No two events are correlated by {LEAST:g} or more.\n"
        return
    yield "| multinomial | events | correlation | at the start |"
    yield "|---|---|---:|---:|"
    for after, before, name, multinomial, events in entries[:SHOWN]:
        *outer, last = _axes(language, name)
        context = ", ".join(axis[x] for axis, x in zip(outer, multinomial, strict=True))
        tied = " and ".join(last[e] for e in events)
        yield f"| {name}{f'[{context}]' if context else ''} | {tied} | {after:+.2f} | {before:+.2f} |"
    yield ""


def _axes(language: Language, block: str) -> list[Sequence[str]]:
    """What lies along the dimensions of a block, with tags by their names."""
    symbols = language.short.vocab.symbols
    axes = language.grammar.axes[block]
    return [symbols if dimension in ("head", "child") else names for dimension, names in axes.items()]
