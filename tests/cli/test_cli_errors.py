# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Bad input: exit status 2 and one sentence (the fixture ``refused`` checks that); bugs: a traceback."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from pyrogram.cli import main

SENTENCE = "1\ta\t_\tDET\tDT\t_\t2\t_\t_\t_\n2\tb\t_\tNOUN\tNN\t_\t0\t_\t_\t_\n\n"


@pytest.fixture
def file(tmp_path):
    def write(text, name="file.conllu"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


OPTIONS = [
    (["--alpha", "2"], "--alpha"),
    (["--method", "em-map", "--alpha", "0.5"], "at least 1"),
    (["--method", "vb", "--alpha", "-1"], "positive"),
    (["--method", "vb", "--alpha", "0"], "positive"),
    (["--method", "vb", "--alpha", "nan"], "finite"),
    (["--method", "vb-em", "--alpha", "1e308"], "between 1e-08 and 1e+08"),
    (["--method", "vb-em", "--alpha", "1e-308"], "between 1e-08 and 1e+08"),
    (["--method", "mcmc"], "gibbs"),
    (["--starts", "0"], "--starts"),
    (["--starts", "two"], "--starts"),
    (["--starts", "2", "--noise", "0"], "the same"),
    (["--noise", "-1"], "--noise"),
    (["--noise", "800", "--starts", "2"], "--noise must be at most 50"),
    (["--distance", "-1"], "--distance"),
    (["--tolerance", "-1"], "--tolerance"),
    (["--smoothing", "0"], "--smoothing"),
    (["--smoothing", "1"], "--smoothing"),
    (["--max-length", "1"], "raise --max-length"),
    (["--max-length", "1" + "0" * 30], "--max-length"),
    (["--tags", "pos"], "--tags"),
    (["--out", "a/file.conllu/run"], "cannot be made"),
    (["--out", "a/file.conllu"], "is a file; give a folder"),
    (["--bogus"], "--bogus"),
    (["--demo"], "--demo"),
]


@pytest.mark.parametrize("options, expected", OPTIONS, ids=[" ".join(o) for o, _ in OPTIONS])
def test_options(options, expected, refused, file, tmp_path):
    (tmp_path / "a").mkdir()
    path = file(SENTENCE, "a/file.conllu")
    method = [] if "--method" in options or "--demo" in options else ["--method", "em"]
    options = [option.replace("a/file", str(tmp_path / "a" / "file")) for option in options]
    assert expected in (error := refused("induce", path, *method, *options))
    assert "Value error" not in error


FILES = [
    ("", "is empty"),
    ("\n\n", "is empty"),
    (SENTENCE.replace("\t0\t", "\t1\t").replace("DET\tDT\t_\t2", "DET\tDT\t_\t2"), "no word has head 0"),
    (
        SENTENCE + "1\ta\t_\tX\t_\t_\t2\t_\t_\t_\n2\tb\t_\tX\t_\t_\t1\t_\t_\t_\n3\tc\t_\tX\t_\t_\t0\t_\t_\t_\n\n",
        "cycle",
    ),
    (SENTENCE.replace("\t2\t", "\t7\t"), "out of range"),
    ("1 a b c\n\n", "columns"),
    ("1\t.\t_\tPUNCT\t.\t_\t0\t_\t_\t_\n\n", "only punctuation; punctuation is left out, so give a file"),
    (SENTENCE.replace("\t2\t", "\t_\t"), "no head (_); annotate it, or write _ for the heads of all words"),
    (SENTENCE + SENTENCE.replace("\t2\t", "\t_\t").replace("\t0\t", "\t_\t"), "annotate it, or write _"),
]


@pytest.mark.parametrize("text, expected", FILES, ids=[e for _, e in FILES])
def test_files(text, expected, refused, file):
    assert expected in refused("induce", file(text))


def test_a_picture_is_svg(refused, file, tmp_path):
    out = tmp_path / "tree.png"
    assert "give a name that ends in .svg" in refused("draw", file(SENTENCE), "--out", out)
    assert not out.exists()


def test_missing_file(refused, tmp_path):
    assert "nowhere.conllu" in refused("induce", tmp_path / "nowhere.conllu")
    assert "no such file" in refused("evaluate", tmp_path / "nowhere.conllu", tmp_path / "nowhere.conllu")
    assert "--demo" in refused("induce")


def test_columns_that_are_there(refused, file):
    upos_only = file(SENTENCE.replace("DT", "_").replace("NN", "_"))
    assert "has no XPOS" in (error := refused("induce", upos_only, "--tags", "xpos"))
    assert error.endswith("can be read with --tags upos or --tags form.")
    xpos_only = file(SENTENCE.replace("DET", "_").replace("NOUN", "_"))
    assert "--tags xpos or --tags form" in refused("induce", xpos_only)
    # A semicolon is a word as others are; and unknown symbols are not what is wrong.
    semicolon = file(SENTENCE.replace("DET", "_").replace("\ta\t", "\t;\t"), "semicolon.conllu")
    assert "the word ';' has no UPOS (_); the file can" in refused("induce", semicolon, "--unknown", "error")
    nothing = file(SENTENCE.replace("DET\tDT", "_\t_").replace("\ta\t", "\t_\t").replace("\tb\t", "\t_\t"))
    assert "no column of it can be read" in refused("induce", nothing)


def test_commands_without_tags_do_not_advise_them(refused, file, run_folder):
    """A run has its tags; draw and evaluate need words and heads."""
    upos_only = file(SENTENCE.replace("DT", "_").replace("NN", "_"))
    error = refused("parse", run_folder, upos_only)
    assert "has no XPOS (_); give a file that has it, for the grammar was learnt with --tags xpos" in error
    no_words = file(SENTENCE.replace("\ta\t", "\t_\t").replace("\tb\t", "\t_\t"), "words.conllu")
    for arguments in ([no_words], [upos_only, "--gold", no_words]):
        assert refused("draw", *arguments).endswith("give a file that has the words.")
    half = file(SENTENCE.replace("\t2\t", "\t_\t"), "half.conllu")
    for command in (["draw"], ["evaluate", upos_only]):
        assert refused(*command, half).endswith("no head (_); annotate it.")
    error = refused("induce", file("./.\n", "dots.txt"))
    assert error.endswith("punctuation is left out, so give a file that also has words.")


def test_messages_speak_of_options(refused, file):
    train, test = file(SENTENCE), file(SENTENCE.replace("DET", "ADJ"), "test.conllu")
    error = refused("induce", train, "--test", test, "--unknown", "error")
    assert "'ADJ' is not in the vocabulary" in error and "--unknown most_frequent takes it for" in error


def test_messages_of_models_are_a_sentence(refused, file, monkeypatch):
    """Pyro adds shapes to an error in a model; the library speaks of its arguments."""
    from pyrogram.cli.runs import dmv_induction as experiment

    def too_many(settings, grammar, *others):
        return {name: torch.ones(*block.shape, 3) / 3 for name, block in grammar.blocks.items()}

    def impossible(settings, grammar, *others):
        uniform = {name: block.uniform(torch.ones(())) for name, block in grammar.blocks.items()}
        return {**uniform, "root": torch.tensor([1.0, 0.0])}

    words = file("1\ta\t_\tNOUN\tNN\t_\t0\t_\t_\t_\n\n1\tb\t_\tVERB\tVB\t_\t0\t_\t_\t_\n\n")
    monkeypatch.setattr(experiment, "noiseless_start", impossible)
    error = refused("induce", words, "--method", "em")
    assert "probability zero" in error and error.endswith("give another --init or another --seed.")
    monkeypatch.setattr(experiment, "noiseless_start", too_many)
    error = refused("induce", words, "--method", "em")
    assert "shape" in error and "Trace Shapes" not in error


def test_supervised_without_heads(refused, file):
    path = file("DT NN VBZ\n" * 3, "tags.txt")
    assert "needs gold heads" in refused("induce", path, "--init", "supervised")
    assert "has no heads" in refused("evaluate", path, path)
    assert "has no heads" in refused("draw", path)


@pytest.fixture
def broken(run_folder, tmp_path):
    copy = tmp_path / "broken"
    shutil.copytree(run_folder, copy)
    return copy


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda w: {**w, "root": -w["root"]}, "not negative"),
        (lambda w: {**w, "root": w["root"] * torch.nan}, "finite"),
        (lambda w: {**w, "root": w["root"] * 2}, "sum to 1"),
        (lambda w: {**w, "root": w["root"][1:].clone()}, "shapes"),
        (lambda w: {k: t for k, t in w.items() if k != "stop"}, "shapes"),
        (lambda w: {**w, "root": w["root"].long()}, "finite"),
    ],
)
def test_weights(change, expected, refused, broken, treebanks):
    path = broken / "weights.safetensors"
    save_file({k: t.contiguous() for k, t in change(load_file(path)).items()}, path)
    for arguments in (["parse", broken, treebanks.test], ["sample", broken]):
        assert expected in refused(*arguments)


def test_no_run(refused, broken, tmp_path, treebanks):
    assert "no such folder" in refused("sample", tmp_path / "nowhere")
    assert "has no config.json" in refused("parse", treebanks.test.parent, treebanks.test)
    (broken / "weights.safetensors").write_bytes(b"\0" * 20)
    assert "not a safetensors file" in refused("sample", broken)
    (broken / "weights.safetensors").unlink()
    assert "is missing" in refused("sample", broken)
    config = json.loads((broken / "config.json").read_text())
    for change, expected in (
        ({"selected": None}, "is not finished"),
        ({"format": "other"}, "format"),
        ({"vocabulary": ["NN"]}, "pairs"),
        ({"settings": {}}, "lacks 'tags'"),
    ):
        (broken / "config.json").write_text(json.dumps({**config, **change}))
        assert expected in refused("sample", broken)
    (broken / "config.json").write_text("{")
    assert "no JSON" in refused("sample", broken)
    (broken / "config.json").write_text("[" * 100_000)
    assert "no JSON" in refused("sample", broken)
    (broken / "config.json").write_text(json.dumps({**config, "grammar": None}))
    assert "an entry is of another kind" in refused("sample", broken)


def test_sizes_and_words_beyond_bounds(refused, run_folder):
    huge = "9" * 30
    for option in ("--max-length", "--num", "--seed"):
        assert option in refused("sample", run_folder, option, huge)
    assert len(refused("sample", run_folder, "w" * 10**5)) < 1000


def test_out_of_parse_and_draw(refused, run_folder, treebanks, tmp_path):
    for out in (tmp_path, tmp_path / "nowhere" / "file", treebanks.test / "file"):
        assert "--out" in refused("parse", run_folder, treebanks.test, "--out", out)
        assert "--out" in refused("draw", treebanks.test, "--out", out)
    assert "which ends with sentence 20" in refused("draw", treebanks.test, "--sentence", 21)


def test_mismatching_sentences(refused, file):
    gold = file(SENTENCE * 3, "gold.conllu")
    other = file(SENTENCE * 2 + SENTENCE.replace("\tb\t", "\tc\t"), "other.conllu")
    error = refused("evaluate", gold, other)
    assert "sentence 3 differs (lines 7 and 7): word 2 is 'b'" in error
    assert "sentence 3 differs" in refused("draw", other, "--gold", gold, "--sentence", 3)
    assert "sentence 2 is missing" in refused("evaluate", gold, file(SENTENCE, "short.conllu"))


def test_bugs_keep_their_traceback(file, monkeypatch):
    def bug(*args, **kwargs):
        return int("of ours")  # a ValueError, but not one with a message for users

    monkeypatch.setattr("pyrogram.cli.io.corpora.read_corpus", bug)
    with pytest.raises(ValueError, match="invalid literal"):
        main(["evaluate", str(file(SENTENCE)), str(file(SENTENCE))])


def test_closed_pipe():
    program = "import sys; from pyrogram.cli import main; sys.exit(main(['--help']))"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_help_needs_no_torch():
    program = (
        "import sys; from pyrogram.cli import main; status = main(['induce', '--help']); "
        "assert 'torch' not in sys.modules and 'pyro' not in sys.modules, 'slow'; sys.exit(status)"
    )
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--max-length" in done.stdout


def test_version_and_help(call):
    from pyrogram import __version__

    assert call("--version") == (0, f"pyrogram {__version__}\n", "")
    for arguments in ([], ["--help"], ["-h"]):
        done = call(*arguments)
        assert done.status == 0
        assert all(name in done.out for name in ("induce", "parse", "evaluate", "draw", "sample"))
