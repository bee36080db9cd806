# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The sources of the weights of sentences, by name: whole sites, selections of their entries, constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.event_map import first_events, num_events
from pyrogram.grammar import Block, Grammar, PackedBlock, Weights
from pyrogram.sentences import Sentences

from .selection import Computed, Origins, Selection
from .sites import block_of_site, concentration_of
from .structure import ModelError, SentenceSite, WeightSource
from .tied import TiedGrammar

ELSEWHERE = "VariationalEM, TreeGibbs, or pyro.infer.SVI with a guide, can"


def multinomial_source(name: str, function: Any, value: Tensor) -> WeightSource:
    """The source that a latent Dirichlet or Beta site is."""
    block, concentration = block_of_site(function, value.shape), concentration_of(function)
    if block.shape == value.shape:
        return WeightSource(name, block, value, concentration)
    return WeightSource(name, block, torch.stack([value, 1 - value], -1), concentration, probability=value)


class WeightReader:
    """Finds the sources of the weights of Sentence sites.

    :param candidates: what weights may come from.
    :param origins: what blocks are, by site.
    :param loop: the name of the loop, for messages.
    :param reasons: of multinomials that are no candidates, why not, in words.
    """

    def __init__(
        self,
        candidates: Iterable[WeightSource],
        origins: Mapping[str, Origins],
        loop: str,
        reasons: Mapping[str, str],
    ) -> None:
        self.loop, self._reasons, self._origins = loop, reasons, origins
        self.used: dict[str, WeightSource] = {}
        self._by_name = {source.name: source for source in candidates}

    def site(self, name: str, function: Sentence, sentences: Sentences) -> SentenceSite:
        """A site with the sources of its blocks.

        :param sentences: all of them.
        """
        grammar = function.observed_grammar
        self._check_fixed(name, function.grammar, sentences)
        sources = {block: self._source(name, block, function) for block in grammar.blocks}
        if any(isinstance(source, Selection) for source in sources.values()):
            return self._tied(name, function, sentences, sources, grammar)
        chosen = {}
        for block_name, source in sources.items():
            assert isinstance(source, WeightSource)
            chosen[block_name] = self._whole(name, block_name, source, function, len(sentences))
        is_repeated = len({source.name for source in chosen.values()}) < len(chosen)
        if is_repeated and not any(source.per_sentence and not source.is_computed for source in chosen.values()):
            return self._tied(name, function, sentences, chosen, grammar)
        self.used.update({s.name: s for s in chosen.values()})
        return SentenceSite(name, grammar, sentences, {b: s.name for b, s in chosen.items()})

    def _check_fixed(self, name: str, grammar: Grammar, sentences: Sentences) -> None:
        """
        :raises ModelError: if a bias or evidence is to be learnt.
        """
        if grammar.bias.is_learnt:
            raise ModelError(f"{self.loop} cannot learn the bias of site {name!r}; detach it, or {ELSEWHERE}")
        if sentences.is_learnt:
            raise ModelError(f"{self.loop} cannot learn the evidence of site {name!r}; detach it, or {ELSEWHERE}")

    def _source(self, site: str, name: str, function: Sentence) -> WeightSource | Selection:
        """The source that a block is, if it is the whole of one, constants, or computed."""
        block, origin = function.grammar.blocks[name], self._origins[site][name]
        names = origin.sources if isinstance(origin, Selection) else ()
        if isinstance(origin, Computed) or not self._by_name.keys() >= set(names):
            if isinstance(origin, Computed) and not origin.is_followed:
                raise ModelError(
                    f"{self.loop} cannot learn block {name!r} of site {site!r}, which is {origin.cause}; make "
                    "parameters known by pyro.module or pyro.param, and let gradients through"
                )
            value = of_each(function.log_weights[name].detach(), block, function).exp()
            reasons = dict.fromkeys(self._reasons.get(x, "") for x in names)
            cause = origin.cause if isinstance(origin, Computed) else f"made of {' and '.join(map(repr, names))}"
            return WeightSource(f"{site}.{name}", block, value, computed_from="".join([cause, *reasons]))
        if origin.constant:
            return WeightSource(f"{site}.{name}", block, origin.constants, is_constant=True)
        source = None if origin.whole is None else self._by_name[origin.whole]
        return source if source is not None and source.block.shape == block.shape else origin

    def _whole(
        self, site: str, name: str, source: WeightSource, function: Sentence, num_sentences: int
    ) -> WeightSource:
        """A source that is a block as it stands."""
        block = function.grammar.blocks[name]
        per_sentence = self._is_per_sentence(site, name, source, function, num_sentences)
        same = source.block.shape == block.shape and (source.is_constant or _sizes(source.block) == _sizes(block))
        if source.logistic_normal is not None and not same:
            raise ModelError(
                f"{self.loop} needs a logistic normal for each multinomial of block {name!r} of site {site!r}, but "
                f"{source.name!r} has others; draw it with shape=grammar.blocks[{name!r}]"
            )
        if source.concentration is not None and not same:
            raise ModelError(
                f"{self.loop} needs a Dirichlet for each multinomial of block {name!r} of site {site!r}, but "
                f"{source.name!r} has others; make it by dirichlet_prior(grammar.blocks[{name!r}], concentration)"
            )
        return replace(source, block=block, per_sentence=per_sentence)

    def _is_per_sentence(
        self, site: str, name: str, source: WeightSource, function: Sentence, num_sentences: int
    ) -> bool:
        """Whether each sentence has weights of its own; otherwise one grammar may be expanded over sentences."""
        if source.is_computed:
            return source.value.dim() > len(source.block.shape)
        weights = function.weights or function.log_weights  # no logarithms of what is expanded over sentences
        shape = weights[name].shape
        batch = tuple(shape[: len(shape) - len(function.grammar.blocks[name].shape)])
        if not batch or source.value.dim() < len(shape):
            return False
        if not (source.logistic_normal is not None and batch == (num_sentences,)):
            raise ModelError(
                f"{self.loop} needs one grammar for all sentences, or a logistic normal for each, but block {name!r} "
                f"of site {site!r} has the batch shape {batch}; {ELSEWHERE}"
            )
        return True

    def _tied(
        self,
        name: str,
        function: Sentence,
        sentences: Sentences,
        chosen: Mapping[str, WeightSource | Selection],
        grammar: Grammar,
    ) -> SentenceSite:
        """A site some of whose blocks are selections: its grammar is one over the sources."""
        sources: dict[str, WeightSource] = {}
        for block, origin in chosen.items():
            selected = [origin] if isinstance(origin, WeightSource) else [self._by_name[x] for x in origin.sources]
            sources.update({source.name: source for source in selected})
            if isinstance(origin, WeightSource) and origin.is_computed:
                each = self._is_per_sentence(name, block, origin, function, len(sentences))
                sources[origin.name] = replace(origin, per_sentence=each)
        for source in sources.values():
            if source.value.dim() > len(source.block.shape) and not source.is_computed:
                raise ModelError(
                    f"{self.loop} cannot tie {source.name!r}, which each sentence has of its own; {ELSEWHERE}"
                )
        blocks, entries = {name: source.block for name, source in sources.items()}, Weights()
        first, size = first_events(blocks), num_events(blocks)
        constants: list[Tensor] = []
        for block, origin in chosen.items():
            if isinstance(origin, WeightSource):
                shape = origin.block.shape
                entries[block] = first[origin.name] + torch.arange(shape.numel()).reshape(shape)
                continue
            offsets = torch.tensor([first[source] for source in origin.sources] + [0])  # the last is that of constants
            entries[block] = offsets[origin.source] + origin.entry
            fixed = origin.source < 0
            start = size + sum(len(c) for c in constants)
            entries[block][fixed] = start + torch.arange(int(fixed.sum()))
            constants.append(origin.constants[fixed])
        if any(len(c) for c in constants):
            values = torch.cat(constants)
            constant_name = f"{name}.constants"
            sources[constant_name] = WeightSource(constant_name, Block(values.shape), values, is_constant=True)
        self.used.update(sources)
        tied = TiedGrammar(grammar, {n: s.block for n, s in sources.items()}, entries)
        return SentenceSite(name, tied, sentences, {source: source for source in sources})


def of_each(log_weights: Tensor, block: Block, function: Sentence) -> Tensor:
    """Weights of each of N sentences, in any plates, as ``(N, *block.shape)``; shared ones as ``block.shape``."""
    batch = log_weights.shape[: log_weights.dim() - len(block.shape)]
    if batch.numel() == 1:
        return log_weights.reshape(block.shape)
    return log_weights.expand(*function.batch_shape, *block.shape).reshape(-1, *block.shape)


def _sizes(block: Block) -> tuple[int, ...] | None:
    return block.sizes if isinstance(block, PackedBlock) else None
