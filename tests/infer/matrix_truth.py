# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the cells of the matrix are compared with: densities of models whose derivations are listed, in float64."""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from infer.matrix_cells import indicators
from infer.matrix_models import Model
from infer.tree_sums import tree_events
from priors.prior_cases import multinomials
from priors.small_grammars import Event, Small
from pyro import poutine
from scipy.special import gammaln
from torch import Tensor
from torch.distributions import biject_to

from pyrogram.distributions import Sentence
from pyrogram.grammar import Block, Grammar, Weights

Nodes = Mapping[str, Any]


def nodes_of(model: Model, values: Mapping[str, Tensor]) -> Nodes:
    """The sites of a model at values of its latent sites."""
    return dict(poutine.trace(poutine.condition(model, dict(values))).get_trace().nodes)


def is_sentence(site: Any) -> bool:
    return site["type"] == "sample" and isinstance(site["fn"], Sentence)


def sentences_of(words: Tensor) -> list[list[int]]:
    return [[w for w in row if w >= 0] for row in words.tolist()]


@functools.cache
def tables(grammar: Grammar, derivations: Any, sentence: tuple[int, ...]) -> Weights:
    """How often each derivation has each event, shape ``(D, *block.shape)`` by block."""
    listed = list(derivations(list(sentence)))
    found = {name: torch.zeros(len(listed), *block.shape) for name, block in grammar.blocks.items()}
    for d, events in enumerate(listed):
        for name, index in events:
            found[name][(d, *index)] += 1
    return found


def tables_of(small: Small, sentence: Sequence[int]) -> Weights:
    return tables(small.grammar, small.derivations, tuple(sentence))


def scores(counts: Weights, log_weights: Weights) -> Tensor:
    """Log weights of derivations, shape ``(*batch, D)``."""
    total: Tensor = torch.zeros(())
    for name, f in counts.items():
        logs = log_weights[name].clamp_min(-1e300)  # 0 * -inf
        total = total + (logs.flatten(logs.dim() - f.dim() + 1)[..., None, :] * f.flatten(1)).sum(-1)
    return total


def log_likelihood(small: Small, function: Sentence, words: Tensor) -> Tensor:
    """log p(words | weights) of all sentences, by the list of derivations, shape ``()``."""
    total = torch.zeros(())
    for i, sentence in enumerate(sentences_of(words)):
        own = {n: w[i] if w.dim() > len(small.grammar.blocks[n].shape) else w for n, w in function.weights.items()}
        total = total + scores(tables_of(small, sentence), {n: w.log() for n, w in own.items()}).logsumexp(-1)
    return total


def log_joint(small: Small, model: Model, values: Mapping[str, Tensor]) -> Tensor:
    """log p(sentences, latent values), with derivations, and indicators that have no value, summed out."""
    hidden = [name for name in indicators(model) if name not in values]
    if hidden:
        N = len(small.words)
        choices = [torch.tensor(z) for z in itertools.product(range(2), repeat=N)]
        joints = [log_joint(small, model, {**values, hidden[0]: z}) for z in choices]
        return torch.stack(joints).logsumexp(0)
    total = torch.zeros(())
    for site in nodes_of(model, values).values():
        if is_sentence(site):
            total = total + log_likelihood(small, site["fn"], site["value"])
        elif is_density(site):
            total = total + site["fn"].log_prob(site["value"]).sum()
    return total


def is_density(site: Any) -> bool:
    """Whether a site is latent, or observed and neither a sentence nor deterministic."""
    plain = site["type"] == "sample" and type(site["fn"]).__name__ != "_Subsample"
    return plain and not is_sentence(site) and not site["infer"].get("_deterministic", False)


def log_jacobian(model: Model, values: Mapping[str, Tensor]) -> Tensor:
    """Of the unconstrained coordinates of latent values."""
    total = torch.zeros(())
    for name, site in nodes_of(model, values).items():
        if name in values:
            transform = biject_to(site["fn"].support)
            total = total + transform.log_abs_det_jacobian(transform.inv(site["value"]), site["value"]).sum()
    return total


# ---------------------------------------------------------------------- derivations that are drawn


def events_of(small: Small, grammar: str, sentence: list[int], value: list[int]) -> list[Event]:
    """The events of a derivation, as the grammar's distribution of derivations writes it."""
    if grammar == "DMV":
        return tree_events(sentence, value[: len(sentence)], False)
    if grammar == "HMM":
        states = value[: len(sentence)]
        steps = zip(states, [*states[1:], 2], strict=True)
        words = zip(states, sentence, strict=True)
        return [
            ("initial", (states[0],)),
            *(("transition", step) for step in steps),
            *(("emission", pair) for pair in words),
        ]
    ends = np.cumsum([block.shape.numel() for block in small.grammar.blocks.values()])
    found: list[Event] = []
    for number in (v for v in value if v >= 0):  # of events, block after block
        b = int(np.searchsorted(ends, number, side="right"))
        name, block = list(small.grammar.blocks.items())[b]
        first = int(ends[b]) - block.shape.numel()
        found.append((name, tuple(int(i) for i in np.unravel_index(number - first, block.shape))))
    return found


def counts_of_each(small: Small, grammar: str, words: Tensor, derivations: Tensor) -> list[Weights]:
    """Events of a derivation of each sentence; the derivation is one of those that are listed."""
    found = []
    for sentence, value in zip(sentences_of(words), derivations.tolist(), strict=True):
        own = {name: torch.zeros(block.shape) for name, block in small.grammar.blocks.items()}
        for name, index in events_of(small, grammar, sentence, value):
            own[name][index] += 1
        listed = tables_of(small, sentence)
        same = torch.stack([(f == own[n]).flatten(1).all(1) for n, f in listed.items()]).all(0)
        assert bool(same.any()), "a derivation that is none of the sentence"
        found.append(own)
    return found


def log_dirichlet_multinomial(block: Block, counts: Tensor, alpha: Tensor) -> float:
    """log of the product of B(f + α) / B(α) over multinomials (Eq. 4 of Johnson, Griffiths and Goldwater 2007)."""
    f, a = counts.detach().numpy(), alpha.detach().expand(block.shape).numpy()
    total = 0.0
    for _, events in multinomials(block):
        own = np.array([a[e] for e in events])
        pseudo = own + np.array([f[e] for e in events])
        total += gammaln(pseudo).sum() - gammaln(pseudo.sum()) - gammaln(own).sum() + gammaln(own.sum())
    return float(total)


def sources_of(nodes: Nodes) -> dict[tuple[str, str], str]:
    """By Sentence site and block, the Dirichlet site that has its weights."""
    by_value = {id(site["value"]): name for name, site in nodes.items() if is_density(site)}
    return {
        (name, block): by_value[id(w)]
        for name, site in nodes.items()
        if is_sentence(site)
        for block, w in site["fn"].weights.items()
        if id(w) in by_value
    }


def log_collapsed(
    small: Small, model: Model, values: Mapping[str, Tensor], counts: Mapping[str, list[Weights]]
) -> float:
    """log p(latent values, derivations, sentences) with Dirichlets that are weights integrated out.

    :param values: of all other latent sites.
    :param counts: of each sentence, by Sentence site.
    """
    nodes = nodes_of(model, values)
    sources, total = sources_of(nodes), 0.0
    for name, site in nodes.items():
        if is_density(site) and name not in sources.values():
            total += float(site["fn"].log_prob(site["value"]).sum().detach())
    blocks, sums = {}, Weights()
    for site, each in counts.items():
        for i, own in enumerate(each):
            for block, f in own.items():
                source = sources.get((site, block))
                if source is not None:
                    blocks[source] = small.grammar.blocks[block]
                    sums[source] = sums[source] + f if source in sums else f
                    continue
                w = nodes[site]["fn"].weights[block]
                w = w[i] if w.dim() > f.dim() else w
                total += float((f[f > 0] * w[f > 0].log()).sum().detach())
    for source, f in sums.items():
        total += log_dirichlet_multinomial(blocks[source], f, concentration(nodes[source]["fn"]))
    return total


def concentration(function: Any) -> Tensor:
    while hasattr(function, "base_dist"):
        function = function.base_dist
    found: Tensor = function.concentration
    return found


# ---------------------------------------------------------------------- collapsed variational Bayes


class CollapsedField:
    """Q(t_1), ..., Q(t_N) as vectors over all derivations (Wang and Blunsom 2013, Figure 3).

    :param corpora: sentences by Sentence site.
    """

    def __init__(self, small: Small, corpora: Mapping[str, list[list[int]]], start: Mapping[str, Weights]) -> None:
        self.small = small
        self.tables = [(site, tables_of(small, s)) for site, own in corpora.items() for s in own]
        self.q = [scores(t, {n: w.log() for n, w in start[site].items()}).softmax(-1) for site, t in self.tables]

    def expected(self, sources: Mapping[tuple[str, str], str], without: int | None = None) -> Weights:
        """E[f] by source."""
        found: Weights = {}
        for i, ((site, t), q) in enumerate(zip(self.tables, self.q, strict=True)):
            for block, f in t.items() if i != without else ():
                mean, name = torch.tensordot(q, f, 1), sources[site, block]
                found[name] = found[name] + mean if name in found else mean
        return found

    def objective(self, sources: Mapping[tuple[str, str], str], alpha: Weights, blocks: Mapping[str, Block]) -> float:
        """Entropies, and the joint at expected counts."""
        entropies = -sum(float(torch.xlogy(q, q).sum()) for q in self.q)
        f = self.expected(sources)
        return entropies + sum(log_dirichlet_multinomial(blocks[n], f[n], alpha[n]) for n in f)

    def sweep(self, sources: Mapping[tuple[str, str], str], alpha: Weights, blocks: Mapping[str, Block]) -> None:
        for i, (site, t) in enumerate(self.tables):
            rest = self.expected(sources, without=i)
            logs = {}
            for block in t:
                name = sources[site, block]
                logs[block] = normalised(blocks[name], rest.get(name, torch.zeros(())) + alpha[name]).log()
            self.q[i] = scores(t, logs).softmax(-1)


def normalised(block: Block, pseudo: Tensor) -> Tensor:
    """Each multinomial divided by its sum."""
    out = pseudo.expand(block.shape).clone()
    for _, events in multinomials(block):
        total = math.fsum(float(out[e]) for e in events)
        for e in events:
            out[e] = out[e] / total
    return out


def pairs(nodes: Nodes) -> Iterator[tuple[str, list[list[int]]]]:
    """Sentence sites and their sentences."""
    return ((name, sentences_of(site["value"])) for name, site in nodes.items() if is_sentence(site))


# ---------------------------------------------------------------------- importance sampling


def log_evidence(small: Small, model: Model, num_draws: int) -> tuple[float, float]:
    """log p(sentences) by draws from the prior, and its standard error."""
    logs = []
    with torch.no_grad():
        for _ in range(num_draws):
            sites = [site for site in nodes_of(model, {}).values() if is_sentence(site)]
            logs.append(sum(float(log_likelihood(small, site["fn"], site["value"])) for site in sites))
    found = torch.tensor(logs)
    error = float((found.softmax(0) * num_draws).std()) / math.sqrt(num_draws)
    return float(found.logsumexp(0)) - math.log(num_draws), error
