# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees out: CoNLL-U text, a file of CoNLL-U with other trees, and networkx graphs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyrogram.data.conllu import HINT_KEY, PLUS, column_names
from pyrogram.data.punctuation import is_punctuation
from pyrogram.data.records import MISSING, NO_SYMBOL, CorpusError, Hints, SentenceRecord
from pyrogram.printable import quoted

if TYPE_CHECKING:
    import networkx as nx

_LINE_END = re.compile("(\r\n|\r|\n)")


def conllu_text(
    records: Iterable[SentenceRecord], heads: Iterable[Sequence[int] | None], with_relations: bool = False
) -> Iterator[str]:
    """CoNLL-U with ID, FORM, UPOS, XPOS, HEAD, and hints in MISC; all other columns are ``_``. One piece a sentence.

    :param heads: of each sentence, -1 for one that is unknown, or None to write none.
    :param with_relations: whether to write DEPREL, too, as :func:`replace_trees` does; with heads.
    :raises CorpusError: for a word or a tag that a column cannot hold.
    """
    for record, tree in zip(records, heads, strict=True):
        for text in filter(NO_SYMBOL.search, record.forms + record.upos + record.xpos):
            raise record.error(f"CoNLL-U cannot hold {quoted(text)}; leave out tabs, line ends and needless spaces")
        rows = [] if record.sent_id is None else [f"# sent_id = {record.sent_id}"]
        n = len(record)
        labels = relations(record, tree) if tree is not None and with_relations else [MISSING] * n
        written = [MISSING] * n if tree is None else [MISSING if head < 0 else str(head) for head in tree]
        misc = [MISSING] * n if record.hints is None else list(map(_hints, record.hints))
        columns = zip(record.forms, record.upos, record.xpos, written, labels, misc, strict=True)
        for i, (form, upos, xpos, head, label, last) in enumerate(columns, 1):
            rows.append(f"{i}\t{form}\t_\t{upos}\t{xpos}\t_\t{head}\t{label}\t_\t{last}")
        yield "\n".join(rows) + "\n\n"


def _hints(hints: Hints) -> str:
    """The hints of a word as column MISC has them."""
    return f"{HINT_KEY}=" + ",".join(f"{head}:{nats!r}" for head, nats in hints) if hints else MISSING


def replace_trees(
    data: Iterable[bytes], records: Iterable[SentenceRecord], heads: Iterable[Sequence[int]]
) -> Iterator[str]:
    """A text of CoNLL-U with other trees: the columns HEAD and DEPREL of its words are replaced, and nothing else is.

    A text of CoNLL-U Plus keeps the columns that it has.

    Comments, multiword ranges, empty nodes, enhanced dependencies (DEPS) and all other columns stay as they are, and so
    do line ends. The relation is the least that Universal Dependencies demand of a tree without labels: ``root`` of the
    word with head 0, ``punct`` of punctuation, ``dep`` of all others. An empty line is added if the text lacks the one
    that ends its last sentence.

    :param data: the text in UTF-8, in pieces, as it comes out.
    :param records: the sentences as they were read from the text, with all their words; where their tags are others,
        such as a tagger's, they are replaced, too.
    :param heads: of every sentence, 0 for ROOT.
    """
    rows = _rows(records, heads)
    names: tuple[str, ...] = ()
    row, first, first_end, num_ends = next(rows, None), 1, "", 0  # ends since the last line that is not empty
    for text in _whole_lines(data):
        pieces = _LINE_END.split(text)  # lines, and between them their ends
        names = names or _names("", text)
        while row is not None and row[0] < first + len(pieces) // 2 + bool(pieces[-1]):
            line, new = row
            columns = [new.get(*c) for c in zip(names, pieces[2 * (line - first)].split("\t"), strict=True)]
            pieces[2 * (line - first)] = "\t".join(columns)
            row = next(rows, None)
        yield "".join(pieces)
        first, first_end = first + len(pieces) // 2, first_end or "".join(pieces[1:2])
        empty = next((i for i, line in enumerate(reversed(pieces[::2])) if line.strip()), None)
        num_ends = num_ends + len(pieces) // 2 if empty is None else empty
    yield (first_end or "\n") * max(0, 2 - num_ends)


def check_head_column(path: str, beginning: bytes) -> None:
    """Whether there is a place for trees in a text of CoNLL-U.

    :param beginning: its first line at least.
    :raises CorpusError: if its first line names columns without HEAD.
    """
    if "HEAD" not in _names(path, beginning.decode(errors="ignore")):
        raise CorpusError(path, 1, f"{PLUS} lacks HEAD, where trees are to be written; add the column, with _ in it")


def _names(path: str, text: str) -> tuple[str, ...]:
    return column_names(path, _LINE_END.split(text, maxsplit=1)[0].removeprefix("\ufeff"))


def _rows(records: Iterable[SentenceRecord], heads: Iterable[Sequence[int]]) -> Iterator[tuple[int, dict[str, str]]]:
    """Of every word its line and what is to stand there in some columns: tags, head and relation."""
    names = "UPOS", "XPOS", "HEAD", "DEPREL"
    for record, tree in zip(records, heads, strict=True):
        columns = record.upos, record.xpos, map(str, tree), relations(record, tree)
        for line, *row in zip(record.lines, *columns, strict=True):
            yield line, dict(zip(names, row, strict=True))


def _whole_lines(data: Iterable[bytes]) -> Iterator[str]:
    """A text in pieces that end with LF, but for the last."""
    rest = b""
    for block in data:
        lines, end, after = block.rpartition(b"\n")
        if end:
            yield (rest + lines + end).decode()
        rest = after if end else rest + block
    if rest:
        yield rest.decode()


def relations(record: SentenceRecord, heads: Sequence[int]) -> list[str]:
    """The relation of every word of a tree without labels; see :func:`replace_trees`."""
    return [
        "root" if head == 0 else "punct" if is_punctuation(upos, xpos) else "dep"
        for upos, xpos, head in zip(record.upos, record.xpos, heads, strict=True)
    ]


def graph(record: SentenceRecord, heads: Sequence[int]) -> nx.DiGraph[int]:
    """Nodes 0..n, 0 ROOT, each with attributes ``form`` and ``tag``; edges from head to dependent."""
    import networkx as nx  # on demand: few want graphs, and it is a twentieth of what commands import

    tree: nx.DiGraph[int] = nx.DiGraph(sent_id=record.sent_id)
    tree.add_node(0, form="", tag="")
    for i, (form, tag) in enumerate(zip(record.forms, record.tags, strict=True), 1):
        tree.add_node(i, form=form, tag=tag)
    tree.add_edges_from((h, c) for c, h in enumerate(heads, 1))
    return tree
