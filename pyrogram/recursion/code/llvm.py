# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Functions of typed statements as LLVM's assembly language.

Before: ``total = fma(a[i], b[i], total)``, of lanes. After, in float64 and 8 lanes:

    %7 = load <8 x double>, ptr %6, align 8
    %9 = call <8 x double> @llvm.fma.v8f64(<8 x double> %5, <8 x double> %7, <8 x double> %8)

Every function is called with a pointer to its parameters, 8 bytes each: addresses of arrays, integers, reals. Variables
live in memory here; LLVM's first pass moves them to registers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .expressions import VECTOR, Array, Call, Element, Expression, Name, Number, greatest, least, like, power_of_two
from .expressions import Type as ValueType
from .statements import (
    Apart,
    AtomicAdd,
    Attempt,
    For,
    Function,
    If,
    Put,
    Return,
    Set,
    Statement,
    Transpose,
    While,
    names_read,
)

_BITS = {"float64": 64, "float32": 32}
_FLOATS = {"float64": "double", "float32": "float"}
_COMPARE = {
    "lt": ("slt", "olt"),
    "le": ("sle", "ole"),
    "gt": ("sgt", "ogt"),
    "ge": ("sge", "oge"),
    "eq": ("eq", "oeq"),
}
_INTEGER = {
    "add": "add nsw",
    "sub": "sub nsw",
    "mul": "mul nsw",
    "quotient": "sdiv",
    "remainder": "srem",
    "xor": "xor",
    "and": "and",
    "or": "or",
    "shl": "shl",
    "shr": "lshr",
}
# of integers whose overflow is meant: hashes
_WRAPPING = {"wrapping_add": "add", "wrapping_mul": "mul"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
FIND = ".apart"
"""Of a module with functions apart: a pointer to the function that finds them by their numbers. Of the module that they
are in: that function."""


def assembly(
    functions: Sequence[Function],
    dtype: str,
    lanes: int,
    checked: bool = False,
    weights: str = "",
    features: str = "",
) -> tuple[str, str]:
    """The text of a module, and that of its functions apart, which is empty if there are none.

    :param dtype: of lanes and of arrays of elements, ``float64`` or ``float32``.
    :param lanes: W.
    :param checked: whether indices are compared with the bounds of their tables, see :func:`.within`.
    :param weights: the type of arrays of weights, if it is another.
    :param features: of the processor.
    """
    module = Module(dtype, lanes, checked, weights or dtype, avx512="+avx512f" in features)
    main = [text for f in functions for text in module.function(f)]
    apart: list[str] = []
    if module.apart:
        main.append(f'@"{FIND}" = global ptr null')
        apart = [*module.apart.values(), _FINDS.format(len(module.apart), ", ".join(map(_address_of, module.apart)))]
    return _lines(main, module.declared), _lines(apart, module.declared)


_FINDS = f"""@".places" = internal constant [{{0}} x ptr] [{{1}}]
define ptr @"{FIND}"(i64 %number) {{{{
  %place = getelementptr ptr, ptr @".places", i64 %number
  %found = load ptr, ptr %place, align 8
  ret ptr %found
}}}}
"""


def _address_of(name: str) -> str:
    return f'ptr @"{name}.body"'


def _lines(texts: Sequence[str], declared: set[str]) -> str:
    return "\n".join([*texts, *sorted(declared)]) + "\n" if texts else ""


@dataclass
class Module:
    """The functions of a module, one after the other."""

    dtype: str
    lanes: int
    checked: bool
    weights: str
    pointer: str = "ptr"  # to arrays
    attributes: str = ""  # of functions
    avx512: bool = False  # whether there is an instruction for x * 2**e
    declared: set[str] = field(default_factory=set)
    apart: dict[str, str] = field(default_factory=dict)  # functions that others call: name to text

    def __post_init__(self) -> None:
        self.bits = _BITS[self.dtype]
        self.element, self.weight = _FLOATS[self.dtype], _FLOATS[self.weights]
        # One lane is a number: of vectors of one LLVM makes no wider ones.
        several = f"<{self.lanes} x {{}}>" if self.lanes > 1 else "{}"
        self.vector, self.integers = several.format(self.element), several.format(f"i{self.bits}")
        self.mask = several.format("i1")
        self.types: dict[str, str] = {
            "int": "i64",
            "real": "double",
            "bool": "i1",
            "lanes": self.vector,
            "mask": self.mask,
            "vector": f"<{VECTOR} x {self.element}>",
            "vector_mask": f"<{VECTOR} x i1>",
            "none": "void",
        }
        self.stored: dict[str, tuple[str, int]] = {  # type in memory, alignment
            "int": ("i64", 8),
            "int32": ("i32", 4),
            "byte": ("i8", 1),
            "real": ("double", 8),
            "element": (self.element, self.bits // 8),
            "weight": (self.weight, _BITS[self.weights] // 8),
            "lanes": (self.vector, self.bits // 8),
            "vector": (self.types["vector"], self.bits // 8),
        }

    def function(self, f: Function) -> Iterator[str]:
        """The function itself, and one of the same name that reads its parameters from memory."""
        parameters = self.parameters(f)
        result = self.types[f.result]
        yield self.body(f)
        lines = []
        for x, (kind, name) in enumerate(parameters):
            lines += [
                f"  %p{x} = getelementptr i64, ptr %arguments, i64 {x}",
                f"  {name} = load {kind}, ptr %p{x}, align 8",
            ]
        call = f'call {result} @"{f.name}.body"({", ".join(f"{t} {n}" for t, n in parameters)})'
        if f.result == "none":
            lines += [f"  {call}", "  ret void"]
        else:
            lines += [f"  %result = {call}", f"  ret {result} %result"]
        yield f'define {result} @"{f.name}"(ptr %arguments) {{\n' + "\n".join(lines) + "\n}\n"

    def parameters(self, f: Function) -> list[tuple[str, str]]:
        """Types and names."""
        return [
            (self.pointer, f'%"{p.name}"') if isinstance(p, Array) else (self.types[p.type], f'%"{p.name}"')
            for p in f.parameters
        ]

    def body(self, f: Function, attributes: str = "") -> str:
        """The function itself, with a parameter for each of its own; no two arrays overlap."""
        typed = ", ".join(f"{t} noalias {n}" if t == self.pointer else f"{t} {n}" for t, n in self.parameters(f))
        head = f'define internal {self.types[f.result]} @"{f.name}.body"({typed}) {attributes or self.attributes}'
        lines = "\n".join(self.lines(f))
        return f"{head} {{\n{lines}\n}}\n"

    def lines(self, f: Function) -> list[str]:
        """The instructions of a function."""
        return Body(self, f).lines()


class Body:
    """The lines of one function."""

    def __init__(self, module: Module, function: Function) -> None:
        self.m, self.f = module, function
        self.out: list[str] = []
        self.variables: dict[str, ValueType] = {}
        self.count = 0
        self.arrays = {p.name for p in function.parameters if isinstance(p, Array)}

    def lines(self) -> list[str]:
        self._take_parameters()
        self._block(self.f.body)
        if self.f.result == "none":
            self.out.append("  ret void")
        else:
            self.out.append("  unreachable")
        types = ((n, self.m.types[kind]) for n, kind in self.variables.items())
        return ["entry:", *(f'  %"{n}.v" = alloca {t}, align {_align(t)}' for n, t in types), *self.out]

    def _take_parameters(self) -> None:
        """Numbers become variables."""
        for p in self.f.parameters:
            if isinstance(p, Name):
                self._store(p.name, f'%"{p.name}"', p.type)

    # ------------------------------------------------------------------ statements

    def _block(self, body: Sequence[Statement]) -> None:
        for s in body:
            if isinstance(s, Set):
                self._store(s.name, self._value(s.value), s.value.type)
            elif isinstance(s, Put):
                self._put(s)
            elif isinstance(s, For):
                self._for(s)
            elif isinstance(s, While):
                head, inside, done = self._labels("head", "body", "done")
                self._go(head)
                self._label(head)
                self._branch(self._value(s.test), inside, done)
                self._label(inside)
                self._block(s.body)
                self._go(head)
                self._label(done)
            elif isinstance(s, If):
                self._if(s)
            elif isinstance(s, Transpose):
                self._transpose(s)
            elif isinstance(s, AtomicAdd):
                self._add(s)
            elif isinstance(s, Apart):
                self._apart(s)
            elif isinstance(s, Attempt):
                self._attempt(s)
            elif isinstance(s, Return):
                text = "ret void" if s.value is None else f"ret {self.m.types[s.value.type]} {self._value(s.value)}"
                self.out.append(f"  {text}")
                self._label(self._labels("after")[0])

    def _transpose(self, s: Transpose) -> None:
        """8 rows of W numbers from W rows of 8, or the reverse."""
        m, w = self.m, self.m.lanes
        eight = f"<8 x {m.element}>"
        start = self._value(s.start)
        places = []
        for x in range(w):
            begin = self._new(f"load i64, ptr {self._place(s.starts, str(x))}, align 8")
            places.append(self._place(s.numbers, self._new(f"add nsw i64 {begin}, {start}")))
        first = self._value(s.first)
        cells = [self._place(s.cells, self._new(f"add nsw i64 {first}, {t}")) for t in range(8)]
        align = m.bits // 8
        if s.inward:
            kind, least = m.stored[s.numbers.elements]
            rows = [self._new(f"load <8 x {kind}>, ptr {place}, align {least}") for place in places]
            if kind != m.element:
                rows = [self._new(f"fpext <8 x {kind}> {row} to {eight}") for row in rows]
            if w == 16:
                whole = ", ".join(f"i32 {x}" for x in range(16))
                pairs = [(rows[r], rows[r + 8]) for r in range(8)]
                rows = [self._new(f"shufflevector {eight} {a}, {eight} {b}, <16 x i32> <{whole}>") for a, b in pairs]
            for row, cell in zip(self._exchange(rows), cells, strict=True):
                self.out.append(f"  store {m.vector} {row}, ptr {cell}, align {align}")
            return
        rows = self._exchange([self._new(f"load {m.vector}, ptr {cell}, align {align}") for cell in cells])
        for x, place in enumerate(places):
            row = rows[x % 8]
            if w == 16:
                half = ", ".join(f"i32 {t}" for t in range(x // 8 * 8, x // 8 * 8 + 8))
                row = self._new(f"shufflevector {m.vector} {row}, {m.vector} poison, <8 x i32> <{half}>")
            self.out.append(f"  store {eight} {row}, ptr {place}, align {align}")

    def _exchange(self, rows: list[str]) -> list[str]:
        """Transpose 8 vectors of 8 numbers, or of two times 8, in three rounds of swaps."""
        w, v = self.m.lanes, self.m.vector
        for k in (1, 2, 4):
            for r in (r for r in range(8) if not r & k):
                a, b = rows[r], rows[r + k]
                picks = [(w + j - k if j & k else j, w + j if j & k else j + k) for j in range(w)]
                for row, side in ((r, 0), (r + k, 1)):
                    mask = ", ".join(f"i32 {p[side]}" for p in picks)
                    rows[row] = self._new(f"shufflevector {v} {a}, {v} {b}, <{w} x i32> <{mask}>")
        return rows

    def _if(self, s: If) -> None:
        yes, no, done = self._labels("yes", "no", "done")
        self._branch(self._value(s.test), yes, no if s.other else done)
        self._label(yes)
        self._block(s.body)
        self._go(done)
        if s.other:
            self._label(no)
            self._block(s.other)
            self._go(done)
        self._label(done)

    def _attempt(self, s: Attempt) -> None:
        """All is at hand."""
        self._block(s.body)

    def _apart(self, s: Apart) -> None:
        """A call of another function, with the values of what it reads."""
        self.count += 1
        used = {*names_read(s.body), s.gives}
        read: list[Array | Name] = [p for p in self.f.parameters if isinstance(p, Array) and p.name in used]
        read += [Name(n, kind) for n, kind in self.variables.items() if n in used]
        result: ValueType = self.variables[s.gives] if s.gives else "none"
        end = Return(Name(s.gives, result) if s.gives else None)
        f = Function(f"{self.f.name}.{self.count}", read, [*s.body, end], result)
        values = [f'%"{p.name}"' if isinstance(p, Array) else self._value(p) for p in read]
        typed = ", ".join(f"{t} {v}" for (t, _), v in zip(self.m.parameters(f), values, strict=True))
        call = f"call {self.m.types[result]} {self._place_of(f.name)}({typed}) cold"
        self.m.apart[f.name] = ""  # it has its number
        self.m.apart[f.name] = self.m.body(f, "noinline cold")
        if s.gives:
            self._store(s.gives, self._new(call), result)
        else:
            self.out.append(f"  {call}")

    def _place_of(self, name: str) -> str:
        """The place of a function apart, whose number is the next; if it cannot be had, the function at hand ends."""
        if self.f.name in self.m.apart:
            return f'@"{name}.body"'
        find = self._new(f'load atomic ptr, ptr @"{FIND}" acquire, align 8')
        place = self._new(f"call ptr {find}(i64 {len(self.m.apart)}) cold")
        fails, fits = self._labels("fails", "fits")
        self._branch(self._new(f"icmp eq ptr {place}, null"), fails, fits)
        self._label(fails)
        result = self.m.types[self.f.result]
        self.out.append("  ret void" if result == "void" else f"  ret {result} zeroinitializer")
        self._label(fits)
        return place

    def _for(self, s: For) -> None:
        head, inside, done = self._labels("head", "body", "done")
        low, high = self._value(s.low), self._value(s.high)
        self.count += 1
        counter = f"{s.name}#{self.count}"  # no name that a program gives
        self._store(counter, low, "int")
        self._go(head)
        self._label(head)
        now = self._new(f'load i64, ptr %"{counter}.v", align 8')
        self._branch(self._new(f"icmp {'slt' if s.step > 0 else 'sgt'} i64 {now}, {high}"), inside, done)
        self._label(inside)
        self._store(s.name, now, "int")
        self._block(s.body)
        self._store(counter, self._new(f"add nsw i64 {now}, {s.step}"), "int")
        self._go(head)
        self._label(done)

    def _put(self, s: Put) -> None:
        number, address, align = self._to_store(s)
        self.out.append(f"  store {number}, {address}, align {align}")

    def _add(self, s: AtomicAdd) -> None:
        number, address, align = self._to_store(s)
        self._new(f"atomicrmw fadd {address}, {number} monotonic, align {align}")

    def _to_store(self, s: Put | AtomicAdd) -> tuple[str, str, int]:
        """A number as it is in memory, its address, and the alignment there."""
        kind, align = self.m.stored[s.array.elements]
        number = self._value(s.value)
        if kind == "float" and s.array.elements != "lanes":
            number = self._new(f"fptrunc double {number} to float")
        elif s.array.elements in ("int32", "byte"):
            number = self._new(f"trunc i64 {number} to {kind}")
        return f"{kind} {number}", f"{self.m.pointer} {self._address(s.array, s.index)}", align

    def _store(self, name: str, value: str, kind: ValueType) -> None:
        text, known = self.m.types[kind], self.m.types[self.variables.setdefault(name, kind)]
        if known != text:
            raise TypeError(f"variable {name} is {known} and {text}")
        self.out.append(f'  store {text} {value}, ptr %"{name}.v", align {_align(text)}')

    # ------------------------------------------------------------------ values

    def _value(self, x: Expression) -> str:
        if isinstance(x, Number):
            return self._number(x)
        if isinstance(x, Name):
            text = self.m.types[x.type]
            return self._new(f'load {text}, ptr %"{x.name}.v", align {_align(text)}')
        if isinstance(x, Element):
            return self._load(x)
        assert isinstance(x, Call)
        if x.op == "within":
            return self._within(x)
        if x.op == "take":
            place = x.args[0]
            assert isinstance(place, Element)
            return self._new(f"atomicrmw add ptr {self._address(place.array, place.index)}, i64 1 monotonic")
        if x.op == "scaled":
            return self._scaled(*x.args)
        if x.op == "fill" and isinstance(x.args[0], Number):
            width = VECTOR if x.type == "vector" else self.m.lanes
            return _all(self.m.element, self._float(x.args[0].number, self.m.bits), width)
        return self._call(x, [self._value(a) for a in x.args])

    def _scaled(self, x: Expression, e: Expression) -> str:
        m = self.m
        if m.avx512 and m.lanes * m.bits == 512 and x.type == "lanes":
            kind, mask = ("pd", "i8") if m.bits == 64 else ("ps", "i16")
            name, v = f"llvm.x86.avx512.mask.scalef.{kind}.512", m.vector
            m.declared.add(f"declare {v} @{name}({v}, {v}, {v}, {mask}, i32)")
            a, b = self._value(x), self._value(e)
            return self._new(f"call {v} @{name}({v} {a}, {v} {b}, {v} {a}, {mask} -1, i32 4)")
        most = like(x, 1000.0 if m.bits == 64 else 120.0)
        return self._value(x * power_of_two(least(greatest(e, like(x, 0.0) - most), most)))

    def _within(self, x: Call) -> str:
        """An index; where bounds are checked, a trap if it is out of them."""
        if not self.m.checked:
            return self._value(x.args[0])
        index, low, high = map(self._value, x.args)
        fits, fails = self._labels("fits", "fails")
        above, below = self._new(f"icmp sge i64 {index}, {low}"), self._new(f"icmp slt i64 {index}, {high}")
        self._branch(self._new(f"and i1 {above}, {below}"), fits, fails)
        self._label(fails)
        self.m.declared.add("declare void @llvm.trap()")
        self.out += ["  call void @llvm.trap()", "  unreachable"]
        self._label(fits)
        return index

    def _call(self, x: Call, args: list[str]) -> str:
        kind, op = x.args[0].type, x.op
        text = self.m.types[kind]
        if kind in ("lanes", "vector") or op in ("fill", "with_lane"):
            result = self._lanes(x, args)
            if result:
                return result
        if op in _COMPARE:
            return self._new(
                f"{'icmp' if kind == 'int' else 'fcmp'} {_COMPARE[op][kind != 'int']} {text} {', '.join(args)}"
            )
        if op == "select":
            b = self.m.types[x.args[1].type]
            return self._new(f"select {text} {args[0]}, {b} {args[1]}, {b} {args[2]}")
        if op in ("min", "max"):
            if kind == "int":
                return self._intrinsic(f"llvm.s{op}.i64", "i64", args)
            test = self._new(f"fcmp {'olt' if op == 'min' else 'ogt'} {text} {args[0]}, {args[1]}")
            first = {"lanes": self.m.mask, "vector": self.m.types["vector_mask"]}.get(kind, "i1")
            return self._new(f"select {first} {test}, {text} {args[0]}, {text} {args[1]}")
        if op == "not":
            return self._new(f"xor i1 {args[0]}, true")
        if kind in ("int", "bool", "mask", "vector_mask") and op in _INTEGER:
            return self._new(f"{_INTEGER[op]} {text} {', '.join(args)}")
        if op in _WRAPPING:
            return self._new(f"{_WRAPPING[op]} i64 {', '.join(args)}")
        if op == "real":
            return self._new(f"sitofp i64 {args[0]} to double")
        if op in _FLOAT:
            return self._new(f"{_FLOAT[op]} {text} {', '.join(args)}")
        if op in ("exp", "log"):
            return self._intrinsic(op, "double", args)
        if op == "fma":
            return self._intrinsic("llvm.fma.f64", "double", args)
        raise TypeError(f"{op} is not made for {kind}")

    def _lanes(self, x: Call, args: list[str]) -> str | None:
        """Operations that only lanes have, or that they have in a way of their own."""
        m, v, w, op = self.m, self.m.vector, self.m.lanes, x.op
        if "vector" in (x.type, x.args[0].type):
            v, w = m.types["vector"], VECTOR
        kind = f"v{w}f{m.bits}" if w > 1 else f"f{m.bits}"
        integers, mask = (v.replace(m.element, x) for x in (f"i{m.bits}", "i1"))
        if w == 1 and op in ("fill", "with_lane"):
            return self._narrow(args[-1])
        if w == 1 and op in ("lane", "total_of"):
            return self._wide(args[0])
        if op == "fill":
            number = args[0] if x.args[0].type == "lanes" else self._narrow(args[0])
            first = self._new(f"insertelement {v} poison, {m.element} {number}, i64 0")
            return self._new(f"shufflevector {v} {first}, {v} poison, <{w} x i32> zeroinitializer")
        if op == "with_lane":
            return self._new(f"insertelement {v} {args[0]}, {m.element} {self._narrow(args[2])}, i64 {args[1]}")
        if op == "lane":
            return self._wide(self._new(f"extractelement {v} {args[0]}, i64 {args[1]}"))
        if op == "fma":
            return self._intrinsic(f"llvm.fma.{kind}", v, args)
        if op == "rounded":
            return self._intrinsic(f"llvm.rint.{kind}", v, args)
        if op == "total_of":  # in pairs
            name = f"llvm.vector.reduce.fadd.{kind}"
            m.declared.add(f"declare {m.element} @{name}({m.element}, {v})")
            return self._wide(
                self._new(f"call reassoc {m.element} @{name}({m.element} {self._float(0.0, m.bits)}, {v} {args[0]})")
            )
        zero = _all(m.element, self._float(0.0, m.bits), w)
        if op == "any_lane":
            test = self._new(f"fcmp une {v} {args[0]}, {zero}")
            return self._new(f"icmp ne i{w} {self._new(f'bitcast {mask} {test} to i{w}')}, 0")
        mantissa, bias = (52, 1023) if m.bits == 64 else (23, 127)

        def constant(number: int) -> str:
            return _all(f"i{m.bits}", str(number), w)

        if op == "power_of_two":
            # The last bits of a sum with a number so large are an integer; AVX2 has no conversion to 64 bits.
            large = _all(m.element, self._float(1.5 * 2.0**mantissa + bias, m.bits), w)
            whole = self._new(f"bitcast {v} {self._new(f'fadd {v} {args[0]}, {large}')} to {integers}")
            whole = self._new(f"shl {integers} {whole}, {constant(mantissa)}")
            return self._new(f"bitcast {integers} {whole} to {v}")
        if op == "exponent_of":
            bits = self._new(f"bitcast {v} {args[0]} to {integers}")
            bits = self._new(f"shl {integers} {bits}, {constant(1)}")  # without the sign
            bits = self._new(f"lshr {integers} {bits}, {constant(mantissa + 1)}")
            exponent_of_large = bias + mantissa << mantissa  # the bits of 2**mantissa
            bits = self._new(f"or {integers} {bits}, {constant(exponent_of_large)}")
            large = _all(m.element, self._float(2.0**mantissa + bias, m.bits), w)
            exponent = self._new(f"fsub {v} {self._new(f'bitcast {integers} {bits} to {v}')}, {large}")
            is_zero = self._new(f"fcmp oeq {v} {args[0]}, {zero}")
            return self._new(f"select {mask} {is_zero}, {v} {zero}, {v} {exponent}")
        return None

    def _load(self, x: Element) -> str:
        kind, align = self.m.stored[x.array.elements]
        address = self._address(x.array, x.index)
        number = self._new(f"load {kind}, {self.m.pointer} {address}, align {align}")
        if x.array.elements == "int32":
            return self._new(f"sext i32 {number} to i64")
        if x.array.elements == "byte":
            return self._new(f"zext i8 {number} to i64")
        if kind == "float" and x.array.elements != "lanes":
            return self._new(f"fpext float {number} to double")
        return number

    def _address(self, array: Array, index: Expression) -> str:
        if array.name not in self.arrays:
            raise TypeError(f"{self.f.name} has no array {array.name}")
        return self._place(array, self._value(index))

    def _place(self, array: Array, index: str) -> str:
        kind = self.m.element if array.elements == "vector" else self.m.stored[array.elements][0]
        return self._new(f'getelementptr inbounds {kind}, {self.m.pointer} %"{array.name}", i64 {index}')

    # ------------------------------------------------------------------ text

    def _number(self, x: Number) -> str:
        if x.type == "int":
            return str(int(x.number))
        if x.type == "bool":
            return "true" if x.number else "false"
        return self._float(x.number, 64)

    @staticmethod
    def _float(number: float, bits: int) -> str:
        """In hexadecimal, exactly; of a float32 the nearest, written as the double that it is."""
        if bits == 32:
            number = struct.unpack("f", struct.pack("f", number))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"

    def _wide(self, value: str) -> str:
        return value if self.m.bits == 64 else self._new(f"fpext float {value} to double")

    def _narrow(self, value: str) -> str:
        return value if self.m.bits == 64 else self._new(f"fptrunc double {value} to float")

    def _intrinsic(self, name: str, kind: str, args: list[str]) -> str:
        self.m.declared.add(f"declare {kind} @{name}({', '.join([kind] * len(args))})")
        return self._new(f"call {kind} @{name}({', '.join(f'{kind} {a}' for a in args)})")

    def _new(self, text: str) -> str:
        self.count += 1
        self.out.append(f"  %x{self.count} = {text}")
        return f"%x{self.count}"

    def _labels(self, *names: str) -> list[str]:
        self.count += 1
        return [f"{name}.{self.count}" for name in names]

    def _label(self, name: str) -> None:
        self.out.append(f"{name}:")

    def _go(self, label: str) -> None:
        self.out.append(f"  br label %{label}")

    def _branch(self, test: str, yes: str, no: str) -> None:
        self.out.append(f"  br i1 {test}, label %{yes}, label %{no}")


def _align(text: str) -> int:
    """Of a variable."""
    return 64 if text[0] == "<" else 8


def _all(kind: str, number: str, width: int) -> str:
    """A number in every lane."""
    return f"<{', '.join([f'{kind} {number}'] * width)}>" if width > 1 else number
