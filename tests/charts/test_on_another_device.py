# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums, derivatives, draws and best derivations on a device that has kernels, against lists of all derivations.

The device is the CPU in disguise: its tensors refuse those of the CPU, and say when they are copied there. Where
there is a GPU, and cuda-python, all is done on it, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cfg_oracle
import numpy as np
import oracle
import pytest
import sibling_oracle
import torch
from fake_device import kernels_on, launched
from other_device import OtherDevice
from torch import Tensor

from pyrogram.charts import cfg, hmm, projective, sibling
from pyrogram.distributions import Segmentation, SpanTree
from pyrogram.recursion.run.launching import Launcher, launcher_for
from pyrogram.testing import chi_square

LENGTHS = torch.tensor([3, 1, 4, 2])


class Disguised:
    """The CPU in disguise."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher

    def there(self, work: Callable[..., Any], *given: Tensor, copies: int = 0) -> Any:
        """Results of work on the device, as numbers of the CPU.

        :param copies: how many tensors may go to the CPU.
        """
        with OtherDevice() as device:
            found = work(*(device.put(x) for x in given))
            assert len(device.copies) == copies, device.copies
        return self.back(found)

    def back(self, found: Any) -> Any:
        if isinstance(found, Tensor):
            assert found.device.type == "meta"
            return found.held.detach()  # type: ignore[attr-defined]
        return [self.back(x) for x in found]

    def launched(self, *names: str) -> bool:
        """Whether these kernels, and no others, were launched."""
        return launched(self.launcher) == [*names]


class Real:
    """A GPU; which kernels it runs is not seen."""

    def there(self, work: Callable[..., Any], *given: Tensor, copies: int = 0) -> Any:
        return self.back(work(*(x.cuda() for x in given)))

    def back(self, found: Any) -> Any:
        if isinstance(found, Tensor):
            assert found.device.type == "cuda"
            return found.detach().cpu()
        return [self.back(x) for x in found]

    def launched(self, *names: str) -> bool:
        return True


@pytest.fixture(params=["disguised", "real"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disguised | Real]:
    """What no kernel has written is NaN: none may read it."""
    if request.param == "real" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    if request.param == "real" and launcher_for(torch.device("cuda")) is None:
        pytest.skip("cuda-python is not installed, or the GPU is too old")
    torch.use_deterministic_algorithms(request.param == "disguised")
    yield Real() if request.param == "real" else Disguised(kernels_on("meta", monkeypatch))
    torch.use_deterministic_algorithms(False)


def gradients(log_partition: Callable[..., Tensor]) -> Callable[..., Sequence[Tensor]]:
    """Of log Z by the tables, the lengths or words being last."""

    def work(*given: Tensor) -> Sequence[Tensor]:
        leaves = [x.requires_grad_() for x in given[:-1]]
        return torch.autograd.grad(log_partition(*leaves, given[-1]).sum(), leaves)

    return work


def check_draws(drawn: Sequence[Any], listed: Sequence[Any], probabilities: Sequence[float]) -> None:
    """Pearson's test that they come from a list of derivations."""
    number = {one: x for x, one in enumerate(listed)}
    seen = torch.bincount(torch.tensor([number[one] for one in drawn]), minlength=len(listed))
    assert chi_square(seen, torch.tensor(probabilities, dtype=torch.float64)) > 1e-4


# ---------------------------------------------------------------------- trees


def test_projective_trees(device: Disguised | Real) -> None:
    arcs, stops = torch.randn(4, 5, 5, 2), torch.randn(4, 5, 2, 2)
    truth = [
        oracle.Enumeration(a[: n + 1, : n + 1].numpy(), s[: n + 1].numpy(), False) for a, s, n in rows(arcs, stops)
    ]
    log_z, by_arcs, by_stops = device.there(projective.marginals, arcs, stops, LENGTHS)
    pushed = device.there(gradients(projective.log_partition), arcs, stops, LENGTHS)
    heads, best = device.there(projective.top_k, arcs, stops, LENGTHS)
    drawn = device.there(lambda *x: projective.sample(*x, num_samples=2000), arcs, stops, LENGTHS)
    assert device.launched("lanes", "lanes", "best", "draw")
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=1e-6)
    for b, (n, one) in enumerate(zip(LENGTHS.tolist(), truth, strict=True)):
        for found in (by_arcs, pushed[0]):
            np.testing.assert_allclose(found[b, : n + 1, : n + 1], one.arc_marginals, atol=1e-5)
        for found in (by_stops, pushed[1]):
            np.testing.assert_allclose(found[b, : n + 1], one.stop_marginals, atol=1e-5)
        assert float(best[0, b]) == pytest.approx(max(one.scores), rel=1e-6)
        assert heads[0, b, :n].tolist() == list(one.trees[int(np.argmax(one.scores))])
        assert heads[0, b, n:].eq(-1).all() and drawn[:, b, n:].eq(-1).all()
        check_draws([tuple(x) for x in drawn[:, b, :n].tolist()], one.trees, one.probs)


def test_second_order_trees(device: Disguised | Real) -> None:
    arcs, siblings = torch.randn(4, 5, 5), torch.randn(4, 5, 5, 5)
    truth = [
        sibling_oracle.Enumeration(a[: n + 1, : n + 1].numpy(), s[: n + 1, : n + 1, : n + 1].numpy(), None, False)
        for a, s, n in rows(arcs, siblings)
    ]
    log_z, by_arcs, by_siblings = device.there(
        lambda a, s, n: sibling.marginals(a, s, None, n)[:3], arcs, siblings, LENGTHS
    )
    heads, best = device.there(lambda a, s, n: sibling.top_k(a, s, None, n), arcs, siblings, LENGTHS)
    drawn = device.there(lambda a, s, n: sibling.sample(a, s, None, n, num_samples=2000), arcs, siblings, LENGTHS)
    assert device.launched("lanes", "best", "draw")
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=1e-6)
    for b, (n, one) in enumerate(zip(LENGTHS.tolist(), truth, strict=True)):
        np.testing.assert_allclose(by_arcs[b, : n + 1, : n + 1], one.marginals[0], atol=1e-5)
        np.testing.assert_allclose(by_siblings[b, : n + 1, : n + 1, : n + 1], one.marginals[1], atol=1e-5)
        assert float(best[0, b]) == pytest.approx(max(one.scores), rel=1e-6)
        assert heads[0, b, :n].tolist() == list(one.trees[int(np.argmax(one.scores))])
        check_draws([tuple(x) for x in drawn[:, b, :n].tolist()], one.trees, one.probs)


def rows(a: Tensor, b: Tensor) -> Iterator[tuple[Tensor, Tensor, int]]:
    yield from zip(a.double(), b.double(), LENGTHS.tolist(), strict=True)


# ---------------------------------------------------------------------- chains


@pytest.mark.one_in(6)
@pytest.mark.parametrize("own", [False, True], ids=["shared", "of each sentence"])
def test_chains(device: Disguised | Real, own: bool) -> None:
    K, V = 5, 3  # more than a tile of states
    words = torch.tensor([[0, 2, 1, 0], [1, -1, -1, -1], [2, 2, 0, -1], [1, 0, -1, -1]])
    B = len(words) if own else 1
    given = torch.randn(B, K).double(), torch.randn(B, K, K + 1).double(), torch.randn(B, K, V).double()
    log_z, moves, states = device.there(hmm.posteriors, *given, words)
    by_initial, by_moves, by_words = device.there(gradients(hmm.log_partition), *given, words)
    best, scores = device.there(hmm.top_k, *given, words)
    drawn = device.there(lambda *x: hmm.sample(*x, num_samples=2000), *given, words)
    assert device.launched("lanes", "lanes", "best", "draw")
    counted = [np.zeros(x.shape) for x in given]
    for b, row in enumerate(words.tolist()):
        initial, transition, emission = (x[b if own else 0].tolist() for x in given)
        row = [w for w in row if w >= 0]
        n, listed = len(row), list(itertools.product(range(K), repeat=len(row)))
        weights = []
        for s in listed:
            terms = [initial[s[0]], *(emission[x][w] for x, w in zip(s, row, strict=True))]
            weights.append(math.fsum(terms + [transition[x][y] for x, y in zip(s, [*s[1:], K], strict=True)]))
        probabilities = np.exp(weights - np.logaddexp.reduce(weights))
        assert float(log_z[b]) == pytest.approx(np.logaddexp.reduce(weights), rel=1e-13)
        by_state, by_move = np.zeros((n, K)), np.zeros((K, K + 1))
        for s, p in zip(listed, probabilities, strict=True):
            counted[0][b if own else 0][s[0]] += p
            for t, (x, y) in enumerate(zip(s, [*s[1:], K], strict=True)):
                by_state[t, x] += p
                by_move[x, y] += p
                counted[2][b if own else 0][x, row[t]] += p
        counted[1][b if own else 0] += by_move
        np.testing.assert_allclose(states[b, :n], by_state, atol=1e-12)
        np.testing.assert_allclose(moves[b], by_move, atol=1e-12)
        assert best[0, b].tolist() == [*listed[int(np.argmax(weights))], *[-1] * (4 - n)]
        assert float(scores[0, b]) == pytest.approx(max(weights), rel=1e-13)
        check_draws([tuple(x) for x in drawn[:, b, :n].tolist()], listed, probabilities)
    for found, expected in zip((by_initial, by_moves, by_words), counted, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("own", [False, True], ids=["shared", "of each sentence"])
@pytest.mark.parametrize("nats", [30.0, 1000.0])
def test_sharp_chains(device: Disguised | Real, own: bool, nats: float) -> None:
    """Weights of which the exponentials are numbers with exponents alone."""
    K, words = 5, torch.tensor([[0, 2, 1, 0], [1, -1, -1, -1], [2, 2, 0, -1], [1, 0, -1, -1]])
    given = [nats * torch.randn(len(words) if own else 1, *axes).double() for axes in ((K,), (K, K + 1), (K, 3))]
    log_z, counts, states = device.there(hmm.posteriors, *given, words)
    drawn = device.there(lambda *x: hmm.sample(*x, num_samples=50), *given, words)
    for b, row in enumerate([[w for w in row if w >= 0] for row in words.tolist()]):
        initial, transition, emission = (x[b if own else 0].tolist() for x in given)
        listed, weights = list(itertools.product(range(K), repeat=len(row))), []
        for s in listed:
            terms = [initial[s[0]], *(emission[x][w] for x, w in zip(s, row, strict=True))]
            weights.append(math.fsum(terms + [transition[x][y] for x, y in zip(s, [*s[1:], K], strict=True)]))
        truth, by_state = np.logaddexp.reduce(weights), np.zeros((len(row), K))
        for s, p in zip(listed, np.exp(weights - truth), strict=True):
            by_state[range(len(row)), s] += p
        assert float(log_z[b]) == pytest.approx(truth, rel=1e-13)
        np.testing.assert_allclose(states[b, : len(row)], by_state, atol=1e-11)
        assert float(counts[b].sum()) == pytest.approx(len(row))
        assert all(weights[listed.index(tuple(x[: len(row)]))] > truth - 40 for x in drawn[:, b].tolist())


# ---------------------------------------------------------------------- grammars

# X and Y are made of words, of pairs and of one another; Z has a word or a pair.
GRAMMAR = cfg_oracle.Case(
    num_symbols=4,
    num_events=10,
    binary=[(0, 1, 2, 0), (0, 2, 1, 1), (1, 1, 3, 2), (2, 3, 3, 3), (0, 0, 0, 4)],
    unary=[(0, 1, 5), (2, 1, 6)],
    lengths=[3, 1, 4, 2],
    matches=[
        *((b, i, i + 1, 1, 7) for b, n in enumerate((3, 1, 4, 2)) for i in range(n)),
        *((b, i, i + 1, 3, 8 + i % 2) for b, n in enumerate((3, 1, 4, 2)) for i in range(n)),
    ],
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("own", [False, True], ids=["shared", "of each sentence"])
def test_grammars(device: Disguised | Real, own: bool) -> None:
    case, B = GRAMMAR, len(GRAMMAR.lengths)
    rules = cfg.RuleTable(case.num_symbols, 0, case.num_events, case.binary, case.unary)
    of_sentence = sorted(case.matches, key=lambda row: row[0])
    offsets = np.cumsum([0, *(2 * n for n in case.lengths)])
    matches = cfg.Matches(case.lengths, offsets, [row[1:] for row in of_sentence])
    w = torch.randn(*([B] if own else []), case.num_events).double()
    truth = [cfg_oracle.Enumeration(case, b, (w[b] if own else w).numpy()) for b in range(B)]
    log_z, counts = device.there(lambda w: cfg.posterior_counts(w, rules, matches), w)
    (pushed,) = device.there(lambda w: gradients(lambda w, m: cfg.log_partition(w, rules, m))(w, matches), w)
    total = device.there(lambda w: cfg.expected_counts(w, rules, matches)[1], w)
    assert device.launched("lanes", "lanes", "lanes")
    # Rows of a kernel's derivations become rows of events on the CPU.
    best, scores = device.there(lambda w: cfg.top_k(w, rules, matches), w, copies=2)
    drawn = device.there(lambda w: cfg.sample(w, rules, matches, 2000), w, copies=2)
    assert device.launched("lanes", "lanes", "lanes", "best", "draw")
    expected = np.array([one.counts for one in truth])
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=1e-13)
    np.testing.assert_allclose(counts, expected, atol=1e-12)
    np.testing.assert_allclose(pushed, expected if own else expected.sum(0), atol=1e-12)
    np.testing.assert_allclose(total, expected.sum(0), atol=1e-12)
    for b, one in enumerate(truth):
        assert float(scores[0, b]) == pytest.approx(max(one.scores), rel=1e-12)
        assert one.number_of(best[0, b].tolist()) == int(np.argmax(one.scores))
        check_draws([one.number_of(x) for x in drawn[:, b].tolist()], range(len(one.trees)), one.probs)


@pytest.mark.parametrize(("memory", "descents"), [(2000, False), (1_300_000, False), (2**30, True)])
def test_what_does_not_fit_is_done_by_torch(memory: int, descents: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warp's charts of a chain of 4 words take 300 KB, and more for derivations."""
    device = Disguised(kernels_on("meta", monkeypatch, memory))
    given = torch.randn(1, 5).double(), torch.randn(1, 5, 6).double(), torch.randn(1, 5, 3).double()
    words = torch.tensor([[0, 2, 1, 0]])
    log_z = device.there(hmm.log_partition, *given, words)
    sums = [] if memory < 10_000 else ["lanes"]
    assert device.launched(*sums)
    device.there(hmm.top_k, *given, words, copies=0 if descents else 6)
    assert device.launched(*sums, *(["best"] if descents else []))
    np.testing.assert_allclose(log_z, hmm.log_partition(*given, words, engine="torch"), rtol=1e-12)


# ---------------------------------------------------------------------- scored structures


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", [SpanTree, Segmentation])
@pytest.mark.parametrize("labels", [1, 2])
def test_scored_structures(device: Disguised | Real, kind: Any, labels: int) -> None:
    """Labels that are independent are summed out by torch, before."""

    def made(x: Tensor) -> Any:
        return kind(x, labelled=True)

    scores = torch.randn(3, 4, 5 if kind is SpanTree else 3, labels).double()
    listed = made(scores[0]).enumerate_support(expand=False)
    log_z, marginals, best = device.there(
        lambda x: (made(x).log_partition, made(x).marginals(), made(x).argmax()), scores
    )
    drawn = device.there(lambda x: made(x).sample((2000,)), scores)
    assert device.launched("lanes", "lanes", "best", "draw")
    parts = torch.nn.functional.one_hot((listed + 1).clamp_min(0), labels + 1)[..., 1:].double()
    for b, table in enumerate(scores):
        totals = (parts * table).flatten(1).sum(-1)
        np.testing.assert_allclose(log_z[b], totals.logsumexp(0), rtol=1e-12)
        expected = (parts * totals.softmax(0).reshape(-1, *[1] * table.dim())).sum(0)
        np.testing.assert_allclose(marginals[b], expected, atol=1e-12)
        assert torch.equal(best[b], listed[totals.argmax()])
        texts = [str(x.tolist()) for x in drawn[:, b]]
        check_draws(texts, [str(x.tolist()) for x in listed], totals.softmax(0).tolist())
