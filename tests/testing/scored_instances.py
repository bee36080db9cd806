# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Structures of scored parts for the battery, listed by plain loops."""

import itertools

import torch

from pyrogram.distributions import HigherOrderChain, Segmentation, SpanTree
from pyrogram.testing import DistributionCase


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def indicators(values: torch.Tensor, L: int) -> torch.Tensor:
    """Ones at the labels of cells (T, *cells, L)."""
    return torch.nn.functional.one_hot(values + 1, L + 1)[..., 1:].double()


def padded(singles: list[DistributionCase], make, parts, batched: tuple[str, ...]) -> DistributionCase:
    """Sentences of several lengths as one batch; other scores are shared by all."""
    log_weights = {}
    for name in batched:
        tables = [single.log_weights[name] for single in singles]
        shape = [max(sizes) for sizes in zip(*(t.shape for t in tables), strict=True)]
        log_weights[name] = random(len(tables), *shape, seed=9)
        for b, table in enumerate(tables):
            log_weights[name][b][tuple(map(slice, table.shape))] = table
    return DistributionCase(make, log_weights, parts, singles=singles)


# ---------------------------------------------------------------------- trees of spans


def trees(i: int, j: int, binary: bool):
    """All trees over the fence posts i .. j, as sets of spans."""
    if j == i + 1:
        yield {(i, j)}
        return
    for cuts in itertools.chain.from_iterable(itertools.combinations(range(i + 1, j), r) for r in range(1, j - i)):
        if binary and len(cuts) > 1:
            continue
        posts = (i, *cuts, j)
        for children in itertools.product(*(list(trees(a, b, binary)) for a, b in itertools.pairwise(posts))):
            yield {(i, j)}.union(*children)


def tables_of_trees(n: int, L: int, binary: bool) -> torch.Tensor:
    rows = []
    for tree in trees(0, n, binary):
        for labels in itertools.product(range(L), repeat=len(tree)):
            value = torch.full((n, n + 1), -1)
            for (i, j), label in zip(sorted(tree), labels, strict=True):
                value[i, j] = label
            rows.append(value)
    return torch.stack(rows)


def span_case(n, L=None, *, binary=True, forbidden=False, invalid=None, seed=0) -> DistributionCase:
    scores = random(n, n + 1, *([] if L is None else [L]), seed=seed)
    if forbidden:
        scores[0, 2] = scores[0, 1, ..., :1] = -torch.inf if L is not None else 0.3
    labelled, number = L is not None, L or 1

    def counts(values):
        ones = indicators(values.long(), number)
        return {"span": ones if labelled else ones[..., 0]}

    return DistributionCase(
        lambda w: SpanTree(w["span"], binary=binary, labelled=labelled),
        {"span": scores},
        lambda values: counts(values)["span"],
        invalid={what: torch.tensor(rows) for what, rows in (invalid or {}).items()},
        support=tables_of_trees(n, number, binary),
        counts=counts,
        mbr_minds_wrong_parts=True,
        rivals=[
            lambda: SpanTree(torch.zeros(3, 4), binary=not binary),
            lambda: SpanTree(torch.zeros(2, 3, 4, 2), torch.tensor([1, 3])),
        ],
    )


def padded_spans(lengths, L=None, *, binary=True) -> DistributionCase:
    singles = [span_case(m, L, binary=binary, seed=b) for b, m in enumerate(lengths)]

    def make(w):
        return SpanTree(w["span"], torch.tensor(lengths), binary=binary, labelled=L is not None)

    return padded(singles, make, singles[0].parts, ("span",))


INVALID_SPANS = {
    "crossing constituents": [[-1, 0, 0, 0], [-1, -1, 0, 0], [-1, -1, -1, 0]],
    "no constituent of a word": [[-1, -1, 0, 0], [-1, -1, 0, -1], [-1, -1, -1, 0]],
    "no constituent of the sentence": [[-1, 0, 0, -1], [-1, -1, 0, -1], [-1, -1, -1, 0]],
    "a span that ends before it begins": [[-1, 0, 0, 0], [-1, 0, 0, -1], [-1, -1, -1, 0]],
    "a label that does not exist": [[-1, 0, 0, 1], [-1, -1, 0, -1], [-1, -1, -1, 0]],
    "a label below -1": [[-2, 0, 0, 0], [-1, -1, 0, -1], [-1, -1, -1, 0]],
}
TERNARY = {"three children": [[-1, 0, -1, 0], [-1, -1, 0, -1], [-1, -1, -1, 0]]}

# ---------------------------------------------------------------------- segmentations


def tables_of_segments(n: int, W: int, L: int) -> torch.Tensor:
    rows = []
    for r in range(n):
        for cuts in itertools.combinations(range(1, n), r):
            posts = (0, *cuts, n)
            pieces = list(itertools.pairwise(posts))
            if any(b - a > W for a, b in pieces):
                continue
            for labels in itertools.product(range(L), repeat=len(pieces)):
                value = torch.full((n, W), -1)
                for (a, b), label in zip(pieces, labels, strict=True):
                    value[a, b - a - 1] = label
                rows.append(value)
    return torch.stack(rows)


def pairs_of_labels(values: torch.Tensor, L: int) -> torch.Tensor:
    """How often labels follow each other, (*batch, L, L)."""
    flat = values.long().reshape(-1, *values.shape[-2:])
    found = torch.zeros(len(flat), L, L, dtype=torch.float64)
    for t, table in enumerate(flat.tolist()):
        labels = [max(row) for row in table if max(row) >= 0]
        for a, b in itertools.pairwise(labels):
            found[t, a, b] += 1
    return found.reshape(*values.shape[:-2], L, L)


def segment_case(n, W, L=None, *, pairs=False, forbidden=False, invalid=None, seed=0) -> DistributionCase:
    log_weights = {"segment": random(n, W, *([] if L is None else [L]), seed=seed)}
    if pairs:
        log_weights["transition"] = random(L, L, seed=seed + 100)
    if forbidden:
        log_weights["segment"][1, 0] = -torch.inf
        if pairs:
            log_weights["transition"][0, 1] = -torch.inf
    number = L or 1

    def counts(values):
        ones = indicators(values.long(), number)
        found = {"segment": ones if L is not None else ones[..., 0]}
        return found | ({"transition": pairs_of_labels(values, number)} if pairs else {})

    return DistributionCase(
        lambda w: Segmentation(w["segment"], w.get("transition"), labelled=L is not None),
        log_weights,
        lambda values: counts(values)["segment"],
        invalid={what: torch.tensor(rows) for what, rows in (invalid or {}).items()},
        support=tables_of_segments(n, W, number),
        counts=counts,
        mbr_minds_wrong_parts=True,
        rivals=[
            lambda: Segmentation(torch.zeros(n, W + 1)),
            lambda: Segmentation(torch.zeros(2, n, W, 2), torch.zeros(2, 2), torch.tensor([1, n])),
        ],
    )


def padded_segments(lengths, W, L=None, *, pairs=False) -> DistributionCase:
    singles = [segment_case(m, W, L, pairs=pairs, seed=b) for b, m in enumerate(lengths)]

    def make(w):
        return Segmentation(w["segment"], w.get("transition"), torch.tensor(lengths), labelled=L is not None)

    return padded(singles, make, singles[0].parts, ("segment", "transition") if pairs else ("segment",))


INVALID_SEGMENTS = {
    "a gap": [[0, -1], [-1, -1], [0, -1]],
    "overlapping segments": [[-1, 0], [-1, 0], [-1, -1]],
    "a segment beyond the sentence": [[-1, 0], [-1, -1], [-1, 0]],
    "two segments at a word": [[0, 0], [-1, -1], [0, -1]],
    "a label that does not exist": [[-1, 2], [-1, -1], [0, -1]],
    "a label below -1": [[0, -2], [0, -1], [0, -1]],
}

# ---------------------------------------------------------------------- chains


def chain_case(n, K, m, *, shared=False, forbidden=False, invalid=None, seed=0) -> DistributionCase:
    in_a_row = [*[K + 1] * m, K]
    log_weights = {"state": random(n, *([K] if shared else in_a_row), seed=seed)}
    if shared:
        log_weights["transition"] = random(*in_a_row, seed=seed + 100)
    if forbidden:
        last = log_weights["transition" if shared else "state"]
        first = () if shared else (min(1, n - 1),)
        last[(*first, *[K] * (m - 1), 0, 1)] = -torch.inf
        log_weights["state"][n - 1, ..., 0] = -torch.inf

    def counts(values):
        flat = values.long().reshape(-1, values.shape[-1])
        found = {name: torch.zeros(len(flat), *w.shape, dtype=torch.float64) for name, w in log_weights.items()}
        for row, states in enumerate(flat.tolist()):
            for t, state in enumerate(states):
                before = [states[s] if s >= 0 else K for s in range(t - m, t)]
                if shared:
                    found["state"][row, t, state] = 1
                    found["transition"][(row, *before, state)] += 1
                else:
                    found["state"][(row, t, *before, state)] = 1
        return {name: c.reshape(*values.shape[:-1], *c.shape[1:]) for name, c in found.items()}

    return DistributionCase(
        lambda w: HigherOrderChain(w["state"], w.get("transition"), order=m),
        log_weights,
        lambda values: indicators(values.long(), K),
        invalid={what: torch.tensor(rows) for what, rows in (invalid or {}).items()},
        support=torch.tensor(list(itertools.product(range(K), repeat=n))),
        counts=counts,
        rivals=[
            lambda: HigherOrderChain(torch.zeros(n, *[K + 1] * (m + 1), K), order=m + 1),
            lambda: HigherOrderChain(torch.zeros(n, K), torch.zeros(in_a_row), order=m),
        ],
    )


def padded_chains(lengths, K, m, shared=False) -> DistributionCase:
    singles = [chain_case(length, K, m, shared=shared, seed=b) for b, length in enumerate(lengths)]

    def make(w):
        return HigherOrderChain(w["state"], w.get("transition"), torch.tensor(lengths), order=m)

    return padded(singles, make, singles[0].parts, ("state", "transition") if shared else ("state",))


INVALID_STATES = {"a state that does not exist": [0, 1, 2], "padding": [0, 1, -1], "a negative state": [0, -2, 1]}

STRUCTURES = {
    "spans": span_case(3, invalid=INVALID_SPANS | TERNARY),
    "spans of four words": span_case(4),
    "spans with labels": span_case(3, 2),
    "spans, any number of children": span_case(4, binary=False, invalid={}),
    "spans of three words, any number of children": span_case(3, binary=False, invalid=INVALID_SPANS),
    "spans with labels, any number of children": span_case(3, 2, binary=False),
    "spans, forbidden": span_case(3, 2, forbidden=True),
    "spans of one word": span_case(1, 2, invalid={"nothing": [[-1, -1]], "padding": [[0, 0]]}),
    "spans, padded": padded_spans([3, 1, 4, 2]),
    "spans with labels, padded": padded_spans([1, 3, 2], 2, binary=False),
    "segments": segment_case(4, 3),
    "segments of two words": segment_case(3, 2, invalid=INVALID_SEGMENTS | {"a label": [[-1, 1], [-1, -1], [0, -1]]}),
    "segments with labels": segment_case(3, 2, 2, invalid=INVALID_SEGMENTS),
    "segments with pairs of labels": segment_case(3, 2, 2, pairs=True, invalid=INVALID_SEGMENTS),
    "segments wider than the sentence": segment_case(2, 4, 2, pairs=True),
    "segments, forbidden": segment_case(3, 3, 2, pairs=True, forbidden=True),
    "segments of one word": segment_case(1, 1, 2, pairs=True),
    "segments, padded": padded_segments([3, 1, 4], 2),
    "segments with labels, padded": padded_segments([3, 1, 2], 2, 2),
    "chain of order one": chain_case(3, 2, 1),
    "chain of order two": chain_case(3, 2, 2, invalid=INVALID_STATES),
    "chain of order two, forbidden": chain_case(3, 2, 2, forbidden=True),
    "chain of order three": chain_case(4, 2, 3),
    "chain shorter than its order": chain_case(2, 2, 3),
    "chain of one word": chain_case(1, 3, 2),
    "chains of order two, padded": padded_chains([3, 1, 4, 2], 2, 2),
    "chain of order one, alike at all words": chain_case(4, 2, 1, shared=True),
    "chain of order two, alike at all words": chain_case(4, 2, 2, shared=True),
    "chain of order three, alike at all words": chain_case(4, 2, 3, shared=True),
    "chain of order two, alike at all words, forbidden": chain_case(3, 2, 2, shared=True, forbidden=True),
    "chain alike at all words, shorter than its order": chain_case(1, 2, 2, shared=True),
    "chains alike at all words, padded": padded_chains([3, 1, 4, 2], 2, 2, shared=True),
}
