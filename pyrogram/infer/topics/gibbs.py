# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Gibbs sampling of syntactic topics: the latent states of all words of a treebank, given its trees."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral

import torch
from torch import Tensor
from typing_extensions import Self, Unpack

from pyrogram.infer.running.run import Resumable, RunOptions, with_history
from pyrogram.infer.running.state import copied, flatten
from pyrogram.infer.samplers.chain import generator_of, same_tensors
from pyrogram.printable import plural
from pyrogram.restaurants.checks import as_tensor
from pyrogram.topics import gibbs as topic_gibbs
from pyrogram.topics.tokens import check_states, count, tokens

from .predictive import SyntacticTopics

_LEAST, _MOST = 1e-12, 1e12  # of Dirichlet parameters: sweeps multiply them with one another in single precision


@dataclass(frozen=True)
class TopicState:
    """States of all words, and what is optimised.

    :param states: int32, shape (T,); none before the first sweep.
    :param base: α m, float64, shape (K,).
    :param b: β / V, float64, shape ().
    :param generator: the state of the chain's.
    """

    states: Tensor
    base: Tensor
    b: Tensor
    generator: Tensor


class TopicGibbs(Resumable):
    """A chain over the states of all words, P(s | w, t, α m, β), with θ and φ integrated out: exact Gibbs sampling.

    The model is Wallach, Sutton and McCallum (2008), Eq. 12-14, :mod:`pyrogram.models.syntactic_topics`::

        sampler = TopicGibbs(num_states=150, num_words=len(lexicon), seed=0)
        sampler.run(words, heads, num_steps=1000)
        topics = sampler.topics()            # top_words, parse, ...

    Between sweeps, α m and β are set to (nearly) maximise the probability of the present states and words, which is the
    paper's "optimized together" (of α m); this is empirical Bayes by stochastic EM, not sampling. With
    ``optimize_every=0`` both stay, and the chain leaves P(s | w, t) invariant. A chain on EWT's 200,000 words with 150
    states makes about 25 sweeps a second.

    :param num_states: K.
    :param num_words: V; ROOT is a head of its own.
    :param concentration: α m at first: one number for every state, or a tensor of shape ``(K,)``.
    :param word_concentration: β / V at first, of every word. Greater than what is optimal, it works like a high
        temperature: chains then reach states that are more probable, by thousands of nats on real corpora.
    :param optimize_every: sweeps from one optimisation to the next; 0: never.
    :param optimize_after: sweeps before the first, in which states settle.
    :param learn_beta: whether β is optimised, too.
    :param seed: of the chain; by default from torch's global generator.
    """

    def __init__(
        self,
        num_states: int,
        num_words: int,
        *,
        concentration: float | Tensor = 0.1,
        word_concentration: float = 0.1,
        optimize_every: int = 10,
        optimize_after: int = 20,
        learn_beta: bool = True,
        seed: int | None = None,
    ):
        super().__init__()  # the history is of log P(s, w | t) before each sweep
        counts = {"num_states": num_states, "num_words": num_words}
        counts |= {"optimize_every": optimize_every, "optimize_after": optimize_after}
        for name, number in counts.items():
            if not isinstance(number, Integral) or isinstance(number, bool):
                raise TypeError(f"{name} must be an integer, not {number!r}")
        base = as_tensor("concentration", concentration, torch.float64)
        b = as_tensor("word_concentration", word_concentration, torch.float64)
        if num_states < 1 or num_words < 1 or optimize_every < 0 or optimize_after < 0:
            raise ValueError(
                f"need num_states >= 1, num_words >= 1, optimize_every >= 0 and optimize_after >= 0, not {num_states}, "
                f"{num_words}, {optimize_every}, {optimize_after}"
            )
        if base.shape not in ((), (num_states,)) or not bool(((base >= _LEAST) & (base <= _MOST)).all()):
            raise ValueError(
                f"concentration must be from {_LEAST:g} to {_MOST:g}, one number or {num_states}, not {concentration}"
            )
        if b.numel() != 1 or not _LEAST <= float(b) <= _MOST:
            raise ValueError(
                f"word_concentration must be from {_LEAST:g} to {_MOST:g}, one number, not {word_concentration}"
            )
        self.num_states, self.num_words = num_states, num_words
        self.optimize_every, self.optimize_after, self.learn_beta = optimize_every, optimize_after, learn_beta
        base, generator = base.expand(num_states).clone(), generator_of(seed)
        self._begun = base.tolist(), float(b)
        self._state = TopicState(_none(), base, torch.tensor(float(b), dtype=torch.float64), generator.get_state())
        self._corpus: tuple[Tensor, Tensor] | None = None
        self._parents, self._words = _none(), _none()
        # Counts of a state: memory in which sweeps work, which is of no state while they do.
        self._counted: tuple[Tensor, tuple[Tensor, Tensor]] | None = None

    # ------------------------------------------------------------------ public

    def step(self, words: Tensor, heads: Tensor) -> float:
        """One sweep over all words; see :meth:`run`. Returns the log joint before it, in nats."""
        self._read(words, heads)
        return self._advance()

    def run(
        self,
        words: Tensor,
        heads: Tensor,
        *,
        num_steps: int = 1000,
        **options: Unpack[RunOptions],
    ) -> Self:
        """Sweep over all words again and again.

        :param words: ids, shape ``(N, n)``, padded with -1.
        :param heads: as in CoNLL, 0 for ROOT; trees may have crossing arcs.
        :param num_steps: sweeps of this run; those of the checkpoint that it resumes count.
        :param options: as in every run, see :meth:`.Resumable._run`; ``checkpoint_every`` is 100 by default.
        """
        self._read(words, heads)
        options.setdefault("checkpoint_every", 100)
        return self._run(num_steps, **options)

    @property
    def concentration(self) -> Tensor:
        """α m, float64, shape ``(K,)``: the sum is α."""
        return self._state.base.clone()

    @property
    def word_concentration(self) -> float:
        """β / V."""
        return float(self._state.b)

    def log_joint(self) -> float:
        """log P(s, w | t, α m, β) of the present states, in nats."""
        self._need_states()
        return self._log_joint(self._state)

    def _log_joint(self, state: TopicState) -> float:
        by_parent, by_word = self._counts(state.states)
        b, V = float(state.b), self.num_words
        base = self._padded(state.base)
        total = topic_gibbs.rising(by_parent.numpy(), base.numpy())
        total += topic_gibbs.rising(by_word.numpy(), torch.full_like(base, b).numpy())
        for sizes, mass in ((by_parent.sum(1), float(base.sum())), (by_word.sum(0), V * b)):
            total -= float(
                (torch.lgamma(sizes.double() + mass) - torch.lgamma(torch.tensor(mass, dtype=torch.float64))).sum()
            )
        return float(total)

    def states(self) -> Tensor:
        """The present states, shape ``(N, n)``, padded with -1."""
        self._need_states()
        assert self._corpus is not None
        words = self._corpus[0]
        states = torch.full_like(words, -1)
        states[words >= 0] = self._state.states.to(states.dtype)
        return states

    def set_states(self, words: Tensor, heads: Tensor, states: Tensor) -> None:
        """Begin at given states, shape ``(N, n)``, padded with -1."""
        self._read(words, heads)
        check_states(words, states, self.num_states)
        self._state = replace(self._state, states=states[words >= 0].int())

    def topics(self) -> SyntacticTopics:
        """What the present states say about new sentences."""
        self._need_states()
        return self._topics(self._state)

    def _topics(self, state: TopicState) -> SyntacticTopics:
        by_parent, by_word = (c[:, : self.num_states].clone() for c in self._counts(state.states))
        return SyntacticTopics(by_parent, by_word, state.base.clone(), float(state.b))

    def state_dict(self) -> dict[str, Tensor]:
        """All that is needed to go on, as plain tensors."""
        return with_history(copied(flatten(self._state)), history=self.history)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of another chain with as many states over the same sentences.

        :raises ValueError: if it is not the state of such a chain.
        """
        names = {"states", "base", "b", "generator", "history"}
        tensors = set(state) == names and all(isinstance(x, Tensor) for x in state.values())
        if not tensors or state["base"].shape != (self.num_states,):
            raise ValueError(f"this is not the state of {type(self).__name__} with {plural(self.num_states, 'state')}")
        _check_state(state, self.num_states)
        if self._corpus is not None and len(state["states"]) not in (0, len(self._words)):
            raise ValueError(
                f"this is the state of a chain over {plural(len(state['states']), 'word')}, not {len(self._words)}"
            )
        copies = copied(state)
        b, generator = copies["b"].double().reshape(()), copies["generator"].cpu()
        self._state = TopicState(copies["states"].int(), copies["base"].double(), b, generator)
        self.history = copies["history"].tolist()

    # ------------------------------------------------------------------ inside

    def _read(self, words: Tensor, heads: Tensor) -> None:
        """Take over sentences; other ones than before end the chain."""
        before = self._corpus
        if before is not None and same_tensors(before, (words, heads)):
            return
        parents, children = tokens(words, heads, self.num_words)
        if before is None and len(self._state.states) not in (0, len(children)):
            raise ValueError(
                f"the state is that of a chain over {plural(len(self._state.states), 'word')}, not {len(children)}"
            )
        same = torch.equal(parents, self._parents) and torch.equal(children, self._words)
        if before is not None and not same:
            self._state, self.history = replace(self._state, states=_none()), []
        # Copies: the user's own may be changed in place.
        self._corpus, self._parents, self._words = (words.clone(), heads.clone()), parents, children

    def _counts(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Counts of states by parent, (V + 1, K), and by word, (V, K), K padded for compiled code."""
        if self._counted is None or self._counted[0] is not states:
            columns = topic_gibbs.padded(self.num_states)
            counts = count(self._parents, self._words, states, self.num_words, columns)
            self._counted = states, counts
        return self._counted[1]

    def _padded(self, base: Tensor) -> Tensor:
        return torch.nn.functional.pad(base, (0, topic_gibbs.padded(self.num_states) - self.num_states))

    def _swept(self, state: TopicState, generator: torch.Generator) -> TopicState:
        """A sweep over all words; at first, each state is drawn given those before it."""
        if len(state.states):
            states, (by_parent, by_word) = state.states.clone(), self._counts(state.states)
        else:
            states, columns = torch.full_like(self._words, -1), topic_gibbs.padded(self.num_states)
            shapes = (self.num_words + 1, columns), (self.num_words, columns)
            by_parent, by_word = (torch.zeros(shape, dtype=torch.int32) for shape in shapes)
        self._counted = None  # an interrupted sweep leaves counts of nothing
        uniforms = torch.rand(len(states), generator=generator, dtype=torch.float64)
        changed = topic_gibbs.sweep(
            self._parents.numpy(),
            self._words.numpy(),
            states.numpy(),
            uniforms.numpy(),
            by_parent.numpy(),
            by_word.numpy(),
            by_word.sum(0).numpy(),
            self._padded(state.base).float().numpy(),
            float(state.b),
        )
        if changed < 0:
            raise ArithmeticError(
                f"no state of a word has a positive probability with concentrations from {float(state.base.min()):g} "
                f"to {float(state.base.max()):g} and word_concentration {float(state.b):g}; start from others"
            )
        self._counted = states, (by_parent, by_word)
        return replace(state, states=states, generator=generator.get_state())

    def _advance(self) -> float:
        old, generator = self._state, torch.Generator().set_state(self._state.generator)
        if not len(old.states):
            old = self._swept(old, generator)
        before = self._log_joint(old)
        new, number = self._swept(old, generator), len(self.history) + 1
        if self.optimize_every and number > self.optimize_after and number % self.optimize_every == 0:
            better = self._topics(new).optimised(learn_beta=self.learn_beta)
            new = replace(new, base=better.base, b=torch.tensor(better.b, dtype=torch.float64))
        self._state = new
        self.history.append(before)
        return before

    def _need_states(self) -> None:
        if not len(self._state.states) or self._corpus is None:
            raise RuntimeError(f"{type(self).__name__} has no states yet; call step or run first")

    def _fingerprint(self) -> str:
        """A hash of the sentences, and of what the chain depends on."""
        key = self.num_states, self.num_words, self.optimize_every, self.optimize_after, self.learn_beta, self._begun
        digest = hashlib.sha256(f"{type(self).__name__}{key}".encode())
        for part in (self._parents, self._words):
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()


def _none() -> Tensor:
    return torch.empty(0, dtype=torch.int32)


def _check_state(state: Mapping[str, Tensor], num_states: int) -> None:
    """
    :raises ValueError: for numbers that compiled code would follow out of its tables, or never come back from.
    """
    states, base, b = state["states"], state["base"], state["b"]
    fits = states.dim() == 1 and not states.is_floating_point() and not states.is_complex()
    if not fits or bool(((states < 0) | (states >= num_states)).any()):
        raise ValueError(
            f"'states' must be integers from 0 to {num_states - 1} in shape (T,), not others ({states.dtype}) in shape "
            f"{tuple(states.shape)}"
        )
    if b.numel() != 1 or not all(bool(((x > 0) & (x < torch.inf)).all()) for x in (base, b)):
        raise ValueError(f"'base' and 'b' must be finite and greater than 0, not {base.tolist()[:10]} and {b.tolist()}")
