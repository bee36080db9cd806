# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What no chart can read is refused in one sentence before compiled code, which looks at no bounds, reads it."""

import pytest
import torch
from small_grammars import GRAMMARS

from pyrogram import DMV
from pyrogram.distributions import Sentence

MALFORMED = {
    "no position": torch.zeros(3, 0, dtype=torch.long),
    "no dimension": torch.tensor(1),
    "too great": torch.tensor([[0, 99]]),
    "far too great": torch.tensor([[2**62, 0]]),
    "below padding": torch.tensor([[0, -2]]),
    "a hole": torch.tensor([[0, -1, 1]]),
    "no word": torch.tensor([[-1, -1]]),
    "a fraction": torch.tensor([[0.5, 1.0]]),
    "NaN": torch.tensor([[torch.nan, 1.0]]),
    "a mask": torch.tensor([[True, False]]),
}


def logs(weights):
    return {name: w.log() for name, w in weights.items()}


def rows(grammar, weights, words):
    rows = grammar.sentence_multinomials(words)
    log_w = {n: w.log().reshape(-1, w.shape[-1]) for n, w in weights.items()}
    return rows.expected_counts({n: log_w[n][rows.multinomial[n]] for n in log_w})


USES = {
    "log_prob": lambda g, w, x: Sentence(g, w).log_prob(x),
    "log_prob without validation": lambda g, w, x: Sentence(g, w, validate_args=False).log_prob(x),
    "log_partition": lambda g, w, x: g.log_partition(logs(w), x),
    "expected_counts": lambda g, w, x: g.expected_counts(logs(w), x),
    "derivation": lambda g, w, x: g.derivation(w, x).sample((2,)),
    "rows": rows,
    "sweeps": lambda g, w, x: g.collapsed_updates(x).expected_counts(w),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", GRAMMARS)
def test_malformed_words_are_refused(kind, use):
    grammar, weights, _ = GRAMMARS[kind]()
    for name, words in MALFORMED.items():
        with pytest.raises(ValueError, match=r"^words must (be|have shape) .*") as error:
            USES[use](grammar, weights, words)
        assert "\n" not in str(error.value), name
    for words in ([[0, 1]], None):
        with pytest.raises(TypeError, match="words must be a tensor, not"):
            USES[use](grammar, weights, words)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", GRAMMARS)
def test_integral_words_of_any_dtype_are_words(kind, use):
    grammar, weights, words = GRAMMARS[kind]()
    words = words[1:, :2] if kind != "LatentAnnotations" else words[1:]
    expected = USES[use](grammar, weights, words)
    for dtype in (torch.float64, torch.int32, torch.uint8, torch.int16):
        torch.manual_seed(0)
        found = USES[use](grammar, weights, words.to(dtype))
        if use not in ("derivation",):
            torch.testing.assert_close(_first(found), _first(expected))


def _first(found):
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("kind", GRAMMARS)
def test_no_sentences_have_no_log_prob(kind):
    grammar, weights, words = GRAMMARS[kind]()
    none = words[:0]
    assert Sentence(grammar, weights).log_prob(none).shape == (0,)
    log_z, counts = grammar.expected_counts(logs(weights), none)
    assert log_z.shape == (0,) and all(not c.any() for c in counts.values())
    assert grammar.derivation(weights, none).sample((2,)).shape[:2] == (2, 0)


@pytest.mark.parametrize("kind", GRAMMARS)
def test_weights_of_another_shape_are_refused(kind):
    """An emission of shape (1, W), say, was read far beyond its end."""
    grammar, weights, words = GRAMMARS[kind]()
    for name, w in logs(weights).items():
        for wrong in (w[:1], w[..., :-1], w.sum()):
            given = {**logs(weights), name: wrong}
            for use in (grammar.log_partition, grammar.expected_counts):
                with pytest.raises(ValueError, match=rf"log_weights\['{name}'\] must have shape"):
                    use(given, words)
        with pytest.raises(ValueError, match=f"log_weights lacks block '{name}'"):
            grammar.log_partition({n: v for n, v in logs(weights).items() if n != name}, words)


@pytest.mark.parametrize("kind", GRAMMARS)
def test_sizes_of_draws(kind):
    grammar, weights, words = GRAMMARS[kind]()
    for bad in (0, -1):
        with pytest.raises(ValueError, match=f"max_length must be at least 1, not {bad}"):
            Sentence(grammar, weights, max_length=bad)
        with pytest.raises(ValueError, match=f"max_length must be at least 1, not {bad}"):
            grammar.sample(weights, (2,), bad)
    for bad in (2.5, "3", None, True):
        with pytest.raises(TypeError, match="max_length must be an integer, not"):
            Sentence(grammar, weights, max_length=bad)
    sentence, derivation = Sentence(grammar, weights, max_length=9), grammar.derivation(weights, words)
    for d in (sentence, derivation):
        with pytest.raises(ValueError, match="every number of sample_shape must be at least 0, not -1"):
            d.sample((-1,))
        for bad in ("ab", 5, (2.5,)):
            with pytest.raises(TypeError, match="sample_shape must be"):
                d.sample(bad)
        assert d.sample((0,)).shape[0] == 0
    for bad in (0, -3):
        with pytest.raises(ValueError, match=f"k must be at least 1, not {bad}"):
            derivation.top_k(bad)
    with pytest.raises(TypeError, match="k must be an integer, not 1.5"):
        derivation.top_k(1.5)


@pytest.mark.parametrize("kind", GRAMMARS)
def test_counts_of_what_is_no_derivation_are_refused(kind):
    grammar, weights, words = GRAMMARS[kind]()
    derivation = grammar.derivation(weights, words)
    good = derivation.sample()
    for wrong in (good + 99, good - 7, torch.full_like(good, -1), good.roll(1, -1) * 0 + 5):
        with pytest.raises(ValueError):
            derivation.counts(wrong)
        if hasattr(derivation, "parts"):
            with pytest.raises(ValueError):
                derivation.parts(wrong)
        if hasattr(grammar, "counts"):
            with pytest.raises(ValueError):
                grammar.counts(words, wrong)


def test_no_room_for_a_word_does_not_crash():
    """The draw wrote before the beginning of an array, when it did not refuse it."""
    g = DMV(2)
    w = g.initial_weights(torch.tensor([[0, 1]]), "uniform")
    with pytest.raises(ValueError, match="max_length must be at least 1, not 0"):
        Sentence(g, w, max_length=0).sample((50,))
    with pytest.raises(ValueError, match="max_length must be at least 1, not 0"):
        g.sample_trees(w, torch.Size([50]), 0)
