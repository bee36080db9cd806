# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A PCFG whose nonterminals have latent subtypes, learnt from a treebank by collapsed variational Bayes.

    python examples/latent_annotation_pcfg.py                           # on built-in trees
    python examples/latent_annotation_pcfg.py --train train.mrg --test test.mrg --num-subtypes 4

References: Matsuzaki, Miyao and Tsujii (2005), "Probabilistic CFG with latent annotations",
https://aclanthology.org/P05-1010; Wang and Blunsom (2013), "Collapsed variational Bayesian inference for PCFGs",
section 4.3, https://aclanthology.org/W13-3519
"""

import argparse
from collections.abc import Sequence

import pyro
from nltk.tree import Tree

from pyrogram.data import KnownWords, Treebank, read_treebank
from pyrogram.data.builtin import generate
from pyrogram.infer import CollapsedVB
from pyrogram.metrics import parseval
from pyrogram.models import annotated_treebank
from pyrogram.models.latent_annotation_pcfg import latent_annotation_pcfg


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    bank = read_treebank(args.train, test=args.test) if args.train else _builtin(args.num_trees)
    grammar, trees = annotated_treebank(bank.prepared("train"), args.num_subtypes)

    loop = CollapsedVB(latent_annotation_pcfg)
    loop.run(trees, grammar, concentration=args.concentration, num_steps=args.num_steps, progress=False)

    parses = grammar.parse(loop.weights(), grammar.cfg.encode(bank.sentences("test")))
    found = [grammar.cfg.tree(words, rules) for words, rules in zip(bank.forms("test"), parses.rules, strict=True)]
    scores = parseval(found, bank.parts["test"])[-1]
    print(f"{len(trees)} trees, {len(grammar.cfg.rules)} rules, {args.num_subtypes} subtypes of each nonterminal")
    print(f"objective {loop.history[-1]:.2f} after {len(loop.history)} iterations")
    print(f"labelled F1 of {len(found)} other sentences: {scores.f1:.1%}")


def _builtin(num_trees: int) -> Treebank:
    trees = [Tree.fromstring(sentence.brackets) for sentence in generate(num_trees)]
    parts = {"train": trees[num_trees // 10 :], "test": trees[: num_trees // 10]}
    return Treebank(parts, KnownWords([tree.leaves() for tree in parts["train"]]))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="a file of bracketed trees; built-in ones by default")
    parser.add_argument("--test", help="another, to be parsed")
    parser.add_argument("--num-trees", type=int, default=500, help="built-in ones, of which a tenth is parsed")
    parser.add_argument("--num-subtypes", type=int, default=2)
    parser.add_argument("--concentration", type=float, default=1.0)
    parser.add_argument("--num-steps", type=int, default=30)
    args = parser.parse_args(argv)
    if (args.train is None) != (args.test is None):
        parser.error("give --train and --test together")
    return args


if __name__ == "__main__":
    main()
