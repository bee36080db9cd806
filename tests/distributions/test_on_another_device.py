# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums, derivatives, draws and best derivations on a device that has kernels, against lists of all derivations.

The device is the CPU in disguise: its tensors refuse those of the CPU, and say when they are copied there. Where
there is a GPU, and cuda-python, all is done on it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cfg_oracle
import cfg_sums as cfg
import numpy as np
import pytest
import torch
from fake_device import kernels_on, launched
from other_device import OtherDevice
from test_cfg_chart import arrays
from test_hmm_chart import emission_counts, enumerated, law, posteriors, sequences, tables
from test_hmm_chart import log_partition as exactly
from torch import Tensor
from tree_charts import KINDS, problem, to

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


@pytest.mark.parametrize("name", ["valences and stops", "siblings", pytest.param("arcs", marks=pytest.mark.slow)])
def test_trees(device: Disguised | Real, name: str) -> None:
    kind = KINDS[name]
    tables, _ = problem(kind, LENGTHS.tolist())
    given = [x.float() for x in tables.values()]
    truth = kind.truth(to(tables, torch.float32), LENGTHS, False)

    def on(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        return lambda *x: function(dict(zip(tables, x[:-1], strict=True)), x[-1], False, **options)

    log_z, found = device.there(on(lambda *x: _flat(kind.marginals(*x))), *given, LENGTHS)
    pushed = device.there(gradients(on(kind.log_partition)), *given, LENGTHS)
    heads, best = device.there(on(kind.top_k, k=1), *given, LENGTHS)
    drawn = device.there(on(kind.sample, number=2000), *given, LENGTHS)
    assert device.launched("lanes", "lanes", "best", "draw")
    np.testing.assert_allclose(log_z, [one.log_z for one in truth], rtol=1e-6)
    for b, (n, one) in enumerate(zip(LENGTHS.tolist(), truth, strict=True)):
        for marginals in (found, pushed):
            own = kind.corner(dict(zip(tables, marginals, strict=True)), b, n)
            for table, expected in one.marginals.items():
                np.testing.assert_allclose(own[table], expected, atol=1e-5)
        assert float(best[0, b]) == pytest.approx(max(one.scores), rel=1e-6)
        assert heads[0, b, :n].tolist() == list(one.trees[int(np.argmax(one.scores))])
        assert heads[0, b, n:].eq(-1).all() and drawn[:, b, n:].eq(-1).all()
        check_draws([tuple(x) for x in drawn[:, b, :n].tolist()], one.trees, one.probs)


def _flat(results: tuple[Tensor, dict[str, Tensor]]) -> list[Any]:
    return [results[0], [*results[1].values()]]


# ---------------------------------------------------------------------- chains


WORDS = torch.tensor([[0, 2, 1, 0], [1, -1, -1, -1], [2, 2, 0, -1], [1, 0, -1, -1]])
chains = pytest.mark.parametrize("own", [False, True], ids=["shared", "of each sentence"])


def log_partition(initial: Tensor, transition: Tensor, emission: Tensor, words: Tensor) -> Tensor:
    log_z: Tensor = law((initial, transition, emission), words).log_partition
    return log_z


@pytest.mark.one_in(12)
@chains
@pytest.mark.parametrize("nats", [1.0, 30.0, 1000.0])
def test_chains(device: Disguised | Real, own: bool, nats: float) -> None:
    """More states than a tile has; also weights of which the exponentials are numbers with exponents alone."""
    given = tables(len(WORDS) if own else 1, nats, K=5, V=3)
    log_z, moves, states = device.there(lambda *x: posteriors(*x[:3], words=x[3]), *given, WORDS)
    by_initial, by_moves, by_words = device.there(gradients(log_partition), *given, WORDS)
    best, scores = device.there(lambda *x: law(x[:3], x[3])._top_k(1), *given, WORDS)
    drawn = device.there(lambda *x: law(x[:3], x[3]).sample((2000,)), *given, WORDS)
    assert nats > 100 or device.launched("lanes", "lanes", "best", "draw")
    exact, exact_moves, exact_states = enumerated(given, WORDS)
    close = {"rtol": 1e-13 if nats == 1 else 1e-12, "atol": 1e-11}
    torch.testing.assert_close(log_z, exact, **close)
    torch.testing.assert_close((moves, states), (exact_moves, exact_states), **close)
    counted = exact_states[:, 0], exact_moves, emission_counts(exact_states, WORDS, 3)
    for found, expected in zip((by_initial, by_moves, by_words), counted, strict=True):
        torch.testing.assert_close(found, expected if own else expected.sum(0, keepdim=True), **close)
    for b, row in enumerate(WORDS):
        listed, weights = zip(*sequences(given, row, b), strict=True)
        n = len(listed[0])
        assert best[0, b].tolist() == [*listed[int(np.argmax(weights))], *[-1] * (4 - n)]
        assert float(scores[0, b]) == pytest.approx(max(weights), rel=1e-13)
        check_draws([tuple(x) for x in drawn[:, b, :n].tolist()], listed, torch.tensor(weights).softmax(0).tolist())


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
    rules, matches = arrays(case)
    w = torch.randn(*([B] if own else []), case.num_events).double()
    truth = [cfg_oracle.Enumeration(case, b, (w[b] if own else w).numpy()) for b in range(B)]
    log_z, counts = device.there(lambda w: cfg.posterior_counts(w, rules, matches), w)
    (pushed,) = device.there(lambda w: gradients(lambda w, m: cfg.log_partition(w, rules, m))(w, matches), w)
    total = device.there(lambda w: cfg.expected_counts(w, rules, matches)[1], w)
    assert device.launched("lanes", "lanes", "lanes")
    # Rows of a kernel's derivations become rows of events on the CPU.
    best, scores = device.there(lambda w: cfg.top_k(w, rules, matches), w, copies=1)
    drawn = device.there(lambda w: cfg.sample(w, rules, matches, 2000), w, copies=1)
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


@pytest.mark.parametrize(("memory", "descents"), [(2000, False), (600000, False), (2**30, True)])
def test_what_does_not_fit_is_done_by_torch(memory: int, descents: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warp's charts of a chain of 4 words take 157 KB, and more for derivations."""
    device = Disguised(kernels_on("meta", monkeypatch, memory))
    given = tables(K=5, V=3)
    words = WORDS[:1]
    log_z = device.there(log_partition, *given, words)
    sums = [] if memory < 10_000 else ["lanes"]
    assert device.launched(*sums)
    device.there(lambda *x: law(x[:3], x[3])._top_k(1), *given, words, copies=0 if descents else 6)
    assert device.launched(*sums, *(["best"] if descents else []))
    np.testing.assert_allclose(log_z, exactly(*given, words=words, engine="torch"), rtol=1e-12)


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
