# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The model of trees with latent annotations under every loop, and CVB over single nodes against plain sums."""

import math
from functools import partial
from itertools import product

import pyro
import pytest
import torch
from nltk.tree import Tree

from pyrogram.infer import EM, CollapsedVB, ModelError, VariationalEM
from pyrogram.infer.loops.variable_cvb import VariableCVB
from pyrogram.models import annotated_treebank
from pyrogram.models.dirichlet import dirichlet
from pyrogram.models.latent_annotation_pcfg import latent_annotation_pcfg

BANK = [
    "(S (NP (DT the) (NN dog)) (VP (VB sees) (NP (DT a) (NN cat))))",
    "(S (NP (DT the) (JJ old) (NN cat)) (VP (VB sleeps)))",
    "(S (NP (NN it)) (VP (VB sees) (NP (DT the) (NN dog))))",
    "(NP (NP (DT a) (NN dog)) (NP (DT the) (NN cat)))",
]


@pytest.fixture
def bank():
    torch.set_default_dtype(torch.float64)
    pyro.clear_param_store()
    yield annotated_treebank([Tree.fromstring(text) for text in BANK], 2)
    torch.set_default_dtype(torch.float32)


def test_trees_come_back(bank) -> None:
    grammar, trees = bank
    for row, text in zip(trees, BANK, strict=True):
        tree = Tree.fromstring(text)
        assert grammar.cfg.tree(tree.leaves(), row) == tree


@pytest.mark.one_in(6)
@pytest.mark.parametrize("loop", [EM, VariationalEM, CollapsedVB, VariableCVB])
def test_every_loop_learns(bank, loop) -> None:
    grammar, trees = bank
    concentration = None if loop is EM else 0.1
    model = partial(latent_annotation_pcfg, grammar=grammar, concentration=concentration)
    start = grammar.initial_weights(trees, "split", noise=0.3, seed=0)
    if loop is EM:
        model = partial(model, initial_weights=start["rules"])
        fitted = loop(model)
    else:
        fitted = loop(model, initial_weights=start)
    fitted.run(trees, num_steps=40, progress=False)
    assert fitted.history[-1] > fitted.history[0] + 0.1
    if not fitted.may_fall:
        assert all(b >= a - 1e-9 for a, b in zip(fitted.history, fitted.history[1:], strict=False))
    weights = fitted.weights()
    totals = grammar.blocks["rules"].sums(weights["rules"])
    torch.testing.assert_close(totals, torch.ones_like(totals))
    parses = grammar.parse(weights, grammar.cfg.encode(["the dog sees a cat"]))
    found = grammar.cfg.tree("the dog sees a cat".split(), parses.rules[0])
    assert found == Tree.fromstring(BANK[0])


class PlainNodes:
    """The update of section 3.4 with dictionaries and loops."""

    def __init__(self, grammar, trees, q, alpha):
        self.grammar, self.alpha = grammar, alpha
        self.q = {}
        self.nodes = []  # tree, position, rule, children, parent
        for t, row in enumerate(trees):
            rules = [int(r) for r in row if r >= 0]
            above, waiting = {}, [(-1, 0)]
            children = {}
            for i, r in enumerate(rules):
                above[i] = waiting.pop()
                children.setdefault(above[i][0], []).append(i)
                rhs = [s for s in grammar.cfg.rules[r][1] if s in grammar.cfg.nonterminals]
                waiting.extend((i, c) for c in reversed(range(len(rhs))))
                self.q[t, i] = q[t, i].tolist()
            for i, r in enumerate(rules):
                self.nodes.append((t, i, r, children.get(i, []), above[i][0]))
        self.by_place = {(t, i): (r, c, p) for t, i, r, c, p in self.nodes}

    def kinds(self, t, i) -> range:
        return range(self.grammar.num_subtypes[self.grammar.cfg.rules[self.by_place[t, i][0]][0]])

    def without(self, *places):
        """Expected counts of annotated rules, and of (symbol, subtype), but for some nodes."""
        events, owners = {}, {}
        for t, i, r, children, _ in self.nodes:
            if (t, i) in places:
                continue
            for a in self.kinds(t, i):
                symbol = self.grammar.cfg.rules[r][0]
                owners[symbol, a] = owners.get((symbol, a), 0.0) + self.q[t, i][a]
                for rest in product(*(self.kinds(t, c) for c in children)):
                    p = self.q[t, i][a]
                    for c, s in zip(children, rest, strict=True):
                        p *= self.q[t, c][s]
                    events[r, a, rest] = events.get((r, a, rest), 0.0) + p
        return events, owners

    def size(self, symbol) -> int:
        """Number of events of (symbol, a)."""
        total = 0
        for lhs, rhs in self.grammar.cfg.rules:
            if lhs == symbol:
                n = 1
                for s in rhs:
                    n *= self.grammar.num_subtypes.get(s, 1)
                total += n
        return total

    def update(self, t, i, geometric) -> None:
        r, children, p = self.by_place[t, i]
        if len(self.kinds(t, i)) == 1:
            return
        events, owners = self.without((t, i), (t, p))
        average = self.geometric if geometric else self.arithmetic
        parent_rule, siblings, _ = self.by_place[t, p]
        weights = []
        for a in self.kinds(t, i):
            symbol = self.grammar.cfg.rules[r][0]
            denominator = owners.get((symbol, a), 0.0) + self.size(symbol) * self.alpha
            own = average([(t, c) for c in children], lambda s, a=a: events.get((r, a, tuple(s)), 0.0) + self.alpha)
            others = [(t, p)] + [(t, c) for c in siblings if c != i]

            def above(s, a=a):
                rest = list(s[1:])
                rest.insert(siblings.index(i), a)
                return events.get((parent_rule, s[0], tuple(rest)), 0.0) + self.alpha

            weights.append(average(others, above) * own / denominator)
        self.q[t, i] = [w / sum(weights) for w in weights] + [0.0] * (len(self.q[t, i]) - len(weights))

    def arithmetic(self, places, value) -> float:
        total = 0.0
        for s in product(*(self.kinds(*place) for place in places)):
            p = 1.0
            for place, x in zip(places, s, strict=True):
                p *= self.q[place][x]
            total += p * value(s)
        return total

    def geometric(self, places, value) -> float:
        return math.exp(self.arithmetic(places, lambda s: math.log(value(s))))


@pytest.mark.parametrize("average", ["arithmetic", "geometric"])
def test_variable_cvb_is_the_update_of_section_3_4(bank, average) -> None:
    grammar, trees = bank
    alpha = 0.3
    model = partial(latent_annotation_pcfg, grammar=grammar, concentration=alpha)
    start = grammar.initial_weights(trees, "split", noise=0.5, seed=1)
    loop = VariableCVB(model, initial_weights=start, average=average)
    loop.run(trees, num_steps=0, progress=False)
    before = loop.posterior()
    torch.testing.assert_close(before, grammar.derivation(start, trees).marginals())
    plain = PlainNodes(grammar, trees, before, alpha)
    for _ in range(3):
        loop.step(trees)
        for t, i, *_ in plain.nodes:
            plain.update(t, i, average == "geometric")
    found = loop.posterior()
    for (t, i), q in plain.q.items():
        torch.testing.assert_close(found[t, i], torch.tensor(q))
    # and the counts in the point estimate are those of q
    events, _ = plain.without()
    pseudo = torch.full_like(loop.weights()["rules"], alpha)
    for (r, a, rest), count in events.items():
        table = grammar.events(r)
        pseudo[table[(a, *rest, *[0] * (2 - len(rest)))]] += count
    torch.testing.assert_close(loop.weights()["rules"], grammar.blocks["rules"].normalize(pseudo))


def test_variable_cvb_objective(bank) -> None:
    """Entropies of all nodes and the collapsed joint at the expected counts."""
    grammar, trees = bank
    model = partial(latent_annotation_pcfg, grammar=grammar, concentration=0.5)
    loop = VariableCVB(model, initial_weights=grammar.initial_weights(trees, "split", noise=0.5, seed=1))
    objective = loop.step(trees)
    loop = VariableCVB(model, initial_weights=grammar.initial_weights(trees, "split", noise=0.5, seed=1))
    loop.run(trees, num_steps=0, progress=False)
    q = loop.posterior()
    expected = -float(torch.where(q > 0, q * q.clamp_min(1e-300).log(), 0.0).sum())
    events, owners = PlainNodes(grammar, trees, q, 0.5).without()
    half, nodes = torch.tensor(0.5), PlainNodes(grammar, trees, q, 0.5)
    expected += sum(float(torch.lgamma(half + c) - torch.lgamma(half)) for c in events.values())
    for (symbol, _), count in owners.items():
        total = torch.tensor(0.5 * nodes.size(symbol))
        expected -= float(torch.lgamma(total + count) - torch.lgamma(total))
    assert objective == pytest.approx(expected)


def test_variable_cvb_goes_on_from_its_state(bank) -> None:
    grammar, trees = bank
    model = partial(latent_annotation_pcfg, grammar=grammar, concentration=0.5)
    start = grammar.initial_weights(trees, "split", noise=0.5, seed=1)
    whole = VariableCVB(model, initial_weights=start).run(trees, num_steps=6, tolerance=0, progress=False)
    half = VariableCVB(model, initial_weights=start).run(trees, num_steps=3, tolerance=0, progress=False)
    rest = VariableCVB(model)
    rest.load_state_dict(half.state_dict())
    rest.run(trees, num_steps=3, tolerance=0, progress=False)
    assert rest.history == whole.history
    assert torch.equal(rest.posterior(), whole.posterior())


def test_variable_cvb_refuses(bank) -> None:
    grammar, trees = bank
    with pytest.raises(ModelError, match="needs one Sentence site, of a LatentAnnotations"):
        VariableCVB(partial(dirichlet, grammar=grammar.cfg)).step(grammar.cfg.encode(["the dog sees a cat"]))
    with pytest.raises(ModelError, match="'rules' to have a Dirichlet prior"):
        VariableCVB(partial(latent_annotation_pcfg, grammar=grammar, concentration=None)).step(trees)
    with pytest.raises(ModelError, match="cannot learn"):
        VariableCVB(partial(dirichlet, grammar=grammar, learn=True)).step(trees)
    with pytest.raises(ValueError, match="average must be"):
        VariableCVB(partial(dirichlet, grammar=grammar), average="harmonic")
