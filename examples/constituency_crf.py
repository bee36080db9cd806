# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A Bayesian constituency parser: trees by the scores of their spans, learnt from trees.

    python examples/constituency_crf.py                                    # on the built-in corpus
    python examples/constituency_crf.py --conllu train.conllu --num-steps 200

The constituents of a dependency tree are its words with all that hangs below them, so a constituent may have any
number of children. Each span has a score by the tags at its edges, within and without, and by its width; the weights
of these features have a normal prior. Trees are `SpanTree`, a conditional random field, so the posterior mode is
found by stock SVI. Beside it is the tree in which each word begins a constituent that goes to the end of the
sentence.

Reference: Finkel, Kleeman and Manning (2008), "Efficient, feature-based, conditional random field parsing",
https://aclanthology.org/P08-1109
"""

import argparse
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

from pyrogram import Corpus
from pyrogram.distributions import SpanTree


def spans_of(heads: Tensor) -> Tensor:
    """The constituents of dependency trees as labels, all 0, shape ``(N, n, n+1)``."""
    N, n = heads.shape
    value = torch.full((N, n, n + 1), -1)
    for row, tree in zip(value, heads.tolist(), strict=True):
        length = sum(h >= 0 for h in tree)
        below = [{i} for i in range(1, length + 1)]
        for i in range(length):
            above = tree[i]
            while above:
                below[above - 1].add(i + 1)
                above = tree[above - 1]
        for i, words in enumerate(below):
            row[i, i + 1] = 0
            row[min(words) - 1, max(words)] = 0
    return value


def scores(weights: Tensor, widths: Tensor, tags: Tensor) -> Tensor:
    """Scores of spans, shape ``(N, n, n+1)``.

    :param weights: of a tag, shape ``(V, 4 + 2 V)``: at the four places, and beside each tag at both edges.
    """
    V, n = int(weights.shape[0]), tags.shape[1]
    single, left, right = weights.split([4, V, V], -1)
    inside = tags.clamp_min(0)
    before, after = (torch.nn.functional.pad(inside, pad, value=V - 1) for pad in ((1, -1), (-1, 1)))
    begins = single[before, 0] + single[inside, 1] + left[before, inside]
    ends = single[inside, 2] + single[after, 3] + right[inside, after]
    position = torch.arange(n + 1)
    width = (position - position[:-1, None]).clamp(0, len(widths) - 1)
    return begins[:, :, None] + torch.nn.functional.pad(ends, (1, 0))[:, None, :] + widths[width]


def parser(tags: Tensor, trees: Tensor | None, num_tags: int) -> SpanTree:
    """Trees of sentences, from tags."""
    V = num_tags + 1  # and one for what is outside of the sentence
    weights = pyro.sample("weights", dist.Normal(torch.zeros(V, 4 + 2 * V), 1.0).to_event(2))
    widths = pyro.sample("widths", dist.Normal(torch.zeros(tags.shape[1] + 1), 1.0).to_event(1))
    law = SpanTree(scores(weights, widths, tags), (tags >= 0).sum(-1), binary=False, labelled=False)
    with pyro.plate("sentences", len(tags)):
        pyro.sample("trees", law, obs=trees)
    return law


def f1(found: Tensor, gold: Tensor) -> float:
    """Of constituents of two words and more, the sentence itself left out."""
    larger = torch.ones(found.shape[1:]).triu(2).bool()
    lengths = torch.where(gold >= 0, torch.arange(1, gold.shape[-1] + 1) - 1, 0).amax((-2, -1))
    whole = torch.zeros_like(found, dtype=torch.bool)
    whole[torch.arange(len(found)), 0, lengths] = True
    a, b = ((x >= 0) & larger & ~whole for x in (found, gold))
    return 2 * float((a & b).sum()) / max(1, int(a.sum() + b.sum()))


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    corpus = Corpus.from_conllu(args.conllu) if args.conllu else Corpus.builtin(args.num_sentences, args.seed)
    corpus = corpus.projective().filter(max_length=args.max_length)
    tags, trees, num_tags = corpus.words, spans_of(corpus.heads), len(corpus.vocab)
    num_train = len(tags) * 4 // 5
    pyro.clear_param_store()
    guide = AutoDelta(parser)
    svi = SVI(parser, guide, pyro.optim.Adam({"lr": args.learning_rate}), Trace_ELBO())
    for _ in range(args.num_steps):
        svi.step(tags[:num_train], trees[:num_train], num_tags)
    with torch.no_grad():
        learnt = guide(tags[:num_train], None, num_tags)
        law = pyro.poutine.condition(parser, learnt)(tags[num_train:], trees[num_train:], num_tags)
        log_probs = law.log_prob(trees[num_train:])
    position = torch.arange(tags.shape[1] + 1)
    lengths = (tags[num_train:] >= 0).sum(-1)[:, None, None]
    to_the_end = torch.where((position == lengths) & (position[:-1, None] < lengths), 0, -1)
    gold = trees[num_train:]
    print(
        f"{num_train} sentences to learn from, {len(gold)} others, log p(tree) {float(log_probs.mean()):.3f} nats each"
    )
    print(f"F1 of constituents: Viterbi {f1(law.argmax(), gold):.1%}, MBR {f1(law.mbr(), gold):.1%}, ", end="")
    print(f"to the end {f1(to_the_end, gold):.1%}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--conllu", help="a treebank; by default the built-in corpus")
    parser.add_argument("--num-sentences", type=int, default=1000, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=20)
    parser.add_argument("--num-steps", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
