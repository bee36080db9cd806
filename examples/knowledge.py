# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Knowledge as a bias of trees, which stays or decays, under a schedule of E-steps.

    python examples/knowledge.py                                        # on the built-in corpus
    python examples/knowledge.py --conllu train.conllu --heads content --knowledge discovered

The DMV learns from tags alone, by variational Bayes. Knowledge tilts it: rules of universal tags, or what the text
itself shows of closed classes and roots. The tilt may stay, and then serves for parsing, too, or it decays, and where
it has led to must stand by itself. Annealing flattens the first posteriors; a curriculum begins with short sentences.

References: Naseem, Chen, Barzilay and Johnson (2010), "Using universal linguistic knowledge to guide grammar
induction", https://aclanthology.org/D10-1120; Smith and Eisner (2004), "Annealing techniques for unsupervised
statistical language learning", https://aclanthology.org/P04-1062; Spitkovsky, Alshawi and Jurafsky (2010), "From baby
steps to leapfrog", https://aclanthology.org/N10-1116
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram import DMV, Corpus
from pyrogram.distributions import Sentence
from pyrogram.infer import Annealed, Curriculum, Decaying, Schedule, VariationalEM
from pyrogram.knowledge import assumptions
from pyrogram.metrics import attach_right, directed_accuracy
from pyrogram.models.dirichlet import dirichlet


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    grammar, steps = DMV(num_tags=len(corpus.vocab)), args.num_steps // 2
    bias = assumptions(whole, args.knowledge, args.heads)
    print(bias)

    schedules: dict[str, Schedule | list[Schedule] | None] = {
        "nothing": None,
        "decaying tilt": Decaying(bias, until=steps),
        "tilt": None,
        "tilt, annealed": Annealed(start=0.2, until=steps),
        "tilt, short first": Curriculum([3, args.max_length], every=max(1, steps // 2)),
        "decaying, annealed": [Decaying(bias, until=steps), Annealed(start=0.2, until=steps)],
    }
    for name, schedule in schedules.items():
        learner = grammar.tilted(bias) if name.startswith("tilt") else grammar
        loop = VariationalEM(dirichlet, schedule=schedule, initial_weights="uniform")
        loop.run(corpus.words, learner, concentration=0.25, num_steps=args.num_steps, tolerance=0.0, progress=False)
        heads = Sentence(learner, loop.weights()).derivation(corpus.words).mbr()
        print(
            f"{name}: bound {loop.history[-1]:.1f}, heads that are right: {directed_accuracy(heads, corpus.heads):.1%}"
        )
    print(f"attach-right: {directed_accuracy(attach_right(corpus.lengths), corpus.heads):.1%}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=300, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--knowledge", choices=["rules", "discovered"], default="rules")
    parser.add_argument("--heads", choices=["content", "function"], default="function", help="of rules")
    parser.add_argument(
        "--num-steps", type=int, default=40, help="of variational Bayes; schedules last for half of them"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
