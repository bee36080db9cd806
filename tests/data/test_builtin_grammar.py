# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The built-in corpus against its grammar as nltk reads it: parses, lengths and frequencies of rules."""

from collections import Counter
from functools import lru_cache

import nltk
import numpy as np
import pytest
from data.generated import corpus, trees
from scipy.stats import chisquare

from pyrogram.data.builtin import MAX_WORDS, grammar_rules


@lru_cache(maxsize=2)
def grammar(terminals: str) -> nltk.PCFG:
    return nltk.PCFG.fromstring(grammar_rules(terminals))


@pytest.mark.parametrize("terminals", ["tags", "words"])
def test_the_grammar_parses_as_text_and_is_normalised(terminals):
    rules = grammar(terminals).productions()
    assert str(grammar(terminals).start()) == "S"
    totals = Counter()
    for rule in rules:
        totals[rule.lhs()] += rule.prob()
        assert rule.prob() > 0 and len(rule.rhs()) > 0
        assert rule.is_nonlexical() or len(rule.rhs()) == 1
    np.testing.assert_allclose(list(totals.values()), 1.0, rtol=0, atol=1e-12)
    assert len({(rule.lhs(), rule.rhs()) for rule in rules}) == len(rules)
    assert {symbol for rule in rules if rule.is_nonlexical() for symbol in rule.rhs()} <= totals.keys()


def test_probabilities_worked_out_by_hand():
    """Weights 6 and 4, shared 0.65 to 0.35 between the numbers; words by 1 / (rank + 1)."""
    probabilities = {f"{r.lhs()} -> {r.rhs()}": r.prob() for r in grammar("words").productions()}
    assert probabilities["PP-DIR -> (TO, NP-ACC-SG-LOC)"] == pytest.approx(0.6 * 0.65, abs=1e-12)
    assert probabilities["PP-DIR -> (IN-DIR, NP-ACC-PL-LOC)"] == pytest.approx(0.4 * 0.35, abs=1e-12)
    assert probabilities["CC-S -> ('and',)"] == pytest.approx((1 / 2) / (1 / 2 + 1 / 3), abs=1e-12)


def test_terminals_are_tags_or_words():
    tags = {rule.rhs()[0] for rule in grammar("tags").productions() if rule.is_lexical()}
    words = {rule.rhs()[0] for rule in grammar("words").productions() if rule.is_lexical()}
    assert {tag for sentence in corpus() for tag in sentence.tags} == tags
    assert {form for sentence in corpus() for form in sentence.forms} <= words


def test_the_grammar_is_subcritical():
    rules = grammar("tags").productions()
    index = {symbol: i for i, symbol in enumerate(dict.fromkeys(rule.lhs() for rule in rules))}
    children = np.zeros((len(index), len(index)))
    for rule in rules:
        for symbol in rule.rhs() if rule.is_nonlexical() else ():
            children[index[rule.lhs()], index[symbol]] += rule.prob()
    assert np.abs(np.linalg.eigvals(children)).max() < 0.75


def test_the_grammar_derives_the_sentences():
    """A chart parser of nltk finds the brackets among the parses of the tags."""
    parser = nltk.EarleyChartParser(grammar("tags"))
    for sentence in corpus()[:50]:
        if len(sentence.tags) <= 5:
            wanted = nltk.Tree.fromstring(sentence.brackets)
            for place, tag in zip(wanted.treepositions("leaves"), sentence.tags, strict=True):
                wanted[place] = tag
            assert str(wanted) in {str(plain(parse)) for parse in parser.parse(sentence.tags)}, sentence


def plain(tree: nltk.Tree) -> nltk.Tree:
    """Labels without their features, preterminals named by their tag."""
    if isinstance(tree[0], str):
        return nltk.Tree(tree[0], [tree[0]])
    return nltk.Tree(printed(tree.label()), [plain(child) for child in tree])


def printed(symbol: object) -> str:
    return str(symbol).split("-")[0]


def length_probabilities(weight=lambda rule: 1.0) -> dict:
    """P(a symbol yields l words and its first rule ...), l = 0..MAX_WORDS, each rule times its weight."""
    by_left: dict = {}
    for rule in grammar("tags").productions():
        by_left.setdefault(rule.lhs(), []).append((rule.prob() * weight(rule), rule))
    order: list = []

    def after_unary_children(symbol):
        if symbol not in order:
            for _, rule in by_left[symbol]:
                if rule.is_nonlexical() and len(rule.rhs()) == 1:
                    after_unary_children(rule.rhs()[0])
            order.append(symbol)

    for symbol in by_left:
        after_unary_children(symbol)
    table = {symbol: np.zeros(MAX_WORDS + 1, dtype=complex) for symbol in order}
    for length in range(1, MAX_WORDS + 1):
        for symbol in order:
            table[symbol][length] = sum(p * rule_lengths(rule, table)[length] for p, rule in by_left[symbol])
    return table


def rule_lengths(rule, table) -> np.ndarray:
    lengths = np.eye(MAX_WORDS + 1)[int(rule.is_lexical())]
    for symbol in rule.rhs() if rule.is_nonlexical() else ():
        lengths = np.convolve(lengths, table[symbol])[: MAX_WORDS + 1]
    return lengths


def test_lengths_and_first_rules_have_the_probabilities_of_the_grammar():
    table = length_probabilities()
    start = grammar("tags").start()
    lengths = table[start].real
    assert lengths[1] > 0
    counts = np.bincount([len(sentence.forms) for sentence in corpus()], minlength=MAX_WORDS + 1)
    expected = lengths / lengths.sum() * len(corpus())
    pool = [[1, 2], *([length] for length in range(3, 16)), [16, 17], [18, 19, 20]]
    observed = [counts[cell].sum() for cell in pool]
    assert chisquare(observed, [expected[cell].sum() for cell in pool]).pvalue > 0.001

    first = Counter(" ".join(child.label() for child in tree) for tree in trees())
    probability: Counter = Counter()
    for rule in grammar("tags").productions(lhs=start):
        right = " ".join(printed(symbol) for symbol in rule.rhs())
        probability[right] += rule.prob() * rule_lengths(rule, table).real.sum() / lengths.sum()
    assert first.keys() <= probability.keys()
    expected_first = np.array(list(probability.values())) * len(trees())
    assert expected_first.min() > 5
    assert chisquare([first[right] for right in probability], expected_first).pvalue > 0.001


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "rule",
    [
        "NP -> DT NN",
        "NP -> PRP",
        "NP -> NP PP",
        "NP -> NP CC NP",
        "VP -> MD VP",
        "SBAR -> WHNP S",
        "VP -> TO VP",
    ],
)
def test_rules_are_as_frequent_as_the_grammar_says(rule):
    """The expected count given the bound on the length is d log Z / d log p, by a complex step."""
    tags = {r.lhs(): r.rhs()[0] for r in grammar("tags").productions() if r.is_lexical()}

    def name(r) -> str:
        return f"{printed(r.lhs())} -> {' '.join(tags.get(symbol, printed(symbol)) for symbol in r.rhs())}"

    step = 1e-20
    table = length_probabilities(lambda r: 1 + 1j * step if r.is_nonlexical() and name(r) == rule else 1.0)
    z = table[grammar("tags").start()].sum()
    expected = z.imag / step / z.real
    assert expected > 0.02
    counts = np.array(
        [
            sum(
                f"{node.label()} -> {' '.join(child.label() for child in node)}" == rule
                for node in tree.subtrees(lambda t: not isinstance(t[0], str))
            )
            for tree in trees()
        ]
    )
    z_score = (counts.mean() - expected) / (counts.std() / len(counts) ** 0.5)
    assert abs(z_score) < 3.5
