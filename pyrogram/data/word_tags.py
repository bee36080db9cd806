# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tags that are no annotation: a tag for each word, whatever stands beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyrogram.data.corpus import Corpus
from pyrogram.data.vocabulary import Vocabulary

__all__ = ["WordTags"]


@dataclass(frozen=True)
class WordTags:
    """A tag for each word: classes that :func:`.word_classes` found, say.

    >>> tagger = WordTags({"the": "D", "dog": "N"}, others="N")
    >>> tagger(Corpus.from_sentences([["The", "cat"]], tags="form")).tags
    [['D', 'N']]

    :param of: from words to tags; words are looked up as they are written, then in lower case.
    :param others: the tag of all other words.
    """

    of: Mapping[str, str]
    others: str

    def tags(self, forms: Sequence[str]) -> tuple[str, ...]:
        """The tags of words."""
        return tuple(self.of.get(form, self.of.get(form.lower(), self.others)) for form in forms)

    def __call__(self, corpus: Corpus, vocab: Vocabulary | None = None) -> Corpus:
        """The corpus with these tags in place of its own.

        :param vocab: of tags; None counts those of this corpus.
        """
        forms = corpus.columns.forms
        return corpus.with_tags(forms.mapped(self.tags(forms.table)), vocab)
