# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram prior`` and ``pyrogram induce --knowledge languages --prior``: counts, what is told, what is refused."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pyrogram import Corpus
from pyrogram.knowledge import UNIVERSAL_TAGS, Sources, induce

#: NOUN <- VERB -> NOUN, with a full stop.
TREE = """\
1\tdogs\t_\tNOUN\t_\t_\t2\t_\t_\t_
2\tchase\t_\tVERB\t_\t_\t0\t_\t_\t_
3\tcats\t_\t{tag}\t_\t_\t2\t_\t_\t_
4\t.\t_\tPUNCT\t_\t_\t2\t_\t_\t_

"""
NOUN, VERB = UNIVERSAL_TAGS.index("NOUN"), UNIVERSAL_TAGS.index("VERB")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    names = ["aa_one-ud-train.conllu", "aa_one-ud-dev.conllu", "bb_two.conllu.gz"]
    paths = [tmp_path / name for name in names]
    for path, text in zip(paths, (2 * TREE, TREE, TREE), strict=True):
        data = text.format(tag="NOUN").encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return paths


def test_counts_are_those_of_the_trees(call: Any, files: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "prior.safetensors"
    done = call("prior", *files, "--out", out, "--licence", "aa_one=CC BY-SA 4.0")
    found = Sources.load(out)
    assert (found.names, found.licences) == (("aa_one", "bb_two"), ("CC BY-SA 4.0", ""))
    for k, times in enumerate((3, 1)):
        root, attach, stop = (found.counts[block][k] for block in ("root", "attach", "stop"))
        assert root[VERB] == root.sum() == times
        assert attach[VERB, 0, NOUN] == attach[VERB, 1, NOUN] == times
        assert attach.sum() == 2 * times
        # Of each side of each word a stop, and of the verb's two children a decision to go on.
        assert stop[..., 1].sum() == 6 * times
        assert stop[..., 0].sum() == stop[VERB, :, 0, 0].sum() == 2 * times
    rows = [line.split() for line in done.out.splitlines()]
    assert ["aa_one", "aa", "3", "9", "CC", "BY-SA", "4.0"] in rows
    assert ["bb_two", "bb", "1", "3", "not", "said"] in rows
    assert "Sources(2 treebanks of 2 languages)" in done.out


def test_other_tags_count_as_x(call: Any, tmp_path: Path) -> None:
    path, out = tmp_path / "aa_x.conllu", tmp_path / "prior.safetensors"
    path.write_text(TREE.format(tag="VNOUN"))
    done = call("prior", path, "--out", out)
    assert "the tags of 1 word." in " ".join(done.out.split())
    assert Sources.load(out).counts["attach"][0, VERB, 1, UNIVERSAL_TAGS.index("X")] == 1


def test_an_induction_takes_it(call: Any, refused: Any, files: list[Path], tmp_path: Path) -> None:
    prior, out = tmp_path / "prior.safetensors", tmp_path / "run"
    call("prior", *files, "--out", prior)
    command = ["induce", files[0], "--knowledge", "languages", "--steps", 3, "--tolerance", 0, "--out", out]
    done = call(*command, "--prior", prior)
    induced = induce(Corpus.from_conllu(files[0]), "languages", num_steps=3, sources=Sources.load(prior))
    for name, w in load_file(out / "weights.safetensors").items():
        torch.testing.assert_close(w, induced.weights[name].double(), rtol=1e-6, atol=1e-9)
    told = re.search(
        r"The prior is of 2 treebanks; .* shares: (.*) (\d+) %, (.*) (\d+) %\.", " ".join(done.out.split())
    )
    assert told is not None
    assert {told[1], told[3]} == {"aa_one", "bb_two"}
    assert int(told[2]) >= int(told[4])
    assert int(told[2]) + int(told[4]) in (99, 100, 101)
    picture = (out / "shares.svg").read_text()
    assert picture.startswith("<?xml")
    other = tmp_path / "other.safetensors"
    call("prior", files[2], "--out", other)
    assert "another prior" in refused(*command, "--prior", other)
    assert "another prior" in refused(*command)


def test_one_source_is_the_grammar_of_the_target(call: Any, files: list[Path], tmp_path: Path) -> None:
    """VERB -> NOUN on both sides was counted, so the verb of a new sentence is its root."""
    prior, text = tmp_path / "prior.safetensors", tmp_path / "text.conllu"
    call("prior", files[0], "--out", prior)
    text.write_text(TREE.format(tag="NOUN").replace("\t2\t_\t_\t_", "\t_\t_\t_\t_").replace("\t0\t_", "\t_\t_"))
    out = tmp_path / "run"
    call("induce", text, "--knowledge", "languages", "--prior", prior, "--out", out)
    assert Corpus.from_conllu(out / "parses.conllu").heads.tolist() == [[2, 0, 2]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (TREE.replace("\t2\t_\t_", "\t_\t_\t_"), [], "line 1"),
        (TREE.replace("VERB", "_"), [], "give treebanks with universal tags"),
        (TREE, ["--licence", "bb=CC0"], "--licence needs NAME=TEXT, a name out of aa_x, not 'bb=CC0'"),
        (TREE, ["--licence", "aa_x"], "--licence needs NAME=TEXT"),
    ],
)
def test_refusals(refused: Any, tmp_path: Path, text: str, options: list[str], said: str) -> None:
    path = tmp_path / "aa_x.conllu"
    path.write_text(text.format(tag="NOUN"))
    assert said in refused("prior", path, "--out", tmp_path / "p.safetensors", *options)
    assert not (tmp_path / "p.safetensors").exists()


def test_places_and_files_that_are_refused(refused: Any, files: list[Path], tmp_path: Path) -> None:
    assert "standard input has no name" in refused("prior", "-", "--out", tmp_path / "p")
    assert "is a folder" in refused("prior", *files, "--out", tmp_path)
    assert "there is no folder" in refused("prior", *files, "--out", tmp_path / "no" / "p")
    assert "no such file" in refused("prior", tmp_path / "no.conllu", "--out", tmp_path / "p")
    learn = ["induce", files[0], "--knowledge"]
    assert "--prior is for --knowledge languages" in refused(*learn, "rules", "--prior", files[0])
    assert "no such file" in refused(*learn, "languages", "--prior", tmp_path / "no")
    assert "is not a file of counts of sources" in refused(*learn, "languages", "--prior", files[0])
    save_file({"root": torch.ones(1)}, tmp_path / "weights.safetensors")
    assert "holds no counts of sources; give a file that" in refused(
        *learn, "languages", "--prior", tmp_path / "weights.safetensors"
    )
