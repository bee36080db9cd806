# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Typed statements as machine code: every operation against numpy, control flow against Python, and the cache."""

from __future__ import annotations

import math
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrogram.recursion.code import llvm, objects
from pyrogram.recursion.code.expressions import (
    Array,
    Call,
    Expression,
    Name,
    any_lane,
    equal,
    exp,
    exponent_of,
    fill,
    fma,
    greatest,
    lane,
    least,
    log,
    negated,
    power_of_two,
    real,
    rounded,
    select,
    take,
    value,
    with_lane,
    within,
)
from pyrogram.recursion.code.random_bits import seed_stream, uniform
from pyrogram.recursion.code.statements import Code, Function

OUT = Array("out", "real")
KINDS = [("float64", 8), ("float32", 16), ("float64", 4)]


def compiled(functions: Sequence[Function], dtype: str = "float64", lanes: int = 8) -> objects.Compiled:
    texts = llvm.assembly(functions, dtype, lanes)
    return objects.load("".join(texts), lambda: (texts, {f.name: [p.name for p in f.parameters] for f in functions}))


def run(parameters: list[Array | Name], code: Code, values: dict[str, Any]) -> None:
    compiled([Function("f", parameters, code.body)])("f", values)


# ---------------------------------------------------------------------- operations


@pytest.mark.parametrize(("dtype", "lanes"), KINDS)
def test_operations_on_lanes(dtype: str, lanes: int) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=lanes).astype(dtype) for _ in range(3))
    b[0], c[1] = a[0], 0.0
    exponents = rng.integers(-60, 60, lanes).astype(dtype)
    positive = (rng.random(lanes) * 2.0**exponents).astype(dtype)
    positive[2] = 0.0
    A, B, C, E, P = (Array(name, "lanes")[0] for name in ("a", "b", "c", "e", "p"))
    s, x = Name("s", "real"), Name("x", "int")
    cast = np.dtype(dtype).type
    other = np.array(a)
    other[3] = cast(0.25)
    with np.errstate(divide="ignore"):
        cases: list[tuple[Expression, Any]] = [
            (A + B, a + b),
            (A - B, a - b),
            (A * B, a * b),
            (A / C, a / c),
            (-A, -a),
            (A * 0.3, a * cast(0.3)),
            (1 - A, 1 - a),
            (least(A, B), np.minimum(a, b)),
            (greatest(A, B), np.maximum(a, b)),
            (greatest(A, 0.0), np.maximum(a, 0)),
            (rounded(A * 10.0), np.rint(a * 10)),
            (power_of_two(E), 2.0**exponents),
            (exponent_of(P), np.array([math.frexp(v)[1] - 1 if v else 0 for v in positive.tolist()])),
            (fill(s), np.full(lanes, 0.1)),
            (fill(0.1), np.full(lanes, 0.1)),
            (fill(lane(A, x)), np.full(lanes, a[3])),
            (with_lane(A, x, 0.25), other),
            (select(x > 2, A, B), a),
            (select(x > 3, A, B), b),
            (select(any_lane(A - B), A, C), a),
            (select(any_lane(A - A), A, C), c),
            (fill(real(x)), np.full(lanes, 3.0)),
        ]
    code = Code()
    out = Array("out", "lanes")
    for place, (expression, _) in enumerate(cases):
        code.put(out, place, expression)
    code.put(out, len(cases), fma(A, B, C))
    names: list[Array | Name] = [Array(name, "lanes") for name in ("a", "b", "c", "e", "p")]
    found = np.full((len(cases) + 1, lanes), np.nan, dtype)
    values = dict(a=a, b=b, c=c, e=exponents, p=positive, s=0.1, x=3, out=found)
    compiled([Function("f", [*names, out, s, x], code.body)], dtype, lanes)("f", values)
    for place, (expression, expected) in enumerate(cases):
        np.testing.assert_array_equal(found[place], np.asarray(expected).astype(dtype), err_msg=str(expression))
    exact = (a.astype(np.longdouble) * b + c).astype(dtype)  # rounded once, but for double rounding
    np.testing.assert_allclose(found[-1], exact, rtol=2 * np.finfo(dtype).eps)


def test_a_lane_that_is_nan_is_not_zero() -> None:
    code = Code()
    code.put(OUT, 0, select(any_lane(Array("a", "lanes")[0]), 1.0, 0.0))
    a, found = np.zeros(8), np.zeros(1)
    a[5] = np.nan
    run([Array("a", "lanes"), OUT], code, dict(a=a, out=found))
    assert found[0] == 1.0


def test_operations_on_reals() -> None:
    a, b = Name("a", "real"), Name("b", "real")
    x, y = 1.7, -0.3
    cases: list[tuple[Expression, float]] = [
        (a + b, x + y),
        (a - b, x - y),
        (a * b, x * y),
        (a / b, x / y),
        (-a, -x),
        (2 - a, 2 - x),
        (3 * a, 3 * x),
        (1 / a, 1 / x),
        (least(a, b), y),
        (greatest(a, b), x),
        (exp(a), math.exp(x)),
        (log(a), math.log(x)),
        (exp(value(-math.inf)), 0.0),
        (log(value(0.0)), -math.inf),
        (fma(a, b, a), x * y + x),
        (real(Name("i", "int")), -7.0),
        (select(a > b, 1.0, 2.0), 1.0),
        (select(a < b, 1.0, 2.0), 2.0),
        (select(a >= a, 1.0, 2.0), 1.0),
        (select(a <= b, 1.0, 2.0), 2.0),
        (select(equal(a, x), 1.0, 2.0), 1.0),
        (select(negated(equal(a, x)), 1.0, 2.0), 2.0),
        (select((a > b) & (b > a), 1.0, 2.0), 2.0),
        (select((a > b) | (b > a), 1.0, 2.0), 1.0),
        (select(equal(a, value(math.nan)), 1.0, 2.0), 2.0),
    ]
    code = Code()
    for place, (expression, _) in enumerate(cases):
        code.put(OUT, place, expression)
    found = np.full(len(cases), np.nan)
    run([a, b, Name("i", "int"), OUT], code, dict(a=x, b=y, i=-7, out=found))
    np.testing.assert_allclose(found, [number for _, number in cases], rtol=1e-15)


def test_operations_on_integers() -> None:
    a, b = Name("a", "int"), Name("b", "int")
    x, y = 1234567, 89
    big, factor = 2**62 + 12345, 0x9E3779B97F4A7C15 - 2**64
    cases: list[tuple[Expression, int]] = [
        (a + b, x + y),
        (a - b, x - y),
        (b - a, y - x),
        (a * b, x * y),
        (a // b, x // y),
        (a % b, x % y),
        (a ^ b, x ^ y),
        (a & b, x & y),
        (a | b, x | y),
        (a << 3, x << 3),
        (a >> 3, x >> 3),
        (value(-1) >> 60, 15),
        (-a, -x),
        (7 - b, 7 - y),
        (a + 0, x),
        (0 + a, x),
        (5 + a, 5 + x),
        (a * 1, x),
        (least(a, b), y),
        (greatest(a, b), x),
        (least(-a, b), -x),
        (select(a < b, 1, 2), 2),
        (select(a <= a, 1, 2), 1),
        (select(-a > b, 1, 2), 2),
        (select(equal(a % 2, 1), 1, 2), 1),
        (Call("wrapping_mul", (Name("big", "int"), value(factor)), "int"), signed(big * factor)),
        (Call("wrapping_add", (Name("big", "int"), Name("big", "int")), "int"), signed(2 * big)),
    ]
    code = Code()
    out = Array("out", "int")
    for place, (expression, _) in enumerate(cases):
        code.put(out, place, expression)
    found = np.full(len(cases), 999)
    run([a, b, Name("big", "int"), out], code, dict(a=x, b=y, big=big, out=found))
    np.testing.assert_array_equal(found, [number for _, number in cases])


def signed(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arrays_of_every_kind_of_elements(dtype: str) -> None:
    arrays = dict(
        int=np.array([2**40, -3]),
        int32=np.array([-(2**31), 5], np.int32),
        real=np.array([0.1, -2.0]),
        element=np.array([0.1, -2.0], dtype),
    )
    code = Code()
    for kind in arrays:
        array = Array(kind, kind)  # type: ignore[arg-type]
        code.put(Array(f"{kind}.out", kind), 1, array[0])  # type: ignore[arg-type]
        code.put(Array(f"{kind}.out", kind), 0, array[1])  # type: ignore[arg-type]
        code.add(array, 1, array[1])
    outs = {f"{kind}.out": np.zeros_like(array) for kind, array in arrays.items()}
    before = {kind: array.copy() for kind, array in arrays.items()}
    names: list[Array | Name] = [Array(k, k) for k in arrays] + [Array(f"{k}.out", k) for k in arrays]  # type: ignore[arg-type]
    compiled([Function("f", names, code.body)], dtype)("f", {**arrays, **outs})
    for kind, array in before.items():
        np.testing.assert_array_equal(outs[f"{kind}.out"], array[::-1])
        np.testing.assert_array_equal(arrays[kind], [array[0], 2 * array[1]])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Name("a", "int") + Name("b", "real"),
        lambda: Name("a", "lanes") * Name("b", "real"),
        lambda: value("1"),
        lambda: bool(Name("a", "int") < 1),
    ],
)
def test_types_do_not_mix(wrong: Any) -> None:
    with pytest.raises(TypeError):
        wrong()


def test_a_variable_has_one_type() -> None:
    code = Code()
    code.set("v", 1)
    code.set("v", 1.0)
    with pytest.raises(TypeError, match="variable v is i64 and double"):
        llvm.assembly([Function("f", [], code.body)], "float64", 8)


def test_an_array_must_be_a_parameter() -> None:
    code = Code()
    code.put(OUT, 0, 1.0)
    with pytest.raises(TypeError, match="f has no array out"):
        llvm.assembly([Function("f", [], code.body)], "float64", 8)


# ---------------------------------------------------------------------- control flow


def visited(low: int, high: int, step: int) -> list[int]:
    code = Code()
    out = Array("out", "int")
    count = code.set("count", 0)
    with code.loop("x", Name("low", "int"), Name("high", "int"), step) as x:
        code.put(out, count + 1, x)
        code.set("x", 99)  # the loop keeps its own counter
        code.set("count", count + 1)
    code.put(out, 0, count)
    found = np.zeros(20, np.int64)
    run([Name("low", "int"), Name("high", "int"), out], code, dict(low=low, high=high, out=found))
    return found[1 : 1 + found[0]].tolist()


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [(2, 7, 1), (7, 2, 1), (7, 2, -1), (2, 7, -1), (0, 9, 4), (9, -1, -3), (5, 5, 1), (5, 5, -1)],
)
def test_loops_are_those_of_range(low: int, high: int, step: int) -> None:
    assert visited(low, high, step) == list(range(low, high, step))


def test_the_end_of_a_loop_is_found_once() -> None:
    code = Code()
    n = code.set("n", 3)
    with code.loop("x", 0, n):
        code.set("n", n + 1)
    code.put(Array("out", "int"), 0, n)
    found = np.zeros(1, np.int64)
    run([Array("out", "int")], code, dict(out=found))
    assert found[0] == 6


def test_while_if_and_else_within_one_another() -> None:
    """Lengths of Collatz's sequences, and which of three kinds the number was."""
    code = Code()
    lengths, kinds = Array("lengths", "int"), Array("kinds", "int")
    with code.loop("x", 1, 30) as x:
        at, count = code.set("at", x), code.set("count", 0)
        with code.loop_while(at > 1):
            with code.when(equal(at % 2, 0)):
                code.set("at", at // 2)
            with code.otherwise():
                code.set("at", 3 * at + 1)
            code.set("count", count + 1)
        code.put(lengths, x, count)
        with code.when(count > 10):
            with code.when(count > 20):
                code.put(kinds, x, 2)
            with code.otherwise():
                code.put(kinds, x, 1)
    found = {name: np.zeros(30, np.int64) for name in ("lengths", "kinds")}
    run([lengths, kinds], code, found)

    def collatz(x: int) -> int:
        return 0 if x <= 1 else 1 + collatz(x // 2 if x % 2 == 0 else 3 * x + 1)

    expected = [collatz(x) for x in range(30)]
    assert found["lengths"].tolist() == expected
    assert found["kinds"].tolist() == [(x > 10) + (x > 20) for x in expected]


def test_several_functions_in_a_module_and_an_early_end() -> None:
    out = Array("out", "int")
    functions = []
    for number in (1, 2):
        code = Code()
        code.put(out, 0, number)
        with code.when(Name("stop", "int") > 0):
            code.give()
        code.put(out, 1, number)
        functions.append(Function(f"f{number}", [out, Name("stop", "int")], code.body))
    both = compiled(functions)
    for number, stop in ((1, 0), (2, 0), (1, 1)):
        found = np.zeros(2, np.int64)
        both(f"f{number}", dict(out=found, stop=stop))
        assert found.tolist() == [number, 0 if stop else number]
    with pytest.raises(KeyError):
        both("f1", dict(stop=1))


def test_turns_are_taken_once() -> None:
    """Threads that take turns get each of them once, all together."""
    code = Code()
    turns, owners = Array("turns", "int"), Array("owners", "int")
    turn = code.set("turn", take(turns))
    with code.loop_while(turn < 20000):
        code.add(owners, turn, Name("me", "int"))
        code.set("turn", take(turns))
    f = compiled([Function("f", [turns, owners, Name("me", "int")], code.body)])
    shared = dict(turns=np.zeros(1, np.int64), owners=np.zeros(20000, np.int64))
    threads = [threading.Thread(target=f, args=("f", {**shared, "me": me})) for me in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(shared["owners"].tolist()) <= {1, 2, 3}
    assert shared["turns"][0] == 20003


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_threads_add_at_the_same_time_is_all_there(dtype: str) -> None:
    code, total = Code(), Array("total", "element")
    with code.loop("x", 0, 20000) as x:
        code.add_atomically(total, 1, real(x % 2))
    f, found = compiled([Function("f", [total], code.body)], dtype), np.zeros(3, dtype)
    threads = [threading.Thread(target=f, args=("f", {"total": found})) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found.tolist() == [0.0, 30000.0, 0.0]


def splitmix64(state: int) -> tuple[int, int]:
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    z = state
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return state, z ^ (z >> 31)


def test_random_numbers_are_those_of_splitmix64() -> None:
    code = Code()
    seed_stream(code, Name("seed", "int"), Name("stream", "int"))
    with code.loop("x", 0, 1000) as x:
        code.put(OUT, x, uniform(code))
    f = compiled([Function("f", [Name("seed", "int"), Name("stream", "int"), OUT], code.body)])
    found = np.zeros((2, 1000))
    for stream in (0, 1):
        f("f", dict(seed=17, stream=stream, out=found[stream]))
    state, _ = splitmix64(17)
    state, _ = splitmix64(state ^ (1 * 0xD1342543DE82EF95 % 2**64))
    for number in found[1]:
        state, bits = splitmix64(state)
        assert number == (bits >> 11) * 2.0**-53
    assert len(np.unique(found)) == 2000
    assert abs(np.corrcoef(found)[0, 1]) < 0.1
    assert 0 <= found.min() and found.max() < 1 and abs(found.mean() - 0.5) < 0.03


# ---------------------------------------------------------------------- functions apart


@pytest.mark.parametrize(("dtype", "lanes"), [*KINDS, ("float64", 1)])
def test_values_of_every_type_go_into_functions_apart(dtype: str, lanes: int) -> None:
    """Also where one is within another."""
    code, out, i = Code(), Array("out", "lanes"), Name("i", "int")
    x, y = (code.set(name, out[place]) for place, name in enumerate("xy"))
    less, s = code.set("less", x < y), code.set("s", real(i) / 4.0)
    vector = code.set("vector", Array("numbers", "vector")[3])
    test = code.set("test", i > 2)
    with code.attempt(), code.when(test), code.apart("y"):
        code.put(out, 2, select(less, x, y) + fill(select(test, s, 0.0)))
        code.put(Array("numbers", "vector"), 11, vector)
        with code.apart():
            code.put(out, 3, y)
        code.set("y", y + x)
    with code.otherwise():
        code.set("y", fill(0.0))  # nothing fails here
    code.put(out, 4, y)
    f = compiled([Function("f", [out, i, Array("numbers", "element")], code.body)], dtype, lanes)
    rng = np.random.default_rng(0)
    for i_now in (2, 3):
        cells, numbers = rng.normal(size=(5, lanes)).astype(dtype), rng.normal(size=20).astype(dtype)
        a, b, c, d, _ = cells.copy()
        expected = [a, b, c, d, b] if i_now == 2 else [a, b, np.minimum(a, b) + np.dtype(dtype).type(0.75), b, a + b]
        moved = numbers.copy()
        if i_now == 3:
            moved[11:19] = numbers[3:11]
        f("f", dict(out=cells, i=i_now, numbers=numbers))
        np.testing.assert_array_equal(cells, expected)
        np.testing.assert_array_equal(numbers, moved)


def rarely_tripled(calls: list[str]) -> objects.Compiled:
    """A number and its double, and in the place of that its triple if it is more than 1."""

    def make() -> tuple[tuple[str, str], dict[str, list[str]]]:
        calls.append("made")
        code = Code()
        x = code.set("x", OUT[0])
        more = code.set("more", x)
        with code.when(x > 1.0), code.apart("more"):
            code.set("more", x * 2.0)
        code.put(OUT, 1, x + more)
        return llvm.assembly([Function("f", [OUT], code.body)], "float64", 8), {"f": ["out"]}

    return objects.load("rarely three times a number", make)


def after(f: objects.Compiled, number: float) -> float:
    out = np.array([number, np.nan])
    f("f", dict(out=out))
    return float(out[1])


def test_a_function_apart_is_compiled_when_it_is_first_called(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    f = rarely_tripled(calls)
    assert after(f, 0.5) == 1.0 and len(list(cache.iterdir())) == 1
    assert after(f, 5.0) == 15.0 and len(list(cache.iterdir())) == 2
    monkeypatch.setattr(objects, "object_of", None)  # all is in the cache
    f = rarely_tripled(calls)
    assert after(f, 5.0) == after(f, 5.0) == 15.0 and calls == ["made"]


def test_several_threads_call_a_function_apart_for_the_first_time(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linked: list[bytes] = []
    link = objects.link
    monkeypatch.setattr(objects, "link", lambda data, names: [linked.append(data), link(data, names)][1])
    f, barrier, found = rarely_tripled([]), threading.Barrier(8), []

    def work(number: float) -> None:
        barrier.wait(10)
        found.append(after(f, number) == 3 * number)

    threads = [threading.Thread(target=work, args=(2.0 + x,)) for x in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 8 and len(linked) == 2


def test_what_keeps_a_function_apart_from_being_compiled_is_raised(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the call that needs it, which ends there; the next one tries again."""
    f = rarely_tripled([])

    def interrupted(text: str, vectors: bool) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(objects, "object_of", interrupted)
        out = np.array([5.0, 7.0])
        with pytest.raises(KeyboardInterrupt):
            f("f", dict(out=out))
        assert out.tolist() == [5.0, 7.0]
        assert after(f, 0.5) == 1.0
    assert after(f, 5.0) == 15.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_that_is_forked_while_another_thread_compiles(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f, begun, object_of = rarely_tripled([]), threading.Event(), objects.object_of

    def slowly(text: str, vectors: bool) -> bytes:
        begun.set()
        time.sleep(0.2)
        return object_of(text, vectors)

    monkeypatch.setattr(objects, "object_of", slowly)
    thread = threading.Thread(target=after, args=(f, 5.0))
    thread.start()
    assert begun.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if after(f, 5.0) == after(rarely_tripled([]), 5.0) == 15.0 else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert after(f, 5.0) == 15.0


@pytest.mark.slow
def test_another_process_finds_functions_apart(cache: Path) -> None:
    assert after(rarely_tripled([]), 5.0) == 15.0
    files = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    code = "from test_machine import after, rarely_tripled; print(after(rarely_tripled([]), 5.0))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=PROGRAM.parent, capture_output=True, text=True, check=True, timeout=100)
    assert found.stdout.split() == ["15.0"]
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == files


# ---------------------------------------------------------------------- bounds


def element_of_two(index: int, checked: bool) -> float:
    """Element ``index``, from 2 on, of a table that begins at place 2 and has two elements; others lie around it."""
    code = Code()
    code.put(OUT, 0, OUT[within(Name("i", "int"), 2, 4)])
    texts = llvm.assembly([Function("f", [OUT, Name("i", "int")], code.body)], "float64", 8, checked)
    out = np.arange(6.0)
    objects.load(texts[0], lambda: (texts, {"f": ["out", "i"]}))("f", {"out": out, "i": index})
    return float(out[0])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("index", [1, 2, 3, 4])
def test_an_index_beyond_its_table_ends_the_process_where_bounds_are_checked(index: int) -> None:
    assert element_of_two(index, checked=False) == index
    code = f"from test_machine import element_of_two; print(element_of_two({index}, checked=True))"
    found = subprocess.run([sys.executable, "-c", code], cwd=PROGRAM.parent, capture_output=True, text=True)
    if index in (2, 3):
        assert float(found.stdout) == index
    else:
        assert found.returncode < 0 and not found.stdout  # a signal


# ---------------------------------------------------------------------- the cache

PROGRAM = Path(__file__).with_name("compile_a_sum.py")


def doubled(calls: list[str]) -> objects.Compiled:
    def make() -> tuple[tuple[str, str], dict[str, list[str]]]:
        calls.append("made")
        code = Code()
        code.put(OUT, 0, OUT[0] * 2.0)
        return llvm.assembly([Function("f", [OUT], code.body)], "float64", 8), {"f": ["out"]}

    return objects.load("twice a number", make)


def works(f: objects.Compiled) -> bool:
    found = np.array([21.0])
    f("f", dict(out=found))
    return bool(found[0] == 42.0)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYROGRAM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_warm_cache_compiles_nothing(cache: Path) -> None:
    calls: list[str] = []
    assert works(doubled(calls)) and works(doubled(calls))
    assert calls == ["made"]
    assert [path.suffix for path in cache.iterdir()] == [".o"]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:40] + b"x" + data[41:], lambda data: b""]
)
def test_a_damaged_file_is_made_anew(cache: Path, damage: Any) -> None:
    calls: list[str] = []
    doubled(calls)
    (path,) = cache.iterdir()
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert works(doubled(calls))
    assert calls == ["made", "made"]
    assert path.read_bytes() == good


def test_a_folder_that_cannot_be_written_costs_a_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv("PYROGRAM_CACHE_DIR", str(file / "cache"))
    calls: list[str] = []
    assert works(doubled(calls)) and works(doubled(calls))
    assert calls == ["made", "made"]


def test_a_read_only_folder_costs_a_compilation(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(stat.S_IRUSR | stat.S_IXUSR)
    calls: list[str] = []
    try:
        assert works(doubled(calls))
        assert calls == ["made"]
    finally:
        cache.chmod(stat.S_IRWXU)


def test_a_disk_that_is_full_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(objects.os, "replace", full)
    calls: list[str] = []
    assert works(doubled(calls))
    assert list(cache.iterdir()) == []


def test_another_processor_has_a_file_of_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    doubled(calls)
    monkeypatch.setenv("PYROGRAM_CPU", "haswell" if "86" in objects._machine().triple else "generic")
    assert works(doubled(calls))
    assert calls == ["made", "made"]
    assert len(list(cache.iterdir())) == 2


@pytest.mark.slow
def test_two_processes_share_a_cache(cache: Path) -> None:
    """Both begin with an empty folder at the same time, and a third one finds the file."""
    command = [sys.executable, str(PROGRAM)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [p.communicate(timeout=100)[0].split()[0] for p in both] == ["42.0", "42.0"]
    assert len(list(cache.iterdir())) == 1
    third = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert third.stdout.split() == ["42.0", "0"]
