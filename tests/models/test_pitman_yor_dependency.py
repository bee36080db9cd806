# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The hierarchical Pitman-Yor dependency model as a Pyro model."""

from functools import partial

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

from pyrogram.data import Corpus, LexicalCorpus
from pyrogram.grammars.lexical_dependencies import SITES, Events, LexicalDependencies
from pyrogram.grammars.lexical_parser import LexicalParser, PitmanYorPredictor
from pyrogram.infer import PitmanYorSampler
from pyrogram.metrics import accuracy_by_length, attach_right
from pyrogram.models import PITMAN_YOR_PRIORS, observed_events
from pyrogram.models.pitman_yor_dependency import pitman_yor_dependency


def treebank(number: int, seed: int) -> Corpus:
    return Corpus.builtin(number, seed)


def events_of(corpus: LexicalCorpus) -> tuple[LexicalDependencies, dict[str, Events]]:
    grammar = LexicalDependencies(len(corpus.tag_vocab), len(corpus.lexicon))
    assert corpus.tags is not None and corpus.heads is not None
    return grammar, grammar.events(corpus.tags, corpus.words, corpus.cases, corpus.heads)


def test_the_joint_is_prior_times_one_event_after_the_other() -> None:
    """With maximal paths, the likelihood is the product of predictive probabilities; the priors are as documented."""
    grammar, events = events_of(LexicalCorpus.from_corpus(treebank(20, 0)))
    values, contexts = observed_events(events)
    trace = poutine.trace(pitman_yor_dependency).get_trace(values, contexts, grammar.num_values, paths="maximal")
    expected = torch.zeros(())
    for site in SITES:
        discount, strength = (trace.nodes[f"{site}_{name}"]["value"] for name in ("discount", "strength"))
        expected = (
            expected + dist.Beta(1.0, 1.0).log_prob(discount).sum() + dist.Gamma(1.0, 0.1).log_prob(strength).sum()
        )
        made = trace.nodes[site]["fn"].restaurants(values[site]).copy()
        keys = contexts[site].keys
        expected = expected + made.remove(keys, values[site], strength - discount, discount).sum()
    assert float(trace.log_prob_sum()) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("prior", PITMAN_YOR_PRIORS)
@pytest.mark.parametrize("paths", ["minimal", "maximal", "exact"])
def test_every_prior_trains_and_parses(prior: str, paths: str) -> None:
    train = LexicalCorpus.from_corpus(treebank(150, 0))
    corpus = Corpus.builtin(40, 1, vocab=train.tag_vocab)
    test = LexicalCorpus.from_corpus(corpus, like=train)
    grammar, events = events_of(train)
    model = partial(pitman_yor_dependency, prior=prior, paths=paths)
    sampler = PitmanYorSampler(model, seed=1).run(
        *observed_events(events), grammar.num_values, num_steps=3, progress=False
    )
    sampled = set(sampler.trace())
    assert any("strength" in name for name in sampled) == prior.endswith("sampled")
    assert any("discount" in name for name in sampled) == (prior == "pitman-yor-sampled")
    found = {
        s: PitmanYorPredictor(sampler.restaurants[s], sampler.concentration[s], sampler.discount[s]) for s in SITES
    }
    if prior.endswith("fixed"):
        assert found["tags"].concentration.tolist() == pytest.approx([0.5, 3.0, 3.0])
        assert found["cases"].discount.tolist() == [0.1 if prior == "pitman-yor-fixed" else 0.0] * 2
    assert test.tags is not None and test.heads is not None
    heads = LexicalParser(grammar, found).parse(test.tags, test.words, test.cases).heads["mbr"]
    ours = accuracy_by_length(heads, test.heads, (None,))[0].directed
    baseline = accuracy_by_length(attach_right(test.lengths), test.heads, (None,))[0].directed
    assert ours is not None and baseline is not None and ours > baseline + 0.2


def test_no_parameters_are_left_behind() -> None:
    grammar, events = events_of(LexicalCorpus.from_corpus(treebank(10, 0)))
    PitmanYorSampler(pitman_yor_dependency).run(
        *observed_events(events), grammar.num_values, num_steps=1, progress=False
    )
    assert not dict(pyro.get_param_store().items())


def test_a_prior_of_another_name() -> None:
    grammar, events = events_of(LexicalCorpus.from_corpus(treebank(2, 0)))
    with pytest.raises(ValueError, match="pitman-yor-sampled, actual 'pitman_yor_sampled'"):
        pitman_yor_dependency(*observed_events(events), grammar.num_values, prior="pitman_yor_sampled")  # type: ignore[arg-type]
