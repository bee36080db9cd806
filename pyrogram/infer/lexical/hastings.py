# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of sentences from the posterior of a lexicalised dependency model, by Metropolis-Hastings.

Wallach, Sutton and McCallum (2008), section 3.1: a tree is proposed from the chart with the predictive probabilities
given the training data (Eq. 10) and accepted by Eq. 11, so that events of one sentence may learn from one another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from pyrogram.grammars.lexical_dependencies import LexicalDependencies
from pyrogram.grammars.lexical_parser import Franchise
from pyrogram.grammars.lexical_tagger import LexicalTagger
from pyrogram.infer.samplers.chain import Chain, Kernel, generator_of, same_tensors

from .averages import Averages
from .moves import Alone, Sentences, Together, tensors_of

#: Proposals of a tree that are drawn from one chart.
_BLOCK = 16


class SiblingHastings(Chain, Kernel):
    """A Markov chain over the trees of tagged sentences, and over their tags if wanted.

    It runs by itself (``sampler.run(tags, words, cases, num_steps=100, burn_in=20).mbr()``) or in Pyro
    (``MCMC(sampler, 100).run(tags, words, cases)``), where the samples are ``"heads"`` and, if they are sampled,
    ``"tags"``, as floating-point numbers.

    Each sentence is judged given the training data alone. With exact seats, sentences may be judged ``together``: each
    given all the others, so that they learn from one another.

    :param grammar: which events a tree has.
    :param franchises: restaurants of the training data with their parameters, by "tags", "words", "cases". They are
        left as they are, but with ``together`` the sentences are seated there.
    :param tagger: proposes another tag for each word between the moves of trees; None: tags stay.
    :param together: whether sentences learn from one another.
    :param seated: with ``together``: the sentences given to :meth:`run`, with their heads, are at the tables already.
    :param seed: of the chain; by default from torch's global generator.
    :raises ValueError: for ``together`` without exact seats, or with a tagger.
    """

    def __init__(
        self,
        grammar: LexicalDependencies,
        franchises: Mapping[str, Franchise],
        *,
        tagger: LexicalTagger | None = None,
        together: bool = False,
        seated: bool = False,
        seed: int | None = None,
    ):
        if together and tagger is not None:
            raise ValueError("expected no tagger with together=True, where tags stay, actual both.")
        if seated and not together:
            raise ValueError("expected together=True with seated=True: otherwise no sentence is at the tables.")
        self.grammar, self.tagger, self.seed = grammar, tagger, seed
        self.moves: Alone | Together = Together(grammar, franchises, seated) if together else Alone(grammar, franchises)
        self.burn_in = 0  #: steps, from the start of the chain, that averages leave out
        self._clear()

    def _clear(self) -> None:
        """No chain."""
        self._generator = generator_of(self.seed)
        self.history: list[float] = []  #: the sum of log P(tags, words, cases, tree | D) after each step, in nats
        self._given: tuple[Tensor, ...] = ()  # what the chain is over
        self._begun: Tensor | None = None  # heads that it was told to begin with
        self._now: Sentences | None = None
        self._block: dict[str, Tensor] = {}  # proposals to come
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
        progress: bool = True,
        callback: Callable[[Self], Any] | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        resume: bool = True,
    ) -> Self:
        """Propose a tree for every sentence, again and again.

        :param tags: shape (N, n), padded with -1, as are words and cases; those that the chain starts with.
        :param heads: trees to start from; by default proposals. A chain that goes on over the same sentences is where
            it is: it takes none but those that it began with.
        :param num_steps: steps of this run, burn-in included; those of the checkpoint that it resumes count.
        :param burn_in: steps, from the start of the chain, that averages leave out. Steps that are averaged already
            cannot be left out one by one: in a later run, a greater one must leave out all that are done. A smaller
            one brings none back.
        :param callback: called after every step with this sampler; stops the run by returning True.
        :param checkpoint: file to save to every ``checkpoint_every`` steps, at the end, and when interrupted; it is
            replaced atomically, and a chain resumed from it is the same to the last bit. Not with ``together``.
        :param resume: go on from ``checkpoint`` if it exists.
        :raises ValueError: if sentences or heads do not fit, or if ``burn_in`` would leave out some averaged steps.
        """
        if burn_in < 0:
            raise ValueError(f"expected burn_in of at least 0, actual {burn_in}.")
        if checkpoint is not None and isinstance(self.moves, Together):
            raise ValueError("expected no checkpoint with together=True, whose seats are not saved, actual one.")
        self._read(tags, words, cases, heads)
        ready = partial(self._leave_out, burn_in)
        return self._run(num_steps, progress, callback, checkpoint, checkpoint_every, resume, ready)

    @property
    def heads(self) -> Tensor:
        """The present trees, shape (N, n), padded with -1."""
        return self._sentences().heads.clone()

    @property
    def tags(self) -> Tensor:
        """The present tags, shape (N, n), padded with -1."""
        return self._sentences().tags.clone()

    @property
    def log_probs(self) -> Tensor:
        """log P(tags, words, cases, tree | D) of each sentence, in nats, (N,); with exact seats, along its seats."""
        return self._sentences().log_p.clone()

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
        before = self._sentences(), self._block, self._generator.get_state()
        try:
            now, accepted, moved = self._moved()
        except BaseException:  # above all KeyboardInterrupt: half a step is no state to save or to go on from
            self._now, self._block = before[:2]
            self._generator.set_state(before[2])
            raise
        self._now = now
        self.history.append(float(now.log_p.sum()))
        if len(self.history) > self.burn_in:
            self._averages.add(now.heads, accepted, moved)
        return self.history[-1]

    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors; not with ``together``, whose seats are the franchises'."""
        now = self._sentences()
        state = {"now.tags": now.tags, "now.heads": now.heads, "now.log_p": now.log_p}
        state |= {f"block.{name}": t for name, t in self._block.items()}
        state |= {f"averages.{name}": t for name, t in self._averages.state_dict().items()}
        state |= {"history": torch.tensor(self.history, dtype=torch.float64), "generator": self._generator.get_state()}
        return {name: t.clone() for name, t in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of a chain over the same sentences, given the same training data.

        :raises ValueError: if it is not the state of such a chain.
        """
        now, parts = self._sentences(), dict[str, dict[str, Tensor]]()
        for name, tensor in state.items():
            kind, _, own = name.rpartition(".")
            parts.setdefault(kind, {})[own] = tensor.clone()
        if not {"", "now", "averages"} <= set(parts) or parts["now"]["heads"].shape != now.heads.shape:
            raise ValueError(f"this is not the state of {type(self).__name__} over these sentences")
        self._now = replace(now, **parts["now"])
        self._block = parts.get("block", {})
        self._averages.load_state_dict(parts["averages"])
        self.history = parts[""]["history"].tolist()
        self._generator.set_state(parts[""]["generator"])

    # ------------------------------------------------------------------ Pyro's kernel

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        """Start a new chain on ``tags, words, cases`` and perhaps ``heads``."""
        self._end()
        self._reseed()
        self.burn_in = warmup_steps
        self._read(*args, **kwargs)

    def _samples(self) -> dict[str, Tensor]:
        if self._now is None:
            return {}
        dtype = torch.get_default_dtype()
        found = {"heads": self._now.heads.to(dtype)}
        return found if self.tagger is None else found | {"tags": self._now.tags.to(dtype)}

    def _step(self) -> float:
        return self.step()

    def _progress(self) -> dict[str, str]:
        return {"log_p": f"{self.history[-1]:.1f}", "accepted": f"{self.acceptance:.3f}"}

    # ------------------------------------------------------------------ inside

    def _sentences(self) -> Sentences:
        if self._now is None:
            raise RuntimeError(f"{type(self).__name__} has no trees yet; call run first")
        return self._now

    def _read(self, tags: Tensor, words: Tensor, cases: Tensor, heads: Tensor | None = None) -> None:
        """Begin with these sentences, unless the chain is over them already."""
        tags, words, cases = given = tuple(t.detach().cpu().long().clone() for t in (tags, words, cases))
        heads = None if heads is None else heads.detach().cpu().long().clone()
        if same_tensors(self._given, given):
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
            if isinstance(self.moves, Together) and self.moves.seated:
                raise ValueError("expected heads of sentences that are at the tables already, actual None.")
            heads = self.moves.parser.sample(tags, words, cases, 1, self._generator)[0]
        start = Sentences(tags, words, cases, heads, torch.zeros(len(heads), dtype=torch.float64))
        if isinstance(self.moves, Together):
            self.moves.begin(start, self._generator)
        start = replace(start, log_p=self.moves.log_p(start, self._generator))
        self._now, self._given, self._begun = start, given, begun
        self._averages = Averages(start.lengths, heads.shape[1])
        if self.tagger is not None:
            self._posterior = self.tagger.posterior(words, cases).marginals()

    def _leave_out(self, burn_in: int) -> None:
        """Let averages leave out so many steps from the start of the chain."""
        self._averages = self._averages.beginning(burn_in, len(self.history))
        self.burn_in = burn_in

    def _end(self) -> None:
        """No chain, and no sentences of the last one at the tables."""
        if self._now is not None and isinstance(self.moves, Together):
            self.moves.end(self._now, self._generator)
        self._clear()

    def _moved(self) -> tuple[Sentences, Tensor, Tensor]:
        """Sentences after a step; which trees were accepted, bool (N,); and how many tags were moved, (N,)."""
        now = self._sentences()
        moved = torch.zeros(len(now.lengths), dtype=torch.float64)
        if isinstance(self.moves, Together):
            return (*self.moves.sweep(now, self._generator), moved)
        now, accepted = self._independent(self.moves, now)
        if self._posterior is not None:
            for position in range(now.tags.shape[1]):
                now, changed = self.moves.retag(now, position, self._posterior, self._generator)
                moved += changed
        return now, accepted, moved

    def _independent(self, moves: Alone, now: Sentences) -> tuple[Sentences, Tensor]:
        """Judge the next of proposals that depend on nothing but tags."""
        if not self._block:
            number = _BLOCK if self.tagger is None else 1
            heads, log_p, log_q = moves.propose(now, number, self._generator)
            self._block = {"heads": heads, "log_p": log_p, "log_q": log_q, "old": moves.log_q(now)}
        block = self._block
        proposed = replace(now, heads=block["heads"][0], log_p=block["log_p"][0])
        log_ratio = proposed.log_p - now.log_p + block["old"] - block["log_q"][0]
        uniform = torch.rand(log_ratio.shape, generator=self._generator, dtype=torch.float64)
        accepted = uniform.log() < log_ratio
        old = torch.where(accepted, block["log_q"][0], block["old"])
        left = {name: block[name][1:] for name in ("heads", "log_p", "log_q")}
        self._block = {**left, "old": old} if len(left["heads"]) else {}
        return now.where(accepted, proposed), accepted

    def _fingerprint(self) -> str:
        """A hash of the training data's counts, parameters and sentences, and of the tagger."""
        digest = hashlib.sha256(f"{type(self).__name__} {self.grammar.contexts}".encode())
        now = self._sentences()
        tensors = [now.words, now.cases]
        for f in self.moves.franchises.values():
            digest.update(f"{f.restaurants.num_values} {f.restaurants.paths}".encode())
            tensors += tensors_of(f)
        if self.tagger is None:
            tensors.append(now.tags)
        else:
            digest.update(f"{self.tagger.num_words} {self.tagger.num_cases} {self.tagger.smoothing}".encode())
            tensors += self.tagger.tensors().values()
        for tensor in tensors:
            digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()
