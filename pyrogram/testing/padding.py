# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Padding plays no part: a padded batch is its sentences one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram.grammar import Weights

from .cases import DistributionCase, seeded
from .compare import close, require


def check_padded_sums(case: DistributionCase) -> None:
    """log Z, entropy, marginals, expected counts and KL of each sentence of the batch; nothing in the padding."""
    d, q = case.at(), case.at(seed=1)
    for b, (single, other) in enumerate(zip(_singles(case), _singles(case, seed=1), strict=True)):
        close(d.log_partition[b], single.log_partition, f"log_partition of sentence {b}")
        close(d.entropy()[b], single.entropy(), f"entropy() of sentence {b}")
        close(kl_divergence(d, q)[b], kl_divergence(single, other), f"kl_divergence of sentence {b}")
        for name, expected in single.expected_counts().items():
            _close_in_corner(d.expected_counts()[name][b], expected, f"expected_counts()[{name!r}] of sentence {b}")
        if case.parts is not None:
            _close_in_corner(d.marginals()[b], single.marginals(), f"marginals() of sentence {b}")


def check_padded_values(case: DistributionCase) -> None:
    """log_prob, counts and support.check of padded derivations."""
    d = case.at()
    singles = _singles(case)
    with seeded():
        drawn = [single.sample() for single in singles]
    values = torch.stack([_pad(v, tuple(d.event_shape)) for v in drawn])
    require(d.support.check(values).all(), "support.check refuses padded derivations")
    for b, (single, value) in enumerate(zip(singles, drawn, strict=True)):
        close(d.log_prob(values)[b], single.log_prob(value), f"log_prob of sentence {b}")
        for name, expected in single.counts(value).items():
            _close_in_corner(d.counts(values)[name][b], expected, f"counts(value)[{name!r}] of sentence {b}")
        if value.shape != d.event_shape:
            unpadded = values.clone()
            unpadded[b, len(value) :] = 0
            require(not d.support.check(unpadded)[b], "support.check accepts a value in the padding")


def check_padded_decoding(case: DistributionCase) -> None:
    """argmax, top_k and mbr of each sentence, -1 in the padding."""
    d = case.at()
    event = tuple(d.event_shape)
    for b, single in enumerate(_singles(case)):
        require((d.argmax()[b] == _pad(single.argmax(), event)).all(), f"argmax() of sentence {b} is another")
        values, log_probs = d.top_k(3)
        expected_values, expected = single.top_k(3)
        close(log_probs[:, b], expected, f"log probabilities of top_k(3) of sentence {b}")
        same = values[:, b] == torch.stack([_pad(v, event) for v in expected_values])
        require(same.all(), f"top_k(3) of sentence {b} are others")
        if case.parts is not None:
            require((d.mbr()[b] == _pad(single.mbr(), event)).all(), f"mbr() of sentence {b} is another")


def check_padded_draws(case: DistributionCase) -> None:
    """Draws are derivations of their sentences, -1 in the padding."""
    d = case.at()
    with seeded():
        draws = d.sample((100,))
    require(d.support.check(draws).all(), "sample() leaves the support")
    for b, single in enumerate(_singles(case)):
        # Derivations of one sentence need not have the same number of events.
        corner = slice(None), *(slice(size) for size in single.event_shape)
        cut = draws[:, b][corner]
        outside = (draws[:, b] != -1).sum() - (cut != -1).sum()
        require(outside == 0, f"sample() puts something into the padding of sentence {b}")
        is_derivation = single.support.check(cut)
        require(is_derivation.all(), f"sample() of sentence {b} gives what is none of its derivations")


def check_padded_gradients(case: DistributionCase) -> None:
    """Gradients are those of the sentences, exactly 0 in the padding, and second derivatives are not NaN."""
    weights = {name: w.requires_grad_() for name, w in case.weights().items()}
    leaves = [{name: w.requires_grad_() for name, w in single.items()} for single in _single_weights(case)]
    batch = case.make(weights)
    singles = [case.singles[b].make(leaves[b]) for b in range(len(leaves))]
    for what in ("log_partition", "entropy"):
        total = batch.log_partition.sum() if what == "log_partition" else batch.entropy().sum()
        gradients = torch.autograd.grad(total, list(weights.values()), create_graph=True)
        for name, gradient in zip(weights, gradients, strict=True):
            require(not gradient.isnan().any(), f"the gradient of {what} in {name!r} is NaN")
        squares = torch.stack([(g**2).sum() for g in gradients]).sum()
        # A block of which every derivation has one event has no second derivative.
        seconds = torch.autograd.grad(squares, list(weights.values()), materialize_grads=True)
        for name, second in zip(weights, seconds, strict=True):
            require(not second.isnan().any(), f"a second derivative of {what} in {name!r} is NaN")
        for b, single in enumerate(singles):
            value = single.log_partition if what == "log_partition" else single.entropy()
            expected = torch.autograd.grad(value.sum(), list(leaves[b].values()), retain_graph=True)
            if has_own_weights(case):
                for name, gradient, truth in zip(weights, gradients, expected, strict=True):
                    _close_in_corner(gradient[b], truth, f"gradient of {what} in {name!r} of sentence {b}")
        batch = case.make(weights)


def check_padding_is_not_read(case: DistributionCase) -> None:
    """Whatever log weights stand in the padding, results are the same to the last bit."""
    clean = case.weights()
    expected = case.make(clean)
    for junk in (-torch.inf, 1e30, -1e30):
        dirty = {name: w.clone() for name, w in clean.items()}
        for b, single in enumerate(case.singles):
            for name, w in single.log_weights.items():
                keep = dirty[name][b][_corner(w)].clone()
                dirty[name][b] = junk
                dirty[name][b][_corner(w)] = keep
        d = case.make(dirty)
        require((d.log_partition == expected.log_partition).all(), f"log_partition reads {junk} in the padding")
        require((d.entropy() == expected.entropy()).all(), f"entropy() reads {junk} in the padding")
        require((d.argmax() == expected.argmax()).all(), f"argmax() reads {junk} in the padding")
        for name, c in expected.expected_counts().items():
            require((d.expected_counts()[name] == c).all(), f"expected_counts()[{name!r}] reads {junk} in the padding")


def has_own_weights(case: DistributionCase) -> bool:
    """Whether every sentence has its own log weights (arc scores, say), or all share one grammar."""
    return all(w.dim() == case.singles[0].log_weights[name].dim() + 1 for name, w in case.log_weights.items())


def _single_weights(case: DistributionCase, seed: int = 0) -> list[Weights]:
    """The log weights of each sentence, cut out of the batch's."""
    weights = case.weights(seed=seed)
    cut = []
    for b, single in enumerate(case.singles):
        of_sentence = {name: w[b] if has_own_weights(case) else w for name, w in weights.items()}
        cut.append({name: of_sentence[name][_corner(w)].clone() for name, w in single.log_weights.items()})
    return cut


def _singles(case: DistributionCase, seed: int = 0) -> Sequence[Any]:
    return [single.make(w) for single, w in zip(case.singles, _single_weights(case, seed), strict=True)]


def _corner(like: Tensor) -> tuple[slice, ...]:
    return tuple(slice(size) for size in like.shape)


def _close_in_corner(actual: Tensor, expected: Tensor, what: str) -> None:
    """Equal in the leading corner, and exactly zero elsewhere."""
    close(actual[_corner(expected)], expected, what)
    outside = actual.detach().clone()
    outside[_corner(expected)] = 0
    require((outside == 0).all(), f"{what}: not zero in the padding")


def _pad(value: Tensor, event_shape: tuple[int, ...]) -> Tensor:
    missing = [(0, size - length) for size, length in zip(event_shape, value.shape[-len(event_shape) :], strict=True)]
    return torch.nn.functional.pad(value, [x for pair in reversed(missing) for x in pair], value=-1)
