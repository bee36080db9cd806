# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Corpora whose trees can be listed, and weights of their grammars, between numpy's tables and torch's tensors."""

from collections.abc import Mapping

import numpy as np
import torch
from infer.tree_sums import Corpus, Tables
from torch import Tensor

# The number of tags, and the sentences.
CORPORA: dict[str, tuple[int, Corpus]] = {
    "one tag": (1, [[0], [0, 0], [0, 0, 0]]),
    "two tags": (2, [[0], [1, 0], [0, 1, 1], [1, 0, 0, 1], [0, 1]]),
    "three tags": (3, [[0, 2], [2, 0, 2], [0, 2, 2, 0]]),
    "one sentence": (2, [[1, 0, 1]]),
    "one word": (3, [[0], [2], [2]]),
}


def random_corpus(seed: int) -> tuple[int, Corpus]:
    """Eight sentences of one to eight words, of one to three tags."""
    generator = np.random.default_rng(seed)
    V = int(generator.integers(1, 4))
    return V, [generator.integers(0, V, size=generator.integers(1, 9)).tolist() for _ in range(8)]


def padded(corpus: Corpus) -> Tensor:
    width = max(map(len, corpus))
    return torch.tensor([[*sentence, *[-1] * (width - len(sentence))] for sentence in corpus])


def tensors(tables: Tables) -> dict[str, Tensor]:
    return {name: torch.tensor(table) for name, table in tables.items()}


def assert_close(actual: Mapping[str, Tensor | np.ndarray], expected: Tables, rtol: float = 1e-10) -> None:
    for name, table in expected.items():
        found = torch.as_tensor(actual[name]).detach().numpy()
        np.testing.assert_allclose(found, table, rtol=rtol, atol=1e-14, err_msg=name)
