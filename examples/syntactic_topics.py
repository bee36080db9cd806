# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Syntactic topics: latent states of words, given the words that head them.

    python examples/syntactic_topics.py                                 # on the built-in corpus
    python examples/syntactic_topics.py --conllu train.conllu --num-states 50

The collapsed Gibbs sampler finds states; the model as a page of Pyro then gives their bound with another inference, a
point estimate of theta and phi with all states summed out.

Reference: Wallach, Sutton and McCallum (2008), "Bayesian modeling of dependency trees using hierarchical Pitman-Yor
priors", section 4, ICML Workshop on Prior Knowledge for Text and Language Processing.
"""

import argparse
from collections.abc import Sequence
from functools import partial

import pyro
from pyro import poutine
from pyro.infer import SVI, TraceEnum_ELBO
from pyro.infer.autoguide import AutoDelta

from pyrogram import Corpus
from pyrogram.data import LexicalCorpus
from pyrogram.infer import TopicGibbs
from pyrogram.models.syntactic_topics import syntactic_topics


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    pyro.set_rng_seed(args.seed)
    read = Corpus.from_conllu(args.conllu, punctuation="keep") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = LexicalCorpus.from_corpus(read)
    symbols = corpus.lexicon.vocab.symbols

    sampler = TopicGibbs(args.num_states, len(symbols), seed=args.seed)
    sampler.run(corpus.words, corpus.heads, num_steps=args.num_steps, progress=False)
    print(f"{corpus.num_tokens} words, log joint {sampler.log_joint():.2f} after {args.num_steps} sweeps")
    for state, words in enumerate(sampler.topics().top_words(5).tolist()):
        print(f"state {state}: {' '.join(symbols[word] for word in words if word >= 0)}")

    # With Dirichlets of more than one, the densest theta and phi are inside the simplex.
    model = partial(
        syntactic_topics,
        num_words=len(symbols),
        num_states=args.num_states,
        concentration=1.1,
        word_concentration=1.1,
    )
    guide = AutoDelta(poutine.block(model, hide=["state"]))
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1))
    losses = [svi.step(corpus.words, corpus.heads) for _ in range(args.num_svi_steps)]
    print(f"by SVI, with states summed out: log joint from {-losses[0]:.2f} to {-losses[-1]:.2f}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with trees; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=500, help="of the built-in corpus")
    parser.add_argument("--num-states", type=int, default=10)
    parser.add_argument("--num-steps", type=int, default=200, help="sweeps of the Gibbs sampler")
    parser.add_argument("--num-svi-steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
