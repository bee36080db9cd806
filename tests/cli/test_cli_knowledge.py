# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram induce --knowledge``: the library's recipe, kept in a folder, and what it refuses."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from pyrogram import Corpus
from pyrogram.knowledge import Sources, induce

TREEBANK = """\
1\tThe\t_\tDET\t_\t_\t2\t_\t_\t_
2\tdog\t_\tNOUN\t_\t_\t3\t_\t_\t_
3\tbarked\t_\tVERB\t_\t_\t0\t_\t_\t_
4\t,\t_\tPUNCT\t_\t_\t3\t_\t_\t_
5\tthen\t_\tADV\t_\t_\t6\t_\t_\t_
6\tslept\t_\tVERB\t_\t_\t3\t_\t_\t_

1\tcats\t_\tNOUN\t_\t_\t2\t_\t_\t_
2\tsleep\t_\tVERB\t_\t_\t0\t_\t_\t_
3\ton\t_\tADP\t_\t_\t5\t_\t_\t_
4\ta\t_\tDET\t_\t_\t5\t_\t_\t_
5\tmat\t_\tNOUN\t_\t_\t2\t_\t_\t_

"""


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "treebank.conllu"
    path.write_text(TREEBANK)
    return path


@pytest.mark.one_in(4)
@pytest.mark.parametrize("knowledge", ["rules", "discovered", "languages"])
def test_the_command_is_the_recipe(call, treebank, tmp_path, knowledge):
    out = tmp_path / "run"
    done = call("induce", treebank, "--knowledge", knowledge, "--steps", 3, "--tolerance", 0, "--out", out)
    corpus = Corpus.from_conllu(treebank)
    induced = induce(corpus, knowledge, num_steps=3)
    for name, w in load_file(out / "weights.safetensors").items():
        torch.testing.assert_close(w, induced.weights[name].double(), rtol=1e-6, atol=1e-9)
    told = " ".join(done.out.split())
    for text in induced.told:
        assert text in told
    smooth = {name: (1 - 1e-4) * w + 1e-4 / w.shape[-1] for name, w in induced.weights.items()}
    heads = replace(induced, weights=smooth).parse(corpus)
    for text in ((out / "parses.conllu").read_text(), call("parse", out, treebank).out):
        assert Corpus.from_conllu(write(tmp_path, text)).heads.equal(heads)


def write(folder, text):
    path = folder / "parsed.conllu"
    path.write_text(text)
    return path


def test_languages_are_a_prior(treebank):
    """With much text as prior and next to none of its own, the grammar is the mixture of the sources."""
    corpus = Corpus.from_conllu(treebank)
    sources = Sources.shipped().over(corpus.vocab)
    mean = sources.shares(corpus.words).mean(sources.weights())
    found = induce(corpus, "languages", num_steps=3).weights
    for name, w in found.items():
        torch.testing.assert_close(w.double(), mean[name].double(), atol=0.02, rtol=0)
    with pytest.raises(ValueError, match="valence_attach must be False with 'languages'"):
        induce(corpus, "languages", valence_attach=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--knowledge", "rules", "--method", "cvb"], "--knowledge rules is for --method vb, not cvb"),
        (["--knowledge", "languages", "--valence-attach"], "leave out --valence-attach"),
        (["--knowledge", "rules", "--dev", "x.conllu"], "--dev stops by likelihood"),
        (["--knowledge", "languages", "--heads", "function"], "--heads is for --knowledge rules and discovered"),
        (["--heads", "function"], "--heads is for --knowledge rules and discovered"),
        (["--knowledge", "languages", "--alpha", "1"], "--alpha is not for --knowledge languages"),
        (["--knowledge", "all"], "'none', 'discovered', 'rules', 'languages'"),
        (["--knowledge", "rules", "--tags", "form"], "universal or Penn tags"),
    ],
)
def test_refusals(refused, treebank, options, said):
    assert said in refused("induce", treebank, *options)


def test_a_run_whose_bias_is_missing(call, refused, treebank, tmp_path):
    out = tmp_path / "run"
    call("induce", treebank, "--knowledge", "rules", "--steps", 1, "--out", out)
    (out / "bias.safetensors").unlink()
    assert "bias.safetensors is missing" in refused("parse", out, treebank)
