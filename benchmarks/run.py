# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All benchmarks: ``python3 benchmarks/run.py [--quick] [--write] [--only WORD ...]``; see README.md beside it.

It makes its own environment, ``.venv-bench``, with pinned peers from PyPI, and starts itself again in there.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import shlex
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-bench"
README = ROOT / "benchmarks/README.md"
BEGIN, END = "<!-- results of run.py --write: begin -->", "<!-- results: end -->"
# The peers come without what they depend on: of supar we need the charts alone, and torch must stay as it is.
PEERS = ["torch-struct==0.5", "supar==1.1.4", "pyarrow==26.0.1", "conllu==6.0.0"]


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


def sections(quick: bool, seconds: float, threads: tuple[int, ...]) -> dict[str, Callable[[], str]]:
    """By title what makes each section, as markdown; each comparison takes about so many seconds."""
    import alone
    import before
    import cold_start
    import collapsed
    import compound
    import em
    import heads
    import logistic_normal
    import long_sentences
    import low_rank_pcfg
    import memory
    import pcfg
    import pitman_yor
    import processes
    import reading
    import sibling
    import spanning_trees
    import structures
    import sweeps
    import tilts
    import trees
    import vocabularies
    import word_segmentation
    from peers import ENGINES

    lengths = (10,) if quick else trees.LENGTHS
    engines = functools.cache(lambda: [make() for make in ENGINES.values()])
    pairs = functools.cache(lambda: [sibling.Pyrogram(), sibling.Supar()])
    spanning = functools.cache(spanning_trees.engines)
    by_title: dict[str, Callable[[], str]] = {
        f"Projective trees, batches of {trees.BATCH}, sentences/s": lambda: (
            f"{trees.agreement(engines(), lengths)}\n\n"
            + _table(trees.CHART_HEADER, trees.charts(engines(), lengths, threads, seconds))
        ),
        f"Draws and best trees, batches of {trees.BATCH}, float64, threads: {threads[-1]}": lambda: _table(
            trees.DECODING_HEADER, trees.decoding(engines(), lengths, threads[-1], seconds)
        ),
        f"The dependency model with valence, batches of {em.BATCH}, float64": lambda: _table(
            em.DMV_HEADER, em.dmv(lengths, threads, seconds / 2)
        ),
        "One iteration of EM, sentences of at most ten words, float32": lambda: _table(
            em.EM_HEADER, em.em(threads, seconds / 2)
        ),
        "An E-step with evidence, one thread, float64": lambda: _table(em.KNOWN_HEADER, em.evidence(seconds / 2)),
        "E-steps and sweeps under a tilt, one thread, float64": lambda: _table(tilts.HEADER, tilts.rows(seconds / 2)),
        "One iteration of variational EM with a logistic normal for every sentence, float64": lambda: _table(
            logistic_normal.HEADER, logistic_normal.logistic_normals(threads)
        ),
        "Context-free grammars, random probabilities, 50 words, sentences/s": lambda: (
            f"{pcfg.agreement()} A draw is one of every sentence, with its inside pass.\n\n"
            + _table(pcfg.HEADER, pcfg.charts((1,), seconds / 2, pcfg.TASKS[:1] if quick else pcfg.TASKS))
        ),
        f"Context-free grammars of low rank, log Z and its gradient, {low_rank_pcfg.WHAT}": lambda: _table(
            low_rank_pcfg.HEADER, low_rank_pcfg.rows(seconds / 3, lengths)
        ),
        f"Grammars with heads, batches of {heads.BATCH}, log Z and counts, one thread, float64, sentences/s": lambda: (
            _table(heads.HEADER, heads.rows(lengths, seconds / 3))
        ),
        "Large vocabularies, an iteration on one thread, float64": lambda: _table(
            vocabularies.HEADER, vocabularies.rows(vocabularies.QUICK if quick else vocabularies.SIZES)
        ),
        "Long sentences, by sentence, one thread, float64": lambda: _table(
            long_sentences.HEADER, long_sentences.rows(lengths if quick else long_sentences.LENGTHS)
        ),
        "Long sentences of chains and context-free grammars, one thread, float64": lambda: _table(
            alone.HEADER, alone.rows(seconds / 5)
        ),
        "Long sentences, an iteration over one, DMV, one thread, float64": lambda: _table(
            long_sentences.LOOP_HEADER, long_sentences.loop_rows(lengths if quick else long_sentences.LONG)
        ),
        f"Plain, neural and compound context-free grammars, {compound.WHAT}": lambda: _table(
            compound.HEADER, compound.compound(seconds, 50 if quick else compound.SENTENCES)
        ),
        "Collapsed inference of the DMV, sentences of at most ten words, one thread, float64": lambda: _table(
            collapsed.HEADER, collapsed.collapsed(4 * seconds)
        ),
        "Collapsed inference of context-free grammars, sentences of ten words, one thread, float64": lambda: _table(
            collapsed.CFG_HEADER, collapsed.grammars(seconds)
        ),
        "Collapsed inference of hidden Markov models and latent annotations, one thread, float64": lambda: _table(
            sweeps.HEADER, sweeps.sweeps(seconds / 3)
        ),
        "A chain of one's own beside the library's, eight sentences, one thread, float64": lambda: _table(
            sweeps.OWN_HEADER, sweeps.own_chains(seconds / 10)
        ),
        f"Second-order trees, batches of {sibling.BATCH}, sentences/s": lambda: (
            f"{sibling.agreement(pairs(), lengths)}\n\n"
            + _table(sibling.HEADER, sibling.charts(pairs(), lengths, threads, seconds))
        ),
        f"Non-projective trees, batches of {spanning_trees.BATCH}, sentences/s": lambda: (
            f"{spanning_trees.agreement(spanning(), lengths)}\n\n"
            + _table(spanning_trees.HEADER, spanning_trees.rows(spanning(), lengths, threads, seconds))
        ),
        "Trees of spans, segmentations and chains, one thread, float64, structures/s": lambda: (
            f"{structures.agreement(lengths)}\n\n" + _table(structures.HEADER, structures.rows(lengths, seconds / 2))
        ),
        f"Compiled recursions against the kernels by hand that they replaced ({before.BEFORE}), one thread, "
        f"batches of {before.BATCH} (of grammars 8 to {before.BATCH}), sentences/s": lambda: _table(
            before.HEADER, list(before.rows((10,) if quick else (5, *lengths)))
        ),
        "Hierarchical Pitman-Yor processes, words in three nested contexts, seconds": lambda: _table(
            pitman_yor.HEADER, pitman_yor.seats(10**5 if quick else 10**6)
        ),
        "Word segmentation, a step over all utterances, one thread": lambda: _table(
            word_segmentation.HEADER, word_segmentation.generated(quick)
        ),
        "Processes and starts side by side, float64": lambda: _table(
            processes.HEADER, processes.rows(*((10**5, 1) if quick else ()))
        ),
        "Cold start, seconds of processor time without imports": lambda: _table(cold_start.HEADER, cold_start.rows()),
        "Reading, processor time of all threads": lambda: _table(
            reading.HEADER, reading.rows(*((10**5, 1) if quick else (reading.TOKENS, reading.ROUNDS)))
        ),
        f"Growth of peak memory, marginals, batch of {trees.BATCH}, float64": lambda: _table(
            memory.HEADER, [memory.row()]
        ),
    }
    if em.EWT.exists() and not quick:
        by_title["The hierarchical Pitman-Yor dependency model on the English Web Treebank, seconds"] = lambda: _table(
            pitman_yor.HEADER_TREEBANK, pitman_yor.treebank(em.EWT)
        )
    return by_title


def measure(quick: bool, seconds: float, only: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Where and how it was measured, and sections by title.

    :param only: words, of which the titles of these sections have one; none: all sections.
    """
    import timing
    import torch

    warnings.filterwarnings("ignore", category=UserWarning)
    start, second, default = time.time(), timing.second_core(), torch.get_default_dtype()
    threads = (1, 2) if second > 1.6 else (1,)  # with one core to share, two threads measure the other programs
    texts = {}
    for title, make in sections(quick, 0.5 if quick else seconds, threads).items():
        if not only or any(word.lower() in title.lower() for word in only):
            texts[title] = make()
            torch.set_default_dtype(default)
    how = (
        f"Measured on {_machine(torch.__version__)}. Peers: {', '.join(PEERS)}. The run took "
        f"{(time.time() - start) / 60:.0f} minutes. Two threads of hashing did {second:.1f} times the work of one when "
        f"it began and {timing.second_core():.1f} times when it ended; two threads are measured only if there is a "
        "second core for them (1.6 times or more)."
    )
    return how, texts


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


def _write(how: str, texts: dict[str, str], only: bool) -> None:
    """Put sections into the page.

    :param only: whether other sections stay, and how they were measured.
    """
    before, rest = README.read_text().split(BEGIN)
    old, after = rest.split(END)
    head, *blocks = old.strip().split("\n### ")
    kept = {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in blocks} if only else {}
    kept |= {title: f"{how}\n\n{text}" if only else text for title, text in texts.items()}
    text = "\n\n### ".join([head.strip() if only else how, *(f"{title}\n\n{part}" for title, part in kept.items())])
    README.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one length, few repeats: whether all works")
    parser.add_argument("--write", action="store_true", help="put the results into benchmarks/README.md")
    parser.add_argument("--only", nargs="+", default=[], help="words: sections whose title has one of them")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each comparison")
    options = parser.parse_args()
    if Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        raise SystemExit(subprocess.run([prepare(), "-W", "ignore", *sys.argv]).returncode)
    how, texts = measure(options.quick, options.seconds, options.only)
    print("\n\n".join([how, *(f"### {title}\n\n{text}" for title, text in texts.items())]))
    if options.write:
        _write(how, texts, bool(options.only))


if __name__ == "__main__":
    main()
