# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""PTX of the kernels, and the machine code that NVIDIA's assembler makes of it, where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pyrogram.distributions import (
    higher_order_chain,
    projective_tree,
    segmentation,
    sibling_tree,
    span_tree,
    state_sequence,
)
from pyrogram.grammars import cfg_page, dmv, low_rank_sums
from pyrogram.recursion import Recursion
from pyrogram.recursion.code import kernels, ptx
from pyrogram.recursion.emit import threads
from pyrogram.recursion.run.engine import plain_tables

DENSE = cfg_page.Form((("XXX", True), ("XXT", True), ("XTX", True), ("XTT", True), ("ZX", True)), 1, 0, 0)
LISTS = cfg_page.Form((("XXX", False), ("XXT", False), ("XX", False), ("XT", False), ("ZXX", False)), 2, 0, 1)
PROGRAMS = {
    "projective": lambda: projective_tree.first_order(),
    "several roots": lambda: projective_tree.first_order(multiroot=True),
    "stops": lambda: projective_tree.first_order(valences=2, stops=2),
    "siblings": lambda: sibling_tree.second_order(),
    "dmv": lambda: dmv.dmv(valence_attach=False),
    "dmv and valences of children": lambda: dmv.dmv(valence_attach=True),
    "dmv of sentences": lambda: dmv.dmv(valence_attach=False, by_sentence=True),
    "dmv and evidence": lambda: dmv.dmv(valence_attach=False, evidence=True),
    "spans": lambda: span_tree.span_trees(binary=True),
    "spans of any number of children": lambda: span_tree.span_trees(binary=False),
    "dmv of three valences": lambda: dmv.dmv(valence_attach=True, valences=3),
    "hmm": lambda: state_sequence.chain(),
    "hmm and evidence": lambda: state_sequence.chain(evidence=True),
    "second-order chains": lambda: higher_order_chain.chain(order=2, by_word=True),
    "segments with labels": lambda: segmentation.program(4, by_label=True).recursion,
    "dense grammar": lambda: cfg_page.grammar(DENSE),
    "dense grammar for sums": lambda: cfg_page.grammar(DENSE._replace(for_sums=True)),
    "ranks": low_rank_sums.rank_rules,
    "lists of rules": lambda: cfg_page.grammar(LISTS),
}
FIRST = [
    *(("projective", what) for what in threads.KERNELS),
    *((name, "lanes") for name in ("dmv", "hmm", "dense grammar")),
    ("lists of rules", "draw"),
]
LONG = ("second-order chains", "dense grammar", "dense grammar for sums")  # take more than half of the registers
SPILT_BY_COMPLETE = 16  # bytes
CASES = [
    pytest.param(name, what, dtype, marks=[] if (name, what) in FIRST and dtype == "float64" else pytest.mark.slow)
    for name in PROGRAMS
    for what in threads.KERNELS
    for dtype in ("float64", "float32")
]
ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="NVIDIA's assembler, ptxas, is not installed")


def ptx_of(made: Recursion, what: str, dtype: str, architecture: str = "sm_90", complete: bool = False) -> bytes:
    kernel = threads.kernel(what, made, dtype, bool(plain_tables(made)))  # numbers are shared where they can be
    text = kernels.assembly(kernel, [threads.log()], dtype, "gpu", complete)
    return ptx.ptx_of(text, architecture)


@pytest.mark.parametrize("what", ["best", "lanes"])
def test_ptx_has_the_kernel_and_reads_the_devices_memory(what: str) -> None:
    text = ptx_of(projective_tree.first_order(), what, "float64", "sm_80").decode()
    assert ".target sm_80" in text and text.count(f".visible .entry {what}(") == 1
    found = set(re.findall(r"\b(?:ld|st)\.(\w+)", text))
    assert found == {"global", "param"}  # not generic, and nothing in a stack frame
    assert ".extern" not in text  # all functions are at hand


def test_the_architecture_is_the_last_that_a_device_knows() -> None:
    assert [ptx.architecture_for(*x) for x in ((7, 5), (8, 0), (8, 9), (9, 0), (12, 1))] == [
        None,
        "sm_80",
        "sm_80",
        "sm_90",
        "sm_90",
    ]


@pytest.mark.one_in(7)
@ptxas
@pytest.mark.parametrize(("name", "what", "dtype"), CASES)
def test_the_assembler_finds_registers_for_everything(name: str, what: str, dtype: str, tmp_path: Path) -> None:
    """Nothing is spilled to memory."""
    spilt, registers = assembled(ptx_of(PROGRAMS[name](), what, dtype), tmp_path)
    assert spilt == 0
    assert registers <= (255 if name in LONG else 168)


@pytest.mark.slow
@ptxas
@pytest.mark.parametrize("name", PROGRAMS)
def test_complete_kernels_spill_more(name: str, tmp_path: Path) -> None:
    """They do only the sentences that others leave."""
    spilt, _ = assembled(ptx_of(PROGRAMS[name](), "lanes", "float64", complete=True), tmp_path)
    assert spilt <= SPILT_BY_COMPLETE


def assembled(text: bytes, tmp_path: Path) -> tuple[int, int]:
    """Bytes that are spilled, and registers of a thread."""
    (tmp_path / "kernel.ptx").write_bytes(text)
    command = ["ptxas", "-arch=sm_90", "-v", "kernel.ptx", "-o", "kernel.cubin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    report = done.stdout + done.stderr
    assert done.returncode == 0, report
    (spilt,) = re.findall(r"(\d+) bytes spill stores", report)
    (registers,) = re.findall(r"Used (\d+) registers", report)
    return int(spilt), int(registers)
