# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences as a Pyro distribution: draws, plates, copies, errors, and where inference starts."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
import unittest
from typing import Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.grammar import Weights

from .cases import BATCHES, SAMPLES, GrammarCase, seeded
from .compare import close, follows, has_shape, require

DRAWS = 20_000


def can_draw(case: GrammarCase) -> bool:
    """Whether the grammar has the optional ``sample``."""
    try:
        with seeded():
            case.grammar.sample(case.weights(), torch.Size([1]), case.longest)
    except NotImplementedError:
        return False
    return True


def _need_draws(case: GrammarCase) -> None:
    """Skip the check, as unittest and pytest understand it, if the grammar draws no sentences."""
    if not can_draw(case):
        raise unittest.SkipTest(f"{type(case.grammar).__name__} cannot draw sentences: it has no sample()")


def check_draws(case: GrammarCase) -> None:
    """Sentences are drawn as often as log_prob says, given that they are short enough."""
    _need_draws(case)
    support, weights = _all_sentences(case), case.weights()
    sentence = Sentence(case.grammar, weights, max_length=case.longest)
    log_probs = sentence.log_prob(support)
    require(log_probs.logsumexp(0) <= 1e-9, "the probabilities of short sentences exceed one together")
    with seeded():
        draws = sentence.sample((DRAWS,))
    follows(draws, support, log_probs.softmax(0), "sample()")
    batch = case.weights((2,))
    with seeded():
        batch_draws = Sentence(case.grammar, batch, max_length=case.longest).sample((1000,))
    for b in range(2):
        one = Sentence(case.grammar, {name: w[b] for name, w in batch.items()})
        follows(batch_draws[:, b], support, one.log_prob(support).softmax(0), f"sample() of grammar {b} of a batch")


def check_draws_of_any_length(case: GrammarCase) -> None:
    """A larger max_length changes nothing but the share of long sentences."""
    _need_draws(case)
    support, weights = _all_sentences(case), case.weights()
    with seeded():
        draws = Sentence(case.grammar, weights, max_length=case.longest + 4).sample((DRAWS,))
    short = draws[(draws[:, case.longest :] == -1).all(-1), : case.longest]
    require(len(short) > 100, "hardly any sentence drawn is short")
    probs = Sentence(case.grammar, weights).log_prob(support).softmax(0)
    follows(short, support, probs, "the short sentences of sample()")


def check_draws_follow_the_seed(case: GrammarCase) -> None:
    """The same seed gives the same sentences, the next call gives others."""
    _need_draws(case)
    sentence = Sentence(case.grammar, case.weights(), max_length=case.longest + 2)
    with seeded(3):
        first, second = sentence.sample((50,)), sentence.sample((50,))
    with seeded(3):
        require((sentence.sample((50,)) == first).all(), "the same seed gives other sentences")
    require((first != second).any(), "two calls of sample() give the same sentences")


def check_shapes(case: GrammarCase) -> None:
    """Batch, sample and event shapes; draws are in the support; log_prob takes floats."""
    for batch in BATCHES:
        d = Sentence(case.grammar, case.weights(batch), max_length=case.longest + 1)
        require(tuple(d.batch_shape) == batch, f"batch_shape is {tuple(d.batch_shape)}, not {batch}")
        close(d.log_prob(case.words[0]), d.log_prob(case.words[0].double()), "log_prob of floats")
        has_shape(d.log_prob(case.words[0]), batch, f"log_prob of batch {batch}")
        for sample in SAMPLES if can_draw(case) else ():
            with seeded():
                value = d.sample(torch.Size(sample))
            has_shape(value, (*sample, *batch, case.longest + 1), f"sample({sample}) of batch {batch}")
            require(d.support.check(value).all(), "sample() leaves the support")
            has_shape(d.log_prob(value), sample + batch, f"log_prob of sample {sample} and batch {batch}")
            close(d.log_prob(value.double()), d.log_prob(value), "log_prob of floats")


def check_expand_mask_to_event(case: GrammarCase) -> None:
    """The ways in which Pyro bends distributions."""
    N = len(case.words)
    shared = Sentence(case.grammar, case.weights(), max_length=case.longest)
    expected = shared.log_prob(case.words)
    wide = shared.expand(torch.Size([2, N]))
    close(wide.log_prob(case.words), expected.expand(2, N).clone(), "log_prob after expand()")
    if can_draw(case):
        has_shape(wide.sample(), (2, N, case.longest), "sample() after expand()")
    close(shared.expand(torch.Size([N])).to_event(1).log_prob(case.words), expected.sum(), "log_prob of to_event(1)")
    mask = torch.arange(N) % 2 == 0
    close(shared.mask(mask).log_prob(case.words), expected * mask, "log_prob under a mask")


def check_plates(case: GrammarCase) -> None:
    """An observed plate adds up; minibatches, scaled by Pyro, are right on average."""
    words, weights = case.words, case.weights()
    N = len(words)

    def model(chosen: Tensor | None = None) -> None:
        with pyro.plate("sentences", N, subsample=chosen) as i:
            pyro.sample("words", Sentence(case.grammar, weights), obs=words[i])

    total = Sentence(case.grammar, weights).log_prob(words).sum()
    close(poutine.trace(model).get_trace().log_prob_sum(), total, "log_prob_sum in a plate")
    log_probs = [poutine.trace(model).get_trace(torch.tensor([b])).log_prob_sum() for b in range(N)]
    close(torch.stack([torch.as_tensor(p) for p in log_probs]).mean(), total, "the mean of log_prob_sum of minibatches")


def check_initial_weights(case: GrammarCase) -> None:
    """Every initialiser gives normalised weights in torch's default dtype, from which log_prob can be computed."""
    pairs = [("uniform", {}), ("random", {"seed": 0}), *case.initialisers]
    for method, options in pairs:
        weights = case.grammar.initial_weights(case.words, method, **options)
        require(list(weights) == list(case.grammar.blocks), f"{method!r} gives blocks {list(weights)}")
        for name, block in case.grammar.blocks.items():
            has_shape(weights[name], tuple(block.shape), f"{method!r} of block {name!r}")
            require(weights[name].dtype == torch.get_default_dtype(), f"{method!r} gives {weights[name].dtype}")
            require((weights[name] >= 0).all(), f"{method!r} gives negative weights in {name!r}")
            totals = block.totals(weights[name])
            close(totals, torch.ones_like(totals), f"totals of {name!r} by {method!r}", atol=1e-6)
        log_prob = Sentence(case.grammar, weights).log_prob(case.words)
        require(not log_prob.isnan().any(), f"log_prob is NaN after {method!r}")
    random = [case.grammar.initial_weights(case.words, "random", seed=seed) for seed in (0, 0, 1)]
    for name in case.grammar.blocks:
        require((random[0][name] == random[1][name]).all(), f"'random' of {name!r} does not follow its seed")
    require(any((random[0][n] != random[2][n]).any() for n in random[0]), "'random' is the same for every seed")
    _raises(lambda: case.grammar.initial_weights(case.words, "no such"), "there is no initialiser 'no such'")


def check_errors(case: GrammarCase) -> None:
    """Wrong weights and words are refused in one sentence that names the block or the sentence."""
    grammar, weights, V = case.grammar, case.weights(), case.grammar.num_words
    with pyro.validation_enabled(True):
        good = Sentence(grammar, weights)
        _raises(lambda: Sentence(grammar), "give either weights or log_weights")
        _raises(lambda: Sentence(grammar, weights, log_weights=weights), "give either weights or log_weights")
        _raises(lambda: Sentence(grammar, {**weights, "none": torch.ones(2)}), "weights has no use for .'none'.")
        for name, w in weights.items():
            lacking = {k: v for k, v in weights.items() if k != name}
            _raises(lambda lacking=lacking: Sentence(grammar, lacking), f"weights lacks block '{name}'")
            wrong = {**weights, name: torch.ones(*w.shape[:-1], w.shape[-1] + 1)}
            _raises(lambda wrong=wrong: Sentence(grammar, wrong), rf"weights\['{name}'\] must have shape \(")
            for bad in (-0.5, torch.nan, torch.inf):
                spoilt = w.clone()
                spoilt[(-1,) * w.dim()] = bad
                _raises(lambda s={**weights, name: spoilt}: Sentence(grammar, s), f"block '{name}' at .* is {bad}")
        rows = {"one too large": [0, V], "padding in the middle": [0, -1, 0], "no word": [-1, -1], "below -1": [-2, 0]}
        for what, row in rows.items():
            words = torch.tensor([[0] * len(row), row])
            _raises(lambda w=words: good.log_prob(w), f"sentence 1 is {re.escape(str(row))}", what)
            _raises(lambda w=words: good.derivation(w), f"sentence 1 is {re.escape(str(row))}", what)
        _raises(lambda: good.log_prob(torch.zeros(2, 0)), "words must have shape")
        _raises(lambda: good.log_prob(torch.tensor([0.5])), "sentence 0 is")


def check_copies(case: GrammarCase) -> None:
    """Grammar and Sentence can be pickled and copied, with leaves that need gradients, too."""
    leaves = {name: w.requires_grad_() for name, w in case.weights().items()}
    sentence = Sentence(case.grammar, leaves)
    expected = sentence.log_prob(case.words)
    for duplicate in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        twin: Any = duplicate(sentence)
        close(twin.log_prob(case.words), expected, "log_prob of a copy")
        require(twin.log_prob(case.words).requires_grad, "a copy of a Sentence has no gradient")
        other: Any = duplicate(case.grammar)
        close(Sentence(other, leaves).log_prob(case.words), expected, "log_prob by a copy of the grammar")


def check_dtype(case: GrammarCase) -> None:
    """log_prob, counts and derivations have the dtype of the weights."""
    exact = Sentence(case.grammar, case.weights()).log_prob(case.words)
    for dtype in (torch.float32, torch.float64):
        weights = {name: w.to(dtype) for name, w in case.weights().items()}
        sentence = Sentence(case.grammar, weights)
        log_prob = sentence.log_prob(case.words)
        derivation: Any = sentence.derivation(case.words)
        log_z, counts = case.grammar.expected_counts(sentence.log_weights, case.words)
        for what, result in {"log_prob": log_prob, "log Z": log_z, **counts, **derivation.expected_counts()}.items():
            require(result.dtype == dtype, f"{what} is {result.dtype}, not {dtype}")
        close(log_prob, exact, f"log_prob in {dtype}", rtol=1e-4, atol=1e-4)


def check_inputs_are_kept(case: GrammarCase) -> None:
    """Weights and words are not changed, and two sentences' grammars do not mix."""
    for needs_grad in (False, True):
        weights = {name: w.requires_grad_(needs_grad) for name, w in case.weights().items()}
        before = {name: w.detach().clone() for name, w in weights.items()}
        words = case.words.clone()
        sentence = Sentence(case.grammar, weights)
        expected = sentence.log_prob(words)
        _use(case, case.weights(seed=1))
        close(sentence.log_prob(words), expected, "log_prob after another Sentence was used")
        _use(case, weights)
        if can_draw(case):
            sentence.sample()
        require((words == case.words).all(), "the words were changed")
        for name, w in weights.items():
            require((w == before[name]).all(), f"the weights {name!r} were changed")
            require(w.requires_grad == needs_grad and w.grad is None, f"requires_grad of {name!r} was changed")


def check_gradient_after_no_grad(case: GrammarCase) -> None:
    """log_prob under no_grad first, with a gradient later."""
    leaves = {name: w.requires_grad_() for name, w in case.weights().items()}
    sentence = Sentence(case.grammar, leaves)
    with torch.no_grad():
        require(not sentence.log_prob(case.words).requires_grad, "log_prob has a graph under no_grad")
    log_prob = sentence.log_prob(case.words)
    require(log_prob.requires_grad, "log_prob has no gradient once it was computed under no_grad")
    later = torch.autograd.grad(log_prob.sum(), list(leaves.values()))
    fresh = torch.autograd.grad(Sentence(case.grammar, leaves).log_prob(case.words).sum(), list(leaves.values()))
    for name, actual, expected in zip(leaves, later, fresh, strict=True):
        close(actual, expected, f"gradient in {name!r} after no_grad")


def _use(case: GrammarCase, weights: Weights) -> None:
    sentence = Sentence(case.grammar, weights)
    sentence.log_prob(case.words)
    derivation: Any = sentence.derivation(case.words)
    derivation.expected_counts(), derivation.argmax(), derivation.sample()
    case.grammar.expected_counts(sentence.log_weights, case.words)


def _all_sentences(case: GrammarCase) -> Tensor:
    """Every sentence of up to ``case.longest`` words."""
    rows = []
    for n in range(1, case.longest + 1):
        for words in itertools.product(range(case.grammar.num_words), repeat=n):
            rows.append([*words, *[-1] * (case.longest - n)])
    return torch.tensor(rows)


def _raises(action: Any, pattern: str, what: str = "") -> None:
    """A ValueError that says what the pattern says, in one sentence."""
    try:
        action()
    except ValueError as error:
        require(re.search(pattern, str(error)), f"the error {what} reads {error!s}, not {pattern!r}")
        return
    raise AssertionError(f"no ValueError {what}: {pattern!r}")
