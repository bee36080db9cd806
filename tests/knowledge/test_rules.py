# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules over tags: of every tree of a short sentence, what its arcs gain, added up by hand."""

import pytest
import torch
from oracle import all_trees

from pyrogram import DMV
from pyrogram.bias import Bias
from pyrogram.data import Vocabulary
from pyrogram.knowledge import UNIVERSAL_TAGS, function_words_are_leaves, universal_rules

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


@pytest.mark.one_in(3)
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


#: Table 1 of Naseem et al. (2010), whose articles are determiners.
TABLE_1 = {("ROOT", "AUX"), ("ROOT", "VERB"), ("AUX", "VERB"), ("ADP", "NOUN"), ("ADJ", "ADV")}
TABLE_1 |= {("VERB", tag) for tag in ("NOUN", "PRON", "ADV", "VERB")}
TABLE_1 |= {("NOUN", tag) for tag in ("ADJ", "DET", "NOUN", "NUM")}
#: https://universaldependencies.org/u/pos/ has eight closed classes; numerals do govern.
CLOSED = {"ADP", "AUX", "CCONJ", "DET", "NUM", "PART", "PRON", "SCONJ"}


def test_rules_of_function_heads_are_those_of_the_paper() -> None:
    """All thirteen, of all universal tags; proper nouns are nouns."""
    assert len(TABLE_1) == 13
    bias = universal_rules(vocabulary(UNIVERSAL_TAGS), "function")
    root, attach = bias.events["root"], bias.events["attach"][:, 0]
    for i, head in enumerate(UNIVERSAL_TAGS):
        noun = "NOUN" if head == "PROPN" else head
        assert root[i] == (("ROOT", head) in TABLE_1)
        for j, child in enumerate(UNIVERSAL_TAGS):
            assert attach[i, j] == ((noun, "NOUN" if child == "PROPN" else child) in TABLE_1), (head, child)


def test_function_words_are_the_closed_classes() -> None:
    """Where function words are heads, those that have dependents do not pay."""
    for heads, governing in (("content", {"NUM"}), ("function", {"NUM", "ADP", "AUX", "SCONJ"})):
        bias = function_words_are_leaves(vocabulary(UNIVERSAL_TAGS), heads)  # type: ignore[arg-type]
        pay = {tag for tag, nats in zip(UNIVERSAL_TAGS, bias.events["attach"].flatten(), strict=True) if nats < 0}
        assert pay == CLOSED - governing


def test_penn_tags_are_of_the_parts_of_speech_of_their_manual() -> None:
    """Santorini (1990), in universal tags: what governs what is the same."""
    of = {
        "VERB": "VB VBD VBG VBN VBP VBZ", "NOUN": "NN NNS", "PROPN": "NNP NNPS", "PRON": "PRP PRP$ WP WP$",
        "ADJ": "JJ JJR JJS", "ADV": "RB RBR RBS", "AUX": "MD", "ADP": "IN", "DET": "DT", "NUM": "CD", "CCONJ": "CC",
        "PART": "RP",
    }  # fmt: skip
    penn, names = zip(*((tag, name) for name, tags in of.items() for tag in tags.split()), strict=True)
    for heads in ("content", "function"):
        for bias in (universal_rules, function_words_are_leaves):
            own, known = (bias(vocabulary(tags), heads).events for tags in (penn, UNIVERSAL_TAGS))  # type: ignore[operator]
            index = torch.tensor([UNIVERSAL_TAGS.index(name) for name in names])
            for block, table in own.items():
                expected = known[block].index_select(0, index)
                expected = expected.index_select(2, index) if expected.dim() > 1 and expected.shape[2] > 1 else expected
                assert torch.equal(table, expected), (heads, block)


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
