# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Checks for one's own grammars and distributions over derivations.

Each check is a function of a case, and raises an AssertionError that says what is wrong. Cross them with your
instances, as scikit-learn's ``parametrize_with_checks`` does::

    case = GrammarCase(MyGrammar(), words=torch.tensor([[0, 1, 2], [1, 0, -1], [2, -1, -1]]))

    @pytest.mark.parametrize("name", GRAMMAR_CHECKS)
    def test_grammar(name):
        GRAMMAR_CHECKS[name](case)

or run all of them by ``check_grammar(case)``, with the derivations' own by ``check_distribution``. The truth is always
the list of all derivations, so cases must be small: some ten log weights, some ten derivations. The list is the
grammar's own. Only ``sample``, which says the model again, or a list of yours finds a grammar that you did not mean.
"""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable
from typing import Any

from . import (
    gradients,
    grammar_sums,
    grammar_tracers,
    grammar_use,
    objects,
    padding,
    shapes,
    sums,
    tracers,
    unread,
    values,
)
from .cases import DistributionCase, GrammarCase, arcs_of_heads
from .compare import chi_square, frequencies

__all__ = [
    "DISTRIBUTION_CHECKS",
    "GRAMMAR_CHECKS",
    "PADDING_CHECKS",
    "DistributionCase",
    "GrammarCase",
    "arcs_of_heads",
    "check_distribution",
    "check_grammar",
    "checks_for",
    "chi_square",
    "frequencies",
]


def __dir__() -> list[str]:
    return __all__


def _checks(*modules: Any) -> dict[str, Callable[[Any], None]]:
    """The functions check_... of modules, by the rest of their names."""
    checks: dict[str, Callable[[Any], None]] = {}
    for module in modules:
        for name, check in vars(module).items():
            if name.startswith("check_") and check.__module__ == module.__name__:
                assert name not in checks
                checks[name.removeprefix("check_")] = check
    return checks


#: Checks of distributions over derivations of single sentences, by name: each takes a :class:`DistributionCase`.
DISTRIBUTION_CHECKS = _checks(shapes, sums, gradients, values, objects, tracers, unread)
#: Checks of distributions over derivations of a padded batch of sentences, by name.
PADDING_CHECKS = _checks(padding, tracers, unread)
#: Checks of grammars, by name: each takes a :class:`GrammarCase`.
GRAMMAR_CHECKS = _checks(grammar_sums, grammar_use, grammar_tracers)


def checks_for(case: DistributionCase) -> dict[str, Callable[[DistributionCase], None]]:
    """The checks that apply to a case: those of padding to a padded batch, the others to a single sentence."""
    if case.singles:
        names = set(PADDING_CHECKS) - (set() if padding.has_own_weights(case) else {"padding_is_not_read"})
        return {name: check for name, check in PADDING_CHECKS.items() if name in names}
    unknown = {"marginals", "mbr"} if case.parts is None else set()
    return {name: check for name, check in DISTRIBUTION_CHECKS.items() if name not in unknown}


def check_distribution(case: DistributionCase) -> None:
    """Run every check that applies to a distribution over derivations; the first that fails, raises."""
    for name, check in checks_for(case).items():
        _run(name, check, case)


def check_grammar(case: GrammarCase) -> None:
    """Run every check on a grammar, and on its derivations of the given sentences; the first that fails, raises.

    Checks of draws are skipped, with a warning, if the grammar has no ``sample``. Then exchanged indices of a recursion
    pass: compare log Z with a list of your own, see docs/new-grammar.md. With ``sample``, give the case a ``sharpness``
    of 4, and blocks of three symbols or more: tables of two are often alike when they are exchanged. Run by itself, a
    check that is skipped raises ``unittest.SkipTest``, which pytest reports as a skipped test.
    """
    skipped = []
    for name, check in GRAMMAR_CHECKS.items():
        try:
            _run(name, check, case)
        except unittest.SkipTest:
            skipped.append(name)
    if skipped:
        warnings.warn(
            f"{type(case.grammar).__name__} cannot draw sentences, for it has no sample(): the checks "
            f"{', '.join(skipped)} were skipped, and exchanged indices pass: compare log Z with a list of your own",
            stacklevel=2,
        )
    for derivation in case.derivations().values():
        check_distribution(derivation)


def _run(name: str, check: Callable[[Any], None], case: Any) -> None:
    try:
        check(case)
    except AssertionError as error:
        raise AssertionError(f"check {name!r} failed: {error}") from error
