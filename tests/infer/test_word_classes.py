# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Word classes against the hidden Markov model that they are a case of, over all assignments of words to classes."""

from itertools import product

import pytest
import torch
from torch import Tensor

from pyrogram import HMM
from pyrogram.infer import word_classes


def log_joint(words: Tensor, classes: Tensor, num_classes: int, transition: float, emission: float) -> float:
    """log p(words, states) of an HMM whose Dirichlets are integrated out, from its own counts of events."""
    grammar = HMM(num_classes, len(classes))
    states = torch.where(words >= 0, classes[words.clamp(min=0)], words)
    total = 0.0
    for name, counts in grammar.counts(words, states).items():
        rows = counts.sum(0).reshape(-1, counts.shape[-1])
        alpha = torch.full_like(rows, emission if name == "emission" else transition)
        total += float((torch.lgamma(alpha + rows) - torch.lgamma(alpha)).sum())
        total += float((torch.lgamma(alpha.sum(-1)) - torch.lgamma((alpha + rows).sum(-1))).sum())
    return total


def corpus(V: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(V, (12, 5), generator=generator)
    lengths = torch.randint(1, 6, (12, 1), generator=generator)
    return torch.where(torch.arange(5) < lengths, words, -1)


@pytest.mark.parametrize(("V", "K"), [(5, 2), (6, 3), (4, 4), (8, 2), (3, 1)])
def test_the_joint_is_the_models_and_no_word_could_move(V: int, K: int) -> None:
    a, b = 0.3, 0.02  # small enough for words to be in several classes
    several = 0
    for seed in range(12):
        words = corpus(V, seed)

        def value(classes: list[int], words: Tensor = words) -> float:
            return log_joint(words, torch.tensor(classes), K, a, b)

        found = word_classes(words, V, K, transition=a, emission=b)
        best = found.classes.tolist()
        assert found.log_joint[-1] == pytest.approx(value(best), abs=1e-9)
        for word, c in product(range(V), range(K)):
            assert value([*best[:word], c, *best[word + 1 :]]) <= value(best) + 1e-9
        several += len(set(best)) > 1
        assert list(found.log_joint) == sorted(found.log_joint)
        order = sorted(range(V), key=lambda w: (-int((words == w).sum()), w))
        start = [K - 1] * V
        for c, word in enumerate(order[: K - 1]):
            start[word] = c
        assert found.log_joint[0] == pytest.approx(value(start), abs=1e-9)
    assert several > 3 or K == 1


def test_words_that_never_occur_go_with_the_rare_ones() -> None:
    words = torch.tensor([[0, 2, -1], [1, 3, -1], [0, 3, -1], [1, 2, -1], [0, 4, -1]])
    found = word_classes(words, 7, 2)
    assert found.classes.tolist() == [0, 0, 1, 1, 1, 1, 1]
    assert found.of_rare_words == 1
    assert found(torch.tensor([[5, 0, -1]])).tolist() == [[1, 0, -1]]


def test_refusals() -> None:
    words = torch.tensor([[0, 1]])
    with pytest.raises(ValueError, match="transition must be a positive number, not 0"):
        word_classes(words, 2, 2, transition=0)
    with pytest.raises(ValueError, match="num_classes"):
        word_classes(words, 2, 0)
    with pytest.raises(ValueError, match="words"):
        word_classes(words, 1, 2)
