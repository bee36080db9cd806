# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Context-free grammars of hundreds of symbols, learnt from sentences: rules that are a tensor of low rank.

    python examples/tensor_pcfg.py                                      # on the tags of the built-in corpus
    python examples/tensor_pcfg.py --prior dirichlet --grammar simple
    python examples/tensor_pcfg.py --trees train.mrg --words --max-length 40 --num-nonterminals 250 \\
        --num-preterminals 500 --rank 250 --size 256 --batch-size 64

A nonterminal chooses a rank, and the rank both children, independently of each other; in the simple grammar
nonterminals choose both children themselves. Weights come from a network, trained by SVI on minibatches, or have
Dirichlet priors, with variational Bayes. Trees are those with the greatest expected number of right spans.

References: Yang, Zhao and Tu (2021), "PCFGs can do better: inducing probabilistic context-free grammars with many
symbols", https://aclanthology.org/2021.naacl-main.117; Liu, Yang, Kim and Tu (2023), "Simple hardware-efficient PCFGs
with independent left and right productions", https://aclanthology.org/2023.findings-emnlp.113
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyro
import torch
from nltk.tree import Tree
from pyro.infer import SVI, Trace_ELBO
from pyro.nn import PyroModule
from torch import Tensor
from tqdm import tqdm

from pyrogram import Corpus
from pyrogram.data import read_trees
from pyrogram.data.builtin import generate
from pyrogram.distributions import Sentence
from pyrogram.grammars import SimplePCFG, TensorPCFG
from pyrogram.infer import VariationalEM
from pyrogram.metrics import parseval
from pyrogram.models.dirichlet import dirichlet
from pyrogram.priors import NeuralWeights

LowRank = TensorPCFG | SimplePCFG
RARE = "<rare>"


class NeuralPCFG(PyroModule):
    """Sentences of a grammar whose weights a network makes; symbols and ranks have one vector wherever they occur."""

    def __init__(self, grammar: LowRank, size: int) -> None:
        super().__init__()
        self.grammar = grammar
        blocks = grammar.blocks
        shared = {"symbol": torch.nn.Embedding(blocks["root"].shape[0], size)}
        if "rank" in blocks:
            shared["rank"] = torch.nn.Embedding(blocks["rank"].shape[1], size)
        self.networks = PyroModule[torch.nn.ModuleDict]()
        for name, block in blocks.items():
            axes = [
                axis.replace("left_child", "symbol").replace("right_child", "symbol") for axis in grammar.axes[name]
            ]
            vectors = {dim: shared[axis] for dim, axis in enumerate(axes) if axis in shared}
            own = {dim - len(axes) if dim == len(axes) - 1 else dim: v for dim, v in vectors.items()}
            self.networks[name] = NeuralWeights(name, block, size, own)

    def weights(self) -> dict[str, Tensor]:
        return {name: network() for name, network in self.networks.items()}

    def forward(self, words: Tensor) -> None:
        weights = self.weights()
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(self.grammar, weights), obs=words)


def no_guide(words: Tensor) -> None:
    """Nothing is latent but trees, which are summed out."""


def minibatches(words: Tensor, size: int) -> Iterator[Tensor]:
    """All sentences in random order, those of about the same length together, without padding that is not needed."""
    lengths = (words >= 0).sum(-1)
    batches = (lengths + torch.rand(len(words))).argsort().split(size)
    for number in torch.randperm(len(batches)).tolist():
        yield words[batches[number]][:, : int(lengths[batches[number]].max())]


def right_spans(grammar: LowRank, weights: Mapping[str, Tensor], words: Tensor) -> Tensor:
    """The derivations whose spans, whatever their symbols, are the most expected, shape ``(N, L)``."""
    rows = []
    for part in words.split(16):
        logs = {name: w.log() for name, w in weights.items()}
        spans = grammar.item_counts(logs, part, "X")["X"]  # of each sentence: start, end, nonterminal
        unlabelled = spans.sum(-1, keepdim=True).expand_as(spans)
        flat = {name: torch.zeros_like(w)[None] for name, w in weights.items()}
        rows.append(grammar.best(flat, part, 1, evidence={"X": unlabelled})[1][0])
    return torch.cat(rows)


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.set_rng_seed(args.seed)
    sentences, trees = _corpus(args)
    corpus = Corpus.from_sentences(sentences, punctuation="keep")
    held_out = len(corpus) // 10
    test, train = corpus.words[:held_out], corpus.words[held_out:]
    sizes, V = (args.num_nonterminals, args.num_preterminals), len(corpus.vocab)
    grammar = SimplePCFG(*sizes, V) if args.grammar == "simple" else TensorPCFG(*sizes, args.rank, V)
    fit = _fit_network if args.prior == "neural" else _fit_dirichlet
    weights, bound, seconds = fit(grammar, train, args)
    log_prob = Sentence(grammar, weights).log_prob(test).sum() / (test >= 0).sum()
    print(f"{grammar}: {grammar.num_events:,} events, {len(train):,} sentences, {seconds:.2f} s an epoch")
    print(f"bound {bound:.3f} nats a word; of {held_out} other sentences {float(log_prob):.3f} nats a word, ", end="")
    print(f"perplexity {float((-log_prob).exp()):.1f}")
    if trees:
        rows = right_spans(grammar, weights, test)
        found = [grammar.tree(tree.leaves(), row) for tree, row in zip(trees, rows, strict=False)]
        print(f"unlabelled F1 {parseval(found, trees[:held_out])[-1].unlabelled_f1:.1%}")


def _fit_network(grammar: LowRank, words: Tensor, args: argparse.Namespace) -> tuple[dict[str, Tensor], float, float]:
    """Weights, the last epoch's log-likelihood in nats a word, seconds an epoch."""
    model = NeuralPCFG(grammar, args.size)
    svi = SVI(model, no_guide, pyro.optim.ClippedAdam({"lr": args.learning_rate, "clip_norm": 3.0}), Trace_ELBO())
    start, loss = time.perf_counter(), 0.0
    for _ in tqdm(range(args.num_epochs), disable=None):
        loss = sum(svi.step(batch) for batch in minibatches(words, args.batch_size))
    seconds = (time.perf_counter() - start) / args.num_epochs
    with torch.no_grad():
        return model.weights(), -loss / int((words >= 0).sum()), seconds


def _fit_dirichlet(grammar: LowRank, words: Tensor, args: argparse.Namespace) -> tuple[dict[str, Tensor], float, float]:
    """Mean weights under q, the evidence lower bound in nats a word, seconds an epoch."""
    start = time.perf_counter()
    loop = VariationalEM(dirichlet, initial_weights="random")
    loop.run(words, grammar, concentration=args.concentration, num_steps=args.num_epochs, progress=False)
    seconds = (time.perf_counter() - start) / args.num_epochs
    return dict(loop.weights()), loop.history[-1] / int((words >= 0).sum()), seconds


def _corpus(args: argparse.Namespace) -> tuple[list[list[str]], list[Tree]]:
    """Words or tags of sentences of two words or more, and their trees, if they are known."""
    if args.conllu:
        whole = Corpus.from_conllu(args.conllu, heads="ignore", punctuation="remove")
        sentences, trees = [list(row) for row in (whole.forms if args.words else whole.tags)], []
        sentences = [row for row in sentences if 1 < len(row) <= args.max_length]
    else:
        brackets = [sentence.brackets for sentence in generate(args.num_sentences)]
        trees = read_trees(args.trees) if args.trees else [Tree.fromstring(text) for text in brackets]
        trees = [tree for tree in trees if 1 < len(tree.leaves()) <= args.max_length]
        sentences = [[word if args.words else tag for word, tag in tree.pos()] for tree in trees]
    seen = Counter(word.lower() for row in sentences for word in row)
    if args.words:
        sentences = [[word.lower() if seen[word.lower()] > 1 else RARE for word in row] for row in sentences]
    return sentences, trees


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--trees", help="a file of bracketed trees; built-in ones by default")
    source.add_argument("--conllu", help="a CoNLL-U file, of which no trees are read")
    parser.add_argument("--words", action="store_true", help="learn from words, those that occur once as one; not tags")
    parser.add_argument("--num-sentences", type=int, default=500, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--grammar", choices=("tensor", "simple"), default="tensor")
    parser.add_argument("--prior", choices=("neural", "dirichlet"), default="neural")
    parser.add_argument("--num-nonterminals", type=int, default=32)
    parser.add_argument("--num-preterminals", type=int, default=64)
    parser.add_argument("--rank", type=int, default=32, help="of the tensor of rules")
    parser.add_argument("--size", type=int, default=32, help="of vectors and of hidden layers")
    parser.add_argument("--concentration", type=float, default=0.5, help="of Dirichlet priors")
    parser.add_argument("--batch-size", type=int, default=16, help="sentences of a minibatch")
    parser.add_argument("--num-epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
