# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Words that depend on the tag of their head: a likelihood on top of latent trees, which are summed out.

    python examples/words_of_heads.py                                   # on the built-in corpus
    python examples/words_of_heads.py --conllu train.conllu --num-words 500

A sentence is its tags and its words. The DMV draws tags and a tree; then each word is drawn given its own tag and the
tag of its head, so that words say of trees what tags alone do not. The trees are a latent site of the model. Their
likelihood is a sum over arcs, so ``collapse_trees`` sums them out, SVI finds the mode of the weights, and
``posterior_predictive`` finds the best trees given tags and words. On the built-in corpus, with its few words, they
change hardly a head.

Reference: Headden, Johnson and McClosky (2009), "Improving unsupervised dependency parsing with richer contexts and
smoothing", https://aclanthology.org/N09-1012 (who also have words depend on heads, with other estimates)
"""

import argparse
from collections import Counter
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.infer.autoguide.initialization import init_to_mean, init_to_value
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.distributions import Sentence, dirichlet_prior, of_heads
from pyrogram.grammar import Weights
from pyrogram.infer import EM, collapse_trees, posterior_predictive
from pyrogram.metrics import directed_accuracy


def tags_alone(tags: Tensor, grammar: DMV, alpha: float = 1.1) -> Weights:
    """Tags, and the weights that they are drawn from."""
    weights = {name: pyro.sample(name, dirichlet_prior(block, alpha)) for name, block in grammar.blocks.items()}
    with pyro.plate("tagged sentences", len(tags)):
        pyro.sample("tags", Sentence(grammar, weights), obs=tags)
    return weights


def words_of_heads(tags: Tensor, words: Tensor, grammar: DMV, num_words: int, alpha: float = 1.1) -> None:
    """Tags, trees, and words given both.

    :param words: numbers of words, shape ``(N, n)`` like tags; -1 where a word is not to be explained.
    """
    V = grammar.num_tags
    weights = tags_alone(tags, grammar, alpha)
    prior = dist.Dirichlet(torch.full((V, V + 1, num_words), alpha)).to_event(2)
    emission = pyro.sample("emission", prior)  # [tag, tag of the head, word]
    with pyro.plate("sentences", len(tags)):
        heads = pyro.sample("heads", grammar.derivation(weights, tags))
        tags_of_heads = of_heads(torch.nn.functional.pad(tags, (1, 0), value=V), heads)
        log_probs = emission.log()[tags.clamp_min(0), tags_of_heads, words.clamp_min(0)]
        pyro.factor("words", torch.where(words >= 0, log_probs, 0.0).sum(-1))


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    pyro.clear_param_store()
    pyro.set_rng_seed(args.seed)
    whole = Corpus.from_conllu(args.conllu, tags="upos") if args.conllu else Corpus.builtin(args.num_sentences)
    corpus = whole.filter(max_length=args.max_length)
    grammar = DMV(num_tags=len(corpus.vocab))
    words = _frequent(corpus, args.num_words)

    by_tags = EM(tags_alone).run(corpus.words, grammar, num_steps=args.num_steps, progress=False)
    trees = posterior_predictive(tags_alone, by_tags, corpus.words, grammar, temperature=0)["tags.tree"][0]
    print(f"tags alone: heads that are right: {directed_accuracy(trees, corpus.heads):.1%}")

    arguments = (corpus.words, words, grammar, args.num_words)
    model = collapse_trees(words_of_heads)
    found = {name: grammar.blocks[name].normalize(w + 1e-3) for name, w in by_tags.weights().items()}
    guide = AutoDelta(model, init_loc_fn=init_to_value(values=found, fallback=init_to_mean()))
    svi = SVI(model, guide, pyro.optim.Adam({"lr": args.learning_rate}), Trace_ELBO())
    losses = [svi.step(*arguments) for _ in range(args.num_svi_steps)]
    trees = posterior_predictive(words_of_heads, guide, *arguments, temperature=0)["heads"][0]
    print(f"tags and words: log joint from {-losses[0]:.1f} to {-losses[-1]:.1f}")
    print(f"tags and words: heads that are right: {directed_accuracy(trees, corpus.heads):.1%}")


def _frequent(corpus: Corpus, num_words: int) -> Tensor:
    """Numbers of the most frequent words, -1 for others and in the padding."""
    counts = Counter(form.lower() for sentence in corpus.forms for form in sentence)
    number = {form: i for i, (form, _) in enumerate(counts.most_common(num_words))}
    words = torch.full_like(corpus.words, -1)
    for row, sentence in zip(words, corpus.forms, strict=True):
        row[: len(sentence)] = torch.tensor([number.get(form.lower(), -1) for form in sentence])
    return words


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads; a built-in corpus by default")
    parser.add_argument("--num-sentences", type=int, default=300, help="of the built-in corpus")
    parser.add_argument("--max-length", type=int, default=8, help="of sentences, in words")
    parser.add_argument("--num-words", type=int, default=100, help="how many of the most frequent words are explained")
    parser.add_argument("--num-steps", type=int, default=20, help="of EM on the tags")
    parser.add_argument("--num-svi-steps", type=int, default=40)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
