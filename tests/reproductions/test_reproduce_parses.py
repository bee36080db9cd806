# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sign tests and errors by parent in the tables of ``pyrogram reproduce shared``, from the weights that are kept."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pyrogram import DMV, Corpus
from pyrogram.cli import main
from pyrogram.data import tag_families
from pyrogram.metrics import attach_right, errors_by_parent, sign_test
from reproductions.shared.store import unpack_result

pytestmark = pytest.mark.usefixtures("undrawn", "one_thread")


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parses")
    for name, seed, size in (("train", 0, 40), ("dev", 1, 20), ("test", 2, 20)):
        Corpus.builtin(size, seed).to_conllu(str(folder / f"{name}.conllu"))
    files = [folder / "train.conllu", "--dev", folder / "dev.conllu", "--test", folder / "test.conllu"]
    options = ["--rows", "attach-right,em,ln-families", "--starts", 1, "--steps", 2, "--tags", "xpos", "--jobs", 1]
    return [str(a) for a in ["reproduce", "shared", *files, *options, "--out", folder / "run"]], folder


def test_signs_and_errors_are_those_of_the_weights(arguments):
    command, folder = arguments
    assert main(command) == 0
    vocab = Corpus.from_conllu(str(folder / "train.conllu"), tags="xpos").vocab
    test = Corpus.from_conllu(str(folder / "test.conllu"), tags="xpos", vocab=vocab)
    grammar = DMV(len(vocab))

    def parses(row):
        tensors = load_file(folder / "run" / "starts" / f"{row}-001.safetensors")
        weights = {b: 0.9999 * tensors[f"weights.0.{b}"] + 1e-4 / k.shape[-1] for b, k in grammar.blocks.items()}
        heads = grammar.derivation(weights, test.words).mbr()
        assert torch.equal(tensors["heads.0.test"].long(), heads[test.words >= 0])
        return heads

    lines = (folder / "run" / "table.md").read_text().split("training sentences")[0].split("Sign tests")[1].splitlines()
    found = {line.split("|")[1].strip(): [c.strip() for c in line.split("|")[2:-1]] for line in lines if "|" in line}
    signs = [sign_test(parses("em"), attach_right(test.lengths), test.heads, unit=u) for u in ("words", "sentences")]
    expected = [f"{'+' if s.better >= s.worse else '−'} {s.p_value:.2g}" for s in signs]
    assert found["em − attach-right"][2:] == expected
    families = [[tag_families("penn")[tag] for tag in s.tags] for s in test]
    errors = errors_by_parent(parses("ln-families"), test.heads, families)
    paper = {"noun": "25.9", "verb": "16.9"}
    for e in errors:
        words = 100 * e.words / int(test.lengths.sum())
        assert found[e.tag] == [f"{words:.1f}", f"{100 * e.share:.1f}", paper.get(e.tag, "")]


def test_starts_of_earlier_versions_have_no_signs(arguments):
    command, folder = arguments
    assert main(command) == 0
    path = folder / "run" / "starts" / "em-001.safetensors"
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_file({n: t for n, t in load_file(path).items() if not n.startswith("heads.")}, path, metadata)
    assert not unpack_result(path.read_bytes()).heads
    assert main(command) == 0
    text = (folder / "run" / "table.md").read_text()
    assert "Sign tests" not in text and "em − attach-right" in text
    assert "1 start was kept by an earlier version without their parses" in text
