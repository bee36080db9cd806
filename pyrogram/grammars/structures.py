# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What derivations are: heads of words, states of words, leftmost rows of rules, rows of events.

Each :class:`.Structure` says what can be known of such derivations (of brackets: Pereira and Schabes 1992), which
factors of parts that comes to, and which events they have.

**References:**

[1] Pereira, F. and Schabes, Y. (1992). Inside-outside reestimation from partially bracketed corpora. ACL.
https://aclanthology.org/P92-1017/
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.distributions.constraints import LeftmostDerivations, RecursiveDerivations, States
from pyrogram.distributions.known_derivation import KnownDerivation
from pyrogram.distributions.leftmost_spans import has_spans
from pyrogram.distributions.state_sequence import state_events
from pyrogram.event_map import first_events
from pyrogram.printable import plural
from pyrogram.sentences import Known, Sentences, Structure
from pyrogram.sweeps.plain import check_trees, parts_of
from pyrogram.trees import check_heads, is_tree, lengths_of

from .cfg_rules import longest

if TYPE_CHECKING:
    from .cfg import CFG
    from .dmv import DMV
    from .hmm import HMM
    from .recursive import RecursiveGrammar


class ChoiceStructure(Structure):
    """A derivation is a choice for each word, such as its head: known ones, and scores of all choices, are evidence."""

    #: The kind of evidence that is logs of factors of choices.
    scores: str
    #: The name of factors of choices.
    part: str

    @abstractmethod
    def num_choices(self, n: int) -> int:
        """How many choices a word of n has."""

    def by_choice(self, scores: Tensor) -> Tensor:
        """Scores as shape ``(*batch, n, choices)``."""
        return scores

    def by_part(self, scores: Tensor) -> Tensor:
        """The inverse of :meth:`by_choice`."""
        return scores

    def kinds(self, known: Known) -> Mapping[str, int]:
        return {self.derivation: 1, self.scores: 2}

    def checked(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        known, scores, checked = tables.get(self.derivation), tables.get(self.scores), dict(tables)
        if known is not None:
            if known.is_floating_point() or known.is_complex() or known.dtype == torch.bool:
                raise ValueError(f"known {self.derivation} must be integers, not {known.dtype}")
            checked[self.derivation] = known.long()
        if scores is not None:
            shape, wanted = scores.shape[-2:], self.shape_of_scores(scores)
            if shape != wanted or (known is not None and known.shape[-1] != self.num_positions({self.scores: scores})):
                shapes = " and ".join(f"{kind} {tuple(t.shape[-dim:])}" for (kind, dim), t in self._dims(tables))
                raise ValueError(
                    f"known {self.derivation} and {self.scores} must have shapes (..., n) and {self.shape_in_words}, "
                    f"not {shapes}"
                )
            if not scores.is_floating_point() or not bool((scores < torch.inf).all()):
                raise ValueError(f"known {self.scores} must be real numbers or -inf, but some are not")
        return checked

    def _dims(self, tables: Mapping[str, Tensor]) -> list[tuple[tuple[str, int], Tensor]]:
        return [((kind, dim), tables[kind]) for kind, dim in self.kinds(tables).items() if kind in tables]

    @abstractmethod
    def shape_of_scores(self, scores: Tensor) -> torch.Size:
        """The shape that scores of one sentence of as many positions must have."""

    #: The same, for messages.
    shape_in_words: str

    def factors(self, sentences: Sentences) -> dict[str, Tensor]:
        return {self.part: self.by_part(self._logs(sentences))}

    def _logs(self, sentences: Sentences) -> Tensor:
        """Logs of factors of choices, shape ``(*batch, n, choices)``."""
        known, scores = sentences.derivations[..., None], sentences.known.get(self.scores)
        others = (known >= 0) & (known != torch.arange(self.num_choices(known.shape[-2]), device=known.device))
        if scores is None:
            logs = torch.zeros(others.shape, dtype=torch.float64, device=known.device)
        else:
            logs = self.by_choice(scores)
        return logs.masked_fill(others, -torch.inf)

    def is_whole(self, sentences: Sentences) -> Tensor:
        return (sentences.derivations >= 0).sum(-1) == lengths_of(sentences.words)

    def log_factors(self, sentences: Sentences, derivations: Tensor) -> Tensor:
        chosen = self._logs(sentences).gather(-1, derivations.clamp_min(0)[..., None])[..., 0]
        total = torch.where(derivations >= 0, chosen, 0.0).sum(-1)
        return torch.where(self.fits(sentences.words, derivations), total, -torch.inf)

    @abstractmethod
    def fits(self, words: Tensor, derivations: Tensor) -> Tensor:
        """Which ones are derivations of the words, bool, shape ``(N,)``."""

    def add_parts(self, total: Tensor | None, words: Tensor, derivations: Tensor) -> Tensor:
        if total is None:
            choices = self.num_choices(derivations.shape[1])
            total = self.by_part(torch.zeros(*derivations.shape, choices, dtype=torch.float32, device=words.device))
        sentence, word = (derivations >= 0).nonzero(as_tuple=True)
        self.by_choice(total)[sentence, word, derivations[sentence, word]] += 1  # a view
        return total


class Heads(ChoiceStructure):
    """Trees of the :class:`.DMV`, as heads of words.

    Evidence is ``heads`` ``(*batch, n)``, -1 where unknown, and ``arc_scores`` ``(*batch, n+1, n+1)`` [head,
    dependent], the logs of factors of arcs, -inf for what is forbidden.
    """

    derivation, scores, part, shape_in_words = "heads", "arc_scores", "arc_scores", "(..., n+1, n+1)"

    def __init__(self, grammar: DMV) -> None:
        self.grammar = grammar

    def num_choices(self, n: int) -> int:
        return n + 1

    def by_choice(self, scores: Tensor) -> Tensor:
        return scores[..., 1:].mT

    def by_part(self, scores: Tensor) -> Tensor:
        return torch.nn.functional.pad(scores.mT, (1, 0))

    def shape_of_scores(self, scores: Tensor) -> torch.Size:
        return torch.Size([scores.shape[-1]] * 2)

    def num_positions(self, tables: Mapping[str, Tensor]) -> int:
        return tables["heads"].shape[-1] if "heads" in tables else tables["arc_scores"].shape[-1] - 1

    def check_words(self, words: Tensor, tables: Mapping[str, Tensor]) -> None:
        if "heads" not in tables:
            return
        heads, length = tables["heads"], lengths_of(words)[..., None]
        fits = torch.where(words >= 0, (heads >= -1) & (heads <= length), heads == -1).all(-1)
        if not bool(fits.all()):
            first = int((~fits).flatten().nonzero()[0])
            row = heads.reshape(-1, heads.shape[-1])[first].tolist()
            raise ValueError(
                f"known heads must be 0 to the number of words, or -1 where unknown and in the padding, but those "
                f"of sentence {first} are {row}"
            )

    def fits(self, words: Tensor, derivations: Tensor) -> Tensor:
        return is_tree(derivations) & (lengths_of(derivations) == lengths_of(words))

    def log_factors(self, sentences: Sentences, derivations: Tensor) -> Tensor:
        logs, constant = super().log_factors(sentences, derivations), self.log_constants(sentences.words, derivations)
        return logs if constant is None else logs + constant

    def log_constants(self, words: Tensor, derivations: Tensor) -> Tensor | None:
        arcs = self.grammar.log_parts(words)
        if arcs is None:
            return None
        chosen = self.by_choice(arcs).gather(-1, derivations.clamp_min(0)[..., None])[..., 0]
        return torch.where(derivations >= 0, chosen, 0.0).sum(-1)

    # ------------------------------------------------------------------ events

    def num_events(self, n: int) -> int:
        return 4 * n

    def check_derivations(self, words: Tensor, derivations: Tensor) -> None:
        check_trees(derivations, words.shape)
        check_heads(derivations, lengths_of(words))

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        heads = np.ascontiguousarray(derivations.cpu().numpy())
        return torch.from_numpy(self.grammar.rows_of(words.cpu().numpy(), heads)).to(words.device)

    def positions(self, n: int) -> dict[str, tuple[int, ...]]:
        return {"root": (0, 1), "attach": (n, n, 0, 0, 1) if self.grammar.valence_attach else (n, n, 0, 1)}

    def replace(self, derivations: Tensor, events: Any, positions: Any, accepted: Any) -> None:
        tree, place = ((positions >= 0) & accepted[:, None]).nonzero()
        head, child = np.divmod(positions[tree, place], derivations.shape[1])
        derivations.numpy()[tree, child] = head


class StateStructure(ChoiceStructure):
    """State sequences of the :class:`.HMM`.

    Evidence is ``states`` ``(*batch, n)``, -1 where unknown, and ``state_scores`` ``(*batch, n, K)``, the logs of
    factors of states, -inf for what is forbidden.
    """

    derivation, scores, part = "states", "state_scores", "F"

    def __init__(self, grammar: HMM) -> None:
        self.grammar = grammar
        self.shape_in_words = f"(..., n, {grammar.num_states})"

    def num_choices(self, n: int) -> int:
        return self.grammar.num_states

    def factors(self, sentences: Sentences) -> dict[str, Tensor]:
        logs = self._logs(sentences)
        return {self.part: torch.nn.functional.pad(logs, (0, 0, 1, 0))}  # words are positions from 1 on

    def shape_of_scores(self, scores: Tensor) -> torch.Size:
        return torch.Size([scores.shape[-2], self.grammar.num_states])

    def num_positions(self, tables: Mapping[str, Tensor]) -> int:
        return tables["states"].shape[-1] if "states" in tables else tables["state_scores"].shape[-2]

    def checked(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        checked, K = super().checked(tables), self.grammar.num_states
        if "states" in checked and not bool(((checked["states"] >= -1) & (checked["states"] < K)).all()):
            raise ValueError(f"known states must be 0 to {K - 1}, or -1 where unknown, but some are not")
        return checked

    def check_words(self, words: Tensor, tables: Mapping[str, Tensor]) -> None:
        if "states" in tables:
            states = tables["states"]
            beyond = ((words < 0) & (states >= 0)).any(-1)
            if bool(beyond.any()):
                first = int(beyond.flatten().nonzero()[0])
                row = states.reshape(-1, states.shape[-1])[first].tolist()
                raise ValueError(f"known states must be -1 in the padding, but those of sentence {first} are {row}")

    def fits(self, words: Tensor, derivations: Tensor) -> Tensor:
        return States(lengths_of(words), self.grammar.num_states).check(derivations)

    # ------------------------------------------------------------------ events

    def num_events(self, n: int) -> int:
        return 2 * n + 1

    def check_derivations(self, words: Tensor, derivations: Tensor) -> None:
        check_trees(derivations, words.shape)
        if not bool(self.fits(words, derivations).all()):
            raise ValueError(f"trees must be states, 0 to {self.grammar.num_states - 1} for every word, and then -1")

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        events = state_events(words, derivations, self.grammar.num_states, self.grammar.num_words)
        firsts = first_events(self.grammar.blocks)
        initial, transition, emission = (torch.where(x < 0, -1, x + firsts[name]) for name, x in events.items())
        return torch.cat([initial, torch.stack([emission, transition], -1).flatten(1)], 1)

    def replace(self, derivations: Tensor, events: Any, positions: Any, accepted: Any) -> None:
        first, moved = first_events(self.grammar.blocks)["emission"], accepted[:, None]
        backwards = derivations.numpy()[:, ::-1]  # as emissions are: the last word's comes first
        backwards[(backwards >= 0) & moved] = (events[(events >= first) & moved] - first) // self.grammar.num_words


class RowStructure(Structure):
    """A derivation is a row of events. That a row is known is no matter of factors of its parts."""

    derivation = "derivations"
    is_by_row = True
    #: What messages call events.
    event_name = "event"

    #: Whose derivations they are.
    grammar: Any

    @abstractmethod
    def event_count(self) -> int:
        """How many events the grammar has."""

    def checked(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        known, checked, E = tables.get("derivations"), dict(tables), self.event_count()
        if known is not None:
            if known.is_floating_point() or known.is_complex() or known.dtype == torch.bool:
                raise ValueError(f"known derivations must be integers, not {known.dtype}")
            checked["derivations"] = known = known.long()
            if not bool(((known >= -1) & (known < E)).all()):
                raise ValueError(
                    f"known derivations must be {self.event_name}s 0 to {E - 1}, and -1 where unknown, but some are not"
                )
        return checked

    def check_words(self, words: Tensor, tables: Mapping[str, Tensor]) -> None:
        L = self.length(words.shape[-1])
        if "derivations" in tables and bool((tables["derivations"][..., L:] >= 0).any()):
            raise ValueError(
                f"known derivations must have at most {plural(L, self.event_name)}, as derivations of such words do"
            )

    def law(self, derivation: Any, sentences: Sentences) -> Any:
        if not bool(sentences.is_whole.any()):
            return derivation
        return KnownDerivation(derivation, sentences.derivations, sentences.log_factors > -torch.inf)

    def num_events(self, n: int) -> int:
        return self.length(n)

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        return derivations

    def add_parts(self, total: Tensor | None, words: Tensor, derivations: Tensor) -> Tensor:
        counts = parts_of(self.grammar, words, derivations).to(torch.float32)
        return counts if total is None else total.add_(counts)

    def replace(self, derivations: Tensor, events: Any, positions: Any, accepted: Any) -> None:
        order = np.argsort(events < 0, axis=1, kind="stable")[:, : derivations.shape[1]]
        derivations.numpy()[accepted] = np.take_along_axis(events, order, 1)[accepted]


class Rules(RowStructure):
    """Leftmost derivations of a :class:`.CFG`, as rows of rules.

    Evidence is ``brackets`` ``(*batch, n+1, n+1)`` [i, k], true where no constituent may cross the words i .. k - 1,
    and ``derivations`` ``(*batch, L)``, rows of -1 where unknown.
    """

    event_name = "rule"
    grammar: CFG

    def __init__(self, grammar: CFG) -> None:
        self.grammar = grammar

    def kinds(self, known: Known) -> Mapping[str, int]:
        return {"brackets": 2, "derivations": 1}

    def event_count(self) -> int:
        return len(self.grammar.rules)

    def checked(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        brackets = tables.get("brackets")
        if brackets is not None:
            if brackets.shape[-1] != brackets.shape[-2] or not bool(((brackets == 0) | (brackets == 1)).all()):
                raise ValueError(
                    f"known brackets must be true or false, of shape (..., n+1, n+1), not {brackets.dtype} of shape "
                    f"(..., {', '.join(map(str, brackets.shape[-2:]))})"
                )
            if bool(brackets.bool().tril().any()):
                raise ValueError("known brackets must begin before they end: brackets[i, k] is about words i .. k - 1")
            tables = {**tables, "brackets": brackets.bool()}
        return super().checked(tables)

    def num_positions(self, tables: Mapping[str, Tensor]) -> int | None:
        return tables["brackets"].shape[-1] - 1 if "brackets" in tables else None

    def check_words(self, words: Tensor, tables: Mapping[str, Tensor]) -> None:
        if "brackets" in tables:
            ends = tables["brackets"].any(-2)  # where a bracket of the sentence ends
            beyond = (ends[..., 1:] & (words < 0)).any(-1)
            if bool(beyond.any()):
                first = int(beyond.flatten().nonzero()[0])
                raise ValueError(
                    f"known brackets must lie inside of their sentence, but one of sentence {first} does not"
                )
        super().check_words(words, tables)

    def factors(self, sentences: Sentences) -> dict[str, Tensor]:
        """The spans [i, k] that cross a known bracket [a, b], bool: a < i < b < k or i < a < k < b."""
        if "brackets" not in sentences.known:
            return {}
        brackets = sentences.known["brackets"].cpu()
        N = brackets.shape[-1]
        before = torch.zeros(*brackets.shape[:-2], N + 1, N + 1, dtype=torch.int64)
        before[..., 1:, 1:] = brackets.long().cumsum(-2).cumsum(-1)  # brackets [a, b] with a < x and b < y, at [x, y]
        i, k = torch.arange(N)[:, None].expand(N, N), torch.arange(N)[None].expand(N, N)
        opened = before[..., i, k] - before[..., i, i + 1]  # a < i, i < b < k
        closed = before[..., k, N] - before[..., k, k + 1] - before[..., i + 1, N] + before[..., i + 1, k + 1]
        return {"crossing": ((opened > 0) | (closed > 0)) & (i < k)}  # closed: i < a < k < b

    def log_factors(self, sentences: Sentences, derivations: Tensor) -> Tensor:
        flat = self.grammar.flat
        fits = LeftmostDerivations(flat, sentences.words).check(derivations)
        if "crossing" in sentences.factors:
            rows, S = fits.cpu().nonzero()[:, 0], len(self.grammar.nonterminals)
            crossing = has_spans(derivations[rows].cpu(), sentences.factors["crossing"][rows], flat, S)
            fits[rows[crossing]] = False
        return torch.where(fits, 0.0, -torch.inf).double()

    # ------------------------------------------------------------------ events

    def length(self, n: int) -> int:
        return longest(self.grammar.table, n)

    def num_events(self, n: int) -> int:
        return longest(self.grammar.table, n, with_silent=True)

    def check_derivations(self, words: Tensor, derivations: Tensor) -> None:
        check_trees(derivations, (len(words), self.length(words.shape[-1])))
        if not bool(LeftmostDerivations(self.grammar.flat, words).check(derivations).all()):
            raise ValueError("trees must be leftmost derivations of the sentences, padded with -1, but some are not")


class Rows(RowStructure):
    """Derivations of a :class:`.RecursiveGrammar`, as rows of events.

    Evidence is ``derivations`` ``(*batch, L)``, rows of -1 where unknown; and logs of factors of items, or of uses of
    events of a block, by name, shape ``(*batch, n+1, ..., *sizes)``.
    """

    grammar: RecursiveGrammar

    def __init__(self, grammar: RecursiveGrammar) -> None:
        self.grammar = grammar

    def kinds(self, known: Known) -> Mapping[str, int]:
        names = [name for name in known if name != "derivations"] if isinstance(known, Mapping) else []
        return {"derivations": 1, **{name: self.grammar.num_axes(name) for name in names}}

    def event_count(self) -> int:
        return self.grammar.num_events

    def checked(self, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        checked, dims = super().checked(tables), self.kinds(tables)
        for name, scores in checked.items():
            if name == "derivations":
                continue
            if not scores.is_floating_point() or not bool((scores < torch.inf).all()):
                raise ValueError(f"known factors of {name} must be real numbers or -inf, but some are not")
            if "derivations" in checked:
                both = (scores != 0).flatten(scores.dim() - dims[name]).any(-1) & (checked["derivations"] >= 0).any(-1)
                if bool(both.any()):
                    first = int(both.flatten().nonzero()[0])
                    raise ValueError(
                        f"known must be a derivation or factors of {name} for each sentence, but is both for {first}"
                    )
        return checked

    def factors(self, sentences: Sentences) -> dict[str, Tensor]:
        return {name: table for name, table in sentences.known.items() if name != "derivations"}

    def log_factors(self, sentences: Sentences, derivations: Tensor) -> Tensor:
        fits = RecursiveDerivations(self.grammar.traces, sentences.words).check(derivations)
        total = torch.where(fits, 0.0, -torch.inf).double()
        subset = sentences[fits]
        for name, counts in self.grammar.items_of(subset.words, derivations[fits], subset.factors).items():
            terms = torch.where(counts > 0, counts * subset.factors[name].to(counts), 0.0)
            total[fits] += terms.flatten(1).sum(1)
        return total

    # ------------------------------------------------------------------ events

    def length(self, n: int) -> int:
        return self.grammar.longest(n)

    def check_derivations(self, words: Tensor, derivations: Tensor) -> None:
        E = self.grammar.num_events
        if bool(((derivations < -1) | (derivations >= E)).any()):
            raise ValueError(f"trees must be rows of events, 0 to {E - 1}, padded with -1, but some are not")
        elements = self.grammar.events.to_elements(derivations.numpy())
        if bool((elements < np.minimum(derivations.numpy(), 0)).any()):
            raise ValueError("trees must be rows of events of the recursion, but some have an event that no rule has")
