# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A built-in corpus: sentences with words, Penn tags, heads and brackets, drawn from a grammar of our own.

The grammar (`pyrogram/data/_english.py`, its words in `_english_words.py`) is a probabilistic phrase grammar
of English in which every rule marks its head child. Number, case and the kinds of things that verbs and
adjectives go with are split categories, printed with the plain labels. There is no punctuation, and only
names begin with a capital.

**Brackets** are in the style of the Penn treebank, without traces. **Heads** are percolated from the
derivation by the rules of Yamada and Matsumoto (2003, "Statistical dependency analysis with support vector
machines"), as in the usual dependency trees of the Wall Street Journal:

* the finite verb heads its clause; an auxiliary or modal heads the verb phrase after it, and "not" depends
  on it; in "to VB" the verb is the head and "to" depends on it;
* a preposition (also "to" before a noun) heads its object; a complementiser, "when" or a relative pronoun
  heads the clause after it;
* a noun heads its determiners, adjectives, numbers and possessors; "'s" heads the possessor; the last of
  two names heads the first;
* of coordinated verb phrases the first is the head, of anything else coordinated the last; the conjunction
  depends on the head.

The trees are projective and have a single root by construction.

**Lengths.** A sentence has 1 to `MAX_WORDS` = 20 words. A longer one is dropped and drawn again, so sentences
have their probabilities under the grammar, given at most 20 words. Sentences of one word occur, but
rarely: they are commands ("wait"). The grammar is subcritical (the matrix of expected numbers of children
of each symbol has spectral radius below 0.75), so derivations end with probability 1; and as no rule is
empty, a draw is given up as soon as words and open symbols exceed 20, so nothing can overflow.

Time and memory are linear in the number of words.
"""

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, product
from typing import Literal

from pyrogram.data._english import RULES, VARIABLES
from pyrogram.data._english_words import NOUNS, VERB_FORMS, VERBS, WORDS

MAX_WORDS = 20
_START = "S"


@dataclass(frozen=True)
class GeneratedSentence:
    """A sentence with its analyses.

    :ivar forms: the words.
    :ivar tags: their Penn tags.
    :ivar heads: as in CoNLL: for each word the position 1..n of its head, 0 for ROOT.
    :ivar brackets: the phrase structure, ``(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))``.
    """

    forms: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    brackets: str


def generate(num_sentences: int = 1000, seed: int = 0) -> list[GeneratedSentence]:
    """Draw sentences independently. A longer corpus of the same seed begins with the shorter one.

    The draws use a generator of their own: no global random state is read or changed.

    :param num_sentences: how many, not negative.
    :param seed: not negative.
    """
    if num_sentences < 0:
        raise ValueError(f"num_sentences must not be negative, but is {num_sentences}.")
    if seed < 0:  # random.Random takes the absolute value: -1 would silently be 1
        raise ValueError(f"seed must not be negative, but is {seed}.")
    rng = random.Random(seed)
    sentences: list[GeneratedSentence] = []
    while len(sentences) < num_sentences:
        derivation = _derive(rng)
        if derivation is not None:
            sentences.append(_sentence(derivation))
    return sentences


def grammar_rules(terminals: Literal["tags", "words"] = "tags") -> str:
    """The grammar as text that ``nltk.PCFG.fromstring`` reads. The start symbol is S.

    Symbols are split categories: the part before the first hyphen is the label in the brackets. Rules have
    either symbols or a single terminal on their right; no rule is empty and no chain of unary rules
    is a cycle. Probabilities are those before the bound on the length.

    :param terminals: ``"tags"``: a symbol with words gives its Penn tag; ``"words"``: it gives its words.
    """
    if terminals not in ("tags", "words"):
        raise ValueError(f'terminals must be "tags" or "words", but is {terminals!r}.')
    lines = []
    for symbol, (_, rules) in _grammar().items():
        if rules[0].word and terminals == "tags":
            lines.append(f'{symbol} -> "{rules[0].label}" [1.0]')
            continue
        for rule in rules:
            right = f'"{rule.word}"' if rule.word else " ".join(rule.children)
            lines.append(f"{symbol} -> {right} [{rule.probability:.15f}]")
    return "\n".join(lines)


@dataclass(frozen=True)
class _Rule:
    """A rule: either children, one of them the head, or a word; label is what the brackets print."""

    label: str
    probability: float
    children: tuple[str, ...] = ()
    head: int = 0
    word: str = ""


_Grammar = dict[str, tuple[list[float], list[_Rule]]]


def _derive(rng: random.Random) -> list[_Rule] | None:
    """The rules of a leftmost derivation, or None if it has more than MAX_WORDS words."""
    grammar = _grammar()
    derivation: list[_Rule] = []
    open_symbols = [_START]
    words = 0
    while open_symbols:
        cumulative, rules = grammar[open_symbols.pop()]
        rule = rules[bisect_right(cumulative, rng.random())]
        derivation.append(rule)
        if rule.word:
            words += 1
        open_symbols.extend(reversed(rule.children))
        if words + len(open_symbols) > MAX_WORDS:
            return None
    return derivation


def _sentence(derivation: list[_Rule]) -> GeneratedSentence:
    forms: list[str] = []
    tags: list[str] = []
    heads: list[int] = []
    remaining = iter(derivation)

    def build(rules: Iterator[_Rule]) -> tuple[int, str]:
        """Position of the head and brackets of the next constituent; at most MAX_WORDS unary chains deep."""
        rule = next(rules)
        if rule.word:
            forms.append(rule.word)
            tags.append(rule.label)
            heads.append(0)
            return len(forms), f"({rule.label} {rule.word})"
        children = [build(rules) for _ in rule.children]
        head = children[rule.head][0]
        for position, _ in children:
            if position != head:
                heads[position - 1] = head
        return head, f"({rule.label} {' '.join(brackets for _, brackets in children)})"

    _, brackets = build(remaining)
    return GeneratedSentence(tuple(forms), tuple(tags), tuple(heads), brackets)


@lru_cache(maxsize=1)
def _grammar() -> _Grammar:
    """Symbol -> cumulative probabilities (all but the last, which is 1) and rules; only what S reaches."""
    weighted = _phrase_rules() | _word_rules()
    grammar: _Grammar = {}
    agenda = [_START]
    while agenda:
        symbol = agenda.pop()
        if symbol in grammar:
            continue
        rules = weighted[symbol]
        total = sum(rules.values())
        normalised = [_Rule(r.label, w / total, r.children, r.head, r.word) for r, w in rules.items()]
        grammar[symbol] = list(accumulate(r.probability for r in normalised))[:-1], normalised
        agenda.extend(child for rule in reversed(normalised) for child in reversed(rule.children))
    return grammar


def _phrase_rules() -> dict[str, dict[_Rule, float]]:
    """RULES with their variables expanded: symbol -> rules and their weights."""
    weighted: dict[str, dict[_Rule, float]] = {}
    left = ""
    for line in filter(None, RULES.splitlines()):
        if not line.startswith(" "):
            left = line
            continue
        weight, right = line.split(maxsplit=1)
        for copy in _expansions(left):
            symbol, chosen = _substitute(left, copy), _substitute(right, copy)
            for choice in _expansions(chosen):
                children = _substitute(chosen, choice).split()
                head = next(i for i, child in enumerate(children) if child.startswith("*"))
                names = tuple(child.removeprefix("*") for child in children)
                share = float(weight)
                for variable, value in choice.items():
                    share *= VARIABLES[variable][value]
                rules = weighted.setdefault(symbol, {})
                rule = _Rule(symbol.split("-")[0], 0.0, names, head)
                rules[rule] = rules.get(rule, 0.0) + share
    return weighted


def _word_rules() -> dict[str, dict[_Rule, float]]:
    """Symbols that give words: symbol -> rules and their weights, 1 / (rank + 1)."""
    lists = {symbol: (tag, words.split()) for symbol, (tag, words) in WORDS.items()}
    for kind, entries in NOUNS.items():
        rows = [line.split() for line in entries.strip().splitlines()]
        for number, tag, column in (("SG", "NN", 0), ("PL", "NNS", 1)):
            lists[f"NN-{number}-{kind}"] = tag, [row[column] for row in rows]
    for kind, entries in VERBS.items():
        rows = [line.split() for line in entries.strip().splitlines()]
        for form, (tag, column) in VERB_FORMS.items():
            lists[f"V-{form}-{kind}"] = tag, [row[column] for row in rows]
    return {
        symbol: {_Rule(tag, 0.0, word=word): 1.0 / (rank + 1) for rank, word in enumerate(words, start=1)}
        for symbol, (tag, words) in lists.items()
    }


def _expansions(text: str) -> Iterator[dict[str, str]]:
    """Every assignment of values to the variables that occur in the text."""
    variables = [variable for variable in VARIABLES if variable in text]
    for values in product(*(VARIABLES[variable] for variable in variables)):
        yield dict(zip(variables, values, strict=True))


def _substitute(text: str, values: dict[str, str]) -> str:
    for variable, value in values.items():
        text = text.replace(variable, value)
    return text
