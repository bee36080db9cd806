# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Corpora that were kept: the same as from the source, made anew when anything changes, and never an error."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrogram.data import Corpus, CorpusError, Vocabulary, corpus, disk_cache

PARTIAL = """# sent_id = ü-1
1\tDie\t_\tDET\tART\t_\t2\t_\t_\tHeadHint=3:-inf
2\tKatze\t_\tNOUN\tNN\t_\t_\t_\t_\tHeadHint=3:1.5
3\tschläft\t_\tVERB\tVVFIN\t_\t0\t_\t_\t_
4\t.\t_\tPUNCT\t$.\t_\t3\t_\t_\t_

1\t!\t_\tPUNCT\t$.\t_\t0\t_\t_\t_

"""
TREE = PARTIAL.replace("NN\t_\t_", "NN\t_\t3").replace("\tHeadHint=3:-inf", "\t_").replace("\tHeadHint=3:1.5", "\t_")


def all_of(found: Corpus) -> Any:
    heads = None if found.heads is None else found.heads.tolist()
    scores = found.arc_scores.tolist(), found.segments.tolist(), found.known_heads.tolist()
    return list(found), found.vocab, found.dropped, found.num_unknown, found.words.tolist(), heads, scores


@pytest.fixture
def no_source(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on nothing can be read but what was kept."""

    def close() -> None:
        monkeypatch.setattr(corpus, "read", None)

    return close


@pytest.mark.parametrize(
    ("text", "read", "options"),
    [
        (TREE, Corpus.from_conllu, {}),
        (TREE, Corpus.from_conllu, {"tags": "xpos", "punctuation": "keep"}),
        (TREE, Corpus.from_conllu, {"tags": "form", "lowercase": True, "max_length": 3, "heads": "ignore"}),
        (PARTIAL, Corpus.from_conllu, {"heads": "partial", "vocab": Vocabulary(("NOUN", "X"), (2, 1))}),
        ("(S (NP (NN cats)) (VP (VBP sleep) (. .)))\n", Corpus.from_brackets, {}),
        ("cats/NN sleep/VBP ./.\n./.\n", Corpus.from_tags, {}),
    ],
)
def test_the_same(text: str, read: Any, options: Any, tmp_path: Path, no_source: Callable[[], None]) -> None:
    files = [tmp_path / "a", tmp_path / "b.gz"]
    files[0].write_text(text, encoding="utf-8")
    files[1].write_bytes(gzip.compress(text.encode()))
    plain = all_of(read(files, **options))
    assert all_of(read(files, cache=tmp_path / "new" / "cache", **options)) == plain
    no_source()
    assert all_of(read(files, cache=tmp_path / "new" / "cache", **options)) == plain
    for other in ({"max_length": 2}, {"vocab": Vocabulary(("NN",), (1,))}, {"unknown": "error"}):
        with pytest.raises(TypeError):  # it is not there, and cannot be read
            read(files, cache=tmp_path / "new" / "cache", **(options | other))
    with pytest.raises(TypeError):
        read(files[:1], cache=tmp_path / "new" / "cache", **options)


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    """Even one of the same size and time; and what was kept of it before is replaced."""
    path, folder = tmp_path / "a.conllu", tmp_path / "cache"
    path.write_text(TREE, encoding="utf-8")
    os.utime(path, (10**9, 10**9))
    assert Corpus.from_conllu(path, cache=folder)[0].forms[1] == "Katze"
    path.write_text(TREE.replace("Katze", "Tatze"), encoding="utf-8")
    os.utime(path, (10**9, 10**9))
    assert Corpus.from_conllu(path, cache=folder)[0].forms[1] == "Tatze"
    assert len(list(folder.iterdir())) == 1
    path.write_text(TREE.replace("\t3\t_", "\t1\t_"), encoding="utf-8")
    with pytest.raises(CorpusError, match="form a cycle"):
        Corpus.from_conllu(path, cache=folder)


def test_another_version_reads_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_source: Any) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(TREE, encoding="utf-8")
    Corpus.from_conllu(path, cache=tmp_path)
    monkeypatch.setattr(disk_cache, "VERSION", disk_cache.VERSION + 1)
    no_source()
    with pytest.raises(TypeError):
        Corpus.from_conllu(path, cache=tmp_path)


def test_damage_is_mended(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.conllu", tmp_path / "cache"
    path.write_text(TREE, encoding="utf-8")
    expected = all_of(Corpus.from_conllu(path, cache=folder))
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    damaged = [whole[:cut] for cut in (0, 5, 100, len(whole) - 1)] + [b"x" * 50]
    header = whole.index(b'"__metadata__"')
    places = [*range(header, header + 500, 7), *range(0, len(whole), 37)]
    damaged += [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in places]
    for data in damaged:
        file.write_bytes(data)
        assert all_of(Corpus.from_conllu(path, cache=folder)) == expected
        assert [f.name for f in folder.iterdir()] == [file.name] and len(file.read_bytes()) == len(whole)


def test_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, file = tmp_path / "a.conllu", tmp_path / "file"
    path.write_text(TREE, encoding="utf-8")
    file.write_text("")
    expected = all_of(Corpus.from_conllu(path))
    assert all_of(Corpus.from_conllu(path, cache=file)) == expected
    assert all_of(Corpus.from_conllu(path, cache=file / "below")) == expected

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)  # the file has been written by then
    assert all_of(Corpus.from_conllu(path, cache=tmp_path / "full")) == expected
    assert list((tmp_path / "full").iterdir()) == []


def test_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_source: Callable[[], None]) -> None:
    monkeypatch.setenv("PYROGRAM_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "a.conllu"
    path.write_text(TREE, encoding="utf-8")
    expected = all_of(Corpus.from_conllu(path, cache=True))
    no_source()
    assert all_of(Corpus.from_conllu(path, cache=True)) == expected
    assert len(list((tmp_path / "cache" / "corpora").iterdir())) == 1


def test_missing_files_are_told_as_ever(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="there is no such file"):
        Corpus.from_conllu(tmp_path / "none", cache=tmp_path)
