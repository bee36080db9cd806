# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A Bayesian tagger: conditional random fields of order one and two, learnt from tagged words.

    python examples/second_order_tagger.py                                  # on the built-in corpus
    python examples/second_order_tagger.py --conllu train.conllu --num-steps 100

Each tag has a score by its word and by the last letters of its word, and each tag has one together with the tags
before it: one of them, or two. All weights have a normal prior. `HigherOrderChain` sums over all sequences of tags.

References: Lafferty, McCallum and Pereira (2001), "Conditional random fields"; Mueller, Schmid and Schütze (2013),
"Efficient higher-order CRFs for morphological tagging", https://aclanthology.org/D13-1032
"""

import argparse
import time
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

from pyrogram import Corpus
from pyrogram.distributions import HigherOrderChain


def tagger(words: Tensor, endings: Tensor, tags: Tensor | None, num_tags: int, order: int) -> HigherOrderChain:
    """Tags of sentences."""
    K = num_tags

    def weights(name: str, *shape: int) -> Tensor:
        drawn: Tensor = pyro.sample(name, dist.Normal(torch.zeros(shape), 1.0).to_event(len(shape)))
        return drawn

    scores = weights("words", int(words.max()) + 1, K)[words.clamp_min(0)]
    scores = scores + weights("endings", int(endings.max()) + 1, K)[endings.clamp_min(0)]
    in_a_row = weights("tags", *[K + 1] * order, K)
    law = HigherOrderChain(scores, in_a_row, (words >= 0).sum(-1), order=order)
    with pyro.plate("sentences", len(words)):
        pyro.sample("y", law, obs=tags)
    return law


def numbered(forms: Sequence[Sequence[str]], num_train: int, n: int) -> Tensor:
    """Numbers of forms, 0 for what is not in the first sentences, shape ``(N, n)``, padded with -1."""
    known: dict[str, int] = {}
    for sentence in forms[:num_train]:
        for form in sentence:
            known.setdefault(form, len(known) + 1)
    return torch.tensor([[known.get(f, 0) for f in sentence] + [-1] * (n - len(sentence)) for sentence in forms])


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    corpus = Corpus.from_conllu(args.conllu) if args.conllu else Corpus.builtin(args.num_sentences, args.seed)
    corpus = corpus.filter(max_length=args.max_length)
    tags, K = corpus.words, len(corpus.vocab)
    num_train, n = len(tags) * 4 // 5, tags.shape[1]
    forms = [[str(form) for form in sentence] for sentence in corpus.forms]
    words = numbered(forms, num_train, n)
    endings = numbered([[form[-2:] for form in sentence] for sentence in forms], num_train, n)
    train, test = slice(num_train), slice(num_train, None)
    real = tags[test] >= 0
    print(f"{num_train} sentences to learn from, {len(tags) - num_train} others")
    for order in (1, 2):
        pyro.clear_param_store()
        guide, start = AutoDelta(tagger), time.perf_counter()
        svi = SVI(tagger, guide, pyro.optim.Adam({"lr": args.learning_rate}), Trace_ELBO())
        for _ in range(args.num_steps):
            svi.step(words[train], endings[train], tags[train], K, order)
        seconds = (time.perf_counter() - start) / args.num_steps
        with torch.no_grad():
            learnt = guide(words[train], endings[train], tags[train], K, order)
            law = pyro.poutine.condition(tagger, learnt)(words[test], endings[test], tags[test], K, order)
            found = law.mbr()
        right = float((found == tags[test])[real].float().mean())
        nats = float(law.log_prob(tags[test]).sum().detach() / real.sum())
        print(f"order {order}: {right:.1%} of tags are right, {nats:.3f} nats a word, {seconds:.2f} s a step")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--conllu", help="a treebank; by default the built-in corpus")
    parser.add_argument("--num-sentences", type=int, default=500, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=15)
    parser.add_argument("--num-steps", type=int, default=40)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
