# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Probabilistic context-free grammars (PCFGs), in the user's own rules."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.checks import checked_words
from pyrogram.distributions.constraints import LeftmostDerivations
from pyrogram.distributions.pcfg_derivation import PCFGDerivation
from pyrogram.draws import Draws, FlatRules, ancestral
from pyrogram.folding import leaves as leaves_of
from pyrogram.grammar import Grammar, PackedBlock, Weights
from pyrogram.operators import constant
from pyrogram.printable import plural, quoted
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.rules.rewrites import bonus_name
from pyrogram.recursion.run.tensor_inputs import TensorInputs
from pyrogram.sentences import Factors, Sentences, words_of
from pyrogram.sweeps.compiled import Plan, sweeps
from pyrogram.sweeps.events import SentenceTable
from pyrogram.sweeps.plain import CollapsedUpdates

from . import cfg_sources
from .cfg_batch import Batch, batches
from .cfg_numbering import numbered
from .cfg_rules import Matches, longest, rule_table
from .cfg_text import Rule, Word, show
from .cfg_trees import TreeTransform, rules_of, tree_of
from .page_grammar import PageGrammar, Part
from .structures import Rules

BLOCK = "rules"
_MOST_PLACES = 2**29  # of weights by position, in all sentences whose sweeps are compiled


class CFG(PageGrammar):
    """A context-free grammar whose rules are chosen by one multinomial for each left-hand side.

    Rules need no normal form: a right side is any sequence of nonterminals and terminals, at least one. In a rule a
    plain string is a nonterminal if it is some rule's left side, and a terminal otherwise; a :class:`Word` always is a
    terminal. A right side of terminals alone may be long, and there may be tens of thousands of them.

    The only block is ``rules`` (R,), a :class:`PackedBlock`: the rules of the first left-hand side, then those of the
    second, and so on, in order of first appearance. A derivation is leftmost: the indices of the rules as they rewrite
    the leftmost nonterminal, which is the order of the tree's nodes from the root and the left.

    >>> grammar = CFG([("S", ["NP", "VP"]), ("NP", ["she"]), ("NP", ["fish"]), ("VP", ["eats", "NP"])])
    >>> words = grammar.encode([["she", "eats", "fish"]])
    >>> best = grammar.derivation(grammar.initial_weights(words, "uniform"), words).argmax()[0]
    >>> print(grammar.tree(["she", "eats", "fish"], best))
    (S (NP she) (VP eats (NP fish)))

    :param rules: pairs of a left side, a string, and a right side, a sequence of strings.
    :param start: the symbol of a sentence; by default the left side of the first rule.
    :param weights: of the rules in the order given, kept in :attr:`weights`; they need not be normalised.
    :raises ValueError: if a right side is empty, a rule is there twice, unary rules form a cycle (then sentences would
        have infinitely many derivations), or the start symbol has no rules.
    """

    #: Batches of sentences whose matches are kept, because loops come back to the same sentences.
    KEPT = 8

    def __init__(
        self,
        rules: Iterable[tuple[str, Sequence[str]]],
        start: str | None = None,
        *,
        weights: Tensor | Sequence[float] | None = None,
        transform: TreeTransform | None = None,
    ):
        numbering = numbered(rules)
        self.nonterminals = numbering.nonterminals
        """The left-hand sides, in the order of their multinomials."""
        self.words = numbering.words
        """The terminals, in order of first appearance."""
        self.rules = numbering.rules
        """By event, left and right side; terminals are a :class:`Word`."""
        self.block_order = torch.from_numpy(np.argsort(numbering.order))
        """The event of each given rule, shape ``(R,)``."""
        self.start = numbering.rules[int(self.block_order[0])][0] if start is None else start
        if self.start not in self.nonterminals:
            raise ValueError(f"start symbol {quoted(self.start)} has no rules")
        self.transform = transform
        self._numbered = numbering
        self._word_number = {w: i for i, w in enumerate(self.words)}
        sizes = tuple(np.bincount(numbering.lhs).tolist())
        self._blocks = {BLOCK: PackedBlock(torch.Size([len(self.rules)]), sizes)}
        number = self.nonterminals.index(self.start)
        self.table, self._trie = rule_table(numbering.lhs.tolist(), numbering.rhs, number, self.nonterminals)
        self._matches: OrderedDict[Any, Matches] = OrderedDict()
        self.weights: Weights | None = None
        """The weights that the grammar came with, by block, or None."""
        if weights is not None:
            w = torch.as_tensor(weights, dtype=None if isinstance(weights, Tensor) else torch.get_default_dtype())
            if w.shape != (len(self.rules),):
                raise ValueError(
                    f"weights must have shape ({len(self.rules)},), one for each rule, not {tuple(w.shape)}"
                )
            if not bool(((w >= 0) & (w < torch.inf)).all()):
                bad = int((~((w >= 0) & (w < torch.inf))).nonzero()[0])
                raise ValueError(f"weights must be non-negative and finite, but that of rule {bad} is {float(w[bad])}")
            self.weights = {BLOCK: w[torch.from_numpy(numbering.order).to(w.device)]}

    from_string = classmethod(cfg_sources.from_string)
    from_nltk = classmethod(cfg_sources.from_nltk)
    from_trees = classmethod(cfg_sources.from_trees)
    dense = classmethod(cfg_sources.dense)

    def __repr__(self) -> str:
        return (
            f"CFG({plural(len(self.rules), 'rule')}, "
            f"{plural(len(self.nonterminals), 'nonterminal')}, {plural(len(self.words), 'word')})"
        )

    def __getstate__(self) -> dict[str, Any]:
        # What was made when it was first asked for does not travel.
        kept = {
            k: v for k, v in super().__getstate__().items() if k not in ("flat", "_event", "identity", "right_sides")
        }
        return {**kept, "_matches": OrderedDict(), "table": replace(self.table)}

    @property
    def blocks(self) -> Mapping[str, PackedBlock]:
        return self._blocks

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        return {BLOCK: {"rule": [show(rule) for rule in self.rules]}}

    @property
    def num_words(self) -> int:
        return len(self.words)

    @cached_property
    def identity(self) -> str:
        """A hash of the rules, their order and the start symbol."""
        return hashlib.sha256(repr((self.start, self.rules)).encode()).hexdigest()

    @cached_property
    def right_sides(self) -> Tensor:
        """The right side of each rule, shape ``(R,)``: rules that differ in their left side alone have one number."""
        number: dict[Any, int] = {}
        return torch.tensor([number.setdefault(right, len(number)) for _, right in self.rules])

    # ------------------------------------------------------------------ words and trees

    def encode(self, sentences: Iterable[str | Sequence[str]]) -> Tensor:
        """Words, shape ``(N, n)``, padded with -1.

        :param sentences: each a sequence of terminals, or a string to be split at spaces.
        :raises ValueError: if a sentence is empty or has a word that is no terminal of the grammar.
        """
        rows = []
        for number, sentence in enumerate(sentences):
            forms = sentence.split() if isinstance(sentence, str) else list(sentence)
            if not forms:
                raise ValueError(f"sentence {number} is empty")
            try:
                rows.append([self._word_number[form] for form in forms])
            except KeyError as error:
                raise ValueError(
                    f"sentence {number} has {quoted(str(error.args[0]))}, which is no terminal of the grammar; "
                    "add a rule for it, or replace it"
                ) from None
        width = max(map(len, rows), default=0)
        padded = [row + [-1] * (width - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.long).reshape(len(rows), width)

    def tree(self, words: Tensor | Sequence[str] | None, derivation: Tensor, *, original: bool = True) -> Any:
        """The tree of a derivation, an ``nltk.Tree``.

        :param words: of the sentence, shape ``(n,)``; or the strings that the tree is to have as leaves; None: the
            derivation's own words.
        :param derivation: shape ``(L,)``, padded with -1.
        :param original: undo the changes that :meth:`from_trees` made to its trees, if the grammar is from there.
        :raises ValueError: if the derivation is none of the grammar, or not one of these words.
        """
        if derivation.dim() != 1:
            raise ValueError(f"the derivation must be one, of shape (L,), not {tuple(derivation.shape)}")
        ids = [r for r in derivation.long().tolist() if r >= 0]
        if ids and max(ids) >= len(self.rules):
            raise ValueError(f"the derivation has rule {max(ids)}, but rules are 0..{len(self.rules) - 1}")
        terminals = [str(s) for r in ids for s in self.rules[r][1] if isinstance(s, Word)]
        leaves: Sequence[str] | None = None
        if isinstance(words, Tensor):
            numbers = [w for w in words.tolist() if w >= 0]
            if numbers and max(numbers) >= len(self.words):
                raise ValueError(
                    f"words has {max(numbers)}, not 0..{len(self.words) - 1}; tree takes words, then a derivation"
                )
            sentence = [self.words[w] for w in numbers]
        else:
            sentence = terminals if words is None else list(words)
            leaves = sentence
        tree = tree_of([self.rules[r] for r in ids], leaves)
        if tree.label() != self.start:
            raise ValueError(f"the derivation starts from {tree.label()!r}, not from {self.start!r}")
        if len(sentence) != len(terminals) or (isinstance(words, Tensor) and sentence != leaves_of(tree)):
            raise ValueError(f"the derivation is one of {' '.join(leaves_of(tree))!r}, not of {' '.join(sentence)!r}")
        return tree if self.transform is None or not original else self.transform.invert(tree)

    def derivation_of(self, tree: Any) -> Tensor:
        """The leftmost derivation of an ``nltk.Tree``, shape ``(L,)``, the inverse of :meth:`tree`.

        :raises ValueError: if the tree has a rule that the grammar lacks.
        """
        rules = rules_of(tree if self.transform is None else self.transform.apply(tree))
        if rules[0][0] != self.start:
            raise ValueError(f"the tree starts from {rules[0][0]!r}, not from {self.start!r}")
        for rule in rules:
            if rule not in self._event:
                raise ValueError(f"the tree has the rule {show(rule)}, which the grammar lacks")
        return torch.tensor([self._event[rule] for rule in rules])

    def derivations(self, trees: Iterable[Any]) -> tuple[Tensor, Tensor]:
        """Words ``(N, n)`` and derivations ``(N, L)`` of trees, padded with -1."""
        ids = [self.derivation_of(tree) for tree in trees]
        words = [self._yield(d) for d in ids]
        pad = torch.nn.utils.rnn.pad_sequence
        return pad(words, batch_first=True, padding_value=-1), pad(ids, batch_first=True, padding_value=-1)

    def _yield(self, derivation: Tensor) -> Tensor:
        # Leftmost order reads terminals too late where they follow nonterminals; the tree has them in order.
        return self.encode([leaves_of(tree_of([self.rules[r] for r in derivation.tolist()]))])[0]

    def counts(self, words: Tensor, derivation: Tensor) -> Weights:
        """How often each rule is in derivations ``(*batch, L)``, shape ``(*batch, R)``, in torch's default dtype."""
        valid = LeftmostDerivations(self.flat, checked_words(words, self.num_words)).check(derivation)
        if not bool(valid.all()):
            first = int((~valid).flatten().nonzero()[0])
            raise ValueError(f"the derivations must be leftmost ones of the words, but that of sentence {first} is not")
        ids, dtype = derivation.long(), torch.get_default_dtype()
        counts = torch.zeros(*ids.shape[:-1], len(self.rules), dtype=dtype, device=ids.device)
        return {BLOCK: counts.scatter_add_(-1, ids.clamp_min(0), (ids >= 0).to(dtype))}

    @cached_property
    def _event(self) -> dict[Rule, int]:
        return {rule: event for event, rule in enumerate(self.rules)}

    @cached_property
    def flat(self) -> FlatRules:
        """The rules as arrays."""
        return FlatRules.of(self._numbered.lhs, self._numbered.rhs, self.table.start)

    # ------------------------------------------------------------------ charts

    @constant
    def longest(self, n: int) -> int:
        """The greatest number of rules in a derivation of at most n words."""
        return longest(self.table, n)

    def matches(self, words: Tensor) -> Matches:
        """Where lexical rules match; kept, because loops come back to the same sentences.

        :param words: shape ``(B, n)``.
        """
        array = np.ascontiguousarray(words.cpu().numpy(), np.int64)
        key = (array.shape, array.tobytes())
        matches = self._matches.pop(key, None)
        self._matches[key] = matches = self._trie.matches(array) if matches is None else matches
        while len(self._matches) > self.KEPT:
            self._matches.popitem(last=False)
        return matches

    def _matches_given(self, words: Tensor, batch: torch.Size, evidence: Mapping[str, Tensor]) -> Matches:
        """:meth:`matches`, with the spans that are forbidden; kept with these.

        :raises ValueError: if the evidence is not bool, of shape ``(*batch, n+1, n+1)``.
        """
        matches = self.matches(words)
        if not evidence:
            return matches
        crossing = evidence["crossing"]
        if crossing.dtype != torch.bool or crossing.dim() < 2:
            raise ValueError(
                f"evidence on crossing must be bool, of shape (*batch, n+1, n+1), not {crossing.dtype} of shape "
                f"{tuple(crossing.shape)}"
            )

        def forbidding() -> Matches:
            wide = crossing.expand(*batch, *crossing.shape[-2:]).reshape(-1, *crossing.shape[-2:])
            return replace(matches, forbidden=wide.cpu().numpy())

        return evidence.kept(batch, forbidding) if isinstance(evidence, Factors) else forbidding()

    def _batches(
        self, words: Tensor, batch: torch.Size, evidence: Mapping[str, Tensor], by_sentence: bool
    ) -> list[Batch]:
        """See :meth:`_parts`."""
        matches = self._matches_given(words, batch, evidence)
        return batches(self._blocks, self.table, matches, by_sentence=by_sentence)

    def _parts(
        self, words: Tensor, batch: torch.Size, evidence: Mapping[str, Tensor], *, by_sentence: bool
    ) -> Sequence[Part]:
        return [sentences.part for sentences in self._batches(words, batch, evidence, by_sentence)]

    def _most_elements(self, n: int) -> int:
        return longest(self.table, n, with_silent=True)

    def summed(
        self, log_weights: Mapping[str, Tensor], words: Tensor, evidence: Mapping[str, Tensor]
    ) -> tuple[Recursion, TensorInputs, Mapping[str, Sequence[str]]]:
        rows, batch = words.reshape(-1, words.shape[-1]), words.shape[:-1]
        matches = self._matches_given(rows, batch, evidence)
        whole = Batch(self._blocks, self.table, matches)
        program, inputs = whole.part.chosen(whole.part.inputs(self.expanded(log_weights, batch), rows))
        texts, sentences = dict[int, str](), rows.tolist()
        for b, (i, k, symbol, _) in zip(matches.sentence, matches.table, strict=True):
            texts[int(symbol)] = repr(" ".join(self.words[x] for x in sentences[b][i:k]))
        return program.recursion, inputs, whole.names(self.nonterminals, texts)

    def spans(self, log_weights: Weights, words: Tensor, *, evidence: Mapping[str, Tensor] | None = None) -> Tensor:
        """p(nonterminal A spans words i .. k - 1), shape ``(B, n+1, n+1, K)`` [i, k, A]; without a graph.

        Zero for sentences without derivations.

        :param log_weights: by block, from :meth:`expanded`.
        :param words: shape ``(B, n)``.
        :param evidence: see :meth:`log_partition`.
        """
        K, n = len(self.nonterminals), words.shape[-1]
        total = log_weights[BLOCK].new_zeros(len(words), n + 1, n + 1, K)
        for batch in self._batches(words, words.shape[:-1], evidence or {}, by_sentence=True):
            part = batch.part
            log_z, items = part.sums.item_counts(
                part.inputs(log_weights, words), batch.items, part.evidence, part.batch
            )
            spans, N = total[part.rows], batch.matches.max_length + 1
            for kind, symbols in batch.kinds.symbols(K).items():
                if kind in items:
                    spans[:, :N, :N, symbols] = items[kind][..., batch.kinds.number[symbols]].to(spans)
                elif len(symbols):  # the start symbol, which is over the whole sentence alone
                    spans[range(len(spans)), 0, batch.matches.lengths, symbols[:, None]] = log_z.isfinite().to(spans)
            spans[log_z.isnan()] = torch.nan
        return total

    def most_expected(
        self, log_weights: Weights, words: Tensor, criterion: str, *, evidence: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """The derivation that is right in most of its parts, in expectation, shape ``(B, L)``; -1 where there is none.

        Derivations of weight zero are left out.

        :param log_weights: by block, from :meth:`expanded`.
        :param words: shape ``(B, n)``.
        :param criterion: the parts: "spans", labelled spans (a symbol with events that spans words i .. k - 1), or
            "rules", rules with their spans (of a right side that was split: where its first symbol ends).
        :param evidence: see :meth:`log_partition`.
        :raises ValueError: if the criterion is neither.
        """
        if criterion not in ("spans", "rules"):
            raise ValueError(f"criterion must be 'spans' or 'rules', not {criterion!r}")
        n, rows = words.shape[-1], list[Tensor]()
        for batch in self._batches(words, words.shape[:-1], evidence or {}, by_sentence=True):
            part = batch.part
            inputs = part.inputs(log_weights, words)
            if criterion == "spans":
                _, items = part.sums.item_counts(inputs, batch.items, part.evidence, part.batch)
                gains = {kind: x * torch.from_numpy(batch.has_event(kind)).to(x) for kind, x in items.items()}
                rows.append(self._with_greatest(part, inputs, gains, n))
                continue
            program, inputs = part.chosen(inputs)
            worth = {name: np.zeros(table.shape) for name, table in inputs.weights.items()}
            worth |= {name: (x >= 0).astype(float)[None] for name, x in part.events.tables.items()}
            worth |= {name: (x >= 0).astype(float) for name, x in part.events.located.items()}
            arguments = inputs.arrays(), worth, part.events.strides, self._most_elements(n)
            elements = torch.from_numpy(program.program.most_expected(*arguments)[1])
            rows.append(self._rows(part, elements, n).to(words.device))
        return torch.cat(rows) if rows else words.new_zeros(0, 1)

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor | Sentences,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> PCFGDerivation:
        """p(y | x, w): leftmost derivations of given words.

        :param evidence: ``crossing``, bool, shape ``(*batch, n+1, n+1)``: the spans [i, k] without nonterminals.
        """
        return PCFGDerivation(self, weights, words_of(words), log_weights=log_weights, evidence=evidence)

    @property
    def structure(self) -> Rules:
        """Rows of rules, some of which may be known, or brackets of their constituents."""
        return Rules(self)

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        return sweeps(self, words, self._plan)

    def _plan(self, sentences: Sentences) -> Plan | None:
        """What sweeps are compiled for; None, if there are too many places of words."""
        words = sentences.words
        batch = Batch(self._blocks, self.table, self._matches_given(words, words.shape[:-1], sentences.factors))
        if sum(int(np.prod(places.shape)) for places in batch.places.values()) > _MOST_PLACES:
            return None
        part, names = batch.part, [*batch.part.evidence]
        return Plan(
            *(Rules(self), sentences, part.sums.with_factors(names).program, batch.sizes, part.events, batch.lists),
            factors={bonus_name(name): SentenceTable.of(np.exp(x.numpy())) for name, x in part.evidence.items()},
            sums=part.sums.summing(names).program,
        )

    sample_trees = Grammar._draw

    def _ancestral(self, tables: Sequence[Tensor], draws: Draws) -> tuple[Tensor, Tensor]:
        return ancestral(tables, draws, self.flat)

    def _check_normalized(self, weights: Mapping[str, Tensor]) -> None:
        totals = self._blocks[BLOCK].sums(weights[BLOCK])
        off = (totals - 1).abs().reshape(-1, totals.shape[-1]).amax(0)
        if not bool((off < 1e-4).all()):
            name = self.nonterminals[int(off.argmax())]
            raise ValueError(f"sampling needs normalised weights, but the rules of {name!r} do not sum to one")

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        """``uniform``, ``random`` and, where the grammar came with weights, ``given``."""
        return {**super().initialisers, **({} if self.weights is None else {"given": _given_weights})}


def _given_weights(grammar: CFG, words: Tensor) -> Weights:
    """The weights that the grammar came with, normalised."""
    assert grammar.weights is not None
    w = grammar.weights[BLOCK].to(words.device, torch.get_default_dtype())
    return {BLOCK: grammar.blocks[BLOCK].normalize(w)}
