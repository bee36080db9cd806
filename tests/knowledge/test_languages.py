# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Counts of sources, likelihoods and shares against enumeration of all trees; the model's posterior by quadrature."""

import itertools
import math
from pathlib import Path

import pyro
import pyro.distributions as dist
import pytest
import torch
from oracle import all_trees
from pyro import poutine
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.data import Vocabulary
from pyrogram.infer import TreeHastings
from pyrogram.knowledge import Shares, Sources, read_treebanks
from pyrogram.models.languages import languages, languages_with_trees
from pyrogram.models.logistic_normal import corpus_logistic_normal

TAGS = ("N", "V")
TREES = {
    "aa_one": Corpus.from_sentences([["N", "V", "N"], ["V", "N"], ["N", "V"]], heads=[[2, 0, 2], [0, 1], [2, 0]]),
    "aa_two": Corpus.from_sentences([["V", "N", "N"]], heads=[[0, 3, 1]]),
    "bb_one": Corpus.from_sentences([["N", "N", "V"], ["N"], ["V"]], heads=[[3, 1, 0], [0], [0]]),
}
WORDS = torch.tensor([[0, 1, 0, -1], [1, 0, 0, 1], [0, 1, -1, -1]])


def sources() -> Sources:
    return Sources.count(TREES, licences={"bb_one": "CC BY-SA 4.0"}, tags=TAGS)


def tree_log_prob(words: list[int], heads: tuple[int, ...], w: dict[str, Tensor]) -> Tensor:
    """The definition: a head's children from the nearest outwards, each after the decision to continue; then a stop."""
    total = w["root"][words[heads.index(0)]].log()
    for h, tag in enumerate(words, 1):
        for direction, outwards in ((0, range(h - 1, 0, -1)), (1, range(h + 1, len(words) + 1))):
            children = [c for c in outwards if heads[c - 1] == h]
            for v, c in enumerate(children):
                total = total + w["stop"][tag, direction, min(v, 1), 0].log()
                total = total + w["attach"][tag, direction, words[c - 1]].log()
            total = total + w["stop"][tag, direction, min(len(children), 1), 1].log()
    return total


def log_likelihood(w: dict[str, Tensor]) -> Tensor:
    """Of all WORDS, trees summed out one by one."""
    total = torch.zeros(())
    for row in WORDS.tolist():
        words = [tag for tag in row if tag >= 0]
        total = total + torch.stack([tree_log_prob(words, t, w) for t in all_trees(len(words), False)]).logsumexp(0)
    return total


def test_counts_are_those_of_the_trees() -> None:
    found = sources()
    assert found.names == ("aa_one", "aa_two", "bb_one") and found.licences == ("", "", "CC BY-SA 4.0")
    assert repr(found) == "Sources(3 treebanks of 2 languages)"
    assert found.counts["root"].tolist() == [[0, 3], [0, 1], [1, 2]]
    attach = torch.zeros(3, 2, 2, 2)
    attach[0, 1, 0, 0], attach[0, 1, 1, 0] = 2, 2  # a verb's nouns, left and right
    attach[1, 1, 1, 0], attach[1, 0, 0, 0] = 1, 1
    attach[2, 1, 0, 0], attach[2, 0, 1, 0] = 1, 1
    assert found.counts["attach"].equal(attach)
    assert found.counts["stop"].sum((1, 2, 3)).tolist() == [
        [4, 14],
        [2, 6],
        [2, 10],
    ]  # 2 n, and children


def test_a_language_is_left_out_with_all_its_treebanks() -> None:
    left = sources().without("aa")
    assert left.names == ("bb_one",) and left.counts["root"].tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="no source is left without aa, bb; give treebanks of other languages"):
        sources().without("aa", "bb")
    with pytest.raises(ValueError, match="'aa_one' is a treebank; give its language, 'aa'"):
        sources().without("aa_one")


def test_numbers_that_are_none_are_refused() -> None:
    words = torch.tensor([[0, 1]])
    for options in ({"temperature": math.nan}, {"alpha": -1.0}):
        with pytest.raises(ValueError, match="must be a number of at least 0, not"):
            sources().shares(words, **options)
    for options in ({"strength": math.inf}, {"floor": -0.1}):
        with pytest.raises(ValueError, match="must be a number of at least 0, not"):
            sources().concentration(words, **options)
    with pytest.raises(ValueError, match="words must have a sentence"):
        sources().shares(words[:0])
    empty = Corpus.from_sentences([["N"]], heads=[[0]])[:0]
    with pytest.raises(ValueError, match="treebank 'cc' has no sentence"):
        Sources.count({"cc": empty}, tags=TAGS)


def test_files_come_back(tmp_path: Path) -> None:
    sources().save(tmp_path / "prior.safetensors")
    back = Sources.load(tmp_path / "prior.safetensors")
    assert (back.tags, back.names, back.licences) == (TAGS, sources().names, sources().licences)
    assert all(back.counts[name].equal(table) for name, table in sources().counts.items())


def test_tags_of_another_order() -> None:
    found, old = sources().over(Vocabulary(("V", "Z", "N"), (1, 1, 1))), sources()
    assert found.counts["root"].tolist() == [[3, 0, 0], [1, 0, 0], [2, 0, 1]]
    assert found.counts["attach"][:, 0, :, 2].equal(old.counts["attach"][:, 1, :, 0])
    assert found.counts["attach"][:, 1].eq(0).all() and found.counts["attach"][..., 1].eq(0).all()
    assert found.counts["stop"][:, 2].equal(old.counts["stop"][:, 0])
    for block, w in found.weights().items():
        torch.testing.assert_close(w.sum(-1), torch.ones(w.shape[:-1]), msg=block)
    with pytest.raises(ValueError, match="none of the tags N, V; read it with tags='upos'"):
        sources().over(Vocabulary(("Z",), (1,)))


def test_treebanks_without_trees_are_refused() -> None:
    with pytest.raises(ValueError, match="treebank 'cc' has no heads"):
        Sources.count({"cc": Corpus.from_sentences([["N"]])}, tags=TAGS)


def test_likelihood_of_raw_text() -> None:
    found, weights = sources().log_likelihood(WORDS), sources().weights()
    expected = [log_likelihood({name: w[k] for name, w in weights.items()}) / 9 for k in range(3)]
    torch.testing.assert_close(found, torch.stack(expected))


def test_shares_are_at_the_optimum() -> None:
    """At a maximum inside the simplex, the derivatives of the log posterior along it vanish."""
    alpha, temperature = 10.0, 2.0
    found = sources().shares(WORDS, alpha=alpha, temperature=temperature, num_steps=600)
    prior, weights = torch.softmax(temperature * sources().log_likelihood(WORDS), 0), sources().weights()
    shares = Shares(found.root.clone().requires_grad_(), found.heads.clone().requires_grad_())
    log_prior = alpha * (prior * shares.root.log()).sum() + alpha * (prior * shares.heads.log()).sum()
    (log_likelihood(shares.mean(weights)) + log_prior).backward()
    for value in (shares.root, shares.heads):
        assert value.grad is not None
        along = value.grad - (value.grad * value.detach()).sum(-1, keepdim=True)
        torch.testing.assert_close(along, torch.zeros_like(along), atol=1e-5, rtol=0)


def test_concentrations() -> None:
    shares = Shares(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.5, 0.5]).expand(2, 2, 3))
    found, weights = sources().concentration(WORDS, strength=7.0, shares=shares, floor=0.2), sources().weights()
    torch.testing.assert_close(found["root"], 7 * weights["root"][0] + 0.2)
    torch.testing.assert_close(found["stop"], 7 * (weights["stop"][1] + weights["stop"][2]) / 2 + 0.2)


def test_numbers_that_are_not_given_are_those_of_the_documentation() -> None:
    own = sources()
    documented = own.shares(WORDS, temperature=20.0, alpha=50.0, num_steps=20)
    found = own.shares(WORDS)
    assert torch.equal(found.root, documented.root) and torch.equal(found.heads, documented.heads)
    mean = documented.mean(own.weights(10.0))
    for name, alpha in own.concentration(WORDS).items():
        torch.testing.assert_close(alpha, 1000.0 * mean[name] + 0.1)


def test_grammars_of_sources_back_off_to_what_all_have_together() -> None:
    """Roots of the first are 0 and 3, of all 1 and 6: ten events in the shares of these, which have half a one more."""
    pooled = torch.tensor([1.5, 6.5]) / 8
    expected = (torch.tensor([0.0, 3.0]) + 10 * pooled) / 13
    torch.testing.assert_close(sources().weights()["root"][0], expected)


def test_tags_of_another_alphabet_count_as_the_last_or_as_x() -> None:
    corpus = Corpus.from_sentences([["Q", "V"]], heads=[[2, 0]])
    for tags, place in ((("X", "V"), 0), (("V", "N"), 1)):
        found = Sources.count({"aa": corpus}, tags=tags).counts["attach"]
        assert found[0, tags.index("V"), 0].tolist() == [float(i == place) for i in range(2)]


def test_a_long_sentence_among_short_ones_is_counted_whole() -> None:
    chain = Corpus.from_sentences([["N"], ["N"] * 9], heads=[[0], [0, *range(1, 9)]])
    assert Sources.count({"aa": chain}, tags=TAGS).counts["attach"].sum() == 8


# ---------------------------------------------------------------------- the model


def test_log_joint_of_the_model() -> None:
    grammar, weights, base = DMV(2), sources().weights(), torch.tensor([0.5, 0.2, 0.3])
    trace = poutine.trace(languages).get_trace(WORDS, grammar, weights, base=base, alpha=4.0, strength=9.0, floor=0.3)
    drawn = {name: trace.nodes[name]["value"] for name in ("shares.root", "shares.heads", *grammar.blocks)}
    mean = Shares(drawn["shares.root"], drawn["shares.heads"]).mean(weights)
    expected = log_likelihood({name: drawn[name] for name in grammar.blocks})
    for name, prior in (("shares.root", 1 + 4 * base), ("shares.heads", (1 + 4 * base).expand(2, 2, 3))):
        expected = expected + dist.Dirichlet(prior).log_prob(drawn[name]).sum()
    for name in grammar.blocks:
        expected = expected + dist.Dirichlet(9 * mean[name] + 0.3).log_prob(drawn[name]).sum()
    torch.testing.assert_close(trace.log_prob_sum(), expected)


def test_trees_of_sources_are_observed() -> None:
    """Given the sources' multinomials, the target is as if these were given; the trees are those of treebanks."""
    grammar = DMV(2)
    treebanks = {name: (corpus.words, corpus.heads) for name, corpus in TREES.items() if corpus.heads is not None}
    # of these corpora N is 0 and V is 1, or the other way round: as the vocabulary has them
    trace = poutine.trace(languages_with_trees).get_trace(WORDS, grammar, treebanks, own=0.7)
    own = {name: {b: trace.nodes[f"{name}.{b}"]["value"] for b in grammar.blocks} for name in treebanks}
    drawn = {name: trace.nodes[name]["value"] for name in ("shares.root", "shares.heads", *grammar.blocks)}
    stacked = {b: torch.stack([own[name][b] for name in treebanks]) for b in grammar.blocks}
    given = poutine.condition(languages, data=drawn)
    expected = poutine.trace(given).get_trace(WORDS, grammar, stacked).log_prob_sum()
    for name, (words, heads) in treebanks.items():
        for row, tree in zip(words.tolist(), heads.tolist(), strict=True):
            n = sum(tag >= 0 for tag in row)
            expected = expected + tree_log_prob(row[:n], tuple(tree[:n]), own[name])
        for weights in own[name].values():
            expected = expected + dist.Dirichlet(torch.full_like(weights, 0.7)).log_prob(weights).sum()
    torch.testing.assert_close(trace.log_prob_sum(), expected)


ONE_TAG = torch.tensor([[0, 0, 0, 0], [0, 0, -1, -1], [0, 0, 0, -1]])


def of_one_tag() -> dict[str, Tensor]:
    often, seldom = [0.9, 0.1], [0.1, 0.9]
    left = [[often, [0.8, 0.2]], [seldom, seldom]]
    right = [[seldom, seldom], [often, [0.6, 0.4]]]
    return {
        "root": torch.ones(2, 1),
        "attach": torch.ones(2, 1, 2, 1),
        "stop": torch.tensor([left, right])[:, None],
    }


def exact_shares(strength: float, floor: float) -> Tensor:
    """E[pi | words] of the first source, left and right: weights integrated out, trees enumerated, pi on a grid.

    With one tag only stops matter: four Betas, of a side and a valence each.
    """
    counts: dict[tuple[int, ...], int] = {(0,) * 8: 1}
    for row in ONE_TAG.tolist():
        n, new = sum(tag >= 0 for tag in row), dict[tuple[int, ...], int]()
        for heads, (old, ways) in itertools.product(all_trees(n, False), counts.items()):
            f = torch.tensor(old).reshape(2, 2, 2)
            for h in range(1, n + 1):
                for side, outwards in ((0, range(1, h)), (1, range(h + 1, n + 1))):
                    number = sum(heads[c - 1] == h for c in outwards)
                    for v in range(number):
                        f[side, min(v, 1), 0] += 1
                    f[side, min(number, 1), 1] += 1
            key = tuple(f.flatten().tolist())
            new[key] = new.get(key, 0) + ways
        counts = new
    grid = (torch.arange(200) + 0.5) / 200
    mean = torch.einsum("gk,kdvs->gdvs", torch.stack([grid, 1 - grid], 1), of_one_tag()["stop"][:, 0])
    alpha = strength * mean + floor  # (grid, side, valence, decision)

    def log_beta(a: Tensor) -> Tensor:
        return (torch.lgamma(a).sum(-1) - torch.lgamma(a.sum(-1))).sum(-1)

    joint = torch.zeros(200, 200)
    for key, ways in counts.items():
        sides = log_beta(alpha + torch.tensor(key).reshape(2, 2, 2)) - log_beta(alpha)  # (grid, side)
        joint += ways * (sides[:, None, 0] + sides[None, :, 1]).exp()
    joint /= joint.sum()
    return torch.stack([(joint.sum(1) * grid).sum(), (joint.sum(0) * grid).sum()])


@pytest.mark.slow
def test_posterior_of_shares_by_quadrature() -> None:
    exact, seen = exact_shares(20.0, 0.1), list[Tensor]()
    assert abs(exact[0] - 0.5) > 0.08  # the words say something
    pyro.set_rng_seed(1)
    chain = TreeHastings(languages, seed=2)
    chain.run(
        ONE_TAG, DMV(1), of_one_tag(), alpha=0.0, strength=20.0, num_steps=650, burn_in=50, progress=False,
        callback=lambda c: seen.append(c.hyperparameters()["shares.heads"][0, :, 0].clone()),
    )  # fmt: skip
    draws = torch.stack(seen[50:])
    error = draws.reshape(20, -1, 2).mean(1).std(0) / 20**0.5  # by 20 blocks
    assert error.max() < 0.06
    assert ((draws.mean(0) - exact).abs() < 4 * error).all(), (draws.mean(0), exact, error)


def test_logistic_normal_over_all_languages() -> None:
    """Mean and covariance by their definitions, of logits that sum to zero."""
    weights, found = sources().weights(), sources().gaussians(floor=0.2)
    for name, w in weights.items():
        rows = w.reshape(3, -1, w.shape[-1])
        for r in range(rows.shape[1]):
            logits = torch.stack([row.log() - row.log().mean() for row in rows[:, r]])
            covariance = sum((torch.outer(x - logits.mean(0), x - logits.mean(0)) for x in logits), torch.zeros(()))
            expected = covariance / 2 + 0.2 * torch.eye(w.shape[-1])
            assert found[name].covariance is not None
            torch.testing.assert_close(found[name].loc.reshape(-1, w.shape[-1])[r], logits.mean(0))
            torch.testing.assert_close(found[name].covariance.reshape(-1, *expected.shape)[r], expected)
    assert poutine.trace(corpus_logistic_normal).get_trace(WORDS, DMV(2), prior=found).log_prob_sum().isfinite()


def test_what_is_drawn_on_weighs_heads_by_their_events() -> None:
    shares = Shares(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.25, 0.75]).expand(2, 2, 3))
    counts = {"root": torch.tensor([1.0, 1.0]), "attach": torch.zeros(2, 2, 2), "stop": torch.zeros(2, 2, 2, 2)}
    counts["stop"][0, 1, 0, 1] = 6.0
    torch.testing.assert_close(sources().drawn_on(shares, counts), torch.tensor([2 / 8, 1.5 / 8, 4.5 / 8]))
    torch.testing.assert_close(sources().drawn_on(shares), torch.tensor([0.0, 0.25, 0.75]))


def test_files_of_one_treebank_go_together(tmp_path: Path) -> None:
    text = Corpus.from_sentences([["VERB", "NOUN"]], heads=[[0, 1]], tags="upos").to_conllu()
    for name in ("aa_one-ud-dev.conllu", "aa_one-ud-test.conllu", "other.conllu"):
        (tmp_path / name).write_text(text)
    found = read_treebanks(sorted(tmp_path.iterdir()))
    assert {name: len(corpus) for name, corpus in found.items()} == {"aa_one": 2, "other": 1}


def test_what_ships_is_of_many_languages_and_free() -> None:
    shipped = Sources.shipped()
    assert len(set(shipped.languages)) > 35 and shipped.counts["attach"].shape[1:] == (16, 2, 16)
    assert all(licence.startswith("CC BY-SA") for licence in shipped.licences)
    verb, noun = shipped.tags.index("VERB"), shipped.tags.index("NOUN")
    right = shipped.counts["attach"][shipped.names.index("en_ewt"), verb, 1, noun]
    assert right > shipped.counts["attach"][shipped.names.index("en_ewt"), verb, 0, noun] > 0
    assert (shipped.counts["root"].argmax(1) == verb).float().mean() > 0.8
