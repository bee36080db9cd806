# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars of two languages that share normal experts, learnt together without parallel text.

    python examples/bilingual.py                                        # on two halves of the built-in corpus
    python examples/bilingual.py --conllu english.conllu german.conllu

Files must have one alphabet of tags, such as the universal one.

Reference: Cohen and Smith (2009), "Shared logistic normal distributions for soft parameter tying in unsupervised
grammar induction", section 4.3, https://aclanthology.org/N09-1009
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram import DMV, Corpus
from pyrogram.data import Vocabulary, tag_families
from pyrogram.grammars import tie
from pyrogram.infer import VariationalEM
from pyrogram.metrics import directed_accuracy
from pyrogram.models.bilingual import bilingual


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    corpora = {name: corpus.filter(max_length=args.max_length) for name, corpus in _corpora(args).items()}
    words = {name: corpus.words for name, corpus in corpora.items()}
    grammars = {name: DMV(num_tags=len(corpus.vocab)) for name, corpus in corpora.items()}
    families = tag_families("universal" if args.conllu else "penn")
    structures = {
        name: tie(grammars[name], [families.get(tag, "other") for tag in corpus.vocab.symbols], args.ties)
        for name, corpus in corpora.items()
    }

    loop = VariationalEM(bilingual).run(words, grammars, structures, num_steps=args.num_steps, progress=False)

    print(f"bound {loop.history[-1]:.2f} after {len(loop.history)} iterations")
    for name, corpus in corpora.items():
        trees = grammars[name].derivation(loop.weights(f"{name}.words"), corpus.words).mbr()
        accuracy = directed_accuracy(trees, corpus.heads)
        print(f"{name}: {len(corpus)} sentences, {accuracy:.1%} of heads right")


def _corpora(args: argparse.Namespace) -> dict[str, Corpus]:
    """Two corpora whose tags have the same numbers."""
    if args.conllu is None:
        whole, half = Corpus.builtin(args.num_sentences), args.num_sentences // 2
        return {"first": whole[:half], "second": whole[half:]}
    counts: dict[str, int] = {}
    for file in args.conllu:
        for tag, count in Corpus.from_conllu(file, tags="upos").vocab.to_list():
            counts[tag] = counts.get(tag, 0) + count
    vocab = Vocabulary.from_list(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    names = ("first", "second")
    return {n: Corpus.from_conllu(f, tags="upos", vocab=vocab) for n, f in zip(names, args.conllu, strict=True)}


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", nargs=2, help="two CoNLL-U files with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=400, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--ties", default="V&N", help="letters joined by &: V verbs, N nouns, A adjectives")
    parser.add_argument("--num-steps", type=int, default=15)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
