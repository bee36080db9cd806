# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops in two and three processes, against the same in one."""

from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from infer.process_checks import CHECKS, ERRORS, GRAMMAR, LEARNT, LIKELIHOOD, SAME, WORDS, Found, interrupted, ran
from infer.process_group import run_group

from pyrogram.data import CorpusError
from pyrogram.infer import EM, AllReduce, ModelError, Reduce, VariationalEM, all_reduce
from pyrogram.infer.model.expected_counts import own_rows
from pyrogram.infer.running.reduce import together
from pyrogram.models.logistic_normal import logistic_normal

#: Numbers of processes of each check.
SIZES = dict.fromkeys(CHECKS, (3,)) | dict.fromkeys(("VB", "interrupted", "resumed"), (2, 3))
#: Of the fast stage.
ALIKE = ("other_words", "other_error")
#: What rounding grows into: a curvature from differences of gradients, and float32.
TOLERANCES = {"constrained": 1e-9, "single": 1e-5}
Groups = dict[tuple[str, int], list[Found]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """With what one process has left, for others to go on from."""
    made = tmp_path_factory.mktemp("processes")
    if not request.config.getoption("--slow"):
        return made
    torch.set_default_dtype(torch.float64)
    pyro.clear_param_store()
    interrupted(None, made / "left")
    return made


@pytest.fixture(scope="module")
def groups(folder: Path, request: pytest.FixtureRequest) -> Groups:
    """All checks in the slow stage; in the fast one, where threads stand for processes elsewhere, two checks."""
    names = CHECKS if request.config.getoption("--slow") else ALIKE
    return run_group({name: CHECKS[name] for name in names}, {name: SIZES[name] for name in names}, folder)


def assert_same(found: Found, expected: Found, tolerance: float = 1e-12) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(
                found[name], value, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda t, n=name: f"{n}: {t}"
            )
        else:
            assert found[name] == value, name


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [(name, size) for name in SAME for size in SIZES[name]])
def test_numbers_are_those_of_one_process(groups: Groups, folder: Path, name: str, size: int) -> None:
    torch.set_num_threads(1)
    found = groups[name, size]
    assert_same(found[0], SAME[name](None, folder / name), TOLERANCES.get(name, 1e-12))
    for other in found[1:]:  # to the last bit
        assert_same(other, found[0], tolerance=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_all(groups: Groups, name: str) -> None:
    assert all(len(found["error"]) > 20 for found in groups[name, 3])


def test_processes_that_differ_are_refused(groups: Groups) -> None:
    for found in groups["other_words", 3]:
        assert found["error"].startswith("ModelError: process 2 has other sentences, or another model, than process 0;")
    for found in groups["other_error", 3]:
        assert found["error"].startswith("ModelError: no such corpus")


@pytest.fixture(scope="module")
def whole_run() -> Found:
    torch.set_default_dtype(torch.float64)
    pyro.clear_param_store()
    return ran(VariationalEM(LEARNT), WORDS)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_one_process_goes_on_where_several_were_stopped(
    groups: Groups, folder: Path, size: int, whole_run: Found
) -> None:
    assert groups["interrupted", size] == [{}] * size
    path = folder / f"interrupted {size}"
    assert path.exists()
    assert_same(ran(VariationalEM(LEARNT), WORDS, checkpoint=path), whole_run)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_several_processes_go_on_where_one_was_stopped(groups: Groups, size: int, whole_run: Found) -> None:
    for found in groups["resumed", size]:
        assert_same(found, whole_run)


# ---------------------------------------------------------------------- one process


def test_without_torchrun_there_is_one_process() -> None:
    reduce = all_reduce()
    assert isinstance(reduce, Reduce)
    assert (reduce.rank, reduce.size) == (0, 1)
    expected = ran(EM(LIKELIHOOD), WORDS)
    pyro.clear_param_store()
    assert_same(ran(EM(LIKELIHOOD, reduce=reduce), WORDS), expected, tolerance=0.0)


def test_sums_keep_dtype_and_shape() -> None:
    given = {"a": torch.ones(2, 3, dtype=torch.float32), "b": torch.tensor(2), "c": torch.zeros(0)}
    found = AllReduce().sum(given)
    assert {n: (t.dtype, t.shape) for n, t in found.items()} == {n: (t.dtype, t.shape) for n, t in given.items()}
    assert AllReduce().sum({}) == {}


def test_a_process_that_is_lost_is_told_in_a_sentence() -> None:
    def broken() -> None:
        raise RuntimeError("Connection closed by peer\nand a page more")

    with pytest.raises(ConnectionError, match=r"^process 0 of 1 has lost another one.*\(Connection closed by peer\)"):
        AllReduce()._guarded(broken)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_all_sentences_once_and_alike_in_length(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    lengths = torch.randint(1, 30, (50,), generator=generator)
    words = torch.where(torch.arange(30) < lengths[:, None], 0, -1)
    shares = [own_rows(words, rank, size) for rank in range(size)]
    assert torch.cat(shares).sort().values.tolist() == list(range(50))
    longer, shorter = (chosen([int(lengths[rows].sum()) for rows in shares]) for chosen in (max, min))
    assert longer - shorter <= 30


def test_what_is_no_reduce_is_refused() -> None:
    wrong: Any = sum
    with pytest.raises(TypeError, match="reduce must be a Reduce, such as all_reduce"):
        EM(LIKELIHOOD, reduce=wrong)


def test_logistic_normals_are_for_one_process() -> None:
    loop = VariationalEM(logistic_normal, reduce=all_reduce())
    with pytest.raises(ModelError, match="^VariationalEM with logistic normals is for one process; leave out reduce=,"):
        loop.step(WORDS, GRAMMAR)
    assert EM(logistic_normal, reduce=all_reduce()).step(WORDS, GRAMMAR) < 0


class Elsewhere:
    """Process 1 of two, of which the other one has failed."""

    rank, size = 1, 2

    def __init__(self, error: Exception) -> None:
        self.error = error

    def sum(self, tensors: Any) -> Any:
        return {name: x + 1 for name, x in tensors.items()}

    def gather(self, value: Any) -> list[Any]:
        return [(type(self.error), str(self.error)), value]

    def broadcast(self, value: Any) -> Any:
        raise AssertionError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CorpusError("train.conllu", 3, "a line is cut off"), ValueError),  # which is made of more than a message
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), ValueError),
        (KeyError("site"), LookupError),  # whose text is not its message
        (ZeroDivisionError("division by zero"), ZeroDivisionError),
    ],
)
@pytest.mark.parametrize("both", [False, True])
def test_an_error_elsewhere_is_raised_here(error: Exception, kind: type[Exception], both: bool) -> None:
    def work() -> None:
        if both:
            raise error

    with pytest.raises(kind) as caught:
        together(Elsewhere(error), work)
    assert str(caught.value) == str(error)
