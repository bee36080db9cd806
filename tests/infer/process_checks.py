# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops as processes run them side by side, ``reduce`` being the processes, or None for one alone.

Each check returns numbers by name, which must not depend on the number of processes.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from infer.computed_models import MODELS
from infer.small_corpora import CORPORA, padded
from torch import Tensor

from pyrogram import CFG, DMV
from pyrogram.bias import Bias
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import (
    EM,
    Annealed,
    AtLeast,
    Curriculum,
    Decaying,
    GrammarLoop,
    HardSteps,
    ModelError,
    Reduce,
    VariationalEM,
)
from pyrogram.infer.running.reduce import is_first
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

Found = dict[str, Any]
STEPS = 4
V, SENTENCES = CORPORA["two tags"]
WORDS = padded(SENTENCES * 3)
GRAMMAR = DMV(V)
ROOTS = {"root": torch.tensor([0.0, 1.0])}


def told(loop: GrammarLoop) -> Found:
    """All that a loop knows, and that Pyro's store does."""
    found = {f"state {name}": t for name, t in loop.state_dict().items()}
    for site in loop._need_problem().traced.sentences:
        found |= {f"weights of {site.name} {name}": w.detach() for name, w in loop.weights(site.name).items()}
    return found | {f"store {name}": p.detach().clone() for name, p in pyro.get_param_store().items()}


def ran(loop: Any, *words: Tensor, **options: Any) -> Found:
    return told(loop.run(*words, **{"num_steps": STEPS, "tolerance": 0.0, "progress": False, **options}))


def mixture(words: Tensor) -> None:
    pi = pyro.sample("pi", dist.Dirichlet(torch.tensor([1.5, 2.5])))
    attach = pyro.sample("attach", dist.Dirichlet(1.5 * torch.ones(2, V, 2, V)).to_event(3))
    rest = {n: pyro.sample(n, dirichlet_prior(GRAMMAR.blocks[n], 1.5)) for n in ("root", "stop")}
    with pyro.plate("sentences", len(words)):
        z = pyro.sample("z", dist.Categorical(pi))
        pyro.sample("words", Sentence(GRAMMAR, {**rest, "attach": attach[z]}), obs=words)


def two_sites(words: Tensor) -> None:
    """The second site has one sentence."""
    weights = {n: pyro.sample(n, dirichlet_prior(b, 0.5)) for n, b in GRAMMAR.blocks.items()}
    pyro.sample("words", Sentence(GRAMMAR, weights).expand([len(words)]), obs=words)
    pyro.sample("one", Sentence(GRAMMAR, weights).expand([1]), obs=words[-1:])


DIRICHLET = partial(dirichlet, grammar=GRAMMAR, concentration=1.5)
LEARNT = partial(dirichlet, grammar=GRAMMAR, concentration=1.5, learn=True)
LIKELIHOOD = partial(maximum_likelihood, grammar=GRAMMAR)
LONG = Annealed(start=0.5, until=3)

#: Loops over WORDS, from the options of all of them.
LOOPS: dict[str, Callable[..., GrammarLoop]] = {
    "EM": partial(EM, LIKELIHOOD),
    "EM at random": partial(EM, LIKELIHOOD, initial_weights="random"),
    "MAP": partial(EM, DIRICHLET),
    "VB": partial(VariationalEM, DIRICHLET),
    "VB, concentrations learnt": partial(VariationalEM, LEARNT),
    "annealed": partial(VariationalEM, LEARNT, schedule=LONG),
    "curriculum": partial(VariationalEM, DIRICHLET, schedule=Curriculum((1, 2, 3))),
    "hard": partial(EM, DIRICHLET, schedule=[HardSteps(2), LONG]),
    "decaying": partial(EM, DIRICHLET, schedule=Decaying(Bias({"attach": torch.ones(V, 2, V).tril()}), until=3)),
    "constrained": partial(EM, LIKELIHOOD, constraints=[AtLeast(ROOTS, 0.6)]),
    "mixture": partial(VariationalEM, mixture),
    "two sites": partial(VariationalEM, two_sites),
}
#: Of models without arguments, see computed_models.
COMPUTED = ["softmax_of_normals", "a_root_for_each_sentence", "tied_and_computed", "masked_documents", "tempered"]


def run_loop(name: str, reduce: Reduce | None, path: Path) -> Found:
    return ran(LOOPS[name](reduce=reduce), WORDS)


def run_computed(name: str, reduce: Reduce | None, path: Path) -> Found:
    """By gradient."""
    return ran(EM(MODELS[name](), unconstrained=True, reduce=reduce), num_steps=3)


def run_guided(name: str, reduce: Reduce | None, path: Path) -> Found:
    """By a guide whose start is a draw."""
    if reduce is None or reduce.rank == 0:
        torch.manual_seed(0)
    return ran(VariationalEM(MODELS[name](), guide_steps=3, reduce=reduce), num_steps=3)


def single(reduce: Reduce | None, path: Path) -> Found:
    """float32, and held-out sentences."""
    torch.set_default_dtype(torch.float32)
    try:
        loop = VariationalEM(DIRICHLET, reduce=reduce)
        return {**ran(loop, WORDS, held_out=WORDS[:4]), "stopped": loop.stopped}
    finally:
        torch.set_default_dtype(torch.float64)


def few(reduce: Reduce | None, path: Path) -> Found:
    """One sentence: all processes but one have none."""
    return {
        f"{kind.__name__} {name}": t
        for kind in (EM, VariationalEM)
        for name, t in ran(kind(DIRICHLET, reduce=reduce), WORDS[1:2]).items()
    } | {f"hard {n}": t for n, t in ran(EM(DIRICHLET, schedule=HardSteps(9), reduce=reduce), WORDS[1:2]).items()}


def own_callback(reduce: Reduce | None, path: Path) -> Found:
    """Process 0 alone asks to stop, after three iterations; the others ask all the time."""
    loop = EM(LIKELIHOOD, reduce=reduce)
    loop.run(WORDS, progress=False, callback=lambda loop: len(loop.history) == 3 or not is_first(reduce))
    return {"stopped": loop.stopped, **told(loop)}


def interrupted(reduce: Reduce | None, path: Path) -> Found:
    """Stopped in the third iteration, which saves the second; see test_distributed for who goes on."""

    def stop(loop: GrammarLoop) -> None:
        if len(loop.history) == 2:
            raise KeyboardInterrupt

    try:
        ran(VariationalEM(LEARNT, reduce=reduce), WORDS, checkpoint=path, callback=stop)
    except KeyboardInterrupt:
        return {}
    raise AssertionError("nothing was interrupted")


def resumed(reduce: Reduce | None, path: Path) -> Found:
    """Goes on from what one process has left."""
    left = path.parent / "left"
    return ran(VariationalEM(LEARNT, reduce=reduce), WORDS, checkpoint=left, checkpoint_every=99)


# ---------------------------------------------------------------------- errors, the same in all processes


def error_of(work: Callable[[], Any]) -> Found:
    try:
        work()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": ""}


def no_derivation(reduce: Reduce | None, path: Path) -> Found:
    grammar = CFG.from_string("S -> 'a' S | 'a' | 'b' 'b'")
    words = grammar.encode([["a"], ["a", "a"], ["a"], ["a", "b"], ["a", "a", "a"]])
    return error_of(lambda: EM(maximum_likelihood, reduce=reduce).run(words, grammar, progress=False))


def damaged(reduce: Reduce | None, path: Path) -> Found:
    file = path.parent / "damaged"
    file.write_bytes(b"no checkpoint")
    return error_of(lambda: ran(EM(LIKELIHOOD, reduce=reduce), WORDS, checkpoint=file))


def impossible_constraint(reduce: Reduce | None, path: Path) -> Found:
    loop = EM(LIKELIHOOD, constraints=[AtLeast(ROOTS, 0.999)], reduce=reduce)
    return error_of(lambda: loop.step(WORDS))


def other_words(reduce: Reduce, path: Path) -> Found:
    """The last process has one sentence less."""
    words = WORDS[1:] if reduce.rank == reduce.size - 1 else WORDS
    return error_of(lambda: EM(LIKELIHOOD, reduce=reduce).step(words))


def other_error(reduce: Reduce, path: Path) -> Found:
    """The last process cannot read its model."""

    def model(words: Tensor) -> None:
        if reduce.rank == reduce.size - 1:
            raise ModelError("no such corpus")
        DIRICHLET(words)

    return error_of(lambda: EM(model, reduce=reduce).step(WORDS))


ERRORS = {f.__name__: f for f in (no_derivation, damaged, impossible_constraint)}
SAME: dict[str, Callable[[Reduce | None, Path], Found]] = {
    **{name: partial(run_loop, name) for name in LOOPS},
    **{f"computed {name}": partial(run_computed, name) for name in COMPUTED},
    **{f"guided {name}": partial(run_guided, name) for name in COMPUTED},
    **{f.__name__: f for f in (single, few, own_callback)},
    **ERRORS,
}
CHECKS = {**SAME, **{f.__name__: f for f in (interrupted, resumed, other_words, other_error)}}
