# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed variational Bayes over single nodes against plain sums."""

from functools import partial
from itertools import product

import pyro
import pytest
import torch
from nltk.tree import Tree

from pyrogram.models import annotated_treebank
from pyrogram.models.latent_annotation_pcfg import latent_annotation_pcfg
from reproductions.annotations.variable_cvb import VariableCVB

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


def posterior(loop, grammar, trees) -> torch.Tensor:
    """q of the subtypes of all nodes, shape ``(N, n, K)``, zero in the padding."""
    found = torch.zeros(*trees.shape, grammar.rules.width)
    found[trees >= 0] = loop.state_dict()["q"]
    return found


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

    def update(self, t, i) -> None:
        r, children, p = self.by_place[t, i]
        if len(self.kinds(t, i)) == 1:
            return
        events, owners = self.without((t, i), (t, p))
        average = self.average
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

    def average(self, places, value) -> float:
        total = 0.0
        for s in product(*(self.kinds(*place) for place in places)):
            p = 1.0
            for place, x in zip(places, s, strict=True):
                p *= self.q[place][x]
            total += p * value(s)
        return total


def test_it_is_the_update_of_section_3_4(bank) -> None:
    grammar, trees = bank
    alpha = 0.3
    model = partial(latent_annotation_pcfg, grammar=grammar, concentration=alpha)
    start = grammar.initial_weights(trees, "split", noise=0.5, seed=1)
    loop = VariableCVB(model, initial_weights=start)
    loop.run(trees, num_steps=0, progress=False)
    before = posterior(loop, grammar, trees)
    torch.testing.assert_close(before, grammar.derivation(start, trees).marginals())
    plain = PlainNodes(grammar, trees, before, alpha)
    for _ in range(3):
        loop.step(trees)
        for t, i, *_ in plain.nodes:
            plain.update(t, i)
    found = posterior(loop, grammar, trees)
    for (t, i), q in plain.q.items():
        torch.testing.assert_close(found[t, i], torch.tensor(q))
    # and the counts in the point estimate are those of q
    events, _ = plain.without()
    pseudo = torch.full_like(loop.weights()["rules"], alpha)
    for (r, a, rest), count in events.items():
        table = grammar.events(r)
        pseudo[table[(a, *rest, *[0] * (2 - len(rest)))]] += count
    torch.testing.assert_close(loop.weights()["rules"], grammar.blocks["rules"].normalize(pseudo))


def test_the_objective(bank) -> None:
    """Entropies of all nodes and the collapsed joint at the expected counts."""
    grammar, trees = bank
    model = partial(latent_annotation_pcfg, grammar=grammar, concentration=0.5)
    loop = VariableCVB(model, initial_weights=grammar.initial_weights(trees, "split", noise=0.5, seed=1))
    objective = loop.step(trees)
    loop = VariableCVB(model, initial_weights=grammar.initial_weights(trees, "split", noise=0.5, seed=1))
    loop.run(trees, num_steps=0, progress=False)
    q = posterior(loop, grammar, trees)
    expected = -float(torch.where(q > 0, q * q.clamp_min(1e-300).log(), 0.0).sum())
    events, owners = PlainNodes(grammar, trees, q, 0.5).without()
    half, nodes = torch.tensor(0.5), PlainNodes(grammar, trees, q, 0.5)
    expected += sum(float(torch.lgamma(half + c) - torch.lgamma(half)) for c in events.values())
    for (symbol, _), count in owners.items():
        total = torch.tensor(0.5 * nodes.size(symbol))
        expected -= float(torch.lgamma(total + count) - torch.lgamma(total))
    assert objective == pytest.approx(expected)


def test_it_goes_on_from_its_state(bank) -> None:
    grammar, trees = bank
    model = partial(latent_annotation_pcfg, grammar=grammar, concentration=0.5)
    start = grammar.initial_weights(trees, "split", noise=0.5, seed=1)
    whole = VariableCVB(model, initial_weights=start).run(trees, num_steps=6, tolerance=0, progress=False)
    half = VariableCVB(model, initial_weights=start).run(trees, num_steps=3, tolerance=0, progress=False)
    rest = VariableCVB(model)
    rest.load_state_dict(half.state_dict())
    rest.run(trees, num_steps=3, tolerance=0, progress=False)
    assert rest.history == whole.history
    assert torch.equal(posterior(rest, grammar, trees), posterior(whole, grammar, trees))
