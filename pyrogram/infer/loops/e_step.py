# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The E-step over derivations as a schedule has it: expected counts, and their share of the objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pyrogram.grammar import Weights
from pyrogram.infer.model.expected_counts import check_derivable, expected_counts, site_counts
from pyrogram.infer.model.structure import ModelError, SentenceSite, TracedModel

from .schedules import Curriculum, HardSteps, Schedule, Together

#: Of a model and log weights by source: the objective, and expected counts by source.
Count = Callable[[TracedModel, Mapping[str, Tensor]], tuple[float, Weights]]


class ScheduledEStep:
    """:func:`.expected_counts`, as a schedule has it.

    :param schedule: a schedule, or several at once.
    """

    def __init__(self, schedule: Schedule | Sequence[Schedule] | None) -> None:
        self.schedule = Together(schedule)
        self._seen: tuple[TracedModel, int, TracedModel] | None = None  # the last selection, lest it be made again

    @property
    def num_steps(self) -> int:
        """How many steps differ from those of a loop without a schedule."""
        return self.schedule.num_steps

    @property
    def identity(self) -> str:
        """What tells this E-step from others, in fingerprints; empty for the plain one."""
        return self.schedule.identity

    def check(self, traced: TracedModel, loop: str) -> None:
        """
        :raises ModelError: for a model that has no such E-step.
        """
        if not self.identity:
            return
        if traced.gaussians:
            raise ModelError(f"{loop} has no schedule for logistic normals; leave out schedule=, or use EM")
        kinds = {type(schedule) for schedule in self.schedule.schedules}
        for site in traced.sentences:
            if HardSteps in kinds and site.mixture is not None:
                raise ModelError(f"{loop} has no HardSteps for mixtures of grammars, such as site {site.name!r}")
            if kinds & {HardSteps, Curriculum} and traced.of_each(site):
                raise ModelError(
                    f"{loop} needs weights that all sentences share for HardSteps and Curriculum, but each sentence of "
                    f"site {site.name!r} has its own; use Annealed"
                )

    def __call__(self, traced: TracedModel, log_weights: Mapping[str, Tensor], step: int) -> tuple[float, Weights]:
        """The objective of a step, without terms of the weights, in nats; and counts by source.

        :param log_weights: by source.
        :raises ValueError: if the step sees no sentence, or one that has no derivation.
        """
        setting = self.schedule.at(step)
        seen = traced if setting.longest is None else self._up_to(traced, setting.longest)
        if setting.hard:
            return expected_counts(seen, log_weights, best_counts)
        if setting.beta == 1:
            return expected_counts(seen, log_weights, site_counts)
        objective, counts = expected_counts(seen, {name: setting.beta * w for name, w in log_weights.items()})
        return objective / setting.beta, counts

    def _up_to(self, traced: TracedModel, longest: int) -> TracedModel:
        """The model of the sentences of at most so many words."""
        if self._seen is None or self._seen[0] is not traced or self._seen[1] != longest:
            sites = []
            for site in traced.sentences:
                short = (site.words >= 0).sum(-1) <= longest
                name = f"{site.name}, up to {longest} words"  # for messages, which number these sentences
                sites.append(replace(site, name=name, words=site.words[short].contiguous()))
            if not any(len(site.words) for site in sites):
                raise ValueError(f"the curriculum has no sentence of at most {longest} words; begin with longer ones")
            self._seen = traced, longest, replace(traced, sentences=sites)
        return self._seen[2]


def best_counts(site: SentenceSite, log_weights: Mapping[str, Tensor]) -> tuple[Tensor, Weights]:
    """log max_y p(x, y | w) of each sentence of a site, and the counts of these derivations, by block.

    :param log_weights: by source.
    """
    by_block = {block: log_weights[source] for block, source in site.source_of_block.items()}
    derivation = site.grammar.derivation(None, site.words, log_weights=by_block)
    with torch.no_grad():
        log_z: Tensor = derivation.log_partition
        check_derivable(site, log_z)
        best: Tensor = derivation.argmax()
        score: Tensor = log_z + derivation.log_prob(best)
        counts = site.grammar.collapsed_updates(site.words).counts(best)
    return score, {block: c.to(by_block[block]) for block, c in counts.items()}
