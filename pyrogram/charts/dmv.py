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

from pyrogram.recursion.rules.pages import recursion
from pyrogram.recursion.run.on_tensors import TensorProgram, tensor_program


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
    a sentence and one of its distinct words. With evidence, each arc of a sentence has a factor, too. By position,
    attachments have weights by head and child of each sentence.
    """
    i, j, k, r = p.positions("i j k r")
    w = p.words("w")
    h, H = (p.words("h"), "P") if by_sentence else (w, "V")
    RC, LC, Z = p.items("RC LC Z")
    RO, LO, IR, IL = p.items("RO LO IR IL") if valences == 2 else p.items("RO LO IR IL", valences)
    valence_axis = (valences,) if valence_attach else ()
    root = p.weights("root", "V")
    attach = p.weights("attach", *valence_axis) if by_position else p.weights("attach", H, 2, *valence_axis, "V")
    stop = p.weights("stop", H, 2, valences, 2)  # head, direction, valence, decision: 0 continues, 1 stops
    factor: Any = p.weights("arc_scores") if evidence else None

    def choose(head: Any, direction: int, valence: Any, child: Any) -> Any:
        """The head goes on, and then takes the child."""
        place: tuple[Any, ...] = (head, child) if by_position else (h[head], direction)
        place += (valence,) if valence_attach else ()
        taken = attach[place if by_position else (*place, w[child])]
        if factor is not None:
            taken = factor[head, child] * taken
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
    top = factor[0, r] * root[w[r]] if factor is not None else root[w[r]]
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
    return tensor_program(dmv(valence_attach=valence_attach, valences=valences, **kind))
