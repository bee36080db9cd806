# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A Bayesian word segmenter: a semi-Markov conditional random field, learnt from segmented utterances.

    python examples/semi_markov_segmenter.py                                # on generated utterances
    python examples/semi_markov_segmenter.py --utterances file.txt --num-steps 300

An utterance is its symbols without spaces. Each segment has a score by its first and last symbols and its neighbours'
and by its width, as a chain of cuts could have it, and by whether it was seen as a word, which only a model of whole
segments can ask. The weights have a normal prior; `Segmentation` sums over all ways to cut. Words of one utterance
alone are hidden from the lexicon while it is learnt from, so that the weight of known words is not learnt from words
that are always known.

Reference: Sarawagi and Cohen (2004), "Semi-Markov conditional random fields for information extraction",
https://papers.nips.cc/paper/2648
"""

import argparse
from collections import Counter
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

from pyrogram.data import generated_utterances, read_utterances
from pyrogram.distributions import Segmentation
from pyrogram.metrics.segmentation import segmentation_scores

WIDEST = 12


def tables(
    utterances: Sequence[Sequence[str]], symbols: dict[str, int], known: Counter[str], own: bool
) -> list[Tensor]:
    """Symbols ``(N, n)``, their numbers ``(N,)``, segmentations ``(N, n, W)``, and which segments are known words.

    :param own: whether these are the utterances that the words are known from.
    """
    N, n = len(utterances), max(len("".join(words)) for words in utterances)
    text, lengths = torch.full((N, n), -1), torch.zeros(N, dtype=torch.long)
    value, lexical = torch.full((N, n, WIDEST), -1), torch.zeros(N, n, WIDEST)
    for row, words in enumerate(utterances):
        form = "".join(words)
        text[row, : len(form)] = torch.tensor([symbols.get(symbol, len(symbols)) for symbol in form])
        lengths[row] = len(form)
        at, here = 0, Counter(words)
        for word in words:
            value[row, at, len(word) - 1] = 0
            at += len(word)
        for i in range(len(form)):
            for width in range(1, min(WIDEST, len(form) - i) + 1):
                word = form[i : i + width]
                lexical[row, i, width - 1] = known[word] > (here[word] if own else 0)
    return [text, lengths, value, lexical]


def segmenter(text: Tensor, lengths: Tensor, value: Tensor | None, lexical: Tensor, num_symbols: int) -> Segmentation:
    """Segmentations of utterances."""
    V, n = num_symbols + 2, text.shape[1]  # one for what was never seen, and one for what is outside
    cut = pyro.sample("cut", dist.Normal(torch.zeros(V, V), 1.0).to_event(2))  # between two symbols
    widths = pyro.sample("widths", dist.Normal(torch.zeros(WIDEST), 1.0).to_event(1))
    word = pyro.sample("word", dist.Normal(torch.zeros(2), 3.0).to_event(1))  # of known words, and by their width
    symbols = torch.where(text >= 0, text, V - 1)
    between = cut[torch.nn.functional.pad(symbols, (1, -1), value=V - 1), symbols]  # before each symbol
    ends = torch.nn.functional.pad(between, (-1, WIDEST))  # after each symbol, zero at the end
    after = ends.unfold(-1, WIDEST, 1)[:, :n]
    gain = word[0] + word[1] * torch.arange(WIDEST)
    scores = between[..., None] + after + widths + lexical * gain
    law = Segmentation(scores, lengths=lengths)
    with pyro.plate("utterances", len(text)):
        pyro.sample("segments", law, obs=value)
    return law


def cut_up(form: str, value: Tensor) -> list[str]:
    """The segments of a form."""
    found, at = [], 0
    while at < len(form):
        width = int((value[at] >= 0).nonzero()[0]) + 1
        found.append(form[at : at + width])
        at += width
    return found


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    corpus = (
        read_utterances(args.utterances) if args.utterances else generated_utterances(args.num_utterances, args.seed)
    )
    utterances = [words for words in corpus.segments if max(map(len, words)) <= WIDEST][: args.num_utterances]
    order = torch.randperm(len(utterances), generator=torch.Generator().manual_seed(args.seed)).tolist()
    num_train = len(order) * 4 // 5
    train, test = ([utterances[i] for i in part] for part in (order[:num_train], order[num_train:]))
    symbols = {symbol: i for i, symbol in enumerate(sorted({symbol for words in train for symbol in "".join(words)}))}
    known = Counter(word for words in train for word in words)
    pyro.clear_param_store()
    given = [*tables(train, symbols, known, True), len(symbols)]
    guide = AutoDelta(segmenter)
    svi = SVI(segmenter, guide, pyro.optim.Adam({"lr": args.learning_rate}), Trace_ELBO())
    for _ in range(args.num_steps):
        svi.step(*given)
    others = [*tables(test, symbols, known, False), len(symbols)]
    with torch.no_grad():
        law = pyro.poutine.condition(segmenter, guide(*given))(*others)
        found = [cut_up("".join(words), value) for words, value in zip(test, law.argmax(), strict=True)]
    scores = segmentation_scores(found, test)
    print(f"{num_train} utterances to learn from, {len(test)} others: ", end="")
    print(f"F1 of words {scores.token.f1:.1%}, of boundaries {scores.boundary.f1:.1%}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--utterances", help="a file with one utterance a line, words between spaces")
    parser.add_argument("--num-utterances", type=int, default=1000)
    parser.add_argument("--num-steps", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
