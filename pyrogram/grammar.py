# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The interface between grammars, distributions and inference.

A probabilistic grammar (Cohen, Gimpel and Smith 2008, Eq. 1) gives a derivation y of a sentence x the weight
``prod_k prod_i w[k, i] ** f[k, i](x, y)``: K multinomials, the k-th with its own events, and f counting them.
Multinomials of one kind (all stop decisions, say) form a *block*, one tensor of weights.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor
from typing_extensions import Self

from pyrogram.bias import Bias
from pyrogram.blocks import Block, PackedBlock
from pyrogram.checks import broadcast_shapes, check_shape, check_size, checked_words, fits_compiled, keep_nan
from pyrogram.draws import Draws
from pyrogram.operators import (
    LogSum,
    captured,
    constant,
    handle_of,
    log_sum,
    log_sum_and_gradient,
    number_of,
    object_of,
)
from pyrogram.sentences import Evidence, Known, Sentences, Structure, digest_of, words_of
from pyrogram.sweeps.plain import CollapsedUpdates

if TYPE_CHECKING:
    from pyro.distributions import TorchDistribution

__all__ = [
    "Block",
    "Grammar",
    "Known",
    "PackedBlock",
    "SentenceMultinomials",
    "Weights",
    "check_normalized",
    "random_weights",
    "safe_log",
    "uniform_weights",
]

Weights = dict[str, Tensor]
TooLong = Literal["redraw", "truncate", "raise"]
_TOO_LONG = get_args(TooLong)


class Grammar(ABC):
    """Blocks of multinomials and a chart. Subclass it, and every prior and every inference serves you.

    A subclass must say its ``blocks``, ``num_words``, ``log_partition`` and ``derivation``; ``sample``, if sentences
    can be drawn. The rest follows, but may be done faster or better. Check it by :mod:`pyrogram.testing`.

    Words are integers, shape ``(*batch, n)``, padded with -1 on the right; floats with integral values will do, as Pyro
    makes them of values, and masks will not. Weights are one tensor per block,
    shape ``(*batch, *block.shape)``, non-negative, normalised or not.
    """

    #: What weighs derivations besides the weights, see :meth:`tilted`.
    bias: Bias = Bias()
    #: The nats of the bias that are about events, by block, shape ``block.shape``.
    nats: Mapping[str, Tensor] = MappingProxyType({})
    #: Whether this is the copy of a grammar that :meth:`tilted` made.
    is_tilted = False
    #: Of a tilted grammar, the one without its bias.
    base: Grammar

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, entry in _ENTRIES.items():
            if name in cls.__dict__:
                setattr(cls, name, entry(cls.__dict__[name]))

    @property
    @abstractmethod
    def blocks(self) -> Mapping[str, Block]:
        """Name to block, in the order in which events are generated."""

    @property
    @abstractmethod
    def num_words(self) -> int:
        """Size of the alphabet: words are 0 .. num_words - 1."""

    @property
    def identity(self) -> str:
        """What tells this grammar from others with blocks of the same shapes; a checkpoint of theirs is not resumed."""
        return self._identity_of_tilt if self.is_tilted else ""

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """Names of the dimensions of each block's weights, in their order, and of what lies along each.

        By block and by dimension; blocks whose dimensions have no names are left out.
        """
        return {}

    @abstractmethod
    def log_partition(self, log_weights: Mapping[str, Tensor], words: Any) -> Tensor:
        """log Z = log sum over derivations of the weight, in nats, shape ``batch``; differentiable.

        It must be NaN where a log weight that the sentence can meet is NaN, and may then be for all of the grammar.
        A subclass that has a :attr:`structure` also takes ``evidence=``, logs of factors of parts by name.

        :param words: shape ``(*batch, n)``; or :meth:`sentences` of which something is known. What a subclass defines
            is called with words alone.
        """

    def expected_counts(self, log_weights: Mapping[str, Tensor], words: Any) -> tuple[Tensor, Weights]:
        """log Z per sentence, shape ``(N,)``, and the expected counts *summed over all sentences*.

        :param log_weights: one tensor of shape ``block.shape`` per block (one grammar for all sentences).
        :param words: shape ``(N, n)``, or sentences of which something is known.
        """
        if captured():
            return _traced_counts(self, log_weights, words_of(words))
        checked_inputs(self, log_weights, words_of(words), shared=True)
        return counts_by_gradient(self.log_partition, log_weights, words)

    def _keep_nan(self, log_z: Tensor, log_weights: Mapping[str, Tensor]) -> Tensor:
        return keep_nan(log_z, *((log_weights[name], len(block.shape)) for name, block in self.blocks.items()))

    def sentence_multinomials(self, words: Any) -> SentenceMultinomials:
        """The multinomials of each sentence, for weights that differ from sentence to sentence.

        :param words: shape ``(N, n)``, or sentences of which something is known.
        """
        return SentenceMultinomials(self, words)

    def collapsed_updates(self, words: Any) -> CollapsedUpdates:
        """Sweeps over sentences in collapsed space: collapsed variational Bayes and Hastings' sampler.

        :param words: shape ``(N, n)``, or sentences of which something is known.
        """
        return CollapsedUpdates(self, words)

    @abstractmethod
    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Any,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
    ) -> TorchDistribution:
        """p(y | x, w), the distribution over the derivations of ``words``.

        Of sentences of which something is known, p(y | x, known, w): the derivations that agree with the evidence.
        """

    @constant
    def handle(self) -> int:
        """The number of this grammar in what is traced, see :mod:`pyrogram.operators`."""
        return handle_of(self)

    # ------------------------------------------------------------------ what is known, and what is preferred

    @property
    def structure(self) -> Structure | None:
        """What derivations are, and which evidence the grammar takes; None if it takes none."""
        return None

    def evidence(self, known: Known | None) -> Evidence | None:
        """What is known of a batch of sentences, the nats that the :attr:`bias` has for their parts added.

        :param known: a tensor of the first kind of evidence, or tensors by kind, see :class:`.Sentence`; None: nothing.
        :returns: None if nothing is known.
        :raises NotImplementedError: if this grammar takes no evidence.
        """
        nats = self.bias.parts
        if known is None and not nats:
            return None
        if self.structure is None:
            raise NotImplementedError(
                f"{type(self).__name__} takes no evidence; leave out known=, or use a DMV, an HMM, a CFG or a grammar "
                "of your own, a RecursiveGrammar"
            )
        evidence = Evidence(self.structure, nats if known is None else known, self.bias)
        if known is None or not nats:
            return evidence
        tables = evidence.tables
        both = {kind: t + tables[kind] if kind in tables else t for kind, t in nats.items()}
        return Evidence(self.structure, {**tables, **both}, self.bias)

    def sentences(self, words: Tensor | Sentences, known: Known | None = None) -> Sentences:
        """Words with what is known of their derivations, which methods take in the place of words.

        :param words: shape ``(*batch, n)``; sentences of this grammar stay as they are.
        :param known: see :class:`.Sentence`.
        :raises ValueError: if the evidence does not fit the words.
        :raises NotImplementedError: if this grammar takes no evidence.
        """
        if isinstance(words, Sentences) and words.known:
            if self.bias.parts and not self.bias.has_same_parts(words.bias):
                raise ValueError(
                    "these sentences were made by another grammar and lack the nats of parts of this one's bias; make "
                    "them by its own sentences(words, known)"
                )
            return words
        evidence, words = self.evidence(known), checked_words(words_of(words), self.num_words)
        return Sentences.of(words) if evidence is None else evidence.on(words)

    def tilted(self, bias: Bias | Mapping[str, Tensor] | Tensor) -> Self:
        """The grammar that weighs each derivation y of a sentence x by exp φ(x, y) as well, φ a bias.

        ``log_prob`` of its sentences is log sum_y p(x, y | w) exp φ(x, y), in nats. It is no log probability and may
        exceed 0. Derivations are distributed as q(y | x) ∝ p(x, y | w) exp φ(x, y). The weights, and draws of
        sentences, are those of this grammar. The gradient of log Z with respect to the log weights is still the
        expected count of every event, now under q; posterior regularisation (Ganchev et al. 2010, section 2) is the
        search for such a φ. A bias may be learnt by gradients; nats of -inf forbid. The biases of a grammar that is
        tilted twice are added.

        :param bias: a :class:`.Bias`; or tensors of nats by block, in shapes that broadcast against those of the
            blocks, or by kind of log factor, such as ``arc_scores``, see :class:`.Sentence`; or a tensor for the only
            block.
        :raises TypeError: if it is none of these.
        :raises ValueError: if it does not fit the blocks.
        """
        tilted = object.__new__(type(self))
        tilted.__dict__.update(self.__dict__)
        tilted.is_tilted, tilted.base = True, self.base if self.is_tilted else self
        tilted.bias = self.bias + Bias.of(bias, self.blocks)
        tilted.nats = tilted.bias.nats(self.blocks)
        return tilted

    def at_temperature(self, temperature: float) -> Grammar:
        """The grammar whose nats of events are divided by a temperature; the weights are the caller's."""
        if temperature == 1 or not self.nats:
            return self
        events = Bias(self.bias.events) * (1 / temperature)
        return self.base.tilted(Bias(events.events, self.bias.parts, self.bias.told))

    def without_parts(self) -> Grammar:
        """The grammar whose bias has the nats of events alone: that of sentences which have those of their parts."""
        return self.base.tilted(Bias(self.bias.events, told=self.bias.told))

    def biased(self, log_weights: Mapping[str, Tensor]) -> Weights:
        """Log weights with the nats of their events added, shape ``(*batch, *block.shape)`` by block."""
        if not self.nats:
            return dict(log_weights)
        check_blocks(self, log_weights, "log_weights")
        return {n: w + self.nats[n].to(w) if n in self.nats else w for n, w in log_weights.items()}

    @property
    def _identity_of_tilt(self) -> str:
        digest = digest_of(dict(sorted({**self.nats, **self.bias.parts}.items())))
        return f"{self.base.identity} tilted {digest}"

    @property
    def _repr_of_tilt(self) -> str:
        return f"{self.base!r} tilted by {', '.join([*self.bias.events, *self.bias.parts]) or 'nothing'}"

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and deep copies, whose bias is values: no graph goes along."""
        if not self.is_tilted:
            return self.__dict__
        nats = {n: t.detach() for n, t in self.nats.items()}
        return {**self.__dict__, "bias": self.bias.detached, "nats": nats}

    # ------------------------------------------------------------------ draws and starts

    def sample(
        self,
        weights: Mapping[str, Tensor],
        sample_shape: torch.Size,
        max_length: int,
        *,
        too_long: TooLong = "redraw",
    ) -> Tensor:
        """Ancestral draws of sentences of at most ``max_length`` words.

        :param weights: normalised; their batch dimensions are the last ones of ``sample_shape``.
        :param too_long: what becomes of a longer one: it is drawn again, its growth is cut off, or it is an error.
        :returns: words, shape ``(*sample_shape, max_length)``, padded with -1.
        """
        return self._draw(weights, sample_shape, max_length, too_long=too_long)[0]

    def _draw(
        self,
        weights: Mapping[str, Tensor],
        sample_shape: Sequence[int] = (),
        max_length: int = 100,
        *,
        too_long: TooLong = "redraw",
    ) -> tuple[Tensor, Tensor]:
        """Ancestral draws of words, ``(*sample_shape, max_length)``, and of their structures, ``(*sample_shape, L)``.

        Both are padded with -1. A structure are the heads of a tree, the states of a sequence, or the rules or events
        of a derivation.

        :param weights: normalised; batch dimensions are the last ones of ``sample_shape``.
        :param too_long: what becomes of a longer one, see :class:`.Sentence`.
        :raises ValueError: if a multinomial does not sum to one, or if sentences hardly ever are short enough.
        """
        sample_shape = check_shape("sample_shape", sample_shape)
        max_length, cut = check_size("max_length", max_length), is_cut(too_long)
        self._check_normalized(weights)
        tables = [(weights[name], len(block.shape)) for name, block in self.blocks.items()]
        batch = broadcast_shapes(*(t.shape[: t.dim() - dims] for t, dims in tables))
        flat = [t.expand(*batch, *t.shape[t.dim() - d :]).reshape(-1, *t.shape[t.dim() - d :]) for t, d in tables]
        full = broadcast_shapes(sample_shape, batch)
        model = torch.arange(batch.numel()).reshape(batch).expand(full).reshape(-1)
        drawn = self._ancestral(flat, Draws(model, max_length, cut, num_tries(too_long)))
        words, derivations = (x.to(flat[0].device).reshape(*full, x.shape[-1]) for x in drawn)
        return words, derivations

    def _ancestral(self, tables: Sequence[Tensor], draws: Draws) -> tuple[Tensor, Tensor]:
        """Words, ``(S, max_length)``, and derivations, ``(S, L)``, padded with -1.

        :param tables: weights of G grammars by block, shape ``(G, *block.shape)``.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot draw sentences")

    def _check_normalized(self, weights: Mapping[str, Tensor]) -> None:
        """
        :raises ValueError: if a multinomial does not sum to one, which draws need.
        """
        check_normalized(self, weights)

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        """Starting points by name: functions of this grammar, words and options, to normalised weights."""
        return {"random": random_weights, "uniform": uniform_weights}

    def initial_weights(self, words: Tensor, method: str = "random", **options: Any) -> Weights:
        """Where inference starts: normalised weights, by one of :attr:`initialisers`.

        ``"random"`` draws from torch's global generator, and differs from call to call: call ``pyro.set_rng_seed``
        before, or give ``seed=``. ``"uniform"`` is a saddle point where hidden symbols could swap their names, see
        :func:`.uniform_weights`.

        :param words: shape ``(N, n)``, or sentences, of which what is known says nothing here.
        :param method: the name of an initialiser.
        :param options: of the initialiser: ``concentration`` and ``seed`` of ``"random"``.
        """
        words = words_of(words)
        if not isinstance(words, Tensor):
            raise TypeError(
                f"words must be a tensor of shape (N, n), not {words!r:.80}: write initial_weights(words, ..)"
            )
        if method not in self.initialisers:
            raise ValueError(f"there is no initialiser {method!r}; choose one of {sorted(self.initialisers)}")
        return self.initialisers[method](self, words, **options)


class SentenceMultinomials:
    """The multinomials that occur in each sentence, as *rows*: weights of its own for every sentence.

    A row is a pair of a sentence l and a multinomial k of a block; a table of rows has shape ``(R, N)``, R pairs by N
    events. Memory is linear in the pairs. Here every multinomial occurs in every sentence, which is right for any
    grammar; a grammar that knows better overrides
    :meth:`Grammar.sentence_multinomials`. A packed block counts as one multinomial here.

    :param grammar: the grammar.
    :param words: shape ``(N, n)``, padded with -1 on the right, or sentences of which something is known.
    :param pairs: sentences and multinomials of the rows by block, in the order of :attr:`sentence` and
        :attr:`multinomial`; None: all.
    """

    #: Numbers that are held for the sentences that are done at a time.
    CHUNK = 2**22

    def __init__(
        self,
        grammar: Grammar,
        words: Tensor | Sentences,
        pairs: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    ) -> None:
        self._sentences = grammar.sentences(words)
        self.words = words = checked_words(self._sentences.words, grammar.num_words)
        if words.dim() != 2:
            raise ValueError(f"words must have shape (N, n), one row for each sentence, not {tuple(words.shape)}")
        self.grammar, self._nats = grammar.base if grammar.is_tilted else grammar, grammar.nats
        self.sentence: dict[str, Tensor] = {}
        """By block, the sentence of each row, shape ``(R,)``, increasing."""
        self.multinomial: dict[str, Tensor] = {}
        """By block, the multinomial of each row as a flat index into ``block.shape[:-1]``, increasing in a sentence."""
        for name, block in grammar.blocks.items():
            if pairs is None:
                N, K = len(words), block.shape[:-1].numel()
                self.sentence[name] = torch.arange(N, device=words.device).repeat_interleave(K)
                self.multinomial[name] = torch.arange(K, device=words.device).repeat(N)
            else:
                self.sentence[name], self.multinomial[name] = pairs[name]

    def expected_counts(
        self, log_weights: Mapping[str, Tensor], sentences: Tensor | None = None, out: Weights | None = None
    ) -> tuple[Tensor, Weights]:
        """log Z of every sentence under its own rows, shape ``(N,)``, and its expected counts, shape ``(R, N_b)``.

        Not differentiable: the expected counts are the gradient of the sum of log Z. A sentence without a derivation
        has log Z = -inf and counts nothing.

        :param log_weights: log weights of the rows by block, shape ``(R, N_b)``.
        :param sentences: indices of the sentences that are wanted, increasing; None: all. The log Z and the counts of
            others are zero.
        :param out: the counts of an earlier call, to write into: those of sentences that are not wanted stay.
        """
        return self._by_chunks(self._checked(log_weights, sentences, out), sentences, out)

    def _by_chunks(
        self, log_weights: Mapping[str, Tensor], sentences: Tensor | None, out: Weights | None
    ) -> tuple[Tensor, Weights]:
        """:meth:`expected_counts` of log weights with the nats of a tilt."""
        first = next(iter(log_weights.values()))
        log_z = first.new_zeros(len(self.words))
        counts = {name: torch.zeros_like(log_weights[name]) for name in self.grammar.blocks} if out is None else out
        if sentences is None:
            sentences = torch.arange(len(self.words), device=self.words.device)
        self._count(log_weights, sentences, log_z, counts)
        return log_z, counts

    def _count(self, log_weights: Mapping[str, Tensor], sentences: Tensor, log_z: Tensor, counts: Weights) -> None:
        """Write the results of some sentences, so many at a time that their weights fit into memory."""
        size = max(1, self.CHUNK // self._numbers())
        for start in range(0, len(sentences), size):
            chosen = sentences[start : start + size]
            index = {name: _ranges(owner, chosen) for name, owner in self.sentence.items()}
            logs = {name: log_weights[name].detach()[index[name]] for name in self.grammar.blocks}
            log_z[chosen], expected = self._chunk_counts(logs, index, chosen)
            for name, rows in counts.items():
                rows[index[name]] = expected[name].to(rows.dtype)

    def _checked(
        self, log_weights: Mapping[str, Tensor], sentences: Tensor | None, out: Mapping[str, Tensor] | None
    ) -> Weights:
        """Log weights of the rows, to which the nats of a tilt are added.

        :raises ValueError: if an argument does not fit.
        """
        for name, block in self.grammar.blocks.items():
            shape = (len(self.sentence[name]), block.shape[-1])
            if name not in log_weights:
                raise ValueError(f"log_weights lacks block {name!r} of shape {shape}")
            if log_weights[name].shape != shape:
                raise ValueError(f"log_weights[{name!r}] must have shape {shape}, not {tuple(log_weights[name].shape)}")
            if out is not None and (name not in out or out[name].shape != shape or not out[name].is_contiguous()):
                actual = tuple(out[name].shape) if name in out else "nothing"
                raise ValueError(f"out[{name!r}] must be contiguous and have shape {shape}, but is {actual}")
        if sentences is not None and len(sentences):
            N, increasing = len(self.words), bool((sentences[1:] > sentences[:-1]).all())
            if not (increasing and 0 <= int(sentences[0]) and int(sentences[-1]) < N):
                raise ValueError(f"sentences must be increasing indices in 0..{N - 1}, not {sentences.tolist()[:10]}")
        rows = dict(log_weights)
        for name, nats in self._nats.items():
            flat = nats.detach().to(rows[name]).reshape(-1, nats.shape[-1])
            rows[name] = rows[name] + flat[self.multinomial[name]]
        return rows

    def _numbers(self) -> int:
        """How many numbers a sentence needs while it is done."""
        return self.words.shape[1] ** 2 + sum(block.shape.numel() for block in self.grammar.blocks.values())

    def _chunk_counts(
        self, log_weights: Mapping[str, Tensor], index: Mapping[str, Tensor], sentences: Tensor
    ) -> tuple[Tensor, Weights]:
        """log Z and expected counts of a few sentences through dense weights, of which what does not occur is one."""
        with torch.enable_grad():
            leaves = {name: rows.clone().requires_grad_() for name, rows in log_weights.items()}
            dense = {}
            for name, block in self.grammar.blocks.items():
                sentence = torch.searchsorted(sentences, self.sentence[name][index[name]])
                place = sentence, self.multinomial[name][index[name]]
                empty = leaves[name].new_zeros(len(sentences), block.shape[:-1].numel(), block.shape[-1])
                dense[name] = empty.index_put(place, leaves[name]).reshape(-1, *block.shape)
            log_z = self.grammar.log_partition(dense, self._sentences[sentences])
            gradients = torch.autograd.grad(log_z.sum(), list(leaves.values()), materialize_grads=True)
        return log_z.detach(), dict(zip(leaves, gradients, strict=True))


def _ranges(sorted_values: Tensor, wanted: Tensor) -> Tensor:
    """Indices of all elements of sorted values that are equal to one of ``wanted``, which increase."""
    start = torch.searchsorted(sorted_values, wanted)
    size = torch.searchsorted(sorted_values, wanted, right=True) - start
    before = size.cumsum(0) - size
    index = torch.arange(int(size.sum()), device=wanted.device)
    return index + (start - before).repeat_interleave(size)


def _sum_of_sentences(by_part: Callable[..., Any], traced: Callable[..., Any]) -> Callable[[Any], Any]:
    """What makes of a sum over derivations of words, which a subclass defines, one that is traced, tilted and given.

    :param by_part: the same sum over sentences of which something is known, from a grammar, the sum over words, log
        weights and sentences.
    :param traced: the same sum where something traces it.
    """

    def entry(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def either(self: Grammar, log_weights: Mapping[str, Tensor], words: Tensor | Sentences, **options: Any) -> Any:
            if captured():
                if any(x is not None for x in options.values()) or Sentences.of(words).known:
                    raise NotImplementedError("evidence is not traced here; give it to a Sentence, as known=")
                return traced(self, log_weights, words_of(words))
            if self.is_tilted:
                same = getattr(self.base, method.__name__)
                return same(self.biased(log_weights), self.sentences(words), **options)
            if isinstance(words, Sentences):
                if not words.known:
                    words = words.words
                elif self.structure is not None:
                    return by_part(self, method, log_weights, words.again)
            return method(self, log_weights, words, **options)

        return either

    return entry


def _law_of_sentences(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a law of derivations, :meth:`.Grammar.derivation`."""

    @functools.wraps(method)
    def derivation(
        self: Grammar,
        weights: Mapping[str, Tensor] | None,
        words: Tensor | Sentences,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
        **options: Any,
    ) -> Any:
        if self.is_tilted:
            biased = self.biased(logarithms(weights, log_weights))
            return self.base.derivation(None, self.sentences(words), log_weights=biased, **options)
        if isinstance(words, Sentences):
            if not words.known:
                words = words.words
            elif self.structure is not None:
                log_weights, words = logarithms(weights, log_weights), words.again
                checked_inputs(self, log_weights, words.words)
                law = method(self, None, words.words, log_weights=log_weights, evidence=words.factors)
                return self.structure.law(law, words)
        return method(self, weights, words, log_weights=log_weights, **options)

    return derivation


def _identity_of_copies(attribute: Any) -> property:
    def identity(self: Grammar) -> Any:
        return self._identity_of_tilt if self.is_tilted else attribute.__get__(self, type(self))

    return property(identity, doc=attribute.__doc__)


def _repr_of_copies(method: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(method)
    def representation(self: Grammar) -> str:
        return self._repr_of_tilt if self.is_tilted else method(self)

    return representation


def _log_partition_by_part(
    grammar: Grammar, method: Callable[..., Tensor], log_weights: Mapping[str, Tensor], sentences: Sentences
) -> Tensor:
    """log Z of sentences, of words and evidence: those of which nothing is known as if they were alone, for speed."""
    checked_inputs(grammar, log_weights, sentences.words)
    if any(log_weights[name].shape != block.shape for name, block in grammar.blocks.items()):
        log_z = method(grammar, log_weights, sentences.words, evidence=sentences.factors)
        if grammar.structure is not None and grammar.structure.is_by_row and bool(sentences.is_whole.any()):
            log_z = torch.where(sentences.is_whole, sentences.log_weights(log_weights, grammar.blocks), log_z)
        return grammar._keep_nan(log_z, log_weights)
    parts, log_zs = sentences.flat().parts, []
    if len(parts.plain):
        log_zs.append(grammar.log_partition(log_weights, parts.plain_sentences.words))
    if len(parts.partly):
        partly = parts.partly_sentences
        log_zs.append(method(grammar, log_weights, partly.words, evidence=partly.factors))
    if len(parts.whole) or not log_zs:
        log_zs.append(parts.whole_sentences.log_weights(log_weights, grammar.blocks))
    log_z = log_zs[0] if len(log_zs) == 1 else torch.cat(log_zs)[parts.order]
    return grammar._keep_nan(log_z.reshape(sentences.words.shape[:-1]), log_weights)


def _counts_by_part(
    grammar: Grammar, method: Callable[..., Any], log_weights: Mapping[str, Tensor], sentences: Sentences
) -> tuple[Tensor, Weights]:
    """log Z and expected counts; a derivation that is known is counted."""
    checked_inputs(grammar, log_weights, sentences.words, shared=True)
    parts, results = sentences.parts, []
    if len(parts.plain):
        results.append(grammar.expected_counts(log_weights, parts.plain_sentences.words))
    if len(parts.partly):
        partly = parts.partly_sentences
        results.append(method(grammar, log_weights, partly.words, evidence=partly.factors))
    if len(parts.whole) or not results:
        with torch.no_grad():
            log_z = parts.whole_sentences.log_weights(log_weights, grammar.blocks)
        counts = parts.whole_sentences.counts(grammar.blocks, log_z > -torch.inf)
        results.append((log_z, {name: c.to(log_weights[name]) for name, c in counts.items()}))
    total = {name: sum((c[name] for _, c in results[1:]), results[0][1][name]) for name in grammar.blocks}
    log_z = results[0][0] if len(results) == 1 else torch.cat([z for z, _ in results])[parts.order]
    return grammar._keep_nan(log_z, log_weights), total


def _traced_log_partition(grammar: Grammar, log_weights: Mapping[str, Tensor], words: Tensor) -> Tensor:
    return log_sum(number_of(_log_sum, grammar.handle()), [*(log_weights[name] for name in grammar.blocks), words])


def _traced_counts(grammar: Grammar, log_weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Weights]:
    tables = [log_weights[name].detach() for name in grammar.blocks]
    log_z, *counts = log_sum_and_gradient(number_of(_log_sum, grammar.handle()), [*tables, words])
    return log_z, dict(zip(grammar.blocks, counts, strict=True))


def _log_sum(handle: int) -> LogSum:
    """Log Z of a grammar, from the log weights of its blocks, in their order, and words."""
    blocks = object_of(handle).blocks

    def log_z(*tensors: Tensor) -> Tensor:
        *tables, words = tensors
        total: Tensor = object_of(handle).log_partition(dict(zip(blocks, tables, strict=True)), words)
        return total

    return LogSum(log_z, (*(len(block.shape) for block in blocks.values()), 1))


#: How methods that a subclass defines are called: of a tilted grammar, with sentences of which something is known.
_ENTRIES: Mapping[str, Callable[[Any], Any]] = {
    "log_partition": _sum_of_sentences(_log_partition_by_part, _traced_log_partition),
    "expected_counts": _sum_of_sentences(_counts_by_part, _traced_counts),
    "derivation": _law_of_sentences,
    "identity": _identity_of_copies,
    "__repr__": _repr_of_copies,
}


def counts_by_gradient(
    log_partition: Callable[[Weights, Any], Tensor], log_weights: Mapping[str, Tensor], words: Tensor | Sentences
) -> tuple[Tensor, Weights]:
    """log Z in nats, shape ``(N,)``, and expected counts summed over sentences, in the shapes of the blocks.

    Counts are the gradient of the sum of log Z, without a graph; in inference mode, too.

    :param log_partition: from log weights by block and words.
    :param words: shape ``(N, n)``, or sentences.
    """
    with torch.inference_mode(False), torch.enable_grad():
        leaves = {name: w.detach().clone().requires_grad_() for name, w in log_weights.items()}
        if isinstance(words, Tensor) and words.is_inference():
            words = words.clone()
        log_z = log_partition(leaves, words)
        gradients = torch.autograd.grad(log_z.sum(), list(leaves.values()), materialize_grads=True)
    return log_z.detach(), dict(zip(leaves, gradients, strict=True))


def check_blocks(grammar: Grammar, weights: Mapping[str, Tensor], argument: str = "weights") -> list[torch.Size]:
    """The batch shape of the weights of each block.

    :param argument: how messages call the weights.
    :raises TypeError: if the weights of a block are no tensor.
    :raises ValueError: if a block is missing, or if its weights have another shape.
    """
    batches = []
    for name, block in grammar.blocks.items():
        shape = block.shape
        if name not in weights:
            raise ValueError(f"{argument} lacks block {name!r} of shape {tuple(shape)}")
        table = weights[name]
        if not isinstance(table, Tensor):
            raise TypeError(f"{argument}[{name!r}] must be a tensor, not {type(table).__name__}")
        batch = table.dim() - len(shape)
        if batch < 0 or table.shape[batch:] != shape:
            raise ValueError(
                f"{argument}[{name!r}] must have shape (..., {', '.join(map(str, shape))}), not {tuple(table.shape)}"
            )
        batches.append(table.shape[:batch])
    return batches


def checked_inputs(
    grammar: Grammar,
    log_weights: Mapping[str, Tensor],
    words: Tensor | Sentences,
    *,
    shared: bool = False,
    argument: str = "log_weights",
) -> Tensor:
    """Words as int64, once they and the shapes of the log weights are known to be right: charts read no further.

    :param words: what is known of sentences, if anything, must come otherwise: this would lose it.
    :param shared: whether there must be one grammar, and words of shape ``(N, n)``.
    :param argument: how messages call the weights.
    :raises TypeError: for sentences of which something is known.
    :raises ValueError: if a block is missing or has another shape, if a sentence is not words and then padding, or if
        words are on another device.
    """
    batches = check_blocks(grammar, log_weights, argument)
    if isinstance(words, Sentences) and words.known:
        raise TypeError("this takes words, and what is known of them as evidence=, not sentences; take sentences.words")
    words = checked_words(words_of(words), grammar.num_words)
    for name in grammar.blocks:
        if (device := log_weights[name].device) != words.device:
            raise ValueError(f"{argument}[{name!r}] is on {device} but words are on {words.device}: move one of them")
    if shared:
        for name, batch in zip(grammar.blocks, batches, strict=True):
            if batch:
                shape = tuple(grammar.blocks[name].shape)
                raise ValueError(f"{argument}[{name!r}] must have shape {shape}, not {tuple(log_weights[name].shape)}")
        if words.dim() != 2:
            raise ValueError(f"words must have shape (N, n), one row for each sentence, not {tuple(words.shape)}")
    return words


def safe_log(weights: Tensor) -> Tensor:
    """log(weights) with -inf, and gradient 0 rather than NaN, at 0; NaN for what is NaN or negative."""
    if not captured() and fits_compiled(weights) and weights.detach().numpy().all():
        return weights.log()  # the same, without the time that selections take
    zero = weights == 0
    return torch.where(zero, -torch.inf, torch.where(zero, 1.0, weights).log())


def logarithms(weights: Mapping[str, Tensor] | None, log_weights: Mapping[str, Tensor] | None) -> Mapping[str, Tensor]:
    """Log weights by block, from the one of the two that is given.

    :raises ValueError: if neither is.
    """
    if log_weights is not None:
        return log_weights
    if weights is None:
        raise ValueError("give either weights or log_weights")
    return {name: safe_log(w) for name, w in weights.items()}


def is_cut(too_long: TooLong) -> bool:
    """Whether sentences that grow too long are cut.

    :raises ValueError: if it is none of the choices.
    """
    if too_long not in _TOO_LONG:
        raise ValueError(f"too_long must be 'redraw', 'truncate' or 'raise', not {too_long!r}")
    return too_long == "truncate"


def num_tries(too_long: TooLong) -> int:
    """How often a sentence that is too long is drawn."""
    return 1 if too_long == "raise" else 10_000


def check_normalized(grammar: Grammar, weights: Mapping[str, Tensor]) -> None:
    """
    :param weights: by block, shape ``(*batch, *block.shape)``.
    :raises ValueError: if a multinomial does not sum to one, which draws need.
    """
    for name, block in grammar.blocks.items():
        sums = block.sums(weights[name])
        if not torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
            worst = float(sums.flatten()[(sums - 1).abs().argmax()])
            raise ValueError(f"sampling needs normalised weights, but a multinomial of {name!r} sums to {worst:.6g}")


def uniform_weights(grammar: Grammar, words: Tensor) -> Weights:
    """Every multinomial uniform over its outcomes.

    Hidden symbols that could swap their names, as states of an HMM, have the same expected counts under these weights.
    So EM and variational loops keep them alike for ever: start at random there.
    """
    like = torch.ones((), dtype=torch.get_default_dtype(), device=words.device)
    return {name: block.uniform(like) for name, block in grammar.blocks.items()}


def random_weights(grammar: Grammar, words: Tensor, *, concentration: float = 1.0, seed: int | None = None) -> Weights:
    """Every multinomial drawn from a symmetric Dirichlet.

    :param concentration: of the Dirichlet; 1 is uniform over the simplex.
    :param seed: a whole number for a reproducible draw, or None for torch's global generator.
    """
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    drawn = {}
    for name, block in grammar.blocks.items():
        alpha = torch.full(block.shape, concentration, dtype=torch.float64) * block.outcomes
        gammas = torch._standard_gamma(alpha, generator=generator)
        drawn[name] = block.normalize(gammas.clamp_min(1e-300)).to(words.device, torch.get_default_dtype())
    return drawn
