# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The page of the documentation on trees: its blocks run, print what they say, and estimate what the page says."""

import re
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO, TraceGraph_ELBO, TraceMeanField_ELBO
from pyro.infer.autoguide import AutoNormal

from pyrogram.infer import collapse_trees
from pyrogram.trees import projective_trees

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trees.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def names() -> dict[str, Any]:
    """What the blocks define, after they have printed what their comments say."""
    found: dict[str, Any] = {}
    for block in BLOCKS:
        lines: list[str] = []
        found["print"] = lambda *args, lines=lines: lines.append(" ".join(map(str, args)))
        exec(compile(block, str(PAGE), "exec"), found)
        assert lines == re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
    return found


@pytest.mark.slow
def test_the_page(names: dict[str, Any]) -> None:
    assert len(BLOCKS) == 7
    by_guide, by_kl = names["siblings"], names["with_exact_kl"]
    words, lengths = names["words"], names["lengths"]
    # The bound, by lists of trees.
    bound = torch.zeros(())
    scores = pyro.param("scores").detach()
    for n, own in zip(lengths.tolist(), scores, strict=True):
        trees = projective_trees(n)
        p = own[trees, torch.arange(1, n + 1)].sum(-1).log_softmax(0)
        gain = (trees[:, 1:] == trees[:, :-1]).sum(-1)
        bound = bound + (p.exp() * (gain - p - torch.tensor(len(trees)).log())).sum()
    spreads = []
    for model in (by_guide, by_kl):
        losses = torch.tensor([Trace_ELBO().loss(model, names["guide"], words) for _ in range(400)])
        spreads.append(float(losses.std()))
        assert abs(float(losses.mean() + bound)) < 4 * spreads[-1] / 20
    assert spreads[1] < spreads[0]
    assert TraceGraph_ELBO().loss_and_grads(by_guide, names["guide"], words) != 0
    with pytest.raises(NotImplementedError, match="must be fully reparameterized"):
        TraceMeanField_ELBO().loss(by_guide, names["guide"], words)
    collapsed = collapse_trees(names["model"])
    svi = SVI(collapsed, AutoNormal(collapsed), pyro.optim.Adam({"lr": 0.1}), TraceMeanField_ELBO())  # type: ignore[attr-defined]
    assert svi.step(words, names["tokens"]) > 0
