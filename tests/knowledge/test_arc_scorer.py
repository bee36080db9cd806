# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Features of arcs against loops over the words of a sentence; scores, gradients and training against plain torch."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from oracle import all_trees
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

from pyrogram import Corpus
from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.knowledge import (
    UNIVERSAL_TAGS,
    ArcScorer,
    Examples,
    Sources,
    examples_of,
    grammar_of,
)
from pyrogram.knowledge.scorer.features import TEMPLATES, features
from pyrogram.models.arc_scorer import arc_scorer

SENTENCES = ["DET NOUN , VERB ADP NOUN", "VERB CCONJ AUX , ADJ , NUM PRON SCONJ ADV VERB", "INTJ", "NOUN X"]
BITS = 20


def sentences() -> Examples:
    """SENTENCES, where a comma is a mark of punctuation, with probabilities of arcs that fall into all bins."""
    tags = [s.split() for s in SENTENCES]
    corpus = Corpus.from_sentences([["PUNCT" if t == "," else t for t in s] for s in tags], tags="upos")
    number = torch.tensor([UNIVERSAL_TAGS.index(tag) for tag in corpus.vocab] + [-1])
    n = corpus.words.shape[1]
    there = torch.arange(n + 1) <= corpus.lengths[:, None]
    p = torch.rand(4, n + 1, n + 1) ** 4 * there[:, None] * there[:, :, None]
    return Examples(number[corpus.words], corpus.segments, p, draw_heads(corpus.lengths))


def draw_heads(lengths: Tensor) -> Tensor:
    n = int(lengths.max())
    return ProjectiveDependencyTree(torch.zeros(len(lengths), n + 1, n + 1), lengths=lengths).sample()


def bin_of(value: float, bounds: tuple[float, ...]) -> int:
    return sum(value >= bound for bound in bounds)


def seen(sentence: str, p: Tensor, h: int, d: int) -> list[tuple[object, ...]]:
    """What each template sees of the arc from h to d, by the words of the documentation; p is of the sentence alone."""
    marks, tags, number = [0], ["ROOT"], 0
    for token in sentence.split():
        if token == ",":
            number += 1
        else:
            tags.append(token)
            marks.append(number)
    n = len(tags) - 1

    def tag(i: int) -> str:
        return tags[i] if 0 < i <= n else "ROOT" if i <= 0 else "end"

    def side(i: int, name: str) -> tuple[str, ...]:
        places = {"": [], "t": [0], "l": [-1, 0], "r": [0, 1], "lr": [-1, 0, 1], "ll": [-2, -1, 0], "rr": [0, 1, 2]}
        if name == "ends":
            return tag(i), "ROOT" if i == 0 else f"{i == 1} {i == n}"
        return tuple(tag(i + k) for k in places[name])

    def edge(i: int) -> tuple[bool, bool]:
        """Before and after."""
        before = i > 0 and (i == 1 or marks[i] != marks[i - 1])
        return before, i == 0 or i == n or marks[i] != marks[i + 1]

    inside = range(min(h, d) + 1, max(h, d))
    kinds = ("VERB AUX", "NOUN PROPN PRON", "ADP", "CCONJ SCONJ")
    best, own = float(p[: n + 1, d].max()), float(p[h, d])
    pair = {
        "dist": bin_of(abs(h - d), (2, 3, 4, 5, 7, 10, 15, 25)),
        "marks": min(3, abs((marks[h] if h else 0) - marks[d])),
        "between": tuple(any(tags[i] in kind.split() for i in inside) for kind in kinds),
        "edges": (edge(h), edge(d)),
        "post": bin_of(own, (0.001, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)),
        "rank": "best" if own == best else "half" if own >= best / 2 else "no",
    }
    return [
        (k, side(h, head), side(d, dependent), h < d, *(pair[x] for x in both.split()))
        for k, (head, dependent, both) in enumerate(TEMPLATES)
    ]


def places(examples: Examples) -> np.ndarray[Any, Any]:
    """The number of the weight of every feature, by the formula, (B, n+1, n+1, K)."""
    x = features(*examples.inputs, BITS)
    code = x.heads[:, :, None] + x.dependents[:, None] + x.pairs[..., x.codes] * x.odd
    return np.asarray((code.astype(np.uint64) >> np.uint64(64 - BITS)).astype(np.int64))


def arcs(examples: Examples) -> list[tuple[int, int, int]]:
    return [
        (b, h, d)
        for b, n in enumerate(examples.lengths.tolist())
        for h in range(n + 1)
        for d in range(1, n + 1)
        if h != d
    ]


def test_templates_are_as_many_as_documented() -> None:
    assert len(TEMPLATES) == len(set(TEMPLATES)) == 41


def test_features_are_equal_exactly_where_loops_see_the_same() -> None:
    examples = sentences()
    number = places(examples)
    by_sight, by_place = defaultdict(set), defaultdict(set)
    for b, h, d in arcs(examples):
        for k, sight in enumerate(seen(SENTENCES[b], examples.posterior[b], h, d)):
            by_sight[sight].add(int(number[b, h, d, k]))
            by_place[int(number[b, h, d, k])].add(sight)
    assert all(len(found) == 1 for found in by_sight.values())
    several = sum(len(found) > 1 for found in by_place.values())  # chance: some 3,000 features on 2^20 places
    assert len(by_sight) > 2000 and several <= 12


def test_scores_are_sums_of_weights() -> None:
    examples, scorer = sentences(), ArcScorer(BITS, torch.randn(2**BITS))
    number, scores = places(examples), scorer(*examples.inputs)
    expected = torch.zeros_like(scores)
    for b, h, d in arcs(examples):
        expected[b, h, d] = sum(scorer.weights[i] for i in number[b, h, d])
    torch.testing.assert_close(scores, expected)


def test_a_sentence_has_the_same_scores_alone() -> None:
    examples, scorer = sentences(), ArcScorer(BITS, torch.randn(2**BITS))
    scores = scorer(*examples.inputs)
    for b, n in enumerate(examples.lengths.tolist()):
        alone = scorer(*examples[b : b + 1].inputs)
        torch.testing.assert_close(alone[0], scores[b, : n + 1, : n + 1])


def test_gradients_are_those_of_torch() -> None:
    """log p(tree) with weights looked up by torch."""
    examples, w = sentences(), torch.randn(2**BITS) * 0.3
    scorer = ArcScorer(BITS, w.clone())
    scorer.trees(examples).log_prob(examples.heads).sum().backward()
    plain = w.clone().requires_grad_()
    scores = plain[torch.from_numpy(places(examples))].sum(-1)
    ProjectiveDependencyTree(scores, lengths=examples.lengths).log_prob(examples.heads).sum().backward()
    torch.testing.assert_close(scorer.weights.grad, plain.grad)


def test_training_is_adagrad_on_trees_less_their_probabilities() -> None:
    """One batch, arc by arc; probabilities from all trees of the sentences, listed."""
    torch.set_default_dtype(torch.float64)
    whole = sentences()
    examples = whole[torch.tensor([0, 2, 3])]
    w, squares, rate = torch.randn(2**BITS) * 0.3, torch.rand(2**BITS), 0.1
    new = ArcScorer(BITS, w.clone(), ["aa_old"], squares.clone()).fitted({"bb": examples}, rate=rate, progress=False)
    order = examples.lengths.argsort(stable=True)
    ordered = examples[order]
    number = places(ordered)
    scores = w[torch.from_numpy(number)].sum(-1)
    gradient = torch.zeros_like(scores)
    assert ordered.heads is not None
    for b, n in enumerate(ordered.lengths.tolist()):
        trees = [list(heads) for heads in all_trees(n, False)]
        p = torch.stack([sum(scores[b, h, d] for d, h in enumerate(t, 1)) for t in trees]).softmax(0)  # type: ignore[arg-type]
        for tree, share in zip([*trees, ordered.heads[b, :n].tolist()], [*(-p), torch.tensor(1.0)], strict=True):
            for d, h in enumerate(tree, 1):
                gradient[b, h, d] += share
    for b, h, d in arcs(ordered):
        if abs(g := float(gradient[b, h, d])) >= 1e-3:
            for i in number[b, h, d]:
                squares[i] += g * g
                w[i] += rate * g / squares[i].sqrt()
    torch.testing.assert_close(new.weights.data, w)
    torch.testing.assert_close(new.squares, squares)
    assert new.treebanks == ("aa_old", "bb") and new.languages == ("aa", "bb")


def treebanks() -> dict[str, Corpus]:
    """Two languages with the same words and other orders, and a tree with crossing arcs."""
    right = [["DET", "NOUN", "VERB", "NOUN"], ["NOUN", "VERB"], ["PRON", "VERB", "DET", "NOUN"]]
    heads = [[2, 3, 0, 3], [2, 0], [2, 0, 4, 2]]
    left = [s[::-1] for s in right] + [["NOUN", "VERB", "ADJ", "ADV"]]
    back = [[len(t) + 1 - h if h else 0 for h in t[::-1]] for t in heads] + [[3, 0, 2, 1]]
    return {
        "aa_one": Corpus.from_sentences(right, heads=heads, tags="upos"),
        "bb_one": Corpus.from_sentences(left, heads=back, tags="upos"),
    }


def test_arcs_of_a_treebank_are_of_a_grammar_without_its_language() -> None:
    banks = treebanks()
    found = examples_of(banks, progress=False)
    assert {name: len(examples) for name, examples in found.items()} == {"aa_one": 3, "bb_one": 3}
    grammar = grammar_of(banks["aa_one"], Sources.count({"bb_one": banks["bb_one"]}))
    torch.testing.assert_close(found["aa_one"].posterior, grammar.marginals(banks["aa_one"]).float())
    assert found["aa_one"].words[1].tolist() == [UNIVERSAL_TAGS.index("NOUN"), UNIVERSAL_TAGS.index("VERB"), -1, -1]
    assert found["aa_one"].heads is not None and found["aa_one"].heads.equal(banks["aa_one"].heads)


def test_treebanks_without_a_tree_to_learn_from_are_left_out() -> None:
    crossing = Corpus.from_sentences([["NOUN", "VERB", "ADJ", "ADV"]], heads=[[3, 0, 2, 1]], tags="upos")
    assert list(examples_of(treebanks() | {"cc_one": crossing}, progress=False)) == ["aa_one", "bb_one"]
    assert len(examples_of(treebanks(), max_length=2, progress=False)["aa_one"]) == 1


def test_training_learns_the_same_from_the_same_seed() -> None:
    banks = treebanks()
    one, two = (ArcScorer.fit(banks, num_bits=12, num_epochs=5, progress=False) for _ in range(2))
    assert one.weights.equal(two.weights) and one.treebanks == ("aa_one", "bb_one")
    examples = examples_of(banks, progress=False)["aa_one"]
    assert one.parse(examples).equal(examples.heads)


def test_a_file_gives_the_scorer_back(tmp_path: Path) -> None:
    scorer = ArcScorer.fit(treebanks(), num_bits=12, progress=False)
    path = tmp_path / "scorer.safetensors"
    for saved in (scorer, scorer.pruned(50)):
        saved.save(path)
        loaded = ArcScorer.load(path)
        assert loaded.weights.equal(saved.weights) and loaded.treebanks == saved.treebanks
        assert (loaded.squares is None) == (saved.squares is None)
        assert loaded.squares is None or loaded.squares.equal(scorer.squares)
    assert 50 <= int((loaded.weights != 0).sum()) <= 60  # some are as great as the fiftieth
    assert float(loaded.weights.detach().abs().max()) == pytest.approx(
        float(scorer.weights.detach().abs().max()), rel=1e-3
    )
    assert path.stat().st_size < 2**12 / 8 + 2 * 60 + 500
    Sources.count(treebanks()).save(path)
    with pytest.raises(ValueError, match="is no file of ArcScorer.save"):
        ArcScorer.load(path)
    path.write_text("no tensors")
    with pytest.raises(ValueError, match="is not a file of an arc scorer .*; give one that ArcScorer.save wrote"):
        ArcScorer.load(path)


def test_bad_input_is_one_sentence() -> None:
    examples = sentences()
    with pytest.raises(ValueError, match=r"num_bits must be from 1 to 30, not 31\."):
        ArcScorer(31)
    with pytest.raises(ValueError, match=r"weights must have shape \(4,\), not \(3,\)\."):
        ArcScorer(2, torch.zeros(3))
    with pytest.raises(ValueError, match=r"segments must have shape \(4, 9\), as words say, not \(4, 3\)\."):
        Examples(examples.words, examples.segments[:, :3], examples.posterior)
    words, segments, posterior = examples.inputs
    gap = words.clone()
    gap[0, 0] = -1
    for given, said in (
        ((words + 16, segments, posterior), r"words must be one or more of 0\.\.15"),
        ((gap, segments, posterior), r"words must be one or more of 0\.\.15"),
        ((words, segments[:1], posterior), r"segments must have shape \(4, 9\)"),
        ((words, segments, posterior[:1]), r"posterior must have shape \(4, 10, 10\)"),
        ((words, segments, posterior * torch.nan), "posterior must be probabilities of arcs"),
        ((words, segments, posterior - 1), "posterior must be probabilities of arcs"),
    ):
        with pytest.raises(ValueError, match=said):
            ArcScorer(4)(*given)
    with pytest.raises(ValueError, match="expected decoder to be one of 'viterbi', 'mbr', actual 'best'"):
        ArcScorer(4).parse(examples, "best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="treebank 'x' has no heads"):
        ArcScorer(4).fitted({"x": Examples(*examples.inputs)}, progress=False)
    with pytest.raises(ValueError, match="need at least one sentence and one epoch, and a rate above 0, not 0, 1 and"):
        ArcScorer(4).fitted({}, progress=False)
    with pytest.raises(ValueError, match="must have universal tags, but has DT, NN; read it with tags='upos'"):
        Examples.of(Corpus.from_sentences([["DT", "NN"]]), None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="treebank 'aa_one' has no heads"):
        examples_of({"aa_one": Corpus.from_sentences([["NOUN"]], tags="upos")}, Sources.shipped(), progress=False)


def test_the_model_has_the_density_of_trees_and_prior() -> None:
    examples, scorer = sentences(), ArcScorer(6, torch.randn(64))
    args = (scorer, examples.inputs, examples.lengths, examples.heads)
    w = torch.randn(64)
    trace = pyro.poutine.trace(pyro.poutine.condition(arc_scorer, {"weights": w})).get_trace(*args, scale=2.0)
    moved = ArcScorer(6, w.clone())
    expected = torch.distributions.Normal(0.0, 2.0).log_prob(w).sum()
    expected = expected + moved.trees(examples).log_prob(examples.heads).sum()
    torch.testing.assert_close(trace.log_prob_sum(), expected)
    trace = pyro.poutine.trace(arc_scorer).get_trace(*args)
    torch.testing.assert_close(trace.log_prob_sum(), scorer.trees(examples).log_prob(examples.heads).sum())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scale", [None, 1.0])
def test_svi_learns_the_weights(scale: float | None) -> None:
    examples = examples_of(treebanks(), progress=False)["aa_one"]
    args = (ArcScorer(8, torch.zeros(256)), examples.inputs, examples.lengths, examples.heads)
    guide = AutoDelta(arc_scorer) if scale else lambda *args, **options: None
    svi = SVI(arc_scorer, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())  # type: ignore[attr-defined]
    for _ in range(20):
        svi.step(*args, scale=scale, batch_size=2)
    learnt = pyro.param("AutoDelta.weights") if scale else pyro.param("scorer$$$weights")
    assert ArcScorer(8, learnt.detach()).parse(examples).equal(examples.heads)
