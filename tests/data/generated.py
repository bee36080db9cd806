# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One sample of the built-in corpus, made once for all tests of it."""

from functools import lru_cache

import nltk

from pyrogram.data.builtin import GeneratedSentence, generate


@lru_cache(maxsize=1)
def corpus() -> list[GeneratedSentence]:
    return generate(2000, seed=11)


@lru_cache(maxsize=1)
def trees() -> list[nltk.Tree]:
    return [nltk.Tree.fromstring(sentence.brackets) for sentence in corpus()]
