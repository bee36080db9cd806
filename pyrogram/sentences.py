# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences of which something is known: words, and with them what is known of their derivations.

Evidence is a tensor for each *kind*, whose batch is that of the sentences: heads, of which some are -1; logs of factors
of arcs. What is taken out of :class:`Sentences`, put in order or repeated, has its evidence with it, as integers where
it is integers. A :class:`Structure` says which kinds a grammar takes, and turns them into *factors*: dense tables of
nats by part of a derivation, -inf for what is forbidden. A derivation that is known as a whole has events that are
counted, and needs no chart.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from pyrogram.bias import Bias
from pyrogram.blocks import Block
from pyrogram.checks import broadcast_shapes
from pyrogram.event_map import by_block, joined, num_events
from pyrogram.printable import plural

__all__ = ["Evidence", "Factors", "Known", "Parts", "Sentences", "Structure", "digest_of", "words_of"]

Known = Tensor | Mapping[str, Tensor]
Result = TypeVar("Result")


class Factors(dict[str, Tensor]):
    """Logs of factors of parts of derivations, dense, by name; and what is computed from them once for many calls."""

    def kept(self, key: Any, compute: Callable[[], Result]) -> Result:
        """What is computed at the first call with a key."""
        cache: dict[Any, Any] = self.__dict__
        if key not in cache:
            cache[key] = compute()
        result: Result = cache[key]
        return result


class Structure(ABC):
    """What derivations of a grammar are to its users, such as heads or states, and what can be known of them.

    Derivations are rows of integers, shape ``(N, L)``, padded with -1.
    """

    #: The kind of evidence that is a derivation.
    derivation: str
    #: Whether factors of parts cannot say that a derivation is the known one.
    is_by_row = False

    # ------------------------------------------------------------------ evidence

    @abstractmethod
    def kinds(self, known: Known) -> Mapping[str, int]:
        """By kind of evidence, how many dimensions of its tensor are not the batch's; first that of a plain tensor."""

    @abstractmethod
    def checked(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Evidence by kind, integers as int64.

        :raises ValueError: if it is none, whatever the words.
        """

    @abstractmethod
    def check_words(self, words: Tensor, tables: Mapping[str, Tensor]) -> None:
        """
        :param words: shape ``(*batch, n)``, of the batch of the tables.
        :raises ValueError: if the evidence is not about these words.
        """

    def num_positions(self, tables: Mapping[str, Tensor]) -> int | None:
        """How many positions the sentences have that evidence is about; None if it does not say."""
        return None

    @abstractmethod
    def factors(self, sentences: Sentences) -> dict[str, Tensor]:
        """Logs of factors of parts, shape ``(*batch, ...)`` by name, as log Z of the grammar takes them."""

    def law(self, derivation: Any, sentences: Sentences) -> Any:
        """The law of derivations under all that is known, of that under its factors."""
        return derivation

    def known_derivations(self, sentences: Sentences) -> Tensor:
        """Known derivations, or what is known of them, shape ``(*batch, L)``, -1 where unknown."""
        words, known = sentences.words, sentences.known.get(self.derivation)
        L = self.length(words.shape[-1])
        if known is None:
            return torch.full((*words.shape[:-1], L), -1, device=words.device)
        return torch.nn.functional.pad(known, (0, L - known.shape[-1]), value=-1)

    def is_whole(self, sentences: Sentences) -> Tensor:
        """Whether the evidence of each sentence is a whole derivation, bool, shape ``batch``."""
        return (self.known_derivations(sentences) >= 0).any(-1)

    @abstractmethod
    def log_factors(self, sentences: Sentences, derivations: Tensor) -> Tensor:
        """The logs of the factors of derivations, shape ``(N,)``; -inf for what is none of the words, or forbidden."""

    def log_constants(self, words: Tensor, derivations: Tensor) -> Tensor | None:
        """The logs of the factors that derivations have whatever is known, shape ``(N,)``; None: they have none."""
        return None

    # ------------------------------------------------------------------ derivations as rows of events

    def length(self, n: int) -> int:
        """The width L of derivations of at most n words."""
        return n

    @abstractmethod
    def num_events(self, n: int) -> int:
        """The greatest number of events of a derivation of n words, those of weight one among them."""

    @abstractmethod
    def check_derivations(self, words: Tensor, derivations: Tensor) -> None:
        """
        :raises ValueError: if these are no derivations of the words.
        """

    @abstractmethod
    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        """The events of derivations, numbered through all blocks, shape ``(N, E)``; -1 where there is none.

        Of what is no derivation, any.
        """

    def positions(self, n: int) -> dict[str, tuple[int, ...]]:
        """How draws write the positions of weights for :meth:`replace`, see :mod:`~pyrogram.recursion.emit.traces`."""
        return {}

    @abstractmethod
    def replace(self, derivations: Tensor, events: Any, positions: Any, accepted: Any) -> None:
        """Replace derivations, in place.

        :param events: of all derivations, as they were drawn, an array of shape ``(N, E)``, -1 for what is no event.
        :param positions: as :meth:`positions` has them, an array.
        :param accepted: which ones, an array of shape ``(N,)``, bool.
        """

    @abstractmethod
    def add_parts(self, total: Tensor | None, words: Tensor, derivations: Tensor) -> Tensor:
        """A total, to which what derivations are made of is added in place, in the shape of ``marginals()``.

        :param total: None: of nothing.
        """


class Evidence:
    """What is known of the derivations of a batch of sentences.

    :param structure: of the grammar's derivations.
    :param known: a tensor of the first kind, or tensors by kind.
    :param bias: whose nats of parts are among what is known.
    """

    def __init__(self, structure: Structure, known: Known, bias: Bias | None = None) -> None:
        self.structure, self.bias = structure, bias
        dims = structure.kinds(known)
        tables = {next(iter(dims)): known} if isinstance(known, Tensor) else known
        if not isinstance(tables, Mapping) or not tables or not all(isinstance(t, Tensor) for t in tables.values()):
            raise TypeError(f"known must be a tensor, or tensors by kind ({', '.join(dims)}), not {known!r:.100}")
        if unknown := set(tables) - set(dims):
            raise ValueError(f"known has no use for {sorted(unknown)}, only for {list(dims)}")
        for kind, table in tables.items():
            if table.dim() < dims[kind]:
                raise ValueError(
                    f"known {kind} must have {plural(dims[kind], 'dimension')} at least, not {table.dim()}"
                )
        batches = {kind: t.shape[: t.dim() - dims[kind]] for kind, t in tables.items()}
        self.batch_shape: torch.Size = broadcast_shapes(*batches.values())
        """The batch of sentences that evidence is about."""
        wide = {k: t.expand(*self.batch_shape, *t.shape[len(batches[k]) :]) for k, t in tables.items()}
        self.tables = structure.checked(wide)
        """Evidence by kind, shape ``(*batch_shape, ...)``."""

    def __getstate__(self) -> dict[str, Any]:
        bias = None if self.bias is None else self.bias.detached
        return {**self.__dict__, "tables": {kind: t.detach() for kind, t in self.tables.items()}, "bias": bias}

    def on(self, words: Tensor) -> Sentences:
        """Sentences with this evidence.

        :param words: shape ``(*batch, n)``.
        :raises ValueError: if the evidence is not about these words.
        """
        words, n = words.long(), words.shape[-1]
        positions = self.structure.num_positions(self.tables)
        if positions not in (None, n):
            raise ValueError(
                f"known must be about sentences of {plural(n, 'position')}, as words are, not of {positions}"
            )
        try:
            batch = broadcast_shapes(words.shape[:-1], self.batch_shape)
        except RuntimeError:
            raise ValueError(
                f"known is about sentences of batch shape {tuple(self.batch_shape)}, but words have shape "
                f"{tuple(words.shape)}; take known[i] for words[i]"
            ) from None
        dims = len(self.batch_shape)
        known = {k: t.to(words.device).expand(*batch, *t.shape[dims:]) for k, t in self.tables.items()}
        words = words.expand(*batch, n)
        self.structure.check_words(words, known)
        return Sentences(words, known, self.structure, self.bias)


@dataclass(frozen=True, eq=False)
class Sentences:
    """Words and what is known of their derivations; what is made of both is kept.

    :param words: shape ``(*batch, n)``, int64, padded with -1.
    :param known: evidence by kind, shape ``(*batch, ...)``; without any, nothing is known.
    :param structure: of the derivations; None if nothing is known.
    :param bias: whose nats of parts are among what is known.
    """

    words: Tensor
    known: Mapping[str, Tensor]
    structure: Structure | None = None
    bias: Bias | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made again, and without a graph."""
        known, bias = {kind: t.detach() for kind, t in self.known.items()}, self.bias
        return {
            "words": self.words,
            "known": known,
            "structure": self.structure,
            "bias": None if bias is None else bias.detached,
        }

    @property
    def again(self) -> Sentences:
        """The same; where what is known is learnt, without what was made of it: a graph is good for one pass."""
        return replace(self) if self.is_learnt else self

    @staticmethod
    def of(words: Tensor | Sentences) -> Sentences:
        """Words alone as sentences of which nothing is known."""
        return words if isinstance(words, Sentences) else Sentences(words, {})

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, sentences: Any) -> Sentences:
        """Some of these sentences, by an index into their batch."""
        return self._of({kind: table[sentences] for kind, table in self.known.items()}, self.words[sentences])

    def flat(self, batch: torch.Size | None = None) -> Sentences:
        """All sentences one after the other, shape ``(N, n)``, expanded to a batch first."""
        shape = self.words.shape[:-1] if batch is None else batch
        if self.words.dim() == 2 and shape == self.words.shape[:-1]:
            return self
        dims = self.words.dim() - 1

        def flatten(table: Tensor) -> Tensor:
            return table.expand(*shape, *table.shape[dims:]).reshape(shape.numel(), *table.shape[dims:])

        return self._of({kind: flatten(table) for kind, table in self.known.items()}, flatten(self.words))

    def _of(self, known: Mapping[str, Tensor], words: Tensor) -> Sentences:
        return Sentences(words.contiguous(), known, self.structure, self.bias)

    @property
    def digest(self) -> str:
        """A hash of what is known; empty if nothing is."""
        return digest_of(self.known) if self.known else ""

    @property
    def is_learnt(self) -> bool:
        """Whether what is known has a gradient."""
        return any(table.requires_grad for table in self.known.values())

    @property
    def has_scores(self) -> bool:
        """Whether there are logs of factors, which are added up."""
        return any(table.is_floating_point() for table in self.known.values())

    @cached_property
    def is_informed(self) -> Tensor:
        """Of which sentences something is known, bool, shape ``batch``; whose gradient is wanted, of all."""
        says = self.words.new_full(self.words.shape[:-1], self.is_learnt, dtype=torch.bool)
        for table in self.known.values():
            unknown = -1 if table.dtype == torch.long else 0
            says |= (table != unknown).flatten(says.dim()).any(-1)
        return says

    @cached_property
    def is_whole(self) -> Tensor:
        """Of which sentences the whole derivation is known, bool, shape ``batch``."""
        if self.structure is None:
            return torch.zeros(self.words.shape[:-1], dtype=torch.bool, device=self.words.device)
        return self.is_informed & self.structure.is_whole(self)

    @cached_property
    def factors(self) -> Factors:
        """Logs of factors of parts, shape ``(*batch, ...)`` by name."""
        return Factors() if self.structure is None else Factors(self.structure.factors(self))

    @cached_property
    def parts(self) -> Parts:
        """The N sentences, words of shape ``(N, n)``, by how much is known of them."""
        plain, whole = ~self.is_informed, self.is_whole
        a, b, c = (mask.nonzero()[:, 0] for mask in (plain, ~plain & ~whole, whole))
        return Parts(a, b, c, self[a], self[b], self[c])

    @cached_property
    def derivations(self) -> Tensor:
        """Known derivations, or what is known of them, shape ``(*batch, L)``, -1 where unknown."""
        assert self.structure is not None
        return self.structure.known_derivations(self)

    @cached_property
    def log_factors(self) -> Tensor:
        """Logs of the factors of the known derivations, shape ``batch``; -inf for what is none, or forbidden."""
        assert self.structure is not None
        flat = self.flat()
        logs = self.structure.log_factors(flat, flat.derivations)
        return logs.reshape(self.words.shape[:-1])

    @cached_property
    def events(self) -> Tensor:
        """Events of the known derivations, numbered through all blocks, shape ``(*batch, E)``; -1 is none."""
        assert self.structure is not None
        flat = self.flat()
        events = self.structure.events(flat.words, flat.derivations)
        return events.reshape(*self.words.shape[:-1], events.shape[-1])

    # ------------------------------------------------------------------ sums over known derivations

    def log_weights(self, log_weights: Mapping[str, Tensor], blocks: Mapping[str, Block]) -> Tensor:
        """Log weights of the known derivations with their factors, shape ``batch``; -inf, of gradient 0, for none.

        :param log_weights: by block, shape ``(*batch, *block.shape)``.
        """
        flat = torch.nn.functional.pad(joined(log_weights, blocks), (0, 1))  # the last one is the padding's
        events = self.events.to(flat.device)
        index = torch.where(events >= 0, events, flat.shape[-1] - 1)
        if flat.dim() == 1:
            logs = flat[index]
        else:
            batch = broadcast_shapes(flat.shape[:-1], index.shape[:-1])
            logs = flat.expand(*batch, flat.shape[-1]).gather(-1, index.expand(*batch, index.shape[-1]))
        total = logs.sum(-1) + self.log_factors.to(flat)
        return torch.where(total.detach() == -torch.inf, -torch.inf, total)

    def counts(self, blocks: Mapping[str, Block], possible: Tensor) -> dict[str, Tensor]:
        """How often each event is in the known derivations of those sentences that are possible, by block, float64."""

        def total(events: Tensor) -> Tensor:
            return torch.bincount(events[events >= 0], minlength=num_events(blocks)).double()

        complete = bool(possible.all())
        return by_block(
            self.factors.kept("total", lambda: total(self.events)) if complete else total(self.events[possible]), blocks
        )


@dataclass(frozen=True)
class Parts:
    """Sentences by how much is known of them: their numbers, shapes ``(P,)``, ``(Q,)``, ``(W,)``, and themselves.

    :param plain: of which nothing is known.
    :param partly: of which a part of the derivation is known.
    :param whole: of which the derivation is known.
    """

    plain: Tensor
    partly: Tensor
    whole: Tensor
    plain_sentences: Sentences
    partly_sentences: Sentences
    whole_sentences: Sentences

    @cached_property
    def order(self) -> Tensor:
        """From sentences, part after part, back to the order that they come in."""
        return torch.cat([self.plain, self.partly, self.whole]).argsort()


def words_of(sentences: Tensor | Sentences) -> Tensor:
    """The words, whether something is known of them or not."""
    return sentences.words if isinstance(sentences, Sentences) else sentences


def digest_of(tables: Mapping[str, Tensor]) -> str:
    """SHA-256 of tensors in their order: names, shapes, types and numbers."""
    digest = hashlib.sha256()
    for name, table in tables.items():
        digest.update(f"{name}{tuple(table.shape)}{table.dtype}".encode())
        digest.update(table.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def factors_of(scores: Tensor, dtype: torch.dtype = torch.float64) -> Any:
    """The factors that scores are the logarithms of; None if some are too great or too small for a number.

    None also on another device: kernels take logarithms.

    :param scores: shape ``(B, *axes)``; those of -inf are 0.
    """
    if scores.device.type != "cpu":
        return None
    scores = scores.detach().to(dtype)
    factors, limits = scores.exp(), torch.finfo(dtype)
    fits = (factors >= limits.tiny) & (factors <= limits.max) | (scores == -torch.inf)
    return factors.numpy() if bool(fits.all()) else None
