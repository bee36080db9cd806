# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The neural DMV: a network makes the probabilities of dependents from vectors of tags, and EM trains it.

    python examples/neural_dmv.py                           # on the built-in corpus
    python examples/neural_dmv.py --conllu train.conllu --m-steps 30

A tag has a vector as a head and one as a dependent. Tags with similar vectors govern similar dependents, so that what
is learnt of a frequent tag serves a rare one. The E-step is the chart; the M-step moves the network up its tangent. The
plain DMV, whose multinomials know nothing of each other, is trained beside it.

Reference: Jiang, Han and Tu (2016), "Unsupervised neural dependency parsing", https://aclanthology.org/D16-1073
"""

import argparse
from collections.abc import Sequence

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.distributions import Sentence
from pyrogram.infer import EM
from pyrogram.metrics import directed_accuracy
from pyrogram.models import maximum_likelihood
from pyrogram.priors import NeuralWeights


class Network(PyroModule):
    """The weights of a DMV from vectors of its tags, as heads and as dependents.

    :param size: of vectors, and of the hidden layers.
    """

    def __init__(self, grammar: DMV, size: int = 16) -> None:
        super().__init__()
        blocks, V = grammar.blocks, grammar.num_tags
        heads, dependents = torch.nn.Embedding(V, size), torch.nn.Embedding(V, size)
        self.root = NeuralWeights("root", blocks["root"], size, {-1: dependents})
        self.attach = NeuralWeights("attach", blocks["attach"], size, {0: heads, -1: dependents})
        self.stop = NeuralWeights("stop", blocks["stop"], size, {0: heads})

    def forward(self) -> dict[str, Tensor]:
        return {"root": self.root(), "attach": self.attach(), "stop": self.stop()}


def neural_dmv(words: Tensor, grammar: DMV, network: Network) -> None:
    """Sentences whose weights a network makes."""
    weights = network()
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, weights), obs=words)


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    pyro.set_rng_seed(args.seed)
    corpus = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = corpus.filter(max_length=args.max_length)
    grammar = DMV(num_tags=len(corpus.vocab))
    neural = EM(neural_dmv, initial_weights="harmonic", m_steps=args.m_steps)
    neural.run(corpus.words, grammar, Network(grammar), num_steps=args.num_steps, progress=False)
    plain = EM(maximum_likelihood, initial_weights="harmonic")
    plain.run(corpus.words, grammar, num_steps=args.num_steps, progress=False)
    for name, loop in {"neural": neural, "plain": plain}.items():
        trees = grammar.derivation(loop.weights(), corpus.words).mbr()
        accuracy = directed_accuracy(trees, corpus.heads)
        print(f"{name}: log-likelihood {loop.history[-1]:.1f}, heads that are right: {accuracy:.1%}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=500, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--num-steps", type=int, default=30)
    parser.add_argument("--m-steps", type=int, default=10, help="of L-BFGS in an iteration")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
