# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Wrong rules from counts to weights, and what the cells of the matrix say of them: some turn red."""

import importlib
from collections.abc import Callable
from typing import Any

import pyro
import pytest
import torch
from infer import test_matrix as checks
from torch import Tensor

PLAIN, NUMBER, LAPLACE = "Dirichlet, symmetric, 1.5", "concentration ~ Gamma", "Laplace on logits"
HORSESHOE, SHARED, POINT = "horseshoe on logits", "hierarchical Dirichlet", "maximum likelihood (`pyro.param`)"
LINEAR = "log-linear, features ~ Normal"
COMPOUND, NETWORK = "compound: a vector for each sentence", "network"
#: By check, the cells of CFG that are tried. As many as there are ways to weights.
CELLS: dict[Callable[[str, str, str], None], list[tuple[str, str]]] = {
    checks.test_em: [
        *((prior, "EM") for prior in (POINT, PLAIN, LAPLACE, HORSESHOE, NETWORK)),
        *((prior, "EM, unconstrained") for prior in (PLAIN, NUMBER, SHARED)),
    ],
    checks.test_variational_em: [(p, "VariationalEM") for p in (POINT, PLAIN, NUMBER, SHARED, LAPLACE, COMPOUND)],
    checks.test_em_ends_at_an_optimum: [(LINEAR, "EM")],
    checks.test_guide_of_points: [(LINEAR, "VariationalEM")],
    checks.test_collapsed_vb: [(PLAIN, "CollapsedVB")],
    checks.test_collapsed_vb_without_priors: [(POINT, "CollapsedVB")],
    checks.test_samplers: [
        (p, sampler) for p in (PLAIN, NUMBER, LAPLACE, SHARED) for sampler in ("TreeGibbs", "TreeHastings")
    ],
    checks.test_bounds_of_logistic_normals: [("logistic normal, one for the corpus", "VariationalEM")],
}
INFER = "pyrogram.infer."


def red() -> list[str]:
    """The cells that fail."""
    found = []
    for check, cells in CELLS.items():
        for prior, inference in cells:
            pyro.set_rng_seed(0)
            try:
                check("CFG", prior, inference)
            except (AssertionError, ValueError):
                found.append(f"{inference}: {prior}")
    return found


def counts_as(change: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
    """Expected counts, the second of two results, changed."""

    def mutate(whole: Any) -> Any:
        def mutant(*args: Any, **kwargs: Any) -> Any:
            first, counts = whole(*args, **kwargs)
            return first, {name: change(f) for name, f in counts.items()}

        return mutant

    return mutate


def drop(f: Tensor) -> Tensor:
    return f * (torch.arange(f.shape[-1]) > 0)


def swap(f: Tensor) -> Tensor:
    return f[..., torch.tensor([1, 0, *range(2, f.shape[-1])])]


def plus_dirichlets(*change: float) -> Callable[[Any], Any]:
    """A map of tensors by name, times and plus a number."""
    times, plus = change
    return lambda whole: lambda *args: {name: times * x + plus for name, x in whole(*args).items()}


def without(field: str) -> Callable[[Any], Any]:
    """What the model is at a point, without one of its terms."""
    from dataclasses import replace

    def mutate(whole: Any) -> Any:
        def mutant(*args: Any) -> Any:
            terms = whole(*args)
            return replace(terms, **{field: torch.zeros_like(getattr(terms, field))})

        return mutant

    return mutate


def with_alphas(factor: float) -> Callable[[Any], Any]:
    """What the model is at a point, with other concentrations."""
    from dataclasses import replace

    def mutate(whole: Any) -> Any:
        def mutant(*args: Any) -> Any:
            terms = whole(*args)
            return replace(terms, alpha={name: factor * alpha for name, alpha in terms.alpha.items()})

        return mutant

    return mutate


def with_posterior(plus: float) -> Callable[[Any], Any]:
    """A state with other concentrations of q."""
    from dataclasses import replace

    def mutate(whole: Any) -> Any:
        def mutant(*args: Any) -> Any:
            state = whole(*args)
            return replace(state, posterior={name: q + plus for name, q in state.posterior.items()})

        return mutant

    return mutate


def times(factor: float) -> Callable[[Any], Any]:
    return lambda whole: lambda *args, **kwargs: factor * whole(*args, **kwargs)


def swapped_counts(whole: Any) -> Any:
    return lambda traced, counts, old: whole(traced, {name: swap(f) for name, f in counts.items()}, old)


def without_alpha(whole: Any) -> Any:
    return lambda traced, counts, alpha, old: whole(traced, counts, {n: 0 * a for n, a in alpha.items()}, old)


#: What is changed: a module, a name in it, and how.
MUTANTS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "E-step: a count is dropped": ("loops.e_step", "expected_counts", counts_as(drop)),
    "E-step: counts are swapped": ("loops.e_step", "expected_counts", counts_as(swap)),
    "E-step: counts are doubled": ("loops.e_step", "expected_counts", counts_as(lambda f: 2 * f)),
    "EM: counts of computed weights are doubled": ("model.points", "line", times(2.0)),
    "EM: the Jacobian is forgotten": ("model.points", "PointProblem.terms", without("log_jacobian")),
    "EM: the density of latent values is forgotten": ("model.points", "PointProblem.terms", without("density")),
    "EM: the prior of Dirichlets is forgotten": ("loops.held", "log_dirichlet_density", times(0.0)),
    "variational: q is α + f - 1/2": ("loops.held", "HeldProblem.m_step", with_posterior(-0.5)),
    "variational: E[log w] is wrong": ("loops.held", "expected_log", lambda whole: lambda *args: whole(*args) + 0.1),
    "variational: no divergence of Dirichlets": ("loops.held", "DirichletQ.bound", times(0.0)),
    "guided: no entropy of Dirichlets": ("loops.guided_vb", "GuidedProblem._bound", times(0.0)),
    "guided: counts of computed weights are doubled": ("loops.guided_vb", "line", times(2.0)),
    "guided: q is α + f - 1/2": ("loops.guided_vb", "GuidedProblem.m_step", with_posterior(-0.5)),
    "EM, variational: counts of parameters are swapped": ("loops.held", "most_likely", swapped_counts),
    "collapsed: counts of parameters are swapped": ("loops.collapsed_vb", "most_likely", swapped_counts),
    "collapsed: α is wrong": ("loops.collapsed_vb", "CollapsedProblem.terms_at", with_alphas(1.1)),
    "collapsed: the mean lacks α": ("loops.collapsed_vb", "posterior_mean", without_alpha),
    "collapsed: the joint is doubled": ("loops.collapsed_vb", "log_collapsed_joint", times(2.0)),
    "samplers: α is wrong": ("model.collapsed", "CollapsedProblem.terms_at", with_alphas(1.1)),
    "samplers: counts are doubled": ("model.collapsed", "CollapsedProblem.counted", plus_dirichlets(2, 0)),
    "samplers: the joint is doubled": ("model.collapsed", "log_collapsed_joint", times(2.0)),
    "samplers: the density is doubled": ("model.collapsed", "CollapsedProblem.density", times(2.0)),
}


@pytest.mark.slow
def test_without_a_mutant() -> None:
    assert not red()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", list(MUTANTS))
def test_a_mutant_turns_cells_red(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, name, mutate = MUTANTS[mutant]
    owner: Any = importlib.import_module(INFER + path)
    *classes, attribute = name.split(".")
    for part in classes:
        owner = getattr(owner, part)
    monkeypatch.setattr(owner, attribute, mutate(getattr(owner, attribute)))
    found = red()
    print(f"{mutant}: {', '.join(found)}")
    assert found
