# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The model card of a run, ``README.md`` in its folder: what was learnt, from which data, how right it is, its use.

The header is the one that model hubs read. Nothing depends on when, where and by how many processes a run was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrogram.cli.io.files import write_file
from pyrogram.printable import plural

CARD = "README.md"

_PYTHON = {
    "DMV": """\
import json
import pyrogram
from pyrogram.data import Vocabulary
from safetensors.torch import load_file

with open("config.json", encoding="utf-8") as file:
    config = json.load(file)
vocab = Vocabulary.from_list(config["vocabulary"])
options = {name: config["grammar"][name] for name in ("valence_attach", "num_valences")}
grammar = pyrogram.DMV(len(vocab), **options)
weights = load_file("weights.safetensors")
corpus = pyrogram.Corpus.from_conllu(
    "sentences.conllu", tags=config["settings"]["tags"], vocab=vocab, unknown="most_frequent", heads="ignore"
)
s = config["settings"]["smoothing"]  # so that every sentence has a parse
smooth = {name: (1 - s) * w + s / w.shape[-1] for name, w in weights.items()}
heads = grammar.derivation(smooth, corpus.words).mbr()
""",
    "CFG": """\
import pyrogram
from safetensors.torch import load_file

with open("grammar.pcfg", encoding="utf-8") as file:
    grammar = pyrogram.CFG.from_string(file.read())
weights = load_file("weights.safetensors")
words, trees = grammar.sample_trees(weights, (10,), 20)
print(grammar.tree(words[0][words[0] >= 0], trees[0][trees[0] >= 0]))
""",
}
#: Of what needs more than its weights to read sentences.
_PARSE = """\
from pyrogram.cli import main

main(["parse", ".", "sentences.conllu", "--out", "parsed.conllu"])
"""


@dataclass(frozen=True)
class Card:
    """What a card says.

    :param kind: of the grammar, as ``config.json`` has it.
    :param title: the heading.
    :param summary: a sentence on what was learnt.
    :param tags: for model hubs.
    :param settings: as ``config.json`` has them; ``data`` are digests.
    :param scores: Markdown.
    :param sampled: whether ``pyrogram sample`` takes the run.
    """

    kind: str
    title: str
    summary: str
    tags: Sequence[str]
    settings: Mapping[str, Any]
    scores: str
    sampled: bool = True


def write_card(out: Path, card: Card) -> None:
    """Write the card of a run."""
    write_file(out / CARD, card_text(card).encode())


def card_text(card: Card) -> str:
    """The card as Markdown."""
    from pyrogram import __version__

    tags = "".join(f"- {tag}\n" for tag in ("pyrogram", *card.tags))
    commands = ["pyrogram parse . sentences.conllu --out parsed.conllu"]
    commands += ["pyrogram sample . --num 10"] if card.sampled else []
    settings = {name: value for name, value in card.settings.items() if name != "data"}
    return "\n".join(
        [
            f"---\nlibrary_name: pyrogram\nlicense: unknown\ntags:\n{tags}---\n",
            f"# {card.title}\n",
            f"{card.summary} Made by pyrogram {__version__}.\n",
            "## Data\n",
            _data(card.settings.get("data", {})),
            "The licence of the sentences is not known to pyrogram, nor whether it extends to what was learnt from "
            "them: whoever passes this folder on must find out.\n",
            "## Settings\n",
            _table(("setting", "value"), [(name, "none" if v is None else str(v)) for name, v in settings.items()]),
            "## Scores\n",
            f"{card.scores.rstrip()}\n",
            "## Use\n",
            "On the command line, in this folder:\n",
            "```\n" + "\n".join(commands) + "\n```\n",
            "In Python, in this folder:\n",
            f"```python\n{_PYTHON.get(card.kind, _PARSE)}```\n",
        ]
    )


def _data(digests: Mapping[str, Any]) -> str:
    if "builtin" in digests:
        return (
            f"{plural(digests['builtin'], 'sentence')} of the built-in corpus, which a grammar of pyrogram makes up.\n"
        )
    return _table(("file", "SHA-256"), [(name, f"`{digest}`") for name, digest in digests.items()])


def _table(header: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join(lines) + "\n"
