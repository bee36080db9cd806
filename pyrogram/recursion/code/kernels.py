# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Functions of typed statements as kernels: one thread for each sentence, each with a lane of its own.

A lane is one number here, so ``lanes`` and ``real`` have one value each. What a thread has for itself, its chart say,
is interleaved with that of its 31 neighbours: element x of thread t is at

    ((t // 32) * size + x) * 32 + t % 32

so that the threads of a warp, which do the same at the same time, read 32 neighbours in memory.

There are two targets. For a GPU a kernel is an entry of a module of PTX. For the CPU it is a function that runs the
threads of a launch one after the other, with the parameters packed as ``cuLaunchKernel`` takes them: an array of
pointers, one to each parameter. So all that a kernel does can be run where there is no GPU.

A kernel is complete, or it is without what is apart, which it has registers for; then it gives up where it needs that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .expressions import Array, Call, Name
from .llvm import Body, Module
from .statements import Apart, Attempt, Function

WARP = 32  # threads that run in step
THREAD, THREADS = Name("thread", "int"), Name("threads", "int")
"""Parameters of kernels that no caller gives: the number of a thread, and how many there are."""

Target = Literal["cpu", "gpu"]

_ENTRY = {
    "gpu": """
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %width = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %grid = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %before = mul i32 %block, %width
  %number = add i32 %before, %lane
  %all = mul i32 %grid, %width
  %thread = zext i32 %number to i64
  %threads = zext i32 %all to i64""",
    "cpu": """
  %threads = mul i64 %grid, %width
  br label %head
head:
  %thread = phi i64 [ 0, %entry ], [ %following, %inside ]
  %more = icmp slt i64 %thread, %threads
  br i1 %more, label %inside, label %done
inside:
  %following = add i64 %thread, 1""",
}
_REGISTERS = [f"declare i32 @llvm.nvvm.read.ptx.sreg.{x}.x()" for x in ("ctaid", "ntid", "tid", "nctaid")]


@dataclass
class Kernel:
    """A function that many threads run.

    :param private: arrays that each thread has for itself, with the parameters that say how many elements they have.
    """

    function: Function
    private: Mapping[str, str]

    @property
    def parameters(self) -> list[Array | Name]:
        """Those that a caller gives."""
        return [p for p in self.function.parameters if p not in (THREAD, THREADS)]


def assembly(kernel: Kernel, helpers: Sequence[Function], dtype: str, target: Target, complete: bool = True) -> str:
    """The text of a module.

    :param helpers: functions of one real that operations of the same names call.
    :param dtype: of lanes and of arrays of elements, ``float64`` or ``float32``.
    :param complete: whether what is apart is at hand; see :class:`.Attempt`.
    """
    doubles = Module("float64", 1)
    module = _KernelModule(dtype, 1, target=target, complete=complete, helpers=frozenset(f.name for f in helpers))
    module.pointer = "ptr addrspace(1)" if target == "gpu" else "ptr"  # to the device's memory
    module.attributes = "alwaysinline"  # into the entry, however long it is
    bodies = [*(doubles.body(f) for f in helpers), *module.kernel(kernel)]
    declared = doubles.declared | module.declared | set(_REGISTERS if target == "gpu" else ())
    return "\n".join([*bodies, *sorted(declared)]) + "\n"


@dataclass
class _KernelModule(Module):
    target: Target = "gpu"
    complete: bool = True
    helpers: frozenset[str] = frozenset()
    private: frozenset[str] = frozenset()  # arrays that each thread of the kernel at hand has for itself

    def kernel(self, kernel: Kernel) -> list[str]:
        """The code of a thread, and the entry that finds its number and its part of memory."""
        f, self.private = kernel.function, frozenset(kernel.private)
        known = {THREAD.name: "%thread", THREADS.name: "%threads"}
        parameters = [(kind, p.name) for p, (kind, _) in zip(f.parameters, self.parameters(f), strict=True)]
        wanted = [(kind, name) for kind, name in parameters if name not in known]
        lines = [_ENTRY[self.target]]
        if self.target == "cpu":
            for x, (kind, name) in enumerate(wanted):
                lines += [
                    f"  %q{x} = getelementptr ptr, ptr %parameters, i64 {x}",
                    f"  %p{x} = load ptr, ptr %q{x}, align 8",
                    f'  %"{name}" = load {kind}, ptr %p{x}, align 8',
                ]
        lines += [f"  %warp = udiv i64 %thread, {WARP}", f"  %place = urem i64 %thread, {WARP}"]
        arrays = {p.name: p for p in f.parameters if isinstance(p, Array)}
        for x, (name, size) in enumerate(kernel.private.items()):
            stored = self.stored[arrays[name].elements]
            lines += [
                f'  %first{x} = mul i64 %warp, %"{size}"',
                f"  %all{x} = mul i64 %first{x}, {WARP}",
                f"  %at{x} = add i64 %all{x}, %place",
                f'  %"private.{name}" = getelementptr inbounds {stored}, {self.pointer} %"{name}", i64 %at{x}',
            ]
        values = [known.get(n, f'%"private.{n}"' if n in kernel.private else f'%"{n}"') for _, n in parameters]
        arguments = ", ".join(f"{kind} {v}" for (kind, _), v in zip(parameters, values, strict=True))
        lines.append(f'  call void @"{f.name}.body"({arguments})')
        if self.target == "cpu":
            head = f'define void @"{f.name}"(ptr %parameters, i64 %grid, i64 %width)'
            lines += ["  br label %head", "done:", "  ret void"]
        else:
            typed = ", ".join(f'{kind} %"{name}"' for kind, name in wanted)
            head = f'define ptx_kernel void @"{f.name}"({typed})'
            lines.append("  ret void")
        return [self.body(f), f"{head} {{\nentry:" + "\n".join(lines) + "\n}\n"]

    def lines(self, f: Function) -> list[str]:
        return _KernelBody(self, f).lines()


class _KernelBody(Body):
    """The lines of a thread."""

    m: _KernelModule

    def _place(self, array: Array, index: str) -> str:
        if array.name in self.m.private:
            # In 32 bits, and so in half the registers.
            index = self._new(f"mul nuw nsw i32 {self._new(f'trunc i64 {index} to i32')}, {WARP}")
            index = self._new(f"zext i32 {index} to i64")
        return super()._place(array, index)

    def _attempt(self, s: Attempt) -> None:
        self._fails, done = self._labels("fails", "done")
        self._block(s.body)
        self._go(done)
        self._label(self._fails)
        self._block(s.other)
        self._go(done)
        self._label(done)

    def _apart(self, s: Apart) -> None:
        """Nothing is apart: a thread has one function."""
        if self.m.complete:
            self._block(s.body)
        else:
            self._go(self._fails)
            self._label(self._labels("after")[0])

    def _call(self, x: Call, args: list[str]) -> str:
        if x.op in self.m.helpers:
            return self._new(f'call double @"{x.op}.body"(double {args[0]})')
        return super()._call(x, args)
