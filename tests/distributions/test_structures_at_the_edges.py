# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All structures by scores where there is nothing: no sentence, no structure, batches that do not fit."""

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
#: From scores and lengths, and the shape of the scores of n words.
STRUCTURES: dict[str, tuple[Make, Callable[[int], tuple[int, ...]]]] = {
    "spans": (lambda s, m=None: SpanTree(s, m, labelled=False), lambda n: (n, n + 1)),
    "spans with labels": (lambda s, m=None: SpanTree(s, m, labelled=True), lambda n: (n, n + 1, 3)),
    "spans, any number": (lambda s, m=None: SpanTree(s, m, labelled=False, binary=False), lambda n: (n, n + 1)),
    "segments": (lambda s, m=None: Segmentation(s, None, m), lambda n: (n, 2)),
    "pairs of segments": (lambda s, m=None: Segmentation(s, torch.zeros(3, 3).to(s), m), lambda n: (n, 2, 3)),
    "chains": (lambda s, m=None: HigherOrderChain(s, torch.zeros(4, 4, 3).to(s), m), lambda n: (n, 3)),
    "arcs": (lambda s, m=None: ProjectiveDependencyTree(s, lengths=m, valence=False), lambda n: (n + 1, n + 1)),
    "arcs that cross": (lambda s, m=None: DependencyTree(s, m), lambda n: (n + 1, n + 1)),
    "labelled": (lambda s, m=None: LabelledDependencyTree(s, m), lambda n: (n + 1, n + 1, 3)),
    "labelled that cross": (
        lambda s, m=None: LabelledDependencyTree(s, m, projective=False),
        lambda n: (n + 1, n + 1, 3),
    ),
    "siblings": (lambda s, m=None: SiblingDependencyTree(s[..., 0], s, lengths=m), lambda n: (n + 1,) * 3),
    "grandparents": (lambda s, m=None: GrandparentDependencyTree(s[..., 0], s, lengths=m), lambda n: (n + 1,) * 3),
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


@pytest.mark.one_in(2)
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
    whole = make(random(2, *shape(3)))
    assert kl_divergence(d, whole)[0] == kl_divergence(whole, d)[0] == torch.inf
    with pytest.raises(ValueError, match=r"sentence 0 has no .* to sample"):
        d.sample()
    leaf = scores.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(make(leaf).entropy().sum(), leaf)
    assert not gradient.isnan().any() and (gradient[0] == 0).all()


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
    make, shape = STRUCTURES[name]
    scores, lengths = random(2, *shape(3)), torch.tensor([3, 2])
    expected = make(scores, lengths)
    with torch.inference_mode():
        found = make(scores.clone(), lengths.clone()) if made else make(scores, lengths)
        marginals, entropy = found.marginals(), found.entropy()
    torch.testing.assert_close(marginals, expected.marginals())
    torch.testing.assert_close(entropy, expected.entropy())


@each
def test_batches_that_do_not_fit(name: str) -> None:
    make, shape = STRUCTURES[name]
    with pytest.raises(ValueError, match=r"batches of scores and of lengths must broadcast, not have shapes .*\(3,\)"):
        make(random(2, *shape(3)), torch.tensor([3, 2, 1]))
    fits = make(random(2, 1, *shape(3)), torch.tensor([3, 2, 1]))
    assert fits.log_partition.shape == (2, 3) and fits.sample().shape == (2, 3, *fits.event_shape)
