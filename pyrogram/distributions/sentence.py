# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A sentence of a grammar, its derivations summed out: all of them, or those that agree with evidence."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import torch
from pyro.distributions import TorchDistribution
from pyro.ops.provenance import get_provenance, track_provenance
from torch import Tensor

from pyrogram.checks import broadcast_shapes, check_shape, check_size, fits_compiled
from pyrogram.checks import checked_words as check_words
from pyrogram.grammar import Block, Grammar, TooLong, Weights, check_blocks, is_cut
from pyrogram.grammar import safe_log as safe_log
from pyrogram.operators import LogSum, captured, log_sum, number_of, object_of
from pyrogram.sentences import Evidence, Known, Sentences

from .constraints import PaddedWords
from .partition import unexpanded

_SUM_TOLERANCE = 1e-4  # of a multinomial's sum, as draws have it


class Sentence(TorchDistribution):
    """Sentences of a probabilistic grammar: ``log_prob`` is the inside algorithm.

    A value is a tensor of words, shape ``(n,)``, integers in 0 .. grammar.num_words - 1 padded on the right with
    -1; n may differ from call to call. Use it as an observed site::

        with pyro.plate("sentences", len(words), subsample_size=64) as i:
            pyro.sample("words", Sentence(grammar, weights), obs=words[i])

    ``log_prob(words)`` is the *joint* summed over derivations, log p(x | w) = log sum_y p(x, y | w), in nats. It is
    -inf for a sentence that the grammar cannot generate. Of a weighted grammar (``normalized=False``), whose
    multinomials need not sum to one, it is the log of the total weight, log Z(x; w), which may exceed 0.

    Validation refuses weights that are NaN or negative. Without it, or where they become so in place, they make
    ``log_prob`` NaN for every sentence of that grammar, whether or not the event can occur in it.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a", "a"]])
    >>> Sentence(grammar, {"rules": torch.tensor([0.5, 0.5])}).log_prob(words).exp()
    tensor([0.5000, 0.2500])

    ``sample`` draws ancestrally and needs normalised weights. What becomes of a sentence that exceeds ``max_length``
    words, ``too_long`` says:

    * ``"redraw"``: it is drawn again. So draws are exact for p(x given that x has at most max_length words), but fail
      if hardly any sentence is so short: weights drawn from a prior may well have an infinite expected length;
    * ``"truncate"``: its growth is cut off, and it never fails: the tree of a :class:`.DMV` takes no more words, the
      chain of an :class:`.HMM` ends, and in a :class:`.CFG` (or the trees of :class:`.LatentAnnotations`, whose words
      are nodes) a nonterminal for which the rule that was drawn leaves no room takes the one that comes to the fewest
      words. So the distribution of draws is p(x) only for sentences that are not cut; use it for prior predictive
      checks;
    * ``"raise"``: it is an error, a ``TooLongError``, for callers that throw away more than one sentence: the weights
      that it came from, say.

    **Evidence.** What is known of the derivations of some sentences, or of some words, goes into ``known``. Then
    ``log_prob(words)`` is the joint with it, log p(x, known | w): derivations that agree with the evidence are summed
    out, and where none agrees, it is -inf. So one model is unsupervised, semi-supervised, partly annotated or
    supervised, and a sentence whose whole derivation is known is counted, not parsed. The kinds of evidence, of which
    the first of each grammar may be given as a plain tensor:

    * :class:`.DMV`: ``heads`` ``(*batch, n)``, as in CoNLL, -1 where unknown; ``arc_scores`` ``(*batch, n+1, n+1)``
      [head, dependent], the log of a factor for each arc, -inf for one that is forbidden;
    * :class:`.HMM`: ``states`` ``(*batch, n)``, -1 where unknown; ``state_scores`` ``(*batch, n, K)``;
    * :class:`.CFG`: ``brackets`` ``(*batch, n+1, n+1)`` [i, k], true where words i .. k - 1 are known for a
      constituent, which no constituent of the derivation crosses; ``derivations`` ``(*batch, L)``, -1 where unknown;
    * :class:`.RecursiveGrammar`: ``derivations`` ``(*batch, L)``, and a log factor for each item, or use of an event,
      by its name.

    With log factors other than 0 and -inf, ``log_prob`` is the log of a sum of derivations that are weighted by them.
    ``sample`` ignores evidence: it draws other sentences. ``derivation`` is the posterior given the words and it.

    >>> grammar = pyrogram.DMV(num_tags=2)
    >>> words = torch.tensor([[0, 1, 1], [0, 1, 1]])
    >>> uniform = grammar.initial_weights(words, "uniform")
    >>> known = torch.tensor([[-1, 1, -1], [2, 0, 2]])  # heads: in one sentence that of the second word, in one all
    >>> Sentence(grammar, uniform, known=known).derivation(words).entropy().exp().round()  # of 3 trees, and of 1
    tensor([3., 1.])

    :param grammar: the grammar.
    :param weights: non-negative weights, one tensor ``(*batch, *block.shape)`` for each of ``grammar.blocks``; batch
        dimensions give one grammar per sentence.
    :param log_weights: their logarithms, in place of ``weights``.
    :param known: evidence on derivations, see above; its batch is one of sentences, so in a subsampled plate it is
        ``known[i]``. None: nothing is known.
    :param max_length: longest sentence that ``sample`` returns, at least 1, and so the width of its result.
    :param too_long: what ``sample`` does with longer ones.
    :param normalized: whether the weights must sum to one over each multinomial; False for a weighted grammar.
    :raises ValueError: if a block is missing or has the wrong shape or, with validation, if a weight is negative,
        NaN or infinite, or if a multinomial does not sum to one; or if evidence does not fit.
    :raises NotImplementedError: if the grammar takes no evidence.

    **References:**

    [1] Pereira, F. and Schabes, Y. (1992). Inside-outside reestimation from partially bracketed corpora. ACL.
    https://aclanthology.org/P92-1017/
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        grammar: Grammar,
        weights: Mapping[str, Tensor] | None = None,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
        known: Known | None = None,
        max_length: int = 100,
        too_long: TooLong = "redraw",
        normalized: bool = True,
        validate_args: bool | None = None,
    ):
        if (weights is None) == (log_weights is None):
            raise ValueError("give either weights or log_weights")
        tables = weights if weights is not None else log_weights
        assert tables is not None
        batches = check_blocks(grammar, tables)
        unknown = set(tables) - set(grammar.blocks)
        if unknown:
            raise ValueError(
                f"weights has no use for {sorted(unknown)}; the grammar's blocks are {list(grammar.blocks)}"
            )
        self.grammar = grammar
        self.weights = None if weights is None else dict(weights)
        self._log_weights = None if log_weights is None else dict(log_weights)
        self.max_length = check_size("max_length", max_length)
        self.too_long: TooLong = too_long
        self.normalized = normalized
        is_cut(too_long)  # which refuses other words
        self.known = known
        self._evidence: Evidence | None = None
        is_captured = captured()
        if is_captured:  # the operator looks at evidence when it is run
            batches += [t.shape[: t.dim() - dim] for _, t, dim in self._evidence_tables()]
        else:
            self._evidence = grammar.evidence(known)
        if self._evidence is not None:
            batches.append(self._evidence.batch_shape)
        # broadcasting takes as long as the checks below
        batch = broadcast_shapes(*batches) if any(batches) else torch.Size()
        super().__init__(batch, torch.Size([self.max_length]), validate_args=validate_args)
        if self._validate_args and not is_captured:
            _check_weights(grammar, tables, weights is None, normalized)

    @property
    def log_weights(self) -> Weights:
        """Log weights of every block; the gradient of a weight of zero is zero."""
        if self._log_weights is not None:
            return self._log_weights
        assert self.weights is not None
        return {name: safe_log(w) for name, w in self.weights.items()}

    @property
    def support(self) -> PaddedWords:
        """Padded words of the grammar's alphabet."""
        return PaddedWords(self.grammar.num_words)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Sentence:
        """The same distribution in a larger batch; the weights stay the same tensors."""
        new: Sentence = self._get_checked_instance(Sentence, _instance)
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("_batch_shape", "_validate_args")})
        super(Sentence, new).__init__(torch.Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def with_weights(self, weights: Weights) -> Sentence:
        """The same sentences under other weights, one tensor for each block."""
        new = copy(self)
        new.weights, new._log_weights = dict(weights), None
        return new

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and deep copies, whose weights are values: no graph, and no parameter store, goes along."""
        state = self.__dict__.copy()
        for name in ("weights", "_log_weights"):
            if state[name] is not None:
                state[name] = {block: _value(w) for block, w in state[name].items()}
        if isinstance(self.known, Mapping):
            state["known"] = {kind: _value(t) for kind, t in self.known.items()}
        return state

    def __copy__(self) -> Sentence:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def _validate_sample(self, value: Tensor) -> None:
        # The width of a batch of sentences is that of its longest, whatever event_shape says.
        check_words(value, self.grammar.num_words)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(x, known | w), the derivations summed out, in nats, shape ``broadcast(batch_shape, value.shape[:-1])``.

        Without evidence it is log p(x | w).
        """
        if captured():
            log_z = self._traced_log_prob(value)
        else:
            if self._validate_args or getattr(value, "dtype", None) != torch.int64:  # grammars take integers
                value = check_words(value, self.grammar.num_words)
            log_weights = self.log_weights
            log_z = self.observed_grammar.log_partition(log_weights, self.observed(value))
            if {type(w) for w in log_weights.values()} != {Tensor}:
                upstream = get_provenance(log_weights)  # for pyro.render_model; charts forget it
                log_z = track_provenance(log_z, upstream) if upstream else log_z
        shape = broadcast_shapes(log_z.shape, self.batch_shape) if self.batch_shape else log_z.shape
        return log_z if log_z.shape == shape else log_z.expand(shape)

    def _evidence_tables(self) -> list[tuple[str, Tensor, int]]:
        """Evidence by kind, with how many dimensions are not the batch's."""
        if self.known is None:
            return []
        dims = {} if self.grammar.structure is None else self.grammar.structure.kinds(self.known)
        tables = {next(iter(dims)): self.known} if isinstance(self.known, Tensor) else self.known
        return [(kind, tables[kind], dims[kind]) for kind in tables]

    def _traced_log_prob(self, words: Tensor) -> Tensor:
        """The same, as an operator."""
        evidence = self._evidence_tables()
        kinds = tuple((kind, dim) for kind, _, dim in evidence)
        number = number_of(_log_sum, self.grammar.handle(), kinds, self.normalized, bool(self._validate_args))
        tables = [self.log_weights[name] for name in self.grammar.blocks]
        return log_sum(number, [*tables, *(table for _, table, _ in evidence), words])

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Words drawn ancestrally, padded with -1, shape ``(*sample_shape, *batch_shape, max_length)``."""
        with torch.no_grad():
            weights = self.weights or {name: w.exp() for name, w in self.log_weights.items()}
            shape = check_shape("sample_shape", sample_shape) + self.batch_shape
            if self.too_long == "redraw":  # which a grammar need not know
                return self.grammar.sample(weights, shape, self.max_length)
            return self.grammar.sample(weights, shape, self.max_length, too_long=self.too_long)

    def derivation(self, words: Tensor) -> TorchDistribution:
        """p(y | x, known, w): the derivations of given words that agree with the evidence."""
        if captured() and (self.known is not None or self.grammar.bias.parts):
            raise NotImplementedError("derivations given evidence are not traced; log_prob is")
        if self._validate_args:
            self._validate_sample(words)
        return self.observed_grammar.derivation(None, self.observed(words), log_weights=self.log_weights)

    def observed(self, words: Tensor) -> Tensor | Sentences:
        """Words as methods of :attr:`observed_grammar` take them: with what is known of them, if anything is.

        So a loop may take sentences out, put them in order and repeat them, and evidence goes along.
        """
        if self._evidence is None:
            return words
        sentences = self._evidence.on(words)
        return sentences if bool(sentences.is_informed.any()) else sentences.words

    @property
    def observed_grammar(self) -> Grammar:
        """The grammar of :meth:`observed` sentences, which have the nats of their parts themselves."""
        return self.grammar.without_parts() if self.grammar.bias.parts else self.grammar


def _log_sum(handle: int, kinds: tuple[tuple[str, int], ...], normalized: bool, validate: bool) -> LogSum:
    """``log_prob`` of sentences, from log weights by block, evidence by kind, and words."""
    blocks = object_of(handle).blocks

    def log_prob(*tensors: Tensor) -> Tensor:
        *tables, words = tensors
        evidence = {kind: table for (kind, _), table in zip(kinds, tables[len(blocks) :], strict=True)}
        sentence = Sentence(
            object_of(handle),
            log_weights=dict(zip(blocks, tables, strict=False)),
            known=evidence or None,
            normalized=normalized,
            validate_args=validate,
        )
        return sentence.log_prob(words)

    dims = (*(len(block.shape) for block in blocks.values()), *(dim for _, dim in kinds), 1)
    return LogSum(log_prob, dims)


def _value(weights: Tensor) -> Tensor:
    """Weights without the graph that they come from, if any, and without what Pyro attaches to a ``pyro.param``."""
    if weights.is_leaf and not hasattr(weights, "unconstrained"):
        return weights
    return weights.detach().requires_grad_(weights.is_leaf and weights.requires_grad)


def _are_right(weights: Tensor, block: Block, logarithms: bool, normalized: bool) -> bool:
    """Whether the weights of a block are seen to be; for few numbers, numpy is quicker. Of others torch says more."""
    w = unexpanded(weights, len(block.shape))  # a loop that reads a model expands one grammar over all sentences
    if not fits_compiled(w):
        return False
    values = w.detach().numpy()
    if not (logarithms or values.min(initial=0.0) >= 0):  # as of NaN
        return False
    if not normalized:
        return bool(values.max(initial=-np.inf) < np.inf)
    if logarithms:
        with np.errstate(over="ignore"):
            values = np.exp(values)
    sums = values.sum(-1) if type(block) is Block else block.sums(torch.from_numpy(values)).numpy()
    return bool(np.abs(sums - 1).max(initial=0.0) <= _SUM_TOLERANCE + 10 * np.finfo(values.dtype).eps)


def _check_weights(grammar: Grammar, weights: Mapping[str, Tensor], logarithms: bool, normalized: bool) -> None:
    if all(_are_right(weights[name], block, logarithms, normalized) for name, block in grammar.blocks.items()):
        return
    for name, w in weights.items():
        w = unexpanded(w, 1)
        valid = w < torch.inf if logarithms else (w >= 0) & (w < torch.inf)
        if not bool(valid.all()):
            index = tuple(int(i) for i in (~valid).nonzero()[0])
            kind = "log weights must be less than inf" if logarithms else "weights must be non-negative and finite"
            raise ValueError(f"{kind}, but that of block {name!r} at {index} is {float(w.detach()[index])}")
    if normalized:
        _check_sums(grammar, weights, logarithms)


def _check_sums(grammar: Grammar, weights: Mapping[str, Tensor], logarithms: bool) -> None:
    """Refuse, by name, the first multinomial that does not sum to one."""
    for name, block in grammar.blocks.items():
        w = unexpanded(weights[name].detach(), len(block.shape))
        w = w.to(torch.promote_types(w.dtype, torch.float32))
        sums = block.logsumexp(w).exp() if logarithms else block.sums(w)
        wrong = (sums - 1).abs() > _SUM_TOLERANCE + 10 * torch.finfo(weights[name].dtype).eps
        if bool(wrong.any()):
            index = tuple(int(i) for i in wrong.nonzero()[0])
            batch = index[: w.dim() - len(block.shape)]
            row = index[len(batch) :]
            which = "the multinomial" if not row else f"multinomial {row[0] if len(row) == 1 else row}"
            where = f" at batch index {batch}" if batch else ""
            raise ValueError(
                f"weights must sum to one over each multinomial, but {which} of block {name!r} sums to "
                f"{float(sums[index]):.6g}{where}; make them by the block's normalize or softmax, or say "
                "normalized=False for a weighted grammar"
            )
