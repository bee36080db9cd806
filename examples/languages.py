# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The grammar of a language without trees, around mixtures of other languages' grammars.

    python examples/languages.py                                        # languages that are made of the built-in corpus
    python examples/languages.py --conllu hi_pud-ud-test.conllu --without hi       # the treebanks that ship as sources

Built-in sources are English, and English from right to left; the target is English in which verbs alone have their
dependents on the other side, and no tree of it is seen. The likelihood of its text judges the sources, and each head
takes its own share from each: first as Dirichlets around the mixture of shares that EM finds, then in the Pyro model
``languages``, in which shares are latent.

Reference: Cohen, Das and Smith (2011), "Unsupervised structure prediction with non-parallel multilingual guidance",
https://aclanthology.org/D11-1005 (who interpolate multinomials of helper languages)
"""

import argparse
from collections.abc import Collection, Sequence

import pyro

from pyrogram import DMV, Corpus
from pyrogram.data import SentenceRecord
from pyrogram.infer import EM, VariationalEM
from pyrogram.knowledge import Sources
from pyrogram.metrics import directed_accuracy
from pyrogram.models.dirichlet import dirichlet
from pyrogram.models.languages import languages


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    target, sources = _shipped(args) if args.conllu else _built_in(args)
    words, grammar = target.words, DMV(num_tags=len(target.vocab))

    judged = sources.log_likelihood(words)
    shares = sources.shares(words)
    whole = sources.drawn_on(shares)
    best = whole.argsort(descending=True)[:5].tolist()
    for k in best:
        print(f"{sources.names[k]}: {float(judged[k]):.3f} nats a word, {float(whole[k]):.0%} of the grammar")
    rows, table = sources.table(shares)
    for name, row in zip(rows[: args.num_rows], table, strict=False):
        print(f"  {name}: " + ", ".join(f"{float(row[k]):.0%} {sources.names[k]}" for k in best))

    around = sources.concentration(words, shares=shares)
    vb = VariationalEM(dirichlet, initial_weights="uniform")
    vb.run(words, grammar, concentration=around, num_steps=args.num_steps, progress=False)
    _report("Dirichlets around the mixture", grammar, vb, target)
    em = EM(languages, unconstrained=True, initial_weights="uniform")
    em.run(words, grammar, sources.weights(), num_steps=args.num_steps, progress=False)
    _report("shares and weights together", grammar, em, target)


def _report(name: str, grammar: DMV, loop: EM | VariationalEM, target: Corpus) -> None:
    heads = grammar.derivation(loop.weights(), target.words).mbr()
    print(f"{name}: heads that are right: {directed_accuracy(heads, target.heads):.1%}")


def _built_in(args: argparse.Namespace) -> tuple[Corpus, Sources]:
    n = args.num_sentences
    corpus = Corpus.builtin(3 * n)
    verbs = [tag for tag in corpus.vocab if tag.startswith("VB")]
    parts = {"english": (0, ()), "english-mirrored": (1, corpus.vocab.symbols), "target": (2, verbs)}
    made = {
        name: _of([_turned(record, turned) for record in corpus[i * n : (i + 1) * n]], corpus)
        for name, (i, turned) in parts.items()
    }
    target = made.pop("target").filter(args.max_length)
    return target, Sources.count(made, tags=corpus.vocab.symbols)


def _turned(record: SentenceRecord, tags: Collection[str]) -> tuple[list[str], list[int]]:
    """The tags and heads of a sentence in which heads of some tags have their dependents on the other side."""
    assert record.heads is not None

    def order(head: int) -> list[int]:
        left, right = (
            [c for c, h in enumerate(record.heads or (), 1) if h == head and (c < head) == s] for s in (1, 0)
        )
        if head and record.tags[head - 1] in tags:
            left, right = right[::-1], left[::-1]
        return [w for c in left for w in order(c)] + [head] * bool(head) + [w for c in right for w in order(c)]

    words = order(0)
    place = {word: i for i, word in enumerate([0, *words])}
    return [record.tags[w - 1] for w in words], [place[record.heads[w - 1]] for w in words]


def _of(sentences: Sequence[tuple[list[str], list[int]]], corpus: Corpus) -> Corpus:
    tags, heads = ([row[i] for row in sentences] for i in (0, 1))
    return Corpus.from_sentences(tags, heads=heads, vocab=corpus.vocab)


def _shipped(args: argparse.Namespace) -> tuple[Corpus, Sources]:
    target = Corpus.from_conllu(args.conllu, tags="upos", max_length=args.max_length)
    return target, Sources.shipped().without(args.without).over(target.vocab)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="the target, whose heads serve for the score alone; built in by default")
    parser.add_argument("--without", default="", help="the target's language, which is no source, such as hi")
    parser.add_argument("--num-sentences", type=int, default=300, help="of each built-in language")
    parser.add_argument("--max-length", type=int, default=10, help="of the target's sentences, in words")
    parser.add_argument("--num-rows", type=int, default=7, help="of multinomials whose shares are shown")
    parser.add_argument("--num-steps", type=int, default=20)
    args = parser.parse_args(argv)
    if (args.conllu is None) != (not args.without):
        parser.error("give --conllu and --without together")
    return args


if __name__ == "__main__":
    main()
