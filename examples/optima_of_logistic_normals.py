# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How good the optima of logistic normals are, and how loose their bound is.

    python examples/optima_of_logistic_normals.py --diagonal --num-steps 1      # on the built-in corpus
    python examples/optima_of_logistic_normals.py --conllu train.conllu --tags xpos --num-steps 60

Prints in how many sentences a restarted E-step finds a better optimum, and the evidence by importance sampling.

Reference: Burda, Grosse and Salakhutdinov (2016), "Importance weighted autoencoders", ICLR.
"""

import argparse
from collections.abc import Sequence

import pyro

from pyrogram import DMV, Corpus
from pyrogram.infer import EStep, VariationalEM
from pyrogram.models import initial_experts
from pyrogram.models.logistic_normal import logistic_normal


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    whole = Corpus.from_conllu(args.conllu, tags=args.tags) if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    grammar = DMV(num_tags=len(corpus.vocab))
    start = initial_experts(corpus.words, grammar, diagonal=args.diagonal)
    loop = VariationalEM(logistic_normal)
    loop.run(corpus.words, grammar, start=start, num_steps=args.num_steps, tolerance=0, progress=False)
    print(f"{len(corpus)} sentences, {args.num_steps} iterations, bound {loop.history[-1]:.1f}")

    def at_the_same_priors(restarts: int) -> VariationalEM:
        e_step = EStep(tolerance=1e-5, rounds=200, restarts=restarts, restart_every=1)
        other = VariationalEM(logistic_normal, e_step=e_step)
        other.load_state_dict(loop.state_dict())
        return other.run(corpus.words, grammar, start=start, num_steps=0, progress=False)

    one, several = (at_the_same_priors(k).importance_weighted_bound(2).bounds for k in (0, args.restarts))
    gain = several - one
    better = gain[gain > 0.01]
    share, mean = len(better) / len(gain), float(better.mean()) if len(better) else 0.0
    print(f"another optimum is better by 0.01 nats or more in {share:.1%} of sentences, there by {mean:.3f} nats")

    found = at_the_same_priors(0).importance_weighted_bound(args.num_draws)
    loose = (found.value - float(found.bounds.sum())) / len(corpus)
    print(f"bound {float(found.bounds.sum()):.1f}, log evidence {found.value:.1f} ± {found.standard_error:.1f}")
    print(f"the bound is {loose:.2f} nats a sentence too low; {len(found.unreliable)} sentences need more draws")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file; a built-in corpus by default")
    parser.add_argument("--tags", choices=["upos", "xpos"], default="upos", help="which tags of the file")
    parser.add_argument("--num-sentences", type=int, default=400, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--diagonal", action="store_true", help="learn variances alone")
    parser.add_argument("--num-steps", type=int, default=20)
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--num-draws", type=int, default=400, help="of each sentence's weights")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
