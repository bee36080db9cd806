# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The state of an algorithm as one value, and the same as tensors with names.

A state is a frozen dataclass of tensors, of mappings from names to tensors, and of mappings of those. It holds all that
the next step depends on besides the model; a step makes another state and leaves the old one as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from torch import Tensor

S = TypeVar("S")

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Info:
    """What a step tells its user, besides the new state: the objective of the old one, in nats."""

    objective: float


def ragged(**options: Any) -> Any:
    """A field of a state whose tensors have shapes, and innermost names, that only the algorithm can check.

    :param options: of :func:`dataclasses.field`, such as ``default_factory``.
    """
    return field(metadata={"ragged": True}, **options)


def flatten(state: Any) -> Tensors:
    """All tensors of a state by their dotted names, such as ``weights.root``."""
    if isinstance(state, Tensor):
        return {"": state}
    tensors = {}
    for name, part in _parts(state).items():
        for rest, tensor in flatten(part).items():
            tensors[f"{name}.{rest}" if rest else name] = tensor
    return tensors


def unflatten(like: S, tensors: Mapping[str, Tensor], owner: str) -> S:
    """The inverse of :func:`flatten`, on the devices and in the dtypes of another state.

    :param like: a state with the same names and shapes, but for fields that are :func:`ragged`; of these, tensors by
        name go to the device of a tensor that it has by the same name.
    :param owner: whose state it is, for messages.
    :raises ValueError: if an entry is missing, unknown or of another shape.
    """
    loose = {f.name for f in fields(like) if f.metadata.get("ragged")}  # type: ignore[arg-type]
    expected = {n: t for n, t in flatten(like).items() if n.partition(".")[0] not in loose}
    missing = [n for n in expected if n not in tensors]
    missing += [n for n in loose if isinstance(getattr(like, n), Tensor) and n not in tensors]
    unknown = [n for n in tensors if n not in expected and n.partition(".")[0] not in loose]
    other = [n for n in expected if n in tensors and tensors[n].shape != expected[n].shape]
    if missing or unknown or other:
        faults = [f"lacks {missing[0]!r}"] if missing else []
        faults += [f"has no use for {unknown[0]!r}"] if unknown else []
        shapes = [(n, tuple(tensors[n].shape), tuple(expected[n].shape)) for n in other[:1]]
        faults += [f"needs {n!r} in shape {right}, not {shape}" for n, shape, right in shapes]
        raise ValueError(f"this is not the state of {owner}, which " + " and ".join(faults))
    hints = get_type_hints(type(like))
    values: dict[str, Any] = {}
    for f in fields(like):  # type: ignore[arg-type]
        part = getattr(like, f.name)
        if f.name not in loose:
            values[f.name] = _filled(part, f.name, tensors)
        elif isinstance(part, Tensor):
            values[f.name] = tensors[f.name].detach().to(part, copy=True)
        else:
            entries = {n[len(f.name) + 1 :]: t for n, t in tensors.items() if n.startswith(f"{f.name}.")}
            entries |= {n: entries[n].to(t.device) for n, t in flatten(part).items() if n in entries}
            values[f.name] = _grouped(entries, nested=get_args(hints[f.name])[1] is not Tensor)
    return type(like)(**values)


def _filled(like: Any, name: str, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(like, Tensor):
        return tensors[name].detach().to(like, copy=True)
    values = {key: _filled(part, f"{name}.{key}", tensors) for key, part in _parts(like).items()}
    kind: Any = type(like)
    return kind(**values) if is_dataclass(like) else values


def _parts(state: Any) -> Mapping[str, Any]:
    return {f.name: getattr(state, f.name) for f in fields(state)} if is_dataclass(state) else state


def _grouped(tensors: Mapping[str, Tensor], nested: bool) -> dict[str, Any]:
    """A mapping of tensors, or of mappings of them whose names have no dot."""
    copies = {name: t.detach().clone() for name, t in tensors.items()}
    if not nested:
        return copies
    groups: dict[str, Any] = {}
    for name, tensor in copies.items():
        group, _, key = name.rpartition(".")
        groups.setdefault(group, {})[key] = tensor
    return groups


def copied(tensors: Mapping[str, Tensor]) -> Tensors:
    """The same numbers in memory of their own."""
    return {name: t.detach().clone() for name, t in tensors.items()}
