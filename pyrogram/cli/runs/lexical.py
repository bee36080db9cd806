# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The folder of a trained dependency model with words: what training writes, and what parsing reads.

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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import write_file
from pyrogram.cli.runs import folder as run_folder
from pyrogram.cli.runs.folder import CONFIG, FORMAT, KIND_LEXICAL, LEXICON, WEIGHTS
from pyrogram.cli.runs.settings import differences

if TYPE_CHECKING:
    from torch import Tensor

    from pyrogram.data import Lexicon, Vocabulary
    from pyrogram.grammars import LexicalDependencies
    from pyrogram.grammars.lexical_parser import Franchise
    from pyrogram.grammars.lexical_tagger import LexicalTagger


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
class LexicalRun:
    """A trained model, read back or to be written."""

    grammar: LexicalDependencies
    franchises: dict[str, Franchise]
    lexicon: Lexicon
    tag_vocab: Vocabulary
    tagger: LexicalTagger
    tags: str


def write_lexical(path: Path, run: LexicalRun) -> None:
    """Write what parsing reads, but for ``config.json``."""
    from pyrogram.infer.loops.checkpoint import safetensors_bytes

    tensors: dict[str, Tensor] = {f"tagger.{name}": t for name, t in run.tagger.tensors().items()}
    for site, f in run.franchises.items():
        tensors |= {f"{site}.concentration": f.concentration, f"{site}.discount": f.discount}
        tensors |= {f"{site}.seats.{name}": t for name, t in f.restaurants.state_dict().items()}
    write_file(path / WEIGHTS, safetensors_bytes(tensors, {"format": FORMAT}))
    rows = ",\n".join("  " + json.dumps(pair, ensure_ascii=False) for pair in run.lexicon.vocab.to_list())
    write_file(path / LEXICON, f"[\n{rows}\n]\n".encode())


def describe(run: LexicalRun, paths: str) -> dict[str, Any]:
    """The grammar for ``config.json``."""
    return {
        "kind": KIND_LEXICAL,
        "num_tags": run.grammar.num_tags,
        "num_words": run.grammar.num_words,
        "paths": paths,
        "contexts": {site: [list(c) for c in contexts] for site, contexts in run.grammar.contexts.items()},
    }


def load_lexical(path: Path) -> LexicalRun:
    """Read a finished training.

    :raises CommandError: if it is none, is unfinished, or a file is not as it was written.
    """
    from pyrogram.data import Lexicon, Vocabulary
    from pyrogram.grammars import LexicalDependencies
    from pyrogram.grammars.lexical_tagger import LexicalTagger

    config = run_folder.finished(path)
    lexicon_file = path / LEXICON
    try:
        pairs = json.loads(lexicon_file.read_text(encoding="utf-8"))
        lexicon = Lexicon(Vocabulary.from_list(pairs))
    except FileNotFoundError:
        raise CommandError(f"{lexicon_file} is missing") from None
    except (ValueError, RecursionError, TypeError) as error:
        raise CommandError(f"{lexicon_file} is not as pyrogram wrote it: {str(error).rstrip('.')}") from None
    try:
        described, tags = config["grammar"], config["settings"]["tags"]
        tag_vocab = Vocabulary.from_list(config["vocabulary"])
        contexts = {site: tuple(tuple(c) for c in found) for site, found in described["contexts"].items()}
        grammar = LexicalDependencies(len(tag_vocab), len(lexicon), contexts)
        fits = described["num_tags"] == len(tag_vocab) and described["num_words"] == len(lexicon)
        if not fits or tags not in ("upos", "xpos") or described["paths"] not in ("minimal", "maximal", "exact"):
            raise ValueError("an entry does not fit the others")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise CommandError(f"{path / CONFIG} is not as pyrogram wrote it: {reason}") from None
    tensors = _tensors(path / WEIGHTS)
    try:
        franchises = {site: _franchise(site, grammar, described["paths"], tensors) for site in grammar.contexts}
        tagger = LexicalTagger.from_tensors(
            {name: tensors[f"tagger.{name}"] for name in ("triples", "moves")}, grammar.num_words, grammar.num_cases
        )
        if tagger.num_tags != grammar.num_tags:
            raise ValueError("the tagger has other tags")
    except (KeyError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise CommandError(f"{path / WEIGHTS} is not as pyrogram wrote it: {reason}") from None
    return LexicalRun(grammar, franchises, lexicon, tag_vocab, tagger, tags)


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found: dict[str, Tensor] = load(path.read_bytes())
    except FileNotFoundError:
        raise CommandError(f"{path} is missing") from None
    except SafetensorError as error:
        raise CommandError(f"{path} is not a safetensors file ({error})") from None
    return found


def _franchise(site: str, grammar: LexicalDependencies, paths: Any, tensors: Mapping[str, Tensor]) -> Franchise:
    from pyrogram.charts.pitman_yor.checks import parameters
    from pyrogram.charts.pitman_yor.restaurants import Restaurants
    from pyrogram.grammars.lexical_parser import Franchise

    levels, own = len(grammar.contexts[site]), f"{site}.seats."
    seats = {name.removeprefix(own): t for name, t in tensors.items() if name.startswith(own)}
    concentration, discount = tensors[f"{site}.concentration"], tensors[f"{site}.discount"]
    parameters(concentration, discount, levels)
    restaurants = Restaurants(levels, grammar.num_values[site], paths)
    try:
        restaurants.load_state_dict(seats)
    except ValueError as error:
        raise ValueError(f"of {site}, {error}") from None
    return Franchise(restaurants, concentration, discount)
