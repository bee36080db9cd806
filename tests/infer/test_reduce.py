# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What processes must do alike, and what one does for all; the processes are threads."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from infer.thread_group import ThreadReduce, in_threads
from torch import Tensor

from pyrogram.infer import CollapsedVB, Reduce
from pyrogram.infer.loops.collapsed_vb import CollapsedState
from pyrogram.infer.loops.shared_sweeps import exchanged, own_generator
from pyrogram.infer.model.shares import own_rows
from pyrogram.infer.running.reduce import is_first, of_first, summed, together
from pyrogram.infer.running.run import Resumable
from pyrogram.infer.running.state import flatten
from pyrogram.infer.samplers.shares import Part, joined

SIZE = 3


def test_one_is_the_first() -> None:
    assert is_first(None)
    assert in_threads(SIZE, is_first) == [True, False, False]
    assert in_threads(SIZE, lambda reduce: of_first(reduce, reduce.rank)) == [0, 0, 0]


@pytest.mark.parametrize("failing", [(0,), (2,), (1, 2)])
def test_all_raise_the_error_of_the_lowest_rank(failing: tuple[int, ...]) -> None:
    def work(reduce: Reduce) -> None:
        def may_fail() -> None:
            if reduce.rank in failing:
                raise LookupError(f"no word in process {reduce.rank}")

        together(reduce, may_fail)

    for error in in_threads(SIZE, work):
        assert isinstance(error, LookupError) and str(error) == f"no word in process {failing[0]}"


def test_an_error_keeps_its_traceback_in_its_own_process() -> None:
    own = KeyError("seven")

    def work(reduce: Reduce) -> None:
        def may_fail() -> None:
            if reduce.rank == 1:
                raise own

        together(reduce, may_fail)

    first, second, third = in_threads(SIZE, work)
    assert second is own
    assert all(str(error) == str(own) and isinstance(error, LookupError) for error in (first, third))


def test_sums_are_of_all() -> None:
    for found in in_threads(SIZE, lambda reduce: summed(reduce, lambda: {"a": torch.tensor([1.0, reduce.rank])})):
        assert found["a"].tolist() == [3.0, 3.0]


# ---------------------------------------------------------------------- sweeps


def test_a_sweep_adds_what_every_process_has_changed() -> None:
    before = {"a": torch.tensor([5.0, 1.0, 1e-17])}
    changes = torch.tensor([[1.0, -1.0, -1e-17], [2.0, 0.0, -1e-17], [-4.0, 0.5, 0.0]])

    def work(reduce: ThreadReduce) -> Mapping[str, Tensor]:
        return exchanged(reduce, before, {"a": before["a"] + changes[reduce.rank]})

    for found in in_threads(SIZE, work):
        torch.testing.assert_close(found["a"], torch.tensor([4.0, 0.5, 0.0]))
        assert (found["a"] >= 0).all()  # what rounding has made of nothing is no count


def test_processes_draw_other_numbers_and_stay_together() -> None:
    def work(reduce: ThreadReduce) -> tuple[list[float], list[float], float]:
        common = torch.Generator().manual_seed(1)
        first, second = (torch.rand(3, generator=own_generator(reduce, common)).tolist() for _ in range(2))
        return first, second, float(torch.rand((), generator=common))

    found = in_threads(SIZE, work)
    drawn = [tuple(numbers) for first, second, _ in found for numbers in (first, second)]
    assert len(set(drawn)) == 2 * SIZE
    assert len({after for _, _, after in found}) == 1


def test_rows_are_increasing() -> None:
    words = torch.where(torch.arange(5) < torch.tensor([5, 1, 4, 1, 3, 2, 2])[:, None], 0, -1)
    for rank in range(SIZE):
        rows = own_rows(words, rank, SIZE).tolist()
        assert rows == sorted(rows)


def test_sentences_of_all_chains_are_in_the_order_of_the_corpus() -> None:
    words = torch.where(torch.arange(4) < torch.tensor([4, 1, 3, 1, 2])[:, None], 0, -1)
    rows = [own_rows(words, rank, SIZE) for rank in range(SIZE)]
    parts = [Part({"s": own}, {"s": own + 10}, {"a": torch.tensor([1.0 + rank])}) for rank, own in enumerate(rows)]
    traced: Any = SimpleNamespace(sentences=[SimpleNamespace(name="s", words=words)])
    whole = joined(traced, parts)
    assert whole.derivations["s"].tolist() == [0, 1, 2, 3, 4]
    assert whole.accepted["s"].tolist() == [10, 11, 12, 13, 14]
    assert whole.changes is not None and whole.changes["a"].tolist() == [6.0]


def test_all_take_the_state_of_the_first_but_for_their_own_sentences() -> None:
    def work(reduce: ThreadReduce) -> tuple[dict[str, float], tuple[float, ...]]:
        loop = CollapsedVB(print, reduce=reduce, approximate=True)
        here = torch.tensor(float(reduce.rank))
        counts: Any = {"words": {"own": here}}
        problem: Any = None
        state = CollapsedState({"a": here}, {"a": here}, {}, here, here, here, counts)
        state, numbers = loop._agreed(problem, state, float(here))
        return {name: float(t) for name, t in flatten(state).items()}, numbers

    common = dict.fromkeys(("weights.a", "counts.a", "entropy", "sweep", "generator"), 0.0)
    for rank, found in enumerate(in_threads(SIZE, work)):
        assert found == (common | {"sentence_counts.words.own": float(rank)}, (0.0,))


def test_a_saved_state_is_shared_out_again() -> None:
    """Sentence counts of a share are in the order of the processes; the rest is common."""

    def work(reduce: ThreadReduce) -> tuple[Tensor, Tensor, Tensor]:
        loop = CollapsedVB(print, reduce=reduce, approximate=True)
        zero, own = torch.zeros(()), 10.0 * reduce.rank + torch.arange(2.0 + reduce.rank)
        state = CollapsedState({"a": zero}, {"a": zero}, {}, zero, zero, zero, {"words": {"values": own}})
        problem: Any = None
        loop._present = lambda: (problem, state)  # type: ignore[method-assign]
        name = "sentence_counts.words.values"
        saved = loop._of_all(problem, flatten(state))
        return saved[name], loop._of_this(problem, saved)[name], own

    for saved, found, own in in_threads(SIZE, work):
        assert saved.tolist() == [0, 1, 10, 11, 12, 20, 21, 22, 23]
        assert found.tolist() == own.tolist()


def test_all_start_where_the_first_does() -> None:
    def work(reduce: ThreadReduce) -> tuple[Any, list[Any]]:
        set_to: list[Any] = []
        traced = SimpleNamespace(parameter_values=lambda: {"p": reduce.rank}, set_parameters=set_to.append)

        class Started(CollapsedVB):
            def _need_problem(self) -> Any:
                return SimpleNamespace(traced=traced)

            def _start(self, traced: Any) -> Any:
                return {"a": reduce.rank}

            def _init(self, problem: Any, start: Any) -> Any:
                return start

            def _agreed(self, problem: Any, state: Any, *numbers: float) -> Any:
                return state, numbers

        return Started(print, reduce=reduce, approximate=True)._present()[1], set_to

    for state, set_to in in_threads(SIZE, work):
        assert state == {"a": 0} and set_to == [{"p": 0}]


# ---------------------------------------------------------------------- checkpoints


class Counter(Resumable):
    """Counts its steps, from what it was given."""

    def __init__(self, reduce: Reduce | None) -> None:
        super().__init__()
        self.reduce = reduce

    def _advance(self) -> float:
        self.history.append(float(len(self.history)))
        return self.history[-1]

    def _fingerprint(self) -> str:
        return "counter"

    def state_dict(self) -> dict[str, Tensor]:
        return {"history": torch.tensor(self.history)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.history = state["history"].tolist()


class SplitCounter(Counter):
    """A process alone does not know the state."""

    @property
    def _is_split(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [Counter, SplitCounter])
def test_the_first_process_reads_and_writes_for_all(kind: type[Counter], tmp_path: Path) -> None:
    """Each has a disk of its own."""

    def work(reduce: ThreadReduce) -> tuple[bool, list[float]]:
        path = tmp_path / str(reduce.rank) / "checkpoint"
        kind(reduce)._run(2, progress=False, checkpoint=path)
        again = kind(reduce)._run(2, progress=False, checkpoint=path)  # both steps have been taken
        return path.exists(), again.history

    assert in_threads(SIZE, work) == [(True, [0.0, 1.0]), (False, [0.0, 1.0]), (False, [0.0, 1.0])]


def test_what_lies_about_elsewhere_is_not_read(tmp_path: Path) -> None:
    for rank, steps in enumerate((1, 3, 4)):
        Counter(None)._run(steps, progress=False, checkpoint=tmp_path / str(rank))

    def work(reduce: ThreadReduce) -> list[float]:
        return Counter(reduce)._run(2, progress=False, checkpoint=tmp_path / str(reduce.rank)).history

    assert in_threads(SIZE, work) == [[0.0, 1.0]] * SIZE


def test_the_first_process_says_when_to_stop() -> None:
    def work(reduce: ThreadReduce) -> int:
        run = Counter(reduce)._run(9, progress=False, callback=lambda r: len(r.history) == 4 - reduce.rank)
        return len(run.history)

    assert in_threads(SIZE, work) == [4, 4, 4]
