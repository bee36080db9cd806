# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Metropolis-Hastings moves of the trees and tags of sentences under a lexicalised dependency model.

The target is P(tags, words, cases, tree | D), the product of the predictive probabilities of the events of a sentence,
each seated before the next (numerator and denominator of Eq. 11 of Wallach, Sutton and McCallum 2008); the proposal is
Eq. 10, where none is seated. With exact seats, those of a sentence are drawn with its tree and belong to the state.
Unless tags are given, the proposal is of tags and tree together (footnote 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pyrogram.grammars import sibling_tags
from pyrogram.grammars.lexical_dependencies import SITES, Events, LexicalDependencies
from pyrogram.grammars.lexical_parser import LexicalParser, PitmanYorPredictor, draw_trees
from pyrogram.restaurants.trials import TrialSeating


@dataclass(frozen=True)
class ChainState:
    """N sentences with their present tags and trees, tensors of shape (N, n) padded with -1.

    :param log_p: log P(tags, words, cases, tree | D) of each, in nats, shape (N,), float64.
    """

    tags: Tensor
    words: Tensor
    cases: Tensor
    heads: Tensor
    log_p: Tensor

    @property
    def lengths(self) -> Tensor:
        """Shape (N,)."""
        return (self.words >= 0).sum(-1)

    def where(self, chosen: Tensor, other: ChainState) -> ChainState:
        """Tags, trees and probabilities of ``other`` for the sentences chosen, bool (N,), and these for the others."""
        wide = chosen[:, None]
        return replace(
            self,
            tags=torch.where(wide, other.tags, self.tags),
            heads=torch.where(wide, other.heads, self.heads),
            log_p=torch.where(chosen, other.log_p, self.log_p),
        )


def proposed_sites(tags_too: bool) -> tuple[str, ...]:
    """The variables whose probabilities a proposal changes: cases depend on tags, and on no tree."""
    return SITES if tags_too else ("tags", "words")


class IndependentMoves:
    """Each sentence for itself, given training data that stay as they are; all sentences are moved at once.

    :param grammar: which events a tree has.
    :param predictors: the training data, by "tags", "words", "cases"; they are copied.
    :param tags_too: whether tags are proposed with the trees.
    """

    def __init__(self, grammar: LexicalDependencies, predictors: Mapping[str, PitmanYorPredictor], tags_too: bool):
        self.grammar, self.tags_too = grammar, tags_too
        self.predictors = {site: predictors[site].copy() for site in SITES}
        self.parser = LexicalParser(grammar, self.predictors)
        self._trials = {
            site: TrialSeating(f.restaurants, f.concentration, f.discount) for site, f in self.predictors.items()
        }

    def log_p(self, state: ChainState, generator: torch.Generator) -> Tensor:
        """log P(tags, words, cases, tree | D) of each sentence; with exact seats, along seats that are drawn."""
        events = self.grammar.events_of(state.tags, state.words, state.cases, state.heads)
        total = torch.zeros(len(state.tags), dtype=torch.float64)
        for site, e in events.items():
            total += self._trials[site].weigh(e.keys, e.values, e.starts, generator)
        return total

    def log_q(self, state: ChainState) -> Tensor:
        """The log probability of each tree, or of tags and tree, under Eq. 10, up to a constant of the sentence."""
        events = self.grammar.events_of(state.tags, state.words, state.cases, state.heads)
        return sum(
            (_each(self.predictors[site], events[site]) for site in proposed_sites(self.tags_too)), torch.zeros(())
        )

    def propose(self, state: ChainState, number: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Independent proposals: ``"tags"`` and ``"heads"`` (number, N, n), ``"log_p"`` and ``"log_q"`` (number, N)."""
        N, n = state.tags.shape
        proposals = {name: torch.full((number, N, n), -1) for name in ("tags", "heads")}
        proposals |= {name: torch.zeros(number, N, dtype=torch.float64) for name in ("log_p", "log_q")}
        for which, tags, heads in self._drawn(state, number, generator):
            longest = heads.shape[-1]  # sentences of about the same length together: most of a corpus is padding
            words, cases = (t[which, :longest].repeat(number, 1) for t in (state.words, state.cases))
            many = ChainState(tags.flatten(0, 1), words, cases, heads.flatten(0, 1), proposals["log_p"])
            proposals["tags"][:, which, :longest], proposals["heads"][:, which, :longest] = tags, heads
            proposals["log_p"][:, which] = self.log_p(many, generator).reshape(number, -1)
            proposals["log_q"][:, which] = self.log_q(many).reshape(number, -1)
        return proposals

    def _drawn(
        self, state: ChainState, number: int, generator: torch.Generator
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Numbers of sentences (B,), and tags and heads that are proposed for them, (number, B, n)."""
        if self.tags_too:
            for which, lengths, tagged in self.parser.untagged_batches(state.words, state.cases):
                yield which, *sibling_tags.sample(tagged, lengths, number, generator)
            return
        for which, lengths, scores in self.parser.batches(state.tags, state.words, state.cases):
            tags = state.tags[which, : int(lengths.max())].expand(number, -1, -1)
            yield which, tags, draw_trees(scores, lengths, number, generator)

    def retag(self, state: ChainState, position: int, posterior: Tensor, generator: torch.Generator) -> ChainState:
        """Propose another tag for one word of every sentence that is long enough, and judge it.

        :param position: of the word, from 0.
        :param posterior: the tags' proposal, p(tag | words) of a tagger, shape (N, n, S).
        """
        rows = (state.lengths > position).nonzero()[:, 0]
        part = ChainState(*(t[rows] for t in (state.tags, state.words, state.cases, state.heads, state.log_p)))
        share = posterior[rows, position]
        tags, old = part.tags.clone(), part.tags[:, position]
        new = torch.multinomial(share, 1, generator=generator)[:, 0]
        tags[:, position] = new
        proposed = replace(part, tags=tags)
        proposed = replace(proposed, log_p=self.log_p(proposed, generator))
        back = share.gather(1, old[:, None]).log() - share.gather(1, new[:, None]).log()
        accepted = _accept(proposed.log_p - part.log_p + back[:, 0], generator)
        part = part.where(accepted, proposed)
        all_tags, log_p = state.tags.clone(), state.log_p.clone()
        all_tags[rows], log_p[rows] = part.tags, part.log_p
        return replace(state, tags=all_tags, log_p=log_p)


class JointMoves:
    """All sentences in one state with the training data: each is judged given all the others; exact seats only.

    :param predictors: the training data, which sentences are added to, with exact seats; they are not copied.
    :param seated: whether the sentences that moves begin with are at the tables already.
    :param tags_too: whether tags are proposed with the trees.
    """

    def __init__(
        self,
        grammar: LexicalDependencies,
        predictors: Mapping[str, PitmanYorPredictor],
        seated: bool,
        tags_too: bool,
    ):
        for site in SITES:
            if predictors[site].restaurants.paths != "exact":
                paths = predictors[site].restaurants.paths
                raise ValueError(
                    f"expected exact seats for sentences that are judged together, actual paths={paths!r}: with "
                    "others, the probability of a corpus depends on the order of its sentences."
                )
        self.grammar, self.predictors, self.seated, self.tags_too = grammar, dict(predictors), seated, tags_too
        self.parser = LexicalParser(grammar, self.predictors)
        self._trials = {
            site: TrialSeating(f.restaurants, f.concentration, f.discount) for site, f in self.predictors.items()
        }

    def begin(self, state: ChainState, generator: torch.Generator) -> None:
        """Seat all sentences, unless they are."""
        if not self.seated:
            for site, e in self._events(state).items():
                self._trials[site].seat(e.keys, e.values, generator)
        self.seated = True

    def end(self, state: ChainState, generator: torch.Generator) -> None:
        """Unseat all sentences."""
        for site, e in self._events(state).items():
            self._trials[site].unseat_drawn(e.keys, e.values, generator)
        self.seated = False

    def _events(self, state: ChainState) -> dict[str, Events]:
        return self.grammar.events_of(state.tags, state.words, state.cases, state.heads)

    def sweep(self, state: ChainState, generator: torch.Generator) -> tuple[ChainState, Tensor]:
        """Propose a tree for every sentence in turn, given all others; which were accepted, bool (N,)."""
        tags, heads, log_p = state.tags.clone(), state.heads.clone(), state.log_p.clone()
        accepted = torch.zeros(len(heads), dtype=torch.bool)
        for i, n in enumerate(state.lengths.tolist()):
            words, cases = state.words[i, :n], state.cases[i, :n]
            old = self.grammar.events(tags[i, :n], words, cases, heads[i, :n])
            out = {site: self._trials[site].unseat_drawn(old[site].keys, old[site].values, generator) for site in SITES}
            new_tags, drawn = self._drawn(tags[i, :n], words, cases, generator)
            new = self.grammar.events(new_tags, words, cases, drawn)
            back = self._log_q(old) - self._log_q(new)
            put = {site: self._trials[site].seat(new[site].keys, new[site].values, generator) for site in SITES}
            after, before = (sum(seating[0] for seating in seats.values()) for seats in (put, out))
            accepted[i] = bool(_accept(torch.tensor([after - before + back], dtype=torch.float64), generator)[0])
            log_p[i] = after if accepted[i] else before
            if accepted[i]:
                tags[i, :n], heads[i, :n] = new_tags, drawn
                continue
            for site in SITES:
                self._trials[site].undo_seat(new[site].keys, new[site].values, put[site][1])
                self._trials[site].undo_unseat(old[site].keys, old[site].values, out[site][1])
        return replace(state, tags=tags, heads=heads, log_p=log_p), accepted

    def _drawn(self, tags: Tensor, words: Tensor, cases: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Tags and heads that are proposed for a sentence, (n,)."""
        if self.tags_too:
            tags, heads = self.parser.sample_untagged(words[None], cases[None], 1, generator)
            return tags[0, 0], heads[0, 0]
        return tags, self.parser.sample(tags[None], words[None], cases[None], 1, generator)[0, 0]

    def _log_q(self, events: Mapping[str, Events]) -> float:
        return sum(
            float(self.predictors[site](events[site].keys, events[site].values).log().sum())
            for site in proposed_sites(self.tags_too)
        )

    def log_p(self, state: ChainState, generator: torch.Generator) -> Tensor:
        """Of each sentence given all others is known only after a sweep: NaN."""
        return torch.full((len(state.tags),), float("nan"), dtype=torch.float64)


def tensors_of(predictor: PitmanYorPredictor) -> list[Tensor]:
    """What predictive probabilities follow from: parameters, base measure, and the counts of all levels."""
    restaurants = predictor.restaurants
    counts = [column for level in range(restaurants.num_levels) for column in restaurants.table(level)]
    return [predictor.concentration, predictor.discount, restaurants.base, *counts]


def _each(predictor: PitmanYorPredictor, events: Events) -> Tensor:
    """The sum of log predictive probabilities of each sentence's events, (N,)."""
    log_p = predictor(events.keys, events.values).log()
    owner = torch.repeat_interleave(events.starts.diff())
    return torch.zeros(len(events.starts) - 1, dtype=torch.float64).index_add_(0, owner, log_p)


def _accept(log_ratio: Tensor, generator: torch.Generator) -> Any:
    """Whether to accept, each with probability min(1, exp(log_ratio))."""
    return torch.rand(log_ratio.shape, generator=generator, dtype=torch.float64).log() < log_ratio
