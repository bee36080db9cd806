# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules over tags: of every tree of a short sentence, what its arcs gain, added up by hand."""

import pytest
import torch
from oracle import all_trees

from pyrogram import DMV
from pyrogram.bias import Bias
from pyrogram.data import Vocabulary
from pyrogram.knowledge import function_words_are_leaves, universal_rules

UNIVERSAL = ("VERB", "NOUN", "DET", "ADP", "AUX", "ADJ", "ADV", "PROPN")
PENN = ("VBD", "NN", "DT", "IN", "MD", "JJ", "RB", "NNP")  # the same, in Penn's tags
# Of these tags: 14 rules are the whole of the content-head set.
CONTENT = {("ROOT", "VERB"), *(("VERB", t) for t in ("NOUN", "ADV", "VERB", "AUX", "PROPN"))}
CONTENT |= {("ADJ", "ADV"), *(("NOUN", t) for t in ("ADJ", "DET", "NOUN", "ADP", "PROPN"))}
FUNCTION = {("ROOT", "VERB"), ("ROOT", "AUX"), ("AUX", "VERB"), ("ADP", "NOUN"), ("ADP", "PROPN"), ("ADJ", "ADV")}
FUNCTION |= {("VERB", t) for t in ("NOUN", "ADV", "VERB", "PROPN")}
FUNCTION |= {(noun, t) for noun in ("NOUN", "PROPN") for t in ("ADJ", "DET", "NOUN", "PROPN")}


def vocabulary(tags: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(tags, (1,) * len(tags))


def gains(bias: Bias, grammar: DMV, words: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Of every tree the sum of its events' nats."""
    found = {}
    for heads in all_trees(len(words), False):
        counts = grammar.counts(torch.tensor(words), torch.tensor(heads))
        nats = {name: table.expand(grammar.blocks[name].shape) for name, table in bias.events.items()}
        found[tuple(heads)] = sum(float((counts[name] * nats[name]).sum()) for name in nats)
    return found


@pytest.mark.parametrize("tags", [UNIVERSAL, PENN])
@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("heads, rules", [("content", CONTENT), ("function", FUNCTION)])
def test_arcs_of_rules_gain(
    tags: tuple[str, ...], valence_attach: bool, heads: str, rules: set[tuple[str, str]]
) -> None:
    bias = universal_rules(vocabulary(tags), heads, 0.5, valence_attach=valence_attach)  # type: ignore[arg-type]
    grammar = DMV(len(tags), valence_attach=valence_attach)
    for words in [(1, 0, 3, 2), (4, 0, 6, 5), (2, 5, 1, 4), (7, 1, 3, 7)]:
        names = ("ROOT", *(UNIVERSAL[w] for w in words))
        for tree, nats in gains(bias, grammar, words).items():
            assert nats == 0.5 * sum((names[h], names[c]) in rules for c, h in enumerate(tree, 1)), (tree, names)


@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("heads, of", [("content", (2, 3, 4)), ("function", (4,))])
def test_arcs_from_function_words_cost(valence_attach: bool, heads: str, of: tuple[int, ...]) -> None:
    vocab = vocabulary(UNIVERSAL)
    grammar, bias = (
        DMV(8, valence_attach=valence_attach),
        function_words_are_leaves(vocab, heads, valence_attach=valence_attach),  # type: ignore[arg-type]
    )
    words = (1, 4, 3, 2)
    for tree, nats in gains(bias, grammar, words).items():
        assert nats == -4.0 * sum(h in of for h in tree)  # AUX, ADP, DET or DET alone; their arcs from ROOT are free


def test_all_rules_are_told() -> None:
    assert str(universal_rules(vocabulary(UNIVERSAL))) == (
        "Arcs of these rules gain 1 nats: ROOT -> VERB; VERB -> NOUN, PRON, ADV, VERB, AUX, PROPN; "
        "NOUN -> ADJ, DET, NOUN, NUM, ADP, PROPN; ADJ -> ADV."
    )
    assert str(function_words_are_leaves(vocabulary(PENN))).endswith(": DT, IN, MD.")


def test_version_1_of_universal_dependencies() -> None:
    assert "CONJ" in str(function_words_are_leaves(vocabulary(("NOUN", "CONJ"))))


def test_tags_without_a_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="universal or Penn tags.*not c1, c2; use discovered"):
        universal_rules(vocabulary(("c1", "c2")))
    with pytest.raises(ValueError, match="'content' or 'function', not 'first'"):
        universal_rules(vocabulary(UNIVERSAL), "first")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'content' or 'function', not 'first'"):
        function_words_are_leaves(vocabulary(UNIVERSAL), "first")  # type: ignore[arg-type]


def test_penn_tags_are_penns_though_some_names_are_universal_too() -> None:
    vocab = Vocabulary(("NN", "SYM", "VBZ", "DT"), (4, 1, 3, 2))
    bias = universal_rules(vocab, "function")
    assert bias.events["root"].tolist() == [0, 0, 1, 0]
    assert bias.events["attach"][2, 0].tolist() == [1, 0, 1, 0]
