# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The E-step over derivations as schedules and constraints have it: expected counts, their share of the objective."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypedDict

import torch
from torch import Tensor

from pyrogram.grammar import Weights
from pyrogram.infer.model.expected_counts import (
    SiteCounts,
    expected_counts,
    share_of,
    site_counts,
    summed_counts,
)
from pyrogram.infer.model.structure import ModelError, SentenceSite, TracedModel
from pyrogram.infer.running.reduce import Reduce
from pyrogram.printable import plural
from pyrogram.sentences import Sentences

from .constraints import Constraint, combined, expectation, greatest_share, tilted_counts
from .dual import WORTH_TELLING, minimise
from .schedules import Curriculum, HardSteps, Schedule, Together


@dataclass(frozen=True)
class Counted:
    """What an E-step has found.

    :param objective: the share that derivations have in it, in nats.
    :param counts: expected, by source.
    :param dual: where the constraints stand, see :meth:`ScheduledEStep.start`.
    """

    objective: float
    counts: Weights
    dual: Weights = field(default_factory=dict)


#: Of a model, log weights by source, and where the constraints stood.
Count = Callable[[TracedModel, Mapping[str, Tensor], Weights], Counted]


class EStepOptions(TypedDict, total=False):
    """The arguments of :class:`ScheduledEStep`."""

    schedule: Schedule | Sequence[Schedule] | None
    constraints: Sequence[Constraint]
    reduce: Reduce | None


class ScheduledEStep:
    """:func:`.expected_counts`, as a schedule and constraints have it.

    :param schedule: a schedule, or several at once.
    :param constraints: all of which the expected counts must meet.
    :param reduce: processes, each of which counts in its share of the sentences.
    :raises TypeError: for what is none of these.
    :raises ValueError: for hard steps with constraints.
    """

    def __init__(
        self,
        schedule: Schedule | Sequence[Schedule] | None = None,
        constraints: Sequence[Constraint] = (),
        reduce: Reduce | None = None,
    ) -> None:
        if reduce is not None and not isinstance(reduce, Reduce):
            raise TypeError(f"reduce must be a Reduce, such as all_reduce() makes, not {reduce!r:.80}")
        self.reduce = reduce
        if not isinstance(constraints, Sequence):
            raise TypeError(f"constraints must be a list of AtLeast and AtMost, not {constraints!r:.100}")
        self.schedule, self.constraints = Together(schedule), tuple(constraints)
        for constraint in self.constraints:
            if not isinstance(constraint, Constraint):
                raise TypeError(f"constraints must be a list of AtLeast and AtMost, not of {constraint!r:.100}")
        if self.constraints and any(isinstance(part, HardSteps) for part in self.schedule.schedules):
            raise ValueError("HardSteps takes no constraints, for one derivation has no shares; use AtLeast without it")
        # the last selections, lest they be made again: up to a length, and the share of this process
        self._seen: tuple[TracedModel, int, TracedModel] | None = None
        self._shared: tuple[list[Sentences], TracedModel] | None = None

    @property
    def num_steps(self) -> int:
        """How many steps differ from those of a loop without a schedule."""
        return self.schedule.num_steps

    @property
    def identity(self) -> str:
        """What tells this E-step from others, in fingerprints; empty for the plain one."""
        return self.schedule.identity + "".join(constraint.identity for constraint in self.constraints)

    def start(self) -> Weights:
        """Where constraints stand at first: multipliers λ, and the curvature of the dual, of which nothing is known."""
        K = len(self.constraints)
        zeros = torch.zeros((K, K), dtype=torch.float64)
        return {"multipliers": zeros.new_zeros(K), "curvature": zeros} if K else {}

    def check(self, traced: TracedModel, loop: str) -> None:
        """
        :raises ModelError: for a model that has no such E-step.
        """
        if self.reduce is not None and traced.gaussians:
            raise ModelError(f"{loop} with logistic normals is for one process; leave out reduce=, or use EM")
        if not self.identity:
            return
        if traced.gaussians:
            raise ModelError(
                f"{loop} has no schedules and no constraints for logistic normals; leave out schedule= and "
                "constraints=, or use EM"
            )
        kinds = {type(schedule) for schedule in self.schedule.schedules}
        for site in traced.sentences:
            if HardSteps in kinds and site.mixture is not None:
                raise ModelError(f"{loop} has no HardSteps for mixtures of grammars, such as site {site.name!r}")
            if self.constraints and (site.mixture is not None or traced.of_each(site)):
                raise ModelError(
                    f"{loop} has no constraints for mixtures and weights of each sentence, such as at site "
                    f"{site.name!r}; leave out constraints="
                )
            if kinds & {HardSteps, Curriculum} and traced.of_each(site):
                raise ModelError(
                    f"{loop} needs weights that all sentences share for HardSteps and Curriculum, but each sentence of "
                    f"site {site.name!r} has its own; use Annealed"
                )

    def __call__(self, traced: TracedModel, log_weights: Mapping[str, Tensor], dual: Weights, step: int) -> Counted:
        """
        :param log_weights: by source.
        :param dual: where constraints stood, see :meth:`start`.
        :param step: its number, from 0.
        :raises ValueError: if the step sees no sentence, or one that has no derivation; and if constraints cannot hold.
        """
        setting = self.schedule.at(step)
        seen = traced if setting.longest is None else self._up_to(traced, setting.longest)
        if setting.tilt is not None:
            sites = [replace(site, grammar=site.grammar.tilted(setting.tilt)) for site in seen.sentences]
            seen = replace(seen, sentences=sites)
        if setting.hard:
            return self._counted(seen, log_weights, best_counts)
        if setting.beta != 1:
            log_weights = {name: setting.beta * w for name, w in log_weights.items()}
        if self.constraints:
            counted = self._constrained(seen, log_weights, dual)
        else:
            counted = self._counted(seen, log_weights)
        return replace(counted, objective=counted.objective / setting.beta)

    def _counted(self, traced: TracedModel, log_weights: Mapping[str, Tensor], of: SiteCounts = site_counts) -> Counted:
        """:func:`.expected_counts`, of all processes together."""
        share = traced if self.reduce is None else self._share(traced)
        return Counted(*summed_counts(self.reduce, partial(expected_counts, share, log_weights, of)))

    def _share(self, traced: TracedModel) -> TracedModel:
        """The model of this process's own sentences."""
        assert self.reduce is not None
        sentences = [site.sentences for site in traced.sentences]
        if self._shared is None or not all(a is b for a, b in zip(self._shared[0], sentences, strict=True)):
            self._shared = sentences, share_of(traced, self.reduce.rank, self.reduce.size)
        pairs = zip(traced.sentences, self._shared[1].sentences, strict=True)
        return replace(
            traced, sentences=[replace(site, sentences=share.sentences, rows=share.rows) for site, share in pairs]
        )

    def _constrained(self, traced: TracedModel, log_weights: Mapping[str, Tensor], dual: Weights) -> Counted:
        """The counts under the q that is nearest to the posterior, of those under which the constraints hold."""
        reached: list[tuple[Tensor, Counted, Tensor]] = []  # multipliers, counts, E[g] and E[of]

        def evaluate(multipliers: Tensor) -> tuple[float, Tensor]:
            sums = torch.zeros((2, len(multipliers)), dtype=torch.float64)

            def of_site(site: SentenceSite, logs: Mapping[str, Tensor]) -> tuple[Tensor, Weights]:
                blocks = site.model_grammar.blocks
                slack = [constraint.slack(blocks) for constraint in self.constraints]
                log_z, counts, events = tilted_counts(site, logs, combined(multipliers, slack))
                for k, constraint in enumerate(self.constraints):
                    sums[0, k] += site.scale * expectation(events, slack[k])
                    sums[1, k] += site.scale * expectation(events, constraint.tables(blocks)[1])
                return log_z, counts

            counted = self._counted(traced, log_weights, of_site)
            if self.reduce is not None:
                sums = self.reduce.sum({"sums": sums})["sums"]
            reached[:] = [(multipliers, counted, sums)]
            return counted.objective, sums[0]

        evaluate(dual["multipliers"])
        optimum = minimise(evaluate, dual["multipliers"], dual["curvature"], reached[0][2][1])
        if optimum is None:
            raise ValueError(self._impossible(traced, log_weights, reached[0][2]))
        if bool((optimum.away > WORTH_TELLING).any()):
            k = int(optimum.away.argmax())
            warnings.warn(
                f"constraint {k}, {type(self.constraints[k]).__name__} {self.constraints[k].share:g}, is met to "
                f"{float(optimum.away[k]):.1g} of its events alone, where the search for multipliers ended; ask for a "
                "share that is less near to what cannot be had, or use float64",
                stacklevel=2,
            )
        if not torch.equal(reached[0][0], optimum.multipliers):
            evaluate(optimum.multipliers)
        return replace(reached[0][1], dual={"multipliers": optimum.multipliers, "curvature": optimum.curvature})

    def _impossible(self, traced: TracedModel, log_weights: Mapping[str, Tensor], sums: Tensor) -> str:
        """Why constraints cannot hold.

        :param sums: E[g] and E[of], where multipliers are as good as infinite.
        """
        for k, constraint in enumerate(self.constraints):
            share = greatest_share(traced.sentences, log_weights, constraint)
            if constraint.sign * (share - constraint.share) < 0:
                least = "least" if constraint.sign < 0 else "greatest"
                return (
                    f"constraint {k}, {type(constraint).__name__} {constraint.share:g}, cannot hold, for the {least} "
                    f"share that these sentences have is {share:.6g}; ask for that or leave the constraint out"
                )
        shares = [c.share + c.sign * float(g / of) for c, g, of in zip(self.constraints, *sums, strict=True)]
        return (
            "each constraint can hold, but not all together, in which their shares come to "
            f"{', '.join(f'{share:.4g}' for share in shares)}; ask for less"
        )

    def _up_to(self, traced: TracedModel, longest: int) -> TracedModel:
        """The model of the sentences of at most so many words."""
        if self._seen is None or self._seen[0] is not traced or self._seen[1] != longest:
            sites = []
            for site in traced.sentences:
                short = (site.words >= 0).sum(-1) <= longest
                name = f"{site.name}, up to {plural(longest, 'word')}"  # for messages, which number these sentences
                sites.append(replace(site, name=name, sentences=site.sentences[short]))
            if not any(len(site.words) for site in sites):
                raise ValueError(
                    f"the curriculum has no sentence of at most {plural(longest, 'word')}; begin with longer ones"
                )
            self._seen = traced, longest, replace(traced, sentences=sites)
        return self._seen[2]


def best_counts(site: SentenceSite, log_weights: Mapping[str, Tensor]) -> tuple[Tensor, Weights]:
    """log max_y p(x, y | w) of each sentence of a site, and the counts of these derivations, by block.

    :param log_weights: by source.
    """
    by_block = {block: log_weights[source] for block, source in site.source_of_block.items()}
    derivation = site.grammar.derivation(None, site.sentences, log_weights=by_block)
    with torch.no_grad():
        log_z: Tensor = derivation.log_partition
        site.check_derivable(log_z)
        best: Tensor = derivation.argmax()
        score: Tensor = log_z + derivation.log_prob(best)
        counts = site.grammar.collapsed_updates(site.sentences).counts(best)
    return score, {block: c.to(by_block[block]) for block, c in counts.items()}
