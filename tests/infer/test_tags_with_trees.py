# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tags sampled at the same time as trees: one step over all of both leaves their exact posterior as it is."""

import copy
import itertools
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from infer.sibling_posteriors import (
    GRAMMAR,
    S,
    copies,
    naive,
    number_of,
    ours,
    p_value,
    with_one_table_each,
)
from pyro.infer import MCMC
from torch import Tensor

from pyrogram.grammars.lexical_dependencies import SITES
from pyrogram.grammars.lexical_tagger import LexicalTagger
from pyrogram.infer.lexical.hastings import SiblingHastings
from pyrogram.trees import projective_trees

sys.path.append(str(Path(__file__).parents[1] / "grammars"))
from lexical_seats import Seats, sentence_events

WORDS, CASES = [0, 0, 1], [1, 1, 1]  # from 8 to 50 % of what is proposed is rejected


def pairs(n: int) -> tuple[Tensor, Tensor]:
    """All tags and trees of n words."""
    found = list(itertools.product(itertools.product(range(S), repeat=n), projective_trees(n).tolist()))
    tags, heads = (torch.tensor([pair[i] for pair in found]) for i in range(2))
    return tags, heads


def probabilities(seats: Seats, tags: Tensor, heads: Tensor, learning: bool) -> Tensor:
    """P(tags, words, cases, tree) of each pair; ``learning``: one event after the other."""
    n, found = tags.shape[1], []
    for t, h in zip(tags.tolist(), heads.tolist(), strict=True):
        events = sentence_events(t, WORDS[:n], CASES[:n], h)
        fixed = math.prod(seats.probability(event) for event in events)
        found.append(copy.deepcopy(seats).sequence(events) if learning else fixed)
    return torch.tensor(found)


def chain(tags: Tensor, heads: Tensor, paths: Any = "minimal", **options: Any) -> SiblingHastings:
    n = tags.shape[1]
    words, cases = copies((WORDS[:n], CASES[:n]), heads)
    sampler = SiblingHastings(GRAMMAR, ours(paths), tags_too=True, **options)
    return sampler.run(tags, words, cases, heads=heads, num_steps=0, progress=False)


def state(sampler: SiblingHastings) -> Tensor:
    return torch.cat([sampler.tags, sampler.heads], 1)


@pytest.mark.parametrize("paths", ["minimal", "maximal"])
def test_probabilities_of_all_pairs(paths: str) -> None:
    """The target, and the proposal, which is a distribution over tags and trees together."""
    tags, heads = pairs(3)
    sampler = chain(tags, heads, paths, seed=0)
    torch.testing.assert_close(
        sampler.log_probs.exp(), probabilities(naive(paths), tags, heads, True), rtol=1e-10, atol=0
    )
    log_q = sampler.moves.log_q(sampler._need_state().now)  # type: ignore[union-attr, arg-type]
    fixed = probabilities(naive(paths), tags, heads, False)
    torch.testing.assert_close(log_q.exp(), fixed, rtol=1e-10, atol=0)
    words, cases = copies((WORDS, CASES), heads[:1])
    drawn = torch.cat(sampler.moves.parser.sample_untagged(words, cases, 20000, torch.Generator().manual_seed(1)), -1)
    counts = number_of(drawn[:, 0], torch.cat([tags, heads], 1)).bincount(minlength=len(tags))
    assert p_value(counts, fixed / fixed.sum()) > 1e-4


@pytest.mark.one_in(2)
@pytest.mark.parametrize("paths", ["minimal", "maximal"])
def test_steps_from_every_pair(paths: str) -> None:
    """The transition matrix and its square, row by row; it leaves the posterior as it is, and rejects a good deal."""
    tags, heads = pairs(2)
    table = torch.cat([tags, heads], 1)
    pi, q = (probabilities(naive(paths), tags, heads, learning) for learning in (True, False))
    q = q / q.sum()
    weight = pi / q
    T = q * (weight / weight[:, None]).clamp_max(1)  # [from, to]
    T = T + torch.diag(1 - T.sum(1))
    torch.testing.assert_close(pi @ T, pi, rtol=1e-12, atol=0)
    assert float((pi / pi.sum()) @ (T.diagonal() - q)) > 0.05  # rejected
    number = 1000
    sampler = chain(tags.repeat_interleave(number, 0), heads.repeat_interleave(number, 0), paths, seed=3)
    for steps in (1, 2):
        sampler.step()
        after = number_of(state(sampler), table).reshape(len(table), number)
        for row, expected in zip(after, T.matrix_power(steps), strict=True):
            assert p_value(row.bincount(minlength=len(table)), expected) > 1e-4
    assert sampler.retagged > 0.1


def test_one_step_from_exact_draws() -> None:
    """Of three words, 56 pairs."""
    tags, heads = pairs(3)
    pi = probabilities(naive("minimal"), tags, heads, True)
    start = torch.multinomial(pi, 6000, replacement=True, generator=torch.Generator().manual_seed(5))
    sampler = chain(tags[start], heads[start], seed=6)
    sampler.step()
    assert 0.2 < sampler.acceptance < 0.95
    after = number_of(state(sampler), torch.cat([tags, heads], 1))
    assert p_value(after.bincount(minlength=len(pi)), pi / pi.sum()) > 1e-4
    assert bool((sampler.tags != tags[start]).any())


def test_sentences_that_are_judged_together() -> None:
    """Two sentences of one word at the same tables: a chain has their exact posterior over both tags."""
    predictors, seats = with_one_table_each()
    seats.paths = "exact"
    both = list(itertools.product(range(S), repeat=2))
    exact = []
    for first, second in both:
        events = [*sentence_events([first], [0], [1], [0]), *sentence_events([second], [1], [0], [0])]
        by_site = ([event for event in events if event[0] == site] for site in SITES)
        exact.append(math.prod(sum(share * p for share, p in seats.seatings(some)) for some in by_site))
    words, cases = torch.tensor([[0], [1]]), torch.tensor([[1], [0]])
    sampler = SiblingHastings(GRAMMAR, predictors, together=True, tags_too=True, seed=1)
    found = torch.zeros(len(both))

    def count(chain: SiblingHastings) -> None:
        if len(chain.history) % 2 == 0:
            found[both.index(tuple(chain.tags[:, 0].tolist()))] += 1

    sampler.run(torch.zeros_like(words), words, cases, num_steps=160, progress=False, callback=count)
    assert p_value(found.long(), torch.tensor(exact) / sum(exact)) > 1e-4
    assert sampler.retagged > 0.05
    before = {site: f.restaurants.num_observations for site, f in with_one_table_each()[0].items()}
    sampler._end()
    assert {site: f.restaurants.num_observations for site, f in predictors.items()} == before


def test_resuming_and_pyro(tmp_path: Path) -> None:
    tags, heads = pairs(2)
    words, cases = copies((WORDS[:2], CASES[:2]), heads)
    words[1], cases[1], tags[1] = -1, -1, -1  # no words
    given, options = (tags, words, cases), {"progress": False, "checkpoint": tmp_path / "chain"}
    whole = SiblingHastings(GRAMMAR, ours("minimal"), tags_too=True, seed=7).run(*given, num_steps=25, progress=False)
    SiblingHastings(GRAMMAR, ours("minimal"), tags_too=True, seed=7).run(*given, num_steps=11, **options)
    again = SiblingHastings(GRAMMAR, ours("minimal"), tags_too=True, seed=8).run(*given, num_steps=25, **options)
    assert again.history == whole.history and torch.equal(state(again), state(whole))
    assert whole.tags[1].tolist() == whole.heads[1].tolist() == [-1, -1]
    with pytest.raises(ValueError, match="the checkpoint of another run"):
        SiblingHastings(GRAMMAR, ours("minimal"), seed=7).run(*given, num_steps=11, **options)
    kernel = SiblingHastings(GRAMMAR, ours("minimal"), tags_too=True, seed=0)
    mcmc = MCMC(kernel, num_samples=6, warmup_steps=1, disable_progbar=True)
    mcmc.run(*given)
    assert mcmc.get_samples()["tags"].shape == mcmc.get_samples()["heads"].shape == (6, len(heads), 2)
    assert len(mcmc.get_samples()["tags"].unique(dim=0)) > 1


def test_two_ways_to_sample_tags_are_one_too_many() -> None:
    tagger = LexicalTagger.learn(*(torch.zeros(1, 1).long() for _ in range(3)), num_tags=S, num_words=2, num_cases=2)
    with pytest.raises(ValueError, match="expected a tagger or tags_too=True"):
        SiblingHastings(GRAMMAR, ours("minimal"), tagger=tagger, tags_too=True)
    with pytest.raises(ValueError, match="expected no tagger with together=True, where tags_too samples tags"):
        SiblingHastings(GRAMMAR, ours("exact"), tagger=tagger, together=True)
