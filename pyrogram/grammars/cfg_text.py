# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules of context-free grammars: terminals told from nonterminals, and nltk's notation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyrogram.printable import printable, quoted, shown

_LINE_END = re.compile("\r\n?|\n")  # and not what else str.splitlines cuts at, which words may hold
_LONGEST_RULE = 200  # characters of a rule in a message
_TOKEN = re.compile(r"""\s*(?:'([^']*)'|"([^"]*)"|\[\s*([^\]\s]*)\s*\]|(\|)|([^\s|'"\[\]]+))""")


class Word(str):
    """A terminal, where a plain string might be taken for a nonterminal; never equal to a plain string."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Word) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return f"Word({str.__repr__(self)})"


Rule = tuple[str, tuple[str, ...]]


def show(rule: tuple[str, Any]) -> str:
    """A rule for messages: ``NP -> DT 'dog'``."""
    lhs, rhs = rule
    symbols = (quoted(str(s)) if isinstance(s, Word) else shown(str(s)) for s in rhs)
    return printable(f"{shown(str(lhs))} -> {' '.join(symbols)}", _LONGEST_RULE)


def read_rules(text: str) -> tuple[list[Rule], list[float] | None, str | None]:
    """Rules, probabilities if given, and the start symbol if said.

    A line is ``S -> NP VP [0.7] | 'word' [0.3]``: quoted symbols are terminals, all others nonterminals. ``#`` starts
    a comment, ``\\`` at its end continues a line, ``%start S`` says the start symbol.

    :raises ValueError: with the line's number, if a line cannot be read or only some rules have a probability.
    """
    rules: list[Rule] = []
    probs: list[float | None] = []
    start: str | None = None
    for number, line in _lines(text):
        if line.startswith("%"):
            directive, _, argument = line[1:].partition(" ")
            if directive != "start" or len(argument.split()) != 1:
                raise ValueError(f"line {number} is {quoted(line)}, but the only directive is '%start SYMBOL'")
            start = argument.strip()
            continue
        lhs, arrow, rest = line.partition("->")
        if not arrow or len(lhs.split()) != 1 or lhs.strip()[0] in "'\"":
            raise ValueError(f"line {number} is {quoted(line)}, not a rule; write one as A -> B 'c' [0.5]")
        for rhs, prob in _alternatives(number, rest):
            rules.append((lhs.strip(), rhs))
            probs.append(prob)
    probabilities = [p for p in probs if p is not None]
    if probabilities and len(probabilities) < len(probs):
        lacking = next(rule for rule, p in zip(rules, probs, strict=True) if p is None)
        raise ValueError(f"rule {show(lacking)} has no probability though others have one; give all or none")
    return rules, probabilities or None, start


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with something on them, continued ones joined, with the number of the first."""
    first, held = 0, ""
    for number, line in enumerate(_LINE_END.split(text), 1):
        first = first if held else number
        held += line.strip()
        if held.endswith("\\"):
            held = held[:-1].rstrip() + " "
            continue
        line, held = _without_comment(held.strip()), ""
        if line:
            yield first, line
    if held.strip():
        raise ValueError(f"line {first} ends in a backslash, but nothing follows; remove it")


def _without_comment(line: str) -> str:
    """Cut off from # on, unless it is in quotes or inside a symbol."""
    quote = ""
    for i, c in enumerate(line):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c == "#" and (i == 0 or line[i - 1].isspace()):
            return line[:i].strip()
    return line


def _alternatives(number: int, text: str) -> Iterator[tuple[tuple[str, ...], float | None]]:
    symbols: list[str] = []
    prob: float | None = None
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(
                f"line {number} cannot be read from {quoted(text[position:].strip())} on; is a quote missing?"
            )
        position = match.end()
        single, double, number_text, bar, symbol = match.groups()
        if bar:
            yield tuple(symbols), prob
            symbols, prob = [], None
        elif number_text is not None:
            prob = _probability(number, number_text)
        elif prob is not None:
            raise ValueError(f"line {number} has a symbol after [{prob}]; write | before another right side")
        elif symbol is not None:
            symbols.append(symbol)
        else:
            symbols.append(Word(single if single is not None else double))
    yield tuple(symbols), prob


def _probability(line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"line {line} has [{shown(text)}], which is no probability; write a number from 0 to 1")
    return value
