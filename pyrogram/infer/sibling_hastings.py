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
from pathlib import Path
from typing import Any, ClassVar

import torch
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from torch import Tensor
from tqdm import tqdm
from typing_extensions import Self

from pyrogram.charts import projective
from pyrogram.grammars.lexical_dependencies import SITES, LexicalDependencies
from pyrogram.grammars.lexical_parser import Franchise
from pyrogram.grammars.lexical_tagger import LexicalTagger

from .checkpoint import load_state, save_state
from .sibling_hastings_moves import Alone, Sentences, Together

#: Proposals of a tree that are drawn from one chart.
_BLOCK = 16


class SiblingHastings(MCMCKernel):
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

    transforms: ClassVar[dict[str, Any]] = {}  # Pyro's MCMC: samples are in their own space already

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
        seed = int(torch.randint(2**62, ())) if self.seed is None else self.seed
        self._generator = torch.Generator().manual_seed(seed)
        self.history: list[float] = []  #: the sum of log P(tags, words, cases, tree | D) after each step, in nats
        self._now: Sentences | None = None
        self._block: dict[str, Tensor] = {}  # proposals to come
        self._arcs: dict[int, Tensor] = {}
        self._accepted = torch.zeros(0)
        self._moved = torch.zeros(0)
        self._posterior: Tensor | None = None
        self._kept = 0

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
        :param heads: trees to start from; by default proposals.
        :param num_steps: steps of this run, burn-in included; those of the checkpoint that it resumes count.
        :param burn_in: steps, from the start of the chain, that averages leave out.
        :param callback: called after every step with this sampler; stops the run by returning True.
        :param checkpoint: file to save to every ``checkpoint_every`` steps, at the end, and when interrupted; it is
            replaced atomically, and a chain resumed from it is the same to the last bit. Not with ``together``.
        :param resume: go on from ``checkpoint`` if it exists.
        """
        if burn_in < 0 or num_steps < 0 or checkpoint_every < 1:
            raise ValueError(
                f"expected num_steps and burn_in of at least 0 and checkpoint_every of at least 1, actual {num_steps}, "
                f"{burn_in} and {checkpoint_every}."
            )
        if checkpoint is not None and isinstance(self.moves, Together):
            raise ValueError("expected no checkpoint with together=True, whose seats are not saved, actual one.")
        self.burn_in = burn_in
        self._read(tags, words, cases, heads)
        last = len(self.history) + num_steps
        path, name = (None, "") if checkpoint is None else (Path(checkpoint), self._fingerprint())
        if path is not None and resume and path.exists():
            self._load(load_state(path, name))
        try:
            with tqdm(total=last, initial=len(self.history), disable=not progress) as bar:
                while len(self.history) < last:
                    self.step()
                    bar.update()
                    bar.set_postfix(accepted=f"{self.acceptance:.3f}", refresh=False)
                    if path is not None and len(self.history) % checkpoint_every == 0:
                        save_state(path, self._state(), name)
                    if callback is not None and callback(self) is True:
                        break
        finally:
            if path is not None and self.history:
                save_state(path, self._state(), name)
        return self

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
        now = self._sentences()
        N, n = now.heads.shape
        found = torch.zeros(N, n + 1, n + 1, dtype=torch.float64)
        for i, arcs in self._arcs.items():
            m = arcs.shape[-1]
            found[i, : m + 1, 1 : m + 1] = arcs.double() / self._kept
        return found

    def mbr(self) -> Tensor:
        """The trees with the most expected right heads by the steps that were kept, shape (N, n), padded with -1."""
        now = self._sentences()
        if not self._kept:
            raise RuntimeError("no steps were kept: run more of them than burn_in")
        heads = torch.full_like(now.heads, -1)
        for i, arcs in self._arcs.items():
            m = arcs.shape[-1]
            square = torch.nn.functional.pad(arcs.double(), (1, 0))[..., None]
            heads[i, :m] = projective.mbr(square[None], torch.tensor([m]))[0]
        return heads

    @property
    def acceptance(self) -> float:
        """The share of proposed trees that were accepted in the steps that are kept; NaN before."""
        proposals = self._kept * len(self._accepted)
        return float(self._accepted.sum()) / proposals if proposals else float("nan")

    @property
    def retagged(self) -> float:
        """The share of words that changed their tag in a step, of the steps that are kept; NaN before."""
        proposals = self._kept * int(self._sentences().lengths.sum())
        return float(self._moved.sum()) / proposals if proposals else float("nan")

    def acceptance_by_length(self) -> dict[int, float]:
        """The share of proposed trees that were accepted, by the number of tokens of a sentence."""
        lengths = self._sentences().lengths
        if not self._kept:
            return {}
        return {int(n): float(self._accepted[lengths == n].mean()) / self._kept for n in lengths.unique()}

    def step(self) -> None:
        """One proposal for the tree of every sentence and, with a tagger, for every tag."""
        now = self._sentences()
        if isinstance(self.moves, Together):
            now, accepted = self.moves.sweep(now, self._generator)
        else:
            now, accepted = self._independent(self.moves, now)
        self._now = now
        moved = self._retag(self.moves) if isinstance(self.moves, Alone) else torch.zeros_like(self._moved)
        self.history.append(float(self._sentences().log_p.sum()))
        if len(self.history) > self.burn_in:
            self._keep(accepted, moved)

    # ------------------------------------------------------------------ Pyro's kernel

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        """Start a new chain on ``tags, words, cases`` and perhaps ``heads``."""
        self._clear()
        # Several chains must differ, whatever the seed that this sampler has for itself.
        self._generator.manual_seed(int(torch.randint(2**62, ())))
        self.burn_in = warmup_steps
        self._read(*args, **kwargs)

    @property
    def initial_params(self) -> dict[str, Tensor]:
        """The chain's present trees, and tags if they are sampled."""
        return {} if self._now is None else self._params()

    @initial_params.setter
    def initial_params(self, params: Mapping[str, Tensor]) -> None:
        """Chains start from ``heads`` given to :meth:`run`, or from proposals."""

    def sample(self, params: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """One step; what was there before is the kernel's own state, not ``params``."""
        self.step()
        return self._params()

    def logging(self) -> dict[str, Any]:
        found = {"log P": f"{self.history[-1]:.1f}"} if self.history else {}
        return found | ({"acc. rate": f"{self.acceptance:.3f}"} if self._kept else {})

    def diagnostics(self) -> dict[str, Any]:
        """For Pyro's ``MCMC.diagnostics``: of the steps that are kept."""
        return {"divergences": [], "acceptance rate": self.acceptance}

    def cleanup(self) -> None:
        """Nothing to do: what was learnt stays here until the next chain."""

    def _params(self) -> dict[str, Tensor]:
        now, dtype = self._sentences(), torch.get_default_dtype()
        found = {"heads": now.heads.to(dtype)}
        return found if self.tagger is None else found | {"tags": now.tags.to(dtype)}

    # ------------------------------------------------------------------ inside

    def _sentences(self) -> Sentences:
        if self._now is None:
            raise RuntimeError(f"{type(self).__name__} has no trees yet; call run first")
        return self._now

    def _read(self, tags: Tensor, words: Tensor, cases: Tensor, heads: Tensor | None = None) -> None:
        """Begin with these sentences, unless the chain is over them already."""
        now = self._now
        if now is not None and now.words.shape == words.shape and torch.equal(now.words, words):
            return
        if now is not None:
            self._clear()
        tags, words, cases = (t.detach().cpu().long().clone() for t in (tags, words, cases))
        N = len(words)
        if isinstance(self.moves, Together) and self.moves.seated and heads is None:
            raise ValueError("expected heads of sentences that are at the tables already, actual None.")
        if heads is None:
            heads = self.moves.parser.sample(tags, words, cases, 1, self._generator)[0]
        start = Sentences(tags, words, cases, heads.clone(), torch.zeros(N, dtype=torch.float64))
        if isinstance(self.moves, Together):
            self.moves.begin(start, self._generator)
            start = replace(start, log_p=self.moves.log_p(start))
        else:
            start = replace(start, log_p=self.moves.log_p(start, self._generator))
        self._now = start
        self._accepted = torch.zeros(N, dtype=torch.float64)
        self._moved = torch.zeros(N, dtype=torch.float64)
        if self.tagger is not None:
            self._posterior = self.tagger.posterior(words, cases).marginals()

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

    def _retag(self, moves: Alone) -> Tensor:
        moved = torch.zeros_like(self._moved)
        if self._posterior is not None:
            for position in range(self._sentences().tags.shape[1]):
                self._now, changed = moves.retag(self._sentences(), position, self._posterior, self._generator)
                moved += changed
        return moved

    def _keep(self, accepted: Tensor, moved: Tensor) -> None:
        now = self._sentences()
        self._accepted = self._accepted + accepted
        self._moved = self._moved + moved
        self._kept += 1
        for i, n in enumerate(now.lengths.tolist()):
            if not n:
                continue
            if i not in self._arcs:
                self._arcs[i] = torch.zeros(n + 1, n, dtype=torch.int32)
            self._arcs[i][now.heads[i, :n], torch.arange(n)] += 1

    def _fingerprint(self) -> str:
        """A hash of the training data's counts, parameters and sentences."""
        digest = hashlib.sha256(f"{type(self).__name__} {self.grammar.contexts} {self.tagger is None}".encode())
        for site in SITES:
            f = self.moves.franchises[site]
            for tensor in (f.concentration, f.discount, *f.restaurants.table(-1)):
                digest.update(tensor.cpu().contiguous().numpy().tobytes())
        now = self._sentences()
        for tensor in (now.words, now.cases, *(() if self.tagger is not None else (now.tags,))):
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _state(self) -> dict[str, Tensor]:
        now = self._sentences()
        state = {"now.tags": now.tags, "now.heads": now.heads, "now.log_p": now.log_p}
        state |= {f"block.{name}": t for name, t in self._block.items()}
        state |= {f"arcs.{i}": t for i, t in self._arcs.items()}
        state |= {"accepted": self._accepted, "moved": self._moved, "kept": torch.tensor([self._kept])}
        state |= {"history": torch.tensor(self.history, dtype=torch.float64), "generator": self._generator.get_state()}
        return {name: t.clone() for name, t in state.items()}

    def _load(self, state: Mapping[str, Tensor]) -> None:
        found = {name: state[f"now.{name}"] for name in ("tags", "heads", "log_p")}
        self._now = replace(self._sentences(), **found)
        parts: dict[str, dict[str, Tensor]] = {"block": {}, "arcs": {}}
        for name, tensor in state.items():
            kind, _, own = name.partition(".")
            if kind in parts:
                parts[kind][own] = tensor
        self._block, self._arcs = parts["block"], {int(i): t for i, t in parts["arcs"].items()}
        self._accepted, self._moved, self._kept = state["accepted"], state["moved"], int(state["kept"])
        self.history = state["history"].tolist()
        self._generator.set_state(state["generator"])
