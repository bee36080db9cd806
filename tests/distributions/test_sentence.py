# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is special about Sentence: its errors, word for word, and its values."""

import copy
import pickle

import pyro
import pytest
import torch

from pyrogram import CFG, DMV, HMM
from pyrogram.distributions import Sentence
from pyrogram.distributions.sentence import safe_log

GRAMMAR = DMV(2)


@pytest.fixture
def weights():
    return GRAMMAR.initial_weights(torch.tensor([[0, 1]]), "uniform")


def refused(message, weights=None, **options):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Sentence(GRAMMAR, weights, validate_args=True, **options)


def test_neither_weights_nor_logarithms(weights):
    refused("give either weights or log_weights")
    refused("give either weights or log_weights", weights, log_weights=weights)


def test_missing_block(weights):
    del weights["attach"]
    refused(r"weights lacks block 'attach' of shape \(2, 2, 2\)", weights)


def test_unknown_block(weights):
    refused(
        r"weights has no use for \['stops'\]; the grammar's blocks are \['root', 'attach', 'stop'\]",
        {**weights, "stops": torch.ones(2)},
    )


def test_wrong_shape(weights):
    message = r"weights\['stop'\] must have shape \(..., 2, 2, 2, 2\), not \(2, 2, 2\)"
    refused(message, {**weights, "stop": torch.ones(2, 2, 2)})


@pytest.mark.parametrize("bad", [-0.25, torch.nan, torch.inf])
def test_weights_that_are_none(weights, bad):
    weights["attach"][1, 0, 1] = bad
    message = rf"weights must be non-negative and finite, but that of block 'attach' at \(1, 0, 1\) is {bad}"
    refused(message, weights)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_log_weights_that_are_none(weights, bad):
    logs = {name: w.log() for name, w in weights.items()}
    logs["root"][1] = bad
    refused(rf"log weights must be less than inf, but that of block 'root' at \(1,\) is {bad}", log_weights=logs)


def packed(weights):
    """A grammar of three rules for S and two for A, and its weights."""
    return CFG.from_string("S -> A S | A | 'a' A\nA -> 'a' | 'b'"), {"rules": torch.tensor(weights)}


SUMS = "weights must sum to one over each multinomial, but {} of block {} {}; .*, or say normalized=False.*"


@pytest.mark.parametrize("logarithms", [False, True])
def test_weights_that_do_not_sum_to_one(weights, logarithms):
    """A block, a multinomial and its sum, whichever way the weights are given; also in one grammar of a batch."""

    def given(tables):
        return {"log_weights": {n: w.log() for n, w in tables.items()}} if logarithms else {"weights": tables}

    stop = weights["stop"].repeat(3, 1, 1, 1, 1)
    stop[2, 1, 0, 1] *= 1.5
    message = SUMS.format(r"multinomial \(1, 0, 1\)", "'stop'", r"sums to 1.5 at batch index \(2,\)")
    refused(message, **given({**weights, "stop": stop}))
    refused(SUMS.format(r"multinomial \(1, 0, 1\)", "'stop'", "sums to 1.5"), **given({**weights, "stop": stop[2]}))
    refused(SUMS.format("the multinomial", "'root'", "sums to 2"), **given({**weights, "root": torch.ones(2)}))
    grammar, rules = packed([0.2, 0.2, 0.2, 0.2, 0.2])  # one softmax over all five rules
    with pytest.raises(
        ValueError, match=f"^{SUMS.format('multinomial 0', chr(39) + 'rules' + chr(39), 'sums to 0.6')}"
    ):
        Sentence(grammar, validate_args=True, **given(rules))


def test_weighted_grammars(weights):
    """log_prob is the log of the total weight, where the user says so or validates nothing."""
    grammar, rules = packed([0.5, 2.0, 0.25, 3.0, 1.0])
    words = grammar.encode(["a"])
    for options in ({"normalized": False, "validate_args": True}, {"validate_args": False}):
        for given in ({"weights": rules}, {"log_weights": {n: w.log() for n, w in rules.items()}}):
            log_z = Sentence(grammar, **given, **options).log_prob(words)
            torch.testing.assert_close(log_z.exp(), torch.tensor([2.0 * 3.0]))  # S -> A, A -> 'a'
    negative = {**weights, "root": torch.tensor([-1.0, 2.0])}
    refused(r"weights must be non-negative .*", negative, normalized=False)
    wide = Sentence(GRAMMAR, {**weights, "root": torch.ones(2)}, normalized=False, validate_args=True).expand((3,))
    assert wide.log_prob(torch.tensor([0])).shape == (3,) and not wide.normalized


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_errors_are_not_refused(dtype):
    grammar, _ = packed([1.0] * 5)
    rules = {"rules": torch.tensor([1 / 3, 1 / 3, 1 / 3, 0.1, 0.9], dtype=dtype)}
    for given in ({"weights": rules}, {"log_weights": {"rules": rules["rules"].log()}}):
        Sentence(grammar, validate_args=True, **given)
    many = HMM(1, 100_000)
    chain = {n: b.softmax(torch.randn(b.shape, dtype=dtype)) for n, b in many.blocks.items()}
    Sentence(many, chain, validate_args=True)


@pytest.mark.parametrize("row", [[0, 2], [-1, -1], [0, -1, 1], [-2, 0], [0, -2], [0, 0.5], [0, torch.nan]])
def test_words_that_are_none(weights, row):
    words = torch.tensor([[0] * len(row), row])
    sentence = Sentence(GRAMMAR, weights, validate_args=True)
    message = r"^words must be one or more of 0..1 and then padding of -1, but sentence 1 is \[.*\]$"
    for action in (sentence.log_prob, sentence.derivation):
        with pytest.raises(ValueError, match=message):
            action(words)
    assert sentence.support.check(words).tolist() == [True, False]


def test_no_words(weights):
    with pytest.raises(ValueError, match=r"^words must have shape \(..., n\) with n >= 1, not \(3, 0\)$"):
        Sentence(GRAMMAR, weights).log_prob(torch.zeros(3, 0))
    with pytest.raises(ValueError, match=r"^words must have shape \(..., n\) with n >= 1, not \(\)$"):
        Sentence(GRAMMAR, weights).log_prob(torch.tensor(1))


def test_no_sentences(weights):
    assert Sentence(GRAMMAR, weights).log_prob(torch.zeros(0, 3, dtype=torch.long)).shape == (0,)


@pytest.mark.parametrize("words", [[[0, 2]], [[0, -1, 1]], [[-3, 0]]])
def test_counts_of_wrong_words_are_refused_even_without_validation(weights, words):
    """Compiled code would read and write beyond its tables."""
    logs = {name: w.log() for name, w in weights.items()}
    for action in (GRAMMAR.log_partition, GRAMMAR.expected_counts):
        with pytest.raises(ValueError, match=r"^words must be one or more of 0..1 and then padding"):
            action(logs, torch.tensor(words))


def test_unnormalised_weights_cannot_be_sampled(weights):
    weights["stop"] = 2 * weights["stop"]
    with pytest.raises(ValueError, match="sampling needs normalised weights, but a multinomial of 'stop' sums to 2"):
        Sentence(GRAMMAR, weights, normalized=False).sample()


def test_grammar_that_does_not_stop(weights):
    weights["stop"] = torch.tensor([1.0, 0.0]).expand(2, 2, 2, 2)
    with pytest.raises(ValueError, match="10,000 sampled sentences in a row had more than 5 words"):
        Sentence(GRAMMAR, weights, max_length=5).sample()


def test_safe_log():
    w = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(safe_log(w)[1:].sum() + 0 * w.sum(), [w])
    assert safe_log(w).tolist() == [-torch.inf, 0.0, torch.tensor(4.0).log().item()]
    assert gradient.tolist() == [0.0, 1.0, 0.25]


def by_parameters(weights):
    """Weights that are pyro.params, of which Pyro keeps references that cannot be pickled."""
    simplex = torch.distributions.constraints.simplex
    return {n: pyro.param(n, w, constraint=simplex) for n, w in weights.items()}


@pytest.mark.parametrize("logarithms", [False, True])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"])
def test_copies_of_sentences_with_parameters(weights, duplicate, logarithms):
    given = by_parameters(weights)
    given = {"log_weights": {n: w.log() for n, w in given.items()}} if logarithms else {"weights": given}
    words = torch.tensor([[0, 1], [1, -1]])
    original = Sentence(GRAMMAR, **given)
    twin = duplicate(original)
    assert torch.equal(twin.log_prob(words), original.log_prob(words))
    assert original.log_prob(words).requires_grad  # the original stays in its graph
    assert copy.copy(original).log_prob(words).requires_grad  # and a shallow copy has the very same weights


def value_of(sentence, words):
    return float(sentence.log_prob(torch.tensor(words)))


@pytest.mark.slow
def test_sentences_with_parameters_go_to_other_processes(weights):
    sentence = Sentence(GRAMMAR, by_parameters(weights))
    with torch.multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(value_of, (sentence, [0, 1]))
    assert found == pytest.approx(float(sentence.log_prob(torch.tensor([0, 1])).detach()))


def test_copies_of_leaves_are_leaves(weights):
    leaf = weights["root"].requires_grad_()
    twin = pickle.loads(pickle.dumps(Sentence(GRAMMAR, weights)))
    assert twin.weights["root"].requires_grad and twin.weights["root"].is_leaf and twin.weights["root"] is not leaf
