# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The rows of the two tables: what each is called, what it goes on from, and how it learns from one start."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from pyrogram.distributions import Gaussian, PartitionStructure, tied_starts
from pyrogram.grammars import start_covariances, tie
from pyrogram.infer import EM, CollapsedVB, TreeHastings, VariationalEM
from pyrogram.models import initial_experts, maximum_likelihood
from pyrogram.models.bilingual import bilingual
from pyrogram.models.dirichlet import dirichlet
from pyrogram.models.logistic_normal import logistic_normal
from pyrogram.models.shared_logistic_normal import shared_logistic_normal
from pyrogram.printable import plural
from reproductions.induction.learning import Language, Setup
from reproductions.shared.learnt import Learnt

# The paper searches a grid over [1.1, 30] and one over [0.0001, 30] (2008, section 5), and does not print their points.
MAP_GRID = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0)
VB_GRID = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Row:
    """A row of a table.

    :param name: in files and for ``--rows``.
    :param label: in the table.
    :param learn: learns from one start; None attaches every word to the next.
    :param needs: the row whose grammars of the same start it goes on from.
    :param above: the row that it is compared with.
    :param many: whether another start gives other numbers.
    :param bilingual: whether it learns the grammars of two languages together.
    :param families: whether it needs to know the family of every tag.
    :param ties: what it ties.
    """

    name: str
    label: str
    learn: Callable[[Setup], Learnt] | None
    needs: str | None = None
    above: str | None = None
    many: bool = True
    bilingual: bool = False
    families: bool = False
    ties: str = ""


def em(setup: Setup) -> Learnt:
    """Maximum likelihood (Klein and Manning 2004)."""
    grammar, start = setup.language.grammar, setup.start(setup.language)
    model = partial(maximum_likelihood, grammar=grammar, initial_weights=start)
    loop, _ = setup.run(lambda: EM(model, initial_weights=start))
    return setup.learnt(loop)


def em_map(setup: Setup) -> Learnt:
    """The mode under symmetric Dirichlets, their concentration tuned."""
    grammar, start = setup.language.grammar, setup.start(setup.language)

    def make(alpha: float) -> EM:
        return EM(partial(dirichlet, grammar=grammar, concentration=alpha), initial_weights=start)

    return setup.tuned(MAP_GRID, make)


def vb(setup: Setup) -> Learnt:
    """Variational Bayes under symmetric Dirichlets, their concentration tuned; the posterior mean."""
    grammar, start = setup.language.grammar, setup.start(setup.language)

    def make(alpha: float) -> VariationalEM:
        return VariationalEM(partial(dirichlet, grammar=grammar, concentration=alpha), initial_weights=start)

    return setup.tuned(VB_GRID, make)


def vb_em(setup: Setup) -> Learnt:
    """Empirical Bayes: variational Bayes that also learns the concentrations, one for each block."""
    grammar, start = setup.language.grammar, setup.start(setup.language)
    model = partial(dirichlet, grammar=grammar, learn=True)
    loop, _ = setup.run(lambda: VariationalEM(model, initial_weights=start))
    return setup.learnt(loop)


def supervised(setup: Setup) -> Learnt:
    """The supervised DMV, as in the tables of ``induce`` and ``train``; the papers have its maximum likelihood."""
    short = setup.language.short
    return Learnt((setup.language.grammar.initial_weights(short.words, "supervised", heads=short.heads),))


def log_normal(setup: Setup, families: bool) -> Learnt:
    """Logistic normals, drawn for every sentence (2008, section 3); softmax of the mean.

    :param families: start covariances of events that are tags at 0.5 within a family, else at the identity.
    """
    language = setup.language
    start = initial_experts(
        language.short.words,
        language.grammar,
        setup.start(language),
        _covariances(language, PartitionStructure.untied(language.grammar.blocks)) if families else None,
        diagonal=setup.normal.covariance == "diagonal",
    )
    model = partial(logistic_normal, grammar=language.grammar, start=start)
    loop, parameters = setup.run(lambda: _loop(setup, model))
    return setup.learnt(loop, parameters=parameters)


def tied(setup: Setup) -> Learnt:
    """Shared logistic normals (2009, section 4.1): going on from the untied ones, with ties added."""
    language, (before,) = setup.language, setup.earlier
    structure = tie(language.grammar, _families(language), setup.ties)
    start = structure.tied_start(_experts(before, language), _covariances(language, structure))
    model = partial(shared_logistic_normal, grammar=language.grammar, structure=structure, start=start)
    loop, parameters = setup.run(lambda: _loop(setup, model))
    return setup.learnt(loop, parameters={n: p for n, p in parameters.items() if n.startswith("loc.")})


def tied_across(setup: Setup) -> Learnt:
    """The same for two languages, which share the experts that tie (2009, section 4.3)."""
    languages = setup.by_name
    structures = {name: tie(l.grammar, _families(l), setup.ties) for name, l in languages.items()}
    start = tied_starts(
        structures,
        {name: _experts(before, l) for (name, l), before in zip(languages.items(), setup.earlier, strict=True)},
        {name: _covariances(l, structures[name]) for name, l in languages.items()},
    )
    grammars = {name: l.grammar for name, l in languages.items()}
    model = partial(bilingual, grammars=grammars, structures=structures, start=start)
    return setup.learnt(setup.run(lambda: _loop(setup, model))[0])


def _loop(setup: Setup, model: Callable[..., None]) -> VariationalEM:
    return VariationalEM(model, averaging=setup.normal.averaging, point_estimate=setup.normal.point_estimate)


def _families(language: Language) -> tuple[str, ...]:
    assert language.families is not None  # such rows are refused otherwise
    return language.families


def _covariances(language: Language, structure: PartitionStructure) -> dict[str, Tensor]:
    return start_covariances(structure, _families(language))


def _experts(before: Learnt, language: Language) -> dict[str, Gaussian]:
    """The experts that a logistic normal has learnt, one for each multinomial."""
    p = before.parameters
    return {
        name: Gaussian(p[f"loc.{name}"], p.get(f"covariance.{name}"), variance=p.get(f"variance.{name}"))
        for name in language.grammar.blocks
    }


def collapsed(setup: Setup, alpha: float, method: str) -> Learnt:
    """Dirichlets of a fixed concentration (Wang and Blunsom 2013, section 4.2), by VB or CVB; the posterior mean."""
    grammar, start = setup.language.grammar, setup.start(setup.language)
    model = partial(dirichlet, grammar=grammar, concentration=alpha)
    loop = {"vb": VariationalEM, "cvb": CollapsedVB}[method]
    return setup.learnt(setup.run(lambda: loop(model, initial_weights=start))[0])


def hastings(setup: Setup, alpha: float) -> Learnt:
    """The same by sampling trees: the mean of the weights over the second half of the sweeps."""
    grammar, start = setup.language.grammar, setup.start(setup.language)
    model = partial(dirichlet, grammar=grammar, concentration=alpha)
    seed = setup.settings.seed + setup.number
    sampler = TreeHastings(model, initial_weights=start, seed=seed, keep_parts=False)
    sampler.run(
        setup.language.short.words,
        num_steps=setup.sweeps,
        burn_in=setup.sweeps // 2,
        progress=False,
        callback=lambda loop: setup.say(f"sweep {len(loop.history)}"),
    )
    return Learnt(
        weights=(sampler.weights(),),
        iterations=len(sampler.history),
        stopped=plural(setup.sweeps, "sweep"),
        curves={"objective": tuple(sampler.history), "held_out": (math.nan,) * len(sampler.history)},
        metrics={"acceptance": sampler.acceptance},
    )


_ATTACH_RIGHT = Row("attach-right", "Attach-Right", None, many=False)
_EM = Row("em", "EM", em, above="attach-right")
_SUPERVISED = Row("supervised", "supervised DMV", supervised, many=False)
_WITH_FAMILIES = partial(log_normal, families=True)

LOGNORMAL_ROWS = (
    _ATTACH_RIGHT,
    _EM,
    Row("em-map", "EM-MAP, α tuned", em_map, above="em"),
    Row("vb", "VB-Dirichlet, α tuned", vb, above="em"),
    Row("vb-em", "VB-EM-Dirichlet", vb_em, above="em"),
    Row("ln", "VB-EM-Log-Normal, Σ = I", partial(log_normal, families=False), above="vb-em"),
    Row("ln-families", "VB-EM-Log-Normal, families", _WITH_FAMILIES, above="ln", families=True),
    _SUPERVISED,
)


def _tied_rows() -> list[Row]:
    """The shared logistic normals: each of the four ties, in one language and across two."""
    ties = {"v": ("V", "TieV"), "n": ("N", "TieN"), "vn": ("V&N", "TieV&N"), "a": ("A", "TieA")}
    need = "ln-families"
    alone = [
        Row(f"tie-{name}", f"SLN, {label}", tied, need, above=need, families=True, ties=letters)
        for name, (letters, label) in ties.items()
    ]
    across = [
        replace(row, name=f"bilingual-{name}", label=f"Biling. {row.label}", learn=tied_across, above=row.name)
        for name, row in zip(ties, alone, strict=True)
    ]
    return alone + [replace(row, bilingual=True) for row in across]


SHARED_ROWS = (
    _ATTACH_RIGHT,
    _EM,
    Row("vb-em", "Dirichlet", vb_em, above="em"),
    Row("ln-families", "LN", _WITH_FAMILIES, above="vb-em", families=True),
    *_tied_rows(),
    _SUPERVISED,
)


def _collapsed_rows() -> list[Row]:
    """VB, CVB and the Hastings sampler with either concentration of the paper's Figure 6."""
    rows = []
    for alpha in (1.0, 0.1):
        name, label = f"{alpha:g}", f"α = {alpha:g}"
        rows += [
            Row(f"vb-{name}", f"VB, {label}", partial(collapsed, alpha=alpha, method="vb"), above="em"),
            Row(f"cvb-{name}", f"CVB, {label}", partial(collapsed, alpha=alpha, method="cvb"), above=f"vb-{name}"),
            Row(f"hastings-{name}", f"Hastings, {label}", partial(hastings, alpha=alpha), above=f"cvb-{name}"),
        ]
    return rows


CVB_ROWS = (_ATTACH_RIGHT, _EM, *_collapsed_rows(), _SUPERVISED)
TABLES = {"lognormal": LOGNORMAL_ROWS, "shared": SHARED_ROWS, "cvb": CVB_ROWS}
