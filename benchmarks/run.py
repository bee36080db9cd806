# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All benchmarks in one run: ``python3 benchmarks/run.py [--quick] [--write] [--seconds S]``; see README.md beside it.

It makes its own environment, ``.venv-bench``, with pinned peers from PyPI, and starts itself again in there.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-bench"
README = ROOT / "benchmarks/README.md"
BEGIN, END = "<!-- results of run.py --write: begin -->", "<!-- results: end -->"
# The peers come without what they depend on: of supar we need the charts alone, and torch must stay as it is.
PEERS = ["torch-struct==0.5", "supar==1.1.4"]


def prepare() -> Path:
    """The environment's python; installs what is missing or has changed."""
    python = ENVIRONMENT / "bin/python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = [
        [*pip, *shlex.split(os.environ.get("TORCH_INSTALL", "torch==2.13.0"))],
        [*pip, "-c", "constraints.txt", "-e", "."],
        [*pip, "--no-deps", *PEERS],
    ]
    wanted = "\n".join([str(steps), *((ROOT / name).read_text() for name in ("constraints.txt", "pyproject.toml"))])
    ready = ENVIRONMENT / ".ready"
    if not (ready.exists() and ready.read_text() == wanted):
        for step in [[sys.executable, "-m", "venv", str(ENVIRONMENT)], *steps]:
            subprocess.run(step, cwd=ROOT, check=True)
        ready.write_text(wanted)
    return python


def measure(quick: bool, seconds: float) -> str:
    """Everything, as markdown; each comparison takes about so many seconds."""
    import before
    import collapsed
    import em
    import logistic_normal
    import memory
    import pcfg
    import pitman_yor
    import sibling
    import sweeps
    import timing
    import torch
    import trees
    from peers import ENGINES

    warnings.filterwarnings("ignore", category=UserWarning)
    lengths = (10,) if quick else trees.LENGTHS
    seconds = 0.5 if quick else seconds
    start, second = time.time(), timing.second_core()
    threads = (1, 2) if second > 1.6 else (1,)  # with one core to share, two threads measure the other programs
    most = threads[-1]
    engines = [make() for make in ENGINES.values()]
    agreed = trees.agreement(engines, lengths)
    print(agreed, flush=True)
    grammars_agreed = pcfg.agreement()
    print(grammars_agreed, flush=True)
    pairs = [sibling.Pyrogram(), sibling.Supar()]
    siblings_agreed = sibling.agreement(pairs, lengths)
    print(siblings_agreed, flush=True)
    parts = [
        f"Measured on {_machine(torch.__version__)}. Peers: {', '.join(PEERS)}.",
        agreed,
        f"### Projective trees, batches of {trees.BATCH}, sentences/s",
        _table(trees.CHART_HEADER, trees.charts(engines, lengths, threads, seconds)),
        f"### Draws and best trees, batches of {trees.BATCH}, float64, threads: {most}",
        _table(trees.DECODING_HEADER, trees.decoding(engines, lengths, most, seconds)),
        f"### The dependency model with valence, batches of {em.BATCH}, float64",
        _table(em.DMV_HEADER, em.dmv(lengths, threads, seconds / 2)),
        "### One iteration of EM, sentences of at most ten words, float32",
        _table(em.EM_HEADER, em.em(threads, seconds / 2)),
        "### An E-step over the built-in corpus with evidence, one thread, float64",
        _table(em.KNOWN_HEADER, em.evidence(seconds / 2)),
        "### One iteration of variational EM with a logistic normal for every sentence, float64",
        _table(logistic_normal.HEADER, logistic_normal.logistic_normals(threads)),
        "### Context-free grammars, random probabilities, 50 words, sentences/s",
        f"{grammars_agreed} A draw is one of every sentence, with its inside pass.",
        _table(pcfg.HEADER, pcfg.charts((1,), seconds / 2, pcfg.TASKS[:1] if quick else pcfg.TASKS)),
        "### Collapsed inference of the DMV, sentences of at most ten words, one thread, float64",
        _table(collapsed.HEADER, collapsed.collapsed(4 * seconds)),
        "### Collapsed inference of context-free grammars, sentences of ten words, one thread, float64",
        _table(collapsed.CFG_HEADER, collapsed.grammars(seconds)),
        "### Collapsed inference of hidden Markov models and latent annotations, one thread, float64",
        _table(sweeps.HEADER, sweeps.sweeps(seconds / 3)),
        f"### Second-order trees, batches of {sibling.BATCH}, sentences/s",
        siblings_agreed,
        _table(sibling.HEADER, sibling.charts(pairs, lengths, threads, seconds)),
        f"### Compiled recursions against the kernels by hand that they replaced ({before.BEFORE}), one thread, "
        f"batches of {before.BATCH} (of grammars 8 to {before.BATCH}), sentences/s",
        _table(before.HEADER, list(before.rows((10,) if quick else (5, *lengths)))),
        "### Hierarchical Pitman-Yor processes, words in three nested contexts, seconds",
        _table(pitman_yor.HEADER, pitman_yor.seats(10**5 if quick else 10**6)),
        *_treebank(em.EWT, quick),
        f"### Growth of peak memory, marginals, batch of {trees.BATCH}, float64",
        _table(memory.HEADER, [memory.row()]),
        f"The run took {(time.time() - start) / 60:.0f} minutes. Two threads of hashing did {second:.1f} times the "
        f"work of one when it began and {timing.second_core():.1f} times when it ended; two threads are measured only "
        "if there is a second core for them (1.6 times or more).",
    ]
    return "\n\n".join(parts) + "\n"


def _treebank(train: Path, quick: bool) -> list[str]:
    """The lexicalised dependency model, where the treebank is at hand."""
    import pitman_yor

    if quick or not train.exists():
        return []
    title = "### The hierarchical Pitman-Yor dependency model on the English Web Treebank, seconds"
    return [title, _table(pitman_yor.HEADER_TREEBANK, pitman_yor.treebank(train))]


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _machine(torch_version: str) -> str:
    cpu = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        fields = {key.strip(): value.strip() for key, value in fields.items()}
        cpu = fields.get("model name", cpu)
        if fields.get("vendor_id") == "AuthenticAMD" and fields.get("cpu family") == "26":
            cpu += " (Zen 5)"
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python, torch_number = platform.python_version(), torch_version.split("+")[0]
    return (
        f"{os.cpu_count()} cores of an {cpu} server, {gigabytes:.0f} GB, {platform.system()}; "
        f"Python {python}, torch {torch_number}"
    )


def _write(results: str) -> None:
    text = README.read_text()
    before, rest = text.split(BEGIN)
    README.write_text(f"{before}{BEGIN}\n\n{results}\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one length, few repeats: whether all works")
    parser.add_argument("--write", action="store_true", help="put the results into benchmarks/README.md")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each comparison")
    options = parser.parse_args()
    if Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        raise SystemExit(subprocess.run([prepare(), "-W", "ignore", *sys.argv]).returncode)
    results = measure(options.quick, options.seconds)
    print(results)
    if options.write:
        _write(results)


if __name__ == "__main__":
    main()
