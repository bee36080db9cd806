# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees by Metropolis-Hastings: one step over all trees of a short sentence leaves their exact posterior as it is."""

import copy
import itertools
import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from infer.sibling_posteriors import (
    GRAMMAR,
    SENTENCE,
    TRAINING,
    C,
    S,
    W,
    copies,
    naive,
    number_of,
    ours,
    p_value,
    posterior,
    proposal,
    with_one_table_each,
)
from pyro.infer import MCMC
from torch import Tensor

from pyrogram.grammars.lexical_parser import PitmanYorPredictor
from pyrogram.grammars.lexical_tagger import LexicalTagger
from pyrogram.infer.lexical.hastings import SiblingHastings
from pyrogram.restaurants.restaurants import Restaurants
from pyrogram.restaurants.trials import TrialSeating
from pyrogram.trees import projective_trees

sys.path.append(str(Path(__file__).parents[1] / "grammars"))
from lexical_seats import sentence_events


@pytest.mark.parametrize("paths", ["minimal", "maximal"])
def test_probabilities_of_all_trees(paths: str) -> None:
    """Numerator and denominator of Eq. 11, and the proposal, against dictionaries."""
    trees = projective_trees(3)
    sampler = SiblingHastings(GRAMMAR, ours(paths), seed=0)
    sampler.run(*copies(SENTENCE, trees), heads=trees, num_steps=0, progress=False)
    expected = posterior(naive(paths), SENTENCE, trees)
    torch.testing.assert_close(sampler.log_probs.exp(), expected, rtol=1e-10, atol=0)
    log_q = sampler.moves.log_q(sampler._need_state().now)  # type: ignore[union-attr, arg-type]
    torch.testing.assert_close(log_q.softmax(0), proposal(naive(paths), SENTENCE, trees), rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("paths", "number"),
    [("minimal", 200), *(pytest.param(paths, 800, marks=pytest.mark.slow) for paths in ("minimal", "maximal"))],
)
def test_steps_from_every_tree(paths: str, number: int) -> None:
    """The transition matrix and its powers, row by row; it leaves the posterior as it is, and rejects a good deal."""
    trees = projective_trees(3)
    pi, q = posterior(naive(paths), SENTENCE, trees), proposal(naive(paths), SENTENCE, trees)
    weight = pi / q
    T = q * (weight / weight[:, None]).clamp_max(1)  # [from, to]
    T = T + torch.diag(1 - T.sum(1))
    torch.testing.assert_close(pi @ T, pi, rtol=1e-12, atol=0)
    assert float((pi / pi.sum()) @ (T.diagonal() - q)) > 0.3  # rejected
    heads = trees.repeat_interleave(number, 0)
    sampler = SiblingHastings(GRAMMAR, ours(paths), seed=3)
    sampler.run(*copies(SENTENCE, heads), heads=heads, num_steps=0, progress=False)
    for steps in (1, 2, 3):  # later ones begin at a tree that was accepted
        sampler.step()
        after = number_of(sampler.heads, trees).reshape(len(trees), number)
        for row, expected in zip(after, T.matrix_power(steps), strict=True):
            assert p_value(row.bincount(minlength=len(trees)), expected) > 1e-4


@pytest.mark.slow
def test_exact_seats_belong_to_the_state() -> None:
    """From exact draws of trees and seats, one step leads to the same distribution over both."""
    sentence = ([1, 1], [0, 1], [1, 1])
    trees = projective_trees(2)
    predictors, seats = with_one_table_each()
    states: dict[tuple[int, float], float] = {}
    for i, heads in enumerate(trees.tolist()):
        for share, p in seats.seatings(sentence_events(*sentence, heads)):
            key = (i, round(math.log(p), 6))
            states[key] = states.get(key, 0.0) + share * p
    keys, weights = list(states), torch.tensor(list(states.values()))
    assert len(keys) > 20
    number = 10000
    start = torch.multinomial(weights, number, replacement=True)
    heads = trees[torch.tensor([keys[k][0] for k in start])]
    sampler = SiblingHastings(GRAMMAR, predictors, seed=1)
    sampler.run(*copies(sentence, heads), heads=heads, num_steps=0, progress=False)
    log_p = torch.tensor([keys[k][1] for k in start.tolist()])
    state = sampler._need_state()
    sampler._state = replace(state, now=replace(state.now, log_p=log_p))
    sampler.step()
    assert 0.3 < sampler.acceptance < 0.99
    found: dict[tuple[int, float], int] = dict.fromkeys(keys, 0)
    for i, p in zip(number_of(sampler.heads, trees).tolist(), sampler.log_probs.tolist(), strict=True):
        found[i, round(p, 6)] += 1
    assert p_value(torch.tensor(list(found.values())), weights / weights.sum()) > 1e-4


@pytest.mark.slow
def test_tags_are_sampled_with_trees() -> None:
    """From exact draws of tags and trees of two words, one step leads to the same distribution over both."""
    words, cases = [0, 0], [1, 1]
    states = [(list(tags), tree) for tags in itertools.product(range(S), repeat=2) for tree in ([0, 1], [2, 0])]
    pi = torch.cat([posterior(naive("minimal"), (t, words, cases), torch.tensor([h])) for t, h in states])
    number = 8000
    start = torch.multinomial(pi, number, replacement=True)
    tags, heads = (torch.tensor([state[i] for state in states])[start] for i in range(2))
    padded = [torch.tensor([s[i] + [-1] * (3 - len(s[i])) for s in TRAINING]) for i in range(3)]
    tagger = LexicalTagger.learn(*padded, num_tags=S, num_words=W, num_cases=C)
    sampler = SiblingHastings(GRAMMAR, ours("minimal"), tagger=tagger, seed=2)
    _, word_rows, case_rows = copies((words, words, cases), heads)
    sampler.run(tags, word_rows, case_rows, heads=heads, num_steps=1, progress=False)
    assert sampler.retagged > 0.01
    after = number_of(torch.cat([sampler.tags, sampler.heads], 1), torch.tensor([t + h for t, h in states]))
    assert p_value(after.bincount(minlength=len(states)), pi / pi.sum()) > 1e-4


def test_tags_moved_one_by_one() -> None:
    """Of two sentences of a word, whose taggers' proposals differ: one move from every tag, against its matrix."""
    number, proposals = 2000, torch.tensor([[0.8, 0.2], [0.35, 0.65]])
    words, cases, tags = (
        torch.tensor(x).repeat_interleave(number)[:, None] for x in ([0, 0, 1, 1], [1] * 4, [0, 1] * 2)
    )
    sampler = SiblingHastings(GRAMMAR, ours("minimal"), seed=2)
    sampler.run(tags, words, cases, heads=torch.zeros_like(tags), num_steps=0, progress=False)
    state, share = sampler._need_state().now, proposals.repeat_interleave(2 * number, 0)
    after = sampler.moves.retag(state, 0, share[:, None], torch.Generator().manual_seed(4)).tags.reshape(2, S, number)
    for k, q in enumerate(proposals):
        one = [copy.deepcopy(naive("minimal")).sequence(sentence_events([t], [k], [1], [0])) for t in range(S)]
        weight = torch.tensor(one) / q
        T = q * (weight / weight[:, None]).clamp_max(1)  # [from, to]
        T = T + torch.diag(1 - T.sum(1))
        assert float(T.diagonal().min()) > 0.3
        for tag in range(S):
            assert p_value(after[k, tag].bincount(minlength=S), T[tag]) > 1e-4


def state_of(predictors: Mapping[str, PitmanYorPredictor]) -> list[Any]:
    """Counts at all levels, and the joint, which depends on the sizes of all tables."""
    found: list[Any] = []
    for f in predictors.values():
        for level in range(f.restaurants.num_levels):
            rows = torch.stack(list(f.restaurants.table(level)), 1).tolist()
            found.append(sorted(rows))
        found.append(round(float(f.restaurants.log_joint(f.concentration, f.discount)), 9))
    return found


def test_what_is_taken_out_goes_back_to_its_table() -> None:
    generator = torch.Generator().manual_seed(5)
    predictors = ours("exact")
    before = state_of(predictors)
    for site, f in predictors.items():
        trials = TrialSeating(f.restaurants, f.concentration, f.discount)
        for seed in range(30):
            sentence = TRAINING[seed % 2]
            events = GRAMMAR.events(*map(torch.tensor, sentence))[site]
            log_p, notes = trials.unseat_drawn(events.keys, events.values, generator)
            other = GRAMMAR.events(*map(torch.tensor, (*SENTENCE, [2, 0, 2])))[site]
            again, places = trials.seat(other.keys, other.values, generator)
            assert log_p < 0 and again < 0
            trials.undo_seat(other.keys, other.values, places)
            trials.undo_unseat(events.keys, events.values, notes)
    assert state_of(predictors) == before


def test_what_is_not_there_cannot_be_taken_out() -> None:
    predictors = ours("exact")
    before = state_of(predictors)
    f = predictors["words"]
    events = GRAMMAR.events(*map(torch.tensor, (*SENTENCE, [2, 0, 2])))["words"]
    with pytest.raises(ValueError, match="cannot be removed"):
        often = [k.repeat(9) for k in events.keys], events.values.repeat(9)
        TrialSeating(f.restaurants, f.concentration, f.discount).unseat_drawn(*often)
    assert state_of(predictors) == before


def test_where_groups_begin_and_notes_of_others() -> None:
    """Compiled code would follow both out of its arrays."""
    f = ours("exact")["words"]
    trials = TrialSeating(f.restaurants, f.concentration, f.discount)
    events = GRAMMAR.events(*map(torch.tensor, TRAINING[0]))["words"]
    M = len(events)
    starts = [[0, 99], [0, 2**40], [-5, M], [0, M - 1], [M, 0, M], [], [[0, M]], [0.0, M]]
    for wrong in starts:
        with pytest.raises(ValueError, match=f"starts must be int64 and ascend from 0 to the number of .* {M}$"):
            trials.weigh(events.keys, events.values, torch.tensor(wrong))
    _, notes = trials.unseat_drawn(events.keys, events.values)
    for bad in (notes[:-1], notes[:, :1], notes.astype(np.int64), notes[0]):
        with pytest.raises(ValueError, match="notes must be those of the same observations"):
            trials.undo_unseat(events.keys, events.values, bad)
    trials.undo_unseat(events.keys, events.values, notes)
    with pytest.raises(ValueError, match="notes must be those of the same observations"):
        trials.undo_seat(events.keys, events.values, notes[:-1])


def test_sentences_that_are_judged_together_leave_the_tables_with_their_chain() -> None:
    predictors = ours("exact")
    before = {site: f.restaurants.num_observations for site, f in predictors.items()}
    sampler = SiblingHastings(GRAMMAR, predictors, together=True, seed=4)
    sampler.run(*copies(SENTENCE, torch.zeros(2, 3)), num_steps=3, progress=False)
    assert predictors["tags"].restaurants.num_observations == before["tags"] + 18
    assert bool(sampler.log_probs.isfinite().all())
    sampler.run(*copies(([1], [0], [1]), torch.zeros(1, 1)), num_steps=1, progress=False)
    after = {site: f.restaurants.num_observations for site, f in predictors.items()}
    assert after == {"tags": before["tags"] + 3, "words": before["words"] + 1, "cases": before["cases"] + 1}


def test_an_interrupted_step_is_none() -> None:
    sampler = SiblingHastings(GRAMMAR, ours("minimal"), seed=7)
    sentences = copies(SENTENCE, torch.zeros(3, 3))
    sampler.run(*sentences, num_steps=2, progress=False)
    whole = copy.deepcopy(sampler.state_dict())
    log_q, sampler.moves.parser.sample = sampler.moves.log_q, None  # type: ignore[union-attr, assignment, method-assign]
    sampler._state = replace(sampler._need_state(), block={})

    def interrupted(given: Any) -> Tensor:
        raise KeyboardInterrupt

    sampler.moves.log_q = interrupted  # type: ignore[union-attr, method-assign]
    with pytest.raises(KeyboardInterrupt):
        sampler.step()
    sampler.moves.log_q = log_q  # type: ignore[union-attr, method-assign]
    assert len(sampler.history) == 2
    for name, x in sampler.state_dict().items():
        if not name.startswith("block."):
            assert torch.equal(x, whole[name]), name


def test_averages_and_resuming(tmp_path: Path) -> None:
    sentences = copies(SENTENCE, torch.zeros(3, 3))
    for column in sentences:
        column[1, 1:] = -1  # one word
        column[2] = -1  # none
    whole = SiblingHastings(GRAMMAR, ours("minimal"), seed=7).run(*sentences, num_steps=25, burn_in=5, progress=False)
    marginals = whole.marginals()
    torch.testing.assert_close(marginals[0].sum(0)[1:], torch.ones(3))
    assert marginals[1, 0, 1] == 1 and float(marginals[2].sum()) == 0
    assert whole.mbr()[1].tolist() == [0, -1, -1] and whole.heads[2].tolist() == [-1] * 3
    assert set(whole.acceptance_by_length()) == {0, 1, 3}
    path = tmp_path / "chain.safetensors"
    options: dict[str, Any] = {"burn_in": 5, "progress": False, "checkpoint": path}
    SiblingHastings(GRAMMAR, ours("minimal"), seed=7).run(*sentences, num_steps=11, **options)
    again = SiblingHastings(GRAMMAR, ours("minimal"), seed=8).run(*sentences, num_steps=25, **options)
    assert again.history == whole.history
    torch.testing.assert_close(again.marginals(), marginals)
    with pytest.raises(ValueError, match="the checkpoint of another run"):
        SiblingHastings(GRAMMAR, ours("maximal"), seed=7).run(*sentences, num_steps=11, **options)


def test_a_kernel_of_pyro() -> None:
    sentences = copies(SENTENCE, torch.zeros(2, 3))
    kernel = SiblingHastings(GRAMMAR, ours("minimal"))
    mcmc = MCMC(kernel, num_samples=8, warmup_steps=2, disable_progbar=True)
    mcmc.run(*sentences)
    heads = mcmc.get_samples()["heads"]
    assert heads.shape == (8, 2, 3)
    assert {tuple(h) for h in heads.reshape(-1, 3).long().tolist()} <= {tuple(t) for t in projective_trees(3).tolist()}
    assert kernel.marginals().shape == (2, 4, 4)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="exact seats for sentences that are judged together, actual paths='minimal'"):
        SiblingHastings(GRAMMAR, ours("minimal"), together=True)
    with pytest.raises(ValueError, match="together=True with seated=True"):
        SiblingHastings(GRAMMAR, ours("exact"), seated=True)
    sampler = SiblingHastings(GRAMMAR, ours("exact"), together=True, seated=True)
    with pytest.raises(ValueError, match="expected heads of sentences that are at the tables"):
        sampler.run(*copies(SENTENCE, torch.zeros(2, 3)), progress=False)
    with pytest.raises(RuntimeError, match="no trees yet"):
        _ = SiblingHastings(GRAMMAR, ours("exact")).heads


def averaged(steps: int, burn_in: int = 0) -> SiblingHastings:
    sampler = SiblingHastings(GRAMMAR, ours("minimal"), seed=3)
    return sampler.run(*copies(SENTENCE, torch.zeros(3, 3)), num_steps=steps, burn_in=burn_in, progress=False)


def test_burn_in_counts_from_the_start_of_the_chain(tmp_path: Path) -> None:
    """In one run, in two, and through a checkpoint: five steps of thirty are averaged, and the same ones."""
    sentences = copies(SENTENCE, torch.zeros(3, 3))
    whole, parts = averaged(30, 25), averaged(20)
    parts.run(*sentences, num_steps=10, burn_in=25, progress=False)
    options: dict[str, Any] = {"progress": False, "checkpoint": tmp_path / "chain"}
    SiblingHastings(GRAMMAR, ours("minimal"), seed=3).run(*sentences, num_steps=20, **options)
    resumed = SiblingHastings(GRAMMAR, ours("minimal"), seed=9)
    resumed.run(*sentences, num_steps=30, burn_in=25, **options)
    for sampler in (parts, resumed):
        assert sampler.history == whole.history
        assert sampler._averages.kept == whole._averages.kept == 5
        assert torch.equal(sampler.marginals(), whole.marginals()) and sampler.acceptance == whole.acceptance


def test_a_burn_in_that_averages_cannot_leave_out_is_refused(tmp_path: Path) -> None:
    sentences = copies(SENTENCE, torch.zeros(3, 3))
    sampler = averaged(20, 5)
    message = "burn_in of at most 5, or of at least 20, .* 20 steps of which all but the first 5 .* actual 6"
    with pytest.raises(ValueError, match=message):
        sampler.run(*sentences, num_steps=10, burn_in=6, progress=False)
    assert len(sampler.history) == 20 and sampler._averages.kept == 15
    sampler.run(*sentences, num_steps=10, burn_in=5, progress=False)
    assert sampler._averages.kept == 25
    options: dict[str, Any] = {"progress": False, "checkpoint": tmp_path / "chain"}
    SiblingHastings(GRAMMAR, ours("minimal"), seed=3).run(*sentences, num_steps=20, **options)
    saved = options["checkpoint"].read_bytes()
    with pytest.raises(ValueError, match="burn_in of at most 0, or of at least 20"):
        SiblingHastings(GRAMMAR, ours("minimal"), seed=3).run(*sentences, num_steps=30, burn_in=10, **options)
    assert options["checkpoint"].read_bytes() == saved


def test_heads_of_a_later_run() -> None:
    """Those that the chain began with say nothing new; others would be ignored."""
    start, other = torch.tensor([[0, 1, 2], [2, 0, 2]]), torch.tensor([[2, 3, 0], [2, 0, 2]])
    sentences = copies(SENTENCE, start)
    sampler = SiblingHastings(GRAMMAR, ours("minimal"), seed=0)
    for _ in range(2):
        sampler.run(*sentences, heads=start, num_steps=2, progress=False)
    assert len(sampler.history) == 4
    for wrong in (other, torch.full((5, 7), 99)):
        with pytest.raises(ValueError, match="expected no heads, or those that the chain began with"):
            sampler.run(*sentences, heads=wrong, num_steps=2, progress=False)
    with pytest.raises(ValueError, match="expected no heads"):
        averaged(2).run(*copies(SENTENCE, torch.zeros(3, 3)), heads=torch.zeros(3, 3).long(), progress=False)


def test_heads_with_a_cycle_are_refused_and_leave_the_chain() -> None:
    sampler = averaged(2)
    before = sampler.heads
    for cycle in ([0, 3, 2], [0, 2, 1]):
        with pytest.raises(ValueError, match="without cycles.* in sentence 1"):
            heads = torch.tensor([[0, 1, 2], cycle])
            sampler.run(*copies(SENTENCE, heads), heads=heads, num_steps=1, progress=False)
    assert torch.equal(sampler.heads, before)


def test_averages_of_no_steps_are_refused() -> None:
    for sampler in (averaged(3, 5), averaged(0), SiblingHastings(GRAMMAR, ours("minimal"))):
        for wanted in (sampler.marginals, sampler.mbr):
            with pytest.raises(RuntimeError, match="no steps were kept"):
                wanted()


def test_the_checkpoint_of_another_tagger_is_refused(tmp_path: Path) -> None:
    padded = [torch.tensor([s[i] + [-1] * (3 - len(s[i])) for s in TRAINING]) for i in range(3)]
    learnt = LexicalTagger.learn(*padded, num_tags=S, num_words=W, num_cases=C)
    smoother = LexicalTagger(learnt.triples, learnt.moves, W, C, smoothing=3.0)
    moved = LexicalTagger(learnt.triples, learnt.moves + 1, W, C)
    sentences = copies(SENTENCE, torch.zeros(3, 3))
    options: dict[str, Any] = {"num_steps": 3, "progress": False, "checkpoint": tmp_path / "chain"}
    SiblingHastings(GRAMMAR, ours("minimal"), tagger=learnt, seed=3).run(*sentences, **options)
    for tagger in (smoother, moved, None):
        with pytest.raises(ValueError, match="the checkpoint of another run"):
            SiblingHastings(GRAMMAR, ours("minimal"), tagger=tagger, seed=3).run(*sentences, **options)


def test_the_checkpoint_of_another_base_measure_is_refused(tmp_path: Path) -> None:
    sentences = copies(SENTENCE, torch.zeros(3, 3))
    options: dict[str, Any] = {"num_steps": 3, "progress": False, "checkpoint": tmp_path / "chain"}
    SiblingHastings(GRAMMAR, ours("minimal"), seed=3).run(*sentences, **options)
    other = ours("minimal")
    f = other["cases"]
    made = Restaurants(2, C, "minimal").load_state_dict(
        {**f.restaurants.state_dict(), "base": torch.tensor([0.9, 0.1])}
    )
    other["cases"] = replace(f, restaurants=made)
    with pytest.raises(ValueError, match="the checkpoint of another run"):
        SiblingHastings(GRAMMAR, other, seed=3).run(*sentences, **options)
