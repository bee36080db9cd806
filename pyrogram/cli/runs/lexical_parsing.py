# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees for a file by a trained dependency model: with the tags of the file, or with a tagger's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pyrogram.cli.io.corpora import format_of, name_of, note_unknown, read_corpus
from pyrogram.cli.io.errors import CommandError, note
from pyrogram.cli.runs.lexical import LexicalRun, load_lexical
from pyrogram.cli.runs.lexical_training import lexical_text
from pyrogram.cli.runs.starts import double_precision
from pyrogram.data import Corpus, LexicalCorpus
from pyrogram.data.records import MISSING, SentenceRecord
from pyrogram.grammars.lexical_parser import Decoder, LexicalParser


def parse_file(run: Path, file: Path, decoder: str, format: str, unknown: str, retag: str) -> str:
    """CoNLL-U of a file with predicted heads and the tags that they go with, the file's or the tagger's.

    :param retag: ``"no"``, ``"missing"``: if no token of the file has a tag of the model's kind; ``"all"``.
    :raises CommandError: for files that are not as they should be, and without tags under ``"no"``.
    """
    with double_precision():
        loaded = load_lexical(run)
        forms = "give a file that has it, for the model generates words"
        words = read_corpus(file, format=format, tags="form", heads="ignore", punctuation="keep", no_tags_option=forms)
        untagged = all(tag == MISSING for record in words.sentences for tag in _tags(record, loaded.tags, file, format))
        if untagged and retag == "no":
            raise CommandError(
                f"{name_of(file)} has no {loaded.tags.upper()}, which the model in {run} needs; try --retag missing"
            )
        if retag == "all" or untagged:
            corpus = _tagged(loaded, words)
            note(f"note: {name_of(file)}: {loaded.tags} tags are those of the model's tagger")
        else:
            whole = read_corpus(
                file,
                format=format,
                tags=loaded.tags,
                vocab=loaded.tag_vocab,
                unknown=unknown,
                heads="ignore",
                punctuation="keep",
                no_tags_option=f"give a file that has it, for the model in {run} was learnt with --tags {loaded.tags}; "
                "or --retag all",
            )
            if 2 * whole.num_unknown > int(whole.lengths.sum()):
                share = f"{whole.num_unknown} of {int(whole.lengths.sum())} words"
                raise CommandError(
                    f"{name_of(file)}: {share} have tags that the model's {loaded.tags.upper()} tags do not include; "
                    "give --retag all for those of its tagger"
                )
            note_unknown(whole, file)
            corpus = LexicalCorpus.with_vocabularies(whole, loaded.lexicon, loaded.tag_vocab)
        assert corpus.tags is not None
        parser = LexicalParser(loaded.grammar, loaded.franchises)
        heads = parser.parse(corpus.tags, corpus.words, corpus.cases, [cast(Decoder, decoder)]).heads[decoder]
    return lexical_text(
        corpus, heads, decoder, "the tagger's tags" if retag == "all" or untagged else "the file's tags"
    )


def _tags(record: SentenceRecord, kind: str, file: Path, format: str) -> Sequence[str]:
    """The tags of a sentence that was read as words: those of plain text may be of either kind."""
    found: tuple[str, ...] = record.upos if kind == "upos" else record.xpos
    return record.xpos if format_of(file, format) != "conllu" else found


def _tagged(loaded: LexicalRun, words: Corpus) -> LexicalCorpus:
    """Sentences with the tagger's tags, in the place of any that they had."""
    corpus = LexicalCorpus.with_vocabularies(words, loaded.lexicon, loaded.tag_vocab, tagged=False)
    tags = loaded.tagger.tag(corpus.words, corpus.cases)
    records = []
    for record, row in zip(words.sentences, tags, strict=True):
        column: dict[str, Any] = {loaded.tags: tuple(loaded.tag_vocab.decode(row))}
        records.append(replace(record, **column))
    return replace(corpus.with_tags(tags), corpus=replace(words, sentences=tuple(records)))
