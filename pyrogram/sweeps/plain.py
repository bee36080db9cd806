# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps over a corpus in collapsed space: every sentence in turn, given the events of all others.

Integrating the weights out of a grammar with Dirichlet priors leaves the joint of sentences and derivations (Wang and
Blunsom 2013, Eq. 4), which depends on nothing but the counts f of events:

    P(x, t | α) = prod over multinomials A of B(f_A(t) + α_A) / B(α_A)

Given those of all other sentences, written f^-i, the derivations of sentence i are approximately those of a grammar
with weights (f^-i + α) / sum (f^-i + α). Collapsed variational Bayes iterates this with expected counts (Figure 3 of
the paper); the Hastings sampler of Johnson et al. (2007) proposes from it and accepts by the exact ratio.

:class:`CollapsedUpdates` does it for any grammar through ``derivation``; a grammar that knows better overrides
:meth:`.Grammar.collapsed_updates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as _field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pyrogram.blocks import Block
from pyrogram.checks import check_size, checked_words
from pyrogram.event_map import by_block, joined, num_events
from pyrogram.printable import plural
from pyrogram.random_state import seeded
from pyrogram.sentences import Sentences, Structure

__all__ = ["CollapsedUpdates", "CorpusCounts", "SentenceCounts", "Weights"]

Weights = dict[str, Tensor]
SentenceCounts = dict[str, Tensor]

#: From a grammar, words ``(B, n)`` and log weights by block to a distribution over the derivations of the words.
Proposal = Callable[[Any, Tensor, Weights], Any]


@dataclass
class CorpusCounts:
    """What all sentences share. A block has either a concentration (its weights are integrated out) or weights.

    :param counts: f by block, shape ``block.shape``, summed over all sentences; changed in place.
    :param concentration: Dirichlet concentrations by block, shape ``block.shape``.
    :param weights: the weights of the other blocks, which stay as they are.
    """

    counts: Weights
    concentration: Weights
    weights: Weights = _field(default_factory=dict)


class CollapsedUpdates:
    """Sweeps over sentences for any grammar, a few sentences at a time, in plain torch.

    *Sentence counts* are the expected counts of every sentence by itself, sparse: a mapping of tensors that a sweep
    takes and returns and whose memory is proportional to the counts that are not zero. Here they are the ``events``
    of all sentences, one after the other, numbered through all blocks, their ``values``, and the place where each
    sentence ``starts``. Derivations are in the representation of the grammar's ``derivation``, shape ``(N, L)``.

    :param grammar: a :class:`.Grammar`, whose module imports this one.
    :param words: shape ``(N, n)``, padded with -1, or sentences of which something is known.
    """

    #: Sentences whose weights of all events are held at a time, in numbers.
    CHUNK = 2**22

    #: How many ``values`` sentence counts have, of subclasses whose sentence counts are that one tensor.
    num_values: int | None = None

    def __init__(self, grammar: Any, words: Tensor | Sentences) -> None:
        self.sentences: Sentences = grammar.sentences(words)
        self.words = words = checked_words(self.sentences.words, grammar.num_words)
        if words.dim() != 2:
            raise ValueError(f"words must have shape (N, n), one row for each sentence, not {tuple(words.shape)}")
        self.grammar = grammar
        self._structure: Structure | None = grammar.structure or self.sentences.structure
        self.blocks: Mapping[str, Block] = grammar.blocks
        self._size = num_events(self.blocks)

    def tied(self, grammar: Any, entries: Mapping[str, Tensor]) -> CollapsedUpdates | None:
        """The same sweeps, but of a grammar over the sources of this one's weights.

        :param grammar: its blocks are the sources.
        :param entries: by block of this grammar, the entry of each event, see :func:`.sums_of_entries`.
        :returns: None, if the sweeps of this grammar cannot count entries. Those in plain torch do without.
        """
        return None

    # ------------------------------------------------------------------ expected counts

    def expected_counts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, SentenceCounts]:
        """Derivations under given weights: log Z and entropy of each sentence, shape ``(N,)``, and sentence counts.

        Under a tilt the expected nats of a sentence are added to its entropy, here and in :meth:`collapsed_vb`.
        """
        check_weights(weights, self.blocks)
        log_weights = {n: weights[n].log() for n in self.blocks}
        batches, log_zs, entropies = [], [], []
        for i in self._chunks(torch.arange(len(self.words)), max(1, self.CHUNK // self._size)):
            log_z, counts = self._posterior({n: w.expand(len(i), *w.shape) for n, w in log_weights.items()}, i)
            log_zs.append(log_z)
            entropies.append(log_z - self._scores(counts, log_weights))
            batches.append((i, self._flat(counts)))
        nothing = torch.zeros(0, dtype=torch.float64, device=self.words.device)
        return torch.cat([nothing, *log_zs]), torch.cat([nothing, *entropies]), self._sparse(batches)

    def total(self, sentence_counts: SentenceCounts) -> Weights:
        """Sentence counts summed over all sentences, by block."""
        flat = (
            sentence_counts["values"]
            .new_zeros(self._size)
            .index_add_(0, sentence_counts["events"].long(), sentence_counts["values"])
        )
        return self._by_block(flat)

    def dense_counts(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Weights:
        """Sentence counts of some sentences, dense: shape ``(len(sentences), *block.shape)`` by block."""
        return self._by_block(self._dense(sentence_counts, sentences))

    def fits(self, sentence_counts: SentenceCounts) -> bool:
        """Whether a mapping of tensors can be sentence counts of these sentences, as far as its shapes say."""
        if self.num_values is not None:
            return set(sentence_counts) == {"values"} and sentence_counts["values"].shape == (self.num_values,)
        if set(sentence_counts) != {"starts", "events", "values"} or any(
            t.dim() != 1 for t in sentence_counts.values()
        ):
            return False
        starts, events = sentence_counts["starts"], sentence_counts["events"]
        if len(starts) != len(self.words) + 1 or bool((starts.diff() < 0).any()) or int(starts[0]) != 0:
            return False
        inside = bool(((events >= 0) & (events < self._size)).all())
        return inside and int(starts[-1]) == len(events) == len(sentence_counts["values"])

    def collapsed_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
    ) -> tuple[Tensor, SentenceCounts]:
        """Figure 3 for every sentence: Q(t_i) from the counts of all others, whose expected counts then replace i's.

        The sentences of a batch see each other as they were before it. So a fixed point of a sweep is one whatever
        the batches are, and with ``batch_size=1`` a sweep is the paper's.

        :param corpus: its counts are changed.
        :param sentence_counts: of the last sweep, or of :meth:`expected_counts`; not changed.
        :param order: a permutation of the sentences.
        :returns: the entropies of all Q(t_i), shape ``(N,)``, -inf if i has no derivation; and the new sentence counts.
        :raises ValueError: if an argument does not fit the grammar or the sentences.
        """
        check_corpus_counts(corpus, self.blocks)
        check_batches(order, batch_size, len(self.words))
        self._check_sentence_counts(sentence_counts)
        return self._collapsed_vb(corpus, sentence_counts, order, batch_size)

    def recycle(self, sentence_counts: SentenceCounts) -> None:
        """Take the memory of sentence counts that nobody will look at again for those of a later sweep.

        Memory that is freed and taken anew comes from the system page by page, which may cost a third of a sweep.

        :raises ValueError: for sentence counts of other sentences.
        """

    def _check_sentence_counts(self, sentence_counts: SentenceCounts) -> None:
        """
        :raises ValueError: for sentence counts of other sentences, where code would follow them out of its tables.
        """

    def _collapsed_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
    ) -> tuple[Tensor, SentenceCounts]:
        """:meth:`collapsed_vb` of arguments that fit."""
        entropies = corpus.counts[next(iter(self.blocks))].new_zeros(len(self.words))
        batches = []
        for i in self._chunks(order, batch_size):
            old = self.dense_counts(sentence_counts, i)
            log_weights = self._others(corpus, old)
            log_z, new = self._posterior(log_weights, i)
            entropies[i] = torch.where(log_z > -torch.inf, log_z - self._scores(new, log_weights), -torch.inf)
            self._replace(corpus, old, new)
            batches.append((i, self._flat(new)))
        return entropies, self._sparse(batches)

    def _others(self, corpus: CorpusCounts, old: Weights) -> Weights:
        """Log weights (B, *shape) of every sentence of a batch, from the counts without its own."""
        rest = {n: corpus.counts[n] - old[n] for n in corpus.concentration}
        logs = self._predictive_logs(corpus, rest)
        return {n: w.expand(len(old[n]), *self.blocks[n].shape) for n, w in logs.items()}

    def _predictive_logs(self, corpus: CorpusCounts, counts: Weights) -> Weights:
        """Log weights by block: (f + α) / sum (f + α), or those that are given."""
        logs = {n: w.log() for n, w in corpus.weights.items()}
        for n, alpha in corpus.concentration.items():
            pseudo = counts[n].clamp_min(0) + alpha
            logs[n] = (pseudo / self.blocks[n].totals(pseudo)).log()
        return logs

    def _replace(self, corpus: CorpusCounts, old: Weights, new: Weights) -> None:
        for name in self.blocks:
            corpus.counts[name] += (new[name] - old[name]).sum(0)
            corpus.counts[name].clamp_min_(0)  # what rounding leaves of nothing may be below it

    def _posterior(self, log_weights: Mapping[str, Tensor], sentences: Tensor) -> tuple[Tensor, Weights]:
        """log Z and expected counts (B, *shape) of sentences that have log weights (B, *shape) of their own."""
        posterior = self.grammar.derivation(None, self.sentences[sentences], log_weights=log_weights)
        with torch.no_grad():
            counts = posterior.expected_counts()
            return posterior.log_partition.to(torch.float64), {n: counts[n] for n in self.blocks}

    # ------------------------------------------------------------------ derivations

    def draw(self, log_weights: Mapping[str, Tensor], generator: torch.Generator | None = None) -> Tensor:
        """Independent derivations of all sentences under given log weights, shape ``(N, L)``."""
        return self._drawn(self.sentences, log_weights, generator)

    def _drawn(
        self, sentences: Sentences, log_weights: Mapping[str, Tensor], generator: torch.Generator | None
    ) -> Tensor:
        """:meth:`draw` for some sentences."""
        with seeded(generator):
            drawn: Tensor = self.grammar.derivation(None, sentences, log_weights=log_weights).sample()
            return drawn

    def counts(self, trees: Tensor) -> Weights:
        """f by block, summed over the given derivations of all sentences, in float64."""
        total = {n: torch.zeros(b.shape, dtype=torch.float64, device=trees.device) for n, b in self.blocks.items()}
        for i in self._chunks(torch.arange(len(self.words)), max(1, self.CHUNK // self._size)):
            for name, c in self._counts(trees[i], i).items():
                total[name] += c.sum(0)
        return total

    def log_tilt(self, trees: Tensor) -> Tensor:
        """The sum of the logs of all factors of given derivations of all sentences that are no weights, shape ().

        Of events, the nats of a tilt; of parts, those of evidence. 0 if there is neither.
        """
        total = self._log_factors(trees)
        if not self.grammar.nats:
            return total
        for i in self._chunks(torch.arange(len(self.words)), max(1, self.CHUNK // self._size)):
            counts = self._counts(trees[i], i)
            nats = {n: t.detach().to(counts[n]) for n, t in self.grammar.nats.items()}
            total += self._scores({n: counts[n] for n in nats}, nats).sum()
        return total

    def _log_factors(self, trees: Tensor) -> Tensor:
        """Of parts of derivations, the sum of the logs of the factors that evidence has."""
        zero = torch.zeros((), dtype=torch.float64, device=self.words.device)
        if self._structure is None:
            return zero
        constant = self._structure.log_constants(self.words, trees)
        total = zero if constant is None else constant.sum().double()
        if self.sentences.has_scores:
            informed = self.sentences.is_informed
            total = total + self._structure.log_factors(self._informed, trees[informed]).sum().double()
            total = total if constant is None else total - constant[informed].sum().double()
        return total

    @cached_property
    def _informed(self) -> Sentences:
        """The sentences of which something is known."""
        return self.sentences[self.sentences.is_informed]

    def hastings(
        self,
        corpus: CorpusCounts,
        trees: Tensor,
        order: Tensor,
        batch_size: int,
        *,
        generator: torch.Generator | None = None,
        temperature: float = 1.0,
        proposal: Proposal | None = None,
    ) -> Tensor:
        """Propose new derivations for all sentences and accept them with Hastings' ratio for Eq. 4.

        Proposals for a batch come from weights without *any* derivation of the batch. Then they are accepted or not
        one after the other, the ratio of Eq. 4 counting the others of the batch as they are by then. A step changes
        t_i alone, and its proposal depends neither on t_i nor on what the steps before it in this batch changed: it
        is an independence sampler for P(t_i | t^-i), which it leaves invariant. So batches are exact.

        :param corpus: its counts, those of ``trees``, are changed.
        :param trees: shape ``(N, L)``, changed in place.
        :param order: a permutation of the sentences.
        :param temperature: T of the target P(t | x, α)^(1/T); the proposals' weights are raised to 1/T as well.
        :param proposal: another distribution to propose from, see :meth:`.TreeHastings.proposal`; its sweeps are in
            plain torch.
        :returns: which sentences' proposals were accepted, bool, shape ``(N,)``.
        :raises ValueError: if an argument does not fit the grammar or the sentences.
        """
        check_corpus_counts(corpus, self.blocks)
        check_batches(order, batch_size, len(self.words))
        check_temperature(temperature)
        return self._hastings(corpus, trees, order, batch_size, generator, temperature, proposal)

    def _hastings(
        self,
        corpus: CorpusCounts,
        trees: Tensor,
        order: Tensor,
        batch_size: int,
        generator: torch.Generator | None,
        temperature: float,
        proposal: Proposal | None,
    ) -> Tensor:
        """:meth:`hastings` of arguments that fit."""
        accepted = torch.zeros(len(self.words), dtype=torch.bool, device=self.words.device)
        grammar = self.grammar.at_temperature(temperature)  # its tilt is in proposals as in the target: it cancels
        for i in self._chunks(order, batch_size):
            old = self._counts(trees[i], i)
            without = {n: corpus.counts[n] - old[n].sum(0) for n in corpus.concentration}
            log_weights = {n: w / temperature for n, w in self._predictive_logs(corpus, without).items()}
            posterior = grammar.derivation(None, self.sentences[i], log_weights=log_weights)
            sentences: Any = self.sentences[i] if self.sentences.known else self.words[i]
            q = posterior if proposal is None else proposal(grammar, sentences, log_weights)
            with seeded(generator):
                proposed = q.sample()
            new = self._counts(proposed, i)
            difference = self._scores(old, log_weights) - self._scores(new, log_weights)
            if proposal is not None:  # its probabilities take the place of the posterior's, in which tilts cancel
                difference = difference + posterior.log_prob(proposed) - posterior.log_prob(trees[i])
                difference = difference + q.log_prob(trees[i]) - q.log_prob(proposed)
            log_q = difference.tolist()
            log_u = torch.rand(len(i), generator=generator, dtype=torch.float64).log().tolist()
            for k, sentence in enumerate(i.tolist()):
                was, now = ({n: c[n][k] for n in corpus.counts} for c in (old, new))
                self._add(corpus, was, -1)
                ratio = (self._log_predictive(corpus, now) - self._log_predictive(corpus, was)) / temperature
                accepted[sentence] = log_u[k] < ratio + log_q[k]
                self._add(corpus, now if accepted[sentence] else was, 1)
                if accepted[sentence]:
                    trees[sentence] = proposed[k]
        return accepted

    def parts(self, trees: Tensor) -> Tensor:
        """What derivations are made of, as zeros and ones in the shape of ``marginals()``, to be averaged.

        Here it is what the distribution over derivations calls ``parts``, and if it has no such method, the value at
        every position: the state of every word of an HMM.
        """
        return parts_of(self.grammar, self.words, trees)

    def add_parts(self, total: Tensor | None, trees: Tensor) -> Tensor:
        """Add the :meth:`parts` of derivations to a total, in place; None is a total of nothing."""
        counts = self.parts(trees)
        return counts.to(torch.float32) if total is None else total.add_(counts)

    def _counts(self, trees: Tensor, sentences: Tensor) -> Weights:
        """f by block of each of some derivations, shape (B, *shape), in float64."""
        zeros = {n: torch.zeros(b.shape, dtype=torch.float64, device=trees.device) for n, b in self.blocks.items()}
        derivation = self.grammar.derivation(None, self.sentences[sentences], log_weights=zeros)
        return {n: c.to(torch.float64) for n, c in derivation.counts(trees).items()}

    def _log_predictive(self, corpus: CorpusCounts, tree: Weights) -> float:
        """log of B(f + f(t) + α) / B(f + α) for all multinomials, and of fixed weights: p(t | all that f counts)."""
        total = 0.0
        for n, alpha in corpus.concentration.items():
            block, events, pseudo = self.blocks[n], tree[n], corpus.counts[n] + alpha
            total += _log_rising(pseudo, events) - _log_rising(block.sums(pseudo), block.sums(events))
        for n, w in corpus.weights.items():
            occurs = tree[n] > 0
            total += float((tree[n][occurs] * w[occurs].log()).sum())
        return total

    def _add(self, corpus: CorpusCounts, tree: Weights, sign: int) -> None:
        for n, c in tree.items():
            corpus.counts[n] += sign * c

    # ------------------------------------------------------------------ one vector for all blocks

    def _scores(self, counts: Mapping[str, Tensor], log_weights: Mapping[str, Tensor]) -> Tensor:
        """sum over all events of counts times log weights, (B,); an event that does not occur counts nothing."""
        total = torch.zeros((), dtype=torch.float64, device=self.words.device)
        for n, c in counts.items():
            terms = torch.where(c > 0, c * log_weights[n], 0.0)
            total = total + terms.flatten(1).sum(1, dtype=torch.float64)
        return total

    def _flat(self, counts: Mapping[str, Tensor]) -> Tensor:
        return joined(counts, self.blocks)

    def _by_block(self, flat: Tensor) -> Weights:
        return by_block(flat, self.blocks)

    def _dense(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Tensor:
        flat = sentence_counts["values"].new_zeros(len(sentences), self._size)
        for k, i in enumerate(sentences.tolist()):
            span = slice(int(sentence_counts["starts"][i]), int(sentence_counts["starts"][i + 1]))
            flat[k, sentence_counts["events"][span].long()] = sentence_counts["values"][span]
        return flat

    def _sparse(self, batches: list[tuple[Tensor, Tensor]]) -> SentenceCounts:
        """From the dense counts of batches of sentences, in any order, to those of all."""
        of, events, values = [self.words.new_zeros(0)], [self.words.new_zeros(0)], list[Tensor]()
        for sentences, flat in batches:
            row, event = flat.nonzero(as_tuple=True)
            of.append(sentences.to(row.device)[row])
            events.append(event)
            values.append(flat[row, event])
        sentence = torch.cat(of)
        order = sentence.argsort(stable=True)
        starts = torch.bincount(sentence + 1, minlength=len(self.words) + 1).cumsum(0)
        listed = torch.cat(values) if values else self.words.new_zeros(0, dtype=torch.float64)
        return {"starts": starts, "events": torch.cat(events)[order].int(), "values": listed[order]}

    @staticmethod
    def _chunks(order: Tensor, size: int) -> Iterator[Tensor]:
        for start in range(0, len(order), size):
            yield order[start : start + size]


def _log_rising(start: Tensor, steps: Tensor) -> float:
    """log of prod Γ(start + steps) / Γ(start), where there are steps."""
    rising = steps > 0
    return float((torch.lgamma(start[rising] + steps[rising]) - torch.lgamma(start[rising])).sum())


def parts_of(grammar: Any, words: Tensor, trees: Tensor) -> Tensor:
    """See :meth:`CollapsedUpdates.parts`.

    :param words: shape ``(N, n)``.
    """
    like = next(iter(grammar.blocks.values())).uniform(torch.ones(()))
    weights = {n: torch.zeros(b.shape, dtype=like.dtype, device=trees.device) for n, b in grammar.blocks.items()}
    law = grammar.derivation(None, words, log_weights=weights)
    if hasattr(law, "parts"):
        indicators: Tensor = law.parts(trees)
        return indicators
    size = law.marginals().shape[-1]
    return torch.nn.functional.one_hot(trees.clamp_min(0), size) * (trees >= 0)[..., None]


# ---------------------------------------------------------------------- arguments, which compiled code reads


def check_weights(weights: Mapping[str, Tensor], blocks: Mapping[str, Block]) -> None:
    """
    :raises ValueError: if a weight is negative, NaN or infinite, or missing, or too few.
    """
    for name, block in blocks.items():
        _check_table("weights", weights, name, block)
        if not bool(((weights[name] >= 0) & (weights[name] < torch.inf)).all()):
            raise ValueError(f"weights must be non-negative and finite, but some of block {name!r} are not")


def check_corpus_counts(corpus: CorpusCounts, blocks: Mapping[str, Block]) -> None:
    """
    :raises ValueError: if a block has no counts of its own, or not one of a concentration and weights, or tables of
        another shape.
    """
    for name, block in blocks.items():
        _check_table("corpus.counts", corpus.counts, name, block)
        if (name in corpus.concentration) == (name in corpus.weights):
            raise ValueError(
                f"block {name!r} must have a concentration in corpus.concentration or else weights in corpus.weights"
            )
        kind = "concentration" if name in corpus.concentration else "weights"
        _check_table(f"corpus.{kind}", getattr(corpus, kind), name, block)
    if len({corpus.counts[name].data_ptr() for name in blocks}) < len(blocks):
        raise ValueError(
            "each block must have counts of its own in corpus.counts; tie the weights of blocks that share"
        )


def check_batches(order: Tensor, batch_size: int, num_sentences: int) -> None:
    """
    :raises TypeError: if ``batch_size`` is no integer.
    :raises ValueError: if ``order`` is no permutation of the sentences, or ``batch_size`` is below 1.
    """
    if type(batch_size) is not int or batch_size < 1:  # mostly it is one
        check_size("batch_size", batch_size)
    check_sentences("order", order, num_sentences)
    if len(order) != num_sentences or bool((torch.bincount(order, minlength=num_sentences) != 1).any()):
        raise ValueError(
            f"order must have each of the {plural(num_sentences, 'sentence')} once, but has {len(order)} numbers"
        )


def check_sentences(name: str, sentences: Tensor, num_sentences: int) -> None:
    """
    :raises ValueError: if they are no numbers of sentences, int64, shape ``(B,)``.
    """
    if sentences.dtype != torch.int64 or sentences.dim() != 1:
        raise ValueError(f"{name} must be int64 of shape (B,), not {sentences.dtype} of shape {tuple(sentences.shape)}")
    if bool(((sentences < 0) | (sentences >= num_sentences)).any()):
        raise ValueError(f"{name} must be numbers of sentences, 0 to {num_sentences - 1}, but some are not")


def check_sentence_counts(sentence_counts: Mapping[str, Tensor], size: int, dtype: torch.dtype = torch.float64) -> None:
    """
    :raises ValueError: if sentence counts are those of other sentences, or none.
    """
    values = sentence_counts.get("values")
    if values is None or values.shape != (size,) or values.dtype != dtype or not values.is_contiguous():
        actual = "nothing" if values is None else f"{values.dtype} of shape {tuple(values.shape)}"
        raise ValueError(
            f"sentence counts of these sentences have values of {dtype} in shape ({size},), contiguous, not {actual}; "
            "take them from expect or collapsed_vb of the same sentences"
        )


def check_trees(trees: Tensor, shape: tuple[int, ...]) -> None:
    """
    :raises ValueError: if derivations are not int64, of this shape.
    """
    if trees.dtype != torch.int64 or trees.shape != shape:
        raise ValueError(f"trees must be int64 of shape {shape}, not {trees.dtype} of shape {tuple(trees.shape)}")


def check_temperature(temperature: float) -> None:
    """
    :raises ValueError: if it is not positive and finite.
    """
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be positive and finite, not {temperature}")


def _check_table(of: str, tables: Mapping[str, Tensor], name: str, block: Block) -> None:
    if name not in tables or tables[name].shape != block.shape:
        actual = f"{tuple(tables[name].shape)}" if name in tables else "nothing"
        raise ValueError(f"{of}[{name!r}] must have shape {tuple(block.shape)}, not {actual}")
