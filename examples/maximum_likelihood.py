# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with valence, its weights estimated by EM from sentences without trees.

    python examples/maximum_likelihood.py                               # on the built-in corpus
    python examples/maximum_likelihood.py --conllu train.conllu

Reference: Klein and Manning (2004), "Corpus-based induction of syntactic structure: models of dependency and
constituency", https://aclanthology.org/P04-1061
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram import DMV, Corpus
from pyrogram.infer import EM
from pyrogram.metrics import attach_right, directed_accuracy
from pyrogram.models import maximum_likelihood


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    grammar = DMV(num_tags=len(corpus.vocab))

    loop = EM(maximum_likelihood).run(corpus.words, grammar, num_steps=args.num_steps, progress=False)

    trees = grammar.derivation(loop.weights(), corpus.words).mbr()
    baseline = directed_accuracy(attach_right(corpus.lengths), corpus.heads)
    print(f"{len(corpus)} sentences, log likelihood {loop.history[-1]:.2f} after {len(loop.history)} iterations")
    print(f"heads that are right: {directed_accuracy(trees, corpus.heads):.1%}; attach-right: {baseline:.1%}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=1000, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--num-steps", type=int, default=50)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
