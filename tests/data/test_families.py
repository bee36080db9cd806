# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tag families: every tag of both tagsets has one, and the paper's twelve are all there."""

from pathlib import Path

import pytest

from pyrogram.data import FAMILIES, PAPER_FAMILIES, PENN_PUNCTUATION, tag_families

# The 36 word tags and 9 others of Marcus, Santorini and Marcinkiewicz (1993), and those added for the
# English Web Treebank.
PENN_45 = (
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH "
    "VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB # $ . , : ( ) `` ''"
).split()
PENN_MORE = "ADD AFX GW HYPH NFP XX -LRB- -RRB-".split()
UPOS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()


def test_all_tags_covered() -> None:
    assert (len(PENN_45), len(UPOS)) == (45, 17)
    assert set(PENN_45 + PENN_MORE) <= set(tag_families("penn"))
    assert set(UPOS) <= set(tag_families("universal"))


def test_families_are_those_of_the_paper_and_four_more() -> None:
    assert len(PAPER_FAMILIES) == 12
    assert set(FAMILIES) - set(PAPER_FAMILIES) == {"determiner", "punctuation", "symbol", "other"}
    assert set(tag_families("penn").values()) == set(FAMILIES)
    # X is more than foreign words.
    assert set(tag_families("universal").values()) == set(FAMILIES) - {"foreign"}


@pytest.mark.parametrize(
    ("tag", "family"),
    [("NNS", "noun"), ("NNP", "proper"), ("MD", "verb"), ("VBZ", "verb"), ("PRP$", "pronoun")]
    + [("CD", "number"), ("IN", "preposition"), ("RP", "particle"), ("UH", "interjection")]
    + [("DT", "determiner"), ("FW", "foreign")],
)
def test_penn_tags(tag: str, family: str) -> None:
    assert tag_families("penn")[tag] == family


def test_punctuation_agrees_with_what_is_removed() -> None:
    penn = tag_families("penn")
    assert {penn[tag] for tag in PENN_PUNCTUATION - {"$", "#"}} == {"punctuation"}
    assert {tag for tag in penn if penn[tag] == "punctuation"} == PENN_PUNCTUATION - {"$", "#"}


def test_read_only_and_other_tagsets() -> None:
    with pytest.raises(TypeError):
        tag_families("penn")["NN"] = "verb"  # type: ignore[index]
    with pytest.raises(ValueError, match="'penn' or 'universal', actual 'brown'"):
        tag_families("brown")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["wsj-sample/*.conllu", "ud/*.conllu"])
def test_tags_of_real_corpora(shared_data: Path, name: str) -> None:
    files = sorted(shared_data.glob(name))
    if not files:
        pytest.skip(f"corpora absent: no {name} in {shared_data}")
    upos, xpos = set(), set()
    for file in files:
        for line in file.read_text(encoding="utf-8").split("\n"):
            columns = line.split("\t")
            if columns[0].isdigit():
                upos.add(columns[3])
                if "en_" in file.name or "wsj" in name:
                    xpos.add(columns[4])
    assert upos - {"_"} <= set(tag_families("universal"))
    assert xpos and xpos <= set(tag_families("penn"))
