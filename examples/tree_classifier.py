# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A classifier over tree marginals: was the main verb, whose number is hidden, singular or plural?

    python examples/tree_classifier.py                                  # on the built-in corpus
    python examples/tree_classifier.py --conllu train.conllu --num-runs 5

A verb agrees with its subject, which need not be the nearest noun: "the keys to the old cabinet are here". Here VBZ and
VBP have become one tag, a sentence is its tags, and the label says which of the two its main verb had. No tree is
given: trees are latent, each arc has a score by the tags of head and dependent, and what the classifier sees is how
often each pair of tags is expected to be an arc. Marginals are differentiable, so scores and classifier are learnt
together by SVI, from labels alone. Beside it are classifiers over trees that do not learn: every word hangs on ROOT
(a bag of tags), on the word before it (pairs of neighbours), or as the DMV has it, trained by EM without labels.

References: Kim, Denton, Hoang and Rush (2017), "Structured attention networks", https://arxiv.org/abs/1702.00887;
Linzen, Dupoux and Goldberg (2016), "Assessing the ability of LSTMs to learn syntax-sensitive dependencies",
https://aclanthology.org/Q16-1037 (the task)
"""

import argparse
import statistics
from collections.abc import Iterable, Sequence

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.infer import EM
from pyrogram.models import maximum_likelihood

HIDDEN = ("VBZ", "VBP")


def of_pairs(table: Tensor, tags: Tensor) -> Tensor:
    """What a table [head, direction, dependent] says of each arc, shape ``(N, n+1, n+1)``; its last tag is ROOT's."""
    tags = torch.nn.functional.pad(tags.clamp_min(0), (1, 0), value=len(table) - 1)
    position = torch.arange(tags.shape[1])
    right = (position > position[:, None]).long()
    return table[tags[:, :, None], right, tags[:, None, :]]


def tree_marginals(scores: Tensor, tags: Tensor) -> Tensor:
    """The probability of each arc, zero in the padding."""
    return ProjectiveDependencyTree(of_pairs(scores, tags), lengths=(tags >= 0).sum(-1), valence=False).marginals()


def classifier(tags: Tensor, labels: Tensor | None, num_tags: int, arcs: Tensor | None = None) -> Tensor:
    """Labels of sentences, from arcs that are given, or else from those that are expected.

    :param arcs: shape ``(N, n+1, n+1)`` [head, dependent].
    :returns: the logit of each label.
    """
    prior = dist.Normal(torch.zeros(num_tags + 1, 2, num_tags + 1), 1.0).to_event(3)
    if arcs is None:
        arcs = tree_marginals(pyro.sample("scores", prior), tags)
    weights = pyro.sample("weights", prior)  # of pairs of tags as features
    logits = (arcs * of_pairs(weights, tags)).sum((-2, -1)) + pyro.sample("bias", dist.Normal(0.0, 1.0))
    with pyro.plate("sentences", len(tags)):
        pyro.sample("labels", dist.Bernoulli(logits=logits), obs=labels)
    return logits


def arcs_of(heads: Tensor) -> Tensor:
    """Trees as arcs, shape ``(N, n+1, n+1)``."""
    dependents = torch.nn.functional.pad(heads, (1, 0), value=-1)
    return (dependents[:, None, :] == torch.arange(dependents.shape[1])[:, None]).to(torch.get_default_dtype())


def accuracy(tags: Tensor, labels: Tensor, num_train: int, args: argparse.Namespace, arcs: Tensor | None) -> float:
    """Of labels of the sentences that are not for training."""
    pyro.clear_param_store()
    pyro.set_rng_seed(args.seed)
    num_tags = int(tags.max()) + 1
    train, test = ([tags[part], labels[part], num_tags] for part in (slice(num_train), slice(num_train, None)))
    guide = AutoDelta(classifier)
    svi = SVI(classifier, guide, pyro.optim.Adam({"lr": args.learning_rate}), Trace_ELBO())
    for _ in range(args.num_steps):
        svi.step(*train, None if arcs is None else arcs[:num_train])
    with torch.no_grad():
        replayed = pyro.poutine.condition(classifier, guide(*train))
        logits = replayed(*test, None if arcs is None else arcs[num_train:])
    return float(((logits > 0) == (test[1] > 0)).float().mean())


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    found: dict[str, list[float]] = {}
    for run in range(args.num_runs):
        args.seed += run > 0
        tags, labels = _sentences(args)
        num_train = len(tags) * 4 // 5
        n = tags.shape[1]
        grammar = DMV(num_tags=int(tags.max()) + 1)
        em = EM(maximum_likelihood, initial_weights="harmonic").run(tags, grammar, num_steps=30, progress=False)
        real = tags >= 0
        trees = {
            "a bag of tags": torch.where(real, 0, -1),
            "neighbours": torch.where(real, torch.arange(n), -1),
            "trees of the DMV": grammar.derivation(em.weights(), tags).mbr(),
            "tree marginals": None,
        }
        for name, heads in trees.items():
            arcs = None if heads is None else arcs_of(heads)
            found.setdefault(name, []).append(accuracy(tags, labels, num_train, args, arcs))
    most = max(float((labels > 0).float().mean()), float((labels <= 0).float().mean()))
    print(f"{len(tags)} sentences, of which {most:.1%} have the same label")
    for name, shares in found.items():
        more = [100 * (best - share) for best, share in zip(found["tree marginals"], shares, strict=True)]
        print(
            f"{name}: {_mean(100 * x for x in shares)} % of other labels are right; tree marginals {_mean(more)} % more"
        )


def _mean(numbers: Iterable[float]) -> str:
    """Mean and, of several, standard deviation."""
    found = list(numbers)
    return f"{statistics.mean(found):.1f}" + (f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else "")


def _sentences(args: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Sentences whose main verb is one of the hidden ones: tags, and whether it was the second."""
    corpus = (
        Corpus.from_conllu(args.conllu, tags="xpos") if args.conllu else Corpus.builtin(args.num_sentences, args.seed)
    )
    chosen, labels = [], []
    for sentence in corpus.filter(max_length=args.max_length):
        verb = sentence.tags[sentence.heads.index(0)]
        if verb in HIDDEN:
            chosen.append(["verb" if tag in HIDDEN else tag for tag in sentence.tags])
            labels.append(float(verb == HIDDEN[1]))
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(args.seed))
    return Corpus.from_sentences(chosen).words[order], torch.tensor(labels)[order]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conllu", help="a CoNLL-U file with heads and Penn tags; a built-in corpus by default")
    parser.add_argument(
        "--num-sentences", type=int, default=2000, help="of the built-in corpus, of which a part is used"
    )
    parser.add_argument("--max-length", type=int, default=12, help="of sentences, in words")
    parser.add_argument("--num-steps", type=int, default=200, help="of SVI")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--num-runs", type=int, default=1, help="with other sentences, or other parts of them")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
