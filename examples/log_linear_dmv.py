# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The DMV with features: log-linear weights, in which tags of one family share what they know.

    python examples/log_linear_dmv.py                                   # on the built-in corpus
    python examples/log_linear_dmv.py --conllu train.conllu --sigma 0.5

The score of a dependent is a sum of weights of features: of the two tags, of their families (nouns, verbs, ..), and of
the dependent alone. Each has a normal prior, so that evidence goes to the coarsest feature that explains it. EM takes
the likelihood and the prior as they stand: the E-step is the chart, the M-step moves all weights up its tangent.

Reference: Berg-Kirkpatrick, Bouchard-Cote, DeNero and Klein (2010), "Painless unsupervised learning with features",
https://aclanthology.org/N10-1083
"""

import argparse
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.data import tag_families
from pyrogram.distributions import Sentence
from pyrogram.infer import EM
from pyrogram.metrics import directed_accuracy


def log_linear_dmv(words: Tensor, grammar: DMV, family: Tensor, sigma: float = 1.0) -> None:
    """Sentences whose weights are softmax of sums of features.

    :param family: the number of each tag's family, shape ``(V,)``.
    :param sigma: the standard deviation of a feature's weight.
    """
    V, F = grammar.num_tags, int(family.max()) + 1

    def features(name: str, *shape: int) -> Tensor:
        found: Tensor = pyro.sample(name, dist.Normal(torch.zeros(shape), sigma).to_event(len(shape)))
        return found

    tags, families, dependent = features("tags", V, 2, V), features("families", F, 2, F), features("dependent", 2, V)
    attach = tags + families[family][:, :, family] + dependent
    stop = features("stop", V, 2, 2, 2) + features("stop.families", F, 2, 2, 2)[family]
    logits = {"root": features("root", V) + features("root.families", F)[family], "attach": attach, "stop": stop}
    with pyro.plate("sentences", len(words)):
        log_weights = {name: x.log_softmax(-1) for name, x in logits.items()}
        pyro.sample("words", Sentence(grammar, log_weights=log_weights), obs=words)


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    pyro.set_rng_seed(args.seed)
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    families = tag_families("universal" if args.conllu else "penn")
    names = [families.get(tag, tag) for tag in corpus.vocab.symbols]
    family = torch.tensor([sorted(set(names)).index(name) for name in names])
    grammar = DMV(num_tags=len(corpus.vocab))

    loop = EM(log_linear_dmv, initial_weights="harmonic", m_steps=args.m_steps)
    loop.run(corpus.words, grammar, family, args.sigma, num_steps=args.num_steps, progress=False)

    trees = grammar.derivation(loop.weights(), corpus.words).mbr()
    print(f"{len(corpus)} sentences, {len(loop.history)} iterations, log joint {loop.history[-1]:.2f}")
    for name in ("tags", "families"):
        print(f"{name}: the greatest weight of a feature is {float(loop.latents()[name].abs().max()):.2f}")
    print(f"heads that are right: {directed_accuracy(trees, corpus.heads):.1%}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=500, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--sigma", type=float, default=1.0, help="standard deviation of the weight of a feature")
    parser.add_argument("--num-steps", type=int, default=30)
    parser.add_argument("--m-steps", type=int, default=10, help="of L-BFGS in an iteration")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
