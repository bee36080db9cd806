# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Schedules: E-steps that begin easier, or otherwise, than they end.

A schedule says, of each step of a loop, how its E-step is done. This depends on the number of the step and on the
schedule's own arguments alone, so that a run that was interrupted goes on with the same numbers. When a schedule is
over, the loop is the loop without one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pyrogram.bias import Bias
from pyrogram.sentences import digest_of

__all__ = ["Annealed", "Curriculum", "Decaying", "HardSteps", "Schedule"]


@dataclass(frozen=True)
class Setting:
    """How the E-step of one step is done; by default it is the plain one.

    :param beta: the inverse temperature, by which all log weights are multiplied.
    :param longest: the greatest length, in words, of the sentences that the step sees; None: all.
    :param hard: whether each sentence counts for its most probable derivation alone.
    :param tilt: nats of events that derivations are weighed by, besides those of the model; None: none.
    """

    beta: float = 1.0
    longest: int | None = None
    hard: bool = False
    tilt: Bias | None = None


class Schedule(ABC):
    """The settings of the steps of a loop, see :class:`.EM` and :class:`.VariationalEM`."""

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """The number of steps after which the loop is the plain one, and may stop."""

    @property
    def identity(self) -> str:
        """What tells it from others."""
        return repr(self)

    @abstractmethod
    def at(self, step: int) -> Setting:
        """
        :param step: from 0.
        """


@dataclass(frozen=True)
class Annealed(Schedule):
    """Deterministic annealing (Rose 1998; Smith and Eisner 2004, section 3): flat posteriors that become sharp.

    The E-step multiplies all log weights by the inverse temperature β = ``start`` ** (1 - step / ``until``), which
    grows to 1 by the same factor in each step: derivations are weighted by p(x, y | w) ** β. The objective is, in nats,

        sum over sentences x of  (1 / β) log Σ_y p(x, y | w) ** β,

    in place of the log-likelihood. It is the greatest value over q(y) of E_q[log p(x, y | w)] + H(q) / β, so that the
    M-step is the one without a schedule, and no step lowers the objective of its own temperature; it is at least the
    log-likelihood. In variational Bayes, log w is E_q[log w]: the entropy of derivations is multiplied by 1 / β, and
    all other terms of the bound stay as they are.

    What is known of derivations is not multiplied by β: evidence, a tilt of the model's own.

    >>> [round(Annealed(start=0.25, until=2).at(step).beta, 3) for step in range(4)]
    [0.25, 0.5, 1.0, 1.0]

    :param start: β of the first step, in (0, 1].
    :param until: the number of the first step, from 0, with β = 1. It is no share of a run, for a run that is taken up
        again may be made longer.
    :raises ValueError: for other numbers.
    """

    start: float = 0.2
    until: int = 20

    def __post_init__(self) -> None:
        _check_count("Annealed", "until", self.until)
        if not 0 < self.start <= 1:
            raise ValueError(f"Annealed needs 0 < start <= 1, an inverse temperature, not {self.start!r}")

    @property
    def num_steps(self) -> int:
        return self.until

    def at(self, step: int) -> Setting:
        return Setting(beta=self.start ** (1 - step / self.until) if step < self.until else 1.0)


@dataclass(frozen=True)
class Curriculum(Schedule):
    """Short sentences first (*baby steps*: Spitkovsky, Alshawi and Jurafsky 2010, section 4).

    Each stage of ``every`` steps sees the sentences of at most so many words, and begins with the weights of the stage
    before; after the last stage, steps see all sentences. The objective is that of the sentences of the stage.
    Maximum likelihood gives a probability of zero to what short sentences have no use for, perhaps to longer sentences;
    use a prior.

    >>> [Curriculum([10, 15], every=2).at(step).longest for step in range(5)]
    [10, 10, 15, 15, None]

    :param lengths: of the longest sentences of each stage, in words, increasing.
    :param every: steps of a stage.
    :raises ValueError: for other numbers.
    """

    lengths: Sequence[int]
    every: int = 10

    def __post_init__(self) -> None:
        _check_count("Curriculum", "every", self.every)
        lengths = list(self.lengths)
        if not lengths or lengths != sorted(set(lengths)) or not all(isinstance(n, int) and n > 0 for n in lengths):
            raise ValueError(f"Curriculum needs increasing numbers of words, such as [10, 15, 20], not {lengths}")
        object.__setattr__(self, "lengths", tuple(lengths))

    @property
    def num_steps(self) -> int:
        return self.every * len(self.lengths)

    def at(self, step: int) -> Setting:
        stage = step // self.every
        return Setting(longest=self.lengths[stage] if stage < len(self.lengths) else None)


@dataclass(frozen=True)
class HardSteps(Schedule):
    """Viterbi and soft E-steps in turn (*lateen EM*: Spitkovsky, Alshawi and Jurafsky 2011, section 3).

    In a hard step, each sentence counts for its most probable derivation alone. The objective is then

        sum over sentences x of  log max_y p(x, y | w),

    in nats, which no hard step lowers, and which is at most the log-likelihood, the objective of the soft steps. The
    two climb different hills: one may leave the top of the other's. (In the paper, each goes on until it converges.)

    >>> [HardSteps(hard=1, soft=2, until=4).at(step).hard for step in range(5)]
    [True, False, False, True, False]

    :param hard: the number of hard steps, which come first.
    :param soft: the number of soft steps that follow, before the next hard one.
    :param until: the number of the first step, from 0, after which all steps are soft.
    :raises ValueError: for other numbers.
    """

    hard: int = 5
    soft: int = 5
    until: int = 40

    def __post_init__(self) -> None:
        for name in ("hard", "soft", "until"):
            _check_count("HardSteps", name, getattr(self, name))

    @property
    def num_steps(self) -> int:
        return self.until

    def at(self, step: int) -> Setting:
        return Setting(hard=step < self.until and step % (self.hard + self.soft) < self.hard)


@dataclass(frozen=True, eq=False)
class Decaying(Schedule):
    """A tilt that becomes weaker: knowledge says where a loop begins, and the words where it ends.

    In step t the E-step weighs derivations by p(x, y | w) exp(s φ(x, y)), φ the bias, whose strength s falls from 1 in
    the first step to ``rest`` in step ``until`` by the same amount in each. The objective is, in nats,

        sum over sentences x of  log Σ_y p(x, y | w) exp(s φ(x, y)),

    which the step does not lower; it is no log-likelihood as long as s is not 0. Weights that a tilt has led to may
    stay where they are without it; to hold on to knowledge, tilt the model's own grammar, see :class:`.Bias`. Other
    schedules do not change φ: it is not multiplied by β.

    >>> verbs = Bias({"root": torch.tensor([0.0, 4.0])})
    >>> decaying = Decaying(verbs, until=4)
    >>> [decaying.at(step).tilt.events["root"][1].item() for step in range(4)], decaying.at(4).tilt
    ([4.0, 3.0, 2.0, 1.0], None)

    :param bias: nats of events, by block of the model's grammar; of none, it changes nothing.
    :param until: the number of the first step, from 0, with the strength ``rest``.
    :param rest: the strength at the end, 0 or more; with 0, the loop is the plain one from then on.
    :raises TypeError: for another kind of bias.
    :raises ValueError: for other numbers; for nats of parts of sentences, and for nats that are to be learnt.
    """

    bias: Bias
    until: int = 20
    rest: float = 0.0

    def __post_init__(self) -> None:
        _check_count("Decaying", "until", self.until)
        if not 0 <= self.rest < math.inf:
            raise ValueError(f"Decaying needs rest >= 0, a strength, not {self.rest!r}")
        if not isinstance(self.bias, Bias):
            raise TypeError(f"Decaying needs a Bias, not {self.bias!r:.100}")
        if self.bias.parts:
            raise ValueError(
                f"Decaying needs a bias of events, not of {', '.join(self.bias.parts)}; nats of parts of sentences "
                "belong to the model's grammar, as in grammar.tilted(bias)"
            )
        if any(table.requires_grad for table in self.bias.events.values()):
            raise ValueError("Decaying cannot learn its bias, which has a gradient; detach it")

    @property
    def num_steps(self) -> int:
        return self.until

    @property
    def identity(self) -> str:
        return f"Decaying({digest_of(dict(sorted(self.bias.events.items())))}, {self.until}, {self.rest!r})"

    def at(self, step: int) -> Setting:
        strength = 1 + (self.rest - 1) * step / self.until if step < self.until else self.rest
        return Setting(tilt=strength * self.bias if strength and self.bias.events else None)


@dataclass(frozen=True)
class Together(Schedule):
    """Several schedules at once: inverse temperatures are multiplied, tilts added, and the shortest length counts."""

    schedules: tuple[Schedule, ...] = ()

    def __init__(self, schedule: Schedule | Sequence[Schedule] | None) -> None:
        schedules = () if schedule is None else tuple(schedule) if isinstance(schedule, Sequence) else (schedule,)
        for part in schedules:
            if not isinstance(part, Schedule):
                raise TypeError(f"schedule must be a schedule such as Annealed(), or a list of them, not {part!r:.100}")
        object.__setattr__(self, "schedules", schedules)

    @property
    def num_steps(self) -> int:
        return max((schedule.num_steps for schedule in self.schedules), default=0)

    @property
    def identity(self) -> str:
        """Tells schedules from others; empty, if there is none."""
        return "".join(schedule.identity for schedule in self.schedules)

    def at(self, step: int) -> Setting:
        settings = [schedule.at(step) for schedule in self.schedules]
        tilts = [setting.tilt for setting in settings if setting.tilt is not None]
        return Setting(
            beta=math.prod(setting.beta for setting in settings),
            longest=min((setting.longest for setting in settings if setting.longest is not None), default=None),
            hard=any(setting.hard for setting in settings),
            tilt=sum(tilts, start=Bias()) if tilts else None,
        )


def _check_count(schedule: str, name: str, count: int) -> None:
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"{schedule} needs {name}, a number of steps of at least 1, not {count!r}")
