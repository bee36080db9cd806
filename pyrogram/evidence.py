# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Evidence: a grammar of sentences of which something is known, their whole derivations or a part of them.

Evidence is a table of rows, one for each sentence that something is known of. The words of such a sentence say which
row is theirs: word x with the evidence of row r is the word x + V (r + 1) of another grammar, whose alphabet has V
words for each row, and V for sentences of which nothing is known. So evidence goes along when sentences are taken out,
put in order, repeated or batched, and neither loops nor samplers need to know of it.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pyrogram.charts.checks import broadcast_shapes, checked_words
from pyrogram.printable import plural

from .collapsed import CollapsedUpdates
from .collapsed_evidence import EvidenceUpdates
from .event_map import by_block, joined, num_events
from .grammar import Block, Grammar, Known, SentenceMultinomials, TooLong, Weights, checked_inputs, logarithms

__all__ = ["EvidenceGrammar", "Parts", "digest_of"]


@dataclass
class Parts:
    """Sentences by how much is known of them. All that does not depend on weights is made once.

    :param words: of the base grammar, shape ``(N, n)``.
    :param rows: the evidence of each, shape ``(N,)``, -1 for none.
    :param plain: the sentences of which nothing is known, shape ``(P,)``.
    :param partly: those of which a part is known.
    :param wholly: those of which the derivation is known.
    :param prepare: from words and rows to what sums over derivations are run on.
    :param derivations: the known ones, shape ``(W, L)``.
    :param events: their events, numbered through all blocks, shape ``(W, E)``, padded with -1.
    :param log_bonus: the log factor of each, shape ``(W,)``; -inf if it is no derivation of the words.
    :param counts: how often each event is in all of them, by block.
    """

    words: Tensor
    rows: Tensor
    plain: Tensor
    partly: Tensor
    wholly: Tensor
    prepare: Callable[[Tensor, Tensor], Any]
    derivations: Tensor
    events: Tensor
    log_bonus: Tensor
    counts: Weights

    @cached_property
    def plain_words(self) -> Tensor:
        """Words of sentences of which nothing is known."""
        return self.words[self.plain].contiguous()

    @cached_property
    def prepared(self) -> Any:
        """Sentences of which a part is known, as sums over derivations take them."""
        return self.prepare(self.words[self.partly].contiguous(), self.rows[self.partly])

    @cached_property
    def index(self) -> Tensor:
        """:attr:`events`, with one more than all events in the place of the padding: a weight of one."""
        return torch.where(self.events >= 0, self.events, sum(c.numel() for c in self.counts.values()))

    @cached_property
    def order(self) -> Tensor:
        """From sentences, part after part, back to the order that they come in."""
        return torch.cat([self.plain, self.partly, self.wholly]).argsort()


class EvidenceGrammar(Grammar):
    """A grammar of sentences of which something is known.

    A subclass says which kinds of evidence there are, and what they forbid.

    :param base: the grammar, which knows of no evidence.
    :param known: a tensor of the first kind, or tensors by kind.
    :param event_dims: by kind of evidence, how many dimensions of its tensor are not the batch's.
    """

    def __init__(self, base: Grammar, known: Known, event_dims: Mapping[str, int]) -> None:
        self.base = base
        found = {next(iter(event_dims)): known} if isinstance(known, Tensor) else known
        if not isinstance(found, Mapping) or not found or not all(isinstance(t, Tensor) for t in found.values()):
            raise TypeError(f"known must be a tensor, or tensors by kind ({', '.join(event_dims)}), not {known!r:.100}")
        unknown = set(found) - set(event_dims)
        if unknown:
            raise ValueError(f"known has no use for {sorted(unknown)}, only for {list(event_dims)}")
        for kind, table in found.items():
            if table.dim() < event_dims[kind]:
                raise ValueError(
                    f"known {kind} must have {plural(event_dims[kind], 'dimension')} at least, not {table.dim()}"
                )
        shapes = [t.shape[: t.dim() - event_dims[kind]] for kind, t in found.items()]
        self.batch_shape: torch.Size = broadcast_shapes(*shapes)
        """The batch of sentences that evidence is about."""
        self.tables: dict[str, Tensor] = {}
        """By kind, evidence on the R sentences of the batch, shape ``(R, ...)``."""
        for kind, table in found.items():
            shape = table.shape[table.dim() - event_dims[kind] :]
            self.tables[kind] = table.expand(*self.batch_shape, *shape).reshape(self.batch_shape.numel(), *shape)
        self._kept: tuple[Tensor, int, Parts] | None = None
        self._check_tables()

    def __repr__(self) -> str:
        return f"{self.base!r} given {', '.join(self.tables)} of {plural(self.batch_shape.numel(), 'sentence')}"

    def __getstate__(self) -> dict[str, Any]:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_digest", "_informed", "_forbidden")}
        tables = {kind: t.detach() for kind, t in self.tables.items()}
        return {**state, "tables": tables, "_kept": None}

    # ------------------------------------------------------------------ what a subclass says

    @abstractmethod
    def _check_tables(self) -> None:
        """
        :raises ValueError: if evidence is none for this grammar, whatever the words.
        """

    @property
    def num_positions(self) -> int | None:
        """How many positions the sentences have that evidence is about; None if it does not say."""
        return None

    @abstractmethod
    def _check_words(self, words: Tensor, rows: Tensor) -> None:
        """
        :param words: shape ``(*batch, n)``.
        :param rows: shape ``(*batch,)``, all of which are there.
        :raises ValueError: if the evidence is not about these words.
        """

    @abstractmethod
    def _says_all(self, words: Tensor, rows: Tensor) -> Tensor:
        """Whether the evidence of each of M sentences is a whole derivation, bool, shape ``(M,)``."""

    @abstractmethod
    def _derivations(self, words: Tensor, rows: Tensor) -> Tensor:
        """The known derivations of sentences, shape ``(M, L)``."""

    @abstractmethod
    def log_bonus(self, words: Tensor, rows: Tensor, derivations: Tensor) -> Tensor:
        """The log factors of derivations, shape ``(M,)``; -inf for what is no derivation of the words, or forbidden."""

    @abstractmethod
    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        """The events of derivations, numbered through all blocks, shape ``(M, E)``, padded with -1.

        Of what is no derivation, any.
        """

    @abstractmethod
    def _prepared(self, words: Tensor, rows: Tensor) -> Any:
        """What sums over derivations are run on: M sentences with their evidence."""

    @abstractmethod
    def _log_partition(self, log_weights: Mapping[str, Tensor], prepared: Any) -> Tensor:
        """log Z of these, shape ``(M,)``, under one grammar; differentiable."""

    def _expected_counts(self, log_weights: Mapping[str, Tensor], prepared: Any) -> tuple[Tensor, Weights]:
        """log Z of these, and their expected counts summed up, without a graph."""
        with torch.enable_grad():
            leaves = {name: w.detach().requires_grad_() for name, w in log_weights.items()}
            log_z = self._log_partition(leaves, prepared)
            total = log_z.masked_fill(log_z == -torch.inf, 0.0).sum()
            gradients = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
        return log_z.detach(), dict(zip(leaves, gradients, strict=True))

    @abstractmethod
    def _derivation(
        self, log_weights: Mapping[str, Tensor], words: Tensor, rows: Tensor, validate_args: bool | None = None
    ) -> Any:
        """p(y | x, evidence, w) for words ``(*batch, n)`` and rows ``(*batch,)``, -1 where nothing is known."""

    # ------------------------------------------------------------------ words that say whose evidence is theirs

    @property
    def blocks(self) -> Mapping[str, Block]:
        return self.base.blocks

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        return self.base.axes

    @property
    def num_words(self) -> int:
        return self.base.num_words * (self.batch_shape.numel() + 1)

    @property
    def identity(self) -> str:
        """The base grammar's, and a hash of the evidence."""
        return f"{self.base.identity} given {self._digest}"

    @cached_property
    def _digest(self) -> str:
        return digest_of(self.tables)

    @property
    def _is_learnt(self) -> bool:
        return any(table.requires_grad for table in self.tables.values())

    @cached_property
    def _informed(self) -> Tensor:
        """The row of each sentence of the batch, -1 where it says nothing, and nobody wants to know the gradient."""
        says = torch.full((self.batch_shape.numel(),), self._is_learnt)
        for table in self.tables.values():
            unknown = -1 if table.dtype == torch.long else 0
            says |= (table != unknown).flatten(1).any(-1).cpu()
        return torch.where(says, torch.arange(len(says)), -1).reshape(self.batch_shape)

    def numbered(self, words: Tensor) -> Tensor:
        """Words of the base grammar, ``(*batch, n)``, as words that say which evidence is theirs.

        :raises ValueError: if the evidence is not about these words.
        """
        words, n = words.long(), words.shape[-1]
        if self.num_positions not in (None, n):
            raise ValueError(
                f"known must be about sentences of {plural(n, 'position')}, as words are, not of {self.num_positions}"
            )
        rows = torch.arange(self.batch_shape.numel(), device=words.device).reshape(self.batch_shape)
        try:
            batch = broadcast_shapes(words.shape[:-1], rows.shape)
        except RuntimeError:
            raise ValueError(
                f"known is about sentences of batch shape {tuple(self.batch_shape)}, but words have shape "
                f"{tuple(words.shape)}; take known[i] for words[i]"
            ) from None
        self._check_words(words.expand(*batch, words.shape[-1]), rows.expand(batch))
        shift = self.base.num_words * (self._informed.to(words.device) + 1)
        return torch.where(words >= 0, words + shift[..., None], -1)

    def split(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """The words of the base grammar, and the row of evidence of each sentence, -1 for none."""
        V = self.base.num_words
        rows = torch.div(words[..., 0], V, rounding_mode="floor") - 1
        return torch.where(words >= 0, words % V, -1), rows

    def parts(self, words: Tensor) -> Parts:
        """Sentences, shape ``(N, n)``, by how much is known of them; kept, because loops come back to them."""
        version = -1 if words.is_inference() else words._version
        if self._kept is not None and self._kept[0] is words and self._kept[1] == version >= 0:
            return self._kept[2]
        own, rows = self.split(words)
        some = (rows >= 0).nonzero()[:, 0]
        all_known = self._says_all(own[some], rows[some])
        plain, partly, wholly = (rows < 0).nonzero()[:, 0], some[~all_known], some[all_known]
        derivations = self._derivations(own[wholly], rows[wholly])
        bonus = self.log_bonus(own[wholly], rows[wholly], derivations)
        events = self.events(own[wholly], derivations)
        counts = self.count(events)
        found = Parts(own, rows, plain, partly, wholly, self._prepared, derivations, events, bonus, counts)
        if not self._is_learnt:  # what hangs on a graph is good for one backward pass
            self._kept = words, version, found
        return found

    # ------------------------------------------------------------------ a grammar

    def log_partition(self, log_weights: Mapping[str, Tensor], words: Tensor) -> Tensor:
        words = checked_inputs(self, log_weights, words)
        shared = all(log_weights[name].shape == block.shape for name, block in self.blocks.items())
        if not shared:
            own, rows = self.split(words)
            log_z: Tensor = self._derivation(log_weights, own, rows, validate_args=False).log_partition
            return self._keep_nan(log_z, log_weights)
        parts = self.parts(words if words.dim() == 2 else words.reshape(-1, words.shape[-1]))
        found = []
        if len(parts.plain):
            found.append(self.base.log_partition(log_weights, parts.plain_words))
        if len(parts.partly):
            found.append(self._log_partition(log_weights, parts.prepared))
        if len(parts.wholly) or not found:
            found.append(self._log_weights_of(parts, log_weights))
        log_z = found[0] if len(found) == 1 else torch.cat(found)[parts.order]
        return self._keep_nan(log_z.reshape(words.shape[:-1]), log_weights)

    def expected_counts(self, log_weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Weights]:
        words = checked_inputs(self, log_weights, words, shared=True)
        parts = self.parts(words)
        found = []
        if len(parts.plain):
            found.append(self.base.expected_counts(log_weights, parts.plain_words))
        if len(parts.partly):
            found.append(self._expected_counts(log_weights, parts.prepared))
        if len(parts.wholly) or not found:
            with torch.no_grad():
                log_z = self._log_weights_of(parts, log_weights)
            possible = log_z > -torch.inf
            counts = parts.counts if bool(possible.all()) else self.count(parts.events[possible])
            found.append((log_z, {name: c.to(log_weights[name]) for name, c in counts.items()}))
        total = {name: sum((c[name] for _, c in found[1:]), found[0][1][name]) for name in self.blocks}
        log_z = found[0][0] if len(found) == 1 else torch.cat([z for z, _ in found])[parts.order]
        return self._keep_nan(log_z, log_weights), total

    def _log_weights_of(self, parts: Parts, log_weights: Mapping[str, Tensor]) -> Tensor:
        """Log weights of the known derivations, shape ``(W,)``; -inf, with gradient zero, where there is none."""
        flat = torch.nn.functional.pad(joined(log_weights, self.blocks), (0, 1))
        total = flat[parts.index.to(flat.device)].sum(-1) + parts.log_bonus.to(flat)
        return torch.where(total.detach() == -torch.inf, -torch.inf, total)

    def count(self, events: Tensor) -> Weights:
        """How often each event is among these, which are numbered through all blocks, in float64."""
        flat = torch.bincount(events[events >= 0], minlength=num_events(self.blocks)).double()
        return by_block(flat, self.blocks)

    def admits(self, words: Tensor) -> Tensor:
        """Whether some derivation of each sentence, whatever its weight, agrees with the evidence, bool, ``batch``."""
        ones = {name: torch.zeros(block.shape, dtype=torch.float64) for name, block in self.blocks.items()}
        return self.log_partition(ones, words.cpu()) > -torch.inf

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
    ) -> Any:
        """p(y | x, evidence, w), the derivations that agree with the evidence; log Z is the joint with it."""
        log_weights = logarithms(weights, log_weights)
        words = checked_inputs(self, log_weights, words)
        return self._derivation(log_weights, *self.split(words))

    def sentence_multinomials(self, words: Tensor) -> SentenceMultinomials:
        words = checked_words(words, self.num_words)
        own = self.base.sentence_multinomials(self.split(words)[0])
        return SentenceMultinomials(self, words, {n: (own.sentence[n], own.multinomial[n]) for n in self.blocks})

    def collapsed_updates(self, words: Tensor) -> EvidenceUpdates:
        return EvidenceUpdates(self, words)

    def partly_updates(self, words: Tensor) -> CollapsedUpdates:
        """Sweeps over sentences of which a part is known; a subclass may have faster ones.

        :param words: of this grammar, shape ``(N, n)``.
        """
        return CollapsedUpdates(self, words)

    def sample(
        self,
        weights: Mapping[str, Tensor],
        sample_shape: torch.Size,
        max_length: int,
        *,
        too_long: TooLong = "redraw",
    ) -> Tensor:
        """Draws of the base grammar, which ignore evidence."""
        return self.base.sample(weights, sample_shape, max_length, too_long=too_long)

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        return self.base.initialisers

    def initial_weights(self, words: Tensor, *method: Any, **options: Any) -> Weights:
        """The base grammar's, from the words alone."""
        return self.base.initial_weights(self.split(words)[0], *method, **options)


def digest_of(tables: Mapping[str, Tensor]) -> str:
    """SHA-256 of tensors in their order: names, shapes, types and numbers."""
    digest = hashlib.sha256()
    for name, table in tables.items():
        digest.update(f"{name}{tuple(table.shape)}{table.dtype}".encode())
        digest.update(table.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
