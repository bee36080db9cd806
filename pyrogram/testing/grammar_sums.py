# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars: sums over derivations against lists of them, counts against gradients, and degenerate weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.grammar import Weights

from .cases import GrammarCase, seeded, weighted_sum
from .compare import close, has_shape, require
from .gradients import differences


def check_blocks(case: GrammarCase) -> None:
    """Blocks have names and shapes; normalize makes multinomials, uniform ones of zeros."""
    require(len(case.grammar.blocks) > 0, "the grammar has no blocks")
    require(case.grammar.num_words >= 1, "the grammar has no words")
    for name, block in case.grammar.blocks.items():
        like = torch.ones((), dtype=torch.float64)
        has_shape(block.uniform(like), tuple(block.shape), f"the uniform weights of {name!r}")
        for batch in ((), (2, 3)):
            values = torch.rand(*batch, *block.shape, dtype=torch.float64)
            totals = block.totals(block.normalize(values))
            close(totals, torch.ones_like(totals), f"totals of the normalised block {name!r}")
            close(
                block.normalize(torch.zeros_like(values)),
                block.uniform(values).expand(values.shape).clone(),
                f"the normalised zeros of {name!r}",
            )


def check_log_prob(case: GrammarCase) -> None:
    """Sentence.log_prob is the log of the total weight of the derivations, normalised weights or not."""
    for factor in (1.0, 3.0):
        weights = {name: factor * w for name, w in case.weights().items()}
        sentence = Sentence(case.grammar, weights, normalized=factor == 1)
        log_prob = sentence.log_prob(case.words)
        for b, words in enumerate(case.sentences()):
            log_z, _ = _enumerated(case, weights, words)
            close(log_prob[b], log_z, f"log_prob of {words.tolist()}")
            close(sentence.log_prob(words), log_z, f"log_prob of {words.tolist()} alone")


def check_log_weights(case: GrammarCase) -> None:
    """log_weights= and weights= mean the same."""
    weights = case.weights((2,))
    log_weights = {name: w.log() for name, w in weights.items()}
    words = case.words[:2]
    by_log, by_weight = Sentence(case.grammar, log_weights=log_weights), Sentence(case.grammar, weights)
    close(by_log.log_prob(words), by_weight.log_prob(words), "log_prob with log_weights=")
    derivation = case.grammar.derivation(None, words, log_weights=log_weights)
    close(case.grammar.derivation(weights, words).log_partition, derivation.log_partition, "derivation(weights)")


def check_padding(case: GrammarCase) -> None:
    """A padded batch is its sentences one by one, however much padding there is."""
    sentence = Sentence(case.grammar, case.weights())
    wider = torch.nn.functional.pad(case.words, (0, 3), value=-1)
    close(sentence.log_prob(wider), sentence.log_prob(case.words), "log_prob with more padding")
    one_by_one = torch.stack([sentence.log_prob(words) for words in case.sentences()])
    close(sentence.log_prob(case.words), one_by_one, "log_prob of a batch")
    close(sentence.log_prob(case.words[:, None])[:, 0], one_by_one, "log_prob of a batch of two dimensions")
    logs = sentence.log_weights
    close(
        case.grammar.expected_counts(logs, wider)[1],
        case.grammar.expected_counts(logs, case.words)[1],
        "expected_counts with more padding",
    )


def check_expected_counts(case: GrammarCase) -> None:
    """expected_counts: the gradient of log Z, the derivations' sum, and the mean over the list of them."""
    weights = case.weights()
    logs = {name: w.log().requires_grad_() for name, w in weights.items()}
    log_z, counts = case.grammar.expected_counts(logs, case.words)
    require(not any(c.requires_grad for c in counts.values()), "expected_counts keeps a graph")
    expected_log_z = case.grammar.log_partition(logs, case.words)
    close(log_z, expected_log_z, "log Z of expected_counts")
    gradients = torch.autograd.grad(expected_log_z.sum(), list(logs.values()))
    close(counts, dict(zip(logs, gradients, strict=True)), "expected_counts against the gradient of log_partition")
    derivation: Any = case.grammar.derivation(weights, case.words)
    summed = {name: c.sum(0) for name, c in derivation.expected_counts().items()}
    close(counts, summed, "expected_counts against those of derivation()")
    enumerated = [_enumerated(case, weights, words)[1] for words in case.sentences()]
    total = {name: torch.stack([c[name] for c in enumerated]).sum(0) for name in weights}
    close(counts, total, "expected_counts against enumeration")


def check_derivation(case: GrammarCase) -> None:
    """derivation(words): the posterior; its log Z is the sentence's log_prob, and counts give the joint."""
    weights = case.weights()
    sentence = Sentence(case.grammar, weights)
    for words in case.sentences():
        for d in (case.grammar.derivation(weights, words), sentence.derivation(words)):
            posterior: Any = d
            close(posterior.log_partition, sentence.log_prob(words), f"log_partition of {words.tolist()}")
            values = posterior.enumerate_support()
            joint = posterior.log_prob(values) + posterior.log_partition
            close(_score(posterior.counts(values), weights), joint, f"counts of {words.tolist()} times log weights")
            counts = getattr(case.grammar, "counts", None)
            if counts is not None:
                by_grammar = counts(words.expand(len(values), -1), values)
                close(by_grammar, posterior.counts(values), "grammar.counts(words, derivation)")


def check_batched_weights(case: GrammarCase) -> None:
    """One grammar per sentence is a loop over grammars; batches of weights and words broadcast."""
    N = len(case.words)
    weights = case.weights((N,))
    each = [{name: w[b] for name, w in weights.items()} for b in range(N)]
    looped = torch.stack([Sentence(case.grammar, each[b]).log_prob(case.words[b]) for b in range(N)])
    d = Sentence(case.grammar, weights)
    require(tuple(d.batch_shape) == (N,), f"batch_shape is {tuple(d.batch_shape)}, not {(N,)}")
    close(d.log_prob(case.words), looped, "log_prob with one grammar per sentence")
    posterior: Any = d.derivation(case.words)
    close(posterior.log_partition, looped, "derivation with one grammar per sentence")
    for b in range(N):
        single: Any = case.grammar.derivation(each[b], case.words[b])
        counts = {name: c[b] for name, c in posterior.expected_counts().items()}
        close(counts, single.expected_counts(), "expected_counts with one grammar per sentence")
    crossed = Sentence(case.grammar, {name: w[:, None] for name, w in weights.items()}).log_prob(case.words)
    rows = torch.stack([Sentence(case.grammar, each[b]).log_prob(case.words) for b in range(N)])
    close(crossed, rows, "log_prob of every sentence under every grammar")
    one = next(iter(weights))
    mixed = {name: w if name == one else w[0] for name, w in weights.items()}
    by_hand = [Sentence(case.grammar, {**each[0], one: each[b][one]}).log_prob(case.words[b]) for b in range(N)]
    close(Sentence(case.grammar, mixed).log_prob(case.words), torch.stack(by_hand), "only one block with a batch")


def check_rows(case: GrammarCase) -> None:
    """rows: the multinomials of each sentence; under weights of its own, log Z and counts are those of batches."""
    N = len(case.words)
    leaves = {name: w.log().requires_grad_() for name, w in case.weights((N,)).items()}
    expected_log_z = case.grammar.log_partition(leaves, case.words)
    expected = dict(zip(leaves, torch.autograd.grad(expected_log_z.sum(), list(leaves.values())), strict=True))
    rows = case.grammar.sentence_multinomials(case.words)
    tables = {}
    for name, block in case.grammar.blocks.items():
        K = block.shape[:-1].numel()
        sentence, multinomial = rows.sentence[name], rows.multinomial[name]
        has_shape(multinomial, tuple(sentence.shape), f"the multinomials of the rows of {name!r}")
        require(((0 <= multinomial) & (multinomial < K)).all(), f"the rows of {name!r} have no such multinomial")
        places = sentence * K + multinomial
        require((places[1:] > places[:-1]).all(), f"the rows of {name!r} are not sorted")
        tables[name] = leaves[name].detach().reshape(N, K, -1)[sentence, multinomial]

    def compare(log_weights: Weights, wanted: Tensor | None, log_z: Tensor, counts: Mapping[str, Tensor]) -> None:
        before = {name: t.clone() for name, t in log_weights.items()}
        actual, actual_counts = rows.expected_counts(log_weights, wanted)
        close(log_weights, before, "log_weights after expected_counts of rows", atol=0.0, rtol=0.0)
        require(not any(c.requires_grad for c in actual_counts.values()), "expected_counts of rows keeps a graph")
        close(actual, log_z, "log Z of rows")
        for name, c in counts.items():
            has_shape(actual_counts[name], tuple(log_weights[name].shape), f"the counts of the rows of {name!r}")
            place = rows.sentence[name], rows.multinomial[name]
            dense = torch.zeros_like(c).reshape(N, -1, c.shape[-1]).index_put(place, actual_counts[name])
            close(dense.reshape(c.shape), c, f"counts of the rows of {name!r}")

    compare(tables, None, expected_log_z, expected)
    some = torch.arange(1, N, 2)
    mask = torch.zeros(N, dtype=torch.float64).index_fill(0, some, 1.0)
    kept = {name: c * mask.reshape(-1, *(1 for _ in c.shape[1:])) for name, c in expected.items()}
    compare(tables, some, expected_log_z * mask, kept)
    compare(tables, some[:0], torch.zeros(N, dtype=torch.float64), {name: 0 * c for name, c in expected.items()})
    # The first sentence becomes impossible, which spoils no other.
    without = {n: t.masked_fill((rows.sentence[n] == 0)[:, None], -torch.inf) for n, t in tables.items()}
    rest = torch.arange(N) > 0
    kept = {name: c * rest.reshape(-1, *(1 for _ in c.shape[1:])) for name, c in expected.items()}
    compare(without, None, torch.where(rest, expected_log_z, -torch.inf), kept)


def check_zero_weights(case: GrammarCase) -> None:
    """Weights of zero forbid events: log_prob as enumerated, -inf if nothing is left, gradients finite."""
    for seed in range(6):
        with seeded(seed):
            weights = {n: w * (torch.rand(w.shape) > 0.25) for n, w in case.weights(seed=seed).items()}
        truth = [_enumerated(case, weights, words) for words in case.sentences()]
        expected = torch.stack([log_z for log_z, _ in truth])
        leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
        log_prob = Sentence(case.grammar, leaves, normalized=False).log_prob(case.words)
        close(log_prob, expected, "log_prob with weights of zero")
        summed = {name: torch.stack([counts[name] for _, counts in truth]).sum(0) for name in weights}
        gradients = torch.autograd.grad(log_prob.sum(), list(leaves.values()))
        for (name, w), gradient in zip(weights.items(), gradients, strict=True):
            require(gradient.isfinite().all(), f"the gradient in {name!r} is not finite if weights are zero")
            close(w * gradient, summed[name], f"weights times gradient in {name!r}, with weights of zero")
        logs = {name: w.log() for name, w in weights.items()}
        close(case.grammar.expected_counts(logs, case.words)[1], summed, "expected_counts with weights of zero")


def check_impossible_sentences(case: GrammarCase) -> None:
    """What the grammar cannot generate has log_prob -inf, no counts, no gradient, and spoils nothing else."""
    N = len(case.words)
    weights = {name: w.clone() for name, w in case.weights((N,)).items()}
    for w in weights.values():
        w[0] = 0
    leaves = {name: w.requires_grad_() for name, w in weights.items()}
    log_prob = Sentence(case.grammar, leaves, normalized=False).log_prob(case.words)
    require(log_prob[0] == -torch.inf, f"log_prob is {float(log_prob[0].detach())} though all weights are zero")
    require(log_prob[1:].isfinite().all(), "an impossible sentence spoils the others of its batch")
    gradients = dict(zip(leaves, torch.autograd.grad(log_prob.sum(), list(leaves.values())), strict=True))
    for name, gradient in gradients.items():
        require((gradient[0] == 0).all(), f"an impossible sentence has a gradient in {name!r}")
        require(gradient.isfinite().all(), f"the gradient in {name!r} is not finite")
    zeros = {name: torch.full(b.shape, -torch.inf, dtype=torch.float64) for name, b in case.grammar.blocks.items()}
    log_z, counts = case.grammar.expected_counts(zeros, case.words)
    require((log_z == -torch.inf).all(), "log Z of expected_counts is finite though all weights are zero")
    require(all(bool((c == 0).all()) for c in counts.values()), "expected_counts counts though all weights are zero")


def check_derivatives(case: GrammarCase) -> None:
    """First and second derivatives of log_prob in the weights equal finite differences."""
    weights = case.weights()
    inputs = tuple(w.requires_grad_() for w in weights.values())

    def log_prob(*leaves: Tensor) -> Tensor:
        sentence = Sentence(case.grammar, dict(zip(weights, leaves, strict=True)), validate_args=False)
        result: Tensor = sentence.log_prob(case.words)
        return result

    differences(log_prob, inputs)


def check_scaled_gradients(case: GrammarCase) -> None:
    """Sentences that weigh differently in an objective have their own share in its gradient."""
    shares = torch.linspace(-1.0, 2.0, len(case.words), dtype=torch.float64)
    leaves = {name: w.log().requires_grad_() for name, w in case.weights().items()}
    objective = (shares * case.grammar.log_partition(leaves, case.words)).sum()
    gradients = torch.autograd.grad(objective, list(leaves.values()))
    derivation: Any = case.grammar.derivation(None, case.words, log_weights=leaves)
    for name, gradient, w in zip(leaves, gradients, leaves.values(), strict=True):
        counts = derivation.expected_counts()[name]
        expected = (counts * shares.reshape(-1, *(1 for _ in w.shape))).sum(0)
        close(gradient, expected, f"gradient of weighted log_partition in {name!r}")


def _enumerated(case: GrammarCase, weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Weights]:
    """log Z and expected counts of one sentence, from the list of its derivations."""
    derivation: Any = case.grammar.derivation(case.weights(), words)  # all weights positive: no derivation is missed
    counts = derivation.counts(derivation.enumerate_support())
    scores = _score(counts, weights)
    log_z = scores.logsumexp(0)
    probs = (scores - log_z).exp() if log_z > -torch.inf else torch.zeros_like(scores)
    return log_z, {name: torch.tensordot(probs, c.to(probs), 1) for name, c in counts.items()}


def _score(counts: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> Tensor:
    """Log of the weight of derivations, from their counts."""
    terms = [weighted_sum(counts[name], w.detach().log(), w.dim()) for name, w in weights.items()]
    return torch.stack(terms).sum(0)
