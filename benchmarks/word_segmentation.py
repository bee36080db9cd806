# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Word segmentation: a step of SegmentationHastings over utterances of a made-up language, processor seconds.

    python3 benchmarks/word_segmentation.py                            # 10,000 utterances of the generated language
    python3 benchmarks/word_segmentation.py --utterances br-phono.txt  # of a file

A step proposes words for every utterance and moves every hyperparameter.
"""

from __future__ import annotations

import argparse
import time

import torch

from pyrogram.data import SegmentedCorpus, generated_utterances, read_utterances
from pyrogram.grammars import BigramSegmentation, UnigramSegmentation
from pyrogram.infer import SegmentationHastings
from pyrogram.models.word_segmentation import word_segmentation

HEADER = ["model", "prior", "utterances", "symbols", "seconds a step", "utterances/s", "accepted"]


def rows(corpus: SegmentedCorpus, steps: int) -> list[list[str]]:
    """A row for each model and prior, after ten steps that are not measured."""
    table = []
    for grammar_of in (UnigramSegmentation, BigramSegmentation):
        grammar = grammar_of("".join(corpus.forms))
        utterances = grammar.encode(corpus.forms)
        for prior in ("dirichlet", "pitman-yor"):
            sampler = SegmentationHastings(word_segmentation, seed=0)
            sampler.run(utterances, grammar, prior, num_steps=10, progress=False)
            start = time.process_time()
            sampler.run(utterances, grammar, prior, num_steps=steps, progress=False)
            seconds = (time.process_time() - start) / steps
            sizes = [str(len(corpus)), str(sum(map(len, corpus.forms)))]
            name = grammar_of.__name__.removesuffix("Segmentation").lower()
            speed = [f"{seconds:.2f}", f"{len(corpus) / seconds:,.0f}", f"{sampler.acceptance:.2%}"]
            table.append([name, prior, *sizes, *speed])
            print(" | ".join(table[-1]), flush=True)
    return table


def generated(quick: bool) -> list[list[str]]:
    """Of the generated language."""
    return rows(generated_utterances(500 if quick else 10_000), 3 if quick else 20)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", help="a file, an utterance a line, white space at boundaries")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(" | ".join(HEADER))
    corpus = read_utterances(options.utterances) if options.utterances else generated_utterances(10_000)
    rows(corpus, options.steps)
