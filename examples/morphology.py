# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Segmentation of words into morphemes by a grammar with a rule for every substring and a sparse prior.

    python examples/morphology.py                                       # on verbs that the library makes up
    python examples/morphology.py --words verbs.txt                     # a word a line, morphemes joined by "-"

References: Johnson, Griffiths and Goldwater (2007), "Bayesian inference for PCFGs via Markov chain Monte Carlo",
section 4, https://aclanthology.org/N07-1018; Wang and Blunsom (2013), "Collapsed variational Bayesian inference for
PCFGs", section 4.1, https://aclanthology.org/W13-3519
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram.data import generated_verbs, read_morphs
from pyrogram.infer import CollapsedVB
from pyrogram.metrics import segmentation_scores
from pyrogram.models.morphology import encode, form_perplexity, morphology, random_start, segment, verb_grammar


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    corpus = read_morphs(args.words) if args.words else generated_verbs(args.num_words, num_roots=10)
    grammar = verb_grammar(corpus.forms)
    words = encode(grammar, corpus.forms)

    loop = CollapsedVB(morphology, initial_weights=random_start(grammar, words, seed=args.seed))
    loop.run(words, grammar, num_steps=args.num_steps, progress=False)

    found = segment(grammar, loop.weights(), corpus.forms)
    scores = segmentation_scores(found, corpus.segments)
    print(f"{len(corpus)} words, {len(grammar.rules)} rules, {len(loop.history)} iterations")
    print(f"perplexity of a word {form_perplexity(grammar, loop.weights(), corpus.forms):.1f}")
    print(f"F1 of morphemes {scores.token.f1:.1%}, of boundaries {scores.boundary.f1:.1%}")
    print("for example", ", ".join("-".join(morphemes) for morphemes in found[:5]))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", help="a file of segmented words; made-up verbs by default")
    parser.add_argument("--num-words", type=int, default=200, help="how many to make up")
    parser.add_argument("--num-steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the random segmentation that inference starts from")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
