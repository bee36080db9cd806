# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees out: CoNLL-U text and networkx graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx

from pyrogram.data.records import MISSING, SentenceRecord


def conllu_text(records: Iterable[SentenceRecord], heads: Iterable[Sequence[int] | None]) -> str:
    """CoNLL-U with ID, FORM, UPOS, XPOS and HEAD; all other columns are ``_``.

    :param heads: of each sentence, or None to write none.
    """
    blocks = []
    for record, tree in zip(records, heads, strict=True):
        rows = [] if record.sent_id is None else [f"# sent_id = {record.sent_id}"]
        for i, (form, upos, xpos) in enumerate(zip(record.forms, record.upos, record.xpos, strict=True)):
            head = MISSING if tree is None else tree[i]
            rows.append(f"{i + 1}\t{form}\t_\t{upos}\t{xpos}\t_\t{head}\t_\t_\t_")
        blocks.append("\n".join(rows) + "\n\n")
    return "".join(blocks)


def graph(record: SentenceRecord, heads: Sequence[int]) -> nx.DiGraph[int]:
    """Nodes 0..n, 0 the wall, each with attributes ``form`` and ``tag``; edges from head to dependent."""
    tree: nx.DiGraph[int] = nx.DiGraph(sent_id=record.sent_id)
    tree.add_node(0, form="", tag="")
    for i, (form, tag) in enumerate(zip(record.forms, record.tags, strict=True), 1):
        tree.add_node(i, form=form, tag=tag)
    tree.add_edges_from((h, c) for c, h in enumerate(heads, 1))
    return tree
