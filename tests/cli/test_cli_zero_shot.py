# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram parse --zero-shot``: the trees of the library, in the file, and what it refuses."""

import pytest

from pyrogram import Corpus
from pyrogram.knowledge import zero_shot

TEXT = """\
# a comment
1\tThe\t_\tDET\t_\t_\t_\t_\t_\t_
2\tdog\t_\tNOUN\t_\t_\t_\t_\t_\t_
3\tbarked\t_\tVERB\t_\t_\t_\t_\t_\t_
4\t,\t_\tPUNCT\t_\t_\t_\t_\t_\t_
5\tthen\t_\tADV\t_\t_\t_\t_\t_\t_
6\tslept\t_\tVERB\t_\t_\t_\t_\t_\t_

1\t!\t_\tPUNCT\t_\t_\t_\t_\t_\t_

1\tcats\t_\tNOUN\t_\t_\t_\t_\t_\t_
2\tsleep\t_\tVERB\t_\t_\t_\t_\t_\t_

"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.conllu"
    path.write_text(TEXT)
    return path


@pytest.mark.one_in(2)
@pytest.mark.parametrize("decoder", ["mbr", "viterbi"])
def test_it_is_the_library(call, file, tmp_path, decoder):
    out = tmp_path / "parsed.conllu"
    done = call("parse", "--zero-shot", file, "--decoder", decoder, "--out", out)
    corpus = Corpus.from_conllu(file)
    parser = zero_shot(corpus)
    assert (done.status, done.out) == (0, "") and len(done.err.splitlines()) == 1
    assert done.err == "note: assumed: " + " ".join(parser.told) + "\n" and "It draws on " in done.err
    assert Corpus.from_conllu(out).heads.equal(parser.parse(corpus, decoder))
    text = out.read_text()
    assert text.startswith("# a comment\n") and "1\t!\t_\tPUNCT\t_\t_\t0\troot" in text and "\tpunct\t" in text


def test_other_formats(call, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the/DET dog/NOUN barks/VERB ./PUNCT\nit/PRON sleeps/VERB\n")
    done = call("parse", "--zero-shot", path, "--quiet")
    assert done.status == 0 and done.err == ""
    assert [line.split("\t")[6] for line in done.out.splitlines() if line] == ["2", "3", "0", "3", "2", "0"]


def test_refusals(refused, file, tmp_path):
    penn = tmp_path / "penn.txt"
    penn.write_text("the/DT dog/NN barks/VBZ\n")
    told = refused("parse", "--zero-shot", penn)
    assert f"{penn} has tags that are not universal (DT, NN, VBZ); give one with universal tags." in told
    assert "parse needs a RUN and a FILE, or --zero-shot FILE" in refused("parse", file)
    assert "--zero-shot takes no RUN, so leave out run" in refused("parse", "run", "--zero-shot", file)
    assert "--retag and --unknown are for runs" in refused("parse", "--zero-shot", file, "--unknown", "error")
    assert "is the file to parse" in refused("parse", "--zero-shot", file, "--out", file)
    words = tmp_path / "words.conllu"
    words.write_text(TEXT.replace("DET", "_").replace("NOUN", "_").replace("VERB", "_").replace("ADV", "_"))
    assert "universal tags" in refused("parse", "--zero-shot", words)
    absent = tmp_path / "absent.conllu"
    assert "absent.conllu" in refused("parse", "--zero-shot", absent)
