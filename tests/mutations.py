# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Valid inputs made invalid, or hardly valid: by bytes, lines, fields, JSON values and tensors, from a seed."""

import copy
import gzip
import random
from typing import Any

import torch
from safetensors.torch import save

#: Pieces of text that have broken readers before, somewhere.
PIECES = [
    *("", " ", "  ", "\t", "\n", "\n\n", "\r", "\r\n", "\0", "\x1b[2J", "\x9b31m", "\x1b]0;t\x07", "\x85", "\u2028"),
    *("\ufeff", "\u202e", "\u00a0", "\u3000", "\ufffd", "\U0001f415", "e\u0301" * 20, "w" * 20_000),
    *("_", "-1", "0", "1", "1-2", "2-1", "1.1", "1_0", "+1", "\u0661", "9" * 12, "9" * 5000, "1e999", "nan", "inf"),
    *(
        "#",
        "# sent_id = ",
        "(",
        ")",
        "()",
        "((",
        "))",
        "(-NONE- *)",
        "( " * 300,
        "/",
        "\\/",
        "\\",
        "//",
        "'",
        '"',
        "[",
        "]",
    ),
    *("|", "->", "%start S", "%", "[1e999]", "[-1]", "{", "}", ",", "null", "1e400", "{}" * 3, "CONJ", "PUNCT"),
]
#: The same for bytes.
BYTES = [
    b"\0",
    b"\xff",
    b"\xfe\xff",
    b"\xed\xa0\x80",
    b"\xc3",
    b"\x80",
    b"\x1f\x8b",
    b"\xef\xbb\xbf",
    b"\x1b",
    b"PK\x03\x04",
]
#: The same for JSON.
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        10**400,
        -(10**400),
        2**63,
        0.5,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "a",
        "\ud800",
    ),
    *("\x1b[2J", "w" * 1000, "upos", [], {}, [[]], [None], ["a", 1], {"a": 1}, [["a", 1], ["a", 1]], [["a\udfff", 1]]),
]


def as_file(rng: random.Random, text: str) -> bytes:
    """Text with the line ends of some system, perhaps a mark of byte order; rarely cut off, or with wrong bytes."""
    end = rng.choice(["\n", "\n", "\n", "\r\n", "\r"])
    data = bytearray(rng.choice(["", "", "\ufeff"]).encode() + text.replace("\n", end).encode())
    if rng.random() < 0.05:
        data[rng.randrange(len(data)) :] = b""
    if rng.random() < 0.05:
        where = rng.randrange(len(data) + 1)
        data[where:where] = rng.choice(BYTES)
    return bytes(data)


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to three changes of bytes, lines or fields; now and then of the file as a whole."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice((_change_bytes, _change_lines, _change_fields, _change_fields))(rng, data)
    if rng.random() < 0.03:
        packed = gzip.compress(data)
        data = rng.choice(
            (packed, packed[: rng.randrange(len(packed))], data.decode(errors="replace").encode("utf-16"))
        )
    return data


def _change_bytes(rng: random.Random, data: bytes) -> bytes:
    i, length = rng.randrange(len(data) + 1), rng.choice((1, 1, 2, 10, 100))
    what = rng.randrange(5)
    if what == 0:
        return data[:i] + rng.choice(BYTES) + data[i:]
    if what == 1:
        return data[:i] + data[i + length :]
    if what == 2:
        return data[:i] + data[i : i + length] + data[i:]
    if what == 3:
        return data[:i]
    return data[:i] + bytes([rng.randrange(256)]) + data[i + 1 :]


def _change_lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(5)
    if what == 0:
        lines[i], lines[j] = lines[j], lines[i]
    elif what == 1:
        del lines[i]
    elif what == 2:
        lines.insert(j, lines[i])
    elif what == 3:
        lines[i] = rng.choice((b" ", b"\t", b"#", b"\r")) + lines[i]
    else:
        lines[i] = rng.choice(PIECES).encode()
    return b"\n".join(lines)


def _change_fields(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    i = rng.randrange(len(lines))
    separator = b"\t" if b"\t" in lines[i] else b" "
    fields = lines[i].split(separator)
    j = rng.randrange(len(fields))
    what = rng.randrange(5)
    if what == 0:
        del fields[j]
    elif what == 1:
        fields.insert(j, fields[j])
    elif what == 2:
        fields[j] = fields[rng.randrange(len(fields))]
    elif what == 3:
        fields[j] += rng.choice(PIECES).encode()
    else:
        fields[j] = rng.choice(PIECES).encode()
    lines[i] = separator.join(fields)
    return b"\n".join(lines)


def mutated_json(rng: random.Random, value: Any) -> Any:
    """A copy with one or two values replaced, removed or doubled."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2))):
        places = list(_places(value))
        if not places:
            return rng.choice(VALUES)
        parent, key = rng.choice(places)
        what = rng.randrange(4)
        if what == 0:
            del parent[key]
        elif what == 1 and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        else:
            parent[key] = copy.deepcopy(rng.choice(VALUES))
    return value


def _places(value: Any) -> Any:
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def mutated_tensors(rng: random.Random, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> bytes:
    """A safetensors file with one tensor changed, renamed, removed or added, under the old metadata."""
    tensors = dict(tensors)
    name = rng.choice(sorted(tensors))
    t = tensors[name]
    one = t.reshape(-1)[rng.randrange(t.numel()) :][:1] if t.numel() else t
    choices: list[Any] = [
        lambda: t[:0] if t.dim() else t.reshape(1)[:0],
        lambda: torch.cat([t, t]) if t.dim() else t.reshape(1),
        lambda: t.reshape(-1),
        lambda: t[None],
        lambda: t.to(rng.choice((torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.int64, torch.bool))),
        lambda: t.to(torch.complex64) if t.is_floating_point() else t.to(torch.uint8),
        lambda: torch.full_like(t, rng.choice((0, 1))),
        lambda: -t if t.dtype != torch.bool else t,
        lambda: torch.where(torch.rand(t.shape) < 0.2, torch.full_like(t, _odd(rng, t)), t),
        lambda: t + one if t.dtype != torch.bool else t,
    ]
    what = rng.randrange(len(choices) + 3)
    if what < len(choices):
        tensors[name] = choices[what]()
    elif what == len(choices):
        del tensors[name]
    elif what == len(choices) + 1:
        tensors[name + "x"] = tensors.pop(name)
    else:
        tensors["extra"] = torch.zeros(2)
    return save({k: v.contiguous().clone() for k, v in tensors.items()}, metadata)


def _odd(rng: random.Random, like: torch.Tensor) -> float | int | bool:
    if like.dtype == torch.bool:
        return True
    if like.is_floating_point():
        return rng.choice((float("nan"), float("inf"), -1.0, 0.0, 1e300 if like.dtype == torch.float64 else 1e30))
    return rng.choice((-1, 0, 1, 100, 127))
