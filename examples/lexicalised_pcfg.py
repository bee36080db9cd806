# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Constituents and dependencies at once: a grammar whose phrases have heads, learnt from sentences alone.

    python examples/lexicalised_pcfg.py                                 # on the tags of the built-in corpus
    python examples/lexicalised_pcfg.py --num-nonterminals 4 --inference cvb
    python examples/lexicalised_pcfg.py --conllu train.conllu           # heads alone are compared

A phrase has a nonterminal and the tag of its head word. It consists of a phrase with the same head and of a dependent,
left or right of it, whose head depends on the first. All multinomials have Dirichlet priors. Beside it is the
dependency model with valence, which knows heads only: the likelihood of other sentences, the share of right heads, and
the F1 of unlabelled constituents where trees are known. Attachments begin at those of near words, rules at random ones.

References: Eisner and Satta (1999), "Efficient parsing for bilexical context-free grammars and head automaton
grammars", https://aclanthology.org/P99-1059; Collins (2003), "Head-driven statistical models for natural language
parsing", https://aclanthology.org/J03-4003; Headden, Johnson and McClosky (2009), https://aclanthology.org/N09-1012
"""

import argparse
from collections.abc import Sequence
from typing import Any

import pyro
from nltk.tree import Tree
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.data.builtin import generate
from pyrogram.distributions import Sentence
from pyrogram.grammars import LexicalisedPCFG
from pyrogram.infer import CollapsedVB, TreeHastings, VariationalEM
from pyrogram.metrics import directed_accuracy, parseval
from pyrogram.models.dirichlet import dirichlet

LOOPS: dict[str, Any] = {"vb": VariationalEM, "cvb": CollapsedVB, "hastings": TreeHastings}


def fit(grammar: DMV | LexicalisedPCFG, words: Tensor, args: argparse.Namespace) -> dict[str, Tensor]:
    start = grammar.initial_weights(words, "harmonic", seed=args.seed)
    loop = LOOPS[args.inference](dirichlet, initial_weights=start)
    loop.run(words, grammar, concentration=args.concentration, num_steps=args.num_steps, progress=False)
    return dict(loop.weights())


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.set_rng_seed(args.seed)
    corpus, trees = _corpus(args)
    words, unseen, heads = corpus.words[::2], corpus.words[1::2], corpus.heads[1::2]
    print(f"{len(words)} sentences to learn from, {len(unseen)} others")
    grammar = LexicalisedPCFG(args.num_nonterminals, len(corpus.vocab))
    for model in (DMV(len(corpus.vocab)), grammar):
        weights = fit(model, words, args)
        nats = Sentence(model, weights).log_prob(unseen).sum() / (unseen >= 0).sum()
        rows = model.derivation(weights, unseen).argmax()
        found = model.heads(rows) if isinstance(model, LexicalisedPCFG) else rows
        print(f"{model!r}: {float(nats):.3f} nats a word, {directed_accuracy(found, heads):.1%} of heads are right")
    if trees:
        built = [grammar.tree(tree.leaves(), row) for tree, row in zip(trees[1::2], rows, strict=True)]
        print(f"unlabelled F1 {parseval(built, trees[1::2])[-1].unlabelled_f1:.1%}; for example")
        print(built[0].pformat(margin=100))


def _corpus(args: argparse.Namespace) -> tuple[Corpus, list[Tree]]:
    """Sentences of two words or more, and their trees, if they are known."""
    if args.conllu:
        whole = Corpus.from_conllu(args.conllu, tags="upos", max_length=args.max_length)
        return whole[whole.lengths > 1], []
    drawn = [s for s in generate(args.num_sentences) if 1 < len(s.forms) <= args.max_length]
    corpus = Corpus.from_sentences([s.tags for s in drawn], heads=[s.heads for s in drawn], punctuation="keep")
    return corpus, [Tree.fromstring(s.brackets) for s in drawn]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=400, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=8, help="of sentences, in words")
    parser.add_argument("--num-nonterminals", type=int, default=2)
    parser.add_argument("--inference", choices=sorted(LOOPS), default="vb")
    parser.add_argument("--concentration", type=float, default=0.25, help="of the Dirichlet priors")
    parser.add_argument("--num-steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
