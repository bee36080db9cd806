# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar of one's own, from nothing: dependency trees of hidden classes, under three priors and six inferences.

    python examples/own_grammar.py                                      # on the built-in corpus
    python examples/own_grammar.py --num-classes 4 --conllu train.conllu

Every word has a hidden class, and classes, not words, govern each other: classes and trees are learnt at once. The
recursion is on the page below, as a paper would have it; all inferences follow from it. The table has each one's
likelihood of sentences that it has not seen.

References: Finkel, Grenager and Manning (2007), "The infinite tree", https://aclanthology.org/P07-1035, whose second
kind of tree this is, with Klein and Manning's (2004) decisions to stop and a fixed number of classes; Jiang, Han and
Tu (2016), "Unsupervised neural dependency parsing", https://aclanthology.org/D16-1073, for a network as a prior.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import pyro
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from torch import Tensor

from pyrogram import Block, Corpus
from pyrogram.distributions import Sentence
from pyrogram.grammars import RecursiveGrammar
from pyrogram.infer import EM, CollapsedVB, TreeHastings, VariationalEM
from pyrogram.models.dirichlet import dirichlet, sentences
from pyrogram.models.logistic_normal import corpus_logistic_normal
from pyrogram.recursion import recursion

LEFT, RIGHT = 0, 1
CONTINUE, STOP = 0, 1


@recursion
def class_trees(p: Any) -> None:
    """A head of class x has open halves R and L; with a decision to stop they are complete, RC and LC."""
    i, j, k, r = p.positions("i j k r")
    x, y = p.symbols("x y", "K")
    w = p.words("w")
    R, L, RC, LC = p.items("R L RC LC", "K")
    A, B = p.items("A B", "K", "K")  # a head of class x with its child of class y, to the right and to the left
    Z = p.items("Z")
    root = p.weights("root", "K")
    attach = p.weights("attach", "K", 2, "K")
    stop = p.weights("stop", "K", 2, 2, 2)
    word = p.weights("word", "K", "V")

    R[i, i, x] += 1
    L[i, i, x] += 1
    A[i, j, x, y] += (
        stop[x, RIGHT, i < k, CONTINUE] * attach[x, RIGHT, y] * word[y, w[j]] * R[i, k, x] * LC[k + 1, j, y]
    )
    B[i, j, x, y] += stop[x, LEFT, k < j, CONTINUE] * attach[x, LEFT, y] * word[y, w[i]] * RC[i, k - 1, y] * L[k, j, x]
    R[i, j, x] += A[i, k, x, y] * RC[k, j, y]
    L[i, j, x] += LC[i, k, y] * B[k, j, x, y]
    RC[i, j, x] += stop[x, RIGHT, i < j, STOP] * R[i, j, x]
    LC[i, j, x] += stop[x, LEFT, i < j, STOP] * L[i, j, x]
    Z[()] += root[x] * word[x, w[r]] * LC[1, r, x] * RC[r, p.n, x]


def class_grammar(num_classes: int, num_words: int) -> RecursiveGrammar:
    K, V = num_classes, num_words
    shapes = {"root": (K,), "attach": (K, 2, K), "stop": (K, 2, 2, 2), "word": (K, V)}
    return RecursiveGrammar({name: Block(torch.Size(s)) for name, s in shapes.items()}, class_trees(), V)


class Network(torch.nn.Module):
    """Weights from vectors: every multinomial has one, and a layer that its block shares makes its events of it."""

    def __init__(self, grammar: RecursiveGrammar, size: int = 8) -> None:
        super().__init__()
        self.grammar = grammar
        blocks = grammar.blocks.items()
        self.vectors = torch.nn.ParameterDict(
            {n: torch.nn.Parameter(torch.randn(*b.shape[:-1], size)) for n, b in blocks}
        )
        self.layers = torch.nn.ModuleDict({n: torch.nn.Linear(size, b.shape[-1]) for n, b in blocks})

    def forward(self) -> dict[str, Tensor]:
        return {n: b.softmax(self.layers[n](self.vectors[n].tanh())) for n, b in self.grammar.blocks.items()}


def neural(words: Tensor, grammar: RecursiveGrammar, network: Network) -> None:
    """Weights that a network makes."""
    pyro.module("network", network)
    sentences(words, grammar, network())


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    words, unseen = corpus.words[::2], corpus.words[1::2]
    grammar, steps = class_grammar(args.num_classes, len(corpus.vocab)), args.num_steps

    def fit(loop: Any, **prior: float) -> Mapping[str, Tensor]:
        found: Mapping[str, Tensor] = loop.run(words, grammar, num_steps=steps, progress=False, **prior).weights()
        return found

    def fit_network() -> Mapping[str, Tensor]:
        return EM(neural).run(words, grammar, Network(grammar), num_steps=steps, progress=False).weights()

    def svi() -> Mapping[str, Tensor]:
        network = Network(grammar)
        adam = pyro.optim.Adam({"lr": 0.05})  # type: ignore[attr-defined]
        loop = SVI(neural, lambda *args: None, adam, Trace_ELBO())
        for _ in range(5 * steps):
            loop.step(words, grammar, network)
        return network()

    def nuts() -> Mapping[str, Tensor]:
        chain = MCMC(NUTS(dirichlet, max_tree_depth=3), num_samples=steps, warmup_steps=steps, disable_progbar=True)
        chain.run(words, grammar)
        return {name: draws.mean(0) for name, draws in chain.get_samples().items()}

    inferences = {
        ("EM", "Dirichlet"): lambda: fit(EM(dirichlet), concentration=1.1),  # maximum a posteriori
        ("variational EM", "Dirichlet"): lambda: fit(VariationalEM(dirichlet)),
        ("variational EM", "logistic normal"): lambda: fit(VariationalEM(corpus_logistic_normal)),
        ("collapsed VB", "Dirichlet"): lambda: fit(CollapsedVB(dirichlet)),
        ("Hastings", "Dirichlet"): lambda: fit(TreeHastings(dirichlet, seed=args.seed)),
        ("EM", "neural"): fit_network,
        ("SVI", "neural"): svi,
        ("NUTS", "Dirichlet"): nuts,
    }
    print(f"{len(words)} sentences, {grammar.num_events} events; nats a word of {len(unseen)} other sentences:")
    for (inference, prior), infer in inferences.items():
        pyro.clear_param_store()
        pyro.set_rng_seed(args.seed)
        weights = {name: w.detach() for name, w in infer().items()}
        log_prob = Sentence(grammar, weights).log_prob(unseen).sum() / (unseen >= 0).sum()
        print(f"{inference:<15} {prior:<16} {float(log_prob):7.3f}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=200, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=6, help="of sentences, in words")
    parser.add_argument("--num-classes", type=int, default=3)
    parser.add_argument("--num-steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
