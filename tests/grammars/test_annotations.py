# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Latent annotations: the battery, and sums over all subtypes written out."""

import pytest
import torch

from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.grammars.cfg import CFG
from pyrogram.testing import GRAMMAR_CHECKS, GrammarCase, checks_for, chi_square

CATS = "S -> A\nA -> A B | 'x' | 'y'\nB -> 'z'"


def small(num_subtypes=2) -> LatentAnnotations:
    return LatentAnnotations(CFG.from_string(CATS), num_subtypes)


def rule(grammar: LatentAnnotations, text: str) -> int:
    lhs, rhs = text.split(" -> ")
    return next(i for i, r in enumerate(grammar.cfg.rules) if r[0] == lhs and " ".join(r[1]) == rhs)


def row(grammar: LatentAnnotations, *rules: str) -> list[int]:
    return [rule(grammar, text) for text in rules]


ONE = ("S -> A", "A -> x")
TWO = ("S -> A", "A -> A B", "A -> y", "B -> z")


def words(grammar: LatentAnnotations) -> torch.Tensor:
    return torch.tensor([row(grammar, *TWO), row(grammar, *ONE) + [-1, -1]])


def case() -> GrammarCase:
    grammar = small()
    return GrammarCase(
        grammar,
        words(grammar),
        parts=lambda v: torch.nn.functional.one_hot(v.long() + 1, 3)[..., 1:].to(torch.float64),
        initialisers=[("split", {"seed": 0})],
        longest=4,
    )


@pytest.mark.one_in(18)
@pytest.mark.parametrize("name", GRAMMAR_CHECKS)
def test_grammar(name: str) -> None:
    GRAMMAR_CHECKS[name](case())


DERIVATIONS = [
    (f"{which}-{name}", check, derivation)
    for which, derivation in case().derivations().items()
    for name, check in checks_for(derivation).items()
]


@pytest.mark.one_in(15)
@pytest.mark.parametrize("check, derivation", [d[1:] for d in DERIVATIONS], ids=[d[0] for d in DERIVATIONS])
def test_derivation(check, derivation) -> None:
    check(derivation)


# ---------------------------------------------------------------------- what is its own


def test_base_rules_must_be_binary() -> None:
    for text in ("S -> A A A\nA -> 'x'", "S -> A 'x'\nA -> 'x'", "S -> 'x' 'x'"):
        with pytest.raises(ValueError, match="is none of A -> B C, A -> B and A -> w"):
            LatentAnnotations(CFG.from_string(text), 2)


def test_numbers_of_subtypes() -> None:
    grammar = small({"A": 3})
    assert grammar.num_subtypes == {"S": 1, "A": 3, "B": 1}
    # S -> A: 3; each A: 3 * 1 + 1 + 1; B -> z: 1
    assert tuple(grammar.blocks["rules"].sizes) == (3, 5, 5, 5, 1)
    with pytest.raises(ValueError, match="no use for .'C'."):
        small({"C": 2})
    with pytest.raises(ValueError, match="at least 1, not 0"):
        small(0)


def test_one_subtype_is_the_base_grammar() -> None:
    grammar = small(1)
    weights = grammar.cfg.initial_weights(words(grammar), "random", seed=0)
    logs = {name: w.log() for name, w in weights.items()}
    for row_ in words(grammar):
        expected = sum(logs["rules"][r] for r in row_[row_ >= 0])
        torch.testing.assert_close(grammar.log_partition(logs, row_), expected)


def test_split_is_the_treebank_grammar_with_noise() -> None:
    grammar = small(2)
    trees = words(grammar)
    plain = grammar.initial_weights(trees, "split", noise=0.0)["rules"]
    # A is rewritten three times: once each by A -> A B, A -> y, A -> x
    for name, share in (("A -> A B", 1 / 3), ("A -> y", 1 / 3), ("A -> x", 1 / 3), ("S -> A", 1.0), ("B -> z", 1.0)):
        events = plain[grammar.events(rule(grammar, name))]
        torch.testing.assert_close(events, torch.full_like(events, share / events[0].numel()))
    noisy = grammar.initial_weights(trees, "split", noise=0.01, seed=0)["rules"]
    ratio = noisy / plain
    assert 0 < (ratio - 1).abs().max() < 0.025
    assert torch.equal(noisy, grammar.initial_weights(trees, "split", noise=0.01, seed=0)["rules"])


def test_split_gives_weight_to_unseen_rules_if_smoothed() -> None:
    grammar = small(2)
    seen = words(grammar)[1:]
    events = grammar.events(rule(grammar, "A -> y"))
    assert (grammar.initial_weights(seen, "split")["rules"][events] == 0).all()
    assert (grammar.initial_weights(seen, "split", smoothing=0.1)["rules"][events] > 0).all()


def test_derivations_of_a_corpus_need_no_tables_of_all_rules() -> None:
    """Draws, marginals, the best and log_prob of 3,000 trees: no tensor of trees times events."""
    grammar = small(2)
    many = words(grammar).repeat(1500, 1)
    weights = grammar.initial_weights(many, "random", seed=0)
    posterior = grammar.derivation(weights, many)
    drawn = posterior.sample()
    assert drawn.shape == many.shape
    assert posterior.support.check(drawn).all()
    best = posterior.log_prob(posterior.argmax())
    assert (best >= posterior.log_prob(drawn) - 1e-5).all()
    few = grammar.derivation(weights, words(grammar))
    torch.testing.assert_close(posterior.marginals()[:2], few.marginals())
    torch.testing.assert_close(best[:2], few.log_prob(few.argmax()))


def test_what_is_no_tree_has_no_annotations() -> None:
    grammar = small(2)
    tree = words(grammar)[:1]
    no_tree = torch.tensor([row(grammar, "S -> A", "A -> A B", "A -> x") + [-1]])
    weights = grammar.initial_weights(tree, "random", seed=0)
    for posterior, count in ((grammar.derivation(weights, no_tree), 0), (grammar.derivation(weights, tree), 8)):
        assert posterior.enumerate_support().shape == (count, 1, 4)
        assert (posterior.log_partition == -torch.inf).item() == (count == 0)
        assert (posterior.entropy() == 0).item() == (count == 0)
        for value in (posterior.argmax(), posterior.mbr()):
            assert (value == -1).all().item() == (count == 0)
        assert posterior.marginals().sum() == pytest.approx(4.0 if count else 0.0)
    with pytest.raises(ValueError, match="sentence 0 has no derivation"):
        grammar.derivation(weights, no_tree).sample()


def test_all_annotations_of_a_padded_tree_are_listed() -> None:
    grammar = small({"A": 3, "B": 2})
    tree = torch.tensor([row(grammar, *TWO) + [-1, -1]])
    posterior = grammar.derivation(grammar.initial_weights(tree, "random", seed=0), tree)
    listed = posterior.enumerate_support()
    assert listed.shape == (3 * 3 * 2, 1, 6) and len(listed.unique(dim=0)) == 18
    logs = posterior.log_prob(listed)
    torch.testing.assert_close(logs.exp().sum(0), torch.ones(1))
    torch.testing.assert_close(posterior.entropy(), -(logs.exp() * logs).sum(0))


def test_trees_drawn_are_those_of_the_joint() -> None:
    grammar = small(2)
    weights = grammar.initial_weights(words(grammar), "random", seed=0)
    torch.manual_seed(0)
    trees, subtypes = grammar.sample_trees(weights, (2000,), max_length=30)
    assert grammar.derivation(weights, trees).support.check(subtypes).all()
    different, count = trees.unique(dim=0, return_counts=True)
    tree = max(different[count > 100], key=lambda tree: int((tree >= 0).sum()))
    posterior, drawn = grammar.derivation(weights, tree), subtypes[(trees == tree).all(-1)]
    listed = posterior.enumerate_support()
    seen = torch.stack([(drawn == one).all(-1).sum() for one in listed])
    assert len(listed) > 2 and seen.sum() == len(drawn)
    assert chi_square(seen, posterior.log_prob(listed).exp()) > 1e-4
    with pytest.raises(ValueError, match="a multinomial of 'rules' sums to"):
        grammar.sample_trees({"rules": 2 * weights["rules"]})
