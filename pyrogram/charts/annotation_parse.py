# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parsing sentences with an annotated grammar, from coarse to fine.

The base grammar's inside-outside prunes (Charniak et al. 2006; Petrov and Klein 2007): an anchored symbol whose
posterior there is below a threshold is not annotated. Where nothing is left of a sentence, the threshold is lowered by
factors of a thousand and at last to zero: then the annotated grammar is exact. Where its weights of zero forbid every
parse, the base grammar's own is taken.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, Literal

import numpy as np

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream
from pyrogram.charts.runtime.threads import run_workers, take

from .annotation_chart import ParseTables, full_mask, inside, outside, surviving
from .annotation_decode import draw, max_rule, viterbi

Decoder = Literal["max-rule", "max-rule-sum", "viterbi", "sample"]
DECODERS: tuple[Decoder, ...] = ("max-rule", "max-rule-sum", "viterbi", "sample")


def parse(
    words: Any,
    base: ParseTables,
    base_weights: Any,
    fine: ParseTables,
    weights: Any,
    *,
    decoder: Decoder = "max-rule",
    threshold: float = 1e-5,
    seed: int = 0,
) -> tuple[Any, Any, Any]:
    """Parses of sentences.

    :param words: int64, shape ``(B, n)``, padded with -1.
    :param base: the base grammar, every symbol with one subtype.
    :param base_weights: float64, not logarithms; positive, for what they forbid is not looked for.
    :param fine: the annotated grammar, with the same base rules.
    :param threshold: least posterior under the base grammar; 0: no pruning.
    :returns: base rules in leftmost order, shape ``(B, L)``, padded with -1: the base grammar's parse if the fine one
        has none, and all -1 if neither has; log p(x) under the fine grammar, over what was not pruned, -inf if it has
        no parse; and the number of anchored symbols that were annotated.
    """
    words = np.ascontiguousarray(words, np.int64)
    lengths = (words >= 0).sum(1)
    if words.size and words.max() >= len(base.lexical_start) - 1:
        raise ValueError(f"words must be in 0..{len(base.lexical_start) - 2}, then padding of -1")
    n = int(lengths.max(initial=1))
    # Every word has a chain of unary rules above it at most, and so has every pair of neighbours that is joined.
    chain = 1 + len(np.unique(fine.parent[fine.unary]))
    out = np.full((len(words), (2 * n - 1) * chain), -1, np.int64)
    log_z = np.full(len(words), -np.inf)
    kept = np.zeros(len(words), np.int64)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights) if decoder == "viterbi" else np.zeros(0)
    order = np.argsort(-lengths, kind="stable")
    grammars = (base, base_weights), (fine, weights, log_weights)
    how = DECODERS.index(decoder), threshold, seed

    def work(turns: Any) -> None:
        _parse_all(turns, (order, words, lengths), *grammars, how, (out, log_z, kept))

    run_workers(work, cost=float((lengths**3.0).sum()) * 1e3)
    longest = int((out >= 0).sum(1).max(initial=1))
    return out[:, : max(longest, 1)], log_z, kept


@kernel
def _parse_all(turns, sentences, coarse_grammar, fine_grammar, how, results):
    order, words, lengths = sentences
    base, base_weights = coarse_grammar
    fine, weights, log_weights = fine_grammar
    which, threshold, seed = how
    out, log_z, kept = results
    state = np.zeros(1, np.uint64)
    for _ in range(len(order)):
        turn = take(turns)
        if turn >= len(order):
            break
        s = order[turn]
        n = lengths[s]
        if n == 0:
            continue
        sentence = words[s, :n]
        coarse = inside(sentence, full_mask(n, base), base_weights, base)
        if coarse.slot[n, base.start] < 0:
            continue
        posterior = outside(n, coarse, base_weights, base)
        limit = threshold
        while True:
            if limit > 0.0:
                mask = surviving(n, coarse, posterior, limit, base)
            else:
                mask = full_mask(n, fine)
            chart = inside(sentence, mask, weights, fine)
            root = chart.slot[n, fine.start]
            if root >= 0 or limit == 0.0:
                break
            limit = limit * 1e-3 if limit > 1e-15 else 0.0
        if root < 0:  # weights of zero forbid all parses
            max_rule(sentence, coarse, posterior, base_weights, which == 0, base, out[s])
            continue
        kept[s] = len(chart.symbol)
        log_z[s] = chart.log_scale[n] + np.log(chart.inside[root, 0])
        if which < 2:
            above = outside(n, chart, weights, fine)
            max_rule(sentence, chart, above, weights, which == 0, fine, out[s])
        elif which == 2:
            viterbi(sentence, chart, log_weights, fine, out[s])
        else:
            seed_stream(state, seed, s)
            draw(sentence, chart, weights, state, fine, out[s])
