# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Charts to be touched: values against enumerated derivations, in Python and in the page's script; refusals."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyrogram
from pyrogram import viz
from pyrogram.distributions import DependencyTree, ProjectiveDependencyTree
from pyrogram.recursion import Chart, Derivations, Grounded, recursion


@recursion(first=0)
def cky(p: Any) -> None:
    """Two symbols, and a rule whose two items may be the same one."""
    i, j, k = p.positions("i j k")
    A, B, C = p.symbols("A B C", "S")
    X, Z = p.items("X", "S"), p.items("Z")
    word, rule = p.weights("word", "S"), p.weights("rule", "S", "S", "S")
    X[j - 1, j, A] += word[j, A]
    X[i, j, A] += rule[A, B, C] * X[i, k, B] * X[k, j, C]
    Z[()] += X[0, p.n, 0]


@recursion
def doubled(p: Any) -> None:
    """An item that a rule has twice."""
    i, j, k = p.positions("i j k")
    X, Y, Z = p.items("X Y Z")
    w = p.weights("w")
    X[i, i] += w[i, i]
    X[i, j] += w[i, j] * X[i, k] * X[k + 1, j]
    Y[i, j] += X[i, j] * X[i, j]
    Z[()] += Y[1, p.n]


def charts() -> list[Chart]:
    rng = np.random.default_rng(0)
    rules = rng.random((2, 2, 2))
    rules[0, 1, 0] = 0.0  # impossible
    words = rng.random((5, 2))
    return [
        Chart(cky(), {"word": words, "rule": rules}, 4, sizes={"S": 2}, symbols={"S": ["NP", "VP"]}),
        Chart(doubled(), {"w": rng.random((4, 4))}, 3),
    ]


@pytest.mark.parametrize("chart", charts(), ids=["cky", "doubled"])
def test_values_are_sums_over_derivations(chart: Chart) -> None:
    """Of each item by itself; and Z by sums over derivations with a gap, which are derivatives by a bonus."""
    grounded = Grounded(chart.recursion, chart.n, sizes={"S": 2})
    weights = {name: lambda *at, name=name: chart.weights.get((name, at), 0.0) for name, _ in chart.weights}
    values = grounded.values(Derivations(), weights)
    inside = chart.inside()
    assert {key for key, own in values.items() if sum(v for v, _ in own) > 0} >= set(inside)
    for key, value in inside.items():
        assert np.isclose(value, sum(v for v, _ in values[key]), rtol=1e-12)
    outside = chart.outside()
    for key in inside:
        assert np.isclose(outside[key], _derivative(chart, key), rtol=1e-6)
    assert np.isclose(chart.marginals()[chart.goal], 1.0)


def _derivative(chart: Chart, key: Any, step: float = 1e-6) -> float:
    """Of Z by a number that is added to one item."""
    found = []
    for sign in (-1, 1):
        values: dict[Any, float] = {}
        for item, own in chart.instances.items():
            values[item] = sign * step * (item == key)
            for x in own:
                values[item] += np.prod([chart.weights[w] for w in x.weights] + [values[y] for y in x.items])
        found.append(values[chart.goal])
    return (found[1] - found[0]) / (2 * step)


def test_items_stand_in_an_order_of_filling() -> None:
    """Each after those that it is made of, short spans first and from left to right."""

    @recursion
    def any_span(p: Any) -> None:
        i, j = p.positions("i j")
        X, Y, Z = p.items("X Y Z")
        w = p.weights("w")
        Y[i, j] += X[i, j]
        X[i, j] += w[i, j] * (i <= j)
        Z[()] += Y[1, p.n]

    spans = [(1, 1), (2, 2), (3, 3), (1, 2), (2, 3), (1, 3)]
    expected = [(name, at) for at in spans for name in "XY"]
    assert [*Chart(any_span(), {"w": np.ones((4, 4))}, 3).instances] == [*expected, ("Z", ())]


def test_marginals_of_dependency_trees() -> None:
    """IR[i, j] is in a tree that has the arc from i to j: by all trees of four words."""
    torch.manual_seed(0)
    trees = ProjectiveDependencyTree(torch.randn(2, 5, 5))
    support = trees.enumerate_support()
    for b in range(2):
        marginals = trees.chart(b).marginals()
        p = trees.log_prob(support)[:, b].exp()
        for head, dependent in [(1, 2), (1, 4), (2, 3), (4, 1), (3, 2)]:
            has_arc = support[:, b, dependent - 1] == head
            name = "IR" if head < dependent else "IL"
            at = min(head, dependent), max(head, dependent)
            assert torch.isclose(p[has_arc].sum(), torch.tensor(marginals[name, at]))


def test_every_kind_of_derivation() -> None:
    """The goal is the partition function, which other tests compare with enumeration."""
    torch.manual_seed(1)
    cfg = pyrogram.CFG.from_string(
        "S -> NP VP\nNP -> 'she' | 'fish' | NP PP\nVP -> V NP | V NP PP\nPP -> 'with' NP\nV -> 'eats'"
    )
    words = cfg.encode([["she", "eats", "fish", "with", "fish"]])
    dmv, hmm = pyrogram.DMV(num_tags=3), pyrogram.HMM(2, 3)
    tags = torch.tensor([[0, 2, 1, -1]])
    found = [
        cfg.derivation(cfg.initial_weights(words, "random"), words),
        dmv.derivation(dmv.initial_weights(tags, "random"), tags),
        hmm.derivation(hmm.initial_weights(tags, "random"), tags),
        pyrogram.distributions.SpanTree(torch.randn(4, 5)),
        pyrogram.distributions.Segmentation(torch.randn(4, 2)),
        pyrogram.distributions.SiblingDependencyTree(torch.randn(4, 4), torch.randn(4, 4, 4)),
        pyrogram.distributions.GrandparentDependencyTree(torch.randn(4, 4), torch.randn(4, 4, 4)),
        pyrogram.distributions.HigherOrderChain(torch.randn(4, 2), torch.randn(3, 3, 2)),
    ]
    for derivation in found:
        chart = derivation.chart()
        assert np.isclose(chart.inside()[chart.goal], float(derivation.log_partition.exp()), rtol=1e-9), derivation
    texts = {found[0].chart().text(key) for key in (*found[0].chart().instances, *found[0].chart().weights)}
    assert {"X[1, 5, VP]", "VP → V NP PP", "T[3, 4, 'with']"} <= texts
    own = found[0].chart()
    assert own.marginals()["X", (2, 5, own.symbols["N"].index("NP"))] == pytest.approx(
        float(found[0].marginals()[0, 2, 5, cfg.nonterminals.index("NP")])
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the page's script")
@pytest.mark.parametrize("chart", charts(), ids=["cky", "doubled"])
def test_script_computes_the_same(chart: Chart, tmp_path: Path) -> None:
    page = viz.chart(chart).page
    sums = page[page.index("// ---- sums") : page.index("// ---- end of sums")]
    data = re.search(r"const chart = (.*);\n", page)
    assert data is not None
    program = (
        f"{sums}\nconst chart = {data[1]}, w = chart.weights.map(x => x.value), a = insideOf(chart.items, w);\n"
        "const b = outsideOf(chart.items, w, a, chart.goal), times = [];\n"
        "const rules = chart.items[chart.items.findLastIndex(x => x.rules.length > 1)].rules;\n"
        "for (let u = 0; u < 1000; u++) times.push(choose(rules, w, a, (u + 0.5) / 1000));\n"
        "console.log(JSON.stringify([a, b, times]));"
    )
    path = tmp_path / "sums.js"
    path.write_text(program)
    ran = subprocess.run(["node", path], capture_output=True, text=True, check=True)
    inside, outside, times = json.loads(ran.stdout)
    assert np.allclose(inside, list(chart.inside().values()), rtol=1e-12)
    assert np.allclose(outside, list(chart.outside().values()), rtol=1e-12)
    chosen = np.bincount([k for k, _ in times]) / 1000
    p = np.zeros(len(chosen))
    for k, own in times:
        p[k] = own
    assert np.isclose(p.sum(), 1.0, atol=1e-3)  # one that is never chosen is as rare as that
    assert np.allclose(p, chosen, atol=2e-3)


def test_page_is_whole_and_safe() -> None:
    drawing = viz.chart(ProjectiveDependencyTree(torch.zeros(4, 4)), forms=["</script>", "<b>", '"&'])
    assert drawing.page.count("</script>") == 1
    assert "http" not in drawing.page.replace("http://www.w3.org/2000/svg", "")  # nothing is fetched
    shown = drawing._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<b>" not in shown
    assert repr(drawing) == "<ChartDrawing: 19 items, 25 instances of rules, Z = 7>"


def test_without_derivation(tmp_path: Path) -> None:
    trees = ProjectiveDependencyTree(torch.full((4, 4), -torch.inf))
    assert trees.chart().goal not in trees.chart().instances
    assert trees.chart().marginals() == {}
    path = viz.chart(trees).save(tmp_path / "chart.html")
    assert '"goal": -1' in path.read_text(encoding="utf-8")


def test_refusals() -> None:
    two = ProjectiveDependencyTree(torch.zeros(2, 4, 4))
    with pytest.raises(ValueError, match=r"the batch has shape \(2,\); say which one, as in chart\(0\)"):
        viz.chart(two)
    with pytest.raises(ValueError, match="forms must be 3 words, as many as the sentence has, not 2"):
        viz.chart(two, sentence=1, forms=["a", "b"])
    with pytest.raises(TypeError, match="DependencyTree is not computed by a recursion over spans"):
        viz.chart(DependencyTree(torch.zeros(4, 4)))
    with pytest.raises(TypeError, match="the chart of a recursion needs weights and n"):
        viz.chart(doubled())
    with pytest.raises(TypeError, match="takes no n"):
        viz.chart(two, n=3)
    with pytest.raises(TypeError, match="not int"):
        viz.chart(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"weights must be non-negative and finite, but w\[1, 1\] is -1"):
        viz.chart(doubled(), {"w": lambda i, j: -1.0}, 2)
    with pytest.raises(ValueError, match="the chart of 90 words by .* has more than the 20000 instances of rules"):
        viz.chart(ProjectiveDependencyTree(torch.zeros(91, 91)))
