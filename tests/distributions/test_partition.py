# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Partition structures against Definition 1 of Cohen and Smith (2009), written as loops, and its Figure 2 by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pyrogram.distributions import Experts, Gaussian, Link, PartitionStructure, tied_starts
from pyrogram.grammar import Block

# Figure 2, counted from 0 instead of 1.
EXPERTS = {
    "1": [[0, 1], [2, 3, 4, 5], [6, 7, 8]],
    "2": [[0, 1], [2, 3, 4, 5]],
    "3": [[0, 1, 2, 3], [4, 5, 6]],
    "4": [[0, 1]],
}
MULTINOMIALS = {
    "J1": [("1", 0), ("2", 0), ("4", 0)],
    "J2": [("1", 1), ("2", 1), ("3", 0)],
    "J3": [("1", 2), ("3", 1)],
}


def test_figure_2() -> None:
    structure = PartitionStructure.from_sets(EXPERTS, MULTINOMIALS)
    assert {name: e.length for name, e in structure.experts.items()} == {"1": 9, "2": 6, "3": 7, "4": 2}
    assert [tuple(b.shape) for b in structure.blocks.values()] == [(2,), (4,), (3,)]
    assert [int(structure.sizes(name)) for name in structure.blocks] == [3, 3, 2]
    values = {
        "1": torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8, 9]),
        "2": torch.tensor([10.0, 20, 30, 40, 50, 60]),
        "3": torch.tensor([100.0, 200, 300, 400, 500, 600, 700]),
        "4": torch.tensor([1000.0, 2000]),
    }
    sums = {"J1": [1011.0, 2022.0], "J2": [133.0, 244.0, 355.0, 466.0], "J3": [507.0, 608.0, 709.0]}
    size = {"J1": 3, "J2": 3, "J3": 2}
    for name, total in sums.items():
        mean = structure.average(name, values)
        torch.testing.assert_close(mean, torch.tensor(total) / size[name])
        torch.testing.assert_close(
            structure.average(name, values, variances=True), torch.tensor(total) / size[name] ** 2
        )


def random_structure(generator: np.random.Generator) -> tuple[PartitionStructure, dict[str, list[list[Any]]]]:
    """Two blocks over three families, segments shared at will; and J_k as (family, expert, start) by loops."""
    shapes = {"x": (3, 2, 2), "y": (4, 3)}
    families = {
        "short": Experts(torch.Size([2, 2])),
        "long": Experts(torch.Size([2, 3, 8]), ((0, 2), (2, 5), (5, 8))),
        "other": Experts(torch.Size([5]), ((0, 3), (3, 5))),
    }
    links: dict[str, list[Link]] = {}
    sets: dict[str, list[list[Any]]] = {}
    for name, shape in shapes.items():
        batch = torch.Size(shape[:-1])
        links[name], sets[name] = [], [[] for _ in range(batch.numel())]
        fitting = [
            (family, j, start)
            for family, e in families.items()
            for j, (start, stop) in enumerate(e.segments)
            if stop - start == shape[-1]
        ]
        for n, (family, j, start) in enumerate(fitting):
            least = 0 if n == 0 else -1
            index = torch.tensor(generator.integers(least, families[family].count, size=batch.numel()))
            links[name].append(Link(family, index.reshape(batch), j))
            for k, expert in enumerate(index.tolist()):
                if expert >= 0:
                    sets[name][k].append((family, expert, start))
    return PartitionStructure({n: Block(torch.Size(s)) for n, s in shapes.items()}, families, links), sets


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_mixtures_by_loops(seed: int, batch: tuple[int, ...]) -> None:
    structure, sets = random_structure(np.random.default_rng(seed))
    values = {name: torch.rand(*batch, *e.shape) for name, e in structure.experts.items()}
    tables = {name: v.reshape(-1, *structure.experts[name].shape).numpy() for name, v in values.items()}
    for name, block in structure.blocks.items():
        size = block.shape[-1]
        for variances in (False, True):
            mixed = structure.average(name, values, variances=variances)
            assert mixed.shape == (*batch, *block.shape)
            rows = mixed.reshape(-1, len(sets[name]), size)
            for l in range(len(rows)):
                for k, members in enumerate(sets[name]):
                    assert int(structure.sizes(name).reshape(-1)[k]) == len(members)
                    total = np.zeros(size)
                    for family, expert, start in members:
                        flat = tables[family][l].reshape(-1, structure.experts[family].length)
                        total += flat[expert, start : start + size]
                    expected = total / len(members) ** (2 if variances else 1)
                    np.testing.assert_allclose(rows[l, k].numpy(), expected, rtol=1e-12)


def test_mixtures_are_differentiable() -> None:
    structure, _ = random_structure(np.random.default_rng(0))
    values = [torch.rand(2, *e.shape, requires_grad=True) for e in structure.experts.values()]

    def mixed(*tensors: Tensor) -> Tensor:
        by_name = dict(zip(structure.experts, tensors, strict=True))
        return torch.cat([structure.average(name, by_name).reshape(-1) for name in structure.blocks])

    assert torch.autograd.gradcheck(mixed, values)


def test_expanded_values_are_mixed_once() -> None:
    """Batch dimensions of stride 0 cost no memory, and mean the same, to the gradient too."""
    structure, _ = random_structure(np.random.default_rng(1))
    base = {name: torch.rand(e.shape, requires_grad=True) for name, e in structure.experts.items()}
    expanded = {name: v.expand(1000, 3, *v.shape) for name, v in base.items()}
    for name, block in structure.blocks.items():
        mixed = structure.average(name, expanded)
        assert mixed.shape == (1000, 3, *block.shape)
        assert mixed.untyped_storage().nbytes() == 8 * block.shape.numel()
        plain = structure.average(name, {n: v.contiguous() for n, v in expanded.items()})
        assert plain.untyped_storage().nbytes() == 8 * 3000 * block.shape.numel()
        assert torch.equal(mixed, plain)
        factor = torch.rand(1000, 3, *block.shape)
        gradients = [
            torch.autograd.grad((m * factor).sum(), list(base.values()), allow_unused=True) for m in (mixed, plain)
        ]
        for one, other in zip(*gradients, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(one, other)


def test_some_expanded_and_some_not() -> None:
    structure = PartitionStructure.from_sets({"a": [[0, 1]], "b": [[0, 1]]}, {"x": [("a", 0), ("b", 0)]})
    a, b = torch.rand(2), torch.rand(5, 2)
    mixed = structure.average("x", {"a": a.expand(5, 2), "b": b})
    torch.testing.assert_close(mixed, (a + b) / 2)
    assert structure.average("x", {"a": a.expand(0, 2), "b": a.expand(0, 2)}).shape == (0, 2)


def test_untied() -> None:
    structure = PartitionStructure.untied({"root": Block(torch.Size([3])), "attach": (3, 2, 3)})
    assert {n: tuple(e.shape) for n, e in structure.experts.items()} == {"root": (3,), "attach": (3, 2, 3)}
    assert structure.sizes("root").shape == () and structure.sizes("attach").tolist() == [[1, 1]] * 3
    values = {"root": torch.rand(7, 3), "attach": torch.rand(7, 3, 2, 3)}
    for name, value in values.items():
        assert torch.equal(structure.average(name, values), value)
        assert torch.equal(structure.average(name, values, variances=True), value)


def test_sizes_are_a_copy() -> None:
    structure = PartitionStructure.untied({"x": (3, 2)})
    structure.sizes("x").zero_()
    assert structure.sizes("x").tolist() == [1, 1, 1]


def build(**changed: Any) -> PartitionStructure:
    arguments: dict[str, Any] = {
        "blocks": {"x": (3, 2)},
        "experts": {"own": Experts(torch.Size([3, 2])), "long": Experts(torch.Size([5]), ((0, 2), (2, 5)))},
        "links": {"x": [Link("own", torch.arange(3)), Link("long", torch.tensor([0, -1, 0]))]},
    }
    return PartitionStructure(**{**arguments, **changed})


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({}, r"links must be given for the blocks \['x'\], not for \[\]"),
        ({"x": [Link("no", torch.arange(3))]}, "block 'x' is linked to experts 'no'"),
        ({"x": [Link("long", torch.zeros(3).long(), 2)]}, "segment 2 of experts 'long', which have 2 segments"),
        ({"x": [Link("long", torch.zeros(3).long(), 1)]}, "experts 'long' has 3 coordinates, but .* 'x' have 2 events"),
        ({"x": [Link("own", torch.arange(2))]}, r"block 'x' to experts 'own' .* shape \(3,\), not .* shape \(2,\)"),
        ({"x": [Link("own", torch.zeros(3))]}, "needs an index of whole numbers"),
        ({"x": [Link("own", torch.tensor([0, 1, 3]))]}, r"needs an index in -1..2, not 0..3"),
        ({"x": [Link("own", torch.tensor([0, 1, -2]))]}, r"needs an index in -1..2, not -2..1"),
        ({"x": [Link("own", torch.tensor([0, -1, 2]))]}, r"multinomial \(1,\) of block 'x' has no expert"),
        ({"x": []}, r"multinomial \(0,\) of block 'x' has no expert"),
        (
            {"x": [Link("own", torch.arange(3)), Link("own", torch.tensor([1, 1, 0]))]},
            r"segment 0 of experts 'own' is linked twice to multinomial \(1,\) of block 'x'",
        ),
    ],
)
def test_wrong_links(links: Any, message: str) -> None:
    build()
    with pytest.raises(ValueError, match=message):
        build(links=links)


def test_wrong_experts_and_sets() -> None:
    for segments in (((0, 2),), ((0, 2), (3, 5)), ((2, 5), (0, 2)), ((0, 2), (2, 2), (2, 5)), ((0, 3), (2, 5))):
        with pytest.raises(ValueError, match=r"segments must partition 0\.\.5 in order"):
            Experts(torch.Size([4, 5]), segments)
    for shape in ((), (0, 2), (2, 0)):
        with pytest.raises(ValueError, match="experts must have shape"):
            Experts(torch.Size(shape))
    with pytest.raises(ValueError, match=r"segment of expert 'a' is \[0, 2\], not consecutive"):
        PartitionStructure.from_sets({"a": [[0, 2], [1]]}, {"x": [("a", 0)]})
    with pytest.raises(ValueError, match="expert 'a' is \\[\\], not consecutive"):
        PartitionStructure.from_sets({"a": [[], [0]]}, {"x": [("a", 0)]})
    with pytest.raises(ValueError, match="block 'x' is linked to experts 'b'"):
        PartitionStructure.from_sets({"a": [[0, 1]]}, {"x": [("b", 0)]})
    with pytest.raises(ValueError, match="experts 'a' has 3 coordinates, but the multinomials of block 'x' have 2"):
        PartitionStructure.from_sets({"a": [[0, 1], [2, 3, 4]]}, {"x": [("a", 0), ("a", 1)]})
    with pytest.raises(ValueError, match="block 'x' has no expert"):
        PartitionStructure.from_sets({"a": [[0, 1]]}, {"x": []})


def test_wrong_values() -> None:
    structure = build()
    with pytest.raises(ValueError, match=r"values lacks experts 'long' of shape \(5,\)"):
        structure.average("x", {"own": torch.zeros(3, 2)})
    with pytest.raises(ValueError, match=r"values\['own'\] must have shape \(..., 3, 2\), not \(2, 3\)"):
        structure.average("x", {"own": torch.zeros(2, 3), "long": torch.zeros(5)})


# ---------------------------------------------------------------- where tying starts

TIED = PartitionStructure(
    {"x": (3, 2), "z": (2,)},
    {
        "x": Experts(torch.Size([3, 2])),
        "z": Experts(torch.Size([2])),
        "both": Experts(torch.Size([2, 2])),
        "long": Experts(torch.Size([4]), ((0, 2), (2, 4))),
    },
    {
        "x": [
            Link("x", torch.arange(3)),
            Link("both", torch.tensor([0, 0, 1])),
            Link("long", torch.tensor([0, -1, -1]), 1),
        ],
        "z": [Link("z", torch.tensor(0)), Link("both", torch.tensor(0))],
    },
)
MU = {
    "x": torch.tensor([[1.0, 2.0], [3.0, 5.0], [-4.0, 0.5]], dtype=torch.float64),
    "z": torch.tensor([2.0, -1.0], dtype=torch.float64),
}


def spread(diagonal: bool) -> dict[str, Gaussian]:
    if diagonal:
        return {name: Gaussian(mu, variance=torch.full((2,), 0.3)) for name, mu in MU.items()}
    return {name: Gaussian(mu, torch.tensor([[2.0, 0.5], [0.5, 1.0]])) for name, mu in MU.items()}


@pytest.mark.parametrize("diagonal", [False, True])
def test_tied_start(diagonal: bool) -> None:
    untied = spread(diagonal)
    start = TIED.tied_start(untied)
    # Of family "both", expert 0 is in the first two multinomials of x and in z, expert 1 in the third.
    torch.testing.assert_close(start["both"].loc, torch.tensor([[2.0, 2.0], [-4.0, 0.5]]))
    torch.testing.assert_close(start["long"].loc, torch.tensor([0.0, 0.0, 1.0, 2.0]))
    torch.testing.assert_close(start["x"].loc, torch.tensor([[0.0, 2.0], [4.0, 8.0], [-4.0, 0.5]]))
    torch.testing.assert_close(start["z"].loc, torch.tensor([2.0, -4.0]))
    for name, mu in MU.items():
        torch.testing.assert_close(TIED.average(name, {n: g.loc for n, g in start.items()}), mu)
        for kind in ("covariance", "variance"):
            assert (getattr(start[name], kind) is None) == (getattr(untied[name], kind) is None)
    if diagonal:
        assert torch.equal(start["x"].variance, torch.full((2,), 0.3))  # type: ignore[arg-type]
        assert torch.equal(start["long"].variance, torch.ones(4))  # type: ignore[arg-type]
    else:
        assert torch.equal(start["x"].covariance, torch.tensor([[2.0, 0.5], [0.5, 1.0]]))  # type: ignore[arg-type]
        assert torch.equal(start["long"].covariance, torch.eye(4))  # type: ignore[arg-type]


def test_tied_start_with_covariances() -> None:
    matrix = torch.eye(2) * 3 + 0.5
    assert torch.equal(TIED.tied_start(spread(False), {"both": matrix})["both"].covariance, matrix)  # type: ignore[arg-type]
    start = TIED.tied_start(spread(True), {"both": matrix})
    assert torch.equal(start["both"].variance, torch.tensor([3.5, 3.5]))  # type: ignore[arg-type]


def test_tied_start_leaves_its_arguments_alone() -> None:
    mu = {name: m.clone().requires_grad_() for name, m in MU.items()}
    start = TIED.tied_start({n: Gaussian(m, variance=torch.ones(2, requires_grad=True)) for n, m in mu.items()})
    assert not any(g.loc.requires_grad or g.variance.requires_grad for g in start.values())  # type: ignore[union-attr]
    assert all(torch.equal(m.detach(), MU[name]) for name, m in mu.items())


def test_tied_start_broadcasts() -> None:
    start = TIED.tied_start({name: Gaussian(torch.tensor(2.0), variance=torch.ones(())) for name in MU})
    assert start["x"].loc.shape == (3, 2) and bool((start["both"].loc == 2).all())


def test_tied_start_refuses() -> None:
    with pytest.raises(ValueError, match="block 'J1' needs experts of its own"):
        PartitionStructure.from_sets(EXPERTS, MULTINOMIALS).tied_start({})
    with pytest.raises(ValueError, match="experts lacks those of block 'z'"):
        TIED.tied_start({"x": spread(True)["x"]})


def language(size: int, members: list[int]) -> PartitionStructure:
    index = torch.tensor(members) - 1
    return PartitionStructure(
        {"x": (len(members), size)},
        {"x": Experts(torch.Size([len(members), size])), "x.verb": Experts(torch.Size([size]))},
        {"x": [Link("x", torch.arange(len(members))), Link("x.verb", index)]},
    )


def test_two_languages_share_the_mean_over_both() -> None:
    structures = {"a": language(2, [1, 1, 0]), "b": language(2, [0, 1])}
    mu = {"a": MU["x"], "b": torch.tensor([[9.0, 9.0], [8.0, 5.0]])}
    untied = {l: {"x": Gaussian(m, torch.eye(2))} for l, m in mu.items()}
    matrices = {"a": {"x.verb": 2 * torch.eye(2)}, "b": {"x.verb": 3 * torch.eye(2)}}
    start = tied_starts(structures, untied, matrices)
    for l, m in mu.items():
        torch.testing.assert_close(start[l]["x.verb"].loc, torch.tensor([4.0, 4.0]))
        assert torch.equal(start[l]["x.verb"].covariance, 2 * torch.eye(2))  # type: ignore[arg-type]
        torch.testing.assert_close(structures[l].average("x", {n: g.loc for n, g in start[l].items()}), m)
    apart = tied_starts(structures, untied, matrices, shared=[])
    torch.testing.assert_close(apart["a"]["x.verb"].loc, torch.tensor([2.0, 3.5]))
    torch.testing.assert_close(apart["b"]["x.verb"].loc, torch.tensor([8.0, 5.0]))
    assert torch.equal(apart["b"]["x.verb"].covariance, 3 * torch.eye(2))  # type: ignore[arg-type]


def test_different_alphabets_are_not_shared_in_silence() -> None:
    structures = {"a": language(2, [1, 1]), "b": language(3, [0, 1])}
    untied = {l: {"x": Gaussian(torch.zeros(()), torch.eye(s.blocks["x"].shape[-1]))} for l, s in structures.items()}
    with pytest.raises(ValueError, match=r"experts 'x.verb' have shape \(2,\) in 'a' and \(3,\) in 'b'"):
        tied_starts(structures, untied)
    assert tied_starts(structures, untied, shared=[])["b"]["x.verb"].loc.shape == (3,)
    with pytest.raises(ValueError, match="there are no experts 'y.verb' to share"):
        tied_starts(structures, untied, shared=["y.verb"])
