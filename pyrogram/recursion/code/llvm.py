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

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .expressions import VECTOR, Array, Call, Element, Expression, Name, Number
from .expressions import Type as ValueType
from .statements import Apart, Attempt, For, Function, If, Put, Return, Set, Statement, While, names_read

_FLOATS = {"float64": "double", "float32": "float"}
_SIZES = {"i64": 8, "i32": 4, "double": 8, "float": 4}  # bytes
# By operation: the instruction for integers and bools, and that for floats.
_INSTRUCTIONS = {
    "+": ("add nsw", "fadd"),
    "-": ("sub nsw", "fsub"),
    "*": ("mul nsw", "fmul"),
    "/": ("", "fdiv"),
    "//": ("sdiv", ""),
    "%": ("srem", ""),
    "^": ("xor", ""),
    "&": ("and", ""),
    "|": ("or", ""),
    "<<": ("shl", ""),
    ">>": ("lshr", ""),
    "<": ("icmp slt", "fcmp olt"),
    "<=": ("icmp sle", "fcmp ole"),
    ">": ("icmp sgt", "fcmp ogt"),
    ">=": ("icmp sge", "fcmp oge"),
    "==": ("icmp eq", "fcmp oeq"),
    "wrapping_add": ("add", ""),  # of integers whose overflow is meant: hashes
    "wrapping_mul": ("mul", ""),
}
FIND = ".apart"
"""Of a module with functions apart: a pointer to the function that finds them by their numbers. Of the module that they
are in: that function."""


def assembly(
    functions: Sequence[Function],
    dtype: str,
    lanes: int,
    checked: bool = False,
) -> tuple[str, str]:
    """The text of a module, and that of its functions apart, which is empty if there are none.

    :param dtype: of lanes and of arrays of elements, ``float64`` or ``float32``.
    :param lanes: W.
    :param checked: whether indices are compared with the bounds of their tables, see :func:`.within`.
    """
    module = Module(dtype, lanes, checked)
    main = [text for f in functions for text in module.function(f)]
    apart: list[str] = []
    if module.apart:
        main.append(f'@"{FIND}" = global ptr null')
        apart = [*module.apart.values(), _finder([*module.apart])]
    return _lines(main, module.declared), _lines(apart, module.declared)


def _finder(names: Sequence[str]) -> str:
    """The function that finds functions apart by their numbers."""
    places = ", ".join(f'ptr @"{name}.body"' for name in names)
    return f"""@".places" = internal constant [{len(names)} x ptr] [{places}]
define ptr @"{FIND}"(i64 %number) {{
  %place = getelementptr ptr, ptr @".places", i64 %number
  %found = load ptr, ptr %place, align 8
  ret ptr %found
}}
"""


def _lines(texts: Sequence[str], declared: set[str]) -> str:
    return "\n".join([*texts, *sorted(declared)]) + "\n" if texts else ""


@dataclass
class Module:
    """The functions of a module, one after the other."""

    dtype: str
    lanes: int
    checked: bool = False
    pointer: str = "ptr"  # to arrays
    attributes: str = ""  # of functions
    declared: set[str] = field(default_factory=set)
    apart: dict[str, str] = field(default_factory=dict)  # functions that others call: name to text

    def __post_init__(self) -> None:
        self.element = _FLOATS[self.dtype]
        self.bits = 8 * _SIZES[self.element]
        # One lane is a number: of vectors of one LLVM makes no wider ones.
        several = f"<{self.lanes} x {{}}>" if self.lanes > 1 else "{}"
        self.vector = several.format(self.element)
        self.types: dict[str, str] = {
            "int": "i64",
            "real": "double",
            "bool": "i1",
            "lanes": self.vector,
            "mask": several.format("i1"),
            "vector": f"<{VECTOR} x {self.element}>",
            "vector_mask": f"<{VECTOR} x i1>",
            "none": "void",
        }
        self.stored: dict[str, str] = self.types | {"int32": "i32", "element": self.element}
        """Types in memory."""

    def function(self, f: Function) -> Iterator[str]:
        """The function itself, and one of the same name that reads its parameters from memory."""
        parameters, result = self.parameters(f), self.types[f.result]
        yield self.body(f)
        lines = []
        for x, (kind, name) in enumerate(parameters):
            lines += [
                f"  %p{x} = getelementptr i64, ptr %arguments, i64 {x}",
                f"  {name} = load {kind}, ptr %p{x}, align 8",
            ]
        call = f'call {result} @"{f.name}.body"({", ".join(f"{t} {n}" for t, n in parameters)})'
        end = [f"  {call}", "  ret void"] if result == "void" else [f"  %result = {call}", f"  ret {result} %result"]
        yield f'define {result} @"{f.name}"(ptr %arguments) {{\n' + "\n".join([*lines, *end]) + "\n}\n"

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
        for p in self.f.parameters:  # numbers become variables
            if isinstance(p, Name):
                self._store(p.name, f'%"{p.name}"', p.type)
        self._block(self.f.body)
        self.out.append("  ret void" if self.f.result == "none" else "  unreachable")
        types = ((n, self.m.types[kind]) for n, kind in self.variables.items())
        return ["entry:", *(f'  %"{n}.v" = alloca {t}, align {_align(t)}' for n, t in types), *self.out]

    # ------------------------------------------------------------------ statements

    def _block(self, body: Sequence[Statement]) -> None:
        for s in body:  # by the method of its name, in small letters
            getattr(self, f"_{type(s).__name__.lower()}")(s)

    def _set(self, s: Set) -> None:
        self._store(s.name, self._value(s.value), s.value.type)

    def _return(self, s: Return) -> None:
        self._end("" if s.value is None else self._value(s.value))
        self._label(self._labels("after")[0])

    def _end(self, result: str) -> None:
        kind = self.m.types[self.f.result]
        self.out.append("  ret void" if kind == "void" else f"  ret {kind} {result}")

    def _while(self, s: While) -> None:
        head, inside, done = self._labels("head", "body", "done")
        self._go(head)
        self._label(head)
        self._branch(self._value(s.test), inside, done)
        self._label(inside)
        self._block(s.body)
        self._go(head)
        self._label(done)

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
        used = names_read(s.body) | {s.gives}
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
        self._end("zeroinitializer")
        self._label(fits)
        return place

    def _for(self, s: For) -> None:
        self.count += 1
        at, end = (Name(f"{s.name}#{self.count}{x}", "int") for x in ("", ".end"))  # no names that a program gives
        self._set(Set(at.name, s.low))
        self._set(Set(end.name, s.high))
        test = at < end if s.step > 0 else at > end
        self._while(While(test, [Set(s.name, at), *s.body, Set(at.name, at + s.step)]))

    def _put(self, s: Put) -> None:
        elements, number = s.array.elements, self._value(s.value)
        kind = self.m.stored[elements]
        if kind == "float" and elements != "lanes":
            number = self._new(f"fptrunc double {number} to float")
        elif kind == "i32":
            number = self._new(f"trunc i64 {number} to i32")
        address, align = f"{self.m.pointer} {self._address(s.array, s.index)}", _bytes(kind)
        if s.adds:
            self._new(f"atomicrmw fadd {address}, {kind} {number} monotonic, align {align}")
        else:
            self.out.append(f"  store {kind} {number}, {address}, align {align}")

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
        if x.op == "fill" and isinstance(x.args[0], Number):
            return self._all(x.args[0].number, self._width(x))
        return self._call(x, [self._value(a) for a in x.args])

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
        op, kind = x.op, x.args[0].type
        text, is_float = self.m.types[kind], kind in ("real", "lanes", "vector")
        instruction = _INSTRUCTIONS.get(op, ("", ""))[is_float]
        if instruction:
            return self._new(f"{instruction} {text} {', '.join(args)}")
        if op == "select":
            b = self.m.types[x.args[1].type]
            return self._new(f"select {text} {args[0]}, {b} {args[1]}, {b} {args[2]}")
        if op in ("min", "max"):
            if not is_float:
                return self._intrinsic(f"llvm.s{op}.i64", text, args)
            test = self._new(f"fcmp {'olt' if op == 'min' else 'ogt'} {text} {args[0]}, {args[1]}")
            return self._new(f"select {_of(text, 'i1')} {test}, {text} {args[0]}, {text} {args[1]}")
        if op == "opaque":
            return args[0] if self.m.lanes == 1 else self._new(f'call i64 asm "", "=r,0"(i64 {args[0]})')
        if op == "real":
            return self._new(f"sitofp i64 {args[0]} to double")
        if op in ("exp", "log"):
            return self._intrinsic(op, text, args)
        if op in ("fma", "rint"):
            return self._intrinsic(f"llvm.{op}.{_suffix(text)}", text, args)
        return self._lanes(x, args)

    def _width(self, x: Call) -> int:
        return VECTOR if "vector" in (x.type, x.args[0].type) else self.m.lanes

    def _lanes(self, x: Call, args: list[str]) -> str:
        """Operations that only lanes and vectors have."""
        m, w, op = self.m, self._width(x), x.op
        v = m.types["vector" if "vector" in (x.type, x.args[0].type) else "lanes"]
        integers, mask = _of(v, f"i{m.bits}"), _of(v, "i1")
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
        if op == "total_of":  # in pairs
            name, zero = f"llvm.vector.reduce.fadd.{_suffix(v)}", self._all(0.0, 1)
            m.declared.add(f"declare {m.element} @{name}({m.element}, {v})")
            return self._wide(self._new(f"call reassoc {m.element} @{name}({m.element} {zero}, {v} {args[0]})"))
        if op == "any_lane":
            test = self._new(f"fcmp une {v} {args[0]}, {self._all(0.0, w)}")
            return self._new(f"icmp ne i{w} {self._new(f'bitcast {mask} {test} to i{w}')}, 0")
        mantissa, bias = (52, 1023) if m.bits == 64 else (23, 127)

        def constant(number: int) -> str:
            return _all(f"i{m.bits}", str(number), w)

        if op == "power_of_two":
            # The last bits of a sum with a number so large are an integer; AVX2 has no conversion to 64 bits.
            large = self._all(1.5 * 2.0**mantissa + bias, w)
            whole = self._new(f"bitcast {v} {self._new(f'fadd {v} {args[0]}, {large}')} to {integers}")
            whole = self._new(f"shl {integers} {whole}, {constant(mantissa)}")
            return self._new(f"bitcast {integers} {whole} to {v}")
        if op == "exponent_of":
            bits = self._new(f"bitcast {v} {args[0]} to {integers}")
            bits = self._new(f"shl {integers} {bits}, {constant(1)}")  # without the sign
            bits = self._new(f"lshr {integers} {bits}, {constant(mantissa + 1)}")
            exponent_of_large = bias + mantissa << mantissa  # the bits of 2**mantissa
            bits = self._new(f"or {integers} {bits}, {constant(exponent_of_large)}")
            large, zero = self._all(2.0**mantissa + bias, w), self._all(0.0, w)
            exponent = self._new(f"fsub {v} {self._new(f'bitcast {integers} {bits} to {v}')}, {large}")
            is_zero = self._new(f"fcmp oeq {v} {args[0]}, {zero}")
            return self._new(f"select {mask} {is_zero}, {v} {zero}, {v} {exponent}")
        raise TypeError(f"{op} is not made for {x.args[0].type}")

    def _load(self, x: Element) -> str:
        kind, address = self.m.stored[x.array.elements], self._address(x.array, x.index)
        number = self._new(f"load {kind}, {self.m.pointer} {address}, align {_bytes(kind)}")
        if kind == "i32":
            return self._new(f"sext i32 {number} to i64")
        return self._new(f"fpext float {number} to double") if kind == "float" and x.type == "real" else number

    def _address(self, array: Array, index: Expression) -> str:
        if array.name not in self.arrays:
            raise TypeError(f"{self.f.name} has no array {array.name}")
        return self._place(array, self._value(index))

    def _place(self, array: Array, index: str) -> str:
        kind = self.m.element if array.elements == "vector" else self.m.stored[array.elements]
        return self._new(f'getelementptr inbounds {kind}, {self.m.pointer} %"{array.name}", i64 {index}')

    # ------------------------------------------------------------------ text

    def _number(self, x: Number) -> str:
        if x.type == "int":
            return str(int(x.number))
        if x.type == "bool":
            return "true" if x.number else "false"
        return _float(x.number)

    def _all(self, number: float, width: int) -> str:
        """A number of the element type in every lane."""
        if self.m.bits == 32:
            number = struct.unpack("f", struct.pack("f", number))[0]
        return _all(self.m.element, _float(number), width)

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


def _scalar(text: str) -> str:
    return text.strip("<>").split(" x ")[-1]


def _of(text: str, scalar: str) -> str:
    """The type with as many of these scalars."""
    return text.replace(_scalar(text), scalar)


def _bytes(text: str) -> int:
    """Of a scalar, by which all is aligned in memory."""
    return _SIZES[_scalar(text)]


def _suffix(text: str) -> str:
    """A type of floats in the name of an intrinsic."""
    return re.sub(r"<(\d+) x |>", lambda m: f"v{m[1]}" if m[1] else "", _of(text, f"f{8 * _bytes(text)}"))


def _float(number: float) -> str:
    """In hexadecimal, exactly; a float32 is written as the double that it is."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _all(kind: str, number: str, width: int) -> str:
    """A number in every lane."""
    return f"<{', '.join([f'{kind} {number}'] * width)}>" if width > 1 else number
