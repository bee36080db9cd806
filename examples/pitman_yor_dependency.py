# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A generative parser of tagged words with hierarchical Pitman-Yor priors, trained on trees.

    python examples/pitman_yor_dependency.py                            # on the built-in corpus
    python examples/pitman_yor_dependency.py --train train.conllu --test test.conllu --prior dirichlet-sampled

Reference: Wallach, Sutton and McCallum (2008), "Bayesian modeling of dependency trees using hierarchical Pitman-Yor
priors", section 3, ICML Workshop on Prior Knowledge for Text and Language Processing.
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram import Corpus
from pyrogram.data import LexicalCorpus
from pyrogram.grammars import LexicalDependencies, LexicalParser, PitmanYorPredictor
from pyrogram.infer import PitmanYorSampler
from pyrogram.metrics import directed_accuracy
from pyrogram.models import PITMAN_YOR_PRIORS, observed_events
from pyrogram.models.pitman_yor_dependency import pitman_yor_dependency


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    train, test = _corpora(args)
    grammar = LexicalDependencies(len(train.tag_vocab), len(train.lexicon))
    events = grammar.events(train.tags, train.words, train.cases, train.heads)

    sampler = PitmanYorSampler(pitman_yor_dependency, seed=args.seed)
    sampler.run(
        *observed_events(events), grammar.num_values, prior=args.prior, num_steps=args.num_steps, progress=False
    )

    learnt = {
        name: PitmanYorPredictor(sampler.restaurants[name], sampler.concentration[name], sampler.discount[name])
        for name in events
    }
    parses = LexicalParser(grammar, learnt).parse(test.tags, test.words, test.cases, ["mbr"])
    per_word = float(parses.log_likelihood.sum()) / test.num_tokens
    print(f"{len(train)} trees, log density {sampler.history[-1]:.2f} after {len(sampler.history)} steps")
    for name, discount in sampler.discount.items():
        print(f"discounts of {name}, coarsest context first: {[round(float(e), 2) for e in discount]}")
    print(f"{len(test)} other sentences: {per_word:.2f} nats a word")
    print(f"heads that are right: {directed_accuracy(parses.heads['mbr'], test.heads):.1%}")


def _corpora(args: argparse.Namespace) -> tuple[LexicalCorpus, LexicalCorpus]:
    if args.train is None:
        whole, tenth = Corpus.builtin(args.num_sentences), args.num_sentences // 10
        train, test = whole[tenth:], whole[:tenth]
    else:
        train = Corpus.from_conllu(args.train, punctuation="keep")
        test = Corpus.from_conllu(args.test, punctuation="keep", vocab=train.vocab)
    lexical = LexicalCorpus.from_corpus(train)
    return lexical, LexicalCorpus.from_corpus(test, like=lexical)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="a CoNLL-U file with trees; a built-in corpus by default")
    parser.add_argument("--test", help="another, to be parsed")
    parser.add_argument("--num-sentences", type=int, default=1000, help="built-in ones, of which a tenth is parsed")
    parser.add_argument("--prior", choices=PITMAN_YOR_PRIORS, default="pitman-yor-sampled")
    parser.add_argument("--num-steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if (args.train is None) != (args.test is None):
        parser.error("give --train and --test together")
    return args


if __name__ == "__main__":
    main()
