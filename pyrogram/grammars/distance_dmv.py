# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The dependency model with classes of distances in the place of valence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pyrogram.checks import check_size
from pyrogram.distributions.projective_tree import ProjectiveDependencyTree
from pyrogram.draws import Draws
from pyrogram.grammar import Grammar, Weights
from pyrogram.printable import plural
from pyrogram.recursion.rules.pages import recursion
from pyrogram.trees import lengths_of

from . import expansions, initial
from .dmv import DMV, tree_axes, tree_blocks
from .recursive import RecursiveGrammar

LEFT, RIGHT = 0, 1
CONTINUE, STOP = 0, 1


@recursion
def distance_dmv(p: Any, widths: tuple[int, ...] = (1,), distance_attach: bool = False) -> None:
    """The halves of :func:`.dmv.dmv`; open ones are told apart by the class of their width."""
    i, j, k, r = p.positions("i j k r")
    w, C = p.words("w"), len(widths) + 1
    RC, LC, IR, IL, Z = p.items("RC LC IR IL Z")
    RO, LO = p.items("RO LO", C)
    root, stop = p.weights("root", "V"), p.weights("stop", "V", 2, C, 2)
    attach = p.weights("attach", "V", 2, C, "V") if distance_attach else p.weights("attach", "V", 2, "V")

    def choose(head: Any, direction: int, c: int, child: Any) -> Any:
        taken = (w[head], direction, c, w[child]) if distance_attach else (w[head], direction, w[child])
        return stop[w[head], direction, c, CONTINUE] * attach[taken]

    RO[i, i, 0] += 1
    LO[i, i, 0] += 1
    for c in range(C):
        IR[i, j] += choose(i, RIGHT, c, j) * RO[i, k, c] * LC[k + 1, j]
        IL[i, j] += choose(j, LEFT, c, i) * RC[i, k] * LO[k + 1, j, c]
        RC[i, j] += stop[w[i], RIGHT, c, STOP] * RO[i, j, c]
        LC[i, j] += stop[w[j], LEFT, c, STOP] * LO[i, j, c]
        within = i + (widths[c - 1] if c else 1) <= j
        if c < len(widths):
            if widths[c] == 1:  # of a head alone
                continue
            within = within * (j <= i + (widths[c] - 1))
        RO[i, j, c] += IR[i, k] * RC[k, j] * within
        LO[i, j, c] += LC[i, k] * IL[k, j] * within
    Z[()] += root[w[r]] * LC[1, r] * RC[r, p.n]


class DistanceDMV(RecursiveGrammar):
    """The dependency model in which a head knows how far it has come: the distance of Collins (1997) in a DMV.

    A head generates its children on each side from the nearest outwards, as in a :class:`.DMV`. Before each decision it
    knows the *distance class* of that side: how many words its children and their descendants have there so far, in
    classes. A DMV knows whether there is any, so ``DistanceDMV(V)`` is ``DMV(V)``, and with ``distance_attach`` it is
    the extended model of Headden, Johnson and McClosky (2009). More classes let the tables learn how near to its head a
    child has to be, which Smith and Eisner (2006) give as a bias of all arcs. The words are known when a decision is
    made, so that sentences of all lengths have probabilities that sum to one at most. The blocks are

    * ``root`` (V,): the only child of ROOT;
    * ``attach`` (V, 2, V) [head, direction, child], or (V, 2, C, V) [head, direction, distance, child] if
      ``distance_attach``; direction 0 is left, 1 right;
    * ``stop`` (V, 2, C, 2) [head, direction, distance, decision]; decision 0 is continue, 1 is stop.

    Time is O(n^3 C), as for C valences. A sentence that is cut when it is drawn has no more words from there on,
    neither of the last head nor of those above it.

    >>> grammar = DistanceDMV(num_tags=2, widths=(1, 3))  # no word, one or two, three and more
    >>> {name: tuple(block.shape) for name, block in grammar.blocks.items()}
    {'root': (2,), 'attach': (2, 2, 2), 'stop': (2, 2, 3, 2)}
    >>> words = torch.tensor([[0, 1, 1], [1, 0, -1]])
    >>> derivation = grammar.derivation(grammar.initial_weights(words, "uniform"), words)
    >>> derivation.entropy().exp()  # of 7 trees, and of 2
    tensor([7.0000, 2.0000])
    >>> grammar.heads(derivation.argmax()).shape
    torch.Size([2, 3])

    :param num_tags: V, the size of the alphabet.
    :param widths: where classes begin, in words, greater than 0 and growing; C is one more than their number.
    :param distance_attach: whether the choice of a child depends on the distance, too.
    :raises ValueError: if ``widths`` do not grow from 1 or more.
    :raises TypeError: if they are no integers.
    """

    def __init__(self, num_tags: int, *, widths: Sequence[int] = (1,), distance_attach: bool = False):
        V = check_size("num_tags", num_tags)
        if isinstance(widths, int):
            raise TypeError(f"widths must be a sequence of numbers, such as ({widths},), not {widths}")
        self.widths = tuple(check_size("widths", width) for width in widths)
        if not self.widths or list(self.widths) != sorted(set(self.widths)):
            raise ValueError(f"widths must be one or more growing numbers, not {tuple(widths)}")
        self.distance_attach = distance_attach
        blocks = tree_blocks(V, len(self.widths) + 1, distance_attach)
        super().__init__(blocks, distance_dmv(widths=self.widths, distance_attach=distance_attach), V)

    def __repr__(self) -> str:
        options = ", distance_attach=True" if self.distance_attach else ""
        return f"DistanceDMV({self.num_words}, widths={self.widths}{options})"

    @property
    def axes(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        lows = [0, *self.widths]
        names = [f"{low}-{high - 1}" for low, high in zip(lows, self.widths, strict=False)]
        return tree_axes(self.num_words, {"distance": [*names, f"{lows[-1]}-"]}, self.distance_attach)

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        return {**super().initialisers, "harmonic": harmonic}

    def longest(self, n: int) -> int:
        return 1 + 2 * (n - 1) + 2 * n  # the root; a decision to continue and a child; two decisions to stop

    sample_trees = Grammar._draw

    def _ancestral(self, tables: Sequence[Tensor], draws: Draws) -> tuple[Tensor, Tensor]:
        return expansions.dmv(tables, draws, self.widths)

    def arc_marginals(self, log_weights: Mapping[str, Tensor], words: Tensor) -> Tensor:
        """p(arc | x, w), shape ``(*batch, n+1, n+1)`` [head, dependent]; ROOT is 0.

        :param log_weights: shape ``(*batch, *block.shape)`` by block.
        :param words: shape ``(*batch, n)``, padded with -1.
        """
        counts = self.item_counts(log_weights, words, "attach", "root")
        roots = counts["root"]
        between = counts["attach"].flatten(roots.dim() + 1).sum(-1)
        return torch.cat([roots[..., None, :], between[..., 1:, :]], -2)

    def mbr_heads(self, log_weights: Mapping[str, Tensor], words: Tensor) -> Tensor:
        """The heads of the tree with the most expected right heads, shape ``(*batch, n)``, padded with -1.

        Heads are -1 where no tree is possible.
        """
        with torch.no_grad():
            arcs = self.arc_marginals(log_weights, words)
            trees = ProjectiveDependencyTree(arcs, lengths=lengths_of(words), valence=False, validate_args=False)
            return torch.where(arcs[..., :1, 1:].sum(-1) > 0, trees.argmax(), -1)

    def heads(self, derivations: Tensor) -> Tensor:
        """The heads of words, shape ``(*batch, n)``: 1 .. n, 0 for the root, -1 where there is no word.

        :param derivations: rows of events, shape ``(*batch, L)``; a row of -1 alone is no tree, and has no words.
        :raises ValueError: if a row is no derivation.
        """
        n = (derivations.shape[-1] + 1) // 4
        rows = derivations.reshape(-1, derivations.shape[-1]).tolist()
        trees = [_heads([self.event(x) for x in row if x >= 0]) if row[0] >= 0 else [] for row in rows]
        padded = [[*heads, *[-1] * (n - len(heads))] for heads in trees]
        return torch.tensor(padded, device=derivations.device).reshape(*derivations.shape[:-1], n)


def _heads(row: Sequence[tuple[str, tuple[int, ...]]]) -> list[int]:
    """The heads of the words of a derivation, which come in their order.

    Of a word there are its left half, itself, and its right half. A left half has the farthest child first, with what
    is below it; a right half all choices first, the farthest first, and then the children, the nearest first.
    """
    heads: list[int] = []
    events = [*row[::-1]]

    def coming(block: str, direction: int, decision: int | None = None) -> bool:
        name, index = events[-1] if events else ("nothing", ())
        return name == block and index[1] == direction and decision in (None, index[-1])

    def take(block: str, direction: int, decision: int | None = None) -> None:
        if not coming(block, direction, decision):
            name, index = events[-1] if events else ("nothing", ())
            raise ValueError(
                f"the derivation has {name}{list(index)} after {plural(len(heads), 'word')}, not a {block}"
            )
        events.pop()

    def left() -> int:
        take("stop", LEFT, STOP)
        children = []
        while coming("stop", LEFT, STOP):
            children.append(left())
            take("stop", LEFT, CONTINUE)
            take("attach", LEFT)
            right(children[-1])
        heads.append(0)
        for child in children:
            heads[child - 1] = len(heads)
        return len(heads)

    def right(head: int) -> None:
        take("stop", RIGHT, STOP)
        count = 0
        while coming("stop", RIGHT, CONTINUE):
            take("stop", RIGHT, CONTINUE)
            take("attach", RIGHT)
            count += 1
        for _ in range(count):
            child = left()
            heads[child - 1] = head
            right(child)

    if not events or events.pop()[0] != "root":
        raise ValueError("the derivation does not begin with a root")
    right(left())
    if events:
        raise ValueError(f"the derivation goes on after its last word, word {len(heads)}")
    return heads


def harmonic(grammar: DistanceDMV, words: Tensor, **options: Any) -> Weights:
    """The start of that name of the :class:`.DMV`, which does not tell distances apart but from none.

    :param words: shape ``(N, n)``.
    :param options: those of :func:`.initial.harmonic`.
    """
    near = initial.harmonic(DMV(grammar.num_words), words, **options)
    later = torch.arange(len(grammar.widths) + 1).clamp(max=1)
    attach = near["attach"]
    if grammar.distance_attach:
        attach = attach[:, :, None].expand(grammar.blocks["attach"].shape).clone()
    return {"root": near["root"], "attach": attach, "stop": near["stop"][:, :, later]}
