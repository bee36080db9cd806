# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Context-free grammars for the battery: in normal form and not, their derivations listed by rewriting."""

import torch
from rewriting import derivations, span_parts
from torch import Tensor

from pyrogram import CFG
from pyrogram.distributions import PCFGDerivation
from pyrogram.testing import DistributionCase, GrammarCase

CFGS = {
    "in normal form": """
        S -> S A | A S | 'a' | 'b'
        A -> A S | 'b'
    """,
    "with unary rules": """
        S -> A S | A | B
        A -> B | 'a'
        B -> 'a' | 'b'
    """,
    "with long rules": """
        S -> A 'b' A S | S A A | A | 'a' 'b'
        A -> 'a' | 'a' 'b' 'b' | 'b' 'b' | 'b'
    """,
    "with one rule for a left side": """
        S -> S T | T
        T -> A
        A -> 'a' | 'b' | 'a' 'a'
    """,
}
SENTENCES = [["a", "b", "b"], ["b"], ["a", "b"], ["b", "b", "a"]]


def cfg_case(text: str) -> GrammarCase:
    grammar = CFG.from_string(text)
    sentences = [s for s in SENTENCES if derivations(grammar, s)]
    return GrammarCase(grammar, grammar.encode(sentences), parts=lambda values: span_parts(grammar, values))


def derivation_case(text: str, sentence: str, forbidden: tuple[int, ...] = ()) -> DistributionCase:
    """Derivations of a sentence, as rewriting finds them."""
    grammar = CFG.from_string(text)
    R = len(grammar.rules)
    words = grammar.encode([sentence])[0]
    found = derivations(grammar, sentence.split())
    L = grammar.derivation({"rules": torch.ones(R)}, words).event_shape[0]
    support = torch.tensor([row + [-1] * (L - len(row)) for row in found])
    log_weights = torch.randn(R, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    log_weights[list(forbidden)] = -torch.inf

    def counts(values: Tensor) -> dict[str, Tensor]:
        rows = values.reshape(-1, values.shape[-1]).long().tolist()
        counted = [[float(row.count(r)) for r in range(R)] for row in rows]
        return {"rules": torch.tensor(counted, dtype=torch.float64).reshape(*values.shape[:-1], R)}

    def rival() -> PCFGDerivation:
        return CFG.from_string("S -> S S | 'a'").derivation({"rules": torch.ones(2)}, torch.zeros(3).long())

    return DistributionCase(
        lambda weights: grammar.derivation(None, words, log_weights=weights),
        {"rules": log_weights},
        parts=lambda values: span_parts(grammar, values),
        invalid=invalid_values(support, len(found[0]), R),
        support=support,
        counts=counts,
        rivals=[rival],
        read={"rules": torch.ones(R, dtype=torch.bool)},
    )


def invalid_values(support: Tensor, size: int, num_rules: int) -> dict[str, Tensor]:
    """What no derivation is, made from the first one."""
    first, rows = support[0], {tuple(row) for row in support.tolist()}

    def changed(place: int, rule: int) -> Tensor:
        value = first.clone()
        value[place] = rule
        return value

    values = {
        "a rule that there is not": changed(size - 1, num_rules),
        "too few rules": changed(size - 1, -1),
        "a negative rule": changed(0, -2),
        "nothing but padding": torch.full_like(first, -1),
        "another rule at the start": changed(0, num_rules - 1),
        "a hole": torch.cat([first[:1], torch.tensor([-1]), first[1:]])[: len(first)],
        "two rules exchanged": torch.cat([first[[1, 0]], first[2:]]),
    }
    if size < len(first):
        values["a rule too many"] = changed(size, int(first[0]))
    return {what: value for what, value in values.items() if tuple(value.tolist()) not in rows}


GRAMMARS = {f"CFG {name}": cfg_case(text) for name, text in CFGS.items()}
DERIVATIONS = {
    f"CFG {name}, {words}": case
    for name in ("in normal form", "with long rules")
    for words, case in GRAMMARS[f"CFG {name}"].derivations().items()
    if words == "padded"
}
DERIVATIONS |= {
    "CFG in normal form": derivation_case(CFGS["in normal form"], "a b b a"),
    "CFG with unary rules": derivation_case(CFGS["with unary rules"], "a a a"),
    "CFG with long rules": derivation_case(CFGS["with long rules"], "a b b b"),
    "CFG with a forbidden rule": derivation_case(CFGS["with long rules"], "a b b b", (3,)),
}
