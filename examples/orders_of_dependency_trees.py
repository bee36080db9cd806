# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What may an arc look at? Bayesian dependency parsers of three orders, learnt from trees.

    python examples/orders_of_dependency_trees.py                                   # on the built-in corpus
    python examples/orders_of_dependency_trees.py --conllu train.conllu --num-steps 100

First order: an arc has a score by the tags of head and dependent, and by its direction. Second order: it has another
one together with its sibling, the child before it on that side. Third order: it has one more, together with the head of
the head. All weights have a normal prior, whose mode is found by stock SVI. What a higher order costs is printed, too:
O(n^3), O(n^3) and O(n^4) for n words.

References: McDonald and Pereira (2006), "Online learning of approximate dependency parsing algorithms",
https://aclanthology.org/E06-1011; Koo and Collins (2010), "Efficient third-order dependency parsers",
https://aclanthology.org/P10-1001
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
from pyrogram.distributions import GrandparentDependencyTree, ProjectiveDependencyTree, SiblingDependencyTree
from pyrogram.metrics import directed_accuracy

Trees = ProjectiveDependencyTree | SiblingDependencyTree | GrandparentDependencyTree


def parser(tags: Tensor, heads: Tensor | None, num_tags: int, order: int) -> Trees:
    """Trees of sentences, from tags."""
    V, n = num_tags + 1, tags.shape[1]
    t = torch.nn.functional.pad(tags.clamp_min(0), (1, 0), value=num_tags)  # ROOT has a tag of its own

    def weights(name: str, *shape: int) -> Tensor:
        drawn: Tensor = pyro.sample(name, dist.Normal(torch.zeros(shape), 1.0).to_event(len(shape)))
        return drawn

    position = torch.arange(n + 1)
    right = (position > position[:, None]).long()
    arcs = weights("arcs", V, 2, V)[t[:, :, None], right, t[:, None, :]]
    lengths = (tags >= 0).sum(-1)
    law: Trees
    if order == 1:
        law = ProjectiveDependencyTree(arcs, lengths=lengths, valence=False)
    else:
        # [head, dependent, sibling]: by the tags of the two children; the head itself stands for none.
        pairs = weights("siblings", V, 2, V + 1)
        other = t[:, None, None, :].expand(-1, n + 1, n + 1, -1)
        is_head = position[:, None, None] == position
        siblings = pairs[t[:, None, :, None], right[:, :, None], torch.where(is_head, V, other)]
        if order == 2:
            law = SiblingDependencyTree(arcs, siblings, lengths=lengths)
        else:
            # [grandparent, head, dependent]
            chain = weights("grandparents", V, V, V)[t[:, :, None, None], t[:, None, :, None], t[:, None, None, :]]
            third = siblings[:, None].expand(-1, n + 1, -1, -1, -1)
            law = GrandparentDependencyTree(arcs, chain, third, lengths)
    with pyro.plate("sentences", len(tags)):
        pyro.sample("heads", law, obs=heads)
    return law


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    corpus = Corpus.from_conllu(args.conllu) if args.conllu else Corpus.builtin(args.num_sentences, args.seed)
    corpus = corpus.projective().filter(max_length=args.max_length)
    tags, heads, num_tags = corpus.words, corpus.heads, len(corpus.vocab)
    cut = len(tags) * 4 // 5
    print(f"{cut} sentences to learn from, {len(tags) - cut} others")
    for order in (1, 2, 3):
        pyro.clear_param_store()
        guide, start = AutoDelta(parser), time.perf_counter()
        svi = SVI(parser, guide, pyro.optim.Adam({"lr": args.learning_rate}), Trace_ELBO())
        for _ in range(args.num_steps):
            svi.step(tags[:cut], heads[:cut], num_tags, order)
        seconds = (time.perf_counter() - start) / args.num_steps
        with torch.no_grad():
            learnt = guide(tags[:cut], heads[:cut], num_tags, order)
            law = pyro.poutine.condition(parser, learnt)(tags[cut:], heads[cut:], num_tags, order)
            accuracy, nats = directed_accuracy(law.mbr(), heads[cut:]), law.log_prob(heads[cut:]).mean()
        print(f"order {order}: {accuracy:.1%} of heads are right, log p(tree) {float(nats):.3f} nats, ", end="")
        print(f"{seconds:.2f} s a step")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--conllu", help="a treebank; by default the built-in corpus")
    parser.add_argument("--num-sentences", type=int, default=500, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=8)
    parser.add_argument("--num-steps", type=int, default=60)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
