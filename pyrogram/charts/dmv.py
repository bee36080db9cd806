# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The chart of the dependency model with valence: from weights and words to tree scores.

Weights are three tables (Klein and Manning 2004; Cohen, Gimpel and Smith 2008, Eq. 12):

* ``root`` (*batch, V): the child of the wall;
* ``attach`` (*batch, V, 2, V) [head, direction, child], or (*batch, V, 2, S, V) [head, direction, valence, child]
  in the extended model of Headden, Johnson and McClosky (2009);
* ``stop`` (*batch, V, 2, S, 2) [head, direction, valence, 0 = continue or 1 = stop].

Valence is the number of children that the head has on that side so far, S - 1 standing for more; S is 2 in the papers.

A child pays for its head's decision to continue and for being chosen, so an arc's score is the sum of both.
"""

from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram

from .checks import broadcast_shapes


@recursion
def dmv(
    p: Any,
    valence_attach: bool = False,
    by_sentence: bool = False,
    evidence: bool = False,
    valences: int = 2,
    by_position: bool = False,
) -> None:
    """The trees of :func:`.projective_tree.first_order`, whose weights are those of the words w.

    A head that has no child on a side yet has valence 0, else 1; with other numbers of valences, open halves are told
    apart by valence. Multinomials may differ from sentence to sentence: then h is the number of a word's own, a pair of
    a sentence and one of its distinct words. With evidence, each arc of a sentence has a further weight of its own.
    By position, arcs have weights of their own alone, in the place of those of attachments and of the root.
    """
    i, j, k, r = p.positions("i j k r")
    w = p.words("w")
    h, H = (p.words("h"), "P") if by_sentence else (w, "V")
    RC, LC, Z = p.items("RC LC Z")
    RO, LO, IR, IL = p.items("RO LO IR IL") if valences == 2 else p.items("RO LO IR IL", valences)
    if by_position:
        by_valence = valence_attach and valences > 1
        arc = p.weights("arc", valences) if by_valence else p.weights("arc")
    else:
        root = p.weights("root", "V")
        attach = p.weights("attach", H, 2, valences, "V") if valence_attach else p.weights("attach", H, 2, "V")
        arc = p.weights("arc") if evidence else None
    stop = p.weights("stop", H, 2, valences, 2)  # head, direction, valence, decision: 0 continues, 1 stops

    def choose(head: Any, direction: int, valence: Any, child: Any) -> Any:
        """The head goes on, and then takes the child."""
        if by_position:
            taken = arc[head, child, valence] if by_valence else arc[head, child]
        elif valence_attach:
            taken = attach[h[head], direction, valence, w[child]]
        else:
            taken = attach[h[head], direction, w[child]]
        if evidence:
            taken = arc[head, child] * taken
        return stop[h[head], direction, valence, 0] * taken

    if valences == 2:
        RO[i, i] += 1
        LO[i, i] += 1
        IR[i, j] += choose(i, 1, i < k, j) * RO[i, k] * LC[k + 1, j]
        IL[i, j] += choose(j, 0, k + 1 < j, i) * RC[i, k] * LO[k + 1, j]
        RO[i, j] += IR[i, k] * RC[k, j]
        LO[i, j] += LC[i, k] * IL[k, j]
        RC[i, j] += stop[h[i], 1, i < j, 1] * RO[i, j]
        LC[i, j] += stop[h[j], 0, i < j, 1] * LO[i, j]
    else:
        RO[i, i, 0] += 1
        LO[i, i, 0] += 1
        for v, more in zip(range(valences), [*range(1, valences), valences - 1], strict=True):
            IR[i, j, more] += choose(i, 1, v, j) * RO[i, k, v] * LC[k + 1, j]
            IL[i, j, more] += choose(j, 0, v, i) * RC[i, k] * LO[k + 1, j, v]
            RC[i, j] += stop[h[i], 1, v, 1] * RO[i, j, v]
            LC[i, j] += stop[h[j], 0, v, 1] * LO[i, j, v]
        for v in range(min(1, valences - 1), valences):  # of heads with children
            RO[i, j, v] += IR[i, k, v] * RC[k, j]
            LO[i, j, v] += LC[i, k] * IL[k, j, v]
    if by_position:
        top = arc[0, r, 0] if by_valence else arc[0, r]
    else:
        top = arc[0, r] * root[w[r]] if evidence else root[w[r]]
    Z[()] += top * LC[1, r] * RC[r, p.n]


@cache
def program(
    valence_attach: bool,
    by_sentence: bool = False,
    evidence: bool = False,
    valences: int = 2,
    by_position: bool = False,
) -> TensorProgram:
    """The DMV under one set of weights for all sentences, or with multinomials of their own; perhaps with evidence."""
    kind = {"by_sentence": by_sentence, "evidence": evidence, "by_position": by_position}
    return TensorProgram(dmv(valence_attach=valence_attach, valences=valences, **kind))


def scores(
    root: Float[Tensor, "*#batch V"],
    attach: Float[Tensor, "..."],
    stop: Float[Tensor, "*#batch V 2 S 2"],
    words: Int[Tensor, "*#batch n"],
    valence_attach: bool | None = None,
) -> tuple[Float[Tensor, "*batch N N S"], Float[Tensor, "*batch N 2 S"]]:
    """Arc and stop scores of sentences, from log weights; differentiable. Padding (-1) gets scores of word 0.

    :param valence_attach: whether ``attach`` has a dimension of valences; None if ``root`` and ``attach`` have the
        same number of batch dimensions, which tells.
    """
    V, n, S = root.shape[-1], words.shape[-1], stop.shape[-2]
    if valence_attach is None:
        valence_attach = attach.dim() - root.dim() == 3
    by_valence = attach if valence_attach else attach[..., None, :]
    # continue [.., V, 2, S, 1] + attach [.., V, 2, 1 or S, V]
    arc_table = (stop[..., 0, None] + by_valence).transpose(-1, -2)  # [head, direction, child, valence]
    batch = broadcast_shapes(root.shape[:-1], words.shape[:-1], arc_table.shape[:-4])
    w = words.clamp_min(0)
    positions = torch.arange(n, device=words.device)
    direction = (positions > positions[:, None]).long()
    index = (w[..., :, None] * 2 + direction) * V + w[..., None, :]
    flat = arc_table.flatten(-4, -2)  # (*batch, V * 2 * V, S)
    inner = _pick(flat, index.flatten(-2), batch).unflatten(-2, (n, n))
    wall = _pick(root[..., None], w, batch).expand(*batch, n, S)
    arcs = torch.cat([wall.unsqueeze(-3), inner], -3)
    arcs = torch.nn.functional.pad(arcs, (0, 0, 1, 0))
    stops = _pick(stop[..., 1].flatten(-2), w, batch).unflatten(-1, (2, S))
    return arcs, torch.nn.functional.pad(stops, (0, 0, 0, 0, 1, 0))


def _pick(table: Tensor, index: Tensor, batch: torch.Size) -> Tensor:
    """Rows of a table (*batch, rows, k) at an index (*batch, m): (*batch, m, k); one table may serve all."""
    if table.dim() == 2:
        return table[index.expand(*batch, -1)]
    index = index.expand(*batch, -1)[..., None].expand(*batch, index.shape[-1], table.shape[-1])
    return table.expand(*batch, *table.shape[-2:]).gather(-2, index)
