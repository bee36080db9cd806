# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""run: when it stops, what it shows, what it keeps; and a run that is killed and resumed is the same run."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from pyrogram import DMV, HMM
from pyrogram.infer import EM, GrammarLoop, VariationalEM
from pyrogram.infer.loops import e_step
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

Loop = EM | VariationalEM
GRAMMAR = DMV(3)


def random_words(seed: int, count: int = 30, width: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 3, (count, width), generator=generator)
    lengths = torch.randint(1, width + 1, (count, 1), generator=generator)
    return torch.where(torch.arange(width) < lengths, words, -1)


WORDS = random_words(0)
HELD_OUT = random_words(1, count=10)

# Every way to learn: the loop, the model and its options.
METHODS: dict[str, tuple[type[Loop], Callable[..., None], dict[str, Any]]] = {
    "maximum likelihood": (EM, maximum_likelihood, {}),
    "map": (EM, dirichlet, {"concentration": 1.5}),
    "vb": (VariationalEM, dirichlet, {}),
    "vb-em": (VariationalEM, dirichlet, {"learn": True}),
}
BAYESIAN = ["vb", "vb-em"]


def new_loop(method: str) -> tuple[Loop, dict[str, Any]]:
    """A loop as in a new process."""
    pyro.clear_param_store()
    loop, model, options = METHODS[method]
    return loop(model, initial_weights="harmonic"), {**options, "progress": False}


def parameters() -> dict[str, Tensor]:
    store = pyro.get_param_store()
    return {name: store[name].detach().clone() for name in sorted(store.keys())}


def assert_same(a: Loop, b: Loop) -> None:
    """To the last bit."""
    assert a.history == b.history
    assert [str(x) for x in a.held_out_history] == [str(x) for x in b.held_out_history]
    assert all(torch.equal(w, b.weights()[name]) for name, w in a.weights().items())
    own, other = a.state_dict(), b.state_dict()
    assert own.keys() == other.keys()
    for name in own:
        assert torch.equal(own[name].nan_to_num(), other[name].nan_to_num()), name


# ---------------------------------------------------------------------- stopping


@pytest.mark.parametrize("method", METHODS)
def test_steps_are_a_run(method: str) -> None:
    stepped, options = new_loop(method)
    options.pop("progress")
    objectives = [stepped.step(WORDS, GRAMMAR, **options) for _ in range(6)]
    ran, options = new_loop(method)
    assert ran.run(WORDS, GRAMMAR, num_steps=6, tolerance=0, **options) is ran
    assert objectives == stepped.history == ran.history
    assert_same(stepped, ran)
    assert all(math.isnan(x) for x in ran.held_out_history)
    assert ran.stopped == "num_steps=6 reached"


def test_num_steps_counts_those_of_this_run() -> None:
    em, _ = new_loop("maximum likelihood")
    em.run(WORDS, GRAMMAR, num_steps=3, tolerance=0, progress=False)
    em.run(WORDS, GRAMMAR, num_steps=5, tolerance=0, progress=False)
    assert len(em.history) == 8
    em.run(WORDS, GRAMMAR, num_steps=0, progress=False)
    assert len(em.history) == 8


@pytest.mark.parametrize("method", METHODS)
def test_tolerance(method: str) -> None:
    loop, options = new_loop(method)
    loop.run(WORDS, GRAMMAR, num_steps=500, tolerance=1e-3, **options)
    gains = [(b - a) / abs(b) for a, b in zip(loop.history, loop.history[1:], strict=False)]
    assert gains[-1] <= 1e-3
    assert all(gain > 1e-3 for gain in gains[:-1])
    assert loop.stopped == "gain below tolerance=0.001"
    steps = len(loop.history)
    loop.run(WORDS, GRAMMAR, num_steps=500, tolerance=1e-3, **options)
    assert len(loop.history) == steps  # it has converged already


def test_tolerance_zero_never_stops() -> None:
    """At a fixed point the objective goes up and down by rounding errors."""
    vb, options = new_loop("vb")
    vb.run(WORDS[:3], GRAMMAR, num_steps=400, tolerance=0, **options)
    assert len(vb.history) == 400
    assert min(b - a for a, b in zip(vb.history, vb.history[1:], strict=False)) <= 0


def test_an_objective_of_zero_has_converged() -> None:
    em = EM(maximum_likelihood, initial_weights="uniform")
    em.run(torch.zeros(4, 1).long(), DMV(1), num_steps=50, progress=False)
    assert em.history == pytest.approx([4 * math.log(0.25), 0, 0])


def test_another_corpus_is_another_run() -> None:
    """Convergence on one says nothing about the other; what was learnt is where it starts."""
    em, _ = new_loop("maximum likelihood")
    em.run(WORDS, GRAMMAR, num_steps=200, tolerance=1e-4, progress=False)
    learnt = em.weights()
    em.run(HELD_OUT, GRAMMAR, num_steps=200, tolerance=1e-4, progress=False)
    fresh = EM(maximum_likelihood, initial_weights=learnt)
    fresh.run(HELD_OUT, GRAMMAR, num_steps=200, tolerance=1e-4, progress=False)
    assert em.history == pytest.approx(fresh.history, rel=1e-12)
    # The same sentences in a new tensor are the same corpus.
    steps = len(em.history)
    em.step(HELD_OUT.clone(), GRAMMAR)
    assert len(em.history) == steps + 1


def test_callback() -> None:
    seen: list[int] = []

    def callback(loop: GrammarLoop) -> bool:
        assert loop is em
        assert loop.weights().keys() == GRAMMAR.blocks.keys()
        seen.append(len(loop.history))
        return len(seen) == 4

    em, _ = new_loop("maximum likelihood")
    em.run(WORDS, GRAMMAR, tolerance=0, callback=callback, progress=False)
    assert seen == [1, 2, 3, 4]
    assert em.stopped == "callback asked to stop"
    em.run(WORDS, GRAMMAR, num_steps=2, tolerance=0, callback=lambda loop: "no", progress=False)
    assert len(em.history) == 6


def test_an_error_in_a_callback_keeps_what_was_learnt(tmp_path: Path) -> None:
    def callback(loop: GrammarLoop) -> None:
        if len(loop.history) == 3:
            raise ZeroDivisionError

    em, _ = new_loop("maximum likelihood")
    with pytest.raises(ZeroDivisionError):
        em.run(WORDS, GRAMMAR, callback=callback, checkpoint=tmp_path / "c", progress=False)
    other, _ = new_loop("maximum likelihood")
    other.run(WORDS, GRAMMAR, num_steps=3, checkpoint=tmp_path / "c", progress=False)
    assert_same(em, other)


@pytest.mark.parametrize(
    "wrong",
    [{"num_steps": -1}, {"tolerance": -1.0}, {"patience": 0}, {"checkpoint_every": 0}],
    ids=lambda w: next(iter(w)),
)
def test_wrong_options(wrong: dict[str, Any]) -> None:
    em, _ = new_loop("maximum likelihood")
    with pytest.raises(ValueError, match=f"need .*{next(iter(wrong))} >= "):
        em.run(WORDS, GRAMMAR, progress=False, **wrong)
    assert em.history == []


def test_progress(capfd: pytest.CaptureFixture[str]) -> None:
    em, _ = new_loop("maximum likelihood")
    em.run(WORDS, GRAMMAR, num_steps=3, progress=False)
    assert capfd.readouterr() == ("", "")
    em.run(WORDS, GRAMMAR, num_steps=3)
    out, err = capfd.readouterr()
    assert out == ""
    assert "EM" in err and "6/6" in err and "objective=" in err


# ---------------------------------------------------------------------- held-out likelihood


def smoothed_likelihood(loop: Loop, words: Tensor, smoothing: float) -> float:
    mixed = {}
    for name, w in loop.weights().items():
        mixed[name] = ((1 - smoothing) * w + smoothing / w.shape[-1]).log()
    return float(GRAMMAR.log_partition(mixed, words).sum())


@pytest.mark.parametrize("method", METHODS)
def test_held_out_likelihood_is_that_of_the_smoothed_estimate(method: str) -> None:
    expected: list[float] = []
    loop, options = new_loop(method)
    loop.run(
        WORDS,
        GRAMMAR,
        num_steps=5,
        tolerance=0,
        held_out=HELD_OUT,
        held_out_smoothing=0.01,
        patience=100,
        callback=lambda loop: expected.append(smoothed_likelihood(loop, HELD_OUT, 0.01)),
        **options,
    )
    assert loop.held_out_history == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("patience", [1, 4])
@pytest.mark.parametrize("method", METHODS)
def test_early_stopping_goes_back_to_the_best(method: str, patience: int) -> None:
    states: list[dict[str, Tensor]] = []
    stores: list[dict[str, Tensor]] = []

    def callback(loop: Loop) -> None:
        states.append(loop.weights())
        stores.append(parameters())

    loop, options = new_loop(method)
    loop.run(
        WORDS, GRAMMAR, num_steps=500, tolerance=0, held_out=HELD_OUT, patience=patience, callback=callback, **options
    )
    held_out = loop.held_out_history
    assert loop.stopped == f"held-out likelihood has not risen for {patience} iteration{'s' if patience > 1 else ''}"
    best = held_out.index(max(held_out))
    assert len(held_out) == len(loop.history) == best + 1 + patience < 500
    assert all(torch.equal(w, states[best][name]) for name, w in loop.weights().items())
    assert smoothed_likelihood(loop, HELD_OUT, 1e-4) == pytest.approx(max(held_out), rel=1e-12)
    if method == "maximum likelihood":
        for name, w in parameters().items():
            torch.testing.assert_close(w, states[best][name])
    if method == "vb-em":
        for name, alpha in parameters().items():
            assert torch.equal(alpha, stores[best][name])
    loop.run(WORDS, GRAMMAR, num_steps=2, tolerance=0, **options)
    assert (len(loop.history), loop.stopped) == (best + 3 + patience, "num_steps=2 reached")
    loop.run(WORDS, GRAMMAR, num_steps=1, tolerance=0, held_out=HELD_OUT, **options)
    assert (len(loop.history), loop.stopped) == (best + 4 + patience, "num_steps=1 reached")


def test_held_out_by_site_and_unknown() -> None:
    em, _ = new_loop("maximum likelihood")
    em.run(WORDS, GRAMMAR, num_steps=3, tolerance=0, held_out={"words": HELD_OUT}, patience=9, progress=False)
    other, _ = new_loop("maximum likelihood")
    other.run(WORDS, GRAMMAR, num_steps=3, tolerance=0, held_out=HELD_OUT, patience=9, progress=False)
    assert em.held_out_history == other.held_out_history
    with pytest.raises(NotImplementedError, match="no Sentence site 'others', only"):
        em.run(WORDS, GRAMMAR, num_steps=5, tolerance=0, held_out={"others": HELD_OUT}, patience=9, progress=False)


def test_an_unseen_tag_is_not_impossible() -> None:
    em, _ = new_loop("maximum likelihood")
    words = torch.where(WORDS == 2, 1, WORDS)
    em.run(words, GRAMMAR, num_steps=3, held_out=torch.tensor([[2, 0]]), progress=False)
    assert math.isfinite(em.held_out_history[0])


# ---------------------------------------------------------------------- states


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("read_first", [False, True])
def test_state_dict(method: str, read_first: bool) -> None:
    whole, options = new_loop(method)
    whole.run(WORDS, GRAMMAR, num_steps=9, tolerance=0, **options)
    half, options = new_loop(method)
    half.run(WORDS, GRAMMAR, num_steps=4, tolerance=0, **options)
    state = half.state_dict()
    half.run(WORDS, GRAMMAR, num_steps=3, tolerance=0, **options)  # the state is a copy
    other, options = new_loop(method)
    if read_first:
        other.run(WORDS, GRAMMAR, num_steps=2, tolerance=0, **options)
    other.load_state_dict(state)
    assert len(other.history) == 4
    other.run(WORDS, GRAMMAR, num_steps=5, tolerance=0, **options)
    assert_same(other, whole)


def test_states_of_other_kinds() -> None:
    em, options = new_loop("map")
    em.run(WORDS, GRAMMAR, num_steps=2, **options)
    vb, options = new_loop("vb")
    vb.run(WORDS, GRAMMAR, num_steps=2, **options)
    with pytest.raises(ValueError, match="not the state of EM"):
        em.load_state_dict(vb.state_dict())
    with pytest.raises(ValueError, match="not the state of VariationalEM"):
        vb.load_state_dict({"weights": torch.ones(2)})


def interrupt_within(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Ctrl-C in the middle of an update, at the given E-step."""
    whole, count = e_step.expected_counts, [0]

    def interrupted(*args: Any) -> Any:
        count[0] += 1
        result = whole(*args)
        if count[0] == calls:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(e_step, "expected_counts", interrupted)


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupt_leaves_a_checkpoint_of_whole_iterations(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "er" / "run.safetensors"
    loop, options = new_loop(method)
    interrupt_within(monkeypatch, 6)
    with pytest.raises(KeyboardInterrupt):
        loop.run(WORDS, GRAMMAR, num_steps=12, tolerance=0, checkpoint=path, checkpoint_every=100, **options)
    assert len(loop.history) in (4, 5)
    assert all(bool(torch.isfinite(w).all()) for w in loop.weights().values())
    resumed, options = new_loop(method)
    resumed.run(WORDS, GRAMMAR, num_steps=12, tolerance=0, checkpoint=path, **options)
    whole, options = new_loop(method)
    whole.run(WORDS, GRAMMAR, num_steps=12, tolerance=0, **options)
    assert_same(resumed, whole)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# ---------------------------------------------------------------------- resuming

STOPPING: dict[str, dict[str, Any]] = {
    "steps": {"num_steps": 11, "tolerance": 0},
    "tolerance": {"num_steps": 400, "tolerance": 3e-4},
    "held-out": {"num_steps": 60, "tolerance": 0, "held_out": HELD_OUT},
    "patience": {"num_steps": 60, "tolerance": 0, "held_out": HELD_OUT, "patience": 5},
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("stopping", STOPPING)
@pytest.mark.parametrize("method", METHODS)
def test_resumed_is_uninterrupted(method: str, stopping: str, tmp_path: Path) -> None:
    """After any number of steps, also beyond the best held-out likelihood, in a chain of new processes."""
    whole, options = new_loop(method)
    whole.run(WORDS, GRAMMAR, **STOPPING[stopping], **options)
    store = parameters()
    total = len(whole.history)
    assert total >= 2
    path = tmp_path / "run"
    for steps in sorted({*range(1, total, max(1, total // 6)), *range(max(1, total - 6), total + 1), 1000}):
        part, options = new_loop(method)
        limit = min(steps, STOPPING[stopping]["num_steps"])
        part.run(WORDS, GRAMMAR, **{**STOPPING[stopping], "num_steps": limit}, checkpoint=path, **options)
        assert part.history == whole.history[:steps]
    assert_same(part, whole)
    assert part.stopped == whole.stopped
    assert parameters().keys() == store.keys()
    assert all(torch.equal(value, store[name]) for name, value in parameters().items())


def test_resume_false_starts_again(tmp_path: Path) -> None:
    for _ in range(2):
        em, _ = new_loop("maximum likelihood")
        em.run(WORDS, GRAMMAR, num_steps=3, checkpoint=tmp_path / "c", resume=False, progress=False)
        assert len(em.history) == 3


def test_checkpoint_every(tmp_path: Path) -> None:
    path = tmp_path / "c"
    seen = []
    em, _ = new_loop("maximum likelihood")
    em.run(
        WORDS,
        GRAMMAR,
        num_steps=7,
        tolerance=0,
        checkpoint=str(path),
        checkpoint_every=3,
        callback=lambda loop: seen.append(path.exists() and path.stat().st_mtime_ns),
        progress=False,
    )
    assert [bool(s) for s in seen] == [False, False, True, True, True, True, True]
    assert len(set(seen)) == 3
    assert path.stat().st_mtime_ns != seen[-1]


OTHERS: dict[str, Callable[[Path], Any]] = {
    "corpus": lambda path: EM(maximum_likelihood).run(HELD_OUT, GRAMMAR, checkpoint=path, progress=False),
    "a sentence less": lambda path: EM(maximum_likelihood).run(WORDS[1:], GRAMMAR, checkpoint=path, progress=False),
    "order": lambda path: EM(maximum_likelihood).run(WORDS.flip(0), GRAMMAR, checkpoint=path, progress=False),
    "grammar": lambda path: EM(maximum_likelihood).run(
        WORDS, DMV(3, valence_attach=True), checkpoint=path, progress=False
    ),
    "tags": lambda path: EM(maximum_likelihood).run(WORDS, DMV(4), checkpoint=path, progress=False),
    "loop": lambda path: VariationalEM(maximum_likelihood).run(WORDS, GRAMMAR, checkpoint=path, progress=False),
    "prior": lambda path: EM(dirichlet).run(WORDS, GRAMMAR, concentration=1.5, checkpoint=path, progress=False),
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_checkpoint_of_another_run_is_refused(other: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    em, _ = new_loop("maximum likelihood")
    em.run(WORDS, GRAMMAR, num_steps=2, checkpoint=path, progress=False)
    before = path.read_bytes()
    pyro.clear_param_store()
    with pytest.raises(ValueError, match="is the checkpoint of another run; delete it or pass resume=False") as caught:
        OTHERS[other](path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_the_checkpoint_of_another_prior_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    runs: list[dict[str, Any]] = [{"concentration": 1.0}, {"concentration": 0.5}, {"learn": True}]
    for options in runs:
        vb, _ = new_loop("vb")
        vb.run(WORDS, GRAMMAR, num_steps=2, checkpoint=path, resume=False, progress=False, **options)
        for others in runs:
            if others != options:
                vb, _ = new_loop("vb")
                with pytest.raises(ValueError, match="another run"):
                    vb.run(WORDS, GRAMMAR, num_steps=4, checkpoint=path, progress=False, **others)
    torch.set_default_dtype(torch.float32)
    vb, _ = new_loop("vb")
    with pytest.raises(ValueError, match="another run"):
        vb.run(WORDS, GRAMMAR, num_steps=4, checkpoint=path, progress=False, learn=True)


def test_spoilt_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    em, _ = new_loop("maximum likelihood")
    em.run(WORDS, GRAMMAR, num_steps=2, checkpoint=path, progress=False)
    good = path.read_bytes()
    spoilt = [b"", b"x", b"garbage " * 100, *(good[:n] for n in (4, 20, len(good) // 2, len(good) - 1)), good + b"x"]
    for data in spoilt:
        path.write_bytes(data)
        em, _ = new_loop("maximum likelihood")
        with pytest.raises(ValueError, match="is not a checkpoint .*; delete it or pass resume=False") as caught:
            em.run(WORDS, GRAMMAR, num_steps=4, checkpoint=path, progress=False)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == data
    save_file({"history": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="another run"):
        em.run(WORDS, GRAMMAR, num_steps=4, checkpoint=path, progress=False)
    with pytest.raises(ValueError, match=f"{tmp_path} is not a checkpoint"):
        em.run(WORDS, GRAMMAR, num_steps=4, checkpoint=tmp_path, progress=False)


CHILD = """
import sys, time, torch
from pyrogram import DMV
from pyrogram.infer import EM, VariationalEM
from pyrogram.models.dirichlet import dirichlet
torch.set_default_dtype(torch.float64)
words = torch.load(sys.argv[1], weights_only=True)

def slowly(loop):
    print(len(loop.history), flush=True)
    time.sleep(float(sys.argv[3]))

loop = VariationalEM(dirichlet, initial_weights="harmonic")
loop.run(words, DMV(3), learn=True, num_steps=14, tolerance=0, checkpoint=sys.argv[2], checkpoint_every=1,
         callback=slowly, progress=False)
"""


@pytest.mark.slow
def test_killed_by_the_system_and_resumed(tmp_path: Path) -> None:
    torch.save(WORDS, tmp_path / "words")
    folder = tmp_path / "run"
    path = folder / "c"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for enough in (3, 9):
        command = [sys.executable, "-c", CHILD, str(tmp_path / "words"), str(path), "0.1"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == enough:
                time.sleep(0.005 * enough)
                process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        left = [file.name for file in folder.iterdir() if file != path]
        assert all(name.startswith(".c.") and name.endswith(".tmp") for name in left)
    resumed, options = new_loop("vb-em")
    seen: list[int] = []
    options["callback"] = lambda loop: seen.append(len(loop.history))
    resumed.run(WORDS, GRAMMAR, num_steps=14, tolerance=0, checkpoint=path, **options)
    assert seen[0] >= 10
    whole, options = new_loop("vb-em")
    whole.run(WORDS, GRAMMAR, num_steps=14, tolerance=0, **options)
    assert_same(resumed, whole)


def test_what_is_at_the_path_is_always_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Death while writing leaves the old file; an error while writing leaves nothing else."""
    path = tmp_path / "c"
    em, _ = new_loop("maximum likelihood")
    em.run(WORDS, GRAMMAR, num_steps=2, checkpoint=path, progress=False)
    good = path.read_bytes()

    def full(*args: Any) -> None:
        raise OSError("no space left on device")

    for last in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, last, full)
            with pytest.raises(OSError, match="no space"):
                em.run(WORDS, GRAMMAR, num_steps=2, checkpoint=path, resume=False, progress=False)
        assert path.read_bytes() == good
        assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_another_grammar_is_begun_anew() -> None:
    """Weights of other shapes, or of other names, are of no use to it."""
    loop = EM(dirichlet, initial_weights="uniform")
    loop.step(torch.tensor([[0, 1, 0], [1, 0, -1]]), DMV(2), concentration=1.5)
    for words, grammar in ((torch.tensor([[0, 1, 2]]), DMV(3)), (torch.tensor([[0, 1, 1]]), HMM(2, 2))):
        objective = loop.step(words, grammar, concentration=1.5)
        assert objective == EM(dirichlet, initial_weights="uniform").step(words, grammar, concentration=1.5)
        assert {name: w.shape for name, w in loop.weights().items()} == {
            name: block.shape for name, block in grammar.blocks.items()
        }
