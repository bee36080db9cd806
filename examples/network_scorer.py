# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A network in the place of a log-linear scorer of arcs: the same Pyro model, learnt from trees of other languages.

    python examples/network_scorer.py                                   # on made-up languages
    python examples/network_scorer.py --folder ud/ --target de          # treebanks of Universal Dependencies

Trees of sources are observed in ``models.arc_scorer``; the target has tagged text alone. A scorer sees tags, segments
between marks of punctuation, and the arcs of a grammar that has seen no tree of the language: the DMV with the prior
over the other languages. The log-linear scorer is learnt by exact gradients, sentence by sentence, and by SVI; the
network, embeddings of tags and their neighbours and a layer over head, dependent, distance and the grammar's arc, by
SVI. Made-up languages have the trees of the built-in corpus, in which the dependents of some tags stand in reverse.

References: McDonald, Petrov and Hall (2011), "Multi-source transfer of delexicalized dependency parsers",
https://aclanthology.org/D11-1006; Kiperwasser and Goldberg (2016), "Simple and accurate dependency parsing using
bidirectional LSTM feature representations", https://aclanthology.org/Q16-1023
"""

import argparse
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyro
import torch
from pyro.infer import SVI, Trace_ELBO
from torch import Tensor, nn

from pyrogram import Corpus
from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.knowledge import UNIVERSAL_TAGS, ArcScorer, Examples, Sources, examples_of, grammar_of, read_treebanks
from pyrogram.knowledge.rules import universal_tags
from pyrogram.metrics import directed_accuracy
from pyrogram.models.arc_scorer import arc_scorer

#: By made-up language: the tags whose dependents stand in reverse.
REVERSED = {
    "straight": (),
    "verbs": ("VERB", "AUX"),
    "nouns": ("NOUN", "PROPN"),
    "all": UNIVERSAL_TAGS,
    "target": ("VERB", "AUX", "ADP"),
}


class Network(nn.Module):
    """Called as :class:`.ArcScorer` is: scores of arcs, shape ``(N, n+1, n+1)`` [head, dependent]."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.tags = nn.Embedding(len(UNIVERSAL_TAGS) + 2, size)  # the last two: ROOT, and beyond the end
        self.neighbours = nn.Conv1d(size, 2 * size, kernel_size=3, padding=1)  # one half as head, one as dependent
        self.distance = nn.Embedding(2 * 10 + 1, size)
        self.arc = nn.Linear(2, size)  # of the grammar's probability, and of marks between
        self.out = nn.Linear(size, 1)

    def forward(self, words: Tensor, segments: Tensor, posterior: Tensor) -> Tensor:
        end = len(UNIVERSAL_TAGS) + 1
        tags = nn.functional.pad(torch.where(words >= 0, words, end), (1, 0), value=end - 1)
        head, dependent = self.neighbours(self.tags(tags).mT).mT.chunk(2, -1)
        place = torch.arange(tags.shape[1])
        distance = self.distance((place - place[:, None]).clamp(-10, 10) + 10)
        number = nn.functional.pad(segments, (1, 0)).to(head.dtype)
        marks = (number[:, :, None] - number[:, None, :]).abs().clamp_max(3)
        seen = self.arc(torch.stack([posterior.to(head.dtype).clamp(1e-3, 1 - 1e-3).logit(), marks], -1))
        scores: Tensor = self.out(torch.tanh(head[:, :, None] + dependent[:, None, :] + distance + seen))
        return scores.squeeze(-1)


def learn(scorer: nn.Module, treebanks: Mapping[str, Examples], num_epochs: int, rate: float) -> float:
    """Observe the trees of the sources by SVI; the last epoch's loss, in nats a tree."""
    pyro.clear_param_store()
    svi = SVI(arc_scorer, lambda *args: None, pyro.optim.Adam({"lr": rate}), Trace_ELBO())
    batches = [batch for examples in treebanks.values() for _, batch in examples.batches(32)]
    loss = 0.0
    for _ in range(num_epochs):
        order = torch.randperm(len(batches)).tolist()
        loss = sum(svi.step(scorer, b.inputs, b.lengths, b.heads) for b in map(batches.__getitem__, order))
    return loss / sum(map(len, batches))


@torch.no_grad()
def accuracy(scorer: nn.Module, text: Examples, heads: Tensor) -> float:
    """Percentage of words with the right head."""
    found = torch.full_like(heads, -1)
    for index, batch in text.batches():
        trees = ProjectiveDependencyTree(scorer(*batch.inputs), lengths=batch.lengths, valence=False)
        found[index, : batch.words.shape[1]] = trees.mbr()
    return 100 * directed_accuracy(found, heads)


def reordered(corpus: Corpus, reverse: Collection[str]) -> Corpus:
    """The same trees, in which the dependents of some tags, and what hangs on them, stand in reverse."""
    sentences, trees = [], []
    tags = dict(zip(corpus.vocab, universal_tags(corpus.vocab), strict=True))
    for sentence in corpus:
        assert sentence.heads is not None
        children: list[list[int]] = [[] for _ in range(len(sentence) + 1)]
        for dependent, head in enumerate(sentence.heads, 1):
            children[head].append(dependent)

        def spread(head: int, own: list[list[int]], symbols: Sequence[str] = sentence.tags) -> list[int]:
            parts = [spread(c, own) for c in own[head] if c < head]
            after = [spread(c, own) for c in own[head] if c > head]
            parts = [*parts, [head], *after] if head else after
            order = parts[::-1] if head and tags[symbols[head - 1]] in reverse else parts
            return [word for part in order for word in part]

        order = spread(0, children)
        new = {old: i for i, old in enumerate(order, 1)} | {0: 0}
        sentences.append([tags[sentence.tags[old - 1]] for old in order])
        trees.append([new[sentence.heads[old - 1]] for old in order])
    return Corpus.from_sentences(sentences, heads=trees, tags="upos")


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.set_rng_seed(args.seed)
    if args.folder:
        treebanks = read_treebanks(sorted(args.folder.glob("*-ud-*.conllu")))
    else:
        treebanks = {
            f"{name}_made": reordered(Corpus.builtin(args.num_sentences, seed), reverse)
            for seed, (name, reverse) in enumerate(REVERSED.items())
        }
    target = next(corpus for name, corpus in treebanks.items() if name.split("_")[0] == args.target)
    others = {name: corpus for name, corpus in treebanks.items() if name.split("_")[0] != args.target}
    sources = Sources.count(others)
    examples = examples_of(others, sources, progress=False)
    grammar = grammar_of(target, sources)
    text = Examples.of(target, grammar)
    assert target.heads is not None
    print(f"{sources}; {len(target)} sentences of {args.target}: right heads")
    print(f"grammar: {100 * directed_accuracy(grammar.parse(target), target.heads):.1f}%")
    exact = ArcScorer(args.num_bits).fitted(examples, num_epochs=args.num_epochs, seed=args.seed, progress=False)
    print(f"log-linear, exact gradients: {accuracy(exact, text, target.heads):.1f}%")
    for name, scorer in (("log-linear", ArcScorer(args.num_bits)), ("network", Network(args.size))):
        loss = learn(scorer, examples, args.num_epochs, args.learning_rate)
        print(f"{name}, SVI: {accuracy(scorer, text, target.heads):.1f}%, {loss:.2f} nats a tree of the sources")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of files NAME-ud-PART.conllu; made-up languages by default")
    parser.add_argument("--target", default="target", help="a language, whose trees are not looked at")
    parser.add_argument("--num-sentences", type=int, default=300, help="of each made-up language")
    parser.add_argument("--num-epochs", type=int, default=4)
    parser.add_argument("--num-bits", type=int, default=16, help="of the log-linear scorer")
    parser.add_argument("--size", type=int, default=32, help="of the network")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
