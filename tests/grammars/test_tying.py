# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which weights are tied, read off the mixtures: which experts' coordinates each multinomial depends on, by loops."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from pyrogram import DMV
from pyrogram.data import FAMILIES, tag_families
from pyrogram.distributions import Gaussian, PartitionStructure
from pyrogram.grammars import TIES, family_covariance, start_covariances, tie

#                      0       1        2         3         4             5
TAGS = ("verb", "proper", "verb", "adjective", "noun", "determiner")
V = len(TAGS)
GROUPS = {"verb": [0, 2], "noun": [1, 4], "adjective": [3]}

both = pytest.mark.parametrize("valence_attach", [False, True])


def numbered(structure: PartitionStructure) -> dict[str, Tensor]:
    """A value of its own for every coordinate of every expert."""
    values, first = {}, 0.0
    for name, e in structure.experts.items():
        values[name] = first + torch.arange(float(e.shape.numel())).reshape(e.shape)
        first += e.shape.numel()
    return values


def expected_mixture(values: Mapping[str, Tensor], block: str, groups: list[str], covariance: bool) -> Tensor:
    """Mean of the own expert and of those of the head's groups, multinomial by multinomial."""
    mixed = values[block].clone()
    size = mixed.shape[-1]
    for head in range(V):
        for rest in torch.cartesian_prod(*map(torch.arange, mixed.shape[1:-1])).reshape(-1, mixed.dim() - 2).tolist():
            members = [values[block][(head, *rest)]]
            for group in groups:
                if head in GROUPS[group]:
                    shared = values[f"{block}.{group}"][tuple(rest)]
                    if covariance:
                        j = GROUPS[group].index(head)
                        shared = shared[j * size : (j + 1) * size]
                    members.append(shared)
            mixed[(head, *rest)] = torch.stack(members).mean(0)
    return mixed


@both
@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("tied", ["V", "N", "A", "V&N", "V & N & A"])
def test_what_is_tied(tied: str, covariance: bool, valence_attach: bool) -> None:
    grammar = DMV(V, valence_attach=valence_attach)
    structure = tie(grammar, TAGS, tied, covariance=covariance)
    groups = [TIES[letter.strip()][0] for letter in tied.split("&")]
    assert set(structure.experts) == {*grammar.blocks, *(f"{b}.{g}" for b in ("attach", "stop") for g in groups)}
    assert structure.blocks == dict(grammar.blocks)
    values = numbered(structure)
    for block in ("attach", "stop"):
        torch.testing.assert_close(
            structure.average(block, values), expected_mixture(values, block, groups, covariance), rtol=0, atol=1e-9
        )
    assert torch.equal(structure.average("root", values), values["root"])


def test_shapes_of_shared_experts() -> None:
    """For each direction one expert of attachments, for each direction and valence one of stops."""
    shapes = {n: tuple(e.shape) for n, e in tie(DMV(V), TAGS, "V").experts.items()}
    assert (shapes["attach.verb"], shapes["stop.verb"]) == ((2, V), (2, 2, 2))
    shapes = {n: tuple(e.shape) for n, e in tie(DMV(V, valence_attach=True), TAGS, "V").experts.items()}
    assert (shapes["attach.verb"], shapes["stop.verb"]) == ((2, 2, V), (2, 2, 2))
    structure = tie(DMV(V), TAGS, "V", covariance=True)
    assert structure.experts["attach.verb"].shape == (2, 2 * V)
    assert structure.experts["stop.verb"].segments == ((0, 2), (2, 4))


def test_families_are_those_of_the_data_layer() -> None:
    for _, families in TIES.values():
        assert families <= set(FAMILIES)
    tags = sorted(tag_families("universal"))
    structure = tie(DMV(len(tags)), [tag_families("universal")[t] for t in tags], "V&N&A")
    tied = {tags[h] for h in range(len(tags)) if int(structure.sizes("attach")[h, 0]) > 1}
    assert tied == {"VERB", "AUX", "NOUN", "PROPN", "ADJ"}


def test_ties_and_blocks_of_ones_own() -> None:
    structure = tie(DMV(V), TAGS, {"content": ["verb", "noun"], "all": set(TAGS)}, blocks=["stop"])
    assert set(structure.experts) == {"root", "attach", "stop", "stop.content", "stop.all"}
    assert structure.sizes("stop")[:, 0, 0].tolist() == [3, 2, 3, 2, 3, 2]
    assert structure.sizes("attach").unique().tolist() == [1]
    by_blocks = tie(DMV(V).blocks, TAGS, "V")
    assert repr(by_blocks) == repr(tie(DMV(V), TAGS, "V"))


def test_two_languages_can_share_stops() -> None:
    one, other = tie(DMV(V), TAGS, "V"), tie(DMV(3), ["noun", "verb", "verb"], "V")
    assert one.experts["stop.verb"] == other.experts["stop.verb"]
    assert one.experts["attach.verb"] != other.experts["attach.verb"]


@both
@pytest.mark.parametrize("covariance", [False, True])
def test_tied_start_keeps_the_grammar(covariance: bool, valence_attach: bool) -> None:
    grammar = DMV(V, valence_attach=valence_attach)
    structure = tie(grammar, TAGS, "V&N", covariance=covariance)
    untied = {n: Gaussian(torch.randn(b.shape), torch.eye(b.shape[-1])) for n, b in grammar.blocks.items()}
    start = structure.tied_start(untied, start_covariances(structure, TAGS))
    locs = {name: g.loc for name, g in start.items()}
    for name in grammar.blocks:
        torch.testing.assert_close(structure.average(name, locs), untied[name].loc)
    if not covariance:
        torch.testing.assert_close(locs["attach.verb"], untied["attach"].loc[[0, 2]].mean(0))
    for name, gaussian in start.items():
        gaussian.distribution(structure.experts[name].shape).sample()


def test_family_covariance() -> None:
    matrix = family_covariance(TAGS)
    for i in range(V):
        for j in range(V):
            assert float(matrix[i, j]) == (1.0 if i == j else 0.5 if TAGS[i] == TAGS[j] else 0.0)
    assert torch.equal(family_covariance(TAGS, 0), torch.eye(V))
    assert float(torch.linalg.eigvalsh(family_covariance(["verb"] * 5, 0.99)).min()) > 0


@both
def test_start_covariances(valence_attach: bool) -> None:
    structure = tie(DMV(V, valence_attach=valence_attach), TAGS, "V")
    matrices = start_covariances(structure, TAGS)
    for name, matrix in matrices.items():
        assert torch.equal(matrix, torch.eye(2) if name.startswith("stop") else family_covariance(TAGS))
    long = start_covariances(tie(DMV(V), TAGS, "V", covariance=True), TAGS, 0.4)
    for name, single in (("attach.verb", family_covariance(TAGS, 0.4)), ("stop.verb", torch.eye(2))):
        size = len(single)
        for j in range(2):
            for k in range(2):
                part = long[name][j * size : (j + 1) * size, k * size : (k + 1) * size]
                torch.testing.assert_close(part, single * (1.0 if j == k else 0.4))
        assert float(torch.linalg.eigvalsh(long[name]).min()) > 0


def test_two_tags_are_not_taken_for_stops() -> None:
    structure = tie(DMV(2), ["verb", "verb"], "V")
    matrices = start_covariances(structure, ["verb", "verb"])
    assert float(matrices["attach"][0, 1]) == 0.5 and float(matrices["stop"][0, 1]) == 0.0


def test_refusals() -> None:
    grammar = DMV(V)
    for wrong in ("X", "V&", "", "VN", "V,N"):
        with pytest.raises(ValueError, match=r"tied must be letters of \['V', 'N', 'A'\] joined by '&', not"):
            tie(grammar, TAGS, wrong)
    with pytest.raises(ValueError, match=r"no tag is of the families \['adjective'\] of tie 'adjective'"):
        tie(DMV(2), ["verb", "noun"], "V&A")
    with pytest.raises(ValueError, match=r"tied\['verb'\] must be a collection of families, not the text 'verb'"):
        tie(grammar, TAGS, {"verb": "verb"})
    with pytest.raises(ValueError, match=r"block 'attach' of shape \(6, 2, 6\) needs one family .* families has 5"):
        tie(grammar, TAGS[:5], "V")
    with pytest.raises(ValueError, match="there is no block 'stops' to tie"):
        tie(grammar, TAGS, "V", blocks=["stops"])
    with pytest.raises(ValueError, match="block 'root'"):
        tie(grammar, TAGS, "V", blocks=["root"])
    for within in (-0.1, 1.0):
        with pytest.raises(ValueError, match="within must be at least 0 and less than 1"):
            family_covariance(TAGS, within)
        with pytest.raises(ValueError, match="within must be at least 0 and less than 1"):
            start_covariances(tie(grammar, TAGS, "V"), TAGS, within)
    with pytest.raises(ValueError, match="experts 'root' have 6 coordinates a segment, but families has 5"):
        start_covariances(tie(grammar, TAGS, "V"), TAGS[:5])
    figure = PartitionStructure.from_sets({"a": [[0, 1], [2, 3, 4]]}, {"x": [("a", 0)]})
    with pytest.raises(ValueError, match="experts 'a' have segments of different lengths"):
        start_covariances(figure, TAGS)
