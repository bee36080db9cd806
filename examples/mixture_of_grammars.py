# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A mixture of dependency grammars: which grammar each sentence is from is not observed.

    python examples/mixture_of_grammars.py                  # the built-in corpus, every other sentence reversed
    python examples/mixture_of_grammars.py --conllu train.conllu --num-grammars 3
    python examples/mixture_of_grammars.py --conllu english.conllu turkish.conllu       # two languages, mixed

A sentence reversed is one of a language with the opposite word order, so the built-in corpus is of two languages, and
a mixture of two should tell them apart. EM sums the indicator of a sentence out with its trees; weights and proportions
are MAP estimates. The log likelihood of one grammar for all sentences is printed beside.

Reference: Klein and Manning (2004), "Corpus-based induction of syntactic structure: models of dependency and
constituency", https://aclanthology.org/P04-1061
"""

import argparse
from collections import Counter
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM
from pyrogram.metrics import directed_accuracy


def mixture(words: Tensor, grammar: DMV, num_grammars: int, concentration: float = 1.1) -> None:
    """Sentences of M grammars."""
    M = num_grammars
    proportions = pyro.sample("proportions", dist.Dirichlet(torch.full((M,), 2.0)))
    with pyro.plate("grammars", M):
        weights = {k: pyro.sample(k, dirichlet_prior(b, concentration)) for k, b in grammar.blocks.items()}
    with pyro.plate("sentences", len(words)):
        m = pyro.sample("grammar", dist.Categorical(proportions), infer={"enumerate": "parallel"})
        pyro.sample("words", Sentence(grammar, {k: w[m] for k, w in weights.items()}), obs=words)


def estimates(words: Tensor, grammar: DMV, num_grammars: int, num_steps: int) -> dict[str, Tensor]:
    """MAP estimates of proportions, shape ``(M,)``, and of weights, ``(M, *block.shape)``."""
    start = {"proportions": torch.full((num_grammars,), 1 / num_grammars)}
    for name, w in grammar.initial_weights(words, "harmonic").items():
        noise = dist.Dirichlet(torch.ones(num_grammars, *w.shape)).sample()  # by which the grammars differ
        start[name] = 0.7 * w + 0.3 * noise
    return (
        EM(mixture, initial_weights=start)
        .run(words, grammar, num_grammars, num_steps=num_steps, progress=False)
        .latents()
    )


def log_joint(words: Tensor, grammar: DMV, found: dict[str, Tensor]) -> Tensor:
    """log p(words, m) of each sentence and grammar, shape ``(N, M)``; its softmax is p(m | words)."""
    weights = {name: found[name][:, None] for name in grammar.blocks}
    return Sentence(grammar, weights).log_prob(words).T + found["proportions"].log()


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    pyro.set_rng_seed(args.seed)
    corpus, source = _sentences(args)
    words, grammar = corpus.words, DMV(num_tags=len(corpus.vocab))
    for num_grammars in sorted({1, args.num_grammars}):
        pyro.clear_param_store()
        found = estimates(words, grammar, num_grammars, args.num_steps)
        joint = log_joint(words, grammar, found)
        responsibilities, assigned = joint.softmax(-1), joint.argmax(-1)
        trees = grammar.derivation({name: found[name][assigned] for name in grammar.blocks}, words).mbr()
        accuracy = (
            "" if corpus.heads is None else f", heads that are right: {directed_accuracy(trees, corpus.heads):.1%}"
        )
        print(f"grammars: {num_grammars}, log likelihood {float(joint.logsumexp(-1).sum()):.1f}{accuracy}")
        for m in range(num_grammars if num_grammars > 1 else 0):
            own = (assigned == m).nonzero().flatten()
            print(f"  grammar {m}: {len(own)} sentences, {dict(Counter(source[i] for i in own.tolist()))}; the surest:")
            for i in own[responsibilities[own, m].argsort(descending=True)[:3]].tolist():
                print(f"    {float(responsibilities[i, m]):.3f} {' '.join(corpus[i].tags)}")


def _sentences(args: argparse.Namespace) -> tuple[Corpus, list[str]]:
    """A corpus, and where each sentence is from."""
    if args.conllu:
        corpus = Corpus.from_conllu(args.conllu, tags="upos").filter(max_length=args.max_length)
        return corpus, [sentence.source for sentence in corpus]
    straight = Corpus.builtin(args.num_sentences).filter(max_length=args.max_length)
    tags, heads, source = [], [], []
    for i, sentence in enumerate(straight):
        n, turned = len(sentence), i % 2 == 1
        tags.append(sentence.tags[::-1] if turned else sentence.tags)
        heads.append([n + 1 - h if h else 0 for h in sentence.heads[::-1]] if turned else sentence.heads)
        source.append("reversed" if turned else "as it was")
    return Corpus.from_sentences(tags, heads=heads), source


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", nargs="+", help="CoNLL-U files with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=500, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=10, help="of sentences, in words")
    parser.add_argument("--num-grammars", type=int, default=2)
    parser.add_argument("--num-steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
