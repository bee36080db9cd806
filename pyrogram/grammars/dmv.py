# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with valence (Klein and Manning 2004), also in the extended form of Headden et al. (2009)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.checks import broadcast_shapes, check_size, checked_words
from pyrogram.distributions.dependency_tree import of_heads
from pyrogram.distributions.projective_tree import ProjectiveDependencyTree
from pyrogram.draws import Draws
from pyrogram.event_map import EventMap, by_block, event_numbers, first_events, num_events
from pyrogram.grammar import Block, Grammar, SentenceMultinomials, Weights, checked_inputs, logarithms
from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram, tensor_program
from pyrogram.sentences import Sentences, words_of
from pyrogram.sweeps.compiled import Plan, numbers_of, sweeps
from pyrogram.sweeps.plain import CollapsedUpdates
from pyrogram.trees import arc_valences, check_heads, lengths_of, over_valences, stop_valences

from . import expansions, initial
from .dmv_sentence_multinomials import DMVSentenceMultinomials
from .page_grammar import PageGrammar, Part
from .recursive_sizes import Fitted
from .recursive_sums import Sums
from .structures import Heads


@recursion
def dmv(
    p: Any,
    valence_attach: bool = False,
    by_sentence: bool = False,
    evidence: bool = False,
    valences: int = 2,
    by_position: bool = False,
) -> None:
    """The trees of :func:`.projective_tree.first_order`, whose weights are those of the words w.

    A head that has no child on a side yet has valence 0, else 1; with other numbers of valences, open halves are told
    apart by valence. Multinomials may differ from sentence to sentence: then h is the number of a word's own, a pair of
    a sentence and one of its distinct words. With evidence, each arc of a sentence has a factor, too. By position,
    attachments have weights by head and child of each sentence.
    """
    i, j, k, r = p.positions("i j k r")
    w = p.words("w")
    h, H = (p.words("h"), "P") if by_sentence else (w, "V")
    RC, LC, Z = p.items("RC LC Z")
    RO, LO, IR, IL = p.items("RO LO IR IL") if valences == 2 else p.items("RO LO IR IL", valences)
    valence_axis = (valences,) if valence_attach else ()
    root = p.weights("root", "V")
    attach = p.weights("attach", *valence_axis) if by_position else p.weights("attach", H, 2, *valence_axis, "V")
    stop = p.weights("stop", H, 2, valences, 2)  # head, direction, valence, decision: 0 continues, 1 stops
    factor: Any = p.weights("arc_scores") if evidence else None

    def choose(head: Any, direction: int, valence: Any, child: Any) -> Any:
        """The head goes on, and then takes the child."""
        place: tuple[Any, ...] = (head, child) if by_position else (h[head], direction)
        place += (valence,) if valence_attach else ()
        taken = attach[place if by_position else (*place, w[child])]
        if factor is not None:
            taken = factor[head, child] * taken
        return stop[h[head], direction, valence, 0] * taken

    if valences == 2:
        RO[i, i] += 1
        LO[i, i] += 1
        IR[i, j] += choose(i, 1, i < k, j) * RO[i, k] * LC[k + 1, j]
        IL[i, j] += choose(j, 0, k + 1 < j, i) * RC[i, k] * LO[k + 1, j]
        RO[i, j] += IR[i, k] * RC[k, j]
        LO[i, j] += LC[i, k] * IL[k, j]
        RC[i, j] += stop[h[i], 1, i < j, 1] * RO[i, j]
        LC[i, j] += stop[h[j], 0, i < j, 1] * LO[i, j]
    else:
        RO[i, i, 0] += 1
        LO[i, i, 0] += 1
        for v, more in zip(range(valences), [*range(1, valences), valences - 1], strict=True):
            IR[i, j, more] += choose(i, 1, v, j) * RO[i, k, v] * LC[k + 1, j]
            IL[i, j, more] += choose(j, 0, v, i) * RC[i, k] * LO[k + 1, j, v]
            RC[i, j] += stop[h[i], 1, v, 1] * RO[i, j, v]
            LC[i, j] += stop[h[j], 0, v, 1] * LO[i, j, v]
        for v in range(min(1, valences - 1), valences):  # of heads with children
            RO[i, j, v] += IR[i, k, v] * RC[k, j]
            LO[i, j, v] += LC[i, k] * IL[k, j, v]
    top = factor[0, r] * root[w[r]] if factor is not None else root[w[r]]
    Z[()] += top * LC[1, r] * RC[r, p.n]


@cache
def program(
    valence_attach: bool,
    by_sentence: bool = False,
    evidence: bool = False,
    valences: int = 2,
    by_position: bool = False,
) -> TensorProgram:
    """The DMV under one set of weights for all sentences, or with multinomials of their own; perhaps with evidence."""
    kind = {"by_sentence": by_sentence, "evidence": evidence, "by_position": by_position}
    return tensor_program(dmv(valence_attach=valence_attach, valences=valences, **kind))


@dataclass(frozen=True)
class TreeSums(Sums):
    """As :class:`.Sums`; the only factors are those of arcs.

    :param options: of the page, see :func:`program`.
    """

    options: Mapping[str, Any]
    doubles = True  # of a corpus

    def with_factors(self, names: Sequence[str]) -> TensorProgram:
        return program(**self.options, evidence=bool(names))

    def factor_table(self, name: str) -> str:
        return name


class DMV(PageGrammar):
    """The dependency model with valence over tags (Cohen, Gimpel and Smith 2008, Eq. 12).

    A head generates its children on each side from the nearest outwards: before each it decides to continue,
    then it chooses the child; at last it decides to stop. The blocks are

    * ``root`` (V,): the only child of ROOT;
    * ``attach`` (V, 2, V) [head, direction, child], or (V, 2, S, V) [head, direction, valence, child] if
      ``valence_attach``; direction 0 is left, 1 right;
    * ``stop`` (V, 2, S, 2) [head, direction, valence, decision]; decision 0 is continue, 1 is stop.

    Valence is the number of children that the head has on that side so far, S - 1 standing for more. In the papers S is
    2: a head knows whether it has a child. With one valence it knows nothing, and children are geometrically many.

    >>> grammar = DMV(num_tags=2)
    >>> {name: tuple(block.shape) for name, block in grammar.blocks.items()}
    {'root': (2,), 'attach': (2, 2, 2), 'stop': (2, 2, 2, 2)}
    >>> words = torch.tensor([[0, 1, 1], [1, 0, -1]])
    >>> grammar.derivation(grammar.initial_weights(words, "uniform"), words).entropy().exp()  # of 7 trees, and of 2
    tensor([7.0000, 2.0000])

    Evidence is ``arc_scores``, logs of factors of arcs, shape ``(*batch, n+1, n+1)`` [head, dependent].

    :param num_tags: V, the size of the alphabet.
    :param valence_attach: the extended model of Headden, Johnson and McClosky (2009), in which the choice of a
        child depends on valence.
    :param num_valences: S, at least one. Time grows in proportion.
    """

    def __init__(self, num_tags: int, *, valence_attach: bool = False, num_valences: int = 2):
        self.num_tags, self.valence_attach = check_size("num_tags", num_tags), valence_attach
        self.num_valences = check_size("num_valences", num_valences)
        self._blocks = tree_blocks(self.num_tags, self.num_valences, valence_attach)

    def __repr__(self) -> str:
        options = ", valence_attach=True" if self.valence_attach else ""
        options += f", num_valences={self.num_valences}" if self.num_valences != 2 else ""
        return f"DMV({self.num_tags}{options})"

    @property
    def blocks(self) -> Mapping[str, Block]:
        return self._blocks

    @property
    def num_words(self) -> int:
        return self.num_tags

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        names = ("first", "later") if self.num_valences == 2 else [str(v) for v in range(self.num_valences)]
        return tree_axes(self.num_tags, {"valence": names}, self.valence_attach)

    # ------------------------------------------------------------------ events

    def _attachments(self, head: Tensor, right: Tensor, valence: Tensor, child: Tensor) -> Tensor:
        """The events of attachments, numbered through all blocks, of words; those of the head -1 are nothing.

        :param valence: 0 if it says nothing.
        """
        row = (head, right, valence) if self.valence_attach else (head, right)
        return event_numbers(self.blocks, "attach", *row, child)

    def arc_numbers(self, words: Tensor) -> Tensor:
        """The event of each arc, numbered through all blocks; what is no arc has the number of all events.

        :param words: shape ``(*batch, n)``, padded with -1.
        :returns: shape ``(*batch, n+1, n+1)`` [head, child], or ``(*batch, n+1, n+1, S)`` if ``valence_attach``.
        """
        real = words >= 0
        place = torch.arange(words.shape[-1], device=words.device)
        right = (place > place[:, None]).long()[..., None]
        valences = torch.arange(self.num_valences if self.valence_attach else 1, device=words.device)
        is_arc = real[..., None, :] & (place != place[:, None])
        heads = torch.where(is_arc, words[..., :, None], -1)[..., None]
        attach = self._attachments(heads, right, valences, words[..., None, :, None])
        arcs = attach.new_full((*words.shape[:-1], *(words.shape[-1] + 1,) * 2, len(valences)), num_events(self.blocks))
        arcs[..., 0, 1:, :] = event_numbers(self.blocks, "root", words)[..., None]
        arcs[..., 1:, 1:, :] = attach
        return arcs if self.valence_attach else arcs[..., 0]

    def rows_of(self, words: Any, heads: Any) -> Any:
        """The events of trees, numbered through all blocks, shape ``(N, 4 n)``; -1 where there is none.

        :param words: an array, shape ``(N, n)``, padded with -1.
        :param heads: an array, shape ``(N, n)``; those of words are in range.
        """
        pairs = (torch.from_numpy(x).split(initial.sentences_at_once(x.shape[1], 1)) for x in (words, heads))
        rows = torch.cat([self._tree_events(w, h) for w, h in zip(*pairs, strict=True)]).numpy()
        return np.where(rows < num_events(self.blocks), rows, -1)

    def _tree_events(self, words: Tensor, heads: Tensor) -> Tensor:
        """The events of trees ``(*batch, n)``, shape ``(*batch, 4 n)``; nothing has the number of all events."""
        S, real = self.num_valences, heads >= 0
        words, sides = torch.where(real, words, -1), torch.arange(2, device=heads.device)
        head_words = of_heads(torch.nn.functional.pad(words, (1, 0), value=-1), heads).masked_fill(~real, -1)
        right = (torch.arange(1, heads.shape[-1] + 1, device=heads.device) > heads).long()
        valence = arc_valences(heads, S)
        at = valence if self.valence_attach else torch.zeros_like(valence)
        roots, attachments = event_numbers(self.blocks, "root", words), self._attachments(head_words, right, at, words)
        taken = torch.where(heads == 0, roots, attachments)
        goes_on = event_numbers(self.blocks, "stop", head_words, right, valence, 0)
        stops = event_numbers(self.blocks, "stop", words[..., None], sides, stop_valences(heads, S)[..., 1:, :], 1)
        return torch.cat([taken, goes_on, stops.flatten(-2)], -1)

    def counts(self, words: Tensor, heads: Tensor) -> Weights:
        """Events of given trees by block, shape ``(*batch, *block.shape)``; the trees may be non-projective."""
        words = checked_words(words, self.num_tags)
        check_heads(heads, lengths_of(words))
        return self._counts(words, heads, torch.get_default_dtype())

    def _counts(self, words: Tensor, heads: Tensor, dtype: torch.dtype) -> Weights:
        batch = broadcast_shapes(words.shape[:-1], heads.shape[:-1])
        events = self._tree_events(words.expand(*batch, -1), heads.long().expand(*batch, -1))
        ones = torch.ones((), dtype=dtype, device=events.device).expand(events.shape)
        total = ones.new_zeros(*batch, num_events(self.blocks) + 1).scatter_add_(-1, events, ones)
        return by_block(total, self.blocks)

    def _numbers(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The events of arcs, which are the choice of a child and a decision to continue; those of stops.

        :param words: shape ``(*batch, n)``, padded with -1.
        :returns: shapes ``(*batch, n+1, n+1, S or 1)``, ``(*batch, n+1, n+1, S)`` [head, child, valence] and
            ``(*batch, n+1, 2, S)``.
        """
        sizes = words.shape[-1] + 1, 2, self.num_valences
        place, sides, valences = (torch.arange(size, device=words.device) for size in sizes)
        heads = torch.nn.functional.pad(words, (1, 0), value=-1)[..., None, None]
        goes_on = event_numbers(self.blocks, "stop", heads, (place > place[:, None]).long()[..., None], valences, 0)
        arcs = self.arc_numbers(words)
        arcs = arcs if self.valence_attach else arcs[..., None]
        goes_on = goes_on.masked_fill(arcs[..., :1] == num_events(self.blocks), num_events(self.blocks))
        return arcs, goes_on, event_numbers(self.blocks, "stop", heads, sides[:, None], valences, 1)

    def _expected(self, arcs: Tensor, stops: Tensor, words: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Numbers of the events of sentences, and how often each occurs, both ``(B, E)``: choices, decisions, stops.

        :param arcs: how often arcs are there, shape ``(B, n+1, n+1, S)`` [head, dependent, valence].
        :param stops: how often heads stop, shape ``(B, n+1, 2, S)``.
        :param words: shape ``(B, n)``, padded with -1.
        """
        of_arcs = arcs if self.valence_attach else over_valences(arcs)
        for numbers, values in zip(self._numbers(words), (of_arcs, arcs, stops), strict=True):
            yield numbers.flatten(1), values.flatten(1)

    def _by_block(self, arcs: Tensor, stops: Tensor, words: Tensor) -> Weights:
        """Arcs (*batch, n+1, n+1, S) and stops (*batch, n+1, 2, S) of words, to counts (*batch, *block.shape)."""
        batch = broadcast_shapes(arcs.shape[:-3], words.shape[:-1])
        tables = (arcs, arcs.shape[-3:]), (stops, stops.shape[-3:]), (words, words.shape[-1:])
        total = arcs.new_zeros(batch.numel(), num_events(self.blocks) + 1)
        for numbers, values in self._expected(*(t.expand(*batch, *shape).reshape(-1, *shape) for t, shape in tables)):
            total = total.scatter_add(1, numbers, values)
        return by_block(total.reshape(*batch, -1), self.blocks)

    # ------------------------------------------------------------------ log Z

    def program(self, *, by_sentence: bool = False, evidence: bool = False) -> TensorProgram:
        """The recursion over trees, see :func:`.dmv.dmv`."""
        options = {"by_sentence": by_sentence, "evidence": evidence}
        return program(self.valence_attach, valences=self.num_valences, **options)

    def _sums(self, **options: Any) -> TreeSums:
        """What sums over trees.

        :param options: of the page, besides those of the grammar.
        """
        options |= {"valence_attach": self.valence_attach, "valences": self.num_valences}
        return TreeSums(program(**options).recursion, Fitted({"V": self.num_tags}, {}, ("w",)), options)

    @cached_property
    def _events(self) -> EventMap:
        """Which events the elements of the page's tables are."""
        return EventMap.of_blocks(self.blocks)

    def _events_by_position(self, numbers: Tensor) -> EventMap:
        """The same, where attachments have weights by position.

        :param numbers: from :meth:`arc_numbers`, shape ``(B, n+1, n+1[, S])``.
        """
        first, tables = first_events(self.blocks), self._events.tables
        is_attachment = (numbers >= first["attach"]) & (numbers < first["stop"])
        attach = torch.where(is_attachment, numbers, first["attach"]).to(torch.int32)  # others are not looked at
        tables = {name: tables[name] for name in ("root", "stop")}
        return EventMap(self.blocks, tables, located={"attach": attach.cpu().numpy()})

    def _parts(
        self, words: Tensor, batch: torch.Size, evidence: Mapping[str, Tensor], *, by_sentence: bool
    ) -> Iterable[Part]:
        if not by_sentence:
            return [Part(slice(None), self._shared_sums, self._events, evidence, batch)]
        events = self._events_by_position(self.arc_numbers(words))  # so there are fewer weights to raise
        return [Part(slice(None), self._sums(by_position=True), events, evidence, batch)]

    @cached_property
    def _shared_sums(self) -> TreeSums:
        return self._sums()

    def longest(self, n: int) -> int:
        return 4 * n - 1  # the root; a child and a decision to continue; two decisions to stop

    def log_parts(self, words: Tensor) -> Tensor | None:
        """Logs of factors of arcs that are no weights, ``(*batch, n+1, n+1)``; None: there are none."""
        return None

    def scores(self, log_weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        """Scores in nats, whose sum over a tree is its log weight: of arcs, and of decisions to stop.

        Shapes ``(*batch, n+1, n+1, S)`` [head, dependent, valence], with the decisions to go on, and
        ``(*batch, n+1, 2, S)`` [head, direction, valence]; head 0 is ROOT.

        :param log_weights: by block, shape ``(*batch, *block.shape)``.
        :param words: shape ``(*batch, n)``.
        """
        tilted, V, S = self.biased(log_weights), self.num_tags, self.num_valences
        root, attach, stop = (tilted[name] for name in self.blocks)
        attach = attach if self.valence_attach else attach[..., None, :]
        arcs = (stop[..., 0, None] + attach).mT.flatten(-4, -2)  # [head and direction and child, valence]
        tables = [root.new_zeros(1, S), root[..., None].expand(*root.shape, S), arcs]
        shared = broadcast_shapes(root.shape[:-1], arcs.shape[:-2])
        table = torch.cat([x.expand(*shared, *x.shape[-2:]) for x in tables], -2)
        batch = broadcast_shapes(shared, words.shape[:-1])
        w, place = words.clamp_min(0).int(), torch.arange(words.shape[-1], device=words.device)
        pairs = (w[..., :, None] * 2 + (place > place[:, None])) * V + w[..., None, :]
        of_arcs = torch.nn.functional.pad(torch.cat([1 + w[..., None, :], 1 + V + pairs], -2), (1, 0))

        def picked(table: Tensor, rows: Tensor) -> Tensor:
            """Rows of a table ``(*batch, rows, S)``; one table serves all sentences."""
            # The way back takes ten times as long by numbers of 32 bits.
            rows = rows.long() if table.requires_grad else rows
            if table.dim() == 2:
                return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[-1])
            axes = rows.shape[words.dim() - 1 :]
            index = rows.long().expand(*batch, *axes).flatten(len(batch))[..., None].expand(*batch, -1, table.shape[-1])
            return table.expand(*batch, *table.shape[-2:]).gather(-2, index).view(*batch, *axes, table.shape[-1])

        stops = torch.nn.functional.pad(picked(stop[..., 1].flatten(-2), w), (0, 0, 1, 0)).unflatten(-1, (2, S))
        return picked(table, of_arcs), stops.expand(*batch, -1, -1, -1)

    def sentence_multinomials(self, words: Tensor | Sentences) -> SentenceMultinomials:
        rows, sentences = DMVSentenceMultinomials(self, words), self.sentences(words)
        if not sentences.known:
            return rows
        return SentenceMultinomials(self, sentences, {n: (rows.sentence[n], rows.multinomial[n]) for n in self.blocks})

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        return sweeps(self, words, self._plan)

    def _plan(self, sentences: Sentences) -> Plan | None:
        """What sweeps are compiled for; None, if factors of arcs are no numbers."""
        factors = numbers_of(sentences, dict)
        if factors is None:
            return None
        program, sizes = self.program(evidence=bool(factors)).program, {"V": self.num_tags}
        return Plan(Heads(self), sentences, program, sizes, self._events, factors=factors)

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor | Sentences,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> DMVDerivation:
        """p(y | x, w): trees of given words, as a :class:`ProjectiveDependencyTree` that counts events by block.

        :param evidence: ``arc_scores``, logs of factors of arcs, shape ``(*batch, n+1, n+1)`` [head, dependent].
        """
        bonus = evidence["arc_scores"] if evidence else None
        return DMVDerivation(self, logarithms(weights, log_weights), words_of(words), arc_bonus=bonus)

    @property
    def structure(self) -> Heads:
        """Heads, of which some may be known; log factors of arcs, too."""
        return Heads(self)

    sample_trees = Grammar._draw

    def _ancestral(self, tables: Sequence[Tensor], draws: Draws) -> tuple[Tensor, Tensor]:
        return expansions.dmv(tables, draws)

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        return {**super().initialisers, "harmonic": initial.harmonic, "supervised": initial.supervised}

    def initial_weights(self, words: Tensor, method: str = "harmonic", **options: Any) -> Weights:
        """Starting points by name: ``harmonic``, ``uniform``, ``random``, ``supervised``; see :mod:`.initial`."""
        return super().initial_weights(words, method, **options)


def tree_blocks(num_tags: int, num_classes: int, in_attach: bool) -> dict[str, Block]:
    """The blocks of a model in which a head knows a class of what it has on a side, such as its valence.

    :param in_attach: whether the choice of a child depends on the class.
    """
    V, C = num_tags, num_classes
    shapes = {"root": (V,), "attach": (V, 2, C, V) if in_attach else (V, 2, V), "stop": (V, 2, C, 2)}
    return {name: Block(torch.Size(shape)) for name, shape in shapes.items()}


def tree_axes(
    num_tags: int, classes: Mapping[str, Sequence[str]], in_attach: bool
) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Their :attr:`.Grammar.axes`.

    :param classes: the name of the axis of classes, and the names of these.
    """
    tags = [str(tag) for tag in range(num_tags)]
    side = {"head": tags, "direction": ("left", "right")}
    return {
        "root": {"child": tags},
        "attach": {**side, **(classes if in_attach else {}), "child": tags},
        "stop": {**side, **classes, "decision": ("continue", "stop")},
    }


class DMVDerivation(ProjectiveDependencyTree):
    """p(y | x, w) of the DMV: a projective tree, whose events are counted by block of the grammar.

    ``log_prob`` is conditional on the words, log p(y | x, w), in nats; the joint is ``log_prob + log_partition``.

    :param grammar: the grammar.
    :param log_weights: log weights, one tensor ``(*batch, *block.shape)`` per block.
    :param words: shape ``(*batch, n)``, padded with -1.
    :param arc_bonus: the log of a factor for each arc, shape ``(*batch, n+1, n+1)`` [head, dependent]: evidence;
        -inf forbids an arc, and also ``mbr`` to take it.
    """

    def __init__(
        self,
        grammar: DMV,
        log_weights: Mapping[str, Tensor],
        words: Tensor,
        validate_args: bool | None = None,
        arc_bonus: Tensor | None = None,
    ):
        words = checked_inputs(grammar, log_weights, words)
        self.grammar, self.words, self.arc_bonus = grammar, words, arc_bonus
        arcs, stops = grammar.scores(log_weights, words)
        if arc_bonus is not None:
            arcs = arcs + arc_bonus.to(arcs)[..., None]
        super().__init__(arcs, stops, lengths_of(words), valence=True, validate_args=validate_args)

    def expected_counts(self) -> Weights:
        """E[f | x, w] of every event, shape ``(*batch_shape, *block.shape)`` per block."""
        _, arcs, stops = self._posterior()
        assert stops is not None
        counted = self.grammar._by_block(arcs, stops, self.words)
        return {k: v.expand(*self.batch_shape, *self.grammar.blocks[k].shape) for k, v in counted.items()}

    def _expected_arcs(self) -> Tensor:
        """No arc of the tree with the most expected right heads is forbidden."""
        expected = super()._expected_arcs()
        return expected if self.arc_bonus is None else torch.where(self.arc_bonus > -torch.inf, expected, -torch.inf)

    def counts(self, value: Tensor) -> Weights:
        """f(x, y): the events of given trees, shape ``(*value.shape[:-1], *block.shape)`` per block."""
        if self._validate_args:
            self._validate_sample(value)
        return self.grammar._counts(self.words, value, self.dtype)
