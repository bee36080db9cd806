# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Minibatches: every sentence once, within the bounds, in an order that the seed decides."""

from typing import Any

import pyro
import pytest
import torch

from pyrogram import DMV, Corpus
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, VariationalEM

CORPUS = Corpus.builtin(60, 3)


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize(("words", "sentences"), [(None, None), (40, None), (1, None), (None, 7), (60, 4)])
def test_every_sentence_once(words: int | None, sentences: int | None, seed: int | None) -> None:
    batches = CORPUS.batches(max_words=words, max_sentences=sentences, seed=seed)
    assert sorted(i for rows in batches.rows for i in rows.tolist()) == list(range(60))
    for batch, rows in zip(batches, batches.rows, strict=True):
        assert list(batch) == [CORPUS[i] for i in rows.tolist()]
        assert batch.vocab == CORPUS.vocab and batch.words.shape == (len(rows), int(batch.lengths.max()))
        assert torch.equal(batch.words, CORPUS.words[rows, : batch.words.shape[1]])
        assert sentences is None or len(batch) <= sentences
        assert words is None or len(batch) == 1 or batch.words.numel() <= words


def test_no_batch_could_take_the_next_sentence() -> None:
    batches = CORPUS.batches(max_words=50)
    for batch, after in zip(batches, batches[1:], strict=False):
        assert int(batch.lengths.max()) <= int(after.lengths.min())
        assert (len(batch) + 1) * int(after.lengths.min()) > 50


def test_the_seed_decides_on_the_order() -> None:
    first, again, other = ([r.tolist() for r in CORPUS.batches(max_sentences=5, seed=s).rows] for s in (1, 1, 2))
    assert first == again != other
    assert {tuple(sorted(row)) for row in first} != {tuple(sorted(row)) for row in other}
    by_length = [int(batch.lengths.max()) for batch in CORPUS.batches(max_sentences=5)]
    assert by_length == sorted(by_length)
    assert [int(batch.lengths.max()) for batch in CORPUS.batches(max_sentences=5, seed=1)] != by_length


@pytest.mark.parametrize("bound", ["max_words", "max_sentences"])
def test_bounds_of_nothing(bound: Any) -> None:
    with pytest.raises(ValueError, match=f"expected {bound} to be at least 1, or None, actual 0"):
        CORPUS.batches(**{bound: 0})
    assert len(CORPUS[[]].batches(**{bound: 1})) == 0


@pytest.mark.parametrize("loop", [EM, VariationalEM])
def test_a_site_for_each_batch_is_one_site_for_all(loop: Any) -> None:
    """The model of the documentation: the sum over batches is that over the corpus, and so are the weights."""
    grammar = DMV(len(CORPUS.vocab))

    def model(batches: list[torch.Tensor]) -> None:
        weights = {
            name: pyro.sample(name, dirichlet_prior(block, 2.0 if loop is EM else 0.3))
            for name, block in grammar.blocks.items()
        }
        for k, words in enumerate(batches):
            with pyro.plate(f"sentences.{k}", len(words)):
                pyro.sample(f"words.{k}", Sentence(grammar, weights), obs=words)

    def learnt(batches: list[torch.Tensor]) -> Any:
        start = grammar.initial_weights(CORPUS.words, "harmonic")
        return loop(model, initial_weights=start).run(batches, num_steps=3, progress=False)

    whole, parts = learnt([CORPUS.words]), learnt([batch.words for batch in CORPUS.batches(max_words=100)])
    for name, weights in whole.weights("words.0").items():
        torch.testing.assert_close(parts.weights("words.0")[name], weights, rtol=1e-10, atol=1e-12)
