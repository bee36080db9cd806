# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Write pyrogram/knowledge/shipped/scorer.safetensors: the scorer of ``pyrogram parse --zero-shot``.

    python docs/make_scorer.py FOLDER...

Folders hold files of Universal Dependencies, ``NAME-ud-PART.conllu``. It learns from the treebanks that
pyrogram/knowledge/shipped/SOURCES.md names, all parts of each, and from no other.
"""

import sys
from pathlib import Path

from pyrogram.knowledge import ArcScorer, Sources, read_treebanks

TARGET = Path(__file__).parents[1] / "pyrogram" / "knowledge" / "shipped" / "scorer.safetensors"


def main(folders: list[str]) -> None:
    """Read the treebanks, fit, prune, write."""
    names = Sources.shipped().names
    paths = sorted(path for folder in folders for path in Path(folder).glob("*-ud-*.conllu"))
    treebanks = read_treebanks(path for path in paths if path.name.split("-ud-")[0] in names)
    missing = sorted(set(names) - set(treebanks))
    if missing:
        raise SystemExit(f"these treebanks are in no folder: {', '.join(missing)}")
    ArcScorer.fit(treebanks, sources=Sources.shipped()).pruned().save(TARGET)


if __name__ == "__main__":
    main(sys.argv[1:])
