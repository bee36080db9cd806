# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""PTX, the assembly language of NVIDIA's GPUs, by LLVM; the driver makes machine code of it when it loads a module."""

from __future__ import annotations

import functools
from typing import Any

from . import objects

TRIPLE = "nvptx64-nvidia-cuda"
ARCHITECTURES = ("sm_80", "sm_90")
"""In ascending order: PTX for one is for all later ones, too."""


def architecture_for(major: int, minor: int) -> str | None:
    """The best one for a device of a compute capability; None for a device before all of them."""
    targets = [x for x in ARCHITECTURES if int(x[3:]) <= 10 * major + minor]
    return targets[-1] if targets else None


def ptx_of(text: str, architecture: str) -> bytes:
    """PTX of a module in LLVM's assembly language."""
    machine = _machine(architecture)
    module = objects.parsed(text, TRIPLE, machine)
    objects.optimize(module, machine, whole=True)
    ptx: str = machine.emit_assembly(module)
    return ptx.encode()


@functools.lru_cache
def _machine(architecture: str) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # The module has been optimized. What LLVM's code generator would do above that makes a pointer of its own for every
    # access in a loop, which takes two and a half times the registers; the driver's assembler does the rest.
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=architecture, opt=0)
