# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hastings' sampler with a proposal of one's own: all derivations of a corpus of two sentences, one by one."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pyrogram import CFG, DMV, HMM, Grammar
from pyrogram.infer import TreeHastings
from pyrogram.models.dirichlet import dirichlet
from pyrogram.sentences import Sentences, words_of
from pyrogram.sweeps.plain import CorpusCounts

ALPHA = 0.3


def tilted() -> Grammar:
    grammar = DMV(2)
    generator = torch.Generator().manual_seed(1)
    return grammar.tilted({"attach": torch.randn(grammar.blocks["attach"].shape, generator=generator)})


CASES: dict[str, tuple[Callable[[], Grammar], list[list[int]]]] = {
    "DMV": (lambda: DMV(2), [[0, 1, 0], [1, 0, -1]]),
    "tilted DMV": (tilted, [[0, 1, 0], [1, 0, -1]]),
    "HMM": (lambda: HMM(2, 2), [[0, 1, 0], [1, 0, -1]]),
    "CFG": (lambda: CFG.from_string("S -> A S | S A | 'a'\nA -> 'a' | S A"), [[0, 0, 0], [0, 0, -1]]),
}


def flat(grammar: Grammar, words: Tensor, log_weights: Any) -> Any:
    """The proposal: the weights' square roots, which are nearer to equal ones."""
    return grammar.derivation(None, words, log_weights={name: w / 2 for name, w in log_weights.items()})


class Scripted:
    """A distribution whose draws are known beforehand."""

    def __init__(self, law: Any, draw: Tensor) -> None:
        self.log_prob, self.draw = law.log_prob, draw

    def sample(self) -> Tensor:
        return self.draw


def lists_of_derivations(grammar: Grammar, words: Tensor) -> list[Tensor]:
    """Of each sentence, in the width of the batch."""
    ones: Any = {name: torch.full(block.shape, 0.5, dtype=torch.float64) for name, block in grammar.blocks.items()}
    width = grammar.derivation(ones, words).event_shape[0]
    found = []
    for sentence in words:
        law: Any = grammar.derivation(ones, sentence[sentence >= 0])
        values = law.enumerate_support()
        found.append(torch.nn.functional.pad(values, (0, width - values.shape[-1]), value=-1))
    return found


def counts_of(grammar: Grammar, words: Tensor, trees: Tensor) -> dict[str, Tensor]:
    zeros = {name: torch.zeros(block.shape, dtype=torch.float64) for name, block in grammar.blocks.items()}
    law: Any = grammar.derivation(None, words, log_weights=zeros)
    return {name: c.sum(0) for name, c in law.counts(trees).items()}


def log_joint(grammar: Grammar, words: Tensor, trees: Tensor) -> float:
    """The product of B(f + α) / B(α) over all multinomials, and the nats of the tilt."""
    total = 0.0
    for name, f in counts_of(grammar, words, trees).items():
        block = grammar.blocks[name]
        alpha = ALPHA * block.outcomes.double().expand(block.shape)
        total += float((torch.lgamma(f + alpha) - torch.lgamma(alpha)).sum())
        total -= float((torch.lgamma(block.sums(f + alpha)) - torch.lgamma(block.sums(alpha))).sum())
        if name in grammar.nats:
            total += float((f * grammar.nats[name]).sum())
    return total


@pytest.mark.one_in(28)
@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("kind", CASES)
def test_a_step_leaves_the_posterior_invariant(
    kind: str, batch_size: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code accepts with the probability by which the posterior, listed, is invariant under the step's matrix."""
    make, sentences = CASES[kind]
    grammar, words = make(), torch.tensor(sentences)
    lists = lists_of_derivations(grammar, words)
    states = list(itertools.product(*(range(len(values)) for values in lists)))
    number = {state: k for k, state in enumerate(states)}
    trees = [torch.stack([lists[s][k] for s, k in enumerate(state)]) for state in states]
    joint = torch.tensor([log_joint(grammar, words, t) for t in trees], dtype=torch.float64) / temperature
    posterior = joint.softmax(0)
    assert len(states) >= 8 and posterior.max() > 1.1 * posterior.min()
    updates, order = grammar.collapsed_updates(words), torch.arange(2)
    alpha = {n: ALPHA * b.outcomes.double().expand(b.shape).clone() for n, b in grammar.blocks.items()}
    generator = torch.Generator().manual_seed(0)
    checked = 0
    for s in range(2):
        step = torch.zeros(len(states), len(states), dtype=torch.float64)
        for state in states:
            old = number[state]
            outside = [0, 1] if batch_size == 2 else [s]  # whose counts a proposal must not see
            rest = [k for k in (0, 1) if k not in outside]
            f = counts_of(grammar, words[rest], trees[old][rest]) if rest else {n: 0 * a for n, a in alpha.items()}
            pseudo = {n: f[n] + a for n, a in alpha.items()}
            logs = {n: (p / grammar.blocks[n].totals(p)).log() / temperature for n, p in pseudo.items()}
            law = flat(grammar.at_temperature(temperature), words[s : s + 1], logs)
            log_q = law.log_prob(lists[s][:, None])[:, 0]
            for k in range(len(lists[s])):
                new = number[(k, state[1]) if s == 0 else (state[0], k)]
                ratio = float(joint[new] - joint[old] + log_q[state[s]] - log_q[k])
                accept = min(1.0, float(torch.tensor(ratio, dtype=torch.float64).exp()))
                step[old, new] += float(log_q[k].exp()) * accept
                step[old, old] += float(log_q[k].exp()) * (1 - accept)
                if new == old or int(torch.randint(8, (), generator=generator)):
                    continue  # the code is asked for an eighth of all pairs

                def scripted(g: Grammar, w: Tensor, log_weights: Any, draw: Tensor = trees[new]) -> Scripted:
                    here = draw if len(w) == 2 else draw[[words.tolist().index(w[0].tolist())]]
                    return Scripted(flat(g, w, log_weights), here)

                for u, wanted in ((accept * (1 - 1e-9), True), (accept * (1 + 1e-9), False)):
                    if u >= 1:
                        continue
                    monkeypatch.setattr(torch, "rand", lambda n, u=u, **options: torch.full((n,), u).double())
                    present, corpus = trees[old].clone(), counts_of(grammar, words, trees[old])
                    counted = CorpusCounts(corpus, alpha)
                    found = updates.hastings(
                        counted, present, order, batch_size, temperature=temperature, proposal=scripted
                    )
                    monkeypatch.undo()
                    assert bool(found[s]) == wanted and (present == trees[new if wanted else old]).all()
                    truth = counts_of(grammar, words, present)
                    assert all(torch.equal(c, truth[n]) for n, c in counted.counts.items())
                    checked += 1
        torch.testing.assert_close(step.sum(1), torch.ones(len(states), dtype=torch.float64))
        torch.testing.assert_close(posterior @ step, posterior, rtol=1e-12, atol=1e-14)
    assert checked > 4


class Flat(TreeHastings):
    def proposal(self, grammar: Grammar, words: Tensor | Sentences, log_weights: Any) -> Any:
        return flat(grammar, words, log_weights)


class OfLengths(TreeHastings):
    """It reads the words, and proposes with what is known of their trees."""

    def proposal(self, grammar: Grammar, words: Tensor | Sentences, log_weights: Any) -> Any:
        longest = int((words_of(words) >= 0).sum(-1).max())
        return grammar.derivation(None, words, log_weights={n: w / longest for n, w in log_weights.items()})


def test_a_chain_with_a_proposal_of_ones_own() -> None:
    """It repeats itself, it differs from the chain without one, and a tree that is known stays."""
    grammar, words = DMV(2), torch.tensor([[0, 1, 0, 1], [1, 0, 0, -1], [1, 0, 1, -1]])
    known = torch.tensor([[-1] * 4, [2, 0, 2, -1], [-1] * 4])

    def run(kind: type[TreeHastings], **options: Any) -> TreeHastings:
        chain = kind(dirichlet, seed=0, batch_size=2)
        return chain.run(words, grammar, concentration=ALPHA, num_steps=8, progress=False, **options)

    chain = run(Flat)
    assert 0 < chain.acceptance < 1 and chain.history != run(TreeHastings).history
    assert (chain.trees() == run(Flat).trees()).all()
    for kind in (Flat, OfLengths):
        assert run(kind, known=known).marginals()[1, 2, [1, 3]].tolist() == [1.0, 1.0]
