# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hierarchical Pitman-Yor processes: seats of a million words in three nested contexts; a treebank's hyperparameters.

    python3 benchmarks/pitman_yor.py                          # a million words, each after its two predecessors
    python3 benchmarks/pitman_yor.py --treebank FILE.conllu   # and the three variables of the dependency model

Processor seconds of one thread. The words are drawn from a bigram model whose rows have Zipf's law.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from pyrogram.data import Corpus, LexicalCorpus
from pyrogram.grammars.lexical_dependencies import LexicalDependencies
from pyrogram.grammars.lexical_parser import LexicalParser, PitmanYorPredictor
from pyrogram.infer import PitmanYorSampler
from pyrogram.models import observed_events
from pyrogram.models.pitman_yor_dependency import pitman_yor_dependency
from pyrogram.restaurants.restaurants import PATHS, Restaurants

HEADER = ["words", "paths", "seat", "remove", "predict", "log joint (ms)", "reseat all"]
HEADER_TREEBANK = ["paths", "first step", "per step", "50 steps", "Viterbi trees of the test part"]


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def words_in_contexts(number: int, vocabulary: int = 20000) -> tuple[list[Tensor], Tensor]:
    """Keys (nothing, last word, last two words) and words."""
    generator = torch.Generator().manual_seed(0)
    ranks = torch.multinomial(1 / torch.arange(1.0, vocabulary + 1), number + 2, True, generator=generator)
    words = ranks.clone()
    for i in range(0, number + 2, 3):  # every third word depends on the one before it
        words[i] = (ranks[i] + 7 * ranks[i - 1]) % vocabulary if i else ranks[i]
    return [torch.zeros(number).long(), words[1:-1], words[1:-1] * vocabulary + words[:-2]], words[2:]


def seats(number: int, vocabulary: int = 20000) -> list[list[str]]:
    keys, words = words_in_contexts(number, vocabulary)
    alpha, epsilon = torch.tensor([0.5, 0.5, 0.5]), torch.tensor([0.3, 0.5, 0.7])
    rows = []
    for paths in PATHS:
        few = [k[:1000] for k in keys], words[:1000]
        for keys_, words_ in (few, (keys, words)):  # the first time, code is compiled
            restaurants = Restaurants(3, vocabulary, paths)
            add = seconds(lambda: restaurants.add(keys_, words_, alpha, epsilon))  # noqa: B023
            predict = seconds(lambda: restaurants.predict(keys_, words_, alpha, epsilon))  # noqa: B023
            restaurants.log_joint(alpha, epsilon)
            joint = min(seconds(lambda: restaurants.log_joint(alpha, epsilon)) for _ in range(20))  # noqa: B023
            again = seconds(lambda: restaurants.reseat(alpha, epsilon)) if paths == "exact" else float("nan")  # noqa: B023
            remove = seconds(lambda: restaurants.remove(keys_, words_, alpha, epsilon))  # noqa: B023
        rows.append([str(number), paths, f"{add:.2f}", f"{remove:.2f}", f"{predict:.2f}", f"{1000 * joint:.2f}"])
        rows[-1].append("-" if paths != "exact" else f"{again:.2f}")
        print(" | ".join(rows[-1]), flush=True)
    return rows


def treebank(train: str | Path) -> list[list[str]]:
    """Slice sampling on a treebank, and parsing of its test part (``train`` in its name replaced) if there is one."""
    corpus = LexicalCorpus.from_corpus(Corpus.from_conllu(train, punctuation="keep"))
    grammar = LexicalDependencies(len(corpus.tag_vocab), len(corpus.lexicon))
    assert corpus.tags is not None and corpus.heads is not None
    events = grammar.events(corpus.tags, corpus.words, corpus.cases, corpus.heads)
    arguments = (*observed_events(events), grammar.num_values)
    print(corpus, {name: len(e) for name, e in events.items()})
    other = Path(train).with_name(Path(train).name.replace("train", "test"))
    rows = []
    for paths in PATHS:
        PitmanYorSampler(pitman_yor_dependency).run(*arguments, paths=paths, num_steps=1, progress=False)  # compiles
        sampler = PitmanYorSampler(pitman_yor_dependency)
        one = seconds(lambda: sampler.run(*arguments, paths=paths, num_steps=1, progress=False))  # noqa: B023
        many = seconds(lambda: sampler.run(*arguments, paths=paths, num_steps=49, progress=False))  # noqa: B023
        rows.append([paths, f"{one:.2f}", f"{many / 49:.3f}", f"{one + many:.1f}"])
        if other.exists():
            learnt = sampler.restaurants, sampler.concentration, sampler.discount
            parser = LexicalParser(grammar, {s: PitmanYorPredictor(*(x[s] for x in learnt)) for s in events})
            sentences = Corpus.from_conllu(other, punctuation="keep", vocab=corpus.tag_vocab)
            test = LexicalCorpus.from_corpus(sentences, like=corpus)
            parser.parse(test.tags[:8], test.words[:8], test.cases[:8], ["viterbi"])
            rows[-1].append(f"{seconds(lambda: parser.parse(test.tags, test.words, test.cases, ['viterbi'])):.1f}")  # noqa: B023
        else:
            rows[-1].append("-")
        print(" | ".join(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--treebank", help="a CoNLL-U file with trees")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(" | ".join(HEADER))
    seats(options.words)
    if options.treebank:
        print(" | ".join(HEADER_TREEBANK))
        treebank(options.treebank)
