# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Scores of arcs, log-linear in hashed features, which are learnt from the trees of other languages.

A delexicalised parser sees tags, their neighbours, distances and punctuation, and knows nothing of the language at
hand. A grammar that raw text has taught, see :class:`.Sources`, does, but sees less of each sentence. So the scorer
reads the grammar: the probabilities of its arcs are features among the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from tqdm import tqdm

from pyrogram.atomic import write_atomically
from pyrogram.checks import checked_words
from pyrogram.choices import DECODERS, Decoder, best, check_choice
from pyrogram.data import Corpus
from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.infer.running.checkpoint import read_tensors
from pyrogram.knowledge.languages import UNIVERSAL_TAGS, Sources
from pyrogram.printable import plural

from .compiled import add_gradient, add_scores, climb
from .examples import Examples, examples_of
from .features import Features, features

__all__ = ["ArcScorer"]

_FORMAT = "pyrogram arc scorer 1"
SQUARE = 1e-6  # of gradients before the first one
LEARNT = 100.0  # where something was learnt, and squares are not known: of weights that often had a gradient
SHIPPED = 420_000  # weights of 2^20
LEAST = 1e-3  # gradients of arcs that are smaller are left out


class ArcScorer(nn.Module):
    """The score of an arc is the sum of the weights of its features, see :data:`.TEMPLATES`.

    ``ProjectiveDependencyTree(scorer(words, segments, posterior), lengths=lengths)`` is the distribution of the trees;
    :func:`pyrogram.models.arc_scorer.arc_scorer` is the Pyro model, in which a network can stand in the place of this.

    >>> scorer = ArcScorer(num_bits=10)
    >>> words = torch.tensor([[5, 7, 14]])  # DET NOUN VERB
    >>> scores = scorer(words, torch.zeros_like(words), torch.zeros(1, 4, 4))
    >>> scores.shape
    torch.Size([1, 4, 4])

    :param num_bits: there are so many bits of weights' numbers; features that fall on the same one share it.
    :param weights: shape ``(2 ** num_bits,)``; zeros by default.
    :param treebanks: names of the treebanks that it has learnt from.
    :param squares: sums of the squares of gradients so far, which :meth:`fitted` goes on with; shape
        ``(2 ** num_bits,)``.
    """

    def __init__(
        self,
        num_bits: int = 20,
        weights: Tensor | None = None,
        treebanks: Iterable[str] = (),
        squares: Tensor | None = None,
    ):
        super().__init__()
        if not 1 <= num_bits <= 30:
            raise ValueError(f"num_bits must be from 1 to 30, not {num_bits}.")
        weights = torch.zeros(2**num_bits) if weights is None else weights
        for name, table in (("weights", weights), ("squares", squares)):
            if table is not None and tuple(table.shape) != (2**num_bits,):
                raise ValueError(f"{name} must have shape {(2**num_bits,)}, not {tuple(table.shape)}.")
        self.num_bits, self.treebanks, self.squares = num_bits, tuple(treebanks), squares
        self.weights = nn.Parameter(weights)

    def extra_repr(self) -> str:
        K, L = len(self.treebanks), len(set(self.languages))
        return f"num_bits={self.num_bits}, {plural(K, 'treebank')} of {plural(L, 'language')}"

    @property
    def languages(self) -> tuple[str, ...]:
        """The language of each treebank: its name up to the underscore."""
        return tuple(name.split("_")[0] for name in self.treebanks)

    def forward(self, words: Tensor, segments: Tensor, posterior: Tensor) -> Tensor:
        """Scores of arcs in nats, shape ``(N, n+1, n+1)`` [head, dependent]; 0 in column 0, the diagonal, the padding.

        Differentiable once in the weights. They are those of :class:`Examples`, whose parameters are these:

        :param words: tags by their number in :data:`.UNIVERSAL_TAGS`, shape ``(N, n)``, padded with -1.
        :param segments: shape ``(N, n)``, padded with -1.
        :param posterior: shape ``(N, n+1, n+1)``.
        :raises ValueError: for words, shapes or probabilities that are none.
        """
        checked_words(words, len(UNIVERSAL_TAGS))
        Examples(words, segments, posterior)
        if not bool(((posterior >= 0) & (posterior <= 1 + 1e-4)).all()):
            raise ValueError("posterior must be probabilities of arcs, from 0 to 1, but some are not.")
        lengths = (words >= 0).sum(1)
        scores: Tensor = _Scores.apply(self.weights, features(words, segments, posterior, self.num_bits), lengths)
        return scores

    def trees(self, examples: Examples) -> ProjectiveDependencyTree:
        """The distribution of the trees of some sentences."""
        scores = self(*examples.inputs)
        return ProjectiveDependencyTree(scores, lengths=examples.lengths, valence=False, validate_args=False)

    @torch.no_grad()
    def parse(self, examples: Examples, decoder: Decoder = "mbr") -> Tensor:
        """The trees with the most expected right heads, or the most probable ones: shape ``(N, n)``, padded with -1.

        :raises ValueError: for another decoder.
        """
        check_choice("decoder", decoder, DECODERS)
        heads = torch.full_like(examples.words, -1)
        for index, batch in examples.batches():
            heads[index, : batch.words.shape[1]] = best(self.trees(batch), decoder)
        return heads

    @classmethod
    def fit(
        cls,
        treebanks: Mapping[str, Corpus],
        *,
        sources: Sources | None = None,
        num_bits: int = 20,
        num_epochs: int = 2,
        seed: int = 0,
        progress: bool = True,
    ) -> ArcScorer:
        """Learn a scorer from treebanks: :func:`examples_of`, then :meth:`fitted`.

        :param treebanks: by name, of two languages or more; corpora with heads and universal tags. Whoever measures
            on a language must leave it out.
        :param sources: for the grammars whose arcs are features; counts of the treebanks by default.
        """
        examples = examples_of(treebanks, sources, progress=progress)
        return cls(num_bits).fitted(examples, num_epochs=num_epochs, seed=seed, progress=progress)

    @torch.no_grad()
    def fitted(
        self,
        treebanks: Mapping[str, Examples],
        *,
        num_epochs: int = 1,
        rate: float = 0.025,
        batch_size: int = 32,
        seed: int = 0,
        progress: bool = True,
    ) -> ArcScorer:
        """Another scorer, which has gone on to learn: it climbs log p(trees) along its exact gradient by Adagrad.

        The gradient of an arc's score is 1 if it is in the tree, less its probability. Weights move arc by arc;
        probabilities are those before the batch. The same seed gives the same scorer to the last bit.

        :param treebanks: by name, with trees, all of them projective.
        :param rate: the greatest step of a weight.
        :param batch_size: sentences, of like lengths, of one treebank.
        :param seed: of the order of the batches.
        :param progress: show a progress bar, with nats a word of the trees.
        :raises ValueError: if there is no sentence, or there are no trees.
        """
        if not sum(map(len, treebanks.values())) or num_epochs < 1 or rate <= 0:
            told = f"{sum(map(len, treebanks.values()))}, {num_epochs} and {rate:g}"
            raise ValueError(f"need at least one sentence and one epoch, and a rate above 0, not {told}.")
        for name, examples in treebanks.items():
            if examples.heads is None:
                raise ValueError(f"treebank {name!r} has no heads; give one whose trees are known.")
        batches = [batch for examples in treebanks.values() for _, batch in examples.batches(batch_size)]
        start = LEARNT if self.treebanks else SQUARE
        squares = torch.full_like(self.weights, start) if self.squares is None else self.squares.clone()
        names = dict.fromkeys((*self.treebanks, *treebanks))
        new = ArcScorer(self.num_bits, self.weights.detach().clone(), names, squares)
        generator, total, number = torch.Generator().manual_seed(seed), 0.0, 0
        with tqdm(total=num_epochs * len(batches), disable=not progress, desc="ArcScorer") as bar:
            for _ in range(num_epochs):
                for i in torch.randperm(len(batches), generator=generator).tolist():
                    total, number = total + new._climb(batches[i], rate), number + int(batches[i].lengths.sum())
                    bar.update()
                    bar.set_postfix({"log p(tree)": f"{total / number:.3f} nats a word"}, refresh=False)
        return new

    def _climb(self, batch: Examples, rate: float) -> float:
        """One step in place; log p(trees) before it."""
        assert self.squares is not None and batch.heads is not None
        x, lengths = features(*batch.inputs, self.num_bits), batch.lengths
        scores = _Scores.apply(self.weights, x, lengths)
        trees = ProjectiveDependencyTree(scores, lengths=lengths, valence=False, validate_args=False)
        gradient = (trees.parts(batch.heads) - trees.marginals()).numpy()
        climb(self.weights.numpy(), self.squares.numpy(), gradient, x, lengths.numpy(), LEAST, rate)
        return float(trees.log_prob(batch.heads).sum())

    def pruned(self, num_weights: int = SHIPPED) -> ArcScorer:
        """The scorer with the weights that matter most, rounded to 16 bits, all others zero; for shipping.

        They are the greatest in size, times the fourth root of the squares of their gradients if these are known, which
        says how often a weight was used. Squares of gradients are left out.
        """
        weights = self.weights.detach()
        value = weights.abs() if self.squares is None else weights.abs() * self.squares**0.25
        kept = torch.zeros_like(weights)
        place = value.topk(min(num_weights, len(weights))).indices
        kept[place] = weights[place].half().to(weights.dtype)
        return ArcScorer(self.num_bits, kept, self.treebanks)

    def save(self, path: str | Path) -> None:
        """Write a file of safetensors: which weights are not zero, as bits; these, in 16 bits if they fit; names."""
        weights = self.weights.detach()
        kept = weights[weights != 0]
        half = kept.half()
        there = torch.from_numpy(np.packbits((weights != 0).numpy()))
        tables = {"there": there, "weights": half if bool((half == kept).all()) else kept}
        if self.squares is not None:
            tables["squares"] = self.squares
        told = {"format": _FORMAT, "num_bits": str(self.num_bits), "treebanks": json.dumps(self.treebanks)}
        write_atomically(path, save(tables, told))

    @classmethod
    def load(cls, path: str | Path) -> ArcScorer:
        """Read what :meth:`save` wrote.

        :raises ValueError: if it is another file.
        """
        told, tables = read_tensors(Path(path), "a file of an arc scorer", "; give one that ArcScorer.save wrote.")
        if told.get("format") != _FORMAT:
            raise ValueError(f"{path} is no file of ArcScorer.save; give one that is.")
        num_bits = int(told["num_bits"])
        there = torch.from_numpy(np.unpackbits(tables["there"].numpy(), count=2**num_bits)).bool()
        kept = tables["weights"]
        weights = torch.zeros(2**num_bits, dtype=torch.float32 if kept.dtype == torch.float16 else kept.dtype)
        weights[there] = kept.to(weights.dtype)
        return cls(num_bits, weights, json.loads(told["treebanks"]), tables.get("squares"))

    @classmethod
    def shipped(cls) -> ArcScorer:
        """The one that comes with the package, learnt from CC BY-SA treebanks that ``SOURCES.md`` beside it names."""
        return cls.load(Path(str(files("pyrogram.knowledge") / "shipped" / "scorer.safetensors")))


class _Scores(torch.autograd.Function):
    """Compiled sums, and their gradient in the weights."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Features, lengths: Tensor) -> Tensor:
        n = x.heads.shape[1]
        scores = weights.new_zeros(len(lengths), n, n)
        add_scores(weights.detach().numpy(), x, lengths.numpy(), scores.numpy())
        ctx.of = (x, lengths, weights)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        x, lengths, weights = ctx.of
        weight_gradient = torch.zeros_like(weights)
        add_gradient(gradient.contiguous().numpy(), x, lengths.numpy(), weight_gradient.numpy())
        return weight_gradient, None, None
