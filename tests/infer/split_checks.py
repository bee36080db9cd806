# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What each process has of its own sentences alone, and gradients that are summed; as in process_checks."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from infer.computed_models import MODELS
from infer.process_checks import DIRICHLET, GRAMMAR, LEARNT, STEPS, WORDS, Found, V, error_of, ran
from pyro.infer import SVI
from pyro.optim import Adam  # type: ignore[attr-defined]
from torch import Tensor

from pyrogram.distributions import Sentence, dirichlet_prior, logistic_normal
from pyrogram.guides import MeanFieldDirichlet, MeanFieldGaussian
from pyrogram.infer import (
    CollapsedVB,
    EStep,
    GrammarLoop,
    Reduce,
    TraceGrammar_ELBO,
    TreeGibbs,
    TreeHastings,
    VariationalEM,
)

BLOCKS = GRAMMAR.blocks


def experts(words: Tensor) -> None:
    """Roots and children of each sentence, with full covariances, and a Dirichlet for all stops."""
    mean = pyro.param("mean", lambda: torch.linspace(0.0, 1.0, V * 2 * V).reshape(V, 2, V))
    covariance = pyro.param("covariance", lambda: 0.3 + torch.eye(V), constraint=dist.constraints.positive_definite)
    stop = pyro.sample("stop", dirichlet_prior(BLOCKS["stop"], 1.5))
    with pyro.plate("sentences", len(words)):
        attach = logistic_normal("attach", mean, covariance=covariance, shape=BLOCKS["attach"])
        root = logistic_normal("root", torch.zeros(V), covariance=torch.eye(V), shape=BLOCKS["root"])
        pyro.sample("words", Sentence(GRAMMAR, {"root": root, "attach": attach, "stop": stop}), obs=words)


RESTARTS = EStep(restarts=2, restart_every=2)
LOOPS: dict[str, Callable[..., GrammarLoop]] = {
    "experts": partial(VariationalEM, experts),
    "restarted experts": partial(VariationalEM, experts, e_step=RESTARTS, averaging="present"),
}


def run_loop(name: str, reduce: Reduce | None, path: Path) -> Found:
    return ran(LOOPS[name](reduce=reduce), WORDS)


def corpus_experts(reduce: Reduce | None, path: Path) -> Found:
    return ran(VariationalEM(MODELS["logistic_normal_of_the_corpus"](), reduce=reduce))


def few_experts(reduce: Reduce | None, path: Path) -> Found:
    """One sentence: all processes but one have none."""
    return ran(VariationalEM(experts, reduce=reduce), WORDS[1:2])


def half_experts(reduce: Reduce | None, path: Path) -> Found:
    """The first half of a run; see test_distributed for who goes on."""
    return ran(VariationalEM(experts, e_step=RESTARTS, reduce=reduce), WORDS, checkpoint=path, num_steps=2)


def resumed_experts(reduce: Reduce | None, path: Path) -> Found:
    """The second half, after what one process has left."""
    left = path.parent / "experts left"
    return ran(VariationalEM(experts, e_step=RESTARTS, reduce=reduce), WORDS, checkpoint=left, checkpoint_every=99)


def split_bound(reduce: Reduce, path: Path) -> Found:
    """An estimate that needs the experts of all sentences."""
    loop = VariationalEM(experts, reduce=reduce)
    loop.step(WORDS)
    return error_of(lambda: loop.importance_weighted_bound(2))


# ---------------------------------------------------------------------- SVI


def stepped(model: Callable[..., Any], guide: Any, reduce: Reduce | None) -> Found:
    svi = SVI(model, guide, Adam({"lr": 0.1}), TraceGrammar_ELBO(reduce=reduce))
    losses = [svi.step(WORDS) for _ in range(STEPS)]
    return {"losses": torch.tensor(losses), **{f"p {n}": p.detach().clone() for n, p in pyro.get_param_store().items()}}


def svi(reduce: Reduce | None, path: Path) -> Found:
    """Minibatches."""
    pyro.set_rng_seed(3)
    model = partial(DIRICHLET, batch_size=7)
    return stepped(model, MeanFieldDirichlet(model, initial_counts=dict(BLOCKS_OF_ONES)), reduce)


def svi_of_each(reduce: Reduce | None, path: Path) -> Found:
    """Every sentence has weights of its own."""
    pyro.set_rng_seed(3)
    return stepped(experts, MeanFieldGaussian(experts), reduce)


def svi_seeded_otherwise(reduce: Reduce, path: Path) -> Found:
    pyro.set_rng_seed(reduce.rank)
    model = partial(DIRICHLET, batch_size=7)
    return error_of(lambda: stepped(model, MeanFieldDirichlet(model, initial_counts=dict(BLOCKS_OF_ONES)), reduce))


def svi_begun_otherwise(reduce: Reduce, path: Path) -> Found:
    counts = {n: w + reduce.rank for n, w in BLOCKS_OF_ONES.items()}
    return error_of(lambda: stepped(DIRICHLET, MeanFieldDirichlet(DIRICHLET, initial_counts=counts), reduce))


# ---------------------------------------------------------------------- sweeps in collapsed space


def cvb(reduce: Reduce | None, path: Path) -> Found:
    """Near its fixed point, by way of a checkpoint."""
    options: Any = {} if reduce is None else {"reduce": reduce, "approximate": True}
    shared = {"num_steps": 30, "tolerance": 0.0, "progress": False, "checkpoint": path, "checkpoint_every": 400}
    ran(CollapsedVB(DIRICHLET, **options), WORDS, **shared)
    loop = CollapsedVB(DIRICHLET, **options).run(WORDS, **{**shared, "num_steps": 60})
    return {"objective": torch.tensor(loop.history[-1]), "length": len(loop.history), **loop.weights()}


def other_cvb(reduce: Reduce, path: Path) -> Found:
    """A checkpoint of one process, which is exact."""
    shared = {"checkpoint": path.parent / "cvb left", "checkpoint_every": 99}
    return error_of(lambda: ran(CollapsedVB(LEARNT, reduce=reduce, approximate=True), WORDS, **shared))


def chains(reduce: Reduce | None, path: Path) -> Found:
    """What must be alike in all processes, and fit together; numbers are their own."""
    found: Found = {}
    for kind, options in ((TreeHastings, {"reduce": reduce, "approximate": True}), (TreeGibbs, {"reduce": reduce})):
        for words in (WORDS, WORDS[1:2]):
            for more in (2, 4):  # on from a checkpoint
                chain = kind(DIRICHLET, keep_statistics=True, **options)
                chain.run(
                    words, num_steps=more, burn_in=1, progress=False, checkpoint=f"{path}{kind.__name__}{len(words)}"
                )
            counts = chain._problem.counted(chain._state.derivations)
            assert chain._problem.are_derivations(chain._state.derivations)
            assert all(torch.equal(counts[n], f) for n, f in chain._state.counts.items())
            assert len(chain.history) == 4
            found |= {f"{kind.__name__} {len(words)} {n}": t for n, t in chain.state_dict().items()}
    return found


BLOCKS_OF_ONES = {name: torch.ones(block.shape) for name, block in BLOCKS.items()}
SAME: dict[str, Callable[[Reduce | None, Path], Found]] = {
    **{name: partial(run_loop, name) for name in LOOPS},
    **{f.__name__: f for f in (corpus_experts, few_experts, svi, svi_of_each)},
}
OTHERS = (cvb, other_cvb, chains, half_experts, resumed_experts, split_bound, svi_seeded_otherwise, svi_begun_otherwise)
CHECKS = {**SAME, **{f.__name__: f for f in OTHERS}}
