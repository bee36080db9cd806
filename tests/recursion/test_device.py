# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Kernels for GPUs, run on the CPU thread by thread through the code that launches them, against enumeration."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from enumeration import Trace, expected_counts, listed, random_sentences
from fake_device import FakeDriver, fake_launcher
from pages import PAGES, Page

from pyrogram.distributions.projective_tree import first_order
from pyrogram.distributions.sibling_tree import second_order
from pyrogram.recursion import recursion
from pyrogram.recursion.code import kernels, objects
from pyrogram.recursion.code.expressions import Array, Name, log
from pyrogram.recursion.code.statements import Code, Function
from pyrogram.recursion.emit import threads
from pyrogram.recursion.emit.inputs import Inputs
from pyrogram.recursion.run.device_engine import DeviceEngine
from pyrogram.recursion.run.engine import LanesEngine, plain_tables
from pyrogram.recursion.run.tensor_inputs import TensorInputs


def _products_and_alone(p: Any) -> None:
    """A table that is alone in one rule, and in products in others: their sizes are those of a thread."""
    i, j, k = p.positions("i j k")
    A, C, Z = p.items("A C Z")
    one, u = p.weights("one u")
    A[i, i] += one[i]
    A[i, j] += A[i, k] * A[k + 1, j] * u[i, j] * one[j]
    C[i, j] += A[i, k] * A[k, j] * u[i, j] * one[i]
    Z[()] += C[1, p.n] * u[1, p.n]


WITH_SYMBOLS = [page for page in PAGES if LanesEngine(page.make()).has_symbols]
TREES = [
    *(page for page in PAGES if page not in WITH_SYMBOLS),
    Page("valence and stops", lambda: first_order(valences=2, stops=2)),
    Page("second order", second_order),
    Page("weights alone and in products", recursion(_products_and_alone)),
]
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}
CASES = [
    *((page, "float64", False) for page in TREES),
    *((page, "float32", False) for page in TREES if page.name in ("projective", "dmv_words")),
    *((page, dtype, False) for page in WITH_SYMBOLS for dtype in TOLERANCE),
    *((page, dtype, True) for page in WITH_SYMBOLS for dtype in TOLERANCE if plain_tables(page.make())),
]


@pytest.fixture(autouse=True)
def nan_in_fresh_memory() -> Iterator[None]:
    """What no kernel has written is NaN: none may read it."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(1).isnan()
    yield
    torch.use_deterministic_algorithms(False)


def tensors(given: Inputs) -> TensorInputs:
    weights = {name: torch.from_numpy(np.ascontiguousarray(table)) for name, table in given.weights.items()}
    words = {name: torch.from_numpy(w) for name, w in given.words.items()}
    return TensorInputs(weights, torch.from_numpy(given.lengths), words, given.sizes, given.lists)


@pytest.mark.one_in(40)
@pytest.mark.parametrize(("page", "dtype", "shared"), CASES, ids=str)
def test_kernels_give_the_numbers_of_all_derivations(page: Page, dtype: str, shared: bool) -> None:
    """More sentences than threads, none of them in order."""
    made, rng = page.make(), np.random.default_rng(0)
    given = random_sentences(page, made, [4, 1, 3, 2, 3, 5, 4, 2, 1] + [2, 1, 3] * 10, rng, dtype=dtype)
    engine, scale = DeviceEngine(made, dtype, fake_launcher(), shared), rng.random(39)
    truth = listed(page, made, given)
    log_z, counts = engine.log_counts(tensors(given), scale=torch.from_numpy(scale))
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    for name, table in expected_counts(given, truth, scale).items():
        assert counts[name].shape == table.shape
        np.testing.assert_allclose(counts[name], table, atol=50 * TOLERANCE[dtype], err_msg=name)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "page", [p for p in TREES + WITH_SYMBOLS if p.name in ("projective", "hmm", "pcfg_rules")], ids=str
)
def test_a_sentence_leaves_nothing_behind(page: Page) -> None:
    """A thread goes on with the memory of a sentence with exponents, or that was NaN, or both."""
    made, rng = page.make(), np.random.default_rng(0)
    given = random_sentences(page, made, [3] * 32 + [2] * 64, rng, shared=False)
    table = given.weights["arc" if page.name == "projective" else next(iter(given.weights))]
    table[:16] += 1e4
    table[16:32] = np.nan
    table[24:32].reshape(8, -1)[:, 1::2] = 1e4
    log_z, counts = DeviceEngine(made, "float64", fake_launcher()).log_counts(tensors(given))
    truth = listed(page, made, given)
    assert log_z[16:32].isnan().all()
    np.testing.assert_allclose(log_z[:16], [one.log_z for one in truth[:16]], rtol=1e-12)
    np.testing.assert_allclose(log_z[32:], [one.log_z for one in truth[32:]], rtol=1e-12)
    for name, table in expected_counts(given, truth).items():
        np.testing.assert_allclose(counts[name][32:], table[32:], atol=1e-10, err_msg=name)


@pytest.mark.parametrize("name", ["projective", "hmm", "pcfg_rules"])
def test_what_a_kernel_leaves_is_done_by_the_complete_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second sentence; all numbers are as if that had done all, which it does where log Z is NaN before."""
    page = next(p for p in TREES + WITH_SYMBOLS if p.name == name)
    made, launcher = page.make(), fake_launcher()
    given = random_sentences(page, made, [4, 3, 2, 4, 1] * 8, np.random.default_rng(0), shared=False)
    for table in given.weights.values():
        table[::2] *= 300.0
    found = []
    for complete in (False, True):
        engine, trace = DeviceEngine(made, "float64", launcher), Trace(given).numbers()
        with monkeypatch.context() as patch:
            if complete:
                patch.setattr(engine, "_launch", lambda name, *values, e=engine: e._start(name, True, *values))
            else:
                patch.setattr(torch, "empty", torch.zeros)
            log_z, counts = engine.log_counts(tensors(given))
            found.append([log_z, *counts.values(), *engine.draw(tensors(given), 20, 3, trace, 40)])
    assert [name for _, _, name in launcher._driver.launched] == ["lanes"] * 2 + ["draw"] * 2 + ["lanes", "draw"]
    for x, y in zip(*found, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("name", "by_word"), [("projective", "arc"), ("hmm", "emission"), ("pcfg_rules", "lexical")])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_words_have_powers_so_that_long_sentences_need_no_exponents(name: str, by_word: str, dtype: str) -> None:
    """A weight of each word is small: the product of all is far below the least number."""
    page = next(p for p in TREES + WITH_SYMBOLS if p.name == name)
    made, launcher = page.make(), fake_launcher()
    longest, nats, accuracy = (60, 18.0, 1e-12) if dtype == "float64" else (20, 8.0, 1e-5)
    given = random_sentences(page, made, [longest, longest - 1, 7, 1], np.random.default_rng(0), dtype=dtype)
    engine = DeviceEngine(made, dtype, launcher)
    log_z, counts = engine.log_counts(tensors(given))
    given.weights[by_word] -= nats
    smaller, same = engine.log_counts(tensors(given))
    assert [name for _, _, name in launcher._driver.launched] == ["lanes", "lanes"]  # and never the complete one
    np.testing.assert_allclose(smaller, log_z - nats * torch.from_numpy(given.lengths), rtol=accuracy)
    for table in counts:
        np.testing.assert_allclose(same[table], counts[table], atol=100 * accuracy)


def test_logarithms_of_all_magnitudes() -> None:
    """Devices have none of float64."""
    code, i = Code(), Name("i", "int")
    with code.loop("i", kernels.THREAD, Name("count", "int")), code.when(i < kernels.THREAD + 1):
        code.put(Array("y", "real"), i, log(Array("x", "real")[i]))
    f = Function("logs", [Array("x", "real"), Array("y", "real"), Name("count", "int"), kernels.THREAD], code.body)
    text = kernels.assembly(kernels.Kernel(f, {}), [threads.log()], "float64", "cpu")
    x = np.concatenate([10.0 ** np.linspace(-307, 308, 10_000), [1.0, 0.0, np.inf, -1.0, np.nan, 5e-324]])
    y = np.empty_like(x)
    own = (ctypes.c_int64 * 3)(x.ctypes.data, y.ctypes.data, len(x))
    pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(own) + 8 * k for k in range(3)))
    (address,) = objects.link(objects.object_of(text), ["logs"]).values()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    kind(address)(ctypes.addressof(pointers), -(-len(x) // 32), 32)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(y[:-1], np.log(x[:-1]), rtol=4e-16, atol=1e-16)
    assert math.isclose(y[-1], math.log(5e-324), rel_tol=1e-15)


def test_launches_fill_the_device_and_no_more() -> None:
    """32 threads a processor, one block each; fewer where charts would take more than a quarter of the memory."""
    (page,) = (p for p in TREES if p.name == "projective")
    made = page.make()
    for count, launcher, blocks in (
        (5, fake_launcher(processors=8), 1),
        (100, fake_launcher(processors=8), 4),
        (500, fake_launcher(processors=8), 8),
        (500, fake_launcher(memory=4 * 3 * 8 * 250 * 64, processors=8), 2),
    ):
        given = random_sentences(page, made, [3] * count, np.random.default_rng(0))
        engine = DeviceEngine(made, "float64", launcher)
        engine.log_counts(tensors(given))
        driver = launcher._driver
        assert isinstance(driver, FakeDriver)
        assert driver.launched == [(blocks, 32, "lanes")] and driver.contexts == []


def test_errors_of_the_driver_are_reported() -> None:
    (page,) = (p for p in TREES if p.name == "projective")
    launcher, made = fake_launcher(), page.make()
    launcher._driver.fails_with = 700
    given = random_sentences(page, made, [3], np.random.default_rng(0))
    with pytest.raises(RuntimeError, match="CUDA's driver reports 700 from cuLaunchKernel on device 0"):
        DeviceEngine(made, "float64", launcher).log_counts(tensors(given))
    assert launcher._driver.contexts == []


def test_what_threads_have_for_themselves_is_interleaved_by_warps() -> None:
    """Threads that run one after the other would not notice that they share a place."""
    size, count = 3, 96
    code, mark, own = Code(), Array("mark", "int"), Name("size", "int")
    with code.loop("x", 0, own) as x:
        code.put(mark, x, kernels.THREAD * own + x)
    f = Function("mark", [mark, own, kernels.THREAD, kernels.THREADS], code.body)
    text = kernels.assembly(kernels.Kernel(f, {"mark": "size"}), [], "float64", "cpu")
    launcher, written = fake_launcher(), torch.full((size * count,), -1)
    kernel = launcher.load(objects.object_of(text), "mark", ["mark", "size"])
    launcher.launch(kernel, count, {"mark": written, "size": size})
    for t in range(count):
        for k in range(size):
            assert written[((t // 32) * size + k) * 32 + t % 32] == t * size + k
