# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Corpora that were read before, as files: columns as safetensors, beside a digest of all that they came from.

A file is named by the paths and options that were asked for, and holds a digest of what is in those paths, so that it
is made anew when one of them changes. A file that is damaged, or of another version, is written anew from its source;
where nothing can be written, nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pyrogram.atomic import write_atomically
from pyrogram.data.columns import Columns
from pyrogram.data.files import StrPath
from pyrogram.data.records import STANDARD_INPUT
from pyrogram.data.selection import Options, Selection
from pyrogram.data.strings import Names, Strings
from pyrogram.data.vocabulary import Vocabulary
from pyrogram.recursion.code.objects import folder

#: A number that changes with what is written, or with what is read from the same files.
VERSION = 3
_STRINGS = ("forms", "upos", "xpos", "sources", "tags")
_ARRAYS = ("offsets", "heads", "annotated", "first_lines", "lines", "trimmed", "after_mark")


def cached(
    cache: bool | StrPath, kind: str, paths: Sequence[str], options: Options, read: Callable[[], Selection]
) -> Selection:
    """What ``read`` gives, from a file if it was kept there before.

    :param cache: whether to keep it, in a folder of the user's cache; or the folder.
    :param kind: the format, with options that it has beside the others.
    """
    files = [Path(path) for path in paths]
    if cache is False or STANDARD_INPUT in paths or not all(map(_is_file, files)):
        return read()
    place = folder() / "corpora" if cache is True else Path(cache)
    asked = _asked(kind, files, options)
    path = place / f"{asked[:40]}.safetensors"
    source = hashlib.sha256(asked.encode())
    try:
        for file in files:
            source.update(_digest(file))
    except OSError:
        return read()
    digest = source.hexdigest()
    selection = _load(path, digest)
    if selection is None:
        selection = read()
        _save(path, digest, selection)
    return selection


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _digest(path: Path) -> bytes:
    sha256 = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.digest()


def _asked(kind: str, files: Sequence[Path], options: Options) -> str:
    """A digest of paths and options; the paths as they were given, too, for sentences have them."""
    told = asdict(options) | {"vocab": options.vocab and options.vocab.to_list()}
    places = [[str(file), os.path.abspath(file)] for file in files]
    return hashlib.sha256(json.dumps([VERSION, kind, places, told]).encode("utf-8", "surrogateescape")).hexdigest()


def _save(path: Path, digest: str, selection: Selection) -> None:
    columns = selection.columns
    arrays = {name: getattr(columns, name) for name in _ARRAYS}
    arrays |= _of_names("sent_ids", columns.sent_ids) | _of_names("vocab", Names.of(selection.vocab.symbols))
    arrays["counts"] = np.array(selection.vocab.counts, dtype=np.int64)
    shared = [name for name in _STRINGS[:3] if getattr(columns, name) is columns.tags]
    for name in _STRINGS if not shared else _STRINGS[:-1]:
        column = getattr(columns, name)
        arrays |= _of_names(f"{name}.table", Names.of(column.table)) | {f"{name}.ids": column.ids}
    hints = [[i, rows] for i, rows in columns.hints.items()]
    about = {"digest": digest, "dropped": str(selection.dropped), "hints": json.dumps(hints)}
    about["tags"] = shared[0] if shared else "tags"
    about["contents"] = _digest_of(arrays, about)
    with contextlib.suppress(OSError, SafetensorError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, about))


def _load(path: Path, digest: str) -> Selection | None:
    """What was kept of sources with this digest; None if there is nothing, or it is damaged."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            contents = about.pop("contents", None)
            if about.get("digest") != digest:
                return None
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError):
        return None
    if contents != _digest_of(arrays, about):
        return None
    strings = {}
    for name in _STRINGS:
        if f"{name}.ids" in arrays:
            strings[name] = Strings(arrays[f"{name}.ids"], _strings(arrays, f"{name}.table"))
    strings.setdefault("tags", strings[about["tags"]])
    hints = {i: tuple(tuple((h, nats) for h, nats in row) for row in rows) for i, rows in json.loads(about["hints"])}
    rest: dict[str, Any] = {name: arrays[name] for name in _ARRAYS} | strings
    columns = Columns(sent_ids=_names(arrays, "sent_ids"), hints=hints, **rest)
    vocab = Vocabulary(tuple(_strings(arrays, "vocab")), tuple(arrays["counts"].tolist()))
    return Selection(columns, vocab, int(about["dropped"]))


def _digest_of(arrays: Mapping[str, Any], about: Mapping[str, str]) -> str:
    sha256 = hashlib.sha256(json.dumps(sorted(about.items())).encode())
    for name in sorted(arrays):
        sha256.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        sha256.update(np.ascontiguousarray(arrays[name]).view(np.uint8).data)
    return sha256.hexdigest()


def _of_names(name: str, names: Names) -> dict[str, Any]:
    return {f"{name}.text": names.text, f"{name}.offsets": names.offsets, f"{name}.given": names.present}


def _names(arrays: Mapping[str, Any], name: str) -> Names:
    return Names(*(arrays[f"{name}.{part}"] for part in ("text", "offsets", "given")))


def _strings(arrays: Mapping[str, Any], name: str) -> list[str]:
    names = _names(arrays, name)
    return cast("list[str]", names.to_list(0, len(names.present)))
