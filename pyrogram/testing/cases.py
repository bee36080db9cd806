# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the checks are given: a distribution or a grammar, small enough for its derivations to be listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pyrogram.grammar import Grammar, Weights

BATCHES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 1, 3))
SAMPLES: tuple[tuple[int, ...], ...] = ((), (2,), (2, 3))


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """The same random numbers every time, without touching the caller's."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def arcs_of_heads(heads: Tensor) -> Tensor:
    """Indicators (..., n+1, n+1) [head, dependent] of the arcs of trees written as heads."""
    n = heads.shape[-1]
    index = heads.long() + 1  # padding, -1, goes to a row that is cut off
    arcs = torch.nn.functional.one_hot(index, n + 2)[..., 1:].transpose(-1, -2)
    return torch.nn.functional.pad(arcs, (1, 0)).to(torch.float64)


@dataclass(frozen=True)
class DistributionCase:
    """A distribution over derivations, as a function of its log weights, at one point.

    The truth, against which the checks hold everything, is the list of all derivations with the weights of their
    events. It is the distribution's own ``enumerate_support`` and ``counts``, which are then checked only against
    ``log_prob``; better to give ``support`` and ``counts`` from elsewhere.

    :param make: from log weights, with any batch dimensions on the left, to the distribution. The tensors must be
        used as they are: dtype, graph and all.
    :param log_weights: float64, without batch, by the names that ``expected_counts()`` has; -inf is welcome.
    :param parts: from derivations to indicators, in the shape of ``marginals()``, of the parts that ``mbr`` gets
        right or wrong; None if the distribution has neither.
    :param invalid: values out of the support, by what is wrong with them.
    :param support: all derivations, shape ``(T, *event_shape)``.
    :param counts: from derivations to their events, as the distribution's ``counts``.
    :param rivals: other instances of the class, made with other options, which must not change this one.
    :param mbr_minds_wrong_parts: whether ``mbr`` weighs wrong parts against right ones, where structures differ in the
        number of their parts.
    :param read: by name, which log weights results depend on, whatever the others are; by default those of events that
        some derivation has.
    :param singles: if this is a batch of padded sentences, the same sentences one by one, without padding. Every
        tensor of a single must be the leading corner of the batch's; events are padded with -1.
    """

    make: Callable[[Mapping[str, Tensor]], Any]
    log_weights: Mapping[str, Tensor]
    parts: Callable[[Tensor], Tensor] | None = arcs_of_heads
    invalid: Mapping[str, Tensor] = field(default_factory=dict)
    support: Tensor | None = None
    counts: Callable[[Tensor], Mapping[str, Tensor]] | None = None
    rivals: Sequence[Callable[[], Any]] = ()
    mbr_minds_wrong_parts: bool = False
    read: Mapping[str, Tensor] | None = None
    singles: Sequence[DistributionCase] = ()

    def weights(self, batch: Sequence[int] = (), seed: int = 0, dtype: torch.dtype = torch.float64) -> Weights:
        """Fresh log weights with batch dimensions; with any batch or seed they differ from the case's own."""
        generator = torch.Generator().manual_seed(seed)
        spread = 0.5 if len(batch) or seed else 0.0
        out = {}
        for name, w in self.log_weights.items():
            noise = torch.randn(*batch, *w.shape, generator=generator, dtype=torch.float64)
            out[name] = (w + spread * noise).to(dtype)
        return out

    def at(self, batch: Sequence[int] = (), seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
        """The distribution at :meth:`weights`."""
        return self.make(self.weights(batch, seed, dtype))


class Enumeration:
    """Everything about one distribution without batch, derivation by derivation."""

    def __init__(self, case: DistributionCase, log_weights: Mapping[str, Tensor] | None = None):
        log_weights = case.log_weights if log_weights is None else log_weights
        distribution: Any = case.make(log_weights)
        self.values: Tensor = distribution.enumerate_support() if case.support is None else case.support
        self.counts = dict((case.counts or distribution.counts)(self.values))
        terms = [weighted_sum(self.counts[name], w, w.dim()) for name, w in log_weights.items()]
        self.scores = torch.stack(terms).sum(0)
        self.log_partition = self.scores.logsumexp(0)
        self.log_probs = self.scores - self.log_partition
        self.probs = self.log_probs.exp()

    def expectation(self, of: Tensor) -> Tensor:
        """The mean of values, one per derivation in the first dimension."""
        mean: Tensor = torch.tensordot(self.probs, of.to(self.probs.dtype), 1)
        return mean

    def entropy(self) -> Tensor:
        return -weighted_sum(self.probs, self.log_probs, 1)


def weighted_sum(counts: Tensor, values: Tensor, event_dim: int) -> Tensor:
    """Sum of counts times values over the last dimensions, in which nothing times -inf is nothing."""
    total: Tensor = torch.where(counts == 0, torch.zeros_like(counts), counts * values).flatten(-event_dim).sum(-1)
    return total


@dataclass(frozen=True)
class GrammarCase:
    """A grammar and sentences short enough for their derivations to be listed.

    :param grammar: the grammar, of a small alphabet.
    :param words: sentences, shape ``(N, n)``, padded with -1, of different lengths, one of them of one word, if the
        grammar generates one. Under positive weights all must have derivations.
    :param parts: see :class:`DistributionCase`; for the derivations.
    :param initialisers: pairs of a name and options for ``initial_weights``, besides "uniform" and "random".
    :param longest: the sampler is compared with the probabilities of all sentences of up to so many words.
    :param sharpness: a power of the random weights. They are near uniform by default, which few draws tell from weights
        in another place; with 4, say, directions that are exchanged show.
    """

    grammar: Grammar
    words: Tensor
    parts: Callable[[Tensor], Tensor] | None = arcs_of_heads
    initialisers: Sequence[tuple[str, Mapping[str, Any]]] = ()
    longest: int = 3
    sharpness: float = 1.0

    def weights(self, batch: Sequence[int] = (), seed: int = 0) -> Weights:
        """Random normalised weights, none of them zero, float64."""
        generator = torch.Generator().manual_seed(seed)
        return {
            name: block.normalize(
                (0.2 + torch.rand(*batch, *block.shape, generator=generator, dtype=torch.float64)) ** self.sharpness
            )
            for name, block in self.grammar.blocks.items()
        }

    def sentences(self) -> Iterator[Tensor]:
        """The sentences one by one, without padding."""
        for row in self.words:
            yield row[row >= 0]

    def derivations(self) -> dict[str, DistributionCase]:
        """The grammar's derivations of each sentence, and of all as a padded batch, to be checked themselves."""
        log_weights = {name: w.log() for name, w in self.weights().items()}

        def case(words: Tensor, singles: Sequence[DistributionCase] = ()) -> DistributionCase:
            def make(tables: Mapping[str, Tensor]) -> Any:
                return self.grammar.derivation(None, words, log_weights=tables)

            # Of a grammar, which any sentence may have: events that are in none of these are read.
            read = {name: torch.ones_like(w, dtype=torch.bool) for name, w in log_weights.items()}
            return DistributionCase(make, log_weights, self.parts, read=read, singles=singles)

        singles = {str(words.tolist()): case(words) for words in self.sentences()}
        return {**singles, "padded": case(self.words, tuple(singles.values()))}
