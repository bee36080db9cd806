# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with valence under logistic normal priors, by variational EM.

    python examples/logistic_normal.py                                  # on the built-in corpus
    python examples/logistic_normal.py --once                           # weights are drawn once for the corpus
    python examples/logistic_normal.py --diagonal --conllu train.conllu

Prints which pairs of tags vary together as dependents of one head: what a Dirichlet prior cannot say.

Reference: Cohen, Gimpel and Smith (2008), "Logistic normal priors for unsupervised probabilistic grammar induction",
Advances in Neural Information Processing Systems 21.
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram import DMV, Corpus
from pyrogram.data import tag_families
from pyrogram.grammars import family_covariance
from pyrogram.infer import VariationalEM
from pyrogram.metrics import directed_accuracy
from pyrogram.models import corpus_logistic_normal, initial_experts
from pyrogram.models.logistic_normal import logistic_normal


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    tags, grammar = corpus.vocab.symbols, DMV(num_tags=len(corpus.vocab))

    # Tags of one family (nouns, verbs, ...) start with a covariance of one half, as in section 5 of the paper.
    families = tag_families("universal" if args.conllu else "penn")
    matrix = family_covariance([families.get(tag, "other") for tag in tags])
    covariance = {"root": matrix, "attach": matrix}
    start = initial_experts(corpus.words, grammar, covariance=covariance, diagonal=args.diagonal)
    model = corpus_logistic_normal if args.once else logistic_normal
    loop = VariationalEM(model).run(corpus.words, grammar, start=start, num_steps=args.num_steps, progress=False)

    trees = grammar.derivation(loop.weights(), corpus.words).mbr()
    print(f"{len(corpus)} sentences, bound {loop.history[-1]:.2f} after {len(loop.history)} iterations")
    print(f"heads that are right: {directed_accuracy(trees, corpus.heads):.1%}")
    if not args.diagonal:
        Sigma = pyro.param("covariance.root").detach()
        scale = Sigma.diagonal().rsqrt()
        correlation = (Sigma * scale * scale[:, None]).triu(1)
        for pair in correlation.flatten().argsort(descending=True)[:3].tolist():
            one, other = divmod(pair, len(tags))
            print(f"as roots, {tags[one]} and {tags[other]} correlate by {float(correlation[one, other]):.2f}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=400, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--once", action="store_true", help="draw weights once for the corpus, not for each sentence")
    parser.add_argument("--diagonal", action="store_true", help="learn variances alone")
    parser.add_argument("--num-steps", type=int, default=20)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
