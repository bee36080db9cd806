# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What does a head know of its children before it takes another one? Their number, or how far they reach.

    python examples/valences_and_distances.py                               # on the built-in corpus
    python examples/valences_and_distances.py --conllu train.conllu --attach

A dependency model with valence counts the children that a head has on a side, up to one: it tells none from some. With
more valences it counts further; with classes of distances it knows how many words the children and all below them have.
The table has, by variational Bayes under Dirichlet priors: the bound, nats a word of sentences that were not seen, and
the share of right heads. Time is in proportion to the number of valences, or of classes.

References: Klein and Manning (2004), https://aclanthology.org/P04-1061; Headden, Johnson and McClosky (2009),
"Improving unsupervised dependency parsing with richer contexts and smoothing", https://aclanthology.org/N09-1012;
Collins (1997), "Three generative, lexicalised models for statistical parsing", https://aclanthology.org/P97-1003,
section 2.2, for distances.
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram import DMV, Corpus
from pyrogram.distributions import Sentence
from pyrogram.grammars import DistanceDMV
from pyrogram.infer import VariationalEM
from pyrogram.metrics import directed_accuracy
from pyrogram.models.dirichlet import dirichlet


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    words, unseen, heads, V = corpus.words[::2], corpus.words[1::2], corpus.heads[1::2], len(corpus.vocab)
    grammars: list[DMV | DistanceDMV] = [
        *(DMV(V, valence_attach=args.attach, num_valences=k) for k in args.valences),
        DistanceDMV(V, distance_attach=args.attach, widths=args.widths),
    ]
    print(f"{len(words)} sentences to learn from, {len(unseen)} others")
    for grammar in grammars:
        pyro.clear_param_store()
        loop = VariationalEM(dirichlet, initial_weights="harmonic")
        loop.run(words, grammar, concentration=args.concentration, num_steps=args.num_steps, progress=False)
        weights = loop.weights()
        if isinstance(grammar, DMV):
            found = grammar.derivation(weights, unseen).mbr()
        else:
            found = grammar.mbr_heads({name: w.log() for name, w in weights.items()}, unseen)
        nats = Sentence(grammar, weights).log_prob(unseen).sum() / (unseen >= 0).sum()
        print(
            f"{grammar!r}: bound {loop.history[-1]:.1f}; of the others {float(nats):.3f} nats a word, "
            f"{directed_accuracy(found, heads):.1%} of heads are right"
        )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=1000, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--valences", type=int, nargs="*", default=[1, 2, 3, 4], help="numbers of valences")
    parser.add_argument(
        "--widths", type=int, nargs="+", default=[1, 3], help="where classes of distances begin, in words"
    )
    parser.add_argument("--attach", action="store_true", help="the choice of a child depends on them, too")
    parser.add_argument("--concentration", type=float, default=0.25, help="of the Dirichlet priors")
    parser.add_argument("--num-steps", type=int, default=50)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
