# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The DMV on paper: tiny sentences, multiplied out."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from oracle import all_trees, events
from pyro.infer import MCMC, NUTS

from pyrogram import DMV
from pyrogram.charts.dmv import dmv
from pyrogram.charts.projective import log_partition
from pyrogram.charts.trees import projective_trees
from pyrogram.distributions import Sentence
from pyrogram.recursion import Grounded, InvalidRecursion, Reals

LEFT, RIGHT = 0, 1
CONTINUE, STOP = 0, 1
FIRST, LATER = 0, 1


def random_weights(grammar, *batch):
    return {name: block.normalize(0.2 + torch.rand(*batch, *block.shape)) for name, block in grammar.blocks.items()}


def tables(grammar):
    """Weights, and how to write them: r(c), a(h, d, v, c), go(h, d, v), end(h, d, v)."""
    w = random_weights(grammar)
    attach = w["attach"] if grammar.valence_attach else w["attach"][:, :, None].expand(-1, -1, 2, -1)
    return (
        w,
        lambda c: w["root"][c],
        lambda h, d, v, c: attach[h, d, v, c],
        lambda h, d, v: w["stop"][h, d, v, CONTINUE],
        lambda h, d, v: w["stop"][h, d, v, STOP],
    )


GRAMMARS = [DMV(3), DMV(3, valence_attach=True), DMV(3, num_valences=1), DMV(3, valence_attach=True, num_valences=3)]
both = pytest.mark.parametrize("grammar", GRAMMARS[:2], ids=repr)


@both
def test_one_word(grammar):
    w, r, _, _, end = tables(grammar)
    expected = r(2) * end(2, LEFT, FIRST) * end(2, RIGHT, FIRST)
    torch.testing.assert_close(Sentence(grammar, w).log_prob(torch.tensor([2])).exp(), expected)


@both
def test_two_words(grammar):
    w, r, a, go, end = tables(grammar)
    x, y = 1, 0
    childless = {t: end(t, LEFT, FIRST) * end(t, RIGHT, FIRST) for t in (x, y)}
    x_heads = r(x) * end(x, LEFT, FIRST) * go(x, RIGHT, FIRST) * a(x, RIGHT, FIRST, y) * end(x, RIGHT, LATER)
    y_heads = r(y) * end(y, RIGHT, FIRST) * go(y, LEFT, FIRST) * a(y, LEFT, FIRST, x) * end(y, LEFT, LATER)
    d = grammar.derivation(w, torch.tensor([x, y]))
    torch.testing.assert_close(d.log_partition.exp(), x_heads * childless[y] + y_heads * childless[x])
    joint = (d.log_prob(torch.tensor([[0, 1], [2, 0]])) + d.log_partition).exp()
    torch.testing.assert_close(joint, torch.stack([x_heads * childless[y], y_heads * childless[x]]))


@both
def test_three_words(grammar):
    w, r, a, go, end = tables(grammar)
    x, y, z = 0, 1, 2
    leaf = {t: end(t, LEFT, FIRST) * end(t, RIGHT, FIRST) for t in (x, y, z)}

    def one(h, d, c):
        """A head with one child, on one side; it has none on the other."""
        return end(h, 1 - d, FIRST) * go(h, d, FIRST) * a(h, d, FIRST, c) * end(h, d, LATER)

    def two(h, d, near, far):
        """A head with two children on the same side."""
        children = go(h, d, FIRST) * a(h, d, FIRST, near) * go(h, d, LATER) * a(h, d, LATER, far)
        return end(h, 1 - d, FIRST) * children * end(h, d, LATER)

    y_sides = [go(y, d, FIRST) * a(y, d, FIRST, c) * end(y, d, LATER) for d, c in ((LEFT, x), (RIGHT, z))]
    trees = {
        (0, 1, 1): r(x) * two(x, RIGHT, y, z) * leaf[y] * leaf[z],
        (0, 1, 2): r(x) * one(x, RIGHT, y) * one(y, RIGHT, z) * leaf[z],
        (0, 3, 1): r(x) * one(x, RIGHT, z) * one(z, LEFT, y) * leaf[y],
        (2, 0, 2): r(y) * y_sides[0] * y_sides[1] * leaf[x] * leaf[z],
        (3, 3, 0): r(z) * two(z, LEFT, y, x) * leaf[y] * leaf[x],
        (2, 3, 0): r(z) * one(z, LEFT, y) * one(y, LEFT, x) * leaf[x],
        (3, 1, 0): r(z) * one(z, LEFT, x) * one(x, RIGHT, y) * leaf[y],
    }
    words = torch.tensor([x, y, z])
    d = grammar.derivation(w, words)
    joint = (d.log_prob(torch.tensor(list(trees))) + d.log_partition).exp()
    torch.testing.assert_close(joint, torch.stack(list(trees.values())))
    torch.testing.assert_close(Sentence(grammar, w).log_prob(words).exp(), torch.stack(list(trees.values())).sum())


@pytest.mark.parametrize(("words", "heads", "side"), [([0, 1, 2, 3], [0, 1, 1, 1], 1), ([3, 2, 1, 0], [4, 4, 4, 0], 0)])
def test_the_first_child_is_the_nearest(words, heads, side):
    """Tag 0 takes tag 1 as first child only, and tags 2 and 3 only later: counted from outside it is impossible."""
    grammar = DMV(4, valence_attach=True)
    w = random_weights(grammar)
    w["attach"][0, side, FIRST] = torch.tensor([0.0, 1.0, 0.0, 0.0])
    w["attach"][0, side, LATER] = torch.tensor([0.0, 0.0, 0.75, 0.25])
    words, heads = torch.tensor(words), torch.tensor(heads)
    d = grammar.derivation(w, words)
    s = w["stop"]
    leaves = [s[t, side_of, FIRST, STOP] for t in (1, 2, 3) for side_of in (LEFT, RIGHT)]
    own = w["root"][0] * s[0, 1 - side, FIRST, STOP] * s[0, side, FIRST, CONTINUE] * s[0, side, LATER, CONTINUE] ** 2
    expected = own * s[0, side, LATER, STOP] * 0.75 * 0.25 * torch.stack(leaves).prod()
    torch.testing.assert_close((d.log_prob(heads) + d.log_partition).exp(), expected)
    w["attach"][0, side] = w["attach"][0, side].flip(0)
    outside_in = grammar.derivation(w, words)
    assert outside_in.log_prob(heads) == -torch.inf


@both
def test_counts_of_one_tree(grammar):
    words, heads = torch.tensor([[0, 1, 1, 2]]), torch.tensor([[0, 1, 1, 3]])
    counts = grammar.counts(words, heads)
    assert counts["root"].tolist() == [[1, 0, 0]]
    attach = counts["attach"][0] if grammar.valence_attach else counts["attach"][0][:, :, None]
    assert attach[0, RIGHT, :, 1].tolist() == ([1, 1] if grammar.valence_attach else [2])
    assert attach[1, RIGHT, 0, 2] == 1 and attach.sum() == 3
    stop = counts["stop"][0]
    assert stop[0].tolist() == [[[0, 1], [0, 0]], [[1, 0], [1, 1]]]
    assert stop[1].tolist() == [[[0, 2], [0, 0]], [[1, 1], [0, 1]]]
    assert stop[2].tolist() == [[[0, 1], [0, 0]], [[0, 1], [0, 0]]]


def test_counts_of_a_tree_that_crosses():
    grammar = DMV(2)
    counts = grammar.counts(torch.tensor([[0, 1, 0, 1]]), torch.tensor([[3, 4, 0, 3]]))
    assert counts["root"].tolist() == [[1, 0]] and counts["attach"].sum() == 3
    assert counts["attach"][0, 0, LEFT].tolist() == [1, 0] and counts["attach"][0, 1, LEFT].tolist() == [0, 1]


@both
def test_sampled_trees_follow_the_joint(grammar):
    w = random_weights(grammar)
    words, heads = grammar.sample_trees(w, (4000,), max_length=6)
    assert ((words >= 0) == (heads >= 0)).all()
    assert words.dtype == heads.dtype == torch.int64
    d = grammar.derivation(w, words)
    assert d.support.check(heads).all()
    # Given the words, heads are as the posterior says: the mean of the counts agrees within Monte Carlo error.
    counted, expected = d.counts(heads), d.expected_counts()
    for name in grammar.blocks:
        difference = (counted[name] - expected[name]).flatten(1)
        error = difference.std(0) / len(words) ** 0.5
        assert (difference.mean(0).abs() <= 5 * error + 1e-12).all()


def test_long_sentences_in_single_precision():
    grammar = DMV(20)
    w = {name: v.float().log().requires_grad_() for name, v in random_weights(grammar).items()}
    words = torch.randint(20, (3, 200))
    words[1, 150:] = -1
    log_z = grammar.log_partition(w, words)
    gradients = torch.autograd.grad(log_z.sum(), list(w.values()))
    assert log_z.isfinite().all() and all(g.isfinite().all() for g in gradients)
    exact = grammar.log_partition({name: v.detach().double() for name, v in w.items()}, words)
    torch.testing.assert_close(log_z.double(), exact, rtol=1e-5, atol=0.0)
    assert gradients[1].sum().item() == pytest.approx(200 + 150 + 200 - 3, rel=1e-4)


@both
def test_vmap_over_each_block_and_over_words(grammar):
    w = {name: v.log() for name, v in random_weights(grammar, 4).items()}
    words = torch.tensor([[0, 1, 2], [2, 1, -1]])
    first = {name: v[0] for name, v in w.items()}

    def log_z(value, name):
        return grammar.log_partition({**first, name: value}, words).sum()

    for name in grammar.blocks:
        by_vmap = torch.func.vmap(torch.func.grad(lambda value, name=name: log_z(value, name)))(w[name])
        looped = [grammar.expected_counts({**first, name: v}, words)[1][name] for v in w[name]]
        torch.testing.assert_close(by_vmap, torch.stack(looped))


def test_weights_in_single_precision_are_summed_in_double_precision():
    """Log Z, counts and derivatives are those of the same weights as float64, rounded once."""
    grammar, words = DMV(3), torch.randint(3, (40, 12))
    singles = {name: w.log().float() for name, w in grammar.initial_weights(words, "random", seed=0).items()}
    doubles = {name: w.double() for name, w in singles.items()}
    for tables in (singles, doubles):
        for w in tables.values():
            w.requires_grad_()
    log_z, exact = grammar.log_partition(singles, words), grammar.log_partition(doubles, words)
    assert torch.equal(log_z, exact.float())
    log_z.sum().backward()
    (_, single_counts), (_, counts) = (grammar.expected_counts(tables, words) for tables in (singles, doubles))
    for name, w in singles.items():
        assert w.grad.dtype == single_counts[name].dtype == torch.float32
        assert torch.equal(single_counts[name], counts[name].float()) and torch.equal(w.grad, counts[name].float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    grammar = DMV(2)
    w = random_weights(grammar)
    words = torch.tensor([[0, 1, 0], [1, -1, -1]])
    half = Sentence(grammar, {name: v.to(dtype) for name, v in w.items()}).log_prob(words)
    assert half.dtype == dtype
    torch.testing.assert_close(half.double(), Sentence(grammar, w).log_prob(words), rtol=0.05, atol=0.05)


def test_expected_counts_by_the_torch_engine():
    grammar = DMV(2)
    w = {name: v.log() for name, v in random_weights(grammar).items()}
    words = torch.tensor([[0, 1, 0], [1, -1, -1]])
    half = {name: v.to(torch.bfloat16) for name, v in w.items()}
    log_z, counts = grammar.expected_counts(half, words)
    expected_log_z, expected = grammar.expected_counts(w, words)
    torch.testing.assert_close(log_z.double(), expected_log_z, rtol=0.05, atol=0.05)
    for name in counts:
        torch.testing.assert_close(counts[name].double(), expected[name], rtol=0.1, atol=0.05)


def test_derivations_enumerated_by_the_oracle():
    """The posterior from nothing but the definition: products over events."""
    grammar = DMV(3, valence_attach=True)
    w, r, a, go, end = tables(grammar)
    words = [2, 0, 0, 1]
    joint = []
    for heads in all_trees(4, False):
        arcs, stops = events(heads)
        p = torch.ones(())
        for h, c, v in arcs:
            child = words[c - 1]
            direction = int(c > h)
            head = words[h - 1]
            p = p * (r(child) if h == 0 else go(head, direction, v) * a(head, direction, v, child))
        for h, direction, v in stops:
            p = p * end(words[h - 1], direction, v)
        joint.append(p)
    joint = torch.stack(joint)
    d = grammar.derivation(w, torch.tensor(words))
    torch.testing.assert_close(d.log_partition.exp(), joint.sum())  # type: ignore[attr-defined]
    torch.testing.assert_close(d.log_prob(torch.tensor(all_trees(4, False))).exp(), joint / joint.sum())  # type: ignore


@pytest.mark.slow
def test_nuts_agrees_with_importance_sampling():
    grammar = DMV(2)
    words = torch.tensor([[0, 1, 1], [1, -1, -1], [0, 1, -1]])

    def prior():
        return {
            name: pyro.sample(name, dist.Dirichlet(2 * torch.ones(block.shape)).to_event(block.batch_dim))
            for name, block in grammar.blocks.items()
        }

    def model():
        weights = prior()
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    mcmc = MCMC(NUTS(model, max_tree_depth=4), num_samples=200, warmup_steps=60, disable_progbar=True)
    mcmc.run()
    with pyro.plate("draws", 50_000, dim=-1):
        drawn = prior()
    log_likelihood = Sentence(grammar, {name: w[:, None] for name, w in drawn.items()}).log_prob(words).sum(-1)
    importance = log_likelihood.softmax(0)
    effective = 1 / (importance**2).sum()
    assert effective > 1000
    for name, samples in mcmc.get_samples().items():
        mean = torch.tensordot(importance, drawn[name], 1)
        prior_mean = drawn[name].mean(0)
        # 200 correlated draws are worth at least 40 independent ones.
        error = samples.std(0) * (1 / 40 + 1 / effective) ** 0.5
        assert ((samples.mean(0) - mean).abs() < 4 * error).all()
        if name == "stop":  # the test has power: the posterior is not the prior
            assert ((mean - prior_mean).abs() > 4 * samples.std(0) / 200**0.5).any()


def test_nuts_runs():
    grammar = DMV(2)
    words = torch.tensor([[0, 1], [1, -1]])

    def model():
        weights = {
            name: pyro.sample(name, dist.Dirichlet(torch.ones(block.shape)).to_event(block.batch_dim))
            for name, block in grammar.blocks.items()
        }
        with pyro.plate("sentences", 2):
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    mcmc = MCMC(NUTS(model, max_tree_depth=2), num_samples=2, warmup_steps=2, disable_progbar=True)
    mcmc.run()
    assert mcmc.get_samples()["stop"].shape == (2, 2, 2, 2, 2)


def test_tags_must_be_there():
    with pytest.raises(ValueError, match="num_tags must be at least 1, not 0"):
        DMV(0)
    assert repr(DMV(3, valence_attach=True)) == "DMV(3, valence_attach=True)"


def test_posteriors_under_weights_of_all_magnitudes():
    """Unnormalised: Z is huge, though the root has hardly any weight to stop on its left."""
    grammar = DMV(2)
    weights = {name: torch.ones(block.shape, dtype=torch.float64) for name, block in grammar.blocks.items()}
    weights["root"] = torch.tensor([1e150, 1e-100], dtype=torch.float64)
    weights["attach"][0, 1, 1] = 1e150
    weights["stop"][0, 1, 0, 0] = 1e74
    weights["stop"][0, 0, 0, 1] = 1e-130
    words = torch.tensor([[0, 1]])
    log_z, counts = grammar.expected_counts({name: w.log() for name, w in weights.items()}, words)
    torch.testing.assert_close(log_z, torch.tensor([244 * math.log(10)], dtype=torch.float64))
    derivation = grammar.derivation(weights, words)
    for name, expected in derivation.expected_counts().items():
        torch.testing.assert_close(counts[name], expected[0])
    assert counts["root"].tolist() == pytest.approx([1.0, 0.0])


@pytest.mark.one_in(4)
@both
def test_long_sentences_as_the_interpreter_has_them(grammar):
    """Columns are scaled from 13 words on; the interpreter knows nothing of that."""
    words = torch.randint(3, (10, 14), generator=torch.Generator().manual_seed(0))
    weights = random_weights(grammar)
    logs = {name: w.log() for name, w in weights.items()}
    log_z, counts = grammar.expected_counts(logs, words)
    torch.testing.assert_close(grammar.log_partition(logs, words), log_z)
    page, tables = dmv(valence_attach=grammar.valence_attach), {name: w.numpy() for name, w in weights.items()}
    for b in (0, 9):
        sentence = Grounded(page, n=14, sizes={"V": 3}, words={"w": words[b].tolist()})
        assert math.log(sentence.goal(Reals(), tables)) == pytest.approx(float(log_z[b]), rel=1e-10)
    arcs, stops = grammar.scores(logs, words)
    torch.testing.assert_close(log_partition(arcs, stops, engine="torch"), log_z)
    assert counts["root"].sum() == pytest.approx(10)
    assert counts["attach"].sum() == pytest.approx(10 * 13)


def by_hand(grammar: DMV, weights: dict[str, torch.Tensor], words: list[int], heads: list[int]) -> float:
    """The probability of a tree, head by head: children from the nearest outwards, then the stop."""
    n, most = len(words), grammar.num_valences - 1
    p = float(weights["root"][words[heads.index(0)]])
    for h in range(1, n + 1):
        for d, side in enumerate((range(h - 1, 0, -1), range(h + 1, n + 1))):
            children = [c for c in side if heads[c - 1] == h]
            for before, c in enumerate(children):
                v = min(before, most)
                attach = weights["attach"][words[h - 1], d]
                p *= float(weights["stop"][words[h - 1], d, v, 0])
                p *= float((attach[v] if grammar.valence_attach else attach)[words[c - 1]])
            p *= float(weights["stop"][words[h - 1], d, min(len(children), most), 1])
    return p


@pytest.mark.one_in(7)
@pytest.mark.parametrize("num_valences", [1, 2, 3, 4])
@pytest.mark.parametrize("valence_attach", [False, True])
def test_any_number_of_valences(num_valences: int, valence_attach: bool) -> None:
    """Log Z, the score of each tree, its events and the start from it, from trees that are listed."""
    torch.manual_seed(num_valences)
    grammar = DMV(2, valence_attach=valence_attach, num_valences=num_valences)
    weights = {name: block.normalize(0.1 + torch.rand(block.shape)) for name, block in grammar.blocks.items()}
    logs = {name: w.log() for name, w in weights.items()}
    for words in ([1], [0, 1], [1, 0, 0], [0, 1, 1, 0, 1]):
        sentence, trees = torch.tensor(words), projective_trees(len(words))
        joint = torch.tensor([by_hand(grammar, weights, words, heads) for heads in trees.tolist()]).log()
        law = grammar.derivation(weights, sentence)
        assert torch.allclose(law.log_prob(trees) + law.log_partition, joint, rtol=1e-10)
        assert torch.allclose(grammar.log_partition(logs, sentence), joint.logsumexp(0), rtol=1e-10)
        counted = grammar.counts(sentence.expand(len(trees), -1), trees)
        scores = sum((c * logs[name]).flatten(1).sum(-1) for name, c in counted.items())
        assert torch.allclose(torch.as_tensor(scores), joint, rtol=1e-10)
    start = grammar.initial_weights(torch.tensor([[0, 1, 1], [1, 0, -1]]))
    assert all(torch.allclose(block.totals(start[name]), torch.ones(())) for name, block in grammar.blocks.items())


def test_what_is_drawn_has_the_valences_of_the_model() -> None:
    """Three children on the right, no more and no fewer: only valences can say so."""
    grammar = DMV(2, num_valences=4)
    stop = torch.zeros(2, 2, 4, 2)
    stop[..., 1] = 1  # everybody stops at once
    stop[0, 1, :3] = torch.tensor([1.0, 0.0])  # but the first tag's three children on the right
    attach = torch.zeros(2, 2, 2)
    attach[..., 1] = 1
    weights = {"root": torch.tensor([1.0, 0.0]), "attach": attach, "stop": stop}
    words, heads = grammar.sample_trees(weights, (5,), 10)
    assert words[:, :5].tolist() == [[0, 1, 1, 1, -1]] * 5 and heads[:, :4].tolist() == [[0, 1, 1, 1]] * 5
    assert repr(grammar) == "DMV(2, num_valences=4)" and grammar.axes["stop"]["valence"] == ["0", "1", "2", "3"]
    with pytest.raises(ValueError, match="num_valences must be at least 1, not 0"):
        DMV(2, num_valences=0)


def test_words_that_change_before_a_second_backward_pass_are_refused():
    """Compiled code, which runs once more then, looks at no bounds."""
    grammar, words = DMV(3), torch.tensor([[0, 1, 2], [2, 0, -1]])
    logs = {n: w.log().requires_grad_() for n, w in grammar.initial_weights(words, "harmonic").items()}
    total = grammar.log_partition(logs, words).sum()
    torch.autograd.grad(total, list(logs.values()), retain_graph=True)
    words.fill_(-1)
    with pytest.raises(InvalidRecursion, match="words w are not all in"):
        torch.autograd.grad(total, list(logs.values()))
