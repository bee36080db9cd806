# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Context-free grammars with weights: log Z, expected counts, span marginals, draws, best derivations.

One signature, several engines (docs/architecture.md). Everywhere

* ``log_weights`` (R,) are the log weights of the events, or (B, R) if each sentence has a grammar of its own;
* ``rules`` and ``matches`` are the grammar and the B sentences, see :mod:`.cfg_rules`;
* a derivation is its event ids from the top down and from left to right, padded with -1 to length L,
  ``longest(rules, n)`` for n the length of the longest sentence; its weight is the product of its events' weights.

O(n^3 P + n^2 R) time for P distinct right sides of R binary rules.
"""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from .cfg_batch import Batch, batches
from .cfg_enumerate import enumerate_derivations
from .cfg_rules import Matches, RuleTable, longest
from .checks import check_sentence_weights, check_size, keep_nan

__all__ = [
    "Matches", "RuleTable", "derivations", "expected_counts", "log_partition", "longest", "mbr", "posterior_counts",
    "sample", "span_marginals", "top_k",
]  # fmt: skip


def log_partition(
    log_weights: Float[Tensor, "*B R"], rules: RuleTable, matches: Matches, *, by_torch: bool = False
) -> Float[Tensor, "N"]:
    """log Z of each sentence, in nats; -inf, with gradient 0, if it has no derivation. Differentiable.

    :param by_torch: whether torch does it even where compiled code could.
    """
    log_z = [log_weights.flatten()[:0]]  # so that a log Z of -inf has a gradient, too
    for batch, weights in _batches(log_weights, rules, matches):
        log_z.append(batch.sums.log_partition(batch.inputs(weights), by_torch=by_torch))
    return keep_nan(torch.cat(log_z), (log_weights, 1))


def expected_counts(
    log_weights: Float[Tensor, "*B R"],
    rules: RuleTable,
    matches: Matches,
    sentence_weights: Float[Tensor, "N"] | None = None,
) -> tuple[Float[Tensor, "N"], Float[Tensor, "R"]]:
    """log Z of each sentence, and the expected counts of all events summed over the sentences. No graph.

    :param sentence_weights: how often each sentence counts; None: once.
    """
    check_sentence_weights(sentence_weights, len(matches))
    log_z, counts = _counts(log_weights, rules, matches, sentence_weights, by_sentence=log_weights.dim() == 2)
    return log_z, counts.sum(0)


def posterior_counts(
    log_weights: Float[Tensor, "*B R"], rules: RuleTable, matches: Matches
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N R"]]:
    """log Z and the expected counts of all events of each sentence. No graph."""
    return _counts(log_weights, rules, matches, None, by_sentence=True)


def _counts(
    log_weights: Tensor, rules: RuleTable, matches: Matches, scale: Tensor | None, *, by_sentence: bool
) -> tuple[Tensor, Tensor]:
    """log Z, and counts of events, times factors of the sentences, of each sentence or summed over those of a batch."""
    found = [(log_weights.detach().flatten()[:0], log_weights.new_zeros(0, rules.num_events))]
    for batch, weights in _batches(log_weights.detach(), rules, matches, rows=by_sentence):
        of_batch = None if scale is None else scale.detach()[batch.place]
        found.append(batch.log_counts(weights, of_batch, by_sentence=by_sentence))
    log_z, counts = map(torch.cat, zip(*found, strict=True))
    return keep_nan(log_z, (log_weights, 1)), counts


def span_marginals(
    log_weights: Float[Tensor, "*B R"], rules: RuleTable, matches: Matches, num_symbols: int | None = None
) -> Float[Tensor, "N n n S"]:
    """Posterior probabilities that a symbol spans words i .. k - 1: [sentence, i, k, symbol], i and k in 0 .. n.

    Zero for sentences without derivations. No graph.

    :param num_symbols: only the first so many symbols; None: all. Long rules make many that nobody asks for.
    """
    N = matches.max_length + 1
    S = rules.num_symbols if num_symbols is None else check_size("num_symbols", num_symbols)
    if S > rules.num_symbols:
        raise ValueError(f"num_symbols must be at most {rules.num_symbols}, all that there are, not {S}")
    out = log_weights.new_zeros(len(matches), N, N, S)
    for batch, weights in _batches(log_weights.detach().double(), rules, matches, spans=True):
        n = batch.matches.max_length + 1
        out[batch.place, :n, :n] = batch.marginals(weights, S).to(out)
    return out


def sample(
    log_weights: Float[Tensor, "*B R"],
    rules: RuleTable,
    matches: Matches,
    num_samples: int = 1,
    *,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "D N L"]:
    """Independent derivations drawn in proportion to their weights, (num_samples, B, L).

    :raises ValueError: if a sentence has no derivation.
    """
    L, num_samples = longest(rules, matches.max_length), check_size("num_samples", num_samples, 0)
    ids = np.full((num_samples, len(matches), L), -1)
    for batch, weights in _batches(log_weights.detach().double(), rules, matches):
        seed = int(torch.randint(2**62, (), generator=generator))
        log_z, ids[:, batch.place] = batch.draws(weights, num_samples, seed, L)
        possible = log_z.isfinite()
        if not possible.all():
            first = batch.first + int(possible.long().argmin())
            raise ValueError(f"sentence {first} has no derivation of positive weight to sample")
    return torch.from_numpy(ids).to(log_weights.device)


def top_k(
    log_weights: Float[Tensor, "*B R"], rules: RuleTable, matches: Matches, k: int = 1
) -> tuple[Int[Tensor, "k N L"], Float[Tensor, "k N"]]:
    """The k derivations of greatest weight, best first, and their log weights; -1 and -inf where there are fewer."""
    k, L = check_size("k", k), longest(rules, matches.max_length)
    scores, ids = log_weights.new_zeros(k, len(matches)), np.full((k, len(matches), L), -1)
    for batch, weights in _batches(log_weights.detach().double(), rules, matches):
        best, ids[:, batch.place] = batch.best(weights, k, L)
        scores[:, batch.place] = best.to(scores)
    return torch.from_numpy(ids).to(log_weights.device), scores


def mbr(
    log_weights: Float[Tensor, "*B R"],
    rules: RuleTable,
    matches: Matches,
    *,
    criterion: str = "spans",
) -> Int[Tensor, "N L"]:
    """The derivation, among those of positive weight, that is right in most of its parts (minimum Bayes risk).

    :param criterion: the parts: "spans", labelled spans (a symbol with events that spans words i .. k - 1), or "rules",
        rules with their spans (of a right side that was split: where its first symbol ends).
    :returns: (B, L), -1 for sentences without derivations.
    """
    if criterion not in ("spans", "rules"):
        raise ValueError(f"criterion must be 'spans' or 'rules', not {criterion!r}")
    L = longest(rules, matches.max_length)
    ids = np.full((len(matches), L), -1)
    for batch, weights in _batches(log_weights.detach().double(), rules, matches, spans=criterion == "spans"):
        decode = batch.best_spans if criterion == "spans" else batch.best_rules
        ids[batch.place] = decode(weights, L)
    return torch.from_numpy(ids).to(log_weights.device)


def derivations(rules: RuleTable, matches: Matches, sentence: int = 0) -> Int[Tensor, "T L"]:
    """All derivations of one sentence, whatever their weights; there may be exponentially many."""
    if not 0 <= sentence < len(matches):
        raise ValueError(f"sentence must be in 0..{len(matches) - 1}, not {sentence}")
    return torch.from_numpy(enumerate_derivations(rules, matches, sentence))


def _batches(
    log_weights: Tensor, rules: RuleTable, matches: Matches, *, rows: bool = False, spans: bool = False
) -> Iterator[tuple[Batch, Tensor]]:
    """Batches with their log weights, (1, R) or (B, R).

    :param rows: whether every sentence has counts of its own.
    :param spans: whether posteriors of spans are wanted.
    :raises ValueError: in one sentence, if shapes do not fit; compiled code does not look.
    """
    R, B = rules.num_events, len(matches)
    if not log_weights.is_floating_point():
        raise ValueError(f"log weights must be floating-point numbers, not {log_weights.dtype}")
    if log_weights.shape not in ((R,), (B, R)):
        raise ValueError(f"log weights must have shape ({R},) or ({B}, {R}), not {tuple(log_weights.shape)}")
    if matches.__dict__.get("checked") is not rules:
        matches.check(rules)
        matches.__dict__["checked"] = rules
    shared = log_weights.dim() == 1
    found = batches(rules, matches, rows=rows or not shared, spans=spans)
    own = [log_weights[None]] * len(found) if shared else log_weights.split([len(batch.matches) for batch in found])
    yield from zip(found, own, strict=True)
