# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All structures by scores where the battery does not go: no sentence, no structure, low precision, wrong arguments."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram.distributions import (
    DependencyTree,
    GrandparentDependencyTree,
    HigherOrderChain,
    LabelledDependencyTree,
    ProjectiveDependencyTree,
    Segmentation,
    SiblingDependencyTree,
    SpanTree,
)

Make = Callable[..., Any]


def by_part(kind: Any) -> Make:
    """Arcs score the first number of each row of their parts."""
    return lambda s, m=None, **options: kind(s[..., 0] if isinstance(s, Tensor) else s, s, lengths=m, **options)


def chain(s: Any, m: Any = None, **options: Any) -> Any:
    return HigherOrderChain(s, torch.zeros(4, 4, 3).to(s) if isinstance(s, Tensor) else s, m, **options)


def pairs(s: Any, m: Any = None, **options: Any) -> Any:
    return Segmentation(s, torch.zeros(3, 3).to(s) if isinstance(s, Tensor) else s, m, **options)


#: From scores and lengths, and the shape of the scores of n words.
STRUCTURES: dict[str, tuple[Make, Callable[[int], tuple[int, ...]]]] = {
    "spans": (lambda s, m=None, **o: SpanTree(s, m, labelled=False, **o), lambda n: (n, n + 1)),
    "spans with labels": (lambda s, m=None, **o: SpanTree(s, m, labelled=True, **o), lambda n: (n, n + 1, 3)),
    "spans, any number": (
        lambda s, m=None, **o: SpanTree(s, m, labelled=False, binary=False, **o),
        lambda n: (n, n + 1),
    ),
    "segments": (lambda s, m=None, **o: Segmentation(s, None, m, **o), lambda n: (n, 2)),
    "pairs of segments": (pairs, lambda n: (n, 2, 3)),
    "chains": (chain, lambda n: (n, 3)),
    "arcs": (
        lambda s, m=None, **o: ProjectiveDependencyTree(s, lengths=m, valence=False, **o),
        lambda n: (n + 1, n + 1),
    ),
    "arcs that cross": (DependencyTree, lambda n: (n + 1, n + 1)),
    "labelled": (LabelledDependencyTree, lambda n: (n + 1, n + 1, 3)),
    "labelled that cross": (
        lambda s, m=None, **o: LabelledDependencyTree(s, m, projective=False, **o),
        lambda n: (n + 1, n + 1, 3),
    ),
    "siblings": (by_part(SiblingDependencyTree), lambda n: (n + 1,) * 3),
    "grandparents": (by_part(GrandparentDependencyTree), lambda n: (n + 1,) * 3),
}
each = pytest.mark.parametrize("name", STRUCTURES)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@each
@pytest.mark.parametrize("batch", [(0,), (2, 0)])
def test_no_sentences(name: str, batch: tuple[int, ...]) -> None:
    make, shape = STRUCTURES[name]
    d = make(random(*batch, *shape(3)))
    event = tuple(d.event_shape)
    assert d.log_partition.shape == d.entropy().shape == batch
    assert d.argmax().shape == d.mbr().shape == d.sample().shape == batch + event
    structures, scores = d.top_k(2)
    assert structures.shape == (2, *batch, *event) and scores.shape == (2, *batch)
    assert d.log_prob(d.sample((4,))).shape == (4, *batch)
    assert d.marginals().shape[: len(batch)] == batch


@each
def test_no_structure_is_possible(name: str) -> None:
    """Of one sentence; the other one does not mind."""
    make, shape = STRUCTURES[name]
    scores = random(2, *shape(3))
    scores[0] = -torch.inf
    d, only = make(scores), make(scores[1])
    assert d.log_partition[0] == -torch.inf and d.entropy()[0] == 0
    torch.testing.assert_close(d.entropy()[1], only.entropy())
    torch.testing.assert_close(d.marginals()[1], only.marginals())
    assert (d.marginals()[0] == 0).all() and (d.argmax()[0] == -1).all() and (d.mbr()[0] == -1).all()
    assert torch.equal(d.argmax()[1], only.argmax())
    best, log_probs = d.top_k(2)
    assert (best[:, 0] == -1).all() and (log_probs[:, 0] == -torch.inf).all()
    whole = make(random(2, *shape(3)))
    assert (d.log_prob(whole.argmax()) == -torch.inf).tolist() == [True, False]
    assert kl_divergence(d, whole)[0] == kl_divergence(whole, d)[0] == torch.inf
    with pytest.raises(ValueError, match=r"sentence 0 has no .* to sample"):
        d.sample()
    leaf = scores.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(make(leaf).entropy().sum(), leaf)
    assert not gradient.isnan().any() and (gradient[0] == 0).all()


@each
def test_a_divergence_is_infinite_where_q_forbids(name: str) -> None:
    make, shape = STRUCTURES[name]
    scores = random(*shape(3))
    p = make(scores)
    parts = p.counts(p.argmax())
    forbidding = scores.masked_fill(next(c for c in parts.values() if c.shape == scores.shape) > 0, -torch.inf)
    q = make(forbidding)
    assert kl_divergence(p, q) == torch.inf and (q.log_partition == -torch.inf or 0 < kl_divergence(q, p) < torch.inf)


@each
def test_one_word(name: str) -> None:
    make, shape = STRUCTURES[name]
    d = make(random(2, *shape(1)))
    listed = d.enumerate_support()
    torch.testing.assert_close(d.log_prob(listed).logsumexp(0), torch.zeros(2))
    best = d.log_prob(listed).argmax(0)
    assert torch.equal(d.argmax(), torch.stack([listed[int(best[b]), b] for b in range(2)]))


@each
@pytest.mark.parametrize("made", [False, True], ids=["used", "made"])
def test_inference_mode(name: str, made: bool) -> None:
    """Results are the same, and gradients that are asked for later are."""
    make, shape = STRUCTURES[name]
    scores, lengths = random(2, *shape(3)).requires_grad_(), torch.tensor([3, 2])
    expected, found = make(scores, lengths), make(scores, lengths)
    with torch.inference_mode():
        here = make(scores.clone(), lengths.clone()) if made else found
        marginals, entropy = here.marginals(), here.entropy()
    torch.testing.assert_close(marginals.clone(), expected.marginals().detach())
    torch.testing.assert_close(entropy.clone(), expected.entropy().detach())
    gradients = [torch.autograd.grad(d.entropy().sum(), scores)[0] for d in (found, expected)]
    torch.testing.assert_close(*gradients)


@each
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(name: str, dtype: torch.dtype) -> None:
    """Is torch's."""
    make, shape = STRUCTURES[name]
    exact, half = make(random(*shape(4))), make(random(*shape(4)).to(dtype))
    for found, expected in (
        (half.log_partition, exact.log_partition),
        (half.marginals(), exact.marginals()),
        (half.entropy(), exact.entropy()),
    ):
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), expected, rtol=0.05, atol=0.05)
    assert exact.support.check(half.sample((5,))).all() and exact.support.check(half.argmax())


@each
def test_batches_that_do_not_fit(name: str) -> None:
    make, shape = STRUCTURES[name]
    with pytest.raises(ValueError, match=r"batches of scores and of lengths must broadcast, not have shapes .*\(3,\)"):
        make(random(2, *shape(3)), torch.tensor([3, 2, 1]))
    fits = make(random(2, 1, *shape(3)), torch.tensor([3, 2, 1]))
    assert fits.log_partition.shape == (2, 3) and fits.sample().shape == (2, 3, *fits.event_shape)


WRONG: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "integers": (lambda s: s.long(), "scores must be floating-point numbers, not torch.int64"),
    "NaN": (lambda s: s * torch.nan, "scores"),
    "infinity": (lambda s: s + torch.inf, "scores"),
    "one axis": (lambda s: s.flatten()[:3], r"must have shape \(\.\.\., .* not \((3,)?\)"),
    "no square": (lambda s: s[..., :1, :], "scores must have shape .* not "),
}


@each
@pytest.mark.parametrize("what", WRONG)
def test_wrong_scores(name: str, what: str) -> None:
    make, shape = STRUCTURES[name]
    change, message = WRONG[what]
    if what == "no square" and name in ("segments", "pairs of segments", "chains"):
        return  # these are shorter sentences
    with pytest.raises(ValueError, match=message):
        make(change(random(*shape(3))), validate_args=True)


@each
def test_wrong_lengths_and_numbers(name: str) -> None:
    make, shape = STRUCTURES[name]
    scores = random(*shape(3))
    for lengths, message in (
        (torch.tensor(4), r"lengths must .* 1\.\.3"),
        (torch.tensor([0, 2]), r"lengths must .* 1\.\.3"),
        (torch.tensor(2.0), "lengths must be integers"),
    ):
        with pytest.raises(ValueError, match=message):
            make(scores, lengths)
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        make(scores).top_k(0)
    with pytest.raises(NotImplementedError, match="different lengths"):
        make(scores.expand(2, *scores.shape), torch.tensor([2, 3])).enumerate_support()
    with pytest.raises(NotImplementedError, match="too many"):
        make(random(*shape(40))).enumerate_support()
    with pytest.raises(NotImplementedError, match="different lengths|same sentences"):
        kl_divergence(make(scores), make(scores, torch.tensor(2)))
    with pytest.raises((NotImplementedError, ValueError)):
        kl_divergence(make(scores), make(random(*shape(4))))


@each
@pytest.mark.parametrize("wrong", [None, [[0.0]], 0.0])
def test_what_is_no_tensor_is_named(name: str, wrong: Any) -> None:
    make, shape = STRUCTURES[name]
    with pytest.raises(TypeError, match=r"^(arc_)?scores must be a tensor, not (None|\[\[0.0|0.0)"):
        make(wrong)
    for lengths in ([3], 3):
        with pytest.raises(TypeError, match=r"^lengths must be a tensor, not \[?3"):
            make(random(*shape(3)), lengths)
