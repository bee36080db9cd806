# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A file is the old one or the new one, whatever happens."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from pyrogram.atomic import write_atomically


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"old", b"", b"new\r\n\x00\xff"):
        write_atomically(path, data)
        assert path.read_bytes() == data
    write_atomically(str(path), b"by name")
    assert path.read_bytes() == b"by name"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    "error", [OSError("no space left on device"), KeyboardInterrupt()], ids=lambda e: type(e).__name__
)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    step: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*args: Any) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_data_are_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: (steps.append(name), real(*args)))
    write_atomically(tmp_path / "file", b"data")
    assert steps == ["fsync", "replace"]


def test_a_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (folder, tmp_path / "absent" / "file"):
        with pytest.raises(OSError):
            write_atomically(path, b"data")
    assert os.listdir(tmp_path) == ["folder"]
    with pytest.raises(FileNotFoundError, match=r"there is no such folder, make it first: '.*absent'$"):
        write_atomically(tmp_path / "absent" / "file", b"data")
    assert os.listdir(folder) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    path, link = tmp_path / "folder" / "file", tmp_path / "link"
    path.parent.mkdir()
    link.symlink_to(path)
    for data in (b"made", b"replaced"):
        write_atomically(link, data)
        assert link.is_symlink()
        assert path.read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["folder", "link"]
    assert os.listdir(path.parent) == ["file"]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """Or else root would turn /dev/null into a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_atomically(pipe, b"data")
    reader.join(10)
    assert pipe.is_fifo()
    assert received == [b"data"]


def test_threads_do_not_write_into_one_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = [bytes([65 + i]) * 100_000 for i in range(4)]
    errors: list[BaseException] = []

    def write(data: bytes) -> None:
        try:
            for _ in range(10):
                write_atomically(path, data)
                assert path.read_bytes() in texts
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(data,)) for data in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert os.listdir(tmp_path) == ["file"]
