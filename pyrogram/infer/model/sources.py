# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The sources of the weights of sentences, by name: whole sites, selections of their entries, constants.

Logistic normals that are weights, and nothing else, have Gaussians with a q that Newton's method moves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pyrogram.distributions import Gaussian, Sentence
from pyrogram.event_map import first_events, num_events
from pyrogram.grammar import Block, Grammar, PackedBlock, Weights
from pyrogram.sentences import Sentences

from .composed import TiedGrammar
from .selection import Computed, Origins, Selection
from .sites import is_latent, is_learnt, is_left_out
from .structure import ModelError, SentenceSite, WeightSource, leaf_of

ELSEWHERE = "VariationalEM, TreeGibbs, or pyro.infer.SVI with a guide, can"


class WeightReader:
    """Finds the sources of the weights of Sentence sites.

    :param candidates: what weights may come from, by name.
    :param origins: what blocks are, by site.
    :param loop: the name of the loop, for messages.
    :param reasons: of multinomials that are no candidates, why not, in words.
    """

    def __init__(
        self,
        candidates: Mapping[str, WeightSource],
        origins: Mapping[str, Origins],
        loop: str,
        reasons: Mapping[str, str],
    ) -> None:
        self.loop, self._reasons, self._origins = loop, reasons, origins
        self.used: dict[str, WeightSource] = {}
        self._by_name = candidates

    def site(self, name: str, function: Sentence, sentences: Sentences) -> SentenceSite:
        """A site with the sources of its blocks.

        :param sentences: all of them.
        :raises ModelError: if the weights, a bias or evidence cannot be learnt, but should.
        """
        for kind, learnt in ("bias", function.grammar.bias.is_learnt), ("evidence", sentences.is_learnt):
            if learnt:
                raise ModelError(f"{self.loop} cannot learn the {kind} of site {name!r}; detach it, or {ELSEWHERE}")
        origins = {block: self._source(name, block, function) for block in function.grammar.blocks}
        whole = {block: source for block, source in origins.items() if isinstance(source, WeightSource)}
        if len(whole) == len(origins):
            whole = {block: self._whole(name, block, s, function, len(sentences)) for block, s in whole.items()}
            is_each_once = len({source.name for source in whole.values()}) == len(whole)
            if is_each_once or any(source.per_sentence and not source.is_computed for source in whole.values()):
                self.used.update({source.name: source for source in whole.values()})
                names = {block: source.name for block, source in whole.items()}
                return SentenceSite(name, function.observed_grammar, sentences, names)
        return self._tied(name, function.observed_grammar, sentences, {**origins, **whole})

    def _source(self, site: str, name: str, function: Sentence) -> WeightSource | Selection:
        """The source that a block is, if it is the whole of one, constants, or computed."""
        block, origin = function.grammar.blocks[name], self._origins[site][name]
        if isinstance(origin, Computed) or not self._by_name.keys() >= set(origin.sources):
            return self._computed(site, name, function, origin)
        if not origin.sources:
            return WeightSource(f"{site}.{name}", block, origin.constants, is_constant=True)
        source = None if origin.whole is None else self._by_name[origin.whole]
        return source if source is not None and source.block.shape == block.shape else origin

    def _computed(self, site: str, name: str, function: Sentence, origin: Selection | Computed) -> WeightSource:
        """The source that a block is whose weights are computed, or made of entries of no candidates."""
        cause = origin.cause if isinstance(origin, Computed) else f"made of {' and '.join(map(repr, origin.sources))}"
        if isinstance(origin, Computed) and not origin.is_followed:
            raise ModelError(
                f"{self.loop} cannot learn block {name!r} of site {site!r}, which is {cause}; make parameters known by "
                "pyro.module or pyro.param, and let gradients through"
            )
        block = function.grammar.blocks[name]
        value = of_each(function.log_weights[name].detach(), block, function).exp()
        if isinstance(origin, Selection):
            cause = "".join([cause, *dict.fromkeys(self._reasons.get(x, "") for x in origin.sources)])
        per_sentence = value.dim() > len(block.shape)
        return WeightSource(f"{site}.{name}", block, value, per_sentence=per_sentence, computed_from=cause)

    def _whole(
        self, site: str, name: str, source: WeightSource, function: Sentence, num_sentences: int
    ) -> WeightSource:
        """A source that is a block as it stands.

        :raises ModelError: if its multinomials are not those of the block, or if they are some sentences' own.
        """
        if source.is_computed or source.is_constant:
            return source
        block, per_sentence = function.grammar.blocks[name], False
        weights = function.weights or function.log_weights  # no logarithms of what is expanded over sentences
        shape = weights[name].shape
        batch = tuple(shape[: len(shape) - len(block.shape)])
        if batch and source.value.dim() >= len(shape):  # otherwise one grammar may be expanded over sentences
            per_sentence = source.logistic_normal is not None and batch == (num_sentences,)
            if not per_sentence:
                raise ModelError(
                    f"{self.loop} needs one grammar for all sentences, or a logistic normal for each, but block "
                    f"{name!r} of site {site!r} has the batch shape {batch}; {ELSEWHERE}"
                )
        if source.logistic_normal is not None and _sizes(source.block) != _sizes(block):
            raise ModelError(
                f"{self.loop} needs a logistic normal for each multinomial of block {name!r} of site {site!r}, but "
                f"{source.name!r} has others; draw it with shape=grammar.blocks[{name!r}]"
            )
        if source.concentration is not None and _sizes(source.block) != _sizes(block):
            raise ModelError(
                f"{self.loop} needs a Dirichlet for each multinomial of block {name!r} of site {site!r}, but "
                f"{source.name!r} has others; make it by dirichlet_prior(grammar.blocks[{name!r}], concentration)"
            )
        return replace(source, block=block, per_sentence=per_sentence)

    def _tied(
        self, name: str, grammar: Grammar, sentences: Sentences, origins: Mapping[str, WeightSource | Selection]
    ) -> SentenceSite:
        """A site some of whose blocks are selections: its grammar is one over the sources."""
        sources: dict[str, WeightSource] = {}
        for origin in origins.values():
            found = [origin] if isinstance(origin, WeightSource) else [self._by_name[x] for x in origin.sources]
            sources.update({source.name: source for source in found})
        for source in sources.values():
            if source.value.dim() > len(source.block.shape) and not source.is_computed:
                raise ModelError(
                    f"{self.loop} cannot tie {source.name!r}, which each sentence has of its own; {ELSEWHERE}"
                )
        blocks, entries = {name: source.block for name, source in sources.items()}, Weights()
        first, following = first_events(blocks), num_events(blocks)
        constants: list[Tensor] = []
        for block, origin in origins.items():
            if isinstance(origin, WeightSource):
                shape = origin.block.shape
                entries[block] = first[origin.name] + torch.arange(shape.numel()).reshape(shape)
                continue
            offsets = torch.tensor([first[source] for source in origin.sources] + [0])  # the last is that of constants
            entries[block], fixed = offsets[origin.source] + origin.entry, origin.source < 0
            constants.append(origin.constants[fixed])
            entries[block][fixed] = following + torch.arange(len(constants[-1]))
            following += len(constants[-1])
        if following > num_events(blocks):
            values = torch.cat(constants)
            sources[f"{name}.constants"] = WeightSource(
                f"{name}.constants", Block(values.shape), values, is_constant=True
            )
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


# ---------------------------------------------------------------------- logistic normals


def held_normals(
    nodes: Mapping[str, Any],
    normals: Mapping[str, WeightSource],
    origins: Mapping[str, Origins],
    multinomials: Collection[str],
    reached: Mapping[str, set[int]],
) -> dict[str, Gaussian] | None:
    """The Gaussian sites of the logistic normals of a model, if all can have a q that Newton's method moves.

    All weights then are made of logistic normals and other multinomials. Nothing else is latent, scaled or masked; only
    priors have densities that depend on something, which is a parameter; and there are no parameters but these.

    :param normals: the logistic normals.
    :param origins: what blocks are made of, by site.
    :param multinomials: other sources.
    :param reached: by site, the ids of the leaves that its density depends on.
    """
    latent = {n: s for n, s in nodes.items() if is_latent(s)}
    gaussians = {n: s for n, s in latent.items() if "gaussian" in s["infer"]}
    structures = {n: s.logistic_normal for n, s in normals.items() if s.logistic_normal is not None}
    needed = {name for normal in structures.values() for name in normal.sites.values()}
    blocks = [block for by_block in origins.values() for block in by_block.values()]
    selections = [block for block in blocks if not isinstance(block, Computed)]
    untied = {selection.whole for selection in selections}
    selected = {name for selection in selections for name in selection.sources}
    computed = len(selections) < len(blocks)
    if not normals or computed or not normals.keys() <= selected <= {*normals, *multinomials}:
        return None
    for name in normals.keys() - untied:  # its entries are tied, which those of each sentence cannot be
        if normals[name].value.shape != normals[name].block.shape:
            return None
    if gaussians.keys() != needed or latent.keys() - gaussians.keys() - set(multinomials):
        return None
    sites = [s for s in nodes.values() if s["type"] == "sample" and not is_left_out(s)]
    if any(s["mask"] is not None or bool((torch.as_tensor(s["scale"]) != 1).any()) for s in sites):
        return None
    parameters = {id(leaf_of(s["value"])) for n, s in nodes.items() if is_learnt(s) and n not in multinomials}
    priors = {n: leaves - {id(nodes[n]["value"])} for n, leaves in reached.items()}
    if any(leaves - parameters if n in latent else leaves for n, leaves in priors.items()):
        return None
    if parameters - set().union(*priors.values()):
        return None
    for normal in structures.values():
        for family, name in normal.sites.items():
            if len(gaussians[name]["infer"]["gaussian"].shape) > len(normal.structure.experts[family].shape):
                return None  # a mean for each element of a plate
    return {name: site["infer"]["gaussian"] for name, site in gaussians.items()}


def expanded_mean(site: Any) -> Tensor:
    """The mean of a Gaussian site, in the shape of a draw: a view, however many sentences there are."""
    loc: Tensor = site["infer"]["gaussian"].loc
    return loc.expand(site["fn"].batch_shape + site["fn"].event_shape)
