# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mixtures of recursions: derivations are those of all components, each with its share."""

from dataclasses import replace

import numpy as np
import pytest
from enumeration import listed, log_sum, random_sentences, tables
from pages import PAGES, Page

from pyrogram.recursion.rules.lowering import lower
from pyrogram.recursion.run.program import Program
from pyrogram.sweeps.mixed import COMPONENTS, SHARE, with_components

K = 3
NAMES = "siblings", "dmv_words", "hmm", "semi_markov", "pcfg", "pcfg_rules"
SOME = [page for page in PAGES if page.name in NAMES]


@pytest.mark.one_in(10)
@pytest.mark.parametrize("page", SOME, ids=str)
def test_log_z(page: Page) -> None:
    """Log of the sum of shares times Z, by the derivations of each component."""
    rng = np.random.default_rng(0)
    recursion = page.make()
    mixed = with_components(recursion, tables(recursion))
    own = replace(page, sizes={**page.sizes, COMPONENTS: K})
    given = random_sentences(own, mixed, [3, 1, 4, 2], rng, shared=False)
    total = []
    for k in range(K):
        weights = {}
        for name, (positions, _) in tables(recursion).items():
            weights[name] = np.take(given.weights[name], k, 1 + positions)  # after the sentence and the positions
        one = replace(given, weights=weights, sizes=page.sizes)
        share = given.weights[SHARE][:, k]
        total.append(share + [log_sum(found.scores) for found in listed(page, recursion, one)])
    np.testing.assert_allclose(Program(mixed).log_counts(given)[0], np.logaddexp.reduce(total), rtol=1e-10)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("page", SOME[1:3], ids=str)
def test_weights_that_components_share(page: Page) -> None:
    """One weight that all have: it is as if each had it."""
    rng = np.random.default_rng(1)
    recursion = page.make()
    names = list(tables(recursion))
    mixed = with_components(recursion, names[1:])
    assert len(mixed.tables[names[0]].sizes) == len(recursion.tables[names[0]].sizes)
    lower(mixed)
    own = replace(page, sizes={**page.sizes, COMPONENTS: K})
    given = random_sentences(own, mixed, [3, 2], rng, shared=False)
    of_all = with_components(recursion, names)
    positions = tables(recursion)[names[0]][0]
    table = np.repeat(np.expand_dims(given.weights[names[0]], 1 + positions), K, 1 + positions)
    every = replace(given, weights={**given.weights, names[0]: table})
    found, expected = (Program(r).log_counts(x)[0] for r, x in ((mixed, given), (of_all, every)))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_rules() -> None:
    page = next(page for page in PAGES if page.name == "projective").make()
    assert str(with_components(page, ["arc"])).splitlines()[2] == (
        "IR[i, j, component.c] += arc[i, j, component.c] * RC[i, k, component.c] * LC[k + 1, j, component.c]"
    )
