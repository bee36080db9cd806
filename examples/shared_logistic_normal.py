# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with valence, its weights tied softly: verbs share an expert, and so do nouns.

    python examples/shared_logistic_normal.py                           # on the built-in corpus
    python examples/shared_logistic_normal.py --ties "V&N" --conllu train.conllu

Two stages, as in section 4.1 of the paper: train without tying, then add it.

Reference: Cohen and Smith (2009), "Shared logistic normal distributions for soft parameter tying in unsupervised
grammar induction", https://aclanthology.org/N09-1009
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram import DMV, Corpus
from pyrogram.data import tag_families
from pyrogram.distributions import Gaussian
from pyrogram.grammars import tie
from pyrogram.infer import VariationalEM
from pyrogram.metrics import directed_accuracy
from pyrogram.models import corpus_logistic_normal, corpus_shared_logistic_normal
from pyrogram.models.logistic_normal import logistic_normal
from pyrogram.models.shared_logistic_normal import shared_logistic_normal


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    grammar = DMV(num_tags=len(corpus.vocab))
    families = tag_families("universal" if args.conllu else "penn")
    structure = tie(grammar, [families.get(tag, "other") for tag in corpus.vocab.symbols], args.ties)

    untied = corpus_logistic_normal if args.once else logistic_normal
    loop = VariationalEM(untied).run(corpus.words, grammar, num_steps=args.num_steps, progress=False)
    _report("without tying", grammar, corpus, loop)

    learnt = {name: Gaussian(pyro.param(f"loc.{name}"), pyro.param(f"covariance.{name}")) for name in grammar.blocks}
    start = structure.tied_start(learnt)
    tied = corpus_shared_logistic_normal if args.once else shared_logistic_normal
    loop = VariationalEM(tied).run(
        corpus.words, grammar, structure, start=start, num_steps=args.num_steps, progress=False
    )
    _report(f"tied by {args.ties}", grammar, corpus, loop)


def _report(name: str, grammar: DMV, corpus: Corpus, loop: VariationalEM) -> None:
    trees = grammar.derivation(loop.weights(), corpus.words).mbr()
    accuracy = directed_accuracy(trees, corpus.heads)
    print(f"{name}: bound {loop.history[-1]:.2f} after {len(loop.history)} iterations, {accuracy:.1%} of heads right")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=400, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--ties", default="V", help="letters joined by &: V verbs, N nouns, A adjectives")
    parser.add_argument("--once", action="store_true", help="draw weights once for the corpus, not for each sentence")
    parser.add_argument("--num-steps", type=int, default=15, help="of each stage")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
