# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Latent annotations of observed trees (Matsuzaki, Miyao and Tsujii 2005): sums over the subtypes of all nodes.

Everywhere ``log_weights`` are W grammars, shape ``(W, R)``, packed as :class:`.AnnotationRules` says; ``trees`` are B
rows of base rules, linked; ``own`` is the grammar of each tree, shape ``(B,)``. First derivatives on the CPU in float32
and float64 are compiled code's, everything else is torch's.
"""

from typing import Any

import torch
from torch import Tensor

from pyrogram.recursion.run.derivatives import derivatives

from . import annotation_choices, annotation_torch
from .annotation_rules import AnnotationRules, Forest, places_of
from .annotation_sums import Posteriors
from .checks import fits_compiled, keep_nan


def log_partition(log_weights: Tensor, rules: AnnotationRules, trees: Forest, model: Any) -> Tensor:
    """log Z of each tree, shape ``(B,)``, in nats; -inf where there is no derivation. Differentiable."""
    if not fits_compiled(log_weights):
        log_z = annotation_torch.log_partition(log_weights, rules, trees, model)
    else:
        log_z = _LogPartition.apply(log_weights, rules, trees, model)
    return keep_nan(log_z, (log_weights, 1), model=torch.from_numpy(model))


def expected_counts(log_weights: Tensor, rules: AnnotationRules, trees: Forest, model: Any) -> tuple[Tensor, Tensor]:
    """log Z of each tree, and expected counts summed over the trees of each grammar, shape ``(W, R)``; no graph."""
    if not fits_compiled(log_weights):
        with torch.enable_grad():
            leaf = log_weights.detach().requires_grad_()
            log_z = annotation_torch.log_partition(leaf, rules, trees, model)
            possible = torch.where(log_z > -torch.inf, log_z, 0.0 * leaf.nan_to_num().sum())
            (counts,) = torch.autograd.grad(possible.sum(), leaf)
        return keep_nan(log_z.detach(), (log_weights, 1), model=torch.from_numpy(model)), counts
    posteriors = Posteriors(log_weights.detach().numpy(), rules, trees, model)
    log_z, counts = (torch.from_numpy(x).to(log_weights.dtype) for x in (posteriors.log_z, posteriors.counts()))
    return keep_nan(log_z, (log_weights, 1), model=torch.from_numpy(model)), counts


def node_marginals(log_weights: Tensor, rules: AnnotationRules, trees: Forest, model: Any) -> tuple[Tensor, Tensor]:
    """log Z of each tree, and p(subtype of each node | tree), shape ``(M, K)``; no graph."""
    posteriors = Posteriors(_array(log_weights), rules, trees, model)
    marginals = torch.from_numpy(posteriors.node_marginals())
    return tuple(t.to(log_weights.device, log_weights.dtype) for t in (torch.from_numpy(posteriors.log_z), marginals))  # type: ignore[return-value]


def sample(log_weights: Tensor, rules: AnnotationRules, trees: Forest, model: Any, num_samples: int = 1) -> Tensor:
    """Independent draws of the subtypes of all nodes, shape ``(S, M)``; -1 where a tree has no derivation."""
    posteriors, seed = Posteriors(_array(log_weights), rules, trees, model), int(torch.randint(2**63 - 1, ()))
    weights = posteriors.log_weights, posteriors.log_inside(), posteriors.places, rules.tables
    drawn = annotation_choices.sample(*weights, trees, model, num_samples, seed)[1]
    return torch.from_numpy(drawn).to(log_weights.device)


def top_k(log_weights: Tensor, rules: AnnotationRules, trees: Forest, model: Any, k: int = 1) -> tuple[Tensor, Tensor]:
    """The k best annotations of each tree, shape ``(k, M)``, and their scores ``(k, B)``; -1 and -inf if fewer."""
    places = places_of(rules, trees)
    nodes, scores = annotation_choices.top_k(_array(log_weights), places, rules.tables, trees, model, k)
    return torch.from_numpy(nodes[1]).to(log_weights.device), torch.from_numpy(scores).to(log_weights)


def _array(log_weights: Tensor) -> Any:
    return log_weights.detach().cpu().numpy()


class _LogPartition(torch.autograd.Function):
    """log Z; the counts come with it, so that backward is a product where all trees weigh the same."""

    @staticmethod
    def forward(ctx: Any, log_weights: Tensor, rules: AnnotationRules, trees: Forest, model: Any) -> Tensor:
        posteriors = Posteriors(log_weights.detach().numpy(), rules, trees, model)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(log_weights)
            ctx.others = rules, trees, model, posteriors
        return torch.from_numpy(posteriors.log_z).to(log_weights.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        (log_weights,) = ctx.saved_tensors
        rules, trees, model, posteriors = ctx.others
        if torch.is_grad_enabled():

            def log_z(w: Tensor) -> list[Tensor]:
                return [annotation_torch.log_partition(w, rules, trees, model)]

            return derivatives(log_z, [log_weights], [gradient])[0], None, None, None
        counts = torch.from_numpy(posteriors.counts(gradient.double().numpy()))
        return counts.to(log_weights.dtype), None, None, None
