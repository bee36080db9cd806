# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences whose arcs cross: a parser learnt from partly known heads, with and without crossing arcs.

    python examples/nonprojective_trees.py                            # on sentences whose adjectives have moved away
    python examples/nonprojective_trees.py --conllu train.conllu --known 0.3

Each arc has a score by the tags of head and dependent, and by its direction and length, with a Gaussian prior. Of a
sentence the heads of some words are known. Their probability is the share of the trees that have them, by weight:
``trees.tilted(bonus)``, with a bonus of -inf for all other heads of these words, has their log Z. The scores are the
MAP estimate. ``DependencyTree`` stands beside ``ProjectiveDependencyTree``, which can learn only from sentences without
crossing arcs. Printed is the share of right heads of other sentences: of all words, and of those whose arc crosses
another.

The built-in sentences have no crossing arcs. Here some of their adjectives and adverbs have moved to other places, as
in Latin verse.

Reference: Koo, Globerson, Carreras and Collins (2007), "Structured prediction models via the matrix-tree theorem",
https://aclanthology.org/D07-1015
"""

import argparse
import random
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

from pyrogram import Corpus
from pyrogram.distributions import DependencyTree, ProjectiveDependencyTree

MOVING = ("JJ", "RB")
LONGEST_ARC = 6
TREES = {"projective": ProjectiveDependencyTree, "crossing arcs": DependencyTree}


def trees_of(kind: str, tags: Tensor, by_tags: Tensor, by_length: Tensor) -> DependencyTree | ProjectiveDependencyTree:
    """The distribution over trees of each sentence."""
    n = tags.shape[1]
    symbols = torch.nn.functional.pad(tags.clamp_min(0), (1, 0), value=len(by_tags) - 1)  # ROOT's is the last
    position = torch.arange(n + 1)
    difference = (position - position[:, None]).clamp(-LONGEST_ARC, LONGEST_ARC)
    scores = by_tags[symbols[:, :, None], (difference > 0).long(), symbols[:, None, :]]
    scores = scores + by_length[difference + LONGEST_ARC] * (position > 0)[:, None]  # ROOT is nowhere
    return TREES[kind](scores, lengths=(tags >= 0).sum(-1))


def parser(kind: str, tags: Tensor, known: Tensor, num_tags: int) -> DependencyTree | ProjectiveDependencyTree:
    """Tables of scores, and sentences of which some heads are known.

    :param known: heads, -1 where unknown and in the padding, shape ``(N, n)``.
    """
    by_tags = pyro.sample("by_tags", dist.Normal(torch.zeros(num_tags + 1, 2, num_tags + 1), 1.0).to_event(3))
    by_length = pyro.sample("by_length", dist.Normal(torch.zeros(2 * LONGEST_ARC + 1), 1.0).to_event(1))
    trees = trees_of(kind, tags, by_tags, by_length)
    other = (known[..., None] >= 0) & (torch.arange(tags.shape[1] + 1) != known[..., None])  # heads of a known word
    bonus = torch.zeros(other.shape).masked_fill(other, -torch.inf)
    with pyro.plate("sentences", len(tags)):
        pyro.factor("known heads", trees.tilted(bonus).log_partition - trees.log_partition)
    return trees


def crossing(heads: Tensor) -> Tensor:
    """Whether the arc of each word crosses another one, shape ``(N, n)``."""
    word = torch.arange(1, heads.shape[1] + 1)
    low, high = torch.minimum(heads, word), torch.maximum(heads, word)
    real = (heads >= 0)[:, :, None] & (heads >= 0)[:, None, :]
    inside = (low[:, :, None] < low[:, None, :]) & (low[:, None, :] < high[:, :, None])
    crosses = real & inside & (high[:, :, None] < high[:, None, :])
    return (crosses | crosses.mT).any(-1)


def moved(corpus: Corpus, share: float, seed: int) -> Corpus:
    """The corpus, with a share of its adjectives and adverbs at other places of their sentences."""
    rng = random.Random(seed)
    tags, heads = [], []
    for sentence in corpus:
        order = list(range(1, len(sentence.tags) + 1))
        for d, tag in enumerate(sentence.tags, 1):
            if tag in MOVING and d not in sentence.heads and rng.random() < share:
                order.remove(d)
                order.insert(rng.randrange(len(order) + 1), d)
        place = {0: 0} | {d: i for i, d in enumerate(order, 1)}
        tags.append([sentence.tags[d - 1] for d in order])
        heads.append([place[sentence.heads[d - 1]] for d in order])
    return Corpus.from_sentences(tags, heads=heads)


def right(trees: Tensor, heads: Tensor, asked: Tensor) -> str:
    """The share of right heads among some words."""
    return f"{float((trees == heads)[asked].double().mean()):.1%}" if bool(asked.any()) else "-"


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.set_rng_seed(args.seed)
    if args.conllu:
        corpus = Corpus.from_conllu(args.conllu, tags="upos").filter(max_length=args.max_length)
    else:
        corpus = moved(Corpus.builtin(args.num_sentences, max_length=args.max_length), args.moved, args.seed)
    size, num_tags = len(corpus) * 4 // 5, len(corpus.vocab)
    test = corpus[size:]
    crosses = crossing(test.heads)
    print(f"{len(corpus)} sentences, {corpus.num_nonprojective()} with crossing arcs")
    for kind in TREES:
        pyro.clear_param_store()
        train = corpus[:size].projective() if kind == "projective" else corpus[:size]
        known = torch.where(torch.rand(train.words.shape) < args.known, train.heads, -1)
        guide = AutoDelta(parser)
        svi = SVI(parser, guide, pyro.optim.Adam({"lr": args.learning_rate}), Trace_ELBO())
        data = kind, train.words, known, num_tags
        losses = [svi.step(*data) for _ in range(args.num_steps)]
        with torch.no_grad():
            found = trees_of(kind, test.words, **guide(*data)).mbr()
        print(
            f"{kind}: {len(train)} sentences, log joint from {-losses[0]:.1f} to {-losses[-1]:.1f}; right heads of "
            f"other sentences: {right(found, test.heads, test.heads >= 0)}, of arcs that cross: "
            f"{right(found, test.heads, crosses)}"
        )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; the built-in sentences by default")
    parser.add_argument("--num-sentences", type=int, default=1000, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=12, help="of sentences, in words")
    parser.add_argument("--moved", type=float, default=0.5, help="share of adjectives and adverbs that have moved")
    parser.add_argument("--known", type=float, default=0.5, help="share of words whose heads are known")
    parser.add_argument("--num-steps", type=int, default=100, help="of SVI")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
