# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tilted grammars, against lists of all derivations of short sentences."""

import copy
import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import evidence_sums
import own_grammars
import pyro
import pytest
import small_grammars
import torch
from torch import Tensor

from pyrogram import DMV, HMM, Bias
from pyrogram.distributions import Sentence
from pyrogram.grammar import Block, Grammar
from pyrogram.grammars import DistanceDMV, RecursiveGrammar, SparseDMV, TensorPCFG
from pyrogram.testing import GRAMMAR_CHECKS, GrammarCase


def own() -> tuple[Any, Any, Tensor]:
    V = 2
    blocks = {"root": Block(torch.Size([V])), "attach": Block(torch.Size([V, 2, V]))}
    blocks["stop"] = Block(torch.Size([V, 2, 2, 2]))
    grammar = RecursiveGrammar(blocks, own_grammars.valences(), V)
    words = small_grammars.WORDS
    return grammar, grammar.initial_weights(words, "random", seed=1), words


def low_rank() -> tuple[Any, Any, Tensor]:
    grammar, words = TensorPCFG(2, 2, 2, 2), small_grammars.WORDS
    return grammar, grammar.initial_weights(words, "random", seed=1), words


GRAMMARS: dict[str, Callable[[], Any]] = {**small_grammars.GRAMMARS, "own": own, "low rank": low_rank}
grammars = pytest.mark.parametrize("name", GRAMMARS)


def random_nats(grammar: Grammar, seed: int = 0) -> dict[str, Tensor]:
    """Nats of all blocks but the first, if there are several; an event of the last one is forbidden, if it has many."""
    generator = torch.Generator().manual_seed(seed)
    names = list(grammar.blocks)[min(1, len(grammar.blocks) - 1) :]
    nats = {n: torch.randn(grammar.blocks[n].shape, generator=generator, dtype=torch.float64) for n in names}
    if nats[names[-1]].numel() > 3:
        nats[names[-1]].view(-1)[0] = -math.inf
    return nats


def listed(grammar: Grammar, log_weights: Mapping[str, Tensor], words: Tensor, nats: Mapping[str, Tensor]) -> Any:
    """All derivations of a sentence without padding, their counts, and the log of p(x, y) exp φ."""
    law: Any = grammar.derivation(grammar.initial_weights(words[None], "uniform"), words)
    values = law.enumerate_support()
    counts = {n: c.double() for n, c in law.counts(values).items()}
    scores = torch.zeros(len(values), dtype=torch.float64)
    for n, c in counts.items():
        for table in (log_weights[n], *([nats[n].expand(c.shape[1:])] if n in nats else [])):
            scores += torch.where(c > 0, c * table, 0.0).flatten(1).sum(1)
    return values, counts, scores


@pytest.mark.one_in(3)
@grammars
def test_sums_are_those_over_all_derivations(name: str) -> None:
    grammar, weights, words = GRAMMARS[name]()
    nats, logs = random_nats(grammar), {n: w.double().log() for n, w in weights.items()}
    tilted = grammar.tilted(nats)
    log_z = tilted.log_partition(logs, words)
    of_all, counts = tilted.expected_counts(logs, words)
    law, total = tilted.derivation(None, words, log_weights=logs), {n: torch.zeros_like(w) for n, w in logs.items()}
    expected = law.expected_counts()
    for b, sentence in enumerate(words):
        own = sentence[sentence >= 0]
        values, events, scores = listed(grammar, logs, own, nats)
        assert float(log_z[b]) == pytest.approx(float(scores.logsumexp(0)), abs=1e-12)
        probs = scores.softmax(0)
        single = tilted.derivation(None, own, log_weights=logs)
        possible = probs > 0
        torch.testing.assert_close(single.log_prob(values[possible]), probs[possible].log(), rtol=0, atol=1e-10)
        assert float(single.entropy()) == pytest.approx(float(-(probs * probs.log()).nan_to_num().sum()), abs=1e-10)
        assert float(single.log_prob(single.argmax())) == pytest.approx(float(probs.max().log()), abs=1e-10)
        for n in logs:
            mean = torch.tensordot(probs, events[n], 1)
            torch.testing.assert_close(expected[n][b], mean, rtol=0, atol=1e-10)
            total[n] += mean
    torch.testing.assert_close(of_all, log_z)
    for n in logs:
        torch.testing.assert_close(counts[n], total[n], rtol=0, atol=1e-10)


@grammars
def test_gradients_of_bias_and_weights_are_expected_counts(name: str) -> None:
    grammar, weights, words = GRAMMARS[name]()
    nats = {n: t.requires_grad_() for n, t in random_nats(grammar).items()}
    logs = {n: w.double().log().requires_grad_() for n, w in weights.items()}
    total = Sentence(grammar.tilted(nats), log_weights=logs).log_prob(words).sum()
    expected = grammar.tilted(nats).expected_counts({n: w.detach() for n, w in logs.items()}, words)[1]
    gradients = torch.autograd.grad(total, [*nats.values(), *logs.values()])
    for n, gradient in zip([*nats, *logs], gradients, strict=True):
        torch.testing.assert_close(gradient, expected[n], rtol=0, atol=1e-10)


@grammars
def test_each_sentence_may_have_weights_of_its_own(name: str) -> None:
    grammar, weights, words = GRAMMARS[name]()
    tilted = grammar.tilted(random_nats(grammar))
    batch = {n: torch.stack([w.double(), w.double().flip(-1)]).log() for n, w in weights.items()}
    own = tilted.sentence_multinomials(words)
    rows = {
        n: w.flatten(1, -2)[own.sentence[n], own.multinomial[n]] if w.dim() > 2 else w[own.sentence[n]]
        for n, w in batch.items()
    }
    log_z, counts = own.expected_counts(rows)
    found = tilted.log_partition(batch, words)
    for b in range(2):
        alone, expected = tilted.expected_counts({n: w[b] for n, w in batch.items()}, words[b : b + 1])
        assert float(found[b]) == pytest.approx(float(alone), abs=1e-10)
        assert float(log_z[b]) == pytest.approx(float(alone), abs=1e-10)
        for n, table in expected.items():
            mine = own.sentence[n] == b
            flat = table.reshape(-1, table.shape[-1])[own.multinomial[n][mine]]
            torch.testing.assert_close(counts[n][mine], flat, rtol=0, atol=1e-10)


#: These hold log Z against the weights alone.
OF_WEIGHTS = {"derivation", "expected_counts", "log_prob", "zero_weights"}
CHECKS = sorted(name for name in GRAMMAR_CHECKS if "draws" not in name and name not in OF_WEIGHTS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("check", CHECKS)
def test_a_tilted_grammar_is_a_grammar(check: str) -> None:
    words = torch.tensor([[0, 1, 0], [1, 0, -1], [1, -1, -1]])
    bias = {"attach": torch.tensor([0.5, -1.0]), "stop": torch.tensor([[[0.3], [-0.2]]])}
    GRAMMAR_CHECKS[check](GrammarCase(DMV(2).tilted(bias), words))


# ---------------------------------------------------------------------- evidence


@pytest.mark.one_in(16)
@pytest.mark.parametrize("case", evidence_sums.CASES)
def test_with_evidence(case: str) -> None:
    """Derivations that agree with the evidence, each weighed by its factor and exp φ."""
    own = evidence_sums.CASES[case]()
    nats, weights = random_nats(own.grammar), {n: w.double() for n, w in own.weights().items()}
    tilted = {n: w.log() + nats[n] if n in nats else w.log() for n, w in weights.items()}
    sentence = Sentence(own.grammar.tilted(nats), weights, known=own.known)
    log_z, law, total = sentence.log_prob(own.words), sentence.derivation(own.words), {}
    expected, counts = law.expected_counts(), None
    for b in range(len(own.words)):
        found, mean, _ = _sums(own, tilted, b)
        assert float(log_z[b]) == pytest.approx(found, abs=1e-9)
        for n, table in mean.items():
            if math.isfinite(found):
                torch.testing.assert_close(expected[n][b].double(), table, rtol=0, atol=1e-9)
            total[n] = total.get(n, 0) + table
    given, logs = sentence.observed_grammar, {n: w.log() for n, w in weights.items()}
    counts = given.expected_counts(logs, sentence.observed(own.words))[1]
    for n, table in total.items():
        torch.testing.assert_close(counts[n].double(), table, rtol=0, atol=1e-9)


def _sums(case: evidence_sums.EvidenceCase, log_weights: Mapping[str, Tensor], b: int) -> Any:
    """As ``case.sums``, but an event of weight zero takes its derivation away."""
    found = case.derivations(b)
    scores, counts = [], []
    for _, c, bonus in found:
        scores.append(bonus + sum(float(torch.where(c[n] > 0, c[n] * w, 0.0).sum()) for n, w in log_weights.items()))
        counts.append(c)
    probs = torch.tensor(scores, dtype=torch.float64).softmax(0).nan_to_num()
    mean = {
        n: sum((p * c[n] for p, c in zip(probs, counts, strict=True)), torch.zeros_like(w)).double()
        for n, w in log_weights.items()
    }
    return float(torch.tensor(scores, dtype=torch.float64).logsumexp(0)) if scores else -math.inf, mean, probs


def test_nats_of_arcs_go_along_with_their_sentences() -> None:
    """Beside nats of events, with and without heads that are known; in a subsampled plate as well."""
    grammar, words = DMV(2), torch.tensor([[0, 1, 0], [1, 0, -1], [1, 1, 0]])
    weights = {n: w.double() for n, w in grammar.initial_weights(words, "random", seed=2).items()}
    arcs = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    arcs[2, 1, 2] = -math.inf
    nats = {"root": torch.tensor([0.0, 2.0], dtype=torch.float64)}
    bias = Bias(nats, {"arc_scores": arcs})
    heads = torch.tensor([[-1, 0, -1], [-1, -1, -1], [-1, -1, -1]])
    truth = []
    for b, row in enumerate(words):
        own = row[row >= 0]
        values, _, scores = listed(grammar, {n: w.log() for n, w in weights.items()}, own, nats)
        scores = scores + torch.stack([arcs[b, values[:, j], j + 1] for j in range(len(own))]).sum(0)
        truth.append((values, scores))
    expected = torch.stack([scores.logsumexp(0) for _, scores in truth])
    tilted = grammar.tilted(bias)
    sentence = Sentence(tilted, weights)
    torch.testing.assert_close(sentence.log_prob(words), expected)
    torch.testing.assert_close(tilted.log_partition(sentence.log_weights, words), expected)
    torch.testing.assert_close(tilted.expected_counts(sentence.log_weights, words)[0], expected)
    torch.testing.assert_close(
        grammar.tilted({**nats, "arc_scores": arcs}).log_partition(sentence.log_weights, words), expected
    )
    trees = sentence.derivation(words).argmax()
    for b, (values, scores) in enumerate(truth):
        assert trees[b, : values.shape[1]].tolist() == values[scores.argmax()].tolist()
    known = Sentence(tilted, weights, known=heads).log_prob(words)
    values, scores = truth[0]
    torch.testing.assert_close(known[0], scores[values[:, 1] == 0].logsumexp(0))
    torch.testing.assert_close(known[1:], expected[1:])

    def model() -> None:
        with pyro.plate("sentences", 3, subsample=torch.tensor([2, 0])) as i:
            pyro.sample("words", Sentence(grammar.tilted(bias[i]), weights), obs=words[i])

    total = pyro.poutine.trace(model).get_trace().log_prob_sum()
    torch.testing.assert_close(total, expected[[2, 0]].sum() * 1.5)
    with pytest.raises(ValueError, match="take known"):
        Sentence(tilted, weights).log_prob(words[:2])


def test_states_of_a_hidden_markov_model() -> None:
    """The log factors that are given as evidence, and nats that are added to them."""
    grammar, words = HMM(2, 2), torch.tensor([[0, 1, 1]])
    weights = grammar.initial_weights(words, "random", seed=1)
    one, two = torch.randn(2, 1, 3, 2, generator=torch.Generator().manual_seed(0))
    both = Sentence(grammar, weights, known={"state_scores": one + two}).log_prob(words)
    tilted = grammar.tilted({"state_scores": one})
    torch.testing.assert_close(Sentence(tilted, weights, known={"state_scores": two}).log_prob(words), both)
    torch.testing.assert_close(Sentence(tilted.tilted({"state_scores": two}), weights).log_prob(words), both)


# ---------------------------------------------------------------------- biases


def nats_of_roots() -> None:
    """Twenty sentences of two tags, of which the second one is always the root."""
    grammar, words, heads = DMV(2), torch.tensor([[0, 1]] * 20), torch.tensor([[2, 0]] * 20)
    uniform = grammar.initial_weights(words, "uniform")
    nats = pyro.sample("nats", pyro.distributions.Normal(torch.zeros(2), 1.0).to_event(1))
    joint = Sentence(grammar.tilted({"root": nats}), uniform, known=heads).log_prob(words)
    pyro.factor("q", (joint - Sentence(grammar.tilted({"root": nats}), uniform).log_prob(words)).sum())


def test_the_gradient_of_a_bias() -> None:
    """That of a logistic regression on the tag of the root, and of the Gaussian."""
    for nats in torch.randn(3, 2):
        given = pyro.condition(nats_of_roots, {"nats": nats.requires_grad_()})
        (found,) = torch.autograd.grad(pyro.poutine.trace(given).get_trace().log_prob_sum(), nats)
        torch.testing.assert_close(found, 20 * (torch.tensor([0.0, 1.0]) - nats.softmax(0)) - nats)


@pytest.mark.slow
def test_a_bias_is_learnt() -> None:
    """Two tags, one of which is always the root: its nats grow against a Gaussian that holds them."""
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    guide = pyro.infer.autoguide.AutoDelta(nats_of_roots)
    adam = pyro.optim.Adam({"lr": 0.1})  # type: ignore[attr-defined]
    svi = pyro.infer.SVI(nats_of_roots, guide, adam, pyro.infer.Trace_ELBO())
    for _ in range(300):
        svi.step()
    nats = guide.median()["nats"]
    shares = [20 * (1 - float(nats.softmax(0)[1])), float(nats[1])]  # the gradients of likelihood and prior
    assert shares[0] == pytest.approx(shares[1], abs=0.02) and float(nats.sum()) == pytest.approx(0.0, abs=0.02)


def test_tilts_are_added() -> None:
    grammar, weights, words = GRAMMARS["DMV"]()
    one, two = random_nats(grammar, 1), {"root": torch.tensor([1.0, -2.0])}
    twice = grammar.tilted(Bias(one, told=("One.",))).tilted(Bias(two, told=("Two.",)))
    assert twice.base is grammar and twice.bias.told == ("One.", "Two.")
    logs = {n: w.log() for n, w in weights.items()}
    torch.testing.assert_close(
        twice.log_partition(logs, words), grammar.tilted({**one, **two}).log_partition(logs, words)
    )


def test_one_tensor_is_about_the_only_block() -> None:
    grammar, weights, words = GRAMMARS["CFG"]()
    nats = torch.tensor([0.5, 0.0, -1.0])
    one, named = (Sentence(grammar.tilted(b), weights).log_prob(words) for b in (nats, {"rules": nats}))
    assert torch.equal(one, named)
    with pytest.raises(TypeError, match=r"a bias of \['root', 'attach', 'stop'\] must be tensors by block"):
        DMV(2).tilted(torch.zeros(2))


def test_weights_draws_and_names_are_those_of_the_grammar() -> None:
    grammar, weights, words = GRAMMARS["DMV"]()
    tilted = grammar.tilted({"root": torch.tensor([5.0, 0.0])})
    assert tilted.blocks == grammar.blocks and tilted.axes == grammar.axes and tilted.num_words == grammar.num_words
    assert set(tilted.initialisers) == set(grammar.initialisers)
    for n, w in tilted.initial_weights(words, "harmonic").items():
        assert torch.equal(w, grammar.initial_weights(words, "harmonic")[n])
    with pyro.util.ignore_jit_warnings():
        pyro.set_rng_seed(1)
        one = Sentence(tilted, weights, max_length=4).sample((5,))
        pyro.set_rng_seed(1)
        assert torch.equal(one, Sentence(grammar, weights, max_length=4).sample((5,)))
    assert repr(tilted) == "DMV(2) tilted by root"


def test_another_bias_is_another_grammar() -> None:
    grammar, _, _ = GRAMMARS["DMV"]()
    arcs = torch.zeros(1, 4, 4)
    biases: list[Any] = [{}, {"root": torch.zeros(2)}, {"root": torch.ones(2)}, {"arc_scores": arcs}]
    assert len({grammar.tilted(b).identity for b in biases} | {grammar.identity}) == 5
    assert grammar.tilted(biases[2]).identity == grammar.tilted({"root": torch.ones(1)}).identity


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"])
def test_copies(duplicate: Any) -> None:
    grammar, weights, words = GRAMMARS["DMV"]()
    bias = {"root": torch.ones(2).requires_grad_() * 2, "arc_scores": torch.randn(2, 4, 4)}
    sentence = Sentence(grammar.tilted(bias), weights)
    torch.testing.assert_close(duplicate(sentence).log_prob(words), sentence.log_prob(words).detach())


@pytest.mark.parametrize(
    ("bias", "error", "message"),
    [
        ({"roots": torch.zeros(2)}, ValueError, "roots"),
        (
            Bias({"roots": torch.zeros(2)}),
            ValueError,
            "a bias of events is about blocks, which are .* but 'roots' is none",
        ),
        ({"root": torch.zeros(3)}, ValueError, r"must broadcast against \(2,\), but have shape \(3,\)"),
        ({"root": torch.zeros(1, 2)}, ValueError, r"must broadcast against \(2,\), but have shape \(1, 2\)"),
        ({"root": torch.tensor([0.0, math.inf])}, ValueError, "must be real numbers or -inf, which forbids"),
        ({"root": torch.tensor([0.0, math.nan])}, ValueError, "must be real numbers or -inf, which forbids"),
        ({"root": torch.tensor([0, 1])}, TypeError, "'root' must be a tensor of real numbers, not torch.int64"),
        ({"root": [0.0, 1.0]}, TypeError, "'root' must be a tensor of real numbers, not list"),
        (3.0, TypeError, "bias must be a Bias, or tensors by block or kind of part, not 3.0"),
    ],
)
def test_refusals(bias: Any, error: type[Exception], message: str) -> None:
    grammar, weights, words = GRAMMARS["DMV"]()
    with pytest.raises(error, match=message):
        Sentence(grammar.tilted(bias), weights).log_prob(words)


#: Methods that take log weights by block and words, beside those that all grammars have.
OTHERS: dict[str, tuple[Callable[[], Any], list[Callable[[Any, Any, Tensor], Any]]]] = {
    "distances": (
        lambda: DistanceDMV(2),
        [
            lambda g, logs, words: g.arc_marginals(logs, words),
            lambda g, logs, words: g.mbr_heads(logs, words).float(),
            lambda g, logs, words: g.item_counts(logs, words, "RC")["RC"],
            lambda g, logs, words: g.sentence_counts(logs, words)[1]["attach"],
            lambda g, logs, words: g.best(g.expanded(logs, words.shape[:1]), words, 2)[0],
        ],
    ),
    "DMV": (lambda: DMV(2), [lambda g, logs, words: g.scores(logs, words)[0]]),
    "pairs": (lambda: SparseDMV.of(small_grammars.WORDS), [lambda g, logs, words: g.scores(logs, words)[0]]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_no_method_forgets_the_tilt(name: str) -> None:
    make, methods = OTHERS[name]
    grammar, words = make(), small_grammars.WORDS
    nats = {n: t.clamp_min(-3.0) for n, t in random_nats(grammar).items()}
    logs = {n: w.double().log() for n, w in grammar.initial_weights(words, "random", seed=1).items()}
    biased = {n: w + nats[n] if n in nats else w for n, w in logs.items()}
    for method in methods:
        found = method(grammar.tilted(nats), logs, words)
        torch.testing.assert_close(found, method(grammar, biased, words), rtol=1e-10, atol=1e-12)


def test_nats_of_parts_are_not_lost() -> None:
    """Sentences of another grammar lack them, and methods without evidence of their own refuse them."""
    grammar, weights, words = GRAMMARS["DMV"]()
    arcs = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    tilted, logs = grammar.tilted({"arc_scores": arcs}), {n: w.log() for n, w in weights.items()}
    heads = torch.tensor([[-1, 0, -1], [-1, -1, -1]])
    expected = Sentence(tilted, weights, known=heads).log_prob(words)
    torch.testing.assert_close(tilted.log_partition(logs, tilted.sentences(words, heads)), expected)
    again = pickle.loads(pickle.dumps(tilted)).sentences(words, heads)
    torch.testing.assert_close(tilted.log_partition(logs, again), expected)
    for sentences in (grammar.sentences(words, heads), tilted.tilted({"arc_scores": arcs}).sentences(words)):
        with pytest.raises(ValueError, match="made by another grammar and lack the nats of parts"):
            tilted.log_partition(logs, sentences)
    own: Any = DistanceDMV(2).tilted({"RC": torch.zeros(2, 4, 4)})
    with pytest.raises(NotImplementedError, match="nats of parts are not taken along here"):
        own.item_counts({n: torch.zeros(b.shape) for n, b in own.blocks.items()}, words, "RC")
    with pytest.raises(TypeError, match="this takes words, and what is known of them as evidence="):
        own.base.item_counts({n: torch.zeros(b.shape) for n, b in own.blocks.items()}, own.sentences(words), "RC")
