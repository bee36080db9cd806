# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Classes of words in place of tags: learnt from the words of a corpus, kept in the folder of a run."""

from __future__ import annotations

import json
from pathlib import Path

from pyrogram.cli.io.errors import note
from pyrogram.cli.io.files import as_written, read_json, write_file
from pyrogram.cli.runs.folder import CLASSES
from pyrogram.data import Corpus, Vocabulary, WordTags
from pyrogram.data.padding import pad
from pyrogram.infer import word_classes
from pyrogram.printable import plural


def induced_tags(corpus: Corpus, num_classes: int) -> WordTags:
    """Classes of all words of a corpus, in lower case; the most frequent class is C1."""
    forms = [[form.lower() for form in row] for row in corpus.forms]
    vocab = Vocabulary.count(form for row in forms for form in row)
    words = pad([i for row in forms for i in vocab.encode(row)], corpus.lengths)
    note(
        f"learning {plural(num_classes, 'class')} of {plural(len(vocab), 'word')} from "
        f"{plural(len(corpus), 'sentence')}"
    )
    induced = word_classes(words, len(vocab), num_classes)
    ranked = Vocabulary.count(str(c) for c in induced(words)[words >= 0].tolist())
    names = {int(c): f"C{rank}" for rank, c in enumerate(ranked, 1)}
    of = {word: names[c] for word, c in zip(vocab, induced.classes.tolist(), strict=True)}
    return WordTags(of, names[induced.of_rare_words])


def write_tagger(path: Path, tagger: WordTags) -> None:
    """Write ``classes.json``."""
    text = json.dumps({"others": tagger.others, "of": dict(tagger.of)}, ensure_ascii=False, indent=1)
    write_file(path / CLASSES, (text + "\n").encode())


def read_tagger(path: Path) -> WordTags:
    """Read ``classes.json``.

    :raises CommandError: if it is missing, or not as it was written.
    """
    saved = read_json(path / CLASSES)
    with as_written(path / CLASSES):
        of, others = saved["of"], saved["others"]
        if not all(isinstance(tag, str) for tag in (*of.keys(), *of.values(), others)):
            raise TypeError
        return WordTags(of, others)
