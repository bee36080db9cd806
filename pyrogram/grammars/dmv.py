# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with valence (Klein and Manning 2004), also in the extended form of Headden et al. (2009)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyrogram.charts import dmv as chart
from pyrogram.charts import dmv_trees, expansions
from pyrogram.charts.checks import broadcast_shapes, check_size, checked_words, lengths_of_checked
from pyrogram.charts.leftmost import Draws
from pyrogram.charts.trees import check_heads, lengths_of
from pyrogram.collapsed import CollapsedUpdates
from pyrogram.distributions.projective_tree import ProjectiveDependencyTree
from pyrogram.event_map import EventMap, by_block, num_events
from pyrogram.grammar import (
    Block,
    Grammar,
    SentenceMultinomials,
    Weights,
    checked_inputs,
    counts_by_gradient,
    logarithms,
)
from pyrogram.recursion.run.on_tensors import TensorInputs, TensorProgram
from pyrogram.sentences import Sentences, words_of

from . import initial
from .dmv_events import dense_arcs, events_of
from .dmv_sentence_multinomials import DMVSentenceMultinomials
from .recursive_collapsed import Plan, kept_numbers, numbers_of, sweeps
from .structures import Heads


class DMV(Grammar):
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

    :param num_tags: V, the size of the alphabet.
    :param valence_attach: the extended model of Headden, Johnson and McClosky (2009), in which the choice of a
        child depends on valence.
    :param num_valences: S, at least one. Time grows in proportion.
    """

    def __init__(self, num_tags: int, *, valence_attach: bool = False, num_valences: int = 2):
        self.num_tags = V = check_size("num_tags", num_tags)
        self.valence_attach = valence_attach
        self.num_valences = S = check_size("num_valences", num_valences)
        self._blocks = {
            "root": Block(torch.Size([V])),
            "attach": Block(torch.Size([V, 2, S, V] if valence_attach else [V, 2, V])),
            "stop": Block(torch.Size([V, 2, S, 2])),
        }

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
        tags = [str(tag) for tag in range(self.num_tags)]
        names = ("first", "later") if self.num_valences == 2 else [str(v) for v in range(self.num_valences)]
        direction, valence = {"direction": ("left", "right")}, {"valence": names}
        return {
            "root": {"child": tags},
            "attach": {"head": tags, **direction, **(valence if self.valence_attach else {}), "child": tags},
            "stop": {"head": tags, **direction, **valence, "decision": ("continue", "stop")},
        }

    def arc_numbers(self, words: Tensor) -> Tensor:
        """The event of each arc, numbered through all blocks; what is no arc has the number of all events.

        :param words: shape ``(B, n)``, padded with -1.
        :returns: shape ``(B, n+1, n+1)`` [head, child], or ``(B, n+1, n+1, S)`` if ``valence_attach``.
        """
        return dense_arcs(self, words)

    def program(self, *, by_sentence: bool = False, evidence: bool = False) -> TensorProgram:
        """The recursion over trees, see :func:`.dmv.dmv`."""
        return chart.program(self.valence_attach, by_sentence, evidence, self.num_valences)

    def scores(self, log_weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of arcs ``(*batch, n+1, n+1, S)`` and stops ``(*batch, n+1, 2, S)``; see :mod:`pyrogram.charts`."""
        tilted = self.biased(log_weights)
        root, attach, stop = (tilted[name] for name in self.blocks)
        return chart.scores(root, attach, stop, words, self.valence_attach)

    def rows_of(self, words: Any, heads: Any) -> Any:
        """The events of trees, numbered through all blocks, padded with -1, see :func:`.dmv_trees.rows_of`.

        :param words: an array, shape ``(N, n)``.
        :param heads: an array, shape ``(N, n)``.
        """
        return dmv_trees.rows_of(words, heads, self.num_tags, self.num_valences, self.valence_attach)

    def log_parts(self, words: Tensor) -> Tensor | None:
        """Logs of factors of arcs that are no weights, ``(*batch, n+1, n+1)``; None: there are none."""
        return None

    def log_partition(
        self,
        log_weights: Mapping[str, Tensor],
        words: Tensor | Sentences,
        *,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """log Z, see :meth:`.Grammar.log_partition`.

        :param evidence: ``arc_scores``, logs of factors of arcs, shape ``(*batch, n+1, n+1)`` [head, dependent].
        """
        words = checked_inputs(self, log_weights, words)
        program = self.program(evidence=bool(evidence))
        is_shared = {log_weights[name].dim() - len(block.shape) for name, block in self._blocks.items()} == {0}
        if is_shared and program.fits(inputs := self._inputs(log_weights, words, evidence)):
            log_z = program.of_fitting(inputs).to(log_weights["root"].dtype)
            log_z = log_z if words.dim() == 2 else log_z.reshape(words.shape[:-1])
            # Compiled code looks for NaN.
            return log_z if words.is_cpu else self._keep_nan(log_z, log_weights)
        # Scores of arcs take torch fewer steps.
        arcs, stops = self._with(evidence, *self.scores(log_weights, words))
        return self._keep_nan(self._trees(arcs, stops, words).log_partition, log_weights)

    def _inputs(
        self, log_weights: Mapping[str, Tensor], words: Tensor, evidence: Mapping[str, Tensor] | None = None
    ) -> TensorInputs:
        """Sentences, whose words have been checked, under one set of weights; sums over a corpus want float64."""
        words = words if words.dim() == 2 else words.reshape(-1, words.shape[-1])
        weights = {name: log_weights[name] for name in self._blocks}
        if evidence:
            arcs = evidence["arc_scores"]
            weights = {name: w[None] for name, w in weights.items()}
            weights["arc"] = arcs.reshape(-1, *arcs.shape[-2:])
        lengths, sizes, batched = lengths_of_checked(words), {"V": self.num_tags}, bool(evidence)
        return TensorInputs(weights, lengths, {"w": words}, sizes, checked=True, batched=batched, doubles=True)

    @staticmethod
    def _trees(arcs: Tensor, stops: Tensor, words: Tensor) -> ProjectiveDependencyTree:
        return ProjectiveDependencyTree(arcs, stops, lengths_of(words), valence=True, validate_args=False)

    @staticmethod
    def _with(evidence: Mapping[str, Tensor] | None, arcs: Tensor, stops: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of arcs and stops with logs of factors of arcs."""
        return (arcs + evidence["arc_scores"].to(arcs)[..., None], stops) if evidence else (arcs, stops)

    def expected_counts(
        self,
        log_weights: Mapping[str, Tensor],
        words: Tensor | Sentences,
        *,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Weights]:
        """See :meth:`.Grammar.expected_counts`.

        :param evidence: see :meth:`log_partition`.
        """
        words = checked_inputs(self, log_weights, words, shared=True)
        program, inputs = self.program(evidence=bool(evidence)), self._inputs(log_weights, words)
        arcs = kept_numbers(evidence, "arc_scores", torch.float64) if evidence and words.is_cpu else None
        if (arcs is not None or not evidence) and program.fits(inputs):
            log_z, counts = program.log_counts(inputs, constants={} if arcs is None else {"arc": arcs})
            log_z = log_z.to(log_weights["root"].dtype)
            return log_z if words.is_cpu else self._keep_nan(log_z, log_weights), counts
        of_evidence = partial(self.log_partition, evidence=evidence)
        return counts_by_gradient(of_evidence, {name: log_weights[name] for name in self.blocks}, words)

    def sentence_multinomials(self, words: Tensor | Sentences) -> SentenceMultinomials:
        rows, sentences = DMVSentenceMultinomials(self, words), self.sentences(words)
        if not sentences.known:
            return rows
        return SentenceMultinomials(self, sentences, {n: (rows.sentence[n], rows.multinomial[n]) for n in self.blocks})

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        return sweeps(self, words, self._plan)

    def _plan(self, sentences: Sentences) -> Plan | None:
        """What sweeps are compiled for; None, if factors of arcs are no numbers."""
        factors = numbers_of(sentences, lambda logs: {"arc": logs["arc_scores"]})
        if factors is None:
            return None
        program, sizes = self.program(evidence=bool(factors)).program, {"V": self.num_tags}
        return Plan(Heads(self), sentences, program, sizes, EventMap.of_blocks(self.blocks), given=factors)

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor | Sentences,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
        evidence: Mapping[str, Tensor] | None = None,
    ) -> DMVDerivation:
        """p(y | x, w): trees of given words, as a :class:`ProjectiveDependencyTree` that counts events by block.

        :param evidence: see :meth:`log_partition`.
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

    def counts(self, words: Tensor, heads: Tensor) -> Weights:
        """Events of given trees by block, shape ``(*batch, *block.shape)``; the trees may be non-projective."""
        words = checked_words(words, self.num_tags)
        check_heads(heads, lengths_of(words))
        return self._by_block(*self.indicators(heads), words)

    def indicators(self, heads: Tensor) -> tuple[Tensor, Tensor]:
        """Arcs ``(*batch, n+1, n+1, S)`` and stops ``(*batch, n+1, 2, S)`` of trees as zeros and ones."""
        n, S = heads.shape[-1], self.num_valences
        zeros = torch.zeros(n + 1, n + 1, S, dtype=torch.get_default_dtype(), device=heads.device)
        tree = ProjectiveDependencyTree(zeros, zeros[:, :1].expand(n + 1, 2, S), valence=True, validate_args=False)
        arcs, stops = tree._indicators(heads).values()
        return arcs, stops

    def _by_block(self, arcs: Tensor, stops: Tensor, words: Tensor) -> Weights:
        """Arcs (*batch, n+1, n+1, S) and stops (*batch, n+1, 2, S) of words, to counts (*batch, *block.shape)."""
        batch = broadcast_shapes(arcs.shape[:-3], words.shape[:-1])
        tables = (arcs, arcs.shape[-3:]), (stops, stops.shape[-3:]), (words, words.shape[-1:])
        flat = [t.expand(*batch, *shape).reshape(-1, *shape) for t, shape in tables]
        total = arcs.new_zeros(batch.numel(), num_events(self.blocks) + 1)
        for numbers, values in events_of(self, *flat):
            total = total.scatter_add(1, numbers, values)
        return {name: c.reshape(*batch, *self.blocks[name].shape) for name, c in by_block(total, self.blocks).items()}

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        return {**super().initialisers, "harmonic": initial.harmonic, "supervised": initial.supervised}

    def initial_weights(self, words: Tensor, method: str = "harmonic", **options: Any) -> Weights:
        """Starting points by name: ``harmonic``, ``uniform``, ``random``, ``supervised``; see :mod:`.initial`."""
        return super().initial_weights(words, method, **options)


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
        arcs, stops = self._indicators(value.long()).values()
        return self.grammar._by_block(arcs, stops, self.words)
