# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of words instead of tags: pairs of words that occur, and Dirichlets by which words back off to their classes.

    python examples/large_vocabulary.py                                     # on the built-in corpus
    python examples/large_vocabulary.py --conllu train.conllu --classes upos

A DMV over words has V x 2 x V attachments, of which hardly any occur: ``SparseDMV`` has an event for each pair of words
that stand in one sentence. Most words are rare, and have few counts of their own. So a DMV over classes of words is
learnt first, and its weights are the mean of the words' Dirichlets: rare words do as their class does, frequent ones as
they please. Classes are learnt from the words (``word_classes``), or are the file's tags, the most frequent one of each
word. Heads in the file are only scored.

Reference: Klein and Manning (2004), "Corpus-based induction of syntactic structure",
https://aclanthology.org/P04-1061; Headden, Johnson and McClosky (2009), "Improving unsupervised dependency parsing
with richer contexts and smoothing", https://aclanthology.org/N09-1012 (who smooth words by their tags)
"""

import argparse
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.data.padding import pad
from pyrogram.data.vocabulary import Vocabulary
from pyrogram.grammar import Weights
from pyrogram.grammars import SparseDMV, weights_of_classes
from pyrogram.infer import VariationalEM, word_classes
from pyrogram.metrics import directed_accuracy
from pyrogram.models.dirichlet import dirichlet


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    torch.set_default_dtype(torch.float64)
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    forms = [[form.lower() for form in sentence] for sentence in corpus.forms]
    vocab = Vocabulary.count(form for sentence in forms for form in sentence)
    words = pad([i for sentence in forms for i in vocab.encode(sentence)], corpus.lengths)
    grammar = SparseDMV.of(words, len(vocab))
    print(f"{len(corpus)} sentences, {len(vocab)} words, {len(grammar.pairs)} of {2 * len(vocab) ** 2} pairs")

    if args.classes == "upos":
        classes, num_classes = _most_frequent(words, corpus.words, len(vocab)), len(corpus.vocab)
    else:
        classes, num_classes = word_classes(words, len(vocab), int(args.classes)).classes, int(args.classes)
    in_classes = torch.where(words >= 0, classes[words.clamp_min(0)], words)
    small = DMV(num_classes)
    start = _start(small, in_classes, args.seed)
    by_class = VariationalEM(dirichlet, initial_weights=start)
    by_class.run(in_classes, small, concentration=args.concentration, num_steps=args.num_steps, progress=False)
    of_classes = by_class.weights()
    print(f"classes: {_right(small.derivation(of_classes, in_classes).mbr(), corpus)}")

    leant = weights_of_classes(grammar, of_classes, classes, _shares(words, classes, num_classes))
    alpha = {name: (args.strength * w).clamp_min(1e-12) for name, w in leant.items()}
    by_word = VariationalEM(dirichlet, initial_weights=leant)
    by_word.run(words, grammar, concentration=alpha, num_steps=args.num_steps, progress=False)
    print(f"words, backing off to classes: {_right(grammar.derivation(by_word.weights(), words).mbr(), corpus)}")

    alone = VariationalEM(dirichlet, initial_weights="harmonic")
    alone.run(words, grammar, concentration=0.01, num_steps=args.num_steps, progress=False)
    print(f"words alone: {_right(grammar.derivation(alone.weights(), words).mbr(), corpus)}")


def _start(grammar: DMV, words: Tensor, seed: int) -> Weights:
    """Klein and Manning's start; of other seeds than 0 shaken, so that several starts differ."""
    start = grammar.initial_weights(words, "harmonic")
    if not seed:
        return start
    generator = torch.Generator().manual_seed(seed)
    noise = {name: torch.randn(w.shape, generator=generator).mul(0.5).exp() for name, w in start.items()}
    return {name: block.normalize(start[name] * noise[name]) for name, block in grammar.blocks.items()}


def _most_frequent(words: Tensor, tags: Tensor, num_words: int) -> Tensor:
    """The most frequent tag of each word, shape ``(V,)``."""
    counts = Counter(zip(words[words >= 0].tolist(), tags[words >= 0].tolist(), strict=True))
    found = torch.zeros(num_words, dtype=torch.long)
    for (word, tag), _ in sorted(counts.items(), key=lambda item: item[1]):
        found[word] = tag
    return found


def _shares(words: Tensor, classes: Tensor, num_classes: int) -> Tensor:
    """p(word | class) of each word, shape ``(V,)``."""
    tokens = torch.bincount(words[words >= 0], minlength=len(classes)).double()
    return tokens / torch.zeros(num_classes).double().index_add(0, classes, tokens)[classes]


def _right(heads: Tensor, corpus: Corpus) -> str:
    return "" if corpus.heads is None else f"heads that are right: {directed_accuracy(heads, corpus.heads):.1%}"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=300, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words without punctuation")
    parser.add_argument("--classes", default="20", help="how many are learnt from the words; or upos, the file's tags")
    parser.add_argument("--concentration", type=float, default=0.25, help="of the Dirichlets over classes")
    parser.add_argument("--strength", type=float, default=10.0, help="of the classes' weights: as if seen so often")
    parser.add_argument("--num-steps", type=int, default=20, help="of variational Bayes, each time")
    parser.add_argument("--seed", type=int, default=0, help="of the start of the classes' weights; 0: undisturbed")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
