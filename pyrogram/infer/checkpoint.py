# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The state of a loop on disk: safetensors, replaced atomically, and tied to the run it belongs to."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .reading import Reading

FORMAT = "pyrogram-loop-1"


def fingerprint(loop: str, reading: Reading) -> str:
    """A hash of the kind of loop, the weights and parameters by name and shape, the priors and the sentences."""
    digest = hashlib.sha256(loop.encode())
    for source in reading.sources.values():
        kind = f"{source.name}{tuple(source.block.shape)}{source.value.dtype}{source.concentration is None}"
        digest.update(kind.encode())
        if source.concentration is not None and not source.learns_prior:
            digest.update(source.concentration.detach().to("cpu", torch.float64).contiguous().numpy().tobytes())
    for name, parameter in reading.hyperparameters.items():
        digest.update(f"{name}{tuple(parameter.shape)}{parameter.dtype}".encode())
    for site in reading.sentences:
        digest.update(f"{site.name}{tuple(site.words.shape)}".encode())
        digest.update(site.words.to("cpu", torch.long).contiguous().numpy().tobytes())
    return digest.hexdigest()


def save_state(path: Path, state: dict[str, Tensor], fingerprint: str) -> None:
    """Write to a file beside ``path`` and put it in place in one step, so that no reader ever sees half of it."""
    data = save({k: v.contiguous() for k, v in state.items()}, {"format": FORMAT, "fingerprint": fingerprint})
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def load_state(path: Path, fingerprint: str) -> dict[str, Tensor]:
    """Read a state back.

    :raises ValueError: if the file is no checkpoint, or that of a run on other sentences, weights or priors.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a checkpoint ({error}); delete it or pass resume=False") from error
    if metadata.get("format") != FORMAT or metadata.get("fingerprint") != fingerprint:
        raise ValueError(f"{path} is the checkpoint of another run; delete it or pass resume=False")
    return state
