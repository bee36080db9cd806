# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The compound PCFG: each sentence has a grammar of its own, which a network makes from a vector z of the sentence.

    python examples/compound_pcfg.py                                    # on the tags of the built-in corpus
    python examples/compound_pcfg.py --trees train.mrg --num-nonterminals 30 --num-preterminals 60 --size 256

The network has a vector for each symbol and each right side of a rule; z comes to the vector of the left side. Given
z, trees are summed out. The guide q(z | words) is an LSTM over the words, trained along with the grammar by SVI on
minibatches (TraceMeanField_ELBO: the divergence of z from its prior is exact). The neural PCFG, which has no z, is
trained beside it.

Reference: Kim, Dyer and Rush (2019), "Compound probabilistic context-free grammars for grammar induction",
https://aclanthology.org/P19-1228
"""

import argparse
import time
from collections.abc import Iterator, Sequence

import pyro
import pyro.distributions as dist
import torch
from nltk.tree import Tree
from pyro.infer import SVI, TraceMeanField_ELBO
from pyro.nn import PyroModule
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from tqdm import tqdm

from pyrogram import CFG, Corpus
from pyrogram.data import read_trees
from pyrogram.data.builtin import generate
from pyrogram.distributions import Sentence
from pyrogram.metrics import parseval
from pyrogram.priors import NeuralWeights


class CompoundPCFG(PyroModule):
    """Sentences of a PCFG whose weights a network makes, for each from its z if that has a size."""

    def __init__(self, grammar: CFG, size: int, context_size: int) -> None:
        super().__init__()
        self.grammar, self.context_size = grammar, context_size
        block, right_sides = grammar.blocks["rules"], grammar.right_sides
        self.network = NeuralWeights("rules", block, size, outcomes=right_sides, context_size=context_size)

    def forward(self, words: Tensor) -> None:
        with pyro.plate("sentences", len(words)):
            z = None
            if self.context_size:
                z = pyro.sample("z", dist.Normal(torch.zeros(self.context_size), 1.0).to_event(1))
            pyro.sample("words", Sentence(self.grammar, {"rules": self.network(z)}), obs=words)


class Encoder(PyroModule):
    """q(z | words): a normal, whose mean and deviations an LSTM reads off the words."""

    def __init__(self, num_words: int, size: int, context_size: int) -> None:
        super().__init__()
        self.vectors = PyroModule[torch.nn.Embedding](num_words, size)
        self.lstm = PyroModule[torch.nn.LSTM](size, size, batch_first=True, bidirectional=True)
        self.out = PyroModule[torch.nn.Linear](2 * size, 2 * context_size)

    def posterior(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations, each ``(N, context_size)``."""
        lengths = (words >= 0).sum(-1)
        packed = pack_padded_sequence(self.vectors(words.clamp_min(0)), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, padding_value=-torch.inf)
        loc, log_scale = self.out(states.amax(1)).chunk(2, -1)
        return loc, log_scale.exp()

    def forward(self, words: Tensor) -> None:
        loc, scale = self.posterior(words)
        with pyro.plate("sentences", len(words)):
            pyro.sample("z", dist.Normal(loc, scale).to_event(1))


def no_guide(words: Tensor) -> None:
    """Of the neural PCFG, in which nothing is latent but trees."""


def minibatches(words: Tensor, size: int) -> Iterator[Tensor]:
    """All sentences in random order, without padding that a minibatch does not need."""
    for index in torch.randperm(len(words)).split(size):
        yield words[index][:, : int((words[index] >= 0).sum(-1).max())]


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.set_rng_seed(args.seed)
    trees = read_trees(args.trees) if args.trees else map(Tree.fromstring, _builtin(args.num_sentences))
    trees = [tree for tree in trees if 1 < len(tree.leaves()) <= args.max_length]
    corpus = Corpus.from_sentences([[tag for _, tag in tree.pos()] for tree in trees], punctuation="keep")
    V, held_out = len(corpus.vocab), len(trees) // 10
    test, train = corpus.words[:held_out], corpus.words[held_out:]
    grammar = CFG.dense(args.num_nonterminals, args.num_preterminals, V)
    for name, context_size in {"compound": args.context_size, "neural": 0}.items():
        pyro.clear_param_store()
        model = CompoundPCFG(grammar, args.size, context_size)
        guide = Encoder(V, args.size, context_size) if context_size else no_guide
        elbo = TraceMeanField_ELBO()
        svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": args.learning_rate, "clip_norm": 3.0}), elbo)
        start = time.perf_counter()
        for _ in tqdm(range(args.num_epochs), disable=None):
            for batch in minibatches(train, args.batch_size):
                svi.step(batch)
        seconds = (time.perf_counter() - start) / args.num_epochs
        with torch.no_grad():
            bound = -sum(elbo.loss(model, guide, test) for _ in range(10)) / 10 / float((test >= 0).sum())
            z = guide.posterior(test)[0] if isinstance(guide, Encoder) else None
            rules = grammar.derivation({"rules": model.network(z)}, test).mbr()
        # The start symbol is above a symbol of the same span, and is no phrase.
        found = [grammar.tree(tree.leaves(), r)[0] for tree, r in zip(trees, rules, strict=False)]
        f1 = parseval(found, trees[:held_out])[-1].unlabelled_f1
        print(f"{name}: {seconds:.2f} s an epoch; of {held_out} other sentences ", end="")
        print(f"{'at least ' if context_size else ''}{bound:.3f} nats a word, unlabelled F1 {f1:.1%}")


def _builtin(num_sentences: int) -> list[str]:
    return [sentence.brackets for sentence in generate(num_sentences)]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", help="a file of bracketed trees; built-in ones by default")
    parser.add_argument("--num-sentences", type=int, default=1000, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--num-nonterminals", type=int, default=8)
    parser.add_argument("--num-preterminals", type=int, default=16)
    parser.add_argument("--size", type=int, default=32, help="of vectors and of hidden layers")
    parser.add_argument("--context-size", type=int, default=8, help="of z")
    parser.add_argument("--batch-size", type=int, default=16, help="sentences of a minibatch")
    parser.add_argument("--num-epochs", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
