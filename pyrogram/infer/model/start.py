# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where the loops start: weights for each source, from what the user gives or from a grammar's initialisers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pyrogram.grammar import Grammar, Weights

from .composed import TiedGrammar
from .structure import SentenceSite, TracedModel


def start_weights(traced: TracedModel, initial: Mapping[str, Tensor] | str | None) -> Weights:
    """Initial weights by source: normalised.

    :param initial: weights by source or block; or the name of an initialiser; or None: a ``pyro.param`` starts at its
        value, a Dirichlet site where the grammar's default initialiser says, and a logistic normal is left out.
    :raises ValueError: if a name is unknown, if a block is missing, or if weights are not what :func:`checked` needs.
    """
    if isinstance(initial, Mapping):
        known = set(traced.weight_sources)
        for site in traced.sentences:  # whose weights are given by block, tied or not
            known |= site.source_of_block.keys() | site.model_grammar.blocks.keys()
        unknown = set(initial) - known
        if unknown:
            raise ValueError(f"initial_weights has no use for {sorted(unknown)}, only for {sorted(known)}")
    start: Weights = {}
    initialised: dict[tuple[str, ...], list[tuple[SentenceSite, int, Weights]]] = {}
    for name, source in traced.weight_sources.items():
        users = [site for site in traced.sentences if name in site.source_of_block.values()]
        block = _block(users[0], name)
        if source.is_constant:
            start[name] = source.value
        elif source.is_computed and (initial is None or isinstance(initial, Mapping)):
            names = {name, block, name.removeprefix(f"{users[0].name}.")} & set(initial or {})
            if names:
                assert isinstance(initial, Mapping)
                start[name] = checked(traced, name, block, initial[min(names)])
        elif isinstance(initial, Mapping):
            start[name] = checked(traced, name, block, _source_weights(users[0], initial, name, block))
        elif initial is None and source.is_param:
            start[name] = checked(traced, name, block, source.value)
        elif initial is not None or source.logistic_normal is None:
            key = tuple(site.name for site in users)
            if key not in initialised:
                initialised[key] = _initialised(users, initial)
            terms = [size * weights[_block(site, name)] for site, size, weights in initialised[key]]
            start[name] = checked(traced, name, block, torch.stack(terms).sum(0))
    return start


def _source_weights(site: SentenceSite, initial: Mapping[str, Tensor], source: str, block: str) -> Tensor | None:
    """The weights of a source: given by its name or its block's, or from those of the blocks that are tied to it."""
    weights = initial.get(source, initial.get(block))
    grammar = site.grammar
    if weights is None and isinstance(grammar, TiedGrammar):
        if all(name in initial and initial[name].shape == b.shape for name, b in grammar.base.blocks.items()):
            weights = grammar.normalised_sums(initial)[source]
    return weights


def carried(traced: TracedModel, learnt: Weights) -> Weights:
    """Learnt weights that another model has a use for; a logistic normal starts at what its parameters have learnt."""
    weights = {}
    for name, source in traced.weight_sources.items():
        if source.is_computed or source.is_constant:
            continue
        if source.logistic_normal is None and name in learnt and learnt[name].shape == source.block.shape:
            weights[name] = learnt[name].to(source.value.device, source.value.dtype)
    return weights


def checked(traced: TracedModel, source: str, block: str, weights: Tensor | None) -> Tensor:
    """Given weights, normalised, in the dtype and on the device of the model's.

    :raises ValueError: if there are none, or if they have another shape, or are negative, NaN or infinite.
    """
    expected = traced.weight_sources[source].block
    if weights is None:
        raise ValueError(f"initial_weights lacks block {block!r} of shape {tuple(expected.shape)}")
    weights = torch.as_tensor(weights)
    if traced.weight_sources[source].probability is not None and weights.shape == expected.shape[:-1]:
        weights = traced.weight_sources[source].of_site(weights)
    if weights.shape != expected.shape:
        raise ValueError(
            f"initial_weights[{block!r}] must have shape {tuple(expected.shape)}, not {tuple(weights.shape)}"
        )
    if not bool(((weights >= 0) & (weights < torch.inf)).all()):
        raise ValueError(f"initial_weights[{block!r}] must be non-negative and finite")
    like = traced.weight_sources[source].value
    return expected.normalize(weights.detach().to(like.device, like.dtype))


def _initialised(sites: Sequence[SentenceSite], method: str | None) -> list[tuple[SentenceSite, int, Weights]]:
    """The initial weights of each grammar of some sites from the words of all its sites: one of these, and how many."""
    corpora: list[list[SentenceSite]] = []
    for site in sites:
        alike = [corpus for corpus in corpora if _same(corpus[0].grammar, site.grammar)]
        if alike:
            alike[0].append(site)
        else:
            corpora.append([site])
    options, initialised = () if method is None else (method,), []
    for corpus in corpora:
        width = max(site.words.shape[-1] for site in corpus)
        padded = [torch.nn.functional.pad(s.words, (0, width - s.words.shape[-1]), value=-1) for s in corpus]
        words = torch.cat(padded)
        initialised.append((corpus[0], len(words), corpus[0].grammar.initial_weights(words, *options)))
    return initialised


def _same(one: Grammar, other: Grammar) -> bool:
    """Whether two grammars have the same words and events, so that their corpora are one corpus."""
    if one is other:
        return True
    alike = type(one) is type(other) and (one.identity, one.num_words) == (other.identity, other.num_words)
    return alike and dict(one.blocks) == dict(other.blocks)


def _block(site: SentenceSite, source: str) -> str:
    """The first block of a site's grammar that has its weights from a source."""
    return next(block for block, name in site.source_of_block.items() if name == source)
