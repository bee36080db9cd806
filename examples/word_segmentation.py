# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Words found in utterances without boundaries, by a Dirichlet or Pitman-Yor process, unigrams or bigrams.

    python examples/word_segmentation.py                                            # on a language that is made up
    python examples/word_segmentation.py --utterances br-phono.txt --num-steps 1000 # white space at true boundaries
    python examples/word_segmentation.py --utterances br-phono.txt --num-steps 1000 --fixed --prior dirichlet --starts 3

References: Goldwater, Griffiths and Johnson (2009), "A Bayesian framework for word segmentation: Exploring the effects
of context", Cognition 112; Mochihashi, Yamada and Ueda (2009), "Bayesian unsupervised word segmentation with nested
Pitman-Yor language modeling", https://aclanthology.org/P09-1012
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

from pyrogram.data import SegmentedCorpus, generated_utterances, read_utterances
from pyrogram.grammars import BigramSegmentation, UnigramSegmentation
from pyrogram.infer import SegmentationHastings
from pyrogram.metrics import segmentation_scores
from pyrogram.models.word_segmentation import GOLDWATER, goldwater_temperatures, word_segmentation

GRAMMARS = {"unigram": UnigramSegmentation, "bigram": BigramSegmentation}
SCORES = ("tokens", "boundaries", "lexicon")


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    corpus = read_utterances(args.utterances) if args.utterances else generated_utterances(args.num_utterances)
    grammar = GRAMMARS[args.model]("".join(corpus.forms), max_length=args.max_length)
    fixed: dict[str, Any] = dict(GOLDWATER[grammar.num_levels]) if args.fixed else {}
    how = "fixed" if args.fixed else "sampled"
    print(f"{len(corpus)} utterances; {args.model}s, {args.prior} prior, hyperparameters {how}")
    if args.fixed:
        gold = SegmentationHastings(word_segmentation, seed=args.seed)
        utterances = grammar.encode(corpus.forms)
        gold.set_boundaries(grammar.boundaries(corpus.segments), utterances, grammar, args.prior, **fixed)
        print(f"log joint of the true words {gold.log_joint:.0f}")
    found = [learn(corpus, grammar, args, fixed, args.seed + start) for start in range(args.starts)]
    if args.starts > 1:
        means = [f"{statistics.mean(x):.1%} ± {100 * statistics.stdev(x):.1f}" for x in zip(*found, strict=True)]
        print(f"mean of {args.starts} starts:", ", ".join(map(" ".join, zip(SCORES, means, strict=True))))


def learn(
    corpus: SegmentedCorpus, grammar: UnigramSegmentation, args: argparse.Namespace, fixed: dict[str, Any], seed: int
) -> list[float]:
    """F1 of tokens, boundaries and the lexicon of the last of the chain's words."""
    temperatures = [] if args.no_annealing else goldwater_temperatures(args.num_steps)
    sampler = SegmentationHastings(word_segmentation, temperatures=temperatures, seed=seed)
    utterances = grammar.encode(corpus.forms)
    begin = time.process_time()
    sampler.run(utterances, grammar, args.prior, num_steps=args.num_steps, progress=False, **fixed)
    seconds = (time.process_time() - begin) / args.num_steps
    scores = segmentation_scores(sampler.segments(), corpus.segments)
    shares = [found.f1 or 0.0 for found in (scores.token, scores.boundary, scores.type)]
    print(
        f"seed {seed}: log joint {sampler.log_joint:.0f}, F1",
        ", ".join(f"of {name} {share:.1%}" for name, share in zip(SCORES, shares, strict=True)),
        f"({seconds:.2f} s a step, {sampler.acceptance:.2%} accepted)",
    )
    for name, value in sampler.hyperparameters().items():
        print(f"  {name}", ", ".join(f"{x:.4g}" for x in value.reshape(-1).tolist()))
    print("  for example", "; ".join(" ".join(words) for words in sampler.segments()[:5]), flush=True)
    return shares


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", help="a file, an utterance a line; a made-up language by default")
    parser.add_argument("--num-utterances", type=int, default=500, help="how many to make up")
    parser.add_argument("--model", choices=GRAMMARS, default="bigram")
    parser.add_argument("--prior", choices=("dirichlet", "pitman-yor"), default="pitman-yor")
    parser.add_argument(
        "--fixed", action="store_true", help="concentrations, stop and end as Goldwater et al. have them"
    )
    parser.add_argument("--max-length", type=int, default=15, help="the most symbols of a word")
    parser.add_argument("--num-steps", type=int, default=200)
    parser.add_argument("--no-annealing", action="store_true", help="no high temperatures at first")
    parser.add_argument("--starts", type=int, default=1, help="chains, with one seed after the other")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
