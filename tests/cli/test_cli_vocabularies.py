# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram induce`` of many symbols: the results of the DMV with all attachments, files that are read back.

Of samplers the files alone, for they draw their first trees in another order.
"""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from pyrogram.cli.runs import dmv_induction

GIVEN = ["--tags", "form", "--max-length", 6, "--steps", 3, "--test"]


@pytest.fixture
def many(monkeypatch):
    """Have the words of the small corpora be too many for all attachments."""
    return lambda: monkeypatch.setattr(dmv_induction, "MOST_SYMBOLS", 3)


@pytest.mark.parametrize("method", ["em", *(pytest.param(m, marks=pytest.mark.slow) for m in ("em-map", "vb", "cvb"))])
def test_results_are_those_of_all_attachments(treebanks, call, many, tmp_path, method):
    """Scores, likelihoods and parses, of test sentences with pairs of words that the training sentences lack."""
    options = ["--valence-attach"] if method == "vb" else []
    for name in ("all", "seen"):
        done = call(
            "induce", treebanks.train, *GIVEN, treebanks.test, "--method", method, *options, "--out", tmp_path / name
        )
        assert done.status == 0
        many()
    one, other = ((tmp_path / name / "parses.conllu").read_text() for name in ("all", "seen"))
    assert one == other
    scores = [(tmp_path / name / "results.csv").read_text().split() for name in ("all", "seen")]
    for mine, exact in zip(*scores, strict=True):
        for x, y in zip(mine.split(","), exact.split(","), strict=True):
            equal = x == y or float(x) == pytest.approx(float(y), rel=1e-9)
            assert equal or ",viterbi," in mine  # of trees of one score, rounding decides
        likelihood, expected = (line.split(",")[-1] for line in (mine, exact))
        assert likelihood == expected or float(likelihood) == pytest.approx(float(expected), rel=1e-9)
    assert "attachments of their own" in " ".join(done.out.split())
    weights = [load_file(tmp_path / name / "weights.safetensors") for name in ("all", "seen")]
    assert weights[1]["attach"].dim() == 1
    torch.testing.assert_close(weights[0]["stop"], weights[1]["stop"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["hastings", *(pytest.param(m, marks=pytest.mark.slow) for m in ("gibbs", "vb-em"))])
def test_other_methods_run_and_runs_are_read_back(treebanks, call, refused, many, tmp_path, method):
    many()
    out = tmp_path / "run"
    given = ["induce", treebanks.train, *GIVEN, treebanks.test, "--method", method, "--out", out]
    assert call(*given).status == 0
    assert json.loads((out / "config.json").read_text())["grammar"]["attachments"] == "seen"
    again = call(*given)
    assert again.status == 0 and "which has 1 of 1 start" in again.err
    new = tmp_path / "new.txt"
    new.write_text("the/DT the/DT the/DT dog/NN dog/NN\nnever/RB seen/VB\n")
    parsed = call("parse", out, new)
    assert parsed.status == 0
    heads = [line.split("\t")[6] for line in parsed.out.splitlines() if "\t" in line]
    assert len(heads) == 7 and heads.count("0") == 2
    assert call("sample", out, "--num", 2).status == 0
    assert "--knowledge discovered is about every pair" in refused(
        "induce", treebanks.train, "--tags", "form", "--knowledge", "discovered"
    )
    pairs = load_file(out / "pairs.safetensors")["pairs"]
    save_file({"pairs": pairs.flip(0)}, out / "pairs.safetensors")
    assert "pairs.safetensors is not as pyrogram wrote it: pairs must be increasing" in refused("parse", out, new)
    save_file({"pairs": pairs[1:]}, out / "pairs.safetensors")
    assert "weights.safetensors should hold weights of shapes" in refused("parse", out, new)
    (out / "pairs.safetensors").unlink()
    assert "pairs.safetensors is missing" in refused("parse", out, new)
