# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The state of a run on disk: safetensors, replaced atomically, and tied to the run it belongs to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pyrogram.atomic import write_atomically
from pyrogram.printable import printable

FORMAT = "pyrogram-loop-4"


def save_state(path: Path, state: dict[str, Tensor], fingerprint: str) -> None:
    """Replace the file in one step, so that no reader ever sees half of it; its folder is made if need be."""
    metadata = {"format": FORMAT, "fingerprint": fingerprint, "digest": _digest(state)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, safetensors_bytes(state, metadata))


def safetensors_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """A safetensors file, the same bytes for the same content: the library itself writes metadata in any order."""
    data = save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict(metadata))
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format aligns tensors to eight bytes
    return len(text).to_bytes(8, "little") + text + data[end:]


def load_state(path: Path, fingerprint: str) -> dict[str, Tensor]:
    """Read a state back.

    :raises ValueError: if the file is no checkpoint, one of another version, that of a run on other sentences, weights
        or priors, or if its tensors are not those that were saved.
    """
    metadata, state = read_tensors(path, "a checkpoint", "; delete it or pass resume=False")
    problem = ""
    if metadata.get("format") != FORMAT:
        problem = "is the checkpoint of another run, or of another version of pyrogram"
    elif metadata.get("fingerprint") != fingerprint:
        problem = "is the checkpoint of another run"
    elif metadata.get("digest") != _digest(state):
        problem = "is damaged: its tensors are not those that were saved"
    if problem:
        raise ValueError(f"{path} {problem}; delete it or pass resume=False")
    return state


def read_tensors(path: Path, kind: str, advice: str = "") -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and tensors of a safetensors file.

    :param kind: what the file should be, for the message.
    :raises ValueError: if it is no such file, naming it.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {}), {name: file.get_tensor(name) for name in file.keys()}
    # OSError for a folder, say, and without its name; the others for headers that name no type or size of torch's.
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path} is not {kind} ({printable(str(error), 200)}){advice}") from error


def _digest(state: dict[str, Tensor]) -> str:
    """A hash of tensors by name, type and shape."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
