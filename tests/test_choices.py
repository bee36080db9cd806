# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A name that an option does not have is refused, wherever it is given, and never stands for a default."""

from typing import Any

import pytest
import torch

from pyrogram import CFG, DMV, HMM
from pyrogram.choices import DECODERS, best
from pyrogram.cli.commands import choices
from pyrogram.cli.runs.evaluation import parse_corpus
from pyrogram.cli.runs.pcfg import best_trees
from pyrogram.cli.runs.run import ParseOptions
from pyrogram.cli.runs.settings import Settings
from pyrogram.data import Corpus
from pyrogram.data.reading import reader_of

UNKNOWN: Any = "best"
REFUSED = "expected decoder to be one of 'viterbi', 'mbr', actual 'best'."


def test_the_command_line_has_the_same_decoders() -> None:
    assert {decoder.value for decoder in choices.Decoder} == set(DECODERS)


def test_decoders() -> None:
    """Chains of two words weigh 0.1 (states 0 0), 0.075 (1 0) and 0.075 (1 1): the first state is more often 1."""
    weights = {
        "initial": torch.tensor([0.4, 0.6]),
        "transition": torch.tensor([[0.5, 0.0, 0.5], [0.25, 0.25, 0.5]]),
        "emission": torch.ones(2, 1),
    }
    chains = HMM(2, 1).derivation(weights, torch.tensor([[0, 0]]))
    assert best(chains, "viterbi").tolist() == [[0, 0]]
    assert best(chains, "mbr").tolist() == [[1, 0]]


@pytest.mark.parametrize("kind", ["best", "parse_corpus", "best_trees", "options"])
def test_a_decoder_that_is_not_there(kind: str) -> None:
    corpus = Corpus.from_sentences([["a", "b"]])
    dmv, cfg = DMV(2), CFG.from_string("S -> 'a' 'b' [1.0]")
    with pytest.raises(ValueError, match=REFUSED):
        if kind == "best":
            best(None, UNKNOWN)
        elif kind == "parse_corpus":
            parse_corpus(dmv, dmv.initial_weights(corpus.words, "uniform"), corpus, [UNKNOWN])
        elif kind == "best_trees":
            assert cfg.weights is not None
            best_trees(cfg, cfg.weights, cfg.encode([["a", "b"]]), UNKNOWN)
        else:
            ParseOptions(decoder=UNKNOWN)


SETTINGS: dict[str, Any] = {
    "method": "vb",
    "tags": "xpos",
    "max_length": 6,
    "starts": 1,
    "seed": 0,
    "alpha": 1.0,
    "init": "uniform",
    "stops": "half",
    "distance": 0.0,
    "noise": 0.3,
    "steps": 3,
    "tolerance": 0.0,
    "patience": 1,
    "valence_attach": False,
    "smoothing": 1e-4,
    "unknown": "error",
}


def test_other_names_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="expected format to be one of 'conllu', 'brackets', 'tags', actual 'best'."):
        reader_of(UNKNOWN, "xpos")
    with pytest.raises(ValueError, match="expected unknown to be one of 'most_frequent', 'error', actual 'best'."):
        ParseOptions(unknown=UNKNOWN)
    with pytest.raises(ValueError, match="expected retag to be one of 'no', 'missing', 'all', actual 'best'."):
        ParseOptions(retag=UNKNOWN)
    Settings(**SETTINGS)
    with pytest.raises(ValueError, match="expected method to be one of 'em', 'em-map', 'vb', .*, actual 'best'."):
        Settings(**SETTINGS | {"method": UNKNOWN})
