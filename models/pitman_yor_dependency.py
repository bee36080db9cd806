# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The hierarchical Pitman-Yor dependency model: Eisner's generative model with Pitman-Yor priors.

Every word of a tree generates its children from the inside out: a child's tag given the parent's tag, word and case,
the previous sibling's tag and the side; the child's word given its tag and the parent; its case given tag and word.
Each of these distributions has a prior centred at that of a coarser context, up to the uniform distribution (Wallach,
Sutton and McCallum 2008, section 3, Eqs. 3-8 and Table 1). Trees are observed: what is random is how much contexts
share. For each variable (tag, word, case) and each level of its contexts:

1. epsilon ~ Beta(1, 1), the discount; 0 makes the process a Dirichlet,
2. alpha + epsilon ~ Gamma(1, 0.1), the strength, alpha being the concentration,
3. the variable's events ~ HierarchicalPitmanYor(alpha, epsilon).

**Reference:** Wallach, Sutton and McCallum (2008), "Bayesian modeling of dependency trees using hierarchical Pitman-Yor
priors", ICML Workshop on Prior Knowledge for Text and Language Processing.
"""

from collections.abc import Mapping
from typing import Literal, get_args

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram.distributions import Contexts, HierarchicalPitmanYor, Paths
from pyrogram.grammars.lexical_dependencies import Events

__all__ = ["PITMAN_YOR_PRIORS", "PitmanYorPrior", "discounts_and_strengths", "observed_events", "pitman_yor_dependency"]

PitmanYorPrior = Literal["dirichlet-fixed", "dirichlet-sampled", "pitman-yor-fixed", "pitman-yor-sampled"]
#: The four priors of Table 2.
PITMAN_YOR_PRIORS: tuple[PitmanYorPrior, ...] = get_args(PitmanYorPrior)
#: Eisner's concentrations, of the coarsest level and of the finer ones; and the discount of "pitman-yor-fixed".
EISNER_COARSEST, EISNER_FINER, FIXED_DISCOUNT = 0.5, 3.0, 0.1


def pitman_yor_dependency(
    values: Mapping[str, Tensor],
    contexts: Mapping[str, Contexts],
    num_values: Mapping[str, int],
    prior: PitmanYorPrior = "pitman-yor-sampled",
    paths: Paths = "minimal",
) -> None:
    """The model, for :class:`~pyrogram.infer.PitmanYorSampler`::

        grammar = LexicalDependencies(num_tags, num_words)
        events = grammar.events(tags, words, cases, heads)
        PitmanYorSampler(pitman_yor_dependency).run(*observed_events(events), grammar.num_values)

    With a ``"...-sampled"`` prior, discounts are sites ``"<variable>_discount"`` (0 with a Dirichlet) and strengths
    sites ``"<variable>_strength"``; Gamma(1, 0.1) is exponential with mean 10. With a ``"...-fixed"`` one, alpha is
    Eisner's, and epsilon 0 or 0.1.

    :param values: the events of tags, words and cases, as :meth:`.LexicalDependencies.events` has them.
    :param contexts: by variable, the contexts that its values were seen in.
    :param num_values: how many values each variable has.
    :param paths: ``"minimal"``, ``"maximal"`` or ``"exact"``.
    :raises ValueError: if there is no such prior.
    """
    if prior not in PITMAN_YOR_PRIORS:
        raise ValueError(f"expected a prior from {', '.join(PITMAN_YOR_PRIORS)}, actual {prior!r}.")
    for name, observed_values in values.items():
        epsilon, strength = discounts_and_strengths(name, contexts[name].num_levels, prior)
        process = HierarchicalPitmanYor(contexts[name], strength - epsilon, epsilon, num_values[name], paths=paths)
        pyro.sample(name, process, obs=observed_values)


def discounts_and_strengths(name: str, levels: int, prior: PitmanYorPrior) -> tuple[Tensor, Tensor]:
    """Discounts epsilon and strengths alpha + epsilon of a variable, one of each for every level, coarsest first."""
    epsilon, strength = torch.zeros(levels), torch.full((levels,), EISNER_FINER)
    strength[0] = EISNER_COARSEST
    if prior == "pitman-yor-fixed":
        epsilon = torch.full((levels,), FIXED_DISCOUNT)
        strength = strength + epsilon
    if prior == "pitman-yor-sampled":
        epsilon = pyro.sample(f"{name}_discount", dist.Beta(1.0, 1.0).expand([levels]).to_event(1))
    if prior in ("dirichlet-sampled", "pitman-yor-sampled"):
        strength = pyro.sample(f"{name}_strength", dist.Gamma(1.0, 0.1).expand([levels]).to_event(1))
    return epsilon, strength


def observed_events(events: Mapping[str, Events]) -> tuple[dict[str, Tensor], dict[str, Contexts]]:
    """The values of events, and their contexts: the model's first two arguments."""
    return {name: e.values for name, e in events.items()}, {name: Contexts(e.keys) for name, e in events.items()}
