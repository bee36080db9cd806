# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Context-free grammars with latent annotations (Matsuzaki, Miyao and Tsujii 2005; Wang and Blunsom 2013, 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.checks import checked_words
from pyrogram.draws import Draws
from pyrogram.grammar import PackedBlock, TooLong, Weights
from pyrogram.operators import captured
from pyrogram.printable import plural
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram
from pyrogram.sentences import Sentences, words_of
from pyrogram.sweeps.compiled import Plan, sweeps
from pyrogram.sweeps.plain import CollapsedUpdates

from . import expansions
from .annotations_derivation import SubtypeDerivation, SubtypeStructure
from .annotations_page import BLOCK, Annotations, page, program
from .annotations_parse import DECODERS, Decoder, ParseTables, parse, parse_tables
from .annotations_rules import AnnotationRules, Forest, link
from .cfg import CFG
from .page_grammar import PageGrammar, Part
from .recursive_sizes import Fitted
from .recursive_sums import Sums

_MOST_NUMBERS = 2**22  # in the tables of the trees that are done at a time, if each has its own


@dataclass(frozen=True)
class NodeSums(Sums):
    """As :class:`.Sums`.

    :param sentences: numbers of nodes, and words and links by name, see :meth:`.Annotations.nodes`.
    """

    sentences: tuple[Any, Mapping[str, Any]]

    def with_factors(self, names: Sequence[str]) -> TensorProgram:
        return program(names=tuple(names))

    def inputs(self, log_weights: Mapping[str, Tensor], words: Tensor) -> TensorInputs:
        lengths, named = self.sentences
        tensors = {name: torch.from_numpy(rows).to(words.device) for name, rows in named.items()}
        n = torch.from_numpy(lengths).to(words.device)
        return TensorInputs(log_weights, n, tensors, self.fitted.sizes, {}, checked=True, doubles=True)


@dataclass(frozen=True)
class Parses:
    """Parses of sentences, by :meth:`LatentAnnotations.parse`.

    :param rules: base rules in leftmost order, shape ``(N, L)``, padded with -1; all -1 for a sentence without a parse.
        ``cfg.tree(words, rules[i])`` is the tree.
    :param log_prob: log p(sentence | w) over what was not pruned, in nats, shape ``(N,)``; -inf where the annotated
        grammar has no parse, and ``rules`` are the base grammar's, if it has one.
    :param anchored: how many symbols over spans were annotated, shape ``(N,)``.
    """

    rules: Tensor
    log_prob: Tensor
    anchored: Tensor


class LatentAnnotations(PageGrammar):
    """Trees of a treebank, whose nodes have subtypes that nobody sees.

    Each nonterminal A of the base grammar has K subtypes A[a], the start symbol one. The base grammar's rules must be
    A -> B C, A -> B or A -> w; annotated, they are events A[a] -> B[b] C[c], A[a] -> B[b] and A[a] -> w of the
    multinomial of (A, a). What is observed, the *words* of this grammar, is a tree, written as its base rules in
    leftmost order (:meth:`.CFG.derivation_of`). What is hidden, the derivation, is the subtype of every node in the
    same order, padded with -1.

    The only block is ``rules`` (R,), a :class:`PackedBlock`: for each A in the order of ``cfg.nonterminals`` and each a
    the rules of A in the base grammar's order, each with its b and c, c running fastest; :meth:`events` tells where.

    :param cfg: the base grammar, binary, e.g. by ``CFG.from_trees(trees, binarize=True, markov_order=0)``.
    :param num_subtypes: K, or a mapping from nonterminals to their numbers; those it lacks have one.
    :raises ValueError: if a rule has another form, or if a number of subtypes is less than one.
    """

    #: Batches of trees that are kept linked, because loops come back to the same trees.
    KEPT = 4

    def __init__(self, cfg: CFG, num_subtypes: int | Mapping[str, int]):
        self.cfg = cfg
        flat = cfg.flat
        sizes = np.diff(flat.offsets)
        first = flat.symbols[flat.offsets[:-1]]
        second = np.where(sizes > 1, flat.symbols[np.minimum(flat.offsets[:-1] + 1, len(flat.symbols) - 1)], -1)
        bad = (sizes > 2) | ((sizes == 2) & ((first < 0) | (second < 0)))
        if bad.any():
            lhs, rhs = cfg.rules[int(bad.argmax())]
            raise ValueError(
                f"the rule {lhs} -> {' '.join(rhs)} is none of A -> B C, A -> B and A -> w; "
                "make the base grammar by CFG.from_trees(trees, binarize=True)"
            )
        self.num_subtypes = {
            name: int(num_subtypes.get(name, 1) if isinstance(num_subtypes, Mapping) else num_subtypes)
            for name in cfg.nonterminals
        }
        unknown = set(num_subtypes) - set(cfg.nonterminals) if isinstance(num_subtypes, Mapping) else set()
        if unknown:
            raise ValueError(f"num_subtypes has no use for {sorted(unknown)[:5]}, which are no nonterminals")
        self.num_subtypes[cfg.start] = 1
        if min(self.num_subtypes.values()) < 1:
            raise ValueError(f"num_subtypes must be at least 1, not {min(self.num_subtypes.values())}")
        self.rules = AnnotationRules(
            parent=np.ascontiguousarray(flat.lhs, np.int64),
            left=np.maximum(first, -1).astype(np.int64),
            right=np.where(sizes == 2, second, -1).astype(np.int64),
            word=np.where(first < 0, -1 - first, -1).astype(np.int64),
            subtypes=np.array([self.num_subtypes[name] for name in cfg.nonterminals], np.int64),
            start=int(flat.start),
        )
        """The rules as arrays, for the charts."""
        self.annotations = Annotations(self.rules)
        """The same as tables of the recursion."""
        self._linked: dict[Any, tuple[Forest, Any]] = {}
        self._tables: ParseTables | None = None

    def __repr__(self) -> str:
        return (
            f"LatentAnnotations({self.cfg!r}, {max(self.num_subtypes.values())}: "
            f"{plural(self.rules.num_events, 'event')})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_linked": {}, "_tables": None}

    @property
    def blocks(self) -> Mapping[str, PackedBlock]:
        return self.annotations.blocks

    @property
    def num_words(self) -> int:
        return len(self.cfg.rules)

    @property
    def identity(self) -> str:
        """That of the base grammar, and numbers of subtypes."""
        return f"{self.cfg.identity} {[self.num_subtypes[name] for name in self.cfg.nonterminals]}"

    def events(self, rule: int) -> Tensor:
        """Places in the block of all events of a base rule, shape ``(K_A, K_B, K_C)``, 1 where there is no B or C."""
        return torch.from_numpy(self.rules.events(rule))

    def trees(self, words: Tensor) -> Forest:
        """The trees of rows of base rules ``(B, n)``, linked; kept, because loops come back to the same trees.

        :raises NotImplementedError: where something traces the program, for the trees would be constants of it.
        """
        if captured():
            raise NotImplementedError(
                "this result of latent annotations is not traced; log_prob, entropy, draws and decoders are"
            )
        return self._kept(words)[0]

    def nodes(self, words: Tensor) -> Any:
        """The same as sentences of the recursion, see :meth:`.Annotations.nodes`."""
        self.trees(words)
        return self._kept(words)[1]

    def _kept(self, words: Tensor) -> tuple[Forest, Any]:
        array = np.ascontiguousarray(words.detach().cpu().numpy(), np.int64)
        key = (array.shape, array.tobytes())
        kept = self._linked.pop(key, None)
        if kept is None:
            trees = link(self.rules, array)
            kept = trees, self.annotations.nodes(trees)
        self._linked[key] = kept
        while len(self._linked) > self.KEPT:
            del self._linked[next(iter(self._linked))]
        return kept

    # ------------------------------------------------------------------ the interface

    def _parts(
        self, words: Tensor, batch: torch.Size, evidence: Mapping[str, Tensor], *, by_sentence: bool
    ) -> Sequence[Part]:
        lengths, named = self.nodes(words)
        size = sum(table.size for table in self.annotations.events.tables.values())
        step = max(1, _MOST_NUMBERS // size if by_sentence else len(words))
        parts = []
        for first in range(0, len(words), step):
            rows = slice(first, first + step)
            sentences = lengths[rows], {name: table[rows] for name, table in named.items()}
            fitted = Fitted(self.annotations.sizes, {}, ())
            sums = NodeSums(page(False), fitted, sentences)
            parts.append(Part(rows, sums, self.annotations.events, evidence, torch.Size([len(lengths[rows])])))
        return parts

    def longest(self, n: int) -> int:
        """The number of events of a derivation: one for each node."""
        return n

    def node_marginals(self, log_weights: Weights, words: Tensor) -> Tensor:
        """p(subtype of each node | tree), shape ``(B, n + 1, K)``, by position of the recursion.

        :param log_weights: by block, from :meth:`expanded`.
        :param words: shape ``(B, n)``.
        """
        total = log_weights[BLOCK].new_zeros(len(words), words.shape[-1] + 1, self.rules.width)
        for part, inputs in self._part_inputs(log_weights, words, words.shape[:-1], {}):
            _, items = part.sums.item_counts(inputs, ["X"], {}, part.batch)
            total[part.rows, : items["X"].shape[1]] = items["X"]
        return total

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        return sweeps(self, words, self._plan)

    def _plan(self, sentences: Sentences) -> Plan:
        """What sweeps over trees are compiled for."""
        return Plan(
            *(SubtypeStructure(self), sentences, program().program, self.annotations.sizes, self.annotations.events),
            named=self.nodes(sentences.words),
        )

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
    ) -> SubtypeDerivation:
        """p(subtypes of all nodes | tree, w)."""
        return SubtypeDerivation(self, weights, words_of(words), log_weights=log_weights)

    def counts(self, words: Tensor, derivation: Tensor) -> Weights:
        """Annotated rules of given trees and subtypes, shape ``(*batch, R)``, in torch's default dtype."""
        zeros = torch.zeros(self.rules.num_events, dtype=torch.get_default_dtype(), device=words.device)
        return SubtypeDerivation(self, None, words, log_weights={BLOCK: zeros}).counts(derivation)

    def sample_trees(
        self,
        weights: Mapping[str, Tensor],
        sample_shape: Sequence[int] = (),
        max_length: int = 100,
        *,
        too_long: TooLong = "redraw",
    ) -> tuple[Tensor, Tensor]:
        """Ancestral draws of trees and subtypes, shapes ``(*sample_shape, max_length)``, padded with -1.

        :param weights: normalised; batch dimensions are the last ones of ``sample_shape``.
        :param too_long: what becomes of a longer one, see :class:`.Sentence`.
        :raises ValueError: if a multinomial does not sum to one, or if trees hardly ever are small enough.
        """
        return self._draw(weights, sample_shape, max_length, too_long=too_long)

    def _ancestral(self, tables: Sequence[Tensor], draws: Draws) -> tuple[Tensor, Tensor]:
        return expansions.annotated(tables[0], self.rules, draws)

    # ------------------------------------------------------------------ parsing

    def parse(
        self,
        weights: Mapping[str, Tensor],
        sentences: Tensor,
        *,
        decoder: Decoder = "max-rule",
        threshold: float = 1e-5,
        base_weights: Mapping[str, Tensor] | None = None,
    ) -> Parses:
        """Parses of sentences of the base grammar: trees that nobody has observed.

        Time O(n^3) for the base grammar, which prunes, and O(K^3) for each rule and span that is left.

        :param weights: of the annotated rules, normalised or not.
        :param sentences: words of the base grammar, shape ``(N, n)``, as by ``cfg.encode``.
        :param decoder: ``"max-rule"``, the parse with the greatest product of the posteriors of its anchored rules,
            subtypes summed out (Petrov and Klein 2007); ``"max-rule-sum"``, that with the greatest sum, so with the
            most expected right rules; ``"viterbi"``, the base rules of the most probable annotated parse;
            ``"sample"``, those of a draw from p(annotated parse | sentence).
        :param threshold: a symbol over a span that has a lower posterior under the base grammar is not annotated; if a
            sentence has no parse then, the threshold is lowered step by step. 0 prunes nothing.
        :param base_weights: of the base grammar, ``{"rules": (R0,)}``, none of them zero; by default ``cfg.weights``,
            or if it has none, means over the subtypes.
        """
        if decoder not in DECODERS:
            raise ValueError(f"there is no decoder {decoder!r}; choose one of {', '.join(map(repr, DECODERS))}")
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold must be in 0 .. 1, not {threshold}")
        sentences = checked_words(sentences, self.cfg.num_words)
        base = self.cfg.weights if base_weights is None else base_weights
        tilted = weights[BLOCK] * self.nats[BLOCK].exp() if self.nats else weights[BLOCK]
        fine = np.ascontiguousarray(tilted.detach().cpu().double().numpy())
        coarse = self._means(fine) if base is None else base[BLOCK].detach().cpu().double().numpy()
        if not (coarse > 0).all():
            raise ValueError("base_weights must be positive, for what they forbid is pruned; smooth them")
        if self._tables is None:
            self._tables = parse_tables(self.rules, self.cfg.num_words)

        def spans(words: Any) -> Any:
            return self.cfg.derivation({BLOCK: torch.from_numpy(coarse)}, torch.from_numpy(words)).marginals().numpy()

        array = sentences.detach().cpu().long().numpy()
        weighted = self._tables, self.rules, fine, coarse, spans
        arrays = parse(array, *weighted, decoder=decoder, threshold=threshold)
        rules, log_prob, anchored = (torch.from_numpy(x).to(sentences.device) for x in arrays)
        return Parses(rules, log_prob, anchored)

    def _means(self, weights: Any) -> Any:
        """Weights of base rules: sums over the children's subtypes, means over the parent's."""
        return self.rules.reduced(np.add, weights) / self.rules.subtypes[self.rules.parent]

    # ------------------------------------------------------------------ where inference starts

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        return {**super().initialisers, "split": split}

    def initial_weights(self, words: Tensor, method: str = "split", **options: Any) -> Weights:
        """Starting points by name: ``split``, ``random``, ``uniform`` (where nothing tells subtypes apart)."""
        return super().initial_weights(words, method, **options)


def split(
    grammar: LatentAnnotations, words: Tensor, *, noise: float = 0.01, seed: int | None = None, smoothing: float = 0.0
) -> Weights:
    """The maximum-likelihood grammar of the trees, every symbol split evenly, with a little randomness.

    A[a] -> B[b] C[c] has p(A -> B C) / (K_B K_C) times one plus up to ``noise`` of either sign, normalised: the start
    of Petrov et al. (2006). Without noise all subtypes would stay alike for ever.

    :param seed: a whole number for a reproducible start, or None for torch's global generator.
    :param smoothing: added to the count of every base rule; without it, rules that no tree has have weight zero.
    """
    rules, block = grammar.rules, grammar.blocks[BLOCK]
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    used = words[words >= 0].cpu()
    counts = torch.bincount(used, minlength=grammar.num_words).double() + smoothing
    share = counts / torch.from_numpy(rules.cells)
    start = torch.rand(rules.num_events, generator=generator, dtype=torch.float64).mul_(2).sub_(1).mul_(noise).add_(1)
    start *= torch.from_numpy(rules.spread(share.numpy()))
    return {BLOCK: block.normalize(start).to(words.device, torch.get_default_dtype())}
