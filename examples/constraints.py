# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Shares of events that trees must have on the whole: posterior regularisation.

    python examples/constraints.py                                      # on the built-in corpus
    python examples/constraints.py --conllu train.conllu --heads content --share 0.7

The DMV learns from tags alone, by variational Bayes. Trees may be any, but of all roots and arcs together a share must
be those of a few rules, and few arcs may go to the left. What cannot be had is refused, with the share that can.

Reference: Ganchev, Graça, Gillenwater and Taskar (2010), "Posterior regularization for structured latent variable
models", https://jmlr.org/papers/v11/ganchev10a.html
"""

import argparse
from collections.abc import Sequence

import pyro
import torch

from pyrogram import DMV, Corpus
from pyrogram.infer import AtLeast, AtMost, Constraint, VariationalEM
from pyrogram.knowledge import universal_rules
from pyrogram.metrics import attach_right, directed_accuracy
from pyrogram.models.dirichlet import dirichlet


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    grammar = DMV(num_tags=len(corpus.vocab))
    rules = universal_rules(corpus.vocab, args.heads)  # an event that a rule has counts once
    to_the_left = torch.tensor([1.0, 0.0])[:, None]  # of attach, [head, direction, dependent]
    demands: dict[str, list[Constraint]] = {
        "nothing": [],
        f"rules at least {args.share:.0%}": [AtLeast(rules, args.share)],
        f"left arcs at most {args.left:.0%}": [AtMost({"attach": to_the_left}, args.left)],
        "both": [AtLeast(rules, args.share), AtMost({"attach": to_the_left}, args.left)],
    }
    for name, constraints in demands.items():
        loop = VariationalEM(dirichlet, constraints=constraints, initial_weights="uniform")
        loop.run(corpus.words, grammar, concentration=0.25, num_steps=args.num_steps, progress=False)
        heads = grammar.derivation(loop.weights(), corpus.words).mbr()
        nats = ", ".join(f"{m:.2f}" for m in loop.multipliers()) or "none"
        accuracy = directed_accuracy(heads, corpus.heads)
        print(f"{name}: bound {loop.history[-1]:.1f}, multipliers {nats}; heads that are right: {accuracy:.1%}")
    print(f"attach-right: {directed_accuracy(attach_right(corpus.lengths), corpus.heads):.1%}")
    try:
        VariationalEM(dirichlet, constraints=[AtLeast(rules, 0.999)]).step(corpus.words, grammar, concentration=0.25)
    except ValueError as error:
        print(f"of 99.9%: {error}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=300, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--heads", choices=["content", "function"], default="function", help="of rules")
    parser.add_argument("--share", type=float, default=0.6, help="of roots and arcs that rules have, at least")
    parser.add_argument("--left", type=float, default=0.4, help="of arcs that go to the left, at most")
    parser.add_argument("--num-steps", type=int, default=30)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
