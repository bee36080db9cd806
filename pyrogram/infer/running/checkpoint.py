# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The state of a run on disk: safetensors, replaced atomically, and tied to the run it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pyrogram.atomic import write_atomically

FORMAT = "pyrogram-loop-2"


def save_state(path: Path, state: Mapping[str, Tensor], fingerprint: str) -> None:
    """Replace the file in one step, so that no reader ever sees half of it; its folder is made if need be."""
    data = save({k: v.contiguous() for k, v in state.items()}, {"format": FORMAT, "fingerprint": fingerprint})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)


def load_state(path: Path, fingerprint: str) -> dict[str, Tensor]:
    """Read a state back.

    :raises ValueError: if the file is no checkpoint, or one of another version of pyrogram, or that of a run on other
        sentences, weights or priors.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:  # OSError for a folder, say, and without its name
        raise ValueError(f"{path} is not a checkpoint ({error}); delete it or pass resume=False") from error
    found = metadata.get("format", "")
    if found != FORMAT and found.startswith("pyrogram-loop-"):
        raise ValueError(f"{path} is the checkpoint of another version of pyrogram; delete it or pass resume=False")
    if found != FORMAT or metadata.get("fingerprint") != fingerprint:
        raise ValueError(f"{path} is the checkpoint of another run; delete it or pass resume=False")
    return state
