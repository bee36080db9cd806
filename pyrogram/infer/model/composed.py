# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars whose weights are those of another grammar in another arrangement: tied ones, and mixtures.

Where weights are tied, they are entries of other multinomials: tied rows, expanded ones, pairs [p, 1 - p], constants.
Every event e of the grammar has the weight of an entry s(e) of some *source*. So log Z as a function of the sources
has the gradient sum over e with s(e) = s of the expected count of e, and the sources are blocks of a grammar like any
other.

In a mixture each sentence is of one of K components, which nobody sees. Component k has the share m[k] and weights w_k,
so log Z = log sum_k m[k] Z(x; w_k). That is a grammar again, whose derivations say the component, too. Its blocks are
the shares and those of every component.
"""

from __future__ import annotations

import copy
import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from pyrogram.bias import Bias
from pyrogram.event_map import first_events, joined, sums_of_entries
from pyrogram.grammar import Block, Grammar, Weights, logarithms
from pyrogram.sentences import Evidence, Known, Sentences
from pyrogram.sweeps.compiled import RecursiveUpdates
from pyrogram.sweeps.mixed import MixedUpdates, mixed_plan
from pyrogram.sweeps.plain import CollapsedUpdates
from pyrogram.tree_statistics import Statistic, ready_made


class ComposedGrammar(Grammar):
    """A grammar that derives sentences as another one does, its base, whose bias and evidence are its own.

    :param base: the other grammar.
    :param blocks: of this grammar.
    """

    def __init__(self, base: Grammar, blocks: Mapping[str, Block]) -> None:
        self.base, self.bias, self._blocks = base, base.bias, dict(blocks)

    @property
    def blocks(self) -> Mapping[str, Block]:
        return self._blocks

    @property
    def num_words(self) -> int:
        return self.base.num_words

    def rows_of_base(self, derivations: Tensor) -> Tensor:
        """Derivations as the base grammar has them."""
        return derivations

    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor | Sentences,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
    ) -> Any:
        return self._law(logarithms(weights, log_weights), words)

    @abstractmethod
    def _law(self, log_weights: Mapping[str, Tensor], words: Tensor | Sentences) -> Any:
        """p(y | x, w), from log weights by block."""

    def evidence(self, known: Known | None) -> Evidence | None:
        return self.base.evidence(known)

    def tilted(self, bias: Bias | Mapping[str, Tensor] | Tensor) -> Self:
        """The same over the tilted base: the bias is one of the events of the base grammar."""
        return self._over(self.base.tilted(bias))

    def without_parts(self) -> Self:
        return self._over(self.base.without_parts())

    def at_temperature(self, temperature: float) -> Self:
        return self._over(self.base.at_temperature(temperature))

    def _over(self, base: Grammar) -> Self:
        composed = copy.copy(self)
        composed.base, composed.bias = base, base.bias
        return composed


class ComposedUpdates(CollapsedUpdates):
    """Sweeps in plain torch; tilts and parts are those of derivations of the base grammar.

    :param base: sweeps of the base grammar over the same sentences.
    """

    def __init__(self, grammar: ComposedGrammar, words: Tensor | Sentences, base: CollapsedUpdates) -> None:
        super().__init__(grammar, words)
        self._base = base

    def log_tilt(self, trees: Tensor) -> Tensor:
        return self._base.log_tilt(self.grammar.rows_of_base(trees))

    def parts(self, trees: Tensor) -> Tensor:
        return self._base.parts(self.grammar.rows_of_base(trees))


# ---------------------------------------------------------------------- tied weights


class TiedGrammar(ComposedGrammar):
    """A grammar over the sources of the weights of another one.

    :param base: the other grammar.
    :param sources: the sources, which are the blocks of this grammar, by name.
    :param entries: by block of the base grammar, the entry of each event, shape ``block.shape``: an index into all
        sources, flattened and one after the other.
    """

    def __init__(self, base: Grammar, sources: Mapping[str, Block], entries: Mapping[str, Tensor]) -> None:
        super().__init__(base, sources)
        self.entries = dict(entries)

    @property
    def identity(self) -> str:
        digest = hashlib.sha256()
        for name, entries in self.entries.items():
            digest.update(f"{name}{tuple(entries.shape)}".encode())
            digest.update(entries.cpu().contiguous().numpy().tobytes())
        return f"{self.base.identity} tied {digest.hexdigest()}"

    # ------------------------------------------------------------------ from sources to events, and back

    def by_event(self, values: Mapping[str, Tensor]) -> Weights:
        """Values of entries, ``(*batch, *source.shape)`` by source, as values of events by block of the base."""
        flat = joined(values, self._blocks)
        return {
            name: flat.index_select(-1, entries.to(flat.device).flatten()).unflatten(-1, entries.shape)
            for name, entries in self.entries.items()
        }

    def by_entry(self, counts: Mapping[str, Tensor]) -> Weights:
        """Values of events, ``(*batch, *block.shape)`` by block of the base, summed over those of each entry."""
        return sums_of_entries(counts, self._blocks, self.entries)

    def sources_of_blocks(self) -> dict[str, list[str]]:
        """By block of the base grammar, the sources of its weights."""
        names, firsts = list(self._blocks), torch.tensor(list(first_events(self._blocks).values()))
        numbers = {b: torch.searchsorted(firsts, e.cpu().unique(), right=True) - 1 for b, e in self.entries.items()}
        return {block: [names[i] for i in n.unique().tolist()] for block, n in numbers.items()}

    # ------------------------------------------------------------------ a grammar

    def log_partition(self, log_weights: Mapping[str, Tensor], words: Tensor | Sentences) -> Tensor:
        return self.base.log_partition(self.by_event(log_weights), words)

    def expected_counts(self, log_weights: Mapping[str, Tensor], words: Tensor | Sentences) -> tuple[Tensor, Weights]:
        log_z, counts = self.base.expected_counts(self.by_event(log_weights), words)
        return log_z, self.by_entry(counts)

    def _law(self, log_weights: Mapping[str, Tensor], words: Tensor | Sentences) -> Any:
        """The derivations of the base grammar; their counts are those of the sources' entries."""
        return _TiedDerivation(self, self.base.derivation(None, words, log_weights=self.by_event(log_weights)))

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        base = self.base.collapsed_updates(words)
        return base.tied(self, self.entries) or ComposedUpdates(self, words, base)

    def initial_weights(self, words: Tensor, *method: Any, **options: Any) -> Weights:
        """The base grammar's, summed over the events of each entry and normalised."""
        return self.normalised_sums(self.base.initial_weights(words, *method, **options))

    def normalised_sums(self, weights: Mapping[str, Tensor]) -> Weights:
        """Weights of the sources from weights of events, by block of the base."""
        return {name: self._blocks[name].normalize(total) for name, total in self.by_entry(weights).items()}


class _TiedDerivation:
    """A distribution over derivations whose counts are summed over the events of each entry."""

    def __init__(self, grammar: TiedGrammar, base: Any) -> None:
        self._grammar, self._base = grammar, base

    def expected_counts(self) -> Weights:
        return self._grammar.by_entry(self._base.expected_counts())

    def counts(self, value: Tensor) -> Weights:
        return self._grammar.by_entry(self._base.counts(value))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)


# ---------------------------------------------------------------------- mixtures


class MixtureGrammar(ComposedGrammar):
    """K components of one grammar. Block b of component k is ``"b[k]"``.

    :param base: the grammar of the components.
    :param indicator: the site that says the component, after which the block of shares is named, shape ``(K,)``.
    """

    def __init__(self, base: Grammar, indicator: str, num_components: int) -> None:
        self.indicator, self.num_components = indicator, num_components
        blocks = {indicator: Block(torch.Size([num_components]))}
        for k in range(num_components):
            blocks |= {f"{name}[{k}]": block for name, block in base.blocks.items()}
        super().__init__(base, blocks)

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        return {f"{name}[{k}]": axes for k in range(self.num_components) for name, axes in self.base.axes.items()}

    @property
    def identity(self) -> str:
        return f"{self.num_components} times {self.base.identity}"

    def component(self, values: Mapping[str, Tensor], k: int) -> Weights:
        """Values of one component, by block of its grammar."""
        return {name: values[f"{name}[{k}]"] for name in self.base.blocks}

    def rows_of_base(self, derivations: Tensor) -> Tensor:
        return derivations[..., 1:].contiguous()

    def log_partition(self, log_weights: Mapping[str, Tensor], words: Tensor | Sentences) -> Tensor:
        terms = [self.base.log_partition(logs, words) + share for logs, share in self._components(log_weights)]
        return _log_sum(torch.stack(terms))

    def _law(self, log_weights: Mapping[str, Tensor], words: Tensor | Sentences) -> Any:
        return _MixtureDerivation(self, log_weights, words)

    def collapsed_updates(self, words: Tensor | Sentences) -> CollapsedUpdates:
        base = self.base.collapsed_updates(words)
        if isinstance(base, RecursiveUpdates) and base.can_be_mixed:
            return MixedUpdates(self, mixed_plan(self.blocks, base.plan, self.num_components))
        return ComposedUpdates(self, words, base)

    def initial_weights(self, words: Tensor, *method: Any, **options: Any) -> Weights:
        """Those of the grammar, each component's disturbed in its own way: components that are alike stay alike."""
        weights = {self.indicator: self._blocks[self.indicator].uniform(torch.ones((), device=words.device))}
        for k in range(self.num_components):
            generator = torch.Generator().manual_seed(k)
            for name, w in self.base.initial_weights(words, *method, **options).items():
                noise = torch.rand(w.shape, generator=generator, dtype=torch.float64).to(w) + 0.5
                weights[f"{name}[{k}]"] = self.base.blocks[name].normalize(w * noise)
        return weights

    def _components(self, log_weights: Mapping[str, Tensor]) -> Iterator[tuple[Weights, Tensor]]:
        for k in range(self.num_components):
            yield self.component(log_weights, k), log_weights[self.indicator][..., k]


class _MixtureDerivation:
    """Of each sentence its component and its derivation: rows ``[k, *derivation]``."""

    def __init__(self, grammar: MixtureGrammar, log_weights: Mapping[str, Tensor], words: Tensor | Sentences) -> None:
        self.grammar, self._log_weights, self._sentences = grammar, log_weights, grammar.sentences(words)
        pairs = list(grammar._components(log_weights))
        self.components = [grammar.base.derivation(None, words, log_weights=logs) for logs, _ in pairs]
        joint = [d.log_partition + share for d, (_, share) in zip(self.components, pairs, strict=True)]
        self._joint = torch.stack(torch.broadcast_tensors(*joint))
        self.batch_shape = self._joint.shape[1:]
        self.event_shape = torch.Size([self.components[0].event_shape[0] + 1])
        self.support = self

    @property
    def log_partition(self) -> Tensor:
        return _log_sum(self._joint)

    def check(self, value: Tensor) -> Tensor:
        """As a support: which rows are a component and a derivation."""
        support: Any = self.components[0].support
        inside: Tensor = (value[..., 0] >= 0) & (value[..., 0] < self.grammar.num_components)
        return inside & torch.as_tensor(support.check(value[..., 1:]))

    def sample(self) -> Tensor:
        base = self.grammar.base
        with torch.no_grad():
            chosen = torch.distributions.Categorical(logits=self._joint.movedim(0, -1)).sample()
            sentences = self._sentences.flat(self.batch_shape)
            drawn = sentences.words.new_full((len(sentences), self.event_shape[0] - 1), -1)
            for k in chosen.unique().tolist():  # of each sentence its own component: others may not derive it
                rows = (chosen.reshape(-1) == k).nonzero()[:, 0]
                logs = {}
                for name, w in self.grammar.component(self._log_weights, k).items():
                    shape = base.blocks[name].shape
                    each = w.dim() > len(shape)
                    logs[name] = w.expand(*self.batch_shape, *shape).reshape(-1, *shape)[rows] if each else w
                drawn[rows] = base.derivation(None, sentences[rows], log_weights=logs).sample()
        return torch.cat([chosen[..., None], drawn.reshape(*self.batch_shape, -1)], -1)

    def counts(self, value: Tensor) -> Weights:
        shares = torch.nn.functional.one_hot(value[..., 0], self.grammar.num_components)
        return self._weighted(shares.movedim(-1, 0).double(), [d.counts(value[..., 1:]) for d in self.components])

    def expected_counts(self) -> Weights:
        possible = self.log_partition > -torch.inf  # a sentence without a derivation counts nothing
        shares = torch.where(possible, torch.where(possible, self._joint, 0.0).softmax(0), 0.0)
        return self._weighted(shares, [d.expected_counts() for d in self.components])

    def _weighted(self, shares: Tensor, counts: list[Weights]) -> Weights:
        """Counts of components times their shares, ``(K, *batch)``."""
        by_block = {self.grammar.indicator: shares.movedim(0, -1)}
        for k, component in enumerate(counts):
            for name, c in component.items():
                block = self.grammar.base.blocks[name]
                by_block[f"{name}[{k}]"] = c * shares[k].reshape(*shares.shape[1:], *(1 for _ in block.shape))
        return by_block


@ready_made.register
def _(support: _MixtureDerivation) -> dict[str, Statistic]:
    """Those of the derivations, whichever component they are of."""

    def without_component(statistic: Statistic) -> Statistic:
        return lambda words, rows: statistic(words, rows[..., 1:])

    first: Any = support.components[0]
    return {name: without_component(statistic) for name, statistic in ready_made(first.support).items()}


def _log_sum(joint: Tensor) -> Tensor:
    """The log of a sum over the first dimension, whose gradient is zero where all are minus infinity."""
    possible = (joint > -torch.inf).any(0)
    return torch.where(possible, torch.where(possible, joint, 0.0).logsumexp(0), -torch.inf)
