# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Shapes, and the ways in which Pyro bends them: expand, plate, mask, to_event, parallel enumeration."""

from __future__ import annotations

from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer import TraceEnum_ELBO, config_enumerate
from torch import Tensor

from pyrogram.printable import plural

from .cases import BATCHES, SAMPLES, DistributionCase, Enumeration, seeded
from .compare import close, frequencies, has_shape, require


def check_shapes(case: DistributionCase) -> None:
    """Everything has the batch, sample and event shapes that torch's contract says."""
    for batch in BATCHES:
        d = case.at(batch)
        event = tuple(d.event_shape)
        has_shape(torch.empty(d.batch_shape), batch, "batch_shape")
        for sample in SAMPLES:
            with seeded():
                value = d.sample(torch.Size(sample))
            has_shape(value, sample + batch + event, f"sample({sample}) of batch {batch}")
            require(not value.is_floating_point(), f"sample() has dtype {value.dtype}, not an integer one")
            has_shape(d.log_prob(value), sample + batch, f"log_prob of sample {sample} and batch {batch}")
            has_shape(d.support.check(value), sample + batch, "support.check")
            for name, w in case.log_weights.items():
                has_shape(d.counts(value)[name], sample + batch + tuple(w.shape), f"counts(value)[{name!r}]")
        for what, result in _results(d, case).items():
            has_shape(result, batch + _event_shape(what, case, event), f"{what} of batch {batch}")
        values, log_probs = d.top_k(2)
        has_shape(values, (2, *batch, *event), "derivations of top_k(2)")
        has_shape(log_probs, (2, *batch), "log probabilities of top_k(2)")


def check_sample_default(case: DistributionCase) -> None:
    """sample() without argument, and with a tuple in place of a torch.Size."""
    d = case.at((3,))
    has_shape(d.sample(), tuple(d.batch_shape + d.event_shape), "sample()")
    has_shape(d.sample((2,)), (2, *d.batch_shape, *d.event_shape), "sample((2,))")


def check_enumerate_support(case: DistributionCase) -> None:
    """All derivations, each once, in Pyro's shape for expand=True and expand=False."""
    for batch in BATCHES:
        d = case.at(batch)
        full, lean = d.enumerate_support(), d.enumerate_support(expand=False)
        T, event = len(full), tuple(d.event_shape)
        has_shape(full, (T, *batch, *event), "enumerate_support()")
        has_shape(lean, (T, *(1 for _ in batch), *event), "enumerate_support(expand=False)")
        require((full == lean).all(), "enumerate_support() lists other derivations when expanded")
        require(d.support.check(full).all(), "enumerate_support() lists what support.check refuses")
        flat = lean.reshape(T, -1)
        require(len(flat.unique(dim=0)) == T, "enumerate_support() lists a derivation twice")
        if case.support is not None:
            _, strange = frequencies(flat, case.support.reshape(len(case.support), -1))
            require(
                T == len(case.support), f"enumerate_support() lists {plural(T, 'derivation')}, not {len(case.support)}"
            )
            require(
                strange == 0,
                f"enumerate_support() lists {plural(strange, 'derivation that does', 'derivations that do')} not exist",
            )


def check_expand(case: DistributionCase) -> None:
    """expand() repeats every result, whatever was computed before it."""
    for batch in ((), (3,)):
        shape = (4, 2, *batch)
        for computed_before in (False, True):
            d = case.at(batch)
            if computed_before:
                _results(d, case)
            wide = d.expand(torch.Size(shape))
            require(type(wide) is type(d), f"expand() returns a {type(wide).__name__}, not a {type(d).__name__}")
            has_shape(torch.empty(wide.batch_shape), shape, "batch_shape of expand()")
            require(wide.event_shape == d.event_shape, "expand() changes event_shape")
            for what, result in _results(case.at(batch), case).items():
                repeated = result.expand(4, 2, *result.shape)
                close(_results(wide, case)[what], repeated, f"{what} after expand()")
            value = d.sample((2, 4, 2))
            close(wide.log_prob(value), d.log_prob(value), "log_prob after expand()")
            with seeded():
                has_shape(wide.sample(), (*shape, *d.event_shape), "sample() after expand()")
            values, log_probs = wide.top_k(3)  # not 2, lest ranks be taken for a dimension of the batch
            has_shape(values, (3, *shape, *d.event_shape), "top_k(3) after expand()")
            close(log_probs, d.top_k(3)[1].reshape(3, 1, 1, *batch).expand(3, *shape), "top_k(3) after expand()")
            has_shape(wide.enumerate_support()[0], (*shape, *d.event_shape), "enumerate_support() after expand()")


def check_plate(case: DistributionCase) -> None:
    """A plate makes independent derivations, and adds up their log probabilities."""
    d = case.at()

    def model() -> None:
        with pyro.plate("outer", 3, dim=-2), pyro.plate("inner", 2, dim=-1):
            pyro.sample("y", d)

    with seeded():
        trace = poutine.trace(model).get_trace()
    value: Any = trace.nodes["y"]["value"]
    has_shape(value, (3, 2, *d.event_shape), "a sample in two plates")
    close(trace.log_prob_sum(), case.at().log_prob(value).sum(), "log_prob_sum in plates")
    with seeded(1):
        rows = d.expand(torch.Size([200])).sample().reshape(200, -1)
    impossible = Enumeration(case).probs.max() > 0.9
    require(impossible or len(rows.unique(dim=0)) > 1, "the draws of an expanded distribution are all the same")


def check_mask(case: DistributionCase) -> None:
    """What is masked out has log probability 0 and passes no gradient."""
    weights = {name: w.requires_grad_() for name, w in case.weights((3,)).items()}
    d: Any = case.make(weights)
    value = d.sample()
    mask = torch.tensor([True, False, True])
    close(d.mask(mask).log_prob(value), d.log_prob(value) * mask, "log_prob under a mask")
    gradients = torch.autograd.grad(case.make(weights).mask(mask).log_prob(value).sum(), list(weights.values()))
    require(all(bool((g[1] == 0).all()) for g in gradients), "a masked derivation has a gradient")


def check_to_event(case: DistributionCase) -> None:
    """to_event(1) makes the last batch dimension part of the event."""
    d = case.at((2, 3))
    joined = d.to_event(1)
    require(tuple(joined.batch_shape) == (2,), "to_event(1) leaves the wrong batch_shape")
    require(tuple(joined.event_shape) == (3, *d.event_shape), "to_event(1) makes the wrong event_shape")
    value = joined.sample((4,))
    close(joined.log_prob(value), d.log_prob(value).sum(-1), "log_prob of to_event(1)")
    close(joined.entropy(), d.entropy().sum(-1), "entropy of to_event(1)")


def check_parallel_enumeration(case: DistributionCase) -> None:
    """Pyro's TraceEnum_ELBO, which sums over enumerate_support, gives the sum over derivations."""
    for batch in ((), (3,)):
        weights = case.weights(batch)
        d = case.make(weights)
        name, w = next(iter(case.log_weights.items()))
        table = torch.linspace(-1.0, 1.0, w.numel(), dtype=torch.float64).reshape(w.shape)

        def gain(distribution: Any, value: Tensor, table: Tensor = table, name: str = name) -> Tensor:
            total: Tensor = (distribution.counts(value)[name] * table).flatten(-table.dim()).sum(-1)
            return total

        @config_enumerate
        def model(d: Any = d, batch: tuple[int, ...] = batch) -> None:
            with pyro.plate_stack("batch", batch):
                value = pyro.sample("y", d)
                pyro.factor("gain", gain(d, value))

        loss = TraceEnum_ELBO(max_plate_nesting=len(batch)).loss(model, lambda: None)
        expected = []
        for b in range(d.batch_shape.numel()):
            element = {n: v.reshape(-1, *case.log_weights[n].shape)[b] for n, v in weights.items()}
            truth = Enumeration(case, element)
            expected.append((truth.log_probs + gain(case.make(element), truth.values)).logsumexp(0))
        close(torch.as_tensor(-loss, dtype=torch.float64), torch.stack(expected).sum(), "TraceEnum_ELBO")


def _results(d: Any, case: DistributionCase) -> dict[str, Tensor]:
    """All that needs no argument, by name."""
    results = {"log_partition": d.log_partition, "entropy": d.entropy(), "argmax": d.argmax(), "mode": d.mode}
    results |= {f"expected_counts()[{name!r}]": value for name, value in d.expected_counts().items()}
    if case.parts is not None:
        results |= {"marginals": d.marginals(), "mbr": d.mbr()}
    return results


def _event_shape(what: str, case: DistributionCase, event: tuple[int, ...]) -> tuple[int, ...]:
    if what in ("log_partition", "entropy"):
        return ()
    if what in ("argmax", "mode", "mbr"):
        return event
    if what == "marginals":
        assert case.parts is not None
        return tuple(case.parts(case.at().argmax()).shape)
    return tuple(case.log_weights[what.split("'")[1]].shape)
