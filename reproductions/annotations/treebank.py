# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The treebank of the experiment with latent annotations, grammars of it, and scores of parses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from pyrogram.data.treebank import Treebank, read_treebank
from pyrogram.grammar import Weights
from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.metrics.constituents import ParsevalBin, parseval
from pyrogram.models import annotated_treebank

LONGEST, THRESHOLD = 40, 1e-4
DECODER: Final = "max-rule"
_AT_ONCE = 25  # sentences that are parsed between two words


@dataclass(frozen=True)
class Files:
    """Where the trees are, and hashes of the files."""

    train: Path
    dev: Path
    test: Path
    digests: tuple[str, ...]


@lru_cache(maxsize=1)
def treebank_of(files: Files) -> Treebank:
    """The trees: read once in a process, and never sent to another."""
    return read_treebank(files.train, dev=files.dev, test=files.test)


@lru_cache(maxsize=1)
def annotated(files: Files, num_subtypes: int) -> tuple[LatentAnnotations, Tensor, Tensor]:
    """The grammar, the training trees as it reads them, and those trees of ``dev`` of which it has all rules."""
    bank = treebank_of(files)
    grammar, trees = annotated_treebank(bank.prepared("train"), num_subtypes)
    held_out = []
    for tree in bank.prepared("dev"):
        try:
            held_out.append(grammar.cfg.derivation_of(tree))
        except ValueError:  # a rule that the training part lacks
            continue
    pad = torch.nn.utils.rnn.pad_sequence
    return grammar, trees, pad(held_out, batch_first=True, padding_value=-1) if held_out else trees[:0]


def short(bank: Treebank, part: str) -> list[Any]:
    """The trees of at most :data:`LONGEST` words, which count."""
    return [tree for tree in bank.parts[part] if len(tree.leaves()) <= LONGEST]


def scores(
    grammar: LatentAnnotations, weights: Weights, bank: Treebank, part: str, say: Callable[[str], Any]
) -> tuple[ParsevalBin, int]:
    """PARSEVAL of a part's sentences of at most :data:`LONGEST` words, and how many have no parse."""
    gold = short(bank, part)
    words = grammar.cfg.encode([bank.known(tree.leaves()) for tree in gold])
    predicted: list[Any] = []
    for first in range(0, len(gold), _AT_ONCE):
        say(f"parsing {part}, {first} of {len(gold)}")
        parses = grammar.parse(weights, words[first : first + _AT_ONCE], decoder=DECODER, threshold=THRESHOLD)
        trees = gold[first : first + _AT_ONCE]
        pairs = zip(trees, parses.rules, strict=True)
        predicted += [grammar.cfg.tree(tree.leaves(), rules) if int(rules[0]) >= 0 else None for tree, rules in pairs]
    return parseval(predicted, gold, bins=[LONGEST])[0], sum(tree is None for tree in predicted)
