# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parse text of any language by its tags, without a treebank, and see what every step is worth.

    python examples/zero_shot.py                                    # on the built-in corpus, with universal tags
    python examples/zero_shot.py --conllu target.conllu --leave-out de

A grammar is learnt from the tags, with a prior over other languages; a scorer that has learnt from their trees reads
the grammar's arcs, and goes on with its own trees. Prior and scorer come with the package; on the command line it is
``pyrogram parse --zero-shot``. Heads in the file are only scored. Sources that are left out are not behind the grammar;
the scorer that ships may have seen them, so whoever measures learns another one (``ArcScorer.fit``).

Reference: McDonald, Petrov and Hall (2011), "Multi-source transfer of delexicalized dependency parsers",
https://aclanthology.org/D11-1006
"""

import argparse
from collections.abc import Sequence

from torch import Tensor

from pyrogram import Corpus
from pyrogram.knowledge import ArcScorer, Sources, zero_shot
from pyrogram.knowledge.rules import universal_tags
from pyrogram.metrics import attach_left, attach_right, directed_accuracy


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    corpus = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else _builtin(args.num_sentences, args.seed)
    sources = Sources.shipped().without(*args.leave_out)
    plain = zero_shot(corpus, ArcScorer.shipped(), sources, self_training=False)
    parser = zero_shot(corpus, ArcScorer.shipped(), sources, seed=args.seed)
    print("\n".join(parser.told))
    trees = {
        "attach-left": attach_left(corpus.lengths),
        "attach-right": attach_right(corpus.lengths),
        "grammar": parser.grammar.parse(corpus),
        "scorer": plain.parse(corpus),
        "self-trained": parser.parse(corpus),
    }
    for name, heads in trees.items():
        print(f"{name}: {_right(heads, corpus)}")
    print(corpus[0].forms, trees["self-trained"][0, : len(corpus[0])].tolist())


def _right(heads: Tensor, corpus: Corpus) -> str:
    return "" if corpus.heads is None else f"{100 * directed_accuracy(heads, corpus.heads):.1f}% of heads are right"


def _builtin(num_sentences: int, seed: int) -> Corpus:
    """The built-in corpus, its Penn tags read as universal ones."""
    penn = Corpus.builtin(num_sentences, seed)
    tag = dict(zip(penn.vocab, universal_tags(penn.vocab), strict=True))
    tags, heads = [[tag[t] for t in s.tags] for s in penn], [s.heads or () for s in penn]
    return Corpus.from_sentences(tags, forms=penn.forms, heads=heads, tags="upos")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with universal tags; a built-in corpus by default")
    parser.add_argument("--leave-out", nargs="*", default=[], help="languages of sources, such as the file's own")
    parser.add_argument("--num-sentences", type=int, default=300, help="of the built-in corpus")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
