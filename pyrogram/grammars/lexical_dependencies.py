# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Lexicalised dependency trees as sequences of events in contexts (Eisner 1996; Wallach et al. 2008, section 3).

A tagged and cased sentence with its tree is generated from ROOT down. A head generates its children from the
inside out, first to its left, then to its right: for each the tag given head, side and previous sibling on that side,
then the word, then the case; a tag STOP ends the side. ROOT has one child, to its right, and no STOP. So, with
distributions over tags (and STOP), words and cases that sum to one, the probabilities of all sentences with all
projective trees of one root sum to one, but for the mass of generations that do not end, and for what ROOT gives to
STOP, which no sentence uses: with a uniform base measure that is a little.

Nothing here says what the distributions are: :meth:`LexicalDependencies.events` gives contexts and values for
:class:`~pyrogram.distributions.HierarchicalPitmanYor`, and :meth:`~LexicalDependencies.scores` asks for predictive
probabilities.

**References:**

[1] Eisner (1996), "Three New Probabilistic Models for Dependency Parsing: An Exploration",
    https://aclanthology.org/C96-1058
[2] Wallach, Sutton and McCallum (2008), "Bayesian Modeling of Dependency Trees Using Hierarchical Pitman-Yor Priors"
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from pyrogram.restaurants.lexical import events as features
from pyrogram.restaurants.lexical.scores import fill
from pyrogram.trees import has_cycle

from .sibling_tags import TaggedTreeScores

#: The three variables of a child, in the order of generation.
SITES = ("tags", "words", "cases")

#: Table 1 of [2]: what each variable is conditioned on, coarsest context first.
PAPER: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tags": (
        ("parent_tag", "direction"),
        ("parent_tag", "sibling_tag", "direction"),
        ("parent_tag", "parent_word", "parent_case", "sibling_tag", "direction"),
    ),
    "words": (
        ("tag",),
        ("tag", "parent_tag", "direction"),
        ("tag", "parent_tag", "parent_word", "parent_case", "direction"),
    ),
    "cases": (("tag",), ("tag", "word")),
}

_COLUMNS = {
    "parent_tag": features.PARENT_TAG,
    "parent_word": features.PARENT_WORD,
    "parent_case": features.PARENT_CASE,
    "sibling_tag": features.SIBLING_TAG,
    "direction": features.DIRECTION,
    "tag": features.TAG,
    "word": features.WORD,
}
_PARENT = ("parent_tag", "parent_word", "parent_case", "direction")
#: Features that a variable may be conditioned on. The previous sibling is known to tags alone, and cases to tag and
#: word alone: that is what makes the chart second order and takes cases out of it.
_ALLOWED = {"tags": (*_PARENT, "sibling_tag"), "words": ("tag", *_PARENT), "cases": ("tag", "word")}

#: Probabilities of values in contexts: ``predict(keys, values)``, keys of all levels, coarsest first.
Predict = Callable[[tuple[Tensor, ...], Tensor], Tensor]


@dataclass(frozen=True)
class Events:
    """The M events of one variable in the order of generation, sentence after sentence.

    :param keys: contexts, one int64 tensor (M,) for each level, coarsest first.
    :param values: (M,).
    :param starts: where the events of each sentence begin, (N + 1,).
    """

    keys: tuple[Tensor, ...]
    values: Tensor
    starts: Tensor

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class TreeScores:
    """What :class:`~pyrogram.distributions.SiblingDependencyTree` takes, for one sentence of n words.

    :param arcs: (n+1, n+1) [head, dependent]: log probability of the dependent's word.
    :param siblings: (n+1, n+1, n+1) [head, dependent, previous sibling, or the head itself]: of its tag.
    :param stops: (n+1, 2, n+1) [head, direction, last child, or the head itself]: of STOP.
    :param cases: (), of all cases, which no tree changes.
    """

    arcs: Tensor
    siblings: Tensor
    stops: Tensor
    cases: Tensor


class LexicalDependencies:
    """Which events a lexicalised dependency tree consists of, and what its parts score.

    :param num_tags: S. Tag S is STOP among generated tags, ROOT among parents, START among siblings.
    :param num_words: W.
    :param contexts: for each of "tags", "words", "cases" its contexts, coarsest first, as names of features: by default
        Table 1 of [2]. Each context must have all features of the one before it.
    :raises ValueError: for unknown features, and contexts that are not nested.
    """

    def __init__(
        self,
        num_tags: int,
        num_words: int,
        contexts: Mapping[str, Sequence[Sequence[str]]] = PAPER,
        num_cases: int = 4,
    ):
        for name, size in (("num_tags", num_tags), ("num_words", num_words), ("num_cases", num_cases)):
            if size < 1:
                raise ValueError(f"expected {name} to be at least 1, actual {size}.")
        self.num_tags, self.num_words, self.num_cases = num_tags, num_words, num_cases
        if set(contexts) != set(SITES):
            raise ValueError(f"expected contexts of tags, words and cases, actual of {', '.join(contexts) or 'none'}.")
        self.contexts = {site: tuple(tuple(c) for c in contexts[site]) for site in SITES}
        for site in SITES:
            _check_contexts(site, self.contexts[site])
        self.num_values = {"tags": num_tags + 1, "words": num_words, "cases": num_cases}
        """How many values each variable has."""
        self._sizes = {"parent_tag": num_tags + 1, "parent_word": num_words + 1, "parent_case": num_cases + 1}
        self._sizes |= {"sibling_tag": num_tags + 1, "direction": 2, "tag": num_tags, "word": num_words}
        largest = max(math.prod(self._sizes[name] for name in c) for levels in self.contexts.values() for c in levels)
        if largest >= 2**62:
            raise ValueError(f"expected contexts that 62 bits can number, actual {largest} possible ones.")

    @property
    def stop(self) -> int:
        """The number of STOP among generated tags."""
        return self.num_tags

    def __repr__(self) -> str:
        return f"LexicalDependencies({self.num_tags}, {self.num_words})"

    def events(self, tags: Tensor, words: Tensor, cases: Tensor, heads: Tensor) -> dict[str, Events]:
        """The events of sentences with their trees, projective or not.

        For n words there are 3n tags (a child for every word, two STOPs for every word) and n words, in the order of
        generation: heads by position, ROOT first; of each its left children from the inside out, STOP, its right
        children, STOP. The n cases, which do not depend on the tree, come in the order of the sentence.

        :param tags: integers of shape (N, n), or (n,) for one sentence, like all others; padded with -1.
        :param heads: as in CoNLL, one root for each sentence.
        :raises ValueError: if shapes or numbers do not fit, or a tree has a cycle or not exactly one root.
        """
        tables = [t.unsqueeze(0) if t.dim() == 1 else t for t in (tags, words, cases, heads)]
        self.check(*tables)
        return self.events_of(*tables)

    def events_of(self, tags: Tensor, words: Tensor, cases: Tensor, heads: Tensor) -> dict[str, Events]:
        """:meth:`events` of tensors of shape (N, n) that are known to fit."""
        root = torch.tensor([self.num_tags, self.num_words, self.num_cases])
        arrays = [t.detach().cpu().long().contiguous().numpy() for t in (tags, words, cases, heads, root)]
        table, starts = features.tree_features(*arrays)
        children = table[table[:, features.WORD] >= 0]
        leaves = features.word_features(*arrays[:3])
        begins = torch.cat([torch.zeros(1, dtype=torch.long), (tags >= 0).sum(-1).cpu().cumsum(0)])
        return {
            "tags": self._events("tags", table, features.TAG, torch.from_numpy(starts)),
            "words": self._events("words", children, features.WORD, begins),
            "cases": self._events("cases", leaves, features.CASE, begins),
        }

    def _events(self, site: str, table: Any, value: int, starts: Tensor) -> Events:
        # What keys() does, by the value of each digit: torch would wake its threads for every digit.
        keys = tuple(torch.from_numpy(table @ self._digits(context)) for context in self.contexts[site])
        return Events(keys, torch.from_numpy(table[:, value].copy()), starts)

    def _digits(self, context: Sequence[str]) -> Any:
        """What one step in each column of a row adds to the key of a context."""
        digits, scale = torch.zeros(features.NUM_COLUMNS, dtype=torch.long), 1
        for name in reversed(context):
            digits[_COLUMNS[name]] = scale
            scale *= self._sizes[name]
        return digits.numpy()

    def keys(self, site: str, features: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The contexts of a variable as numbers, coarsest first: features in mixed radix.

        :param features: integers by name, of shapes that broadcast; only those that a context names are read.
        """
        keys = []
        for context in self.contexts[site]:
            key = torch.zeros((), dtype=torch.long)
            for name in context:
                key = key * self._sizes[name] + features[name]
            keys.append(key.contiguous())
        return tuple(keys)

    def scores(self, tags: Tensor, words: Tensor, cases: Tensor, predict: Mapping[str, Predict]) -> TreeScores:
        """The scores of all trees of a sentence, in nats: their sum is log P(tags, words, cases, tree).

        That is the product of the probabilities that ``predict`` gives now, which do not learn from event to event.
        Looked up are all tags of the sentence after one another under each head, a few hundred for each word.

        :param tags: shape (n,), as are words and cases; no padding.
        :param predict: probabilities of values in contexts, by "tags", "words", "cases".
        """
        self.check(tags[None], words[None], cases[None])
        N = len(tags) + 1
        shapes = ((N, N), (N, N, N), (N, 2, N))
        arcs, siblings, stops = (torch.zeros(shape, dtype=torch.float64) for shape in shapes)
        constant = self.fill_scores(tags, words, cases, predict, arcs, siblings, stops)
        return TreeScores(arcs, siblings, stops, constant)

    def fill_scores(
        self,
        tags: Tensor,
        words: Tensor,
        cases: Tensor,
        predict: Mapping[str, Predict],
        arcs: Tensor,
        siblings: Tensor,
        stops: Tensor,
    ) -> Tensor:
        """Write :meth:`scores` into tensors that are as large or larger, float64; returns the score of the cases."""
        n, S = len(tags), self.num_tags
        for name, x, least in (
            ("arcs", arcs, (n + 1, n + 1)),
            ("siblings", siblings, (n + 1, n + 1, n + 1)),
            ("stops", stops, (n + 1, 2, n + 1)),
        ):
            if x.dim() != len(least) or any(size < wanted for size, wanted in zip(x.shape, least, strict=True)):
                raise ValueError(f"expected {name} of shape {least} or larger, actual {tuple(x.shape)}.")
        kinds, kind = tags.unique(return_inverse=True)
        K = len(kinds)
        heads = {
            "parent_tag": torch.cat([torch.tensor([S]), tags]),
            "parent_word": torch.cat([torch.tensor([self.num_words]), words]),
            "parent_case": torch.cat([torch.tensor([self.num_cases]), cases]),
        }
        # P(tag or STOP | head, direction, sibling or START): START and STOP are the last of K + 1
        ends = torch.cat([kinds, torch.tensor([S])])
        features = {name: f[:, None, None, None] for name, f in heads.items()}
        features |= {"direction": torch.arange(2)[:, None, None], "sibling_tag": ends[:, None]}
        tag_p = self._look_up(predict, "tags", features, ends, (n + 1, 2, K + 1, K + 1))
        position = torch.arange(n + 1)[:, None]
        features = {name: f[:, None] for name, f in heads.items()}
        features |= {"tag": tags, "direction": (torch.arange(1, n + 1) > position).long()}
        word_p = self._look_up(predict, "words", features, words, (n + 1, n))
        fill(*(t.numpy() for t in (tag_p, word_p, kind, arcs, siblings, stops)))
        return self._look_up(predict, "cases", {"tag": tags, "word": words}, cases, (n,)).log().sum()

    def tagged_scores(self, words: Tensor, cases: Tensor, predict: Mapping[str, Predict]) -> TaggedTreeScores:
        """The scores of all trees with all tags of N sentences: their sum is log P(tags, words, cases, tree).

        As :meth:`scores`, but tags are not given. Looked up are all pairs of tags under each head with each tag, on
        either side: 2 (n+1) S (S+1)^2 of them in a sentence.

        :param words: shape (N, n), padded with -1, as are cases.
        """
        S, position = self.num_tags, torch.arange(words.shape[1] + 1)
        words, cases = words.clamp_min(0), cases.clamp_min(0)
        (B, n), N = words.shape, len(position)
        root = [torch.full((B, 1), x) for x in (self.num_words, self.num_cases)]
        parent_word, parent_case = (torch.cat([r, x], 1) for r, x in zip(root, (words, cases), strict=True))
        parent_tag = torch.where(position[:, None] > 0, torch.arange(S), S)
        ends = torch.arange(S + 1)  # START among siblings, STOP among tags are the last
        features = {"parent_tag": parent_tag[:, None, :, None, None], "direction": torch.arange(2)[:, None, None, None]}
        features |= {"parent_word": parent_word[..., None, None, None, None], "sibling_tag": ends[:, None]}
        features |= {"parent_case": parent_case[..., None, None, None, None]}
        tag_p = self._look_up(predict, "tags", features, ends, (B, N, 2, S, S + 1, S + 1)).log()
        features = {"parent_tag": parent_tag[:, None, :, None], "tag": torch.arange(S)}
        features |= {"direction": (position[1:] > position[:, None]).long()[..., None, None]}
        features |= {
            "parent_word": parent_word[..., None, None, None],
            "parent_case": parent_case[..., None, None, None],
        }
        word_p = self._look_up(predict, "words", features, words[:, None, :, None, None], (B, N, n, S, S)).log()
        features = {"tag": torch.arange(S), "word": words[..., None]}
        case_p = self._look_up(predict, "cases", features, cases[..., None], (B, n, S)).log()
        return TaggedTreeScores(
            arcs=pad(word_p, (0, 0, 0, 0, 1, 0)),
            firsts=tag_p[..., S, :S].contiguous(),
            nexts=tag_p[..., :S, :S].contiguous(),
            childless=tag_p[..., S, S].contiguous(),
            stops=tag_p[..., :S, S].contiguous(),
            leaves=pad(case_p, (0, 0, 1, 0)),
        )

    def _look_up(
        self,
        predict: Mapping[str, Predict],
        site: str,
        features: Mapping[str, Tensor],
        values: Tensor,
        shape: Sequence[int],
    ) -> Tensor:
        keys = tuple(k.expand(shape).reshape(-1) for k in self.keys(site, features))
        return predict[site](keys, values.expand(shape).reshape(-1)).reshape(tuple(shape))

    def check(self, tags: Tensor, words: Tensor, cases: Tensor, heads: Tensor | None = None) -> None:
        """
        :raises ValueError: if they are no sentences, shape (N, n), of this grammar's tags, words and cases.
        """
        shape = tuple(tags.shape)
        sizes = (("tags", tags, self.num_tags), ("words", words, self.num_words), ("cases", cases, self.num_cases))
        inside = tags >= 0
        if tags.dim() != 2 or not bool((inside.long().diff(dim=-1) <= 0).all()):
            raise ValueError(f"expected tags of shape (N, n) with -1 as padding on the right only, actual {shape}.")
        for name, ids, size in sizes:
            if ids.shape != tags.shape or not torch.equal(ids >= 0, inside) or bool((ids >= size).any()):
                raise ValueError(
                    f"expected {name} from 0 to {size - 1} and -1 as padding where tags have it, shape {shape}, actual "
                    f"others in shape {tuple(ids.shape)}."
                )
        if heads is None:
            return
        if heads.shape != tags.shape or not torch.equal(heads >= 0, inside):
            raise ValueError(f"expected heads of shape {shape} padded like tags, actual {tuple(heads.shape)}.")
        roots = ((heads == 0) & inside).sum(-1)
        loops = heads == torch.arange(1, heads.shape[-1] + 1)
        wrong = ((roots != 1) & inside.any(-1)) | ((heads > inside.sum(-1, keepdim=True)) | loops).any(-1)
        if not bool(wrong.any()):
            wrong = has_cycle(heads)
        if bool(wrong.any()):
            i = int(wrong.nonzero()[0])
            raise ValueError(
                "expected heads of other words, from 0 to the number of words, without cycles, and one root for each "
                f"sentence, actual {heads[i].tolist()} in sentence {i}."
            )


def _check_contexts(site: str, contexts: tuple[tuple[str, ...], ...]) -> None:
    if not contexts:
        raise ValueError(f"expected at least one context of {site}, actual none.")
    before: set[str] = set()
    for context in contexts:
        unknown = [name for name in context if name not in _ALLOWED[site]]
        if unknown or len(set(context)) != len(context):
            allowed = ", ".join(_ALLOWED[site])
            raise ValueError(f"expected contexts of {site} from {allowed}, each once, actual {', '.join(context)}.")
        if not before <= set(context):
            missing = ", ".join(sorted(before - set(context)))
            raise ValueError(
                f"expected contexts of {site} that add features to the one before, actual without {missing}."
            )
        before = set(context)
