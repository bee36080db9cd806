# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums and loops on tensors that are not on the CPU: nothing meets a tensor of the CPU, and nothing is copied there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from fake_device import kernels_on, launched
from other_device import OtherDevice
from torch import Tensor

import pyrogram
from pyrogram.bias import Bias
from pyrogram.distributions import Sentence, SpanTree
from pyrogram.grammar import Grammar
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM, posterior_predictive
from pyrogram.recursion.run.launching import Launcher

WORDS = torch.tensor([[0, 2, 1, 1], [2, 2, -1, -1], [1, 0, 2, -1]])
GRAMMARS: dict[str, Callable[[], Grammar]] = {
    "dmv": lambda: pyrogram.DMV(3),
    "dmv of three valences": lambda: pyrogram.DMV(3, num_valences=3),
    "hmm": lambda: pyrogram.HMM(2, 3),
}


@pytest.fixture(params=[False, True], ids=["torch", "kernels"])
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Launcher | None:
    """Of the device, if it has kernels."""
    return kernels_on("meta", monkeypatch) if request.param else None


def check_launches(launcher: Launcher | None, *names: str) -> None:
    if launcher is not None:
        assert set(launched(launcher)) == set(names)


def cpu(x: Tensor) -> Any:
    return (x.held if hasattr(x, "held") else x).detach().numpy()


def random_logs(grammar: Grammar) -> dict[str, Tensor]:
    return {name: torch.randn(block.shape).log_softmax(-1) for name, block in grammar.blocks.items()}


def test_the_device_is_strict() -> None:
    """As CUDA is."""
    with OtherDevice() as device:
        x = device.put(torch.randn(3))
        with pytest.raises(RuntimeError, match=r"two devices: shape \(3,\) is on the CPU"):
            x + torch.ones(3)
        with pytest.raises(RuntimeError, match="numpy"):
            x.numpy()
        assert (x + 1).device == torch.zeros(2, device=x.device).device == device.device
        assert device.numbers == 0 and device.copies == []
        assert float(x.sum()) == float(x.cpu().sum())
        assert device.numbers == 1 and device.copies == [(3,)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", GRAMMARS)
def test_sums_stay_where_the_words_are(name: str, launcher: Launcher | None) -> None:
    grammar = GRAMMARS[name]()
    logs = random_logs(grammar)
    expected, counts = grammar.expected_counts(logs, WORDS)
    with OtherDevice() as device:
        there = {block: device.put(w) for block, w in logs.items()}
        words = device.put(WORDS)
        log_z = grammar.log_partition(there, words)
        again, found = grammar.expected_counts(there, words)
        assert device.copies == []
        assert {t.device for t in (log_z, again, *found.values())} == {device.device}
        updates = grammar.collapsed_updates(words)
        assert type(updates).__name__ == "CollapsedUpdates"  # no compiled code
        check_launches(launcher, "lanes")
    np.testing.assert_allclose(cpu(log_z), expected, rtol=1e-12)
    np.testing.assert_allclose(cpu(again), expected, rtol=1e-12)
    for block, table in counts.items():
        np.testing.assert_allclose(cpu(found[block]), table, atol=1e-12)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", GRAMMARS)
def test_batches_of_any_shape(name: str, launcher: Launcher | None) -> None:
    """No sentence, one without a batch, a batch of two dimensions."""
    grammar = GRAMMARS[name]()
    logs = random_logs(grammar)
    for chosen in (WORDS[:0], WORDS[1], WORDS.reshape(3, 1, 4)):
        expected = grammar.log_partition(logs, chosen)
        with OtherDevice() as device:
            there = {block: device.put(w) for block, w in logs.items()}
            found = grammar.log_partition(there, device.put(chosen))
            assert found.device == device.device and device.copies == []
        np.testing.assert_allclose(cpu(found), expected, rtol=1e-6)


@pytest.mark.one_in(2)
def test_grammars_of_many_ranks(launcher: Launcher | None) -> None:
    """On the CPU these have products of matrices, which are the CPU's."""
    grammar = pyrogram.grammars.TensorPCFG(2, 2, 64, 3)
    logs = {name: w.double() for name, w in random_logs(grammar).items()}
    expected, counts = grammar.expected_counts(logs, WORDS)
    with OtherDevice() as device:
        there = {block: device.put(w) for block, w in logs.items()}
        again, found = grammar.expected_counts(there, device.put(WORDS))
    np.testing.assert_allclose(cpu(again), expected, rtol=1e-9)
    for block, table in counts.items():
        np.testing.assert_allclose(cpu(found[block]), table, atol=1e-9)


@pytest.mark.parametrize("name", GRAMMARS)
def test_inference_mode(name: str, launcher: Launcher | None) -> None:
    grammar = GRAMMARS[name]()
    logs = random_logs(grammar)
    expected = grammar.expected_counts(logs, WORDS)[1]
    with OtherDevice() as device, torch.inference_mode():
        there = {block: device.put(w) for block, w in logs.items()}
        found = grammar.expected_counts(there, device.put(WORDS).int())[1]
    for block, table in expected.items():
        np.testing.assert_allclose(cpu(found[block]), table, atol=1e-6)


@pytest.mark.parametrize("name", GRAMMARS)
def test_weights_elsewhere_are_named(name: str) -> None:
    grammar = GRAMMARS[name]()
    with OtherDevice() as device, pytest.raises(ValueError, match=r"is on cpu but words are on meta: move one of them"):
        grammar.log_partition(random_logs(grammar), device.put(WORDS))


@pytest.mark.one_in(2)
def test_evidence_stays_where_the_words_are(launcher: Launcher | None) -> None:
    grammar, scores = pyrogram.HMM(2, 3), torch.randn(3, 4, 2)
    logs = random_logs(grammar)

    def sums(words: Tensor, logs: dict[str, Tensor], scores: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        sentence = Sentence(grammar, log_weights=logs, known={"state_scores": scores})
        return sentence.observed_grammar.expected_counts(logs, sentence.observed(words))

    expected, counts = sums(WORDS, logs, scores)
    with OtherDevice() as device:
        there = {block: device.put(w) for block, w in logs.items()}
        again, found = sums(device.put(WORDS), there, device.put(scores))
        assert [shape for shape in device.copies if len(shape) > 1] == []
        check_launches(launcher, "lanes")
    np.testing.assert_allclose(cpu(again), expected, rtol=1e-6)
    for block, table in counts.items():
        np.testing.assert_allclose(cpu(found[block]), table, atol=1e-6)


def test_structures_are_listed_where_the_scores_are() -> None:
    scores = torch.randn(1, 3, 4, 2)
    with OtherDevice() as device:
        found = SpanTree(device.put(scores), binary=False).enumerate_support()
    assert torch.equal(found.held, SpanTree(scores, binary=False).enumerate_support())  # type: ignore[attr-defined]


def test_a_wrong_word_is_named_wherever_it_is() -> None:
    grammar = pyrogram.DMV(3)
    with OtherDevice() as device:
        there = {block: device.put(w) for block, w in random_logs(grammar).items()}
        for wrong in ([[0, 3]], [[-1, 0]], [[0, -1, 1]]):
            with pytest.raises(ValueError, match="but sentence 0 is"):
                grammar.log_partition(there, device.put(torch.tensor(wrong)))


def maximum_likelihood(words: Tensor, grammar: Grammar) -> None:
    weights = {
        name: pyro.param(name, lambda b=block: b.uniform(torch.ones((), device=words.device)), dist.constraints.simplex)
        for name, block in grammar.blocks.items()
    }
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, weights), obs=words)


def bayes(words: Tensor, grammar: Grammar) -> None:
    weights = {
        name: pyro.sample(name, dist.Dirichlet(torch.ones(b.shape, device=words.device)).to_event(len(b.shape) - 1))
        for name, b in grammar.blocks.items()
    }
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, weights), obs=words)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("loop", [EM, VariationalEM])
def test_loops_stay_where_the_words_are(loop: Any, launcher: Launcher | None) -> None:
    """The objectives of the CPU; what the host reads in a step does not depend on the number of sentences."""
    model = maximum_likelihood if loop is EM else bayes

    def run(words: Tensor, steps: int) -> list[float]:
        pyro.clear_param_store()
        pyro.set_rng_seed(0)
        return list(loop(model).run(words, pyrogram.DMV(3), num_steps=steps, progress=False, tolerance=0.0).history)

    expected = run(WORDS, 3)
    reads = []
    with OtherDevice() as device:
        for words, steps in ((WORDS, 1), (WORDS, 3), (WORDS.repeat(5, 1), 1), (WORDS.repeat(5, 1), 3)):
            device.numbers, device.copies = 0, []
            found = run(device.put(words), steps)
            reads.append((device.numbers, len(device.copies)))
            if len(words) == len(WORDS) and steps == 3:
                np.testing.assert_allclose(found, expected, rtol=1e-10)
    first, third, of_many, third_of_many = reads
    assert third[0] - first[0] == third_of_many[0] - of_many[0] <= 2 * 16
    assert third[1] == first[1] == of_many[1] == third_of_many[1]  # copies are of the start alone
    check_launches(launcher, "lanes")


def tilted(words: Tensor, grammar: Grammar) -> None:
    root, arcs = torch.arange(3.0, device=words.device), torch.ones(3, 5, 5, device=words.device)
    bayes(words, grammar.tilted(Bias({"root": root}, {"arc_scores": arcs})))


def mixture(words: Tensor, grammar: Grammar) -> None:
    ones = torch.ones(2, device=words.device)
    shares = pyro.sample("shares", dist.Dirichlet(ones))
    weights = {
        name: pyro.sample(name, dist.Dirichlet(ones.new_ones(2, *b.shape)).to_event(len(b.shape)))
        for name, b in grammar.blocks.items()
    }
    with pyro.plate("sentences", len(words)):
        z = pyro.sample("z", dist.Categorical(shares), infer={"enumerate": "parallel"})
        pyro.sample("words", Sentence(grammar, {name: w[z] for name, w in weights.items()}), obs=words)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("model", [tilted, mixture])
def test_tilted_and_mixed_grammars(model: Any, launcher: Launcher | None) -> None:
    def run(words: Tensor) -> float:
        pyro.clear_param_store()
        return float(CollapsedVB(model, seed=0).run(words, pyrogram.DMV(3), num_steps=2, progress=False).history[-1])

    with OtherDevice() as device:
        found = run(device.put(WORDS))
    assert found == pytest.approx(run(WORDS), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loop", [CollapsedVB, TreeHastings])
def test_runs_go_on_where_the_words_are(loop: Any, tmp_path: Path) -> None:
    """From a file, of which all tensors are on the CPU; new sentences are drawn with what was learnt."""
    grammar = pyrogram.DMV(3)
    with OtherDevice() as device:
        words = device.put(WORDS)
        whole, *parts = (
            loop(bayes, seed=0).run(words, grammar, num_steps=n, checkpoint=tmp_path / file, progress=False)
            for n, file in ((4, "whole"), (2, "parts"), (4, "parts"))
        )
        assert parts[1].history == pytest.approx(whole.history, rel=1e-12)
        drawn = posterior_predictive(bayes, whole, words, grammar, num_samples=2, new_sentences=True)
        assert {x.device for x in drawn.values()} == {device.device}


@pytest.mark.one_in(22)
@pytest.mark.parametrize("loop", [CollapsedVB, TreeHastings, TreeGibbs])
@pytest.mark.parametrize("name", ["dmv", "hmm"])
def test_sweeps_run_where_the_words_are(name: str, loop: Any, launcher: Launcher | None) -> None:
    """Collapsed VB has the objective that it has on the CPU; chains have derivations of the words."""

    def run(words: Tensor) -> Any:
        pyro.clear_param_store()
        pyro.set_rng_seed(0)
        grammar = GRAMMARS[name]()
        return loop(bayes, seed=0).run(words, grammar, num_steps=3, progress=False), grammar

    with OtherDevice() as device:
        found, grammar = run(device.put(WORDS))
        if loop is CollapsedVB:
            found, expected = found.history[-1], run(WORDS)[0].history[-1]
            assert found == pytest.approx(expected, rel=1e-9)
        else:
            trees = found.trees()
            logs = grammar.derivation({b: w.exp() for b, w in random_logs(grammar).items()}, WORDS)
            assert logs.support.check(torch.as_tensor(cpu(trees))).all()
    check_launches(launcher, "lanes", *([] if loop is CollapsedVB else ["draw"]))
