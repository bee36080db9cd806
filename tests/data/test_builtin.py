# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The built-in corpus against a head percolation and agreement rules written here."""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nltk
import numpy as np
import pytest
import torch
from data.generated import corpus, trees

from pyrogram.data.builtin import MAX_WORDS, generate, grammar_rules
from pyrogram.trees import is_tree

PENN_TAGS = set(
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH "
    "VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB".split()
)
# Label -> searches in order: from which side, for which labels (Yamada and Matsumoto 2003, what occurs here).
FINITE = "MD VB VBD VBG VBN VBP VBZ"
HEAD_RULES = {
    "S": [("right", "VP"), ("right", "S")],
    "VP": [("left", FINITE), ("left", "VP")],
    "NP": [("right", "POS NN NNS NNP PRP EX"), ("right", "NP")],
    "PP": [("left", "IN TO")],
    "SBAR": [("left", "IN WHNP WHADVP"), ("left", "S")],
    "ADJP": [("right", "JJ JJR")],
    "ADVP": [("right", "RB")],
    "WHNP": [("left", "WP WDT")],
    "WHADVP": [("left", "WRB")],
    "PRT": [("left", "RP")],
}
SINGULAR = {"he", "she", "it", "him", "her"}


def head_child(tree: nltk.Tree) -> int:
    labels = [child.label() for child in tree]
    for side, wanted in HEAD_RULES[tree.label()]:
        places = range(len(labels)) if side == "left" else reversed(range(len(labels)))
        for place in places:
            if labels[place] in wanted.split():
                return place
    raise AssertionError(f"no head in {tree.label()} -> {' '.join(labels)}")


def percolate(tree: nltk.Tree) -> list[int]:
    heads: list[int] = []

    def visit(node: nltk.Tree) -> int:
        if isinstance(node[0], str):
            heads.append(0)
            return len(heads)
        positions = [visit(child) for child in node]
        head = positions[head_child(node)]
        for position in positions:
            if position != head:
                heads[position - 1] = head
        return head

    visit(tree)
    return heads


def head_word(tree: nltk.Tree) -> tuple[str, str]:
    """Word and tag of the head."""
    while not isinstance(tree[0], str):
        tree = tree[head_child(tree)]
    return tree[0], tree.label()


def subject_number(phrase: nltk.Tree) -> str:
    if any(child.label() == "CC" for child in phrase):
        return "plural"
    word, tag = head_word(phrase)
    if tag == "PRP":
        return "singular" if word in SINGULAR else "plural"
    return "plural" if tag == "NNS" else "singular"


def verb_numbers(phrase: nltk.Tree) -> set[str]:
    """Numbers that the finite verbs of a verb phrase show; of coordinated ones, each."""
    if any(child.label() == "CC" for child in phrase):
        return set().union(*(verb_numbers(child) for child in phrase if child.label() == "VP"))
    word, tag = head_word(phrase)
    shown = {"VBZ": "singular", "VBP": "plural", "was": "singular", "were": "plural"}
    return {shown[key] for key in (word, tag) if key in shown}


# --- the corpus as a function of its seed ----------------------------------------------------------------


def test_same_seed_same_sentences_and_other_seed_others():
    assert generate(50, seed=3) == generate(50, seed=3)
    assert generate(50, seed=3) != generate(50, seed=4)


def test_a_longer_corpus_begins_with_the_shorter():
    assert generate(10) == generate(100)[:10]
    assert generate(0) == []
    assert len(generate()) == 1000


def test_global_random_state_is_neither_read_nor_changed():
    random.seed(1)
    before = random.getstate()
    first = generate(20)
    assert random.getstate() == before
    random.seed(2)
    np.random.seed(2)
    torch.manual_seed(2)
    assert generate(20) == first


@pytest.mark.slow
def test_independent_of_the_hash_seed():
    code = "from pyrogram.data.builtin import generate, grammar_rules; print(generate(40, 5), grammar_rules())"
    root = Path(__file__).parents[2]
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert printed == {f"{generate(40, 5)} {grammar_rules()}\n".encode()}


def test_refusals():
    with pytest.raises(ValueError, match=r"^num_sentences must not be negative, but is -1\.$"):
        generate(-1)
    with pytest.raises(ValueError, match=r"^seed must not be negative, but is -2\.$"):
        generate(1, seed=-2)
    with pytest.raises(ValueError, match=r"^terminals must be \"tags\" or \"words\", but is 'bits'\.$"):
        grammar_rules("bits")  # type: ignore[arg-type]


# --- the analyses ----------------------------------------------------------------------------------------


def test_heads_are_projective_trees_with_one_root():
    heads = torch.full((len(corpus()), MAX_WORDS), -1)
    for row, sentence in zip(heads, corpus(), strict=True):
        assert len(sentence.heads) == len(sentence.forms) == len(sentence.tags)
        row[: len(sentence.heads)] = torch.tensor(sentence.heads)
    assert is_tree(heads).all()


def test_brackets_show_the_same_words_and_tags():
    for sentence, tree in zip(corpus(), trees(), strict=True):
        assert tree.label() == "S"
        assert tuple(tree.pos()) == tuple(zip(sentence.forms, sentence.tags, strict=True))


def test_heads_follow_from_the_brackets():
    for sentence, tree in zip(corpus(), trees(), strict=True):
        assert list(sentence.heads) == percolate(tree), sentence


def test_conventions_on_arcs():
    """Word by word: a modal heads its verb, a verb its "to", a noun its determiner, "'s" the possessor."""
    nominal = {"NN", "NNS", "POS"}
    governors = {"DT": nominal, "PRP$": nominal, "CD": nominal, "PDT": nominal, "RP": set(FINITE.split())}
    seen = Counter()
    for sentence in corpus():
        tags = ("wall", *sentence.tags)
        for position, (tag, head) in enumerate(zip(sentence.tags, sentence.heads, strict=True), start=1):
            above = tags[head]
            assert above in governors.get(tag, {above}), sentence
            if tag == "TO" and tags[position + 1] == "VB":
                assert head == position + 1, sentence
                seen["to"] += 1
            if tag == "VB" and tags[position - 1] == "MD":
                assert head == position - 1, sentence
                seen["modal"] += 1
            if sentence.forms[position - 1] == "not":
                assert head == position - 1 and above in {"MD", "VBZ", "VBP", "VBD"}, sentence
                seen["not"] += 1
            if above == "POS" and tag in {"NN", "NNP"}:
                assert head == position + 1, sentence
                seen["'s"] += 1
            if tag in {"WP", "WDT"}:
                assert above in {"NN", "NNS"} and head < position, sentence
                seen["relative"] += 1
    assert len(seen) == 5 and min(seen.values()) > 20


def test_subjects_and_verbs_agree():
    seen = Counter()
    for sentence, tree in zip(corpus(), trees(), strict=True):
        for node in tree.subtrees(lambda t: t.label() in {"S", "NP"}):
            children = {child.label(): child for child in node}
            if node.label() == "S" and {"NP", "VP"} <= children.keys():
                subject, verb = children["NP"], children["VP"]
                if subject[0].label() == "EX":
                    subject = next(child for child in verb if child.label() == "NP")
            elif node.label() == "NP" and "SBAR" in children and len(children["SBAR"][1]) == 1:
                subject, verb = children["NP"], children["SBAR"][1][0]  # "the man who sings"
            else:
                continue
            for number in verb_numbers(verb):
                assert number == subject_number(subject), sentence
                seen[node.label(), number] += 1
    assert len(seen) == 4 and min(seen.values()) > 5


def test_verb_forms_after_auxiliaries():
    """A modal, "to" and "do not" take a base form, "have" a past participle, "be" either participle."""
    after = {"MD": {"VB"}, "do": {"VB"}, "have": {"VBN"}, "be": {"VBG", "VBN"}}
    words = {"do": "do does did", "have": "have has had", "be": "be been is are was were"}
    lemma = {form: name for name, forms in words.items() for form in forms.split()}
    seen = Counter()
    for sentence, tree in zip(corpus(), trees(), strict=True):
        for node in tree.subtrees(lambda t: t.label() == "VP" and t[-1].label() == "VP"):
            first = node[0]
            if first.label() == "VP":
                continue
            key = {"MD": "MD", "TO": "MD"}.get(first.label()) or lemma[first[0]]
            assert head_word(node[-1])[1] in after[key], sentence
            seen[key] += 1
    assert seen.keys() == after.keys()


def test_tags_lengths_and_variety():
    sentences = corpus()
    lengths = [len(sentence.forms) for sentence in sentences]
    tags = {tag for sentence in sentences for tag in sentence.tags}
    assert tags <= PENN_TAGS
    expected = "CC CD DT IN JJ MD NN NNS NNP POS PRP PRP$ RB TO VB VBD VBG VBN VBP VBZ WDT WP"
    assert tags >= set(expected.split())
    assert 1 <= min(lengths) and max(lengths) == MAX_WORDS == 20
    assert 7 <= sum(lengths) / len(lengths) <= 8
    assert sum(length <= 10 for length in lengths) > len(lengths) / 2
    assert len({sentence.tags for sentence in sentences}) >= 0.4 * len(sentences)
    commands = [sentence for sentence in sentences if len(sentence.forms) == 1]
    assert {sentence.tags for sentence in commands} <= {("VB",)}


def test_spelling():
    for sentence in corpus():
        for form, tag, after in zip(sentence.forms, sentence.tags, (*sentence.forms[1:], ""), strict=True):
            assert form != "a" or after[0] not in "aeiou", sentence
            assert form[0].isupper() == (tag == "NNP"), sentence
