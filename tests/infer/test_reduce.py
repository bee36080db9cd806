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

from pyrogram.infer import EM, Reduce
from pyrogram.infer.loops.held import HeldState
from pyrogram.infer.model.expected_counts import own_rows
from pyrogram.infer.running.reduce import is_first, of_first, summed, together
from pyrogram.infer.running.run import Resumable

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


# ---------------------------------------------------------------------- loops


def test_rows_are_increasing() -> None:
    words = torch.where(torch.arange(5) < torch.tensor([5, 1, 4, 1, 3, 2, 2])[:, None], 0, -1)
    for rank in range(SIZE):
        rows = own_rows(words, rank, SIZE).tolist()
        assert rows == sorted(rows)


def test_all_take_the_state_of_the_first() -> None:
    def work(reduce: ThreadReduce) -> tuple[HeldState, tuple[float, ...]]:
        here = torch.tensor(float(reduce.rank))
        return EM(print, reduce=reduce)._agreed(HeldState({"a": here}, {"b": here}), float(here))

    zero = torch.tensor(0.0)
    assert in_threads(SIZE, work) == [(HeldState({"a": zero}, {"b": zero}), (0.0,))] * SIZE


def test_all_start_where_the_first_does() -> None:
    def work(reduce: ThreadReduce) -> tuple[Any, list[Any]]:
        set_to: list[Any] = []
        traced = SimpleNamespace(parameter_values=lambda: {"p": reduce.rank}, set_parameters=set_to.append)

        class Started(EM):
            def _need_problem(self) -> Any:
                return SimpleNamespace(traced=traced)

            def _start(self, traced: Any) -> Any:
                return {"a": reduce.rank}

            def _init(self, problem: Any, start: Any) -> Any:
                return start

            def _agreed(self, state: Any, *numbers: float) -> Any:
                return state, numbers

        return Started(print, reduce=reduce)._present()[1], set_to

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


def test_the_first_process_reads_and_writes_for_all(tmp_path: Path) -> None:
    """Each has a disk of its own."""

    def work(reduce: ThreadReduce) -> tuple[bool, list[float]]:
        path = tmp_path / str(reduce.rank) / "checkpoint"
        Counter(reduce)._run(2, progress=False, checkpoint=path)
        again = Counter(reduce)._run(2, progress=False, checkpoint=path)  # both steps have been taken
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
