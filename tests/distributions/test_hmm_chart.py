# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hidden Markov chains against the list of all state sequences, multiplied out in plain Python."""

import itertools
import math

import pytest
import torch

from pyrogram import HMM
from pyrogram.distributions import StateSequence
from pyrogram.distributions.state_sequence import program
from pyrogram.testing import chi_square

K, V = 3, 4
WORDS = torch.tensor([[0, 3, 1, 2, 2], [1, -1, -1, -1, -1], [3, 3, -1, -1, -1], [2, 0, 1, -1, -1]])
ENGINES = ("compiled", "torch")


def tables(batch=1, scale=1.0, forbid=0.0, K=K, V=V):
    """Log weights: initial, transition, emission."""
    drawn = [scale * torch.randn(batch, *shape) for shape in ((K,), (K, K + 1), (K, V))]
    return [t.masked_fill(torch.rand(t.shape) < forbid, -torch.inf) for t in drawn]


def law(given, words):
    return StateSequence(*given, words, validate_args=False)


def log_partition(*given, words, engine="compiled"):
    chain = law(given, words)
    return chain._program.log_partition(chain._tensor_inputs(words.shape[:1]), by_torch=engine == "torch")


def posteriors(*given, words, engine="compiled"):
    """log Z, transitions and states."""
    chain = law(given, words)
    if engine == "compiled":
        log_z, states, _, moves, _ = chain._posterior()
        return log_z, moves, states
    scores = {name: x.clone().requires_grad_() for name, x in chain._flat(words.shape[:1], shared=False).items()}
    inputs = chain._with_words(scores, chain.lengths, evidence=True)
    log_z = program(True).log_partition(inputs, by_torch=True)
    moves, states = torch.autograd.grad(log_z.sum(), [scores["transition"], scores["bonus"]])
    return log_z.detach(), moves, states


def emission_counts(states, words, num_words):
    """Sums (B, K, V) of the probabilities of states by the word that they emit."""
    return states.mT @ torch.nn.functional.one_hot(words + 1, num_words + 1)[..., 1:].to(states)


def sequences(given, words, b=0):
    """Every state sequence of a sentence and its log weight."""
    initial, transition, emission = (t[b if len(t) > 1 else 0].tolist() for t in given)
    words, K = [w for w in words.tolist() if w >= 0], len(initial)
    for states in itertools.product(range(K), repeat=len(words)):
        terms = [initial[states[0]], *(emission[y][w] for y, w in zip(states, words, strict=True))]
        terms += [transition[y][z] for y, z in zip(states, [*states[1:], K], strict=True)]
        yield states, sum(terms)


def log_sum(terms):
    top = max(terms)
    return top if top == -math.inf else top + math.log(sum(math.exp(t - top) for t in terms))


def enumerated(given, words):
    """log Z (B,), transitions (B, K, K+1) and states (B, n, K) of sentences."""
    K = given[0].shape[-1]
    log_z, moves, states = torch.zeros(len(words)), torch.zeros(len(words), K, K + 1), torch.zeros(*words.shape, K)
    for b, row in enumerate(words):
        listed = list(sequences(given, row, b))
        log_z[b] = log_sum([score for _, score in listed])
        for sequence, score in listed:
            p = math.exp(score - float(log_z[b])) if score > -math.inf else 0.0
            for t, (y, z) in enumerate(zip(sequence, [*sequence[1:], K], strict=True)):
                moves[b, y, z] += p
                states[b, t, y] += p
    return log_z, moves, states


CASES = {
    "shared": {},
    "own": {"batch": len(WORDS)},
    "forbidden": {"forbid": 0.3},
    "own, forbidden": {"batch": len(WORDS), "forbid": 0.3},
    "extreme": {"scale": 400.0},
    "own, extreme": {"batch": len(WORDS), "scale": 400.0, "forbid": 0.1},
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_sums(case, engine):
    for _ in range(5):
        given = tables(**CASES[case])
        log_z, moves, states = enumerated(given, WORDS)
        torch.testing.assert_close(log_partition(*given, words=WORDS, engine=engine), log_z)
        for found, expected in zip(posteriors(*given, words=WORDS, engine=engine), (log_z, moves, states), strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mixed", range(3))
def test_one_table_of_each_sentence_and_two_of_all(mixed, engine):
    given = tables()
    given[mixed] = tables(len(WORDS))[mixed]
    leaves = [t.requires_grad_() for t in given]
    log_z = log_partition(*leaves, words=WORDS, engine=engine)
    expected_log_z, moves, states = enumerated([t.detach() for t in given], WORDS)
    torch.testing.assert_close(log_z.detach(), expected_log_z)
    gradients = torch.autograd.grad(log_z.sum(), leaves)
    counts = states[:, 0], moves, emission_counts(states, WORDS, V)
    for t, gradient, count in zip(given, gradients, counts, strict=True):
        torch.testing.assert_close(gradient, count if len(t) > 1 else count.sum(0, keepdim=True))


def summed(given, words):
    """log Z and expected counts of all sentences."""
    grammar = HMM(given[0].shape[-1], given[2].shape[-1])
    log_z, by_block = grammar.expected_counts(dict(zip(grammar.blocks, (t[0] for t in given), strict=True)), words)
    return log_z, *by_block.values()


@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_counts_of_many_sentences(scale):
    given = tables(scale=scale)
    log_z, *found = summed(given, WORDS)
    expected_log_z, moves, states = enumerated(given, WORDS)
    torch.testing.assert_close(log_z, expected_log_z)
    expected = states[:, 0], moves, emission_counts(states, WORDS, V)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e.sum(0))


def test_impossible_sentences_spoil_no_others():
    given = tables()
    given[2][:, :, 3] = -torch.inf  # sentences 0 and 2
    log_z, *found = summed(given, WORDS)
    assert log_z[[0, 2]].tolist() == [-math.inf, -math.inf]
    _, *expected = summed(given, WORDS[[1, 3]])
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("states", [1, *(pytest.param(K, marks=pytest.mark.slow) for K in (2, 8, 21)), 9])
def test_engines_agree_on_long_sentences(states):
    """Hundreds of words of very different probability, more sentences than lanes, and states beyond a vector."""
    words = torch.randint(V, (37, 300))
    lengths = torch.randint(1, 301, (37,))
    words[torch.arange(300) >= lengths[:, None]] = -1
    given = [5 * torch.randn(1, *shape) for shape in ((states,), (states, states + 1), (states, V))]
    given[2][..., 1] -= 600.0
    for found, expected in zip(
        posteriors(*given, words=words, engine="compiled"), posteriors(*given, words=words, engine="torch"), strict=True
    ):
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(log_partition(*given, words=words), posteriors(*given, words=words, engine="torch")[0])


@pytest.mark.parametrize("k", [1, 2, 40])
def test_top_k(k):
    for forbid in (0.0, 0.3):
        given = tables(len(WORDS), forbid=forbid)
        states, totals = law(given, WORDS)._top_k(k)
        for b, row in enumerate(WORDS):
            listed = sorted((s for s in sequences(given, row, b) if s[1] > -math.inf), key=lambda s: -s[1])[:k]
            n = int((row >= 0).sum())
            torch.testing.assert_close(totals[: len(listed), b], torch.tensor([s for _, s in listed]))
            assert totals[len(listed) :, b].isinf().all()
            expected = [[*y, *[-1] * (5 - n)] for y, _ in listed] + [[-1] * 5] * (k - len(listed))
            assert states[:, b].tolist() == expected


@pytest.mark.parametrize("extreme", [False, True])
def test_draws(extreme):
    """In proportion to the weights, also where all of them are far below what real space holds."""
    given = tables(2)
    if extreme:
        given[1] = given[1] - 2000.0
    words = torch.tensor([[0, 3, -1], [1, 2, 0]])
    drawn = law(given, words).sample((5000,))
    for b, row in enumerate(words):
        listed = list(sequences(given, row, b))
        n = len(listed[0][0])
        assert (drawn[:, b, n:] == -1).all()
        index = (drawn[:, b, :n] * K ** torch.arange(n - 1, -1, -1)).sum(-1)
        probs = torch.tensor([s for _, s in listed]).softmax(0)
        assert chi_square(torch.bincount(index, minlength=K**n), probs) > 1e-4


def test_nothing_to_draw():
    given = tables()
    given[2][:, :, 1] = -torch.inf
    with pytest.raises(ValueError, match="sentence 0 has no state sequence of positive weight"):
        law(given, WORDS).sample()


def test_counts_do_not_depend_on_threads():
    given = tables()
    words = torch.randint(V, (4000, 30))
    threads = torch.get_num_threads()
    try:
        found = []
        for number in (1, 3):
            torch.set_num_threads(number)
            found.append(summed(given, words))
    finally:
        torch.set_num_threads(threads)
    for one, many in zip(*found, strict=True):
        assert (one == many).all()


@pytest.mark.parametrize("row", [[0, V], [0, -2], [-1, 0], [-1, -1]])
def test_words_are_checked(row):
    with pytest.raises(ValueError, match="words must be one or more of 0..3 and then padding of -1"):
        law(tables(), torch.tensor([row]))


def test_float32():
    given = tables()
    exact = posteriors(*given, words=WORDS)
    for found, expected in zip(posteriors(*(t.float() for t in given), words=WORDS), exact, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
