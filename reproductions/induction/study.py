# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A reproduction from corpora to tables: which starts of which rows there are, who does them, what came of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.runs.starts import double_precision
from pyrogram.cli.runs.workers import one_thread
from pyrogram.grammars import tie
from reproductions.induction.learning import Language, Setup, parses_of
from reproductions.induction.systems import TABLES, Row
from reproductions.shared.learnt import Learnt
from reproductions.shared.settings import StudySettings
from reproductions.shared.store import (
    Key,
    pack,
    unpack_learnt,
)


@dataclass(frozen=True)
class Study:
    """A table to be filled, and all that its numbers depend on; workers get a copy.

    :param languages: one, or two for bilingual rows.
    """

    settings: StudySettings
    languages: tuple[Language, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows wanted, those that they go on from, in the order of the table."""
        table = {row.name: row for row in TABLES[self.settings.table]}
        names = set(self.settings.rows or table)
        if len(self.languages) < 2:
            names = {name for name in names if not table[name].bilingual}
        for name in list(names):
            names |= {need for need in [table[name].needs] if need}
        return tuple(row for row in table.values() if row.name in names)

    def check(self) -> None:
        """Refuse rows that cannot be, before anything is computed.

        :raises CommandError: if a row needs a second language, families of tags, or tags of a family that has none.
        """
        for row in TABLES[self.settings.table]:
            if row.bilingual and row.name in self.settings.rows and len(self.languages) < 2:
                raise CommandError(f"row {row.name} needs a second language; give TRAIN2 and --dev2")
        for row in self.rows:
            for language in self.languages if row.families else ():
                if language.families is None:
                    raise CommandError(
                        f"row {row.name} needs to know the families of the {self.settings.common.tags} tags of "
                        f"{language.name}, and they are no Penn or universal tags; name others in --rows"
                    )
                if row.ties:
                    try:
                        tie(language.grammar, language.families, row.ties)
                    except ValueError as error:
                        raise CommandError(
                            f"row {row.name}, {language.name}: {error}; leave it out of --rows"
                        ) from None

    def tasks(self) -> dict[Key, tuple[Key, ...]]:
        """Every start of every row, with those that it goes on from."""
        tasks: dict[Key, tuple[Key, ...]] = {}
        for row in self.rows:
            numbers = tuple(range(len(self.languages)))
            for which in [numbers] if row.bilingual else [(i,) for i in numbers]:
                for start in range(1, (self.settings.common.starts if row.many else 1) + 1):
                    needs = tuple(Key(row.needs, (i,), start) for i in which) if row.needs else ()
                    tasks[Key(row.name, which, start)] = needs
        return tasks

    def __call__(self, key: Key, earlier: Sequence[bytes], say: Callable[[str], Any]) -> bytes:
        """Do one start of one row: learn, parse, score."""
        row = next(row for row in self.rows if row.name == key.row)
        languages = tuple(self.languages[i] for i in key.languages)
        with double_precision(), one_thread():
            if row.learn is None:
                learnt = Learnt(())
            else:
                before = tuple(unpack_learnt(data) for data in earlier)
                options = self.settings.normal, self.settings.sweeps or 0
                learnt = row.learn(Setup(self.settings.common, languages, key.start, before, row.ties, say, *options))
            say("parsing")
            scores, heads = parses_of(languages, key.languages, learnt.weights, self.settings.common.smoothing)
        return pack(learnt, scores, self.settings.fingerprint(key.row), heads)
