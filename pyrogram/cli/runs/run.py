# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One interface for the folders of all models: what induce and train write there, parse and sample read back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

from typing_extensions import Self

from pyrogram.choices import DECODERS, check_choice
from pyrogram.data.vocabulary import Unknown


@dataclass(frozen=True)
class ParseOptions:
    """How to parse a file; the options of ``pyrogram parse`` explain them.

    :raises ValueError: for a name that an option does not have.
    """

    decoder: str = "mbr"
    format: str = "auto"
    unknown: str = "most_frequent"
    retag: str = "missing"

    def __post_init__(self) -> None:
        check_choice("decoder", self.decoder, DECODERS)
        check_choice("unknown", self.unknown, get_args(Unknown))
        check_choice("retag", self.retag, ("no", "missing", "all"))


class Run(ABC):
    """A finished run: a grammar with all that parsing needs.

    :cvar kind: of the grammar, which ``config.json`` says.
    :cvar has_tagger: whether it can tag sentences.
    """

    kind: ClassVar[str]
    has_tagger: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def load(cls, path: Path, config: dict[str, Any]) -> Self:
        """Read a run back.

        :param path: its folder.
        :param config: what its ``config.json`` holds.
        :raises CommandError: if a file is missing, or not as it was written.
        """

    @abstractmethod
    def write(self, path: Path) -> None:
        """Write what :meth:`load` reads, but for ``config.json``."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """The grammar for ``config.json``."""

    @abstractmethod
    def symbols(self) -> Sequence[Any]:
        """The vocabulary for ``config.json``."""

    @abstractmethod
    def parse(self, file: Path, options: ParseOptions) -> Iterable[str]:
        """A file with the trees of all its sentences, as pieces of text; they are made when there is no error any more.

        :raises CommandError: for a file that the grammar cannot parse.
        """

    @abstractmethod
    def sample(self, num: int, max_length: int, brackets: bool) -> str:
        """Sentences with their trees, as text, by torch's generator.

        :param brackets: instead of CoNLL-U, where there is a choice.
        """
