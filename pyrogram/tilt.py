# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tilts: a grammar whose derivations are weighed by exp φ, the exponential of a bias, as well.

A derivation y of a sentence x has the weight p(x, y | w) exp φ(x, y), φ the sum of the nats of its events and of its
parts, see :class:`.Bias`. The nats of an event are added to its log weight before the grammar fills its chart, and
those of parts are evidence. So all is exact, and the gradient of log Z with respect to the log weights is still the
expected count of every event, now under q(y) ∝ p(x, y | w) exp φ(x, y). Posterior regularisation (Ganchev et al. 2010,
section 2) is the search for such a φ.

**References:**

[1] Ganchev, K., Graça, J., Gillenwater, J. and Taskar, B. (2010). Posterior regularization for structured latent
variable models. JMLR 11. https://jmlr.org/papers/v11/ganchev10a.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pyrogram.charts.checks import checked_words

from .bias import Bias
from .collapsed import CollapsedUpdates
from .evidence import EvidenceGrammar, digest_of
from .grammar import Block, Grammar, Known, SentenceMultinomials, TooLong, Weights, checked_inputs, logarithms

__all__ = ["TiltedEvidence", "TiltedGrammar"]


class TiltedGrammar(Grammar):
    """A grammar whose derivations are weighed by exp φ, too: q(y | x) ∝ p(x, y | w) exp φ(x, y).

    The nats that a bias has for parts of derivations are about sentences, as evidence is. ``Sentence`` lets them go
    along with these; of words that are given to methods here, they are about the same batch.

    :param base: the grammar, which knows of no tilt.
    :param bias: a bias φ; nats of events by block, and of parts by kind; or the nats of the events of the only block.
    :raises TypeError: if it is none of these.
    :raises ValueError: if there is no such block, if shapes do not fit, or for nats that are NaN or inf.
    """

    def __init__(self, base: Grammar, bias: Bias | Mapping[str, Tensor] | Tensor) -> None:
        self.base = base
        self.bias = _bias(base, bias)
        """The bias."""
        self.nats: Weights = {}
        """By block that the bias is about, the nats of every event, shape ``block.shape``."""
        for name, table in self.bias.events.items():
            self.nats[name] = _checked(name, table, base.blocks)

    def __repr__(self) -> str:
        return f"{self.base!r} tilted by {', '.join([*self.bias.events, *self.bias.parts]) or 'nothing'}"

    def __getstate__(self) -> dict[str, Any]:
        state = {name: x for name, x in self.__dict__.items() if name not in ("_evidence", "_digest")}
        events, parts = ({n: t.detach() for n, t in given.items()} for given in (self.bias.events, self.bias.parts))
        return {
            **state,
            "bias": Bias(events, parts, self.bias.told),
            "nats": {n: t.detach() for n, t in self.nats.items()},
        }

    # ------------------------------------------------------------------ weights and words of the base

    def tilt(self, log_weights: Mapping[str, Tensor]) -> Weights:
        """Log weights with the nats of their events added, shape ``(*batch, *block.shape)`` by block."""
        return {
            n: log_weights[n] + self.nats[n].to(log_weights[n]) if n in self.nats else log_weights[n]
            for n in self.blocks
        }

    @cached_property
    def _evidence(self) -> EvidenceGrammar | None:
        return _with_factors(self.base, {}, self.bias.parts) if self.bias.parts else None

    def _on(self, words: Tensor) -> tuple[Grammar, Tensor]:
        """The grammar that knows the log factors of parts, and its words."""
        if self._evidence is None:
            return self.base, words
        return self._evidence, self._evidence.numbered(checked_words(words, self.num_words))

    @property
    def log_factors(self) -> Mapping[str, Tensor]:
        return self.bias.parts

    @property
    def is_learnt(self) -> bool:
        """Whether the bias has a gradient."""
        return any(t.requires_grad for t in (*self.bias.events.values(), *self.bias.parts.values()))

    # ------------------------------------------------------------------ a grammar

    @property
    def blocks(self) -> Mapping[str, Block]:
        return self.base.blocks

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        return self.base.axes

    @property
    def num_words(self) -> int:
        return self.base.num_words

    @property
    def identity(self) -> str:
        """The base grammar's, and a hash of the bias."""
        return f"{self.base.identity} tilted {self._digest}"

    @cached_property
    def _digest(self) -> str:
        return digest_of(dict(sorted({**self.nats, **self.bias.parts}.items())))

    def log_partition(self, log_weights: Mapping[str, Tensor], words: Tensor) -> Tensor:
        """log Z = log sum over derivations y of p(x, y | w) exp φ(x, y), in nats; see :meth:`.Grammar.log_partition`.

        No probability: it may exceed 0.
        """
        checked_inputs(self, log_weights, words)
        grammar, words = self._on(words)
        return grammar.log_partition(self.tilt(log_weights), words)

    def expected_counts(self, log_weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Weights]:
        """log Z of each sentence, and the expected counts under q, summed; see :meth:`.Grammar.expected_counts`."""
        checked_inputs(self, log_weights, words, shared=True)
        grammar, words = self._on(words)
        return grammar.expected_counts(self.tilt(log_weights), words)

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
    ) -> Any:
        """q(y | x, w), the distribution over derivations under the tilt; its log Z is :meth:`log_partition`."""
        log_weights = logarithms(weights, log_weights)
        checked_inputs(self, log_weights, words)
        grammar, words = self._on(words)
        return grammar.derivation(None, words, log_weights=self.tilt(log_weights))

    def sentence_multinomials(self, words: Tensor) -> SentenceMultinomials:
        grammar, words = self._on(words)
        return _TiltedMultinomials(self, grammar.sentence_multinomials(words))

    def collapsed_updates(self, words: Tensor) -> CollapsedUpdates:
        if self._evidence is not None:
            given = self.given({})
            return given.collapsed_updates(given.numbered(checked_words(words, self.num_words)))
        return self.base.collapsed_updates(checked_words(words, self.num_words)).tilted(self, self.nats)

    def evidence_dims(self, known: Known) -> Mapping[str, int]:
        return self.base.evidence_dims(known)

    def given(self, known: Known) -> TiltedEvidence:
        """The tilted grammar of sentences of which something is known."""
        return TiltedEvidence(
            _with_factors(self.base, known, self.bias.parts), Bias(self.bias.events, told=self.bias.told)
        )

    def tilted(self, bias: Bias | Mapping[str, Tensor] | Tensor) -> TiltedGrammar:
        """The base grammar, tilted by the sum of both biases."""
        return TiltedGrammar(self.base, self.bias + _bias(self.base, bias))

    def at_temperature(self, temperature: float) -> TiltedGrammar:
        return self if temperature == 1 else type(self)(self.base, self.bias * (1 / temperature))

    def sample(
        self,
        weights: Mapping[str, Tensor],
        sample_shape: torch.Size,
        max_length: int,
        *,
        too_long: TooLong = "redraw",
    ) -> Tensor:
        """Draws of the base grammar, without the tilt."""
        return self.base.sample(weights, sample_shape, max_length, too_long=too_long)

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        return self.base.initialisers

    def initial_weights(self, words: Tensor, *method: Any, **options: Any) -> Weights:
        """The base grammar's."""
        return self.base.initial_weights(words, *method, **options)


class TiltedEvidence(TiltedGrammar):
    """A tilted grammar of sentences of which something is known; words say whose evidence is theirs.

    :param base: the grammar with evidence.
    :param bias: nats of events alone.
    """

    base: EvidenceGrammar

    @property
    def batch_shape(self) -> torch.Size:
        """The batch of sentences that evidence is about."""
        return self.base.batch_shape

    def numbered(self, words: Tensor) -> Tensor:
        """Words that say which evidence is theirs, see :meth:`.EvidenceGrammar.numbered`."""
        return self.base.numbered(words)


class _TiltedMultinomials(SentenceMultinomials):
    """The rows of the base grammar, whose log weights have the nats of their events added.

    :param own: of the same words, as the base grammar has them.
    """

    def __init__(self, grammar: TiltedGrammar, own: SentenceMultinomials) -> None:
        self.grammar, self.words, self.sentence, self.multinomial = grammar, own.words, own.sentence, own.multinomial
        self._own = own

    def expected_counts(
        self, log_weights: Mapping[str, Tensor], sentences: Tensor | None = None, out: Weights | None = None
    ) -> tuple[Tensor, Weights]:
        assert isinstance(self.grammar, TiltedGrammar)
        self._check(log_weights, sentences, out)
        tilted = dict(log_weights)
        for name, nats in self.grammar.nats.items():
            tilted[name] = (
                tilted[name] + nats.detach().to(tilted[name]).reshape(-1, nats.shape[-1])[self.multinomial[name]]
            )
        return self._own.expected_counts(tilted, sentences, out)


def _bias(grammar: Grammar, bias: Bias | Mapping[str, Tensor] | Tensor) -> Bias:
    """A bias, from what users give.

    :raises TypeError: if it is no bias.
    """
    if isinstance(bias, Tensor):
        if len(grammar.blocks) > 1:
            raise TypeError(f"a bias of {list(grammar.blocks)} must be tensors by block, not one tensor")
        bias = {next(iter(grammar.blocks)): bias}
    if isinstance(bias, Mapping):
        events = {name: table for name, table in bias.items() if name in grammar.blocks}
        bias = Bias(events, {name: table for name, table in bias.items() if name not in events})
    if not isinstance(bias, Bias):
        raise TypeError(f"bias must be a Bias, or tensors by block or kind of part, not {bias!r:.100}")
    for name, table in (*bias.events.items(), *bias.parts.items()):
        if not isinstance(table, Tensor) or not table.is_floating_point():
            kind = table.dtype if isinstance(table, Tensor) else type(table).__name__
            raise TypeError(f"the nats of {name!r} must be a tensor of real numbers, not {kind}")
    return bias


def _checked(name: str, nats: Tensor, blocks: Mapping[str, Block]) -> Tensor:
    """The nats of all events of a block, in its shape.

    :raises ValueError: if they do not fit, or are NaN or inf.
    """
    if name not in blocks:
        raise ValueError(f"a bias of events is about blocks, which are {list(blocks)}, but {name!r} is none")
    shape = blocks[name].shape
    try:
        table = nats.expand(shape)
    except RuntimeError:
        raise ValueError(
            f"the nats of block {name!r} must broadcast against {tuple(shape)}, but have shape {tuple(nats.shape)}"
        ) from None
    if not bool((nats.detach() < torch.inf).all()):
        raise ValueError(f"the nats of block {name!r} must be real numbers or -inf, which forbids, but some are not")
    return table


def _with_factors(base: Grammar, known: Known, factors: Mapping[str, Tensor]) -> EvidenceGrammar:
    """The base grammar with evidence, and with log factors, which are evidence, too; of one kind, they are added."""
    if isinstance(known, Mapping) and not known:
        found = base.given(factors)
    else:
        found = base.given(known)
        assert isinstance(found, EvidenceGrammar)
        if factors:
            tables = {kind: t.reshape(*found.batch_shape, *t.shape[1:]) for kind, t in found.tables.items()}
            added = {kind: t + tables[kind] if kind in tables else t for kind, t in factors.items()}
            found = base.given({**tables, **added})
    assert isinstance(found, EvidenceGrammar)
    return found


Grammar.tilted_kind = TiltedGrammar
