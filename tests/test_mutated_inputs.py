# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""10,000 inputs that were changed a little: each is read, or refused by the library's own error in one line."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from mutations import mutated_bytes, mutated_json, mutated_tensors
from safetensors import safe_open

from pyrogram.cli import main
from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.grammars import read_grammar
from pyrogram.cli.runs.opening import open_run
from pyrogram.data import Corpus, CorpusError, Vocabulary, read_morphs, read_trees, read_utterances
from pyrogram.data.builtin import generate, grammar_rules
from pyrogram.grammars import CFG
from pyrogram.infer.running.checkpoint import load_state
from pyrogram.printable import printable

pytestmark = pytest.mark.slow

LONGEST = 700  # characters of a message, without the file's name
SENTENCES = generate(6, 1)
CONLLU = """# sent_id = d-1
# text = vámonos al mar.
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tVB\tMood=Imp|Tense=Pres\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\tPRP\tCase=Acc\t1\tobj\t1:obj\tSpaceAfter=No
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tIN\t_\t5\tcase\t_\t_
3.1\tx\tx\tVERB\tVB\t_\t_\t_\t1:conj\t_
4\tel\tel\tDET\tDT\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\tNN\t_\t1\tobl\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t.\t_\t1\tpunct\t_\t_

# sent_id = d-2
1\tSí\tsí\tINTJ\tUH\t_\t0\troot\t_\t_

"""
BRACKETS = "\n".join(s.brackets for s in SENTENCES[:3]) + "\n( (S (NP-SBJ-1 (-NONE- *))\n  (VP (VB go) (. .)) ) )\n"
TAGGED = "the/DT dog/NN barks/VBZ ./.\nand\\/or/CC 1\\/2/CD\n\nyes/UH\n"
TAGS = "DT NN VBZ\nNNP VBD\n\nUH\n"
MORPHS = "kamotera\tka mo te ra, kamo tera\tN V\nabab\ta b a b\n"
UTTERANCES = "you want to see the book\nlook there's a boy\n"
GRAMMAR = """# rules
%start S
S -> NP VP [0.9] | 'go' [0.1]
NP -> 'the' 'dog' [0.5] \\
 | "it's" [0.5]
VP -> 'barks' [1.0]
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs of every model."""
    root = tmp_path_factory.mktemp("valid")
    files = {"train.conllu": "", "tags.txt": TAGS * 5, "grammar.pcfg": "S -> 'DT' 'NN' 'VBZ' | 'NNP' 'VBD' | 'UH'\n"}
    for name, text in files.items():
        (root / name).write_text(text)
    Corpus.builtin(15, 2).to_conllu(root / "train.conllu")
    train, tags, grammar = (root / name for name in files)
    runs = {name: root / name for name in ("dmv", "pcfg", "lexical")}
    commands = [
        ["induce", train, "--tags", "xpos", "--steps", 2, "--out", runs["dmv"]],
        ["induce", tags, "--model", "pcfg", "--grammar", grammar, "--steps", 2, "--out", runs["pcfg"]],
        ["train", train, "--tags", "xpos", "--steps", 1, "--out", runs["lexical"]],
    ]
    for command in commands:
        assert main([str(a) for a in command]) == 0
    return runs


def either(
    read: Callable[[], Any], errors: type[Exception] | tuple[type[Exception], ...], path: Path
) -> tuple[bool, Any]:
    """What was read, or that it was refused as it should be; anything else fails the test."""
    try:
        return True, read()
    except errors as error:
        message = str(error)
        assert message.strip() and printable(message) == message, message
        assert len(message.replace(str(path), "")) < LONGEST, message
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        assert trace is not None and trace.tb_frame.f_globals["__name__"].startswith("pyrogram"), message
        return False, None


def tally(counts: list[bool]) -> None:
    """Mutations that all fail, or all pass, would say nothing."""
    assert 0 < sum(counts) < len(counts), f"{sum(counts)} of {len(counts)} were read"


def texts(seed: str, data: str, number: int, path: Path) -> Any:
    rng = random.Random(seed)
    for _ in range(number):
        path.write_bytes(mutated_bytes(rng, data.encode()))
        yield rng


def test_conllu(tmp_path: Path) -> None:
    path, counts = tmp_path / "c", []
    for rng in texts("conllu", CONLLU, 2800, path):
        options = {
            "tags": rng.choice(("upos", "xpos", "form")),
            "heads": rng.choice(("optional", "required", "ignore")),
            "punctuation": rng.choice(("keep", "remove")),
        }
        read, corpus = either(lambda: Corpus.from_conllu(path, **options), CorpusError, path)  # noqa: B023
        counts.append(read)
        if read:  # what was read can be written, and read back
            corpus.to_conllu(path)
            again = Corpus.from_conllu(path, **{**options, "heads": "optional"})
            assert (again.forms, again.tags) == (corpus.forms, corpus.tags)
            assert [s.heads for s in again] == [s.heads for s in corpus]
    tally(counts)


def test_brackets(tmp_path: Path) -> None:
    path, counts = tmp_path / "c", []
    for _ in texts("brackets", BRACKETS, 1700, path):
        read, corpus = either(lambda: Corpus.from_brackets(path, punctuation="keep"), CorpusError, path)
        also, trees = either(lambda: read_trees(path), CorpusError, path)
        counts.append(read)
        assert read == also
        if read:
            assert [tree.leaves() for tree in trees] == corpus.forms
            path.write_text("".join(f"{tree}\n" for tree in trees))
            assert read_trees(path) == trees
    tally(counts)


@pytest.mark.parametrize("text", [TAGGED, TAGS], ids=["words", "tags"])
def test_tagged_text(tmp_path: Path, text: str) -> None:
    path, counts = tmp_path / "c", []
    for rng in texts("tagged", text, 700, path):
        tags = rng.choice(("upos", "xpos", "form"))
        read, corpus = either(lambda: Corpus.from_tags(path, tags=tags), CorpusError, path)  # noqa: B023
        counts.append(read)
        if read:
            assert len(Corpus.from_conllu(_written(corpus, path), tags=tags, punctuation="keep")) == len(corpus)
    tally(counts)


def _written(corpus: Corpus, path: Path) -> Path:
    corpus.to_conllu(path)
    return path


def test_segmentation(tmp_path: Path) -> None:
    path = tmp_path / "c"
    for read_file, text in ((read_morphs, MORPHS), (read_utterances, UTTERANCES)):
        counts = []
        for _ in texts("segmentation", text, 400, path):
            counts.append(either(lambda: read_file(path), CorpusError, path)[0])  # noqa: B023
        tally(counts)


def test_grammar_text(tmp_path: Path) -> None:
    path, counts = tmp_path / "g", []
    for i, _ in enumerate(texts("grammar", GRAMMAR, 1000, path)):
        counts.append(either(lambda: read_grammar(path), CommandError, path)[0])
        if i % 5 == 0:
            text = path.read_bytes().decode(errors="replace")
            either(lambda: CFG.from_string(text), ValueError, path)  # noqa: B023
    tally(counts)
    for _ in texts("large grammar", grammar_rules(), 30, path):
        either(lambda: read_grammar(path), CommandError, path)


def test_vocabularies(tmp_path: Path) -> None:
    rng, counts = random.Random("vocabulary"), []
    for _ in range(600):
        pairs = mutated_json(rng, [["NN", 5], ["DT", 3], ["V", 1]])
        read, vocab = either(lambda: Vocabulary.from_list(pairs), ValueError, tmp_path)  # noqa: B023
        counts.append(read)
        if read:
            assert Vocabulary.from_list(json.loads(json.dumps(vocab.to_list()).encode())) == vocab
    tally(counts)


@pytest.mark.parametrize("kind", ["dmv", "pcfg", "lexical"])
def test_run_folders(folders: dict[str, Path], tmp_path: Path, kind: str) -> None:
    valid, path, rng, counts = folders[kind], tmp_path / "run", random.Random(kind), []
    shutil.copytree(valid, path)
    names = {"pcfg": ["grammar.pcfg"], "lexical": ["lexicon.json"]}.get(kind, [])
    for _ in range(500):
        name = rng.choice(["config.json", "weights.safetensors", *names])
        whole = (valid / name).read_bytes()
        if rng.random() < 0.3:
            data = mutated_bytes(rng, whole)
        elif name.endswith("json"):
            data = json.dumps(mutated_json(rng, json.loads(whole))).encode()
        elif name.endswith("safetensors"):
            data = mutated_tensors(rng, *_tensors(valid / name))
        else:
            data = mutated_bytes(rng, whole)
        (path / name).write_bytes(data)
        counts.append(either(lambda: open_run(path), CommandError, path)[0])
        (path / name).write_bytes(whole)
    assert either(lambda: open_run(path), (), path)[0]
    tally(counts)


def test_checkpoints(folders: dict[str, Path], tmp_path: Path) -> None:
    """A checkpoint is that of the run as it was saved, or refused."""
    rng, path = random.Random("checkpoint"), tmp_path / "c"
    for kind, folder in folders.items():
        valid = folder / "starts" / "001.safetensors"
        tensors, metadata = _tensors(valid)
        for _ in range(300):
            damaged = mutated_bytes(rng, valid.read_bytes()) if rng.random() < 0.3 else None
            path.write_bytes(damaged if damaged is not None else mutated_tensors(rng, tensors, metadata))
            read, state = either(lambda: load_state(path, metadata["fingerprint"]), ValueError, path)  # noqa: B023
            if read:
                assert state.keys() == tensors.keys(), kind
                assert all(torch.equal(state[name], t) or bool(t.isnan().any()) for name, t in tensors.items()), kind


def _tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()
