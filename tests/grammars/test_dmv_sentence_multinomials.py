# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The DMV with weights of its own for every sentence, against dense weights (lists of trees: test_listed_grammars)."""

import pytest
import torch

from pyrogram import DMV
from pyrogram.grammar import SentenceMultinomials

GRAMMARS = [DMV(3), DMV(3, valence_attach=True), DMV(3, num_valences=1), DMV(3, valence_attach=True, num_valences=3)]
both = pytest.mark.parametrize("grammar", GRAMMARS, ids=repr)


def sentences(num_tags, lengths):
    """Random words."""
    words = torch.full((len(lengths), max(lengths)), -1)
    for row, length in zip(words, lengths, strict=True):
        row[:length] = torch.randint(num_tags, (length,))
    return words


def dense_weights(grammar, batch, kind="normalised"):
    """Log weights of a grammar for each of ``batch`` sentences."""
    weights = {n: block.normalize(0.1 + torch.rand(batch, *block.shape)) for n, block in grammar.blocks.items()}
    if kind == "sub-normalised":
        weights = {n: w * torch.rand(w.shape) for n, w in weights.items()}
    logs = {n: w.log() for n, w in weights.items()}
    if kind == "forbidden":
        logs = {n: w.masked_fill(torch.rand(w.shape) < 0.15, -torch.inf) for n, w in logs.items()}
    return logs


def pick(rows, dense):
    """The rows of dense log weights (N, *block.shape)."""
    return {
        name: w.reshape(len(w), -1, w.shape[-1])[rows.sentence[name], rows.multinomial[name]]
        for name, w in dense.items()
    }


def put(rows, grammar, values):
    """Rows as dense tensors (N, *block.shape), zero elsewhere."""
    full = {}
    for name, block in grammar.blocks.items():
        empty = torch.zeros(len(rows.words), block.shape[:-1].numel(), block.shape[-1], dtype=values[name].dtype)
        placed = empty.index_put((rows.sentence[name], rows.multinomial[name]), values[name])
        full[name] = placed.reshape(-1, *block.shape)
    return full


def batched(grammar, dense, words):
    """log Z and its gradient under dense weights."""
    leaves = {name: w.clone().requires_grad_() for name, w in dense.items()}
    log_z = grammar.log_partition(leaves, words)
    gradients = torch.autograd.grad(log_z.sum(), list(leaves.values()))
    return log_z.detach(), dict(zip(leaves, gradients, strict=True))


def assert_same(found, expected, **tolerance):
    torch.testing.assert_close(found[0], expected[0], **tolerance)
    for name, value in expected[1].items():
        torch.testing.assert_close(found[1][name], value, **tolerance)


@both
def test_the_rows_are_the_heads_that_occur(grammar):
    rows = grammar.sentence_multinomials(torch.tensor([[2, 0, 2], [1, -1, -1]]))
    assert rows.sentence["root"].tolist() == [0, 1]
    assert rows.multinomial["root"].tolist() == [0, 0]
    S = grammar.num_valences
    per_head = {"attach": 2 * S if grammar.valence_attach else 2, "stop": 2 * S}
    for name, k in per_head.items():
        assert rows.sentence[name].tolist() == [0] * 2 * k + [1] * k
        assert rows.multinomial[name].tolist() == [tag * k + i for tag in (0, 2, 1) for i in range(k)]


@pytest.mark.one_in(12)
@both
@pytest.mark.parametrize("kind", ["normalised", "sub-normalised", "forbidden"])
def test_dense_weights_give_the_same(grammar, kind):
    words = sentences(3, [*range(1, 26), 60, 60, 41, 12, 13, 14])
    dense = dense_weights(grammar, len(words), kind)
    rows = grammar.sentence_multinomials(words)
    log_z, counts = rows.expected_counts(pick(rows, dense))
    assert_same((log_z, put(rows, grammar, counts)), batched(grammar, dense, words), rtol=1e-9, atol=1e-10)


@pytest.mark.one_in(6)
@both
def test_long_sentences_of_sharp_weights(grammar):
    words = sentences(3, [60, 60, 33, 60, 3])
    dense = {name: 60 * w for name, w in dense_weights(grammar, len(words)).items()}
    dense["stop"][0] *= 10
    rows = grammar.sentence_multinomials(words)
    log_weights = pick(rows, dense)
    log_z, counts = rows.expected_counts(log_weights)
    assert log_z.isfinite().all()
    assert_same((log_z, put(rows, grammar, counts)), batched(grammar, dense, words), rtol=1e-8, atol=1e-8)
    for b, length in enumerate((words >= 0).sum(1).tolist()):  # every word is chosen once and stops twice
        own = {name: counts[name][rows.sentence[name] == b].sum(0) for name in counts}
        assert float(own["root"].sum()) == pytest.approx(1.0)
        assert float(own["attach"].sum()) == pytest.approx(length - 1.0)
        assert own["stop"].tolist() == pytest.approx([length - 1.0, 2.0 * length])


@both
def test_small_weights_scale_out(grammar):
    """exp(-800) is no number in float64; a factor common to all events of a block counts once for each event."""
    words = sentences(3, [60, 1, 7, 18])
    rows = grammar.sentence_multinomials(words)
    log_weights = pick(rows, dense_weights(grammar, len(words)))
    log_z, counts = rows.expected_counts(log_weights)
    lengths = (words >= 0).sum(1)
    events_of = {"root": 1 + 0 * lengths, "attach": lengths - 1, "stop": 3 * lengths - 1}
    for name, number in events_of.items():
        shifted = {**log_weights, name: log_weights[name] - 800}
        expected = log_z - 800 * number, counts
        assert_same(rows.expected_counts(shifted), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.one_in(2)
@both
def test_some_sentences(grammar):
    words = sentences(3, [3, 1, 14, 5, 8, 2, 9, 30, 4, 4, 4])
    rows = grammar.sentence_multinomials(words)
    log_weights = pick(rows, dense_weights(grammar, len(words)))
    hostile = rows.sentence["stop"] == 7
    log_weights["stop"][hostile] = 500 * torch.randn(int(hostile.sum()), 2)
    log_z, counts = rows.expected_counts(log_weights)
    for wanted in ([0, 2, 3, 7, 10], [7], [1, 5], []):
        wanted = torch.tensor(wanted, dtype=torch.long)
        chosen = torch.zeros(len(words)).index_fill(0, wanted, 1.0)
        own = {name: c * chosen[rows.sentence[name]][:, None] for name, c in counts.items()}
        assert_same(rows.expected_counts(log_weights, wanted), (log_z * chosen, own), rtol=1e-10, atol=1e-10)


@pytest.mark.one_in(7)
@both
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_counts_of_an_earlier_call_are_written_over(grammar, dtype):
    words = sentences(3, [3, 1, 14, 5, 8, 2])
    rows = grammar.sentence_multinomials(words)
    log_weights = pick(rows, dense_weights(grammar, len(words), "forbidden"))
    other = pick(rows, dense_weights(grammar, len(words)))
    wanted, old, new = torch.tensor([0, 2, 5]), rows.expected_counts(other)[1], rows.expected_counts(log_weights)
    for compute in (rows.expected_counts, lambda *given: SentenceMultinomials.expected_counts(rows, *given)):
        out = {name: c.to(dtype, copy=True) for name, c in old.items()}
        log_z, counts = compute(log_weights, wanted, out)
        torch.testing.assert_close(log_z[wanted], new[0][wanted])
        assert log_z[[1, 3, 4]].tolist() == [0, 0, 0]
        for name, c in counts.items():
            assert c is out[name]
            chosen = torch.isin(rows.sentence[name], wanted)[:, None]
            tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {}
            torch.testing.assert_close(c.double(), torch.where(chosen, new[1][name], old[name]), **tolerance)
    with pytest.raises(ValueError, match=r"out\['root'\] must be contiguous and have shape \(6, 3\), but is \(5, 3\)"):
        rows.expected_counts(log_weights, wanted, {**old, "root": old["root"][1:]})
    with pytest.raises(ValueError, match=r"out\['root'\] must be contiguous"):
        rows.expected_counts(log_weights, wanted, {**old, "root": old["root"].repeat(1, 2)[:, ::2]})


@both
def test_the_same_on_any_number_of_threads(grammar):
    words = sentences(3, torch.randint(1, 25, (700,)).tolist())
    rows = grammar.sentence_multinomials(words)
    log_weights = pick(rows, dense_weights(grammar, len(words), "forbidden"))
    threads = torch.get_num_threads()
    results = []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            results.append(rows.expected_counts(log_weights))
    finally:
        torch.set_num_threads(threads)
    for log_z, counts in results[1:]:
        assert log_z.equal(results[0][0])
        assert all(counts[name].equal(results[0][1][name]) for name in counts)


def test_memory_is_linear_in_what_occurs():
    """Of 3,000 tags each sentence has two: dense weights would take 7 TB. One sentence is left to log space."""
    grammar = DMV(3000)
    words = torch.stack([torch.arange(0, 100), torch.arange(1000, 1100), torch.arange(0, 100)], -1)
    rows = grammar.sentence_multinomials(words)
    assert {name: len(own) for name, own in rows.sentence.items()} == {"root": 100, "attach": 400, "stop": 800}
    log_weights = {name: torch.randn(len(own), grammar.blocks[name].shape[-1]) for name, own in rows.sentence.items()}
    log_weights["root"][3] = -torch.inf
    log_z, counts = rows.expected_counts(log_weights)
    assert log_z.isfinite().tolist() == [b != 3 for b in range(100)]
    small = DMV(2).sentence_multinomials(torch.tensor([[0, 1, 0]] * 100))
    own = torch.stack([torch.arange(0, 100), torch.arange(1000, 1100)], -1)  # the two tags by their own names
    few = {n: t.gather(1, own[small.sentence[n]]) if n != "stop" else t for n, t in log_weights.items()}
    expected_log_z, expected = small.expected_counts(few)
    torch.testing.assert_close(log_z, expected_log_z)
    for name, value in expected.items():
        found = counts[name] if name == "stop" else counts[name].gather(1, own[small.sentence[name]])
        torch.testing.assert_close(found, value)
        torch.testing.assert_close(counts[name].sum(), value.sum())


@pytest.mark.one_in(6)
@both
def test_every_way_gives_the_same(grammar, monkeypatch):
    """Dense weights, scores from rows, and the compiled pass; a few sentences at a time; with the torch engine."""
    words = sentences(3, [3, 1, 6, 5, 4, 2])
    rows, all_rows = grammar.sentence_multinomials(words), SentenceMultinomials(grammar, words)
    dense = dense_weights(grammar, len(words), "forbidden")
    log_weights = pick(rows, dense)
    compiled = rows.expected_counts(log_weights)
    full = compiled[0], put(rows, grammar, compiled[1])
    for chunk in (2**22, 1000, 1):
        monkeypatch.setattr(SentenceMultinomials, "CHUNK", chunk)
        assert_same(SentenceMultinomials.expected_counts(rows, log_weights), compiled)
        log_z, counts = all_rows.expected_counts(pick(all_rows, dense))
        assert_same((log_z, put(all_rows, grammar, counts)), full)
        some = torch.tensor([1, 2, 5])
        log_z, counts = rows.expected_counts(log_weights, some)
        assert_same(SentenceMultinomials.expected_counts(rows, log_weights, some), (log_z, counts))
        dense_log_z, dense_counts = all_rows.expected_counts(pick(all_rows, dense), some)
        assert_same((dense_log_z, put(all_rows, grammar, dense_counts)), (log_z, put(rows, grammar, counts)))


@both
def test_dtypes_gradients_and_inputs(grammar):
    words = sentences(3, [3, 12, 6])
    rows = grammar.sentence_multinomials(words.int())
    log_weights = pick(rows, dense_weights(grammar, len(words)))
    exact = rows.expected_counts(log_weights)
    singles = {name: t.float().requires_grad_() for name, t in log_weights.items()}
    singles["root"].data[1] = -torch.inf
    before = {name: t.detach().clone() for name, t in singles.items()}
    log_z, counts = rows.expected_counts(singles)
    assert log_z.dtype == torch.float32 and log_z[1] == -torch.inf
    assert not log_z.requires_grad
    torch.testing.assert_close(log_z[[0, 2]].double(), exact[0][[0, 2]], rtol=1e-6, atol=1e-6)
    for name, c in counts.items():
        assert c.dtype == torch.float32 and not c.requires_grad
        expected = exact[1][name] * (rows.sentence[name] != 1)[:, None]
        torch.testing.assert_close(c.double(), expected, rtol=1e-5, atol=1e-6)
        assert singles[name].equal(before[name])


@both
def test_no_number_stays_with_its_sentence(grammar):
    words = sentences(3, [4, 5, 6])
    rows = grammar.sentence_multinomials(words)
    log_weights = pick(rows, dense_weights(grammar, 3))
    exact = rows.expected_counts(log_weights)
    log_weights["root"][1] = torch.nan
    log_z, counts = rows.expected_counts(log_weights)
    assert log_z.isnan().tolist() == [False, True, False]
    torch.testing.assert_close(log_z[[0, 2]], exact[0][[0, 2]])
    for name, c in counts.items():
        others = rows.sentence[name] != 1
        torch.testing.assert_close(c[others], exact[1][name][others])


def test_no_sentences():
    rows = DMV(2).sentence_multinomials(torch.empty(0, 5, dtype=torch.long))
    log_z, counts = rows.expected_counts(
        {"root": torch.empty(0, 2), "attach": torch.empty(0, 2), "stop": torch.empty(0, 2)}
    )
    assert log_z.shape == (0,) and all(c.shape == (0, 2) for c in counts.values())


def test_errors():
    grammar = DMV(2)
    words = torch.tensor([[0, 1], [1, -1]])
    rows = grammar.sentence_multinomials(words)
    log_weights = {name: torch.zeros(len(own), 2) for name, own in rows.sentence.items()}
    with pytest.raises(ValueError, match=r"log_weights lacks block 'stop' of shape \(12, 2\)"):
        rows.expected_counts({name: t for name, t in log_weights.items() if name != "stop"})
    with pytest.raises(ValueError, match=r"log_weights\['attach'\] must have shape \(6, 2\), not \(5, 2\)"):
        rows.expected_counts({**log_weights, "attach": log_weights["attach"][1:]})
    for wrong in ([0, 2], [-1], [1, 0], [1, 1]):
        with pytest.raises(ValueError, match=r"sentences must be increasing indices in 0\.\.1, not"):
            rows.expected_counts(log_weights, torch.tensor(wrong))
    with pytest.raises(ValueError, match=r"but sentence 1 is \[-1, -1\]"):
        grammar.sentence_multinomials(torch.tensor([[0, 1], [-1, -1]]))
    with pytest.raises(ValueError, match=r"words must be one or more of 0\.\.1"):
        grammar.sentence_multinomials(torch.tensor([[0, 2]]))
    for make in (grammar.sentence_multinomials, lambda w: SentenceMultinomials(grammar, w)):
        with pytest.raises(ValueError, match=r"words must have shape \(N, n\), one row for each sentence, not \(2,\)"):
            make(words[0])
