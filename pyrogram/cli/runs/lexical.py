# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A run of a trained dependency model with words: its folder, and trees for files, with their tags or a tagger's.

config.json          settings, tags, and that training is finished, which is written last
lexicon.json         known words and classes of others, with counts
weights.safetensors  restaurants, concentrations and discounts of tags, words and cases; the tagger's counts
starts/001.safetensors  the chain, from which it is resumed
trace.csv, curve.svg hyperparameters and log joint after every step
parses.conllu        the evaluation corpus with predicted heads
results.csv, results.md  all scores; the table
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

from torch import Tensor

from pyrogram.choices import Decoder
from pyrogram.cli.io.corpora import WholeFile, name_of, note_unknown, read_corpus, read_whole
from pyrogram.cli.io.errors import CommandError, note
from pyrogram.cli.io.files import as_written, read_json, read_safetensors, write_file
from pyrogram.cli.io.trees import dependency_text
from pyrogram.cli.runs.folder import CONFIG, FORMAT, LEXICON, WEIGHTS
from pyrogram.cli.runs.run import ParseOptions, Run
from pyrogram.cli.runs.settings import differences
from pyrogram.cli.runs.starts import double_precision
from pyrogram.data import Corpus, LexicalCorpus, Lexicon, Vocabulary
from pyrogram.data.heads import rows_of_heads
from pyrogram.data.records import MISSING
from pyrogram.data.strings import Strings, narrow
from pyrogram.grammars import LexicalDependencies
from pyrogram.grammars.lexical_parser import LexicalParser, PitmanYorPredictor
from pyrogram.grammars.lexical_tagger import LexicalTagger
from pyrogram.infer.running.checkpoint import safetensors_bytes
from pyrogram.printable import plural
from pyrogram.restaurants.checks import parameters
from pyrogram.restaurants.restaurants import Restaurants


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a training; the options of ``pyrogram train`` explain them.

    :param data: "train", "dev" and "test", as far as they are given, with the SHA-256 of each file.
    """

    model: str
    tags: str
    prior: str
    paths: str
    steps: int
    seed: int
    unseen: str
    data: dict[str, str | int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def differences(self, other: dict[str, Any]) -> list[str]:
        """What another run's settings have otherwise, in words."""
        return differences(self.as_dict(), other)


@dataclass(frozen=True)
class LexicalRun(Run):
    """A trained model, read back or to be written.

    :param tags: what kind of tags it has learnt from.
    :param paths: the assumption on internal draws of its restaurants.
    """

    grammar: LexicalDependencies
    predictors: dict[str, PitmanYorPredictor]
    lexicon: Lexicon
    tag_vocab: Vocabulary
    tagger: LexicalTagger
    tags: str
    paths: str
    kind: ClassVar[str] = "LexicalDependencies"
    has_tagger: ClassVar[bool] = True

    @classmethod
    def load(cls, path: Path, config: dict[str, Any]) -> LexicalRun:
        pairs = read_json(path / LEXICON)
        with as_written(path / LEXICON):
            lexicon = Lexicon(Vocabulary.from_list(pairs))
        with as_written(path / CONFIG):
            described, tags = config["grammar"], config["settings"]["tags"]
            paths = described["paths"]
            tag_vocab = Vocabulary.from_list(config["vocabulary"])
            contexts = {site: tuple(tuple(c) for c in levels) for site, levels in described["contexts"].items()}
            grammar = LexicalDependencies(len(tag_vocab), len(lexicon), contexts)
            fits = described["num_tags"] == len(tag_vocab) and described["num_words"] == len(lexicon)
            if not fits or tags not in ("upos", "xpos") or paths not in ("minimal", "maximal", "exact"):
                raise ValueError("an entry does not fit the others")
        tensors = read_safetensors(path / WEIGHTS)
        with as_written(path / WEIGHTS):
            predictors = {site: _predictor(site, grammar, paths, tensors) for site in grammar.contexts}
            tagger = LexicalTagger.from_tensors(
                {name: tensors[f"tagger.{name}"] for name in ("triples", "moves")}, grammar.num_words, grammar.num_cases
            )
            if tagger.num_tags != grammar.num_tags:
                raise ValueError("the tagger has other tags")
        return cls(grammar, predictors, lexicon, tag_vocab, tagger, tags, paths)

    def write(self, path: Path) -> None:
        tensors: dict[str, Tensor] = {f"tagger.{name}": t for name, t in self.tagger.tensors().items()}
        for site, f in self.predictors.items():
            tensors |= {f"{site}.concentration": f.concentration, f"{site}.discount": f.discount}
            tensors |= {f"{site}.seats.{name}": t for name, t in f.restaurants.state_dict().items()}
        write_file(path / WEIGHTS, safetensors_bytes(tensors, {"format": FORMAT}))
        rows = ",\n".join("  " + json.dumps(pair, ensure_ascii=False) for pair in self.lexicon.vocab.to_list())
        write_file(path / LEXICON, f"[\n{rows}\n]\n".encode())

    def description(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "num_tags": self.grammar.num_tags,
            "num_words": self.grammar.num_words,
            "paths": self.paths,
            "contexts": {site: [list(c) for c in contexts] for site, contexts in self.grammar.contexts.items()},
        }

    def symbols(self) -> Sequence[Any]:
        return self.tag_vocab.to_list()

    def parse(self, file: Path, options: ParseOptions) -> Iterable[str]:
        """Parse with punctuation, and with the tags of the file or, as ``options.retag`` says, the tagger's."""
        whole = read_whole(file, options.format, "form", "ignore", keep_text=True)
        with double_precision():
            corpus = self._corpus(whole, options)
            assert corpus.tags is not None
            parser = LexicalParser(self.grammar, self.predictors)
            decoder = cast(Decoder, options.decoder)
            heads = parser.parse(corpus.tags, corpus.words, corpus.cases, [decoder]).heads[decoder]
        return dependency_text(whole, rows_of_heads(heads, corpus.lengths), corpus.corpus)

    def sample(self, num: int, max_length: int, brackets: bool) -> str:
        raise CommandError("a pitman-yor model, which pyrogram parse takes, makes up no sentences; give another run")

    def _corpus(self, file: WholeFile, options: ParseOptions) -> LexicalCorpus:
        """The sentences of a file, with tags."""
        kind, name = self.tags.upper(), name_of(file.path)
        forms = "give a file that has it, for the model generates words"
        words = read_corpus(file, tags="form", heads="ignore", punctuation="keep", no_tags_option=forms)
        # The tags of plain text, read as words, may be of either kind.
        column = words.columns.upos if self.tags == "upos" and file.kind == "conllu" else words.columns.xpos
        untagged = column.counts().keys() <= {MISSING}
        if untagged and options.retag == "no":
            raise CommandError(f"{name} has no {kind}, which the model needs; try --retag missing")
        if options.retag == "all" or untagged:
            note(f"note: {name}: {self.tags} tags are those of the model's tagger")
            return self._tagged(words)
        whole = read_corpus(
            file,
            tags=self.tags,
            vocab=self.tag_vocab,
            unknown=options.unknown,
            heads="ignore",
            punctuation="keep",
            no_tags_option=f"give a file that has it, for the model was learnt with --tags {self.tags}; or --retag all",
        )
        if 2 * whole.num_unknown > whole.num_words:
            share = f"{whole.num_unknown} of {plural(whole.num_words, 'word')}"
            raise CommandError(
                f"{name}: the model's {kind} tags do not include those of {share}; "
                "give --retag all for those of its tagger"
            )
        note_unknown(whole, file.path)
        return LexicalCorpus.with_vocabularies(whole, self.lexicon, self.tag_vocab)

    def _tagged(self, words: Corpus) -> LexicalCorpus:
        """Sentences with the tagger's tags, in the place of any that they had."""
        corpus = LexicalCorpus.with_vocabularies(words, self.lexicon, self.tag_vocab, tagged=False)
        tags = self.tagger.tag(corpus.words, corpus.cases)
        column: dict[str, Any] = {self.tags: Strings(narrow(tags[tags >= 0].numpy()), self.tag_vocab.symbols)}
        columns = replace(words.columns, **column)
        return replace(corpus.with_tags(tags), corpus=replace(words, columns=columns))


def _predictor(
    site: str, grammar: LexicalDependencies, paths: Any, tensors: Mapping[str, Tensor]
) -> PitmanYorPredictor:
    levels, prefix = len(grammar.contexts[site]), f"{site}.seats."
    seats = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    concentration, discount = tensors[f"{site}.concentration"], tensors[f"{site}.discount"]
    parameters(concentration, discount, levels)
    restaurants = Restaurants(levels, grammar.num_values[site], paths)
    try:
        restaurants.load_state_dict(seats)
    except ValueError as error:
        raise ValueError(f"of {site}, {error}") from None
    return PitmanYorPredictor(restaurants, concentration, discount)
