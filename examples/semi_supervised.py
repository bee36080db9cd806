# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Semi-supervised parsing: the DMV from sentences of some of which, or of some words of which, the heads are known.

    python examples/semi_supervised.py                           # on the built-in corpus
    python examples/semi_supervised.py --conllu train.conllu --inference vb --plot accuracy.svg

One model is unsupervised, semi-supervised (the trees of some sentences are known), partly annotated (the heads of some
words are) and supervised: what is known goes to ``Sentence`` as ``known=``, and every inference takes it. The table has
the share of words that are annotated, and how many heads are right of the words that are not, in the trees of greatest
posterior given what is known; and of all words of other sentences, of which nothing is known. Each run annotates other
sentences and words; the numbers are means of runs, with their standard deviations.

Reference: Pereira and Schabes (1992), "Inside-outside reestimation from partially bracketed corpora",
https://aclanthology.org/P92-1017
"""

import argparse
from collections.abc import Sequence

import pyro
import torch
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.distributions import Sentence
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, VariationalEM
from pyrogram.metrics import directed_accuracy
from pyrogram.models.dirichlet import dirichlet

INFERENCES = {"map": EM, "vb": VariationalEM, "cvb": CollapsedVB, "gibbs": TreeGibbs}


def annotated(corpus: Corpus, share: float, whole_sentences: bool) -> Tensor:
    """Heads of a share of the sentences, or of the words, at random; -1 for the others, shape ``(N, n)``."""
    shape = (len(corpus), 1) if whole_sentences else corpus.words.shape
    return torch.where(torch.rand(shape) < share, corpus.heads, -1)


def accuracy_elsewhere(trees: Tensor, heads: Tensor, known: Tensor) -> float:
    """The share of right heads among the words whose head is not known; NaN if there is none."""
    asked = (heads >= 0) & (known < 0)
    return float((trees == heads)[asked].double().mean())


def spread(values: Tensor) -> str:
    """The mean of some shares, and their standard deviation; a dash for NaN."""
    if bool(values.isnan().any()):
        return "-"
    return f"{float(values.mean()):.1%}" + (f" ± {100 * float(values.std()):.1f}" if len(values) > 1 else "")


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    corpus = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = corpus.filter(max_length=args.max_length).projective()
    size = len(corpus) * 9 // 10
    train, test = corpus[:size], corpus[size:]
    grammar = DMV(num_tags=len(corpus.vocab))
    curves: dict[str, list[Tensor]] = {}
    print("known of          share   words       elsewhere   new sentences")
    for kind, whole_sentences in (("sentences", True), ("words", False)):
        for share in args.shares:
            found = []
            for run in range(args.num_runs):
                pyro.clear_param_store()
                pyro.set_rng_seed(args.seed + run)
                known = annotated(train, share, whole_sentences)
                loop = INFERENCES[args.inference](dirichlet, initial_weights="harmonic")
                prior = {"concentration": 1.1 if args.inference == "map" else 0.25}
                loop.run(train.words, grammar, known=known, num_steps=args.num_steps, progress=False, **prior)
                weights = loop.weights()
                trees = Sentence(grammar, weights, known=known).derivation(train.words).mbr()
                elsewhere = accuracy_elsewhere(trees, train.heads, known)
                new = directed_accuracy(grammar.derivation(weights, test.words).mbr(), test.heads)
                found.append([float((known >= 0).sum() / (train.heads >= 0).sum()), elsewhere, new])
            words, elsewhere_runs, new_runs = torch.tensor(found).T
            print(f"{kind:<14} {share:>8.0%} {words.mean():>7.1%} {spread(elsewhere_runs):>15} {spread(new_runs):>15}")
            curves.setdefault(kind, []).append(new_runs)
    if args.plot:
        _plot(args.plot, args.shares, curves)


def _plot(path: str, shares: Sequence[float], curves: dict[str, list[Tensor]]) -> None:
    """The accuracy of new sentences against the share, drawn by matplotlib: means, and standard deviations of runs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for (kind, runs), marker in zip(curves.items(), "os", strict=True):
        means = [100 * float(x.mean()) for x in runs]
        spreads = [100 * float(x.std()) if len(x) > 1 else 0.0 for x in runs]
        x = [100 * share for share in shares]
        axes.errorbar(x, means, spreads, marker=marker, capsize=3, label=f"of {kind}")
    axes.set(xlabel="heads known, %", ylabel="heads right in new sentences, %")
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks([100 * share for share in shares], [f"{100 * share:g}" for share in shares])
    axes.legend()
    figure.savefig(path)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=1000, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--inference", choices=sorted(INFERENCES), default="vb")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.01, 0.1, 1.0], help="of what is annotated")
    parser.add_argument("--num-steps", type=int, default=30)
    parser.add_argument("--num-runs", type=int, default=1, help="how often, with other annotations")
    parser.add_argument("--plot", help="a file for a picture, .svg or .png")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
