# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with valence under Dirichlet priors: three inferences for one model.

    python examples/dirichlet.py                                        # on the built-in corpus, variational Bayes
    python examples/dirichlet.py --inference cvb --concentration 0.1
    python examples/dirichlet.py --inference hastings --conllu train.conllu

References: Cohen, Gimpel and Smith (2008), "Logistic normal priors for unsupervised probabilistic grammar induction";
Johnson, Griffiths and Goldwater (2007), "Bayesian inference for PCFGs via Markov chain Monte Carlo",
https://aclanthology.org/N07-1018; Wang and Blunsom (2013), "Collapsed variational Bayesian inference for PCFGs",
https://aclanthology.org/W13-3519
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram import DMV, Corpus
from pyrogram.infer import CollapsedVB, TreeHastings, VariationalEM
from pyrogram.metrics import directed_accuracy
from pyrogram.models.dirichlet import dirichlet

LOOPS = {"vb": VariationalEM, "cvb": CollapsedVB, "hastings": TreeHastings}


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    pyro.set_rng_seed(args.seed)
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    grammar = DMV(num_tags=len(corpus.vocab))

    loop = LOOPS[args.inference](dirichlet)
    loop.run(corpus.words, grammar, concentration=args.concentration, num_steps=args.num_steps, progress=False)

    trees = grammar.derivation(loop.weights(), corpus.words).mbr()
    print(f"{args.inference}: {len(corpus)} sentences, {len(loop.history)} iterations, at last {loop.history[-1]:.2f}")
    print(f"heads that are right: {directed_accuracy(trees, corpus.heads):.1%}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=1000, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--inference", choices=LOOPS, default="vb")
    parser.add_argument("--concentration", type=float, default=0.25)
    parser.add_argument("--num-steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
