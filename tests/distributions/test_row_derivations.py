# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What derivations of rules, of recursions and of subtypes have in common: one constructor, sums, messages."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram import CFG, LatentAnnotations
from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.distributions.recursive_derivation import RecursiveDerivation
from pyrogram.grammar import Block
from pyrogram.grammars import RecursiveGrammar
from pyrogram.recursion import recursion

RULES = CFG.from_string("S -> S S | A S | 'a'\nA -> 'a'")
SUBTYPES = LatentAnnotations(CFG.from_string("S -> A A\nA -> 'a' | 'b'"), 2)


@recursion
def chain(p: Any) -> None:
    """An HMM without an end."""
    t = p.positions("t")
    y, z = p.symbols("y z", "K")
    w = p.words("w")
    F, Z = p.items("F", "K"), p.items("Z")
    initial, transition = p.weights("initial", "K"), p.weights("transition", "K", "K")
    emission = p.weights("emission", "K", "V")
    F[1, z] += initial[z] * emission[z, w[1]]
    F[t, z] += F[t - 1, y] * transition[y, z] * emission[z, w[t]]
    Z[()] += F[p.n, z]


SHAPES = {"initial": (2,), "transition": (2, 2), "emission": (2, 3)}
OWN = RecursiveGrammar({name: Block(torch.Size(shape)) for name, shape in SHAPES.items()}, chain(), 3)
CASES: dict[str, tuple[Any, Tensor]] = {
    "rules": (RULES, torch.tensor([[0, 0, 0]])),
    "subtypes": (SUBTYPES, torch.tensor([[0, 1, 2]])),
    "own": (OWN, torch.tensor([[0, 1, 2]])),
}


# torch deprecates jit.trace, which it still has, and warns of each number that validation reads.
traces = pytest.mark.filterwarnings("ignore:.*torch.jit.trace", "ignore::torch.jit.TracerWarning")


@traces
@pytest.mark.parametrize("name", CASES)
def test_traced_counts_are_of_the_weights_that_are_given(name: str) -> None:
    grammar, words = CASES[name]

    def counts(*tables: Tensor) -> list[Tensor]:
        logs = dict(zip(grammar.blocks, tables, strict=True))
        return list(grammar.derivation(None, words, log_weights=logs).expected_counts().values())

    first, others = ([torch.randn(b.shape) for b in grammar.blocks.values()] for _ in range(2))
    traced: Any = torch.jit.trace(counts, first, check_trace=False)
    torch.testing.assert_close(list(traced(*others)), counts(*others))


@traces
def test_traced_counts_of_arcs() -> None:
    first, others = torch.randn(2, 4, 4), torch.randn(2, 4, 4)

    def counts(scores: Tensor) -> Tensor:
        (arcs,) = ProjectiveDependencyTree(scores, validate_args=False).expected_counts().values()
        return arcs

    traced: Any = torch.jit.trace(counts, first, check_trace=False)
    torch.testing.assert_close(traced(others), counts(others))


def test_kinds_of_evidence_with_batches_of_their_own() -> None:
    words, weights = torch.tensor([0, 1, 1]), {n: torch.rand(s) for n, s in SHAPES.items()}
    positions, sizes = OWN.item_axes("initial")
    evidence = {"F": torch.randn(3, 4, 2), "initial": torch.randn(*[4] * positions, *sizes)}
    law = OWN.derivation(weights, words, evidence=evidence)
    row = law.sample()[0]
    torch.testing.assert_close(law.log_prob(row), law.log_prob(row.expand(3, -1)))


@pytest.mark.parametrize("words, known", [((0, 1, 0), True), ((0, 2, 0), False)])
def test_one_sentence_does_not_meet_what_is_no_number(words: tuple[int, ...], known: bool) -> None:
    """Log Z, the entropy, and log Z again, when counts are at hand."""
    logs = {n: torch.randn(s) for n, s in SHAPES.items()}
    logs["emission"][:, 2] = torch.nan
    law = RecursiveDerivation(OWN, None, torch.tensor(words), log_weights=logs, validate_args=False)
    assert all(bool(x.isfinite()) == known for x in (law.log_partition, law.entropy(), law.log_partition))


def test_subtypes_of_other_grammars_have_no_divergence() -> None:
    other = LatentAnnotations(CFG.from_string("S -> B B\nB -> 'b' | 'c'"), 2)
    words, weights = torch.tensor([[0, 1, 2]]), {"rules": torch.ones(8)}
    law = SUBTYPES.derivation(weights, words)
    with pytest.raises(NotImplementedError, match="different grammars"):
        kl_divergence(law, other.derivation(weights, words))
    with pytest.raises(NotImplementedError, match="different sentences"):
        kl_divergence(law, SUBTYPES.derivation(weights, words[:, :-1]))


def test_messages_name_what_was_given() -> None:
    words, weights = torch.tensor([[0, 0]]), {"rules": torch.ones(4)}
    spoilt = {"rules": torch.tensor([0.0, torch.inf, 0.0, 0.0])}
    with pytest.raises(
        ValueError, match="^log_weights must be real numbers or -inf, but some of block 'rules' are not"
    ):
        RULES.derivation(None, words, log_weights=spoilt)
    with pytest.raises(
        ValueError, match="^weights must be non-negative and finite, but some of block 'rules' are not$"
    ):
        RULES.derivation({"rules": -torch.ones(4)}, words)
    with pytest.raises(ValueError, match=r"but value 0, \[0.0, 1.5, 1.5\], is not"):
        RULES.derivation(weights, words).log_prob(torch.tensor([[0.0, 1.5, 1.5]]))
    trees = torch.tensor([[0, 1, 2]])
    with pytest.raises(ValueError, match="values must be subtypes of the nodes"):
        SUBTYPES.derivation({"rules": torch.ones(8)}, trees).log_prob(torch.zeros(1, 5).long())


@pytest.mark.parametrize(
    "evidence, message",
    [
        ({"spans": torch.zeros(3, 3)}, "have evidence on 'crossing' alone, not on 'spans'"),
        ({"crossing": torch.zeros(3).bool()}, "evidence on crossing must have 2 dimensions at least, not 1"),
        ({"crossing": torch.zeros(3, 3)}, r"must be bool, of shape \(\*batch, n\+1, n\+1\), not torch.float32"),
    ],
)
def test_evidence_that_does_not_fit(evidence: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RULES.derivation({"rules": torch.ones(4)}, torch.tensor([[0, 0]]), evidence=evidence).entropy()
