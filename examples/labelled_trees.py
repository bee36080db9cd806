# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Arcs with labels: which word hangs on which, and as what; a Bayesian parser learnt from trees.

    python examples/labelled_trees.py                               # labels are phrases of the built-in sentences
    python examples/labelled_trees.py --conllu train.conllu         # labels are relations
    python examples/labelled_trees.py --crossing                    # arcs may cross

Each arc has a score for every label, by the tags of head and dependent and by its direction, under a normal prior; its
mode is found by stock SVI. The built-in sentences have phrases, and the label of an arc is the largest phrase whose
head is the dependent: NP for a noun with all that belongs to it. Printed are the shares of right heads and of right
heads with right labels, of the best trees and of those with the most expected right arcs.

Reference: Koo, Globerson, Carreras and Collins (2007), "Structured prediction models via the matrix-tree theorem",
https://aclanthology.org/D07-1015, section 2
"""

import argparse
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from nltk.tree import Tree
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

from pyrogram import Corpus
from pyrogram.data.builtin import generate
from pyrogram.distributions import LabelledDependencyTree


def parser(tags: Tensor, trees: Tensor | None, sizes: tuple[int, int], projective: bool) -> LabelledDependencyTree:
    """Trees of sentences, heads and labels ``(N, n, 2)``, from tags.

    :param sizes: numbers of tags and of labels.
    """
    V, L = sizes
    t = torch.nn.functional.pad(tags.clamp_min(0), (1, 0), value=V)  # ROOT has a tag of its own
    position = torch.arange(tags.shape[1] + 1)
    right = (position > position[:, None]).long()
    weights = pyro.sample("arcs", dist.Normal(torch.zeros(V + 1, 2, V, L), 1.0).to_event(4))
    scores = weights[t[:, :, None], right, t[:, None, :].clamp_max(V - 1)]  # column 0, of ROOT, is not read
    law = LabelledDependencyTree(scores, (tags >= 0).sum(-1), projective=projective)
    with pyro.plate("sentences", len(tags)):
        pyro.sample("trees", law, obs=trees)
    return law


def phrases(heads: Sequence[int], brackets: str) -> list[str]:
    """For each word the label of the largest phrase whose head it is; its tag, if it is alone."""
    found = [""] * len(heads)

    def below(tree: Tree, start: int) -> int:
        """Children come first, so that the largest phrase has the last word."""
        end = start
        for child in tree:
            end = below(child, end) if isinstance(child, Tree) else end + 1
        head = next(m for m in range(start, end) if not start < heads[m] <= end)
        found[head] = tree.label()
        return end

    below(Tree.fromstring(brackets), 0)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    tags, trees, sizes = _sentences(args)
    cut = len(tags) * 4 // 5
    svi = SVI(parser, AutoDelta(parser), pyro.optim.Adam({"lr": args.learning_rate}), Trace_ELBO())
    model = sizes, not args.crossing
    for _ in range(args.num_steps):
        svi.step(tags[:cut], trees[:cut], *model)
    with torch.no_grad(), pyro.poutine.condition(data={"arcs": pyro.param("AutoDelta.arcs")}):
        law = parser(tags[cut:], None, *model)
    print(f"{cut} sentences to learn from, {len(tags) - cut} others; {sizes[1]} labels")
    gold, real = trees[cut:], tags[cut:] >= 0
    for name, found in (("best trees", law.argmax()), ("most expected right arcs", law.mbr())):
        right = (found == gold)[real]
        heads, both = right[:, 0].double().mean(), right.all(-1).double().mean()
        print(f"{name}: {float(heads):.1%} of heads are right, {float(both):.1%} with their labels")


def _sentences(args: argparse.Namespace) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Tags ``(N, n)``; heads and labels ``(N, n, 2)``; how many tags and labels there are."""
    if args.conllu:
        with open(args.conllu, encoding="utf-8") as file:
            text = file.read().strip()
        named = text.partition("\n")[0].partition("# global.columns =")[2]  # of CoNLL-U Plus
        names = (named or "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL").split()
        tag, head, label = (names.index(name) for name in ("UPOS", "HEAD", "DEPREL"))
        blocks = [block.split("\n") for block in text.split("\n\n")]
        rows = [[line.split("\t") for line in block if line.split("\t")[0].isdigit()] for block in blocks]
        sentences = [([x[tag] for x in r], [int(x[head]) for x in r], [x[label] for x in r]) for r in rows]
    else:
        drawn = generate(args.num_sentences)
        sentences = [(list(s.tags), list(s.heads), phrases(s.heads, s.brackets)) for s in drawn]
    sentences = [s for s in sentences if len(s[0]) <= args.max_length]
    names = sorted({label for _, _, labels in sentences for label in labels})
    corpus = Corpus.from_sentences([s[0] for s in sentences], heads=[s[1] for s in sentences], punctuation="keep")
    if not args.crossing:
        keep = [i for i in range(len(corpus)) if len(corpus[[i]].projective())]
        corpus, sentences = corpus[keep], [sentences[i] for i in keep]
    labels = torch.full_like(corpus.words, -1)
    for row, (_, _, of_words) in zip(labels, sentences, strict=True):
        row[: len(of_words)] = torch.tensor([names.index(label) for label in of_words])
    return corpus.words, torch.stack([corpus.heads, labels], -1), (len(corpus.vocab), len(names))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads and relations; built-in sentences by default")
    parser.add_argument("--num-sentences", type=int, default=400, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--crossing", action="store_true", help="arcs may cross: all trees, not the projective ones")
    parser.add_argument("--num-steps", type=int, default=40)
    parser.add_argument("--learning-rate", type=float, default=0.2)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
