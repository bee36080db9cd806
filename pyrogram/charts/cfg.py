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
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyrogram.recursion.run.derivatives import derivatives
from pyrogram.recursion.torch.engine import is_traced

from .cfg_batch import Batch, batches
from .cfg_enumerate import enumerate_derivations
from .cfg_rules import Matches, RuleTable, longest
from .checks import check_sentence_weights, check_size, keep_nan
from .projective import Engine, choose_engine

# What is wanted: log Z alone, or with counts: summed, or a row for each sentence.
LOG_Z, SUM, ROWS = range(3)

__all__ = [
    "Matches", "RuleTable", "derivations", "expected_counts", "log_partition", "longest", "mbr", "posterior_counts",
    "sample", "span_marginals", "top_k",
]  # fmt: skip


def log_partition(
    log_weights: Float[Tensor, "*B R"], rules: RuleTable, matches: Matches, *, engine: Engine | None = None
) -> Float[Tensor, "N"]:
    """log Z of each sentence, in nats; -inf, with gradient 0, if it has no derivation. Differentiable."""
    _check(log_weights, rules, matches)
    if choose_engine(log_weights, engine) == "torch":
        return keep_nan(_on_tensors(log_weights, rules, matches, engine), (log_weights, 1))
    if torch.is_grad_enabled() and log_weights.requires_grad:
        return keep_nan(_LogPartition.apply(log_weights, rules, matches), (log_weights, 1))
    return keep_nan(_run(log_weights, rules, matches, None, LOG_Z)[0], (log_weights, 1))


def expected_counts(
    log_weights: Float[Tensor, "*B R"],
    rules: RuleTable,
    matches: Matches,
    sentence_weights: Float[Tensor, "N"] | None = None,
    *,
    engine: Engine | None = None,
) -> tuple[Float[Tensor, "N"], Float[Tensor, "R"]]:
    """log Z of each sentence, and the expected counts of all events summed over the sentences. No graph.

    :param sentence_weights: how often each sentence counts; None: once.
    """
    _check(log_weights, rules, matches)
    check_sentence_weights(sentence_weights, len(matches))
    if log_weights.dim() == 2:
        log_z, rows = posterior_counts(log_weights, rules, matches, engine=engine)
        return log_z, (rows if sentence_weights is None else rows * sentence_weights[:, None]).sum(0)
    if choose_engine(log_weights.detach(), engine) == "torch":
        log_z, counts = _by_gradient(log_weights, rules, matches, sentence_weights, engine)
    else:
        log_z, counts = _run(log_weights, rules, matches, sentence_weights, SUM)
    return keep_nan(log_z, (log_weights, 1)), counts


def posterior_counts(
    log_weights: Float[Tensor, "*B R"], rules: RuleTable, matches: Matches, *, engine: Engine | None = None
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N R"]]:
    """log Z and the expected counts of all events of each sentence. No graph."""
    _check(log_weights, rules, matches)
    if choose_engine(log_weights.detach(), engine) == "torch":
        rows = log_weights.detach().expand(len(matches), rules.num_events).clone()
        log_z, counts = _by_gradient(rows, rules, matches, None, engine)
    else:
        log_z, counts = _run(log_weights, rules, matches, None, ROWS)
    return keep_nan(log_z, (log_weights, 1)), counts


def span_marginals(
    log_weights: Float[Tensor, "*B R"], rules: RuleTable, matches: Matches, num_symbols: int | None = None
) -> Float[Tensor, "N n n S"]:
    """Posterior probabilities that a symbol spans words i .. k - 1: [sentence, i, k, symbol], i and k in 0 .. n.

    Zero for sentences without derivations. No graph.

    :param num_symbols: only the first so many symbols; None: all. Long rules make many that nobody asks for.
    """
    _check(log_weights, rules, matches)
    N = matches.max_length + 1
    S = rules.num_symbols if num_symbols is None else check_size("num_symbols", num_symbols)
    if S > rules.num_symbols:
        raise ValueError(f"num_symbols must be at most {rules.num_symbols}, all that there are, not {S}")
    out = np.zeros((len(matches), N, N, S))
    for batch, weights in _batches(log_weights, rules, matches, spans=True):
        n = batch.matches.max_length + 1
        out[batch.place, :n, :n] = batch.marginals(weights, S)
    return torch.from_numpy(out).to(log_weights)


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
    _check(log_weights, rules, matches)
    L, num_samples = longest(rules, matches.max_length), check_size("num_samples", num_samples, 0)
    ids = np.full((num_samples, len(matches), L), -1)
    for batch, weights in _batches(log_weights, rules, matches, moved=False):
        seed = int(torch.randint(2**62, (), generator=generator))
        log_z, ids[:, batch.place] = batch.draws(weights, num_samples, seed, L)
        possible = (log_z > -np.inf) & (log_z < np.inf)
        if not possible.all():
            first = batch.first + int(possible.argmin())
            raise ValueError(f"sentence {first} has no derivation of positive weight to sample")
    return torch.from_numpy(ids).to(log_weights.device)


def top_k(
    log_weights: Float[Tensor, "*B R"], rules: RuleTable, matches: Matches, k: int = 1
) -> tuple[Int[Tensor, "k N L"], Float[Tensor, "k N"]]:
    """The k derivations of greatest weight, best first, and their log weights; -1 and -inf where there are fewer."""
    _check(log_weights, rules, matches)
    k, L = check_size("k", k), longest(rules, matches.max_length)
    scores, ids = np.zeros((k, len(matches))), np.full((k, len(matches), L), -1)
    for batch, weights in _batches(log_weights, rules, matches, moved=False):
        scores[:, batch.place], ids[:, batch.place] = batch.best(weights, k, L)
    return torch.from_numpy(ids).to(log_weights.device), torch.from_numpy(scores).to(log_weights)


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
    _check(log_weights, rules, matches)
    if criterion not in ("spans", "rules"):
        raise ValueError(f"criterion must be 'spans' or 'rules', not {criterion!r}")
    L = longest(rules, matches.max_length)
    ids = np.full((len(matches), L), -1)
    for batch, weights in _batches(log_weights, rules, matches, spans=criterion == "spans"):
        decode = batch.best_spans if criterion == "spans" else batch.best_rules
        ids[batch.place] = decode(weights, L)
    return torch.from_numpy(ids).to(log_weights.device)


def derivations(rules: RuleTable, matches: Matches, sentence: int = 0) -> Int[Tensor, "T L"]:
    """All derivations of one sentence, whatever their weights; there may be exponentially many."""
    if not 0 <= sentence < len(matches):
        raise ValueError(f"sentence must be in 0..{len(matches) - 1}, not {sentence}")
    return torch.from_numpy(enumerate_derivations(rules, matches, sentence))


def _check(log_weights: Tensor, rules: RuleTable, matches: Matches) -> None:
    """
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


def _run(
    log_weights: Tensor, rules: RuleTable, matches: Matches, sentence_weights: Tensor | None, mode: int
) -> tuple[Tensor, Tensor]:
    """log Z (B,), and counts: zeros or their sum, (R,), or (B, R), on the CPU."""
    B, R = len(matches), rules.num_events
    scale = None if sentence_weights is None else sentence_weights.detach().to("cpu", torch.float64).numpy()
    dtype = torch.float32 if log_weights.dtype == torch.float32 else torch.float64
    log_z, counts = np.zeros(B), torch.zeros(B, R, dtype=dtype).numpy() if mode == ROWS else np.zeros((1, R))
    for batch, weights in _batches(log_weights, rules, matches, rows=mode == ROWS, dtype=dtype):
        if mode == LOG_Z:
            log_z[batch.place] = batch.log_z(weights)
        else:
            batch_scale = None if scale is None else scale[batch.place]
            into = counts[batch.place] if mode == ROWS else counts
            log_z[batch.place] = batch.add_counts(weights, batch_scale, into, by_sentence=mode == ROWS)
    expected = torch.from_numpy(counts).to(log_weights)
    return torch.from_numpy(log_z).to(log_weights), expected if mode == ROWS else expected[0]


def _batches(
    log_weights: Tensor,
    rules: RuleTable,
    matches: Matches,
    *,
    rows: bool = False,
    spans: bool = False,
    moved: bool = True,
    dtype: torch.dtype = torch.float64,
) -> Iterator[tuple[Batch, Any]]:
    """Batches with their log weights, (1, R) or (B, R), in float64 or another type: arrays.

    :param rows: whether every sentence has counts of its own.
    :param moved: whether what is on another device is moved to the CPU; if not, weights are tensors there.
    """
    shared = log_weights.dim() == 1
    stacked = (log_weights[None] if shared else log_weights).detach()
    on_device = not moved and stacked.device.type != "cpu"
    weights = stacked.to(dtype) if on_device else stacked.to("cpu", dtype).numpy()
    for batch in batches(rules, matches, rows=rows or not shared, spans=spans):
        yield batch, weights if shared else weights[batch.place]


def _on_tensors(log_weights: Tensor, rules: RuleTable, matches: Matches, engine: Engine | None = None) -> Tensor:
    """log Z on any device, in any precision, with any derivative, and under torch's transforms.

    :param engine: "torch" if kernels are not to be used.
    """
    shared = log_weights.dim() == 1
    weights = log_weights[None] if shared else log_weights
    log_z = [log_weights.flatten()[:0]]  # so that a log Z of -inf has a gradient, too
    for batch in batches(rules, matches, rows=not shared):
        batch_weights = weights if shared else weights[batch.place]
        log_z.append(batch.sums.log_partition(batch.tensor_inputs(batch_weights), by_torch=engine == "torch"))
    return torch.cat(log_z)


def _by_gradient(
    log_weights: Tensor, rules: RuleTable, matches: Matches, scale: Tensor | None, engine: Engine | None
) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False), torch.enable_grad():
        leaf = log_weights.detach().clone().requires_grad_()
        log_z = _on_tensors(leaf, rules, matches, engine)
        total = log_z.masked_fill(log_z == -torch.inf, 0.0)
        (counts,) = torch.autograd.grad((total if scale is None else total * scale.detach()).sum(), leaf)
    return log_z.detach(), counts


class _LogPartition(torch.autograd.Function):
    """The compiled engine's log Z, with the counts, so that backward is a product. Then recursions take over."""

    @staticmethod
    def forward(ctx: Any, log_weights: Tensor, rules: RuleTable, matches: Matches) -> Tensor:
        shared = log_weights.dim() == 1
        log_z, counts = _run(log_weights, rules, matches, None, SUM if shared else ROWS)
        ctx.save_for_backward(log_weights, counts)
        ctx.rules, ctx.matches = rules, matches
        return log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        log_weights, counts = ctx.saved_tensors
        if torch.is_grad_enabled() or is_traced(gradient):

            def log_z(weights: Tensor) -> list[Tensor]:
                return [_on_tensors(weights, ctx.rules, ctx.matches, "torch" if is_traced(gradient) else None)]

            return derivatives(log_z, [log_weights], [gradient])[0], None, None
        if log_weights.dim() == 2:
            return counts * gradient[:, None], None, None
        if len(gradient) and bool((gradient == gradient[0]).all()):  # a plate's scale: the usual case
            return gradient[0] * counts, None, None
        return _run(log_weights, ctx.rules, ctx.matches, gradient, SUM)[1], None, None
