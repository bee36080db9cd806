# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The HDP-PCFG: a grammar with more symbols than it needs, of which the data choose how many are used.

    python examples/hdp_pcfg.py                                         # on the tags of the built-in corpus
    python examples/hdp_pcfg.py --conllu train.conllu --num-symbols 20 --num-steps 500

Sticks are broken into the probabilities beta of all symbols; those that come late are small. Every symbol z draws

    whether it has two children or a word,     ~ Dirichlet(1, 1),
    its children, two symbols at once,         ~ Dirichlet(alpha beta beta^T),
    its word,                                  ~ Dirichlet(0.1, .., 0.1),

so a pair of children is likely if both are likely. Beside it is the plain Bayesian PCFG, whose beta is uniform.

Inference is Hastings' sampler, which integrates the multinomials out and samples beta given the trees by slices.
TreeGibbs draws the multinomials, too; their concentrations are tiny, so that a rule once lost is of weight near zero.
SVI takes the same model, and after as long a time was a nat a word behind; EM does not, for it has no mode.

References: Liang, Petrov, Jordan and Klein (2007), "The infinite PCFG using hierarchical Dirichlet processes",
https://aclanthology.org/D07-1072; Johnson, Griffiths and Goldwater (2007), "Bayesian inference for PCFGs via
Markov chain Monte Carlo", https://aclanthology.org/N07-1018
"""

import argparse
from collections.abc import Sequence

import pyro
import torch
from torch import Tensor

from pyrogram import CFG, Block, Corpus
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.grammars import Word
from pyrogram.infer import TreeHastings
from pyrogram.priors import stick_breaking


def symbols_and_pairs(num_symbols: int, words: Sequence[str]) -> CFG:
    """Rules S -> z, z -> two | one, two -> any pair of symbols, one -> any word: in this order."""
    symbols = [f"N{k}" for k in range(num_symbols)]
    rules: list[tuple[str, tuple[str, ...]]] = [("S", (z,)) for z in symbols]
    rules += [(z, (f"{z}.{kind}",)) for z in symbols for kind in ("two", "one")]
    rules += [(f"{z}.two", (a, b)) for z in symbols for a in symbols for b in symbols]
    rules += [(f"{z}.one", (Word(word),)) for z in symbols for word in words]
    return CFG(rules)


def hdp_pcfg(words: Tensor, grammar: CFG, num_symbols: int, alpha: float, gamma: float | None) -> None:
    """Sentences of a PCFG with K symbols.

    :param alpha: how close the children of all symbols are to beta.
    :param gamma: of the sticks, a large one for many symbols; None: beta is uniform.
    """
    K, V = num_symbols, grammar.num_words
    beta = torch.full((K,), 1 / K) if gamma is None else stick_breaking("beta", Block(torch.Size([K])), gamma)
    batch = beta.shape[:-1]
    pairs = (beta[..., :, None] * beta[..., None, :]).flatten(-2)
    two_or_one, word = torch.ones(*batch, 2 * K), torch.full((*batch, K * V), 0.1)
    concentration = torch.cat([alpha * beta, two_or_one, alpha * pairs.repeat(*(1 for _ in batch), K), word], -1)
    rules = pyro.sample("rules", dirichlet_prior(grammar.blocks["rules"], concentration.clamp_min(1e-6)))
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, {"rules": rules}), obs=words)


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.set_rng_seed(args.seed)
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    K = args.num_symbols
    grammar = symbols_and_pairs(K, corpus.vocab.symbols)
    words = grammar.encode(corpus.tags)
    test, train = words[: len(words) // 10], words[len(words) // 10 :]
    for name, gamma in {"HDP-PCFG": args.gamma, "plain PCFG": None}.items():
        chain = TreeHastings(hdp_pcfg, seed=args.seed)
        chain.run(
            train, grammar, K, args.alpha, gamma, num_steps=args.num_steps, burn_in=args.num_steps // 2, progress=False
        )
        weights = chain.weights()
        per_word = float(Sentence(grammar, weights).log_prob(test).sum() / (test >= 0).sum())
        counts = grammar.counts(train, chain.trees())["rules"].sum(0)
        used = int((counts[K : 3 * K].reshape(K, 2).sum(-1) > 0.01 * counts[K : 3 * K].sum()).sum())
        print(f"{name}: log joint {chain.history[-1]:.1f}, {per_word:.3f} nats a word of {len(test)} other sentences,")
        print(f"    {used} of {K} symbols are at more than 1% of the nodes")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=500, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=8, help="of sentences, in words")
    parser.add_argument("--num-symbols", type=int, default=20, help="where the sticks are cut off")
    parser.add_argument("--alpha", type=float, default=50.0, help="how close children are to beta")
    parser.add_argument("--gamma", type=float, default=1.0, help="concentration of the sticks")
    parser.add_argument("--num-steps", type=int, default=100, help="sweeps, of which the first half is left out")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
