# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of sentences from the posterior of a lexicalised dependency model, by Metropolis-Hastings.

Wallach, Sutton and McCallum (2008), section 3.1: a tree is proposed from the chart with the predictive probabilities
given the training data (Eq. 10) and accepted by Eq. 11, so that events of one sentence may learn from one another.
Tags that are unknown are proposed with the tree, by a chart over both (footnote 2), or one by one by a tagger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from typing_extensions import Self, Unpack

from pyrogram.grammars.lexical_dependencies import LexicalDependencies
from pyrogram.grammars.lexical_parser import PitmanYorPredictor
from pyrogram.grammars.lexical_tagger import LexicalTagger
from pyrogram.infer.running.run import Resumable, RunOptions, with_history
from pyrogram.infer.running.state import copied, flatten, ragged, unflatten
from pyrogram.infer.samplers.chain import Kernel, generator_of, same_tensors

from .averages import Averages
from .moves import ChainState, IndependentMoves, JointMoves, tensors_of

#: Proposals of a tree that are drawn from one chart.
_BLOCK = 16


@dataclass(frozen=True)
class ProposedState:
    """Sentences with their present trees, and proposals to come.

    :param generator: the state of the chain's.
    :param block: heads (and tags, if they are proposed, too), log_p and log_q of proposals, and the log_q of the
        present trees, ``old``; or nothing.
    """

    now: ChainState
    generator: Tensor
    block: dict[str, Tensor] = ragged()


class SiblingHastings(Resumable, Kernel):
    """A Markov chain over the trees of tagged sentences, and over their tags if wanted.

    It runs by itself (``sampler.run(tags, words, cases, num_steps=100, burn_in=20).mbr()``) or in Pyro
    (``MCMC(sampler, 100).run(tags, words, cases)``), where the samples are ``"heads"`` and, if they are sampled,
    ``"tags"``, as floating-point numbers.

    Tags that are unknown are sampled at the same time as the trees with ``tags_too``, from one chart over both, which
    costs S^3 times as much for S tags. With a ``tagger``, each word's tag is moved by itself, at little cost.

    Each sentence is judged given the training data alone. With exact seats, sentences may be judged ``together``: each
    given all the others, so that they learn from one another.

    :param grammar: which events a tree has.
    :param predictors: restaurants of the training data with their parameters, by "tags", "words", "cases". They are
        left as they are, but with ``together`` the sentences are seated there.
    :param tagger: proposes another tag for each word between the moves of trees.
    :param tags_too: whether tags are proposed with the trees. Without it and without a tagger, tags stay.
    :param together: whether sentences learn from one another.
    :param seated: with ``together``: the sentences given to :meth:`run`, with their heads, are at the tables already.
    :param seed: of the chain; by default from torch's global generator.
    :raises ValueError: for ``together`` without exact seats, or with a tagger; for ``tags_too`` with a tagger.
    """

    def __init__(
        self,
        grammar: LexicalDependencies,
        predictors: Mapping[str, PitmanYorPredictor],
        *,
        tagger: LexicalTagger | None = None,
        tags_too: bool = False,
        together: bool = False,
        seated: bool = False,
        seed: int | None = None,
    ):
        if together and tagger is not None:
            raise ValueError("expected no tagger with together=True, where tags_too samples tags, actual both.")
        if tags_too and tagger is not None:
            raise ValueError("expected a tagger or tags_too=True, which are two ways to sample tags, actual both.")
        if seated and not together:
            raise ValueError("expected together=True with seated=True: otherwise no sentence is at the tables.")
        super().__init__()  # the history is of the sum of log P(tags, words, cases, tree | D) after each step
        self.grammar, self.tagger, self.tags_too, self.seed = grammar, tagger, tags_too, seed
        self.moves: IndependentMoves | JointMoves = (
            JointMoves(grammar, predictors, seated, tags_too)
            if together
            else IndependentMoves(grammar, predictors, tags_too)
        )
        self._clear()

    def _clear(self) -> None:
        """No chain."""
        self._generator = generator_of(self.seed)
        self.history, self.stopped = [], ""
        self._sentences: tuple[Tensor, ...] = ()  # what the chain is over
        self._begun: Tensor | None = None  # heads that it was told to begin with
        self._state: ProposedState | None = None
        self._averages = Averages(torch.zeros(0, dtype=torch.long), 0)
        self._posterior: Tensor | None = None  # of tags

    # ------------------------------------------------------------------ public

    def run(
        self,
        tags: Tensor,
        words: Tensor,
        cases: Tensor,
        *,
        heads: Tensor | None = None,
        num_steps: int = 100,
        burn_in: int = 0,
        **options: Unpack[RunOptions],
    ) -> Self:
        """Propose a tree for every sentence, again and again.

        :param tags: shape (N, n), padded with -1, as are words and cases; those that the chain starts with. Where they
            are unknown, a tagger's (:class:`.LexicalTagger`) or any others will do.
        :param heads: trees to start from; by default proposals. A chain that goes on over the same sentences is where
            it is: it takes none but those that it began with.
        :param num_steps: steps of this run, burn-in included; those of the checkpoint that it resumes count.
        :param burn_in: steps, from the start of the chain, that averages leave out. Steps that are averaged already
            cannot be left out one by one: in a later run, a greater one must leave out all that are done. A smaller
            one brings none back.
        :param options: as in every run, see :meth:`.Resumable._run`. No checkpoint with ``together``.
        :raises ValueError: if sentences or heads do not fit, or if ``burn_in`` would leave out some averaged steps.
        """
        if burn_in < 0:
            raise ValueError(f"expected burn_in of at least 0, actual {burn_in}.")
        if options.get("checkpoint") is not None and isinstance(self.moves, JointMoves):
            raise ValueError("expected no checkpoint with together=True, whose seats are not saved, actual one.")
        self._begin(tags, words, cases, heads)
        return self._run(num_steps, ready=partial(self._leave_out, burn_in), **options)

    @property
    def heads(self) -> Tensor:
        """The present trees, shape (N, n), padded with -1."""
        return self._need_state().now.heads.clone()

    @property
    def tags(self) -> Tensor:
        """The present tags, shape (N, n), padded with -1."""
        return self._need_state().now.tags.clone()

    @property
    def log_probs(self) -> Tensor:
        """log P(tags, words, cases, tree | D) of each sentence, in nats, (N,); with exact seats, along its seats."""
        return self._need_state().now.log_p.clone()

    def marginals(self) -> Tensor:
        """The share of kept steps in which each arc was in the tree, shape (N, n+1, n+1) [head, dependent]."""
        return self._averages.marginals()

    def mbr(self) -> Tensor:
        """The trees with the most expected right heads by the steps that were kept, shape (N, n), padded with -1."""
        return self._averages.mbr()

    @property
    def acceptance(self) -> float:
        """The share of proposed trees that were accepted in the steps that are kept; NaN before."""
        return self._averages.acceptance

    @property
    def retagged(self) -> float:
        """The share of words that changed their tag in a step, of the steps that are kept; NaN before."""
        return self._averages.retagged

    def acceptance_by_length(self) -> dict[int, float]:
        """The share of proposed trees that were accepted, by the number of tokens of a sentence."""
        return self._averages.acceptance_by_length()

    def step(self) -> float:
        """One proposal for the tree of every sentence and, with a tagger, for every tag.

        :returns: the sum of log P(tags, words, cases, tree | D) after it, in nats.
        """
        self._state, accepted, moved = self._moved(self._need_state())
        now = self._state.now
        self.history.append(float(now.log_p.sum()))
        if len(self.history) > self.burn_in:
            self._averages.add(now.heads, accepted, moved)
        return self.history[-1]

    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors; not with ``together``, whose seats are the predictors'."""
        averages = {f"averages.{name}": t for name, t in self._averages.state_dict().items()}
        return with_history(copied({**flatten(self._need_state()), **averages}), history=self.history)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of a chain over the same sentences, given the same training data.

        :raises ValueError: if it is not the state of such a chain.
        """
        old, tensors = self._need_state(), dict(state)
        owner = f"{type(self).__name__} over these sentences"
        history = tensors.pop("history", torch.empty(0))
        kept = {n.removeprefix("averages."): tensors.pop(n) for n in state if n.startswith("averages.")}
        new = unflatten(replace(old, block={}), tensors, owner)
        like = self._averages.state_dict()
        if kept.keys() != like.keys() or any(kept[n].shape != like[n].shape for n in like) or "history" not in state:
            raise ValueError(f"this is not the state of {owner}, which needs its averages and its history")
        shapes = {name: t.shape[1:] for name, t in new.block.items() if name != "old"}
        expected = {"heads": old.now.heads.shape, "log_p": old.now.log_p.shape, "log_q": old.now.log_p.shape}
        expected |= {"tags": old.now.tags.shape} if self.tags_too else {}
        if new.block and shapes != expected:
            raise ValueError(f"this is not the state of {owner}, whose proposals have other shapes")
        self._state, self.history = new, history.tolist()
        self._averages.load_state_dict(copied(kept))

    # ------------------------------------------------------------------ Pyro's kernel

    def _samples(self) -> dict[str, Tensor]:
        if self._state is None:
            return {}
        dtype, now = torch.get_default_dtype(), self._state.now
        samples = {"heads": now.heads.to(dtype)}
        return samples | {"tags": now.tags.to(dtype)} if self.tags_too or self.tagger is not None else samples

    def _advance(self) -> float:
        return self.step()

    def _shown(self) -> dict[str, str]:
        return {"log_p": f"{self.history[-1]:.1f}", "accepted": f"{self.acceptance:.3f}"}

    # ------------------------------------------------------------------ inside

    def _need_state(self) -> ProposedState:
        if self._state is None:
            raise RuntimeError(f"{type(self).__name__} has no trees yet; call run first")
        return self._state

    def _begin(self, tags: Tensor, words: Tensor, cases: Tensor, heads: Tensor | None = None) -> None:
        """Begin with these sentences, unless the chain is over them already."""
        tags, words, cases = sentences = tuple(t.detach().cpu().long().clone() for t in (tags, words, cases))
        heads = None if heads is None else heads.detach().cpu().long().clone()
        if same_tensors(self._sentences, sentences):
            if heads is not None and (self._begun is None or not torch.equal(heads, self._begun)):
                raise ValueError(
                    "expected no heads, or those that the chain began with, in a later run over the same sentences, "
                    "actual others: another sampler can start there."
                )
            return
        # What does not fit is refused before the old chain ends.
        self.grammar.check(tags, words, cases, heads)
        self._end()
        begun = heads
        if heads is None:
            if isinstance(self.moves, JointMoves) and self.moves.seated:
                raise ValueError("expected heads of sentences that are at the tables already, actual None.")
            heads = self.moves.parser.sample(tags, words, cases, 1, self._generator)[0]
        start = ChainState(tags, words, cases, heads, torch.zeros(len(heads), dtype=torch.float64))
        if isinstance(self.moves, JointMoves):
            self.moves.begin(start, self._generator)
        start = replace(start, log_p=self.moves.log_p(start, self._generator))
        self._state = ProposedState(start, self._generator.get_state(), {})
        self._sentences, self._begun = sentences, begun
        self._averages = Averages(start.lengths, heads.shape[1])
        if self.tagger is not None:
            self._posterior = self.tagger.posterior(words, cases).marginals()

    def _leave_out(self, burn_in: int) -> None:
        """Let averages leave out so many steps from the start of the chain."""
        self._averages = self._averages.beginning(burn_in, len(self.history))
        self.burn_in = burn_in

    def _end(self) -> None:
        """No chain, and no sentences of the last one at the tables."""
        if self._state is not None and isinstance(self.moves, JointMoves):
            self.moves.end(self._state.now, torch.Generator().set_state(self._state.generator))
        self._clear()

    def _moved(self, state: ProposedState) -> tuple[ProposedState, Tensor, Tensor]:
        """The next state; which trees were accepted, bool (N,); and how many tags were moved, (N,)."""
        now, block, generator = state.now, state.block, torch.Generator().set_state(state.generator)
        if isinstance(self.moves, JointMoves):
            now, accepted = self.moves.sweep(now, generator)
        else:
            now, block, accepted = self._judged(self.moves, now, block, generator)
            for position in range(now.tags.shape[1] if self._posterior is not None else 0):
                assert self._posterior is not None
                now = self.moves.retag(now, position, self._posterior, generator)
        moved = (now.tags != state.now.tags).sum(-1)
        return ProposedState(now, generator.get_state(), block), accepted, moved

    def _judged(
        self, moves: IndependentMoves, now: ChainState, block: dict[str, Tensor], generator: torch.Generator
    ) -> tuple[ChainState, dict[str, Tensor], Tensor]:
        """Judge the next of proposals that depend on nothing but tags; the sentences, and the proposals left."""
        if not block:
            number = _BLOCK if self.tagger is None else 1
            block = moves.propose(now, number, generator)
            if not self.tags_too:
                del block["tags"]  # the present ones
            block = {**block, "old": moves.log_q(now)}
        tags = block["tags"][0] if self.tags_too else now.tags
        proposed = replace(now, tags=tags, heads=block["heads"][0], log_p=block["log_p"][0])
        log_ratio = proposed.log_p - now.log_p + block["old"] - block["log_q"][0]
        uniform = torch.rand(log_ratio.shape, generator=generator, dtype=torch.float64)
        accepted = uniform.log() < log_ratio
        old = torch.where(accepted, block["log_q"][0], block["old"])
        left = {name: proposals[1:] for name, proposals in block.items() if name != "old"}
        block = {**left, "old": old} if len(left["heads"]) else {}
        return now.where(accepted, proposed), block, accepted

    def _fingerprint(self) -> str:
        """A hash of the training data's counts, parameters and sentences, and of the tagger."""
        digest = hashlib.sha256(f"{type(self).__name__} {self.grammar.contexts}{' tags, too' * self.tags_too}".encode())
        now = self._need_state().now
        tensors = [now.words, now.cases]
        for f in self.moves.predictors.values():
            digest.update(f"{f.restaurants.num_values} {f.restaurants.paths}".encode())
            tensors += tensors_of(f)
        if self.tagger is None and not self.tags_too:
            tensors.append(now.tags)
        elif self.tagger is not None:
            digest.update(f"{self.tagger.num_words} {self.tagger.num_cases} {self.tagger.smoothing}".encode())
            tensors += self.tagger.tensors().values()
        for tensor in tensors:
            digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()
