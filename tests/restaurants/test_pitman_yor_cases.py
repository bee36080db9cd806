# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Restaurants against special cases written down on their own, at the edges of the parameters, and as they grow."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from pyrogram.restaurants.restaurants import Restaurants

V = 4


def trigrams(number: int, seed: int = 0) -> tuple[list[Tensor], Tensor]:
    """Keys (nothing, last word, last two words) and words of a row of words."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.multinomial(torch.tensor([0.5, 0.3, 0.15, 0.05]), number + 2, True, generator=generator)
    return [torch.zeros_like(words[2:]), words[1:-1], words[1:-1] * V + words[:-2]], words[2:]


def made_of(paths: Any, keys: list[Tensor], values: Tensor, alpha: Tensor, epsilon: Tensor, **options: Any) -> Any:
    made = Restaurants(len(keys), options.pop("V", V), paths, **options)
    made.add(keys, values, alpha, epsilon, torch.Generator().manual_seed(0))
    return made


EVERYWHERE = [torch.zeros(16).long(), torch.arange(4).repeat_interleave(4), torch.arange(16)]


@pytest.mark.slow
def test_interpolated_kneser_ney() -> None:
    """Concentrations of zero and minimal paths: absolute discounting, with numbers of continuations further up.

    Chen and Goodman (1998), section 2.7: N1+(. w) counts the different contexts of a word, at every level above the
    finest.
    """
    keys, words = trigrams(300)
    D = [0.3, 0.5, 0.75]
    u, v = keys[2] % V, keys[1]
    tokens = list(zip(u.tolist(), v.tolist(), words.tolist(), strict=True))
    trigram = Counter(tokens)
    bigram = Counter((v, w) for _, v, w in trigram)  # of types: N1+(. v w)
    unigram = Counter(w for _, w in bigram)

    def discounted(counts: Counter[Any], lower: list[float], d: float) -> list[float]:
        total = sum(counts.values())
        if not total:
            return lower
        return [(max(counts[w] - d, 0) + d * len(counts) * lower[w]) / total for w in range(V)]

    wanted = []
    p0 = discounted(unigram, [1 / V] * V, D[0])
    for v_, u_ in ((i // V, i % V) for i in range(16)):
        p1 = discounted(Counter({w: n for (a, w), n in bigram.items() if a == v_}), p0, D[1])
        wanted.append(discounted(Counter({w: n for (b, a, w), n in trigram.items() if (b, a) == (u_, v_)}), p1, D[2]))
    made = made_of("minimal", keys, words, torch.zeros(3), torch.tensor(D))
    torch.testing.assert_close(made.predict_all(EVERYWHERE, torch.zeros(3), torch.tensor(D)), torch.tensor(wanted))


def test_interpolation_of_mackay_and_peto_and_eisner() -> None:
    """Discounts of zero and maximal paths: (n_hw + α P(w | rho(h))) / (n_h + α), with plain counts at every level."""
    keys, words = trigrams(200)
    alpha = torch.tensor([0.5, 3.0, 3.0])
    rows = torch.full((1, V), 1 / V)
    for l, number in enumerate((1, 4, 16)):
        counts = torch.zeros(number, V).index_put((keys[l], words), torch.tensor(1.0), accumulate=True)
        above = rows.repeat_interleave(number // len(rows), 0)
        rows = (counts + alpha[l] * above) / (counts.sum(1, keepdim=True) + alpha[l])
    made = made_of("maximal", keys, words, alpha, torch.zeros(3))
    torch.testing.assert_close(made.predict_all(EVERYWHERE, alpha, torch.zeros(3)), rows)


def test_one_level_without_discount_is_a_dirichlet() -> None:
    """Its joint, over all seatings, is the Dirichlet-multinomial's probability; predictions need no seats at all."""
    values = torch.tensor([0, 1, 0, 0, 2, 0])
    base, alpha, zero = torch.tensor([0.2, 0.5, 0.3]), torch.tensor([1.7]), torch.zeros(1)
    keys = [torch.tensor([7, 7, 7, 8, 8, 7])]
    made = Restaurants(1, 3, "exact", base=base)
    log_p = made.add(keys, values, alpha, zero)
    wanted = 0.0
    for key in (7, 8):
        n = torch.bincount(values[keys[0] == key], minlength=3)
        prior = alpha * base
        wanted += float(torch.lgamma(alpha) - torch.lgamma(alpha + n.sum()))
        wanted += float((torch.lgamma(prior + n) - torch.lgamma(prior)).sum())
    assert float(log_p.sum()) == pytest.approx(wanted)
    n = torch.bincount(values[keys[0] == 7], minlength=3)
    row = made.predict_all([torch.tensor([7])], alpha, zero)[0]
    torch.testing.assert_close(row, (n + alpha * base) / (n.sum() + alpha))


def rising(start: float, step: float, length: int) -> float:
    return sum(math.log(start + step * t) for t in range(length))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("alpha", [-0.299, -0.1, 0.0, 1e-9, 2.5, 1e4, 1e9])
@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-7, 0.003, 0.3, 0.999])
@pytest.mark.parametrize("paths", ["minimal", "maximal"])
def test_joint_of_large_counts(alpha: float, epsilon: float, paths: Any) -> None:
    if alpha <= -epsilon:
        alpha = -epsilon / 2 if epsilon else 0.1
    sizes = [1, 2, 31, 32, 33, 34, 35, 400, 5000]
    values = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    a, e = torch.tensor([alpha]), torch.tensor([epsilon])
    made = made_of(paths, [torch.zeros_like(values)], values, a, e, V=len(sizes))
    C, T = sum(sizes), len(sizes) if paths == "minimal" else sum(sizes)
    wanted = rising(alpha + epsilon, epsilon, T - 1) - rising(alpha + 1, 1, C - 1) - T * math.log(len(sizes))
    if paths == "minimal":
        wanted += sum(rising(1 - epsilon, 1, n - 1) for n in sizes)
    assert float(made.log_joint(a, e)) == pytest.approx(wanted, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("paths", ["minimal", "maximal", "exact"])
@pytest.mark.parametrize("epsilon", [[1e-4, 0.2], [0.6, 0.95]])
def test_gradient_of_the_joint(paths: Any, epsilon: list[float]) -> None:
    keys, words = trigrams(400)
    a, e = torch.tensor([0.05 - epsilon[0] / 2, 3.0]), torch.tensor(epsilon)
    made = made_of(paths, keys[:2], words, a, e)
    assert torch.autograd.gradcheck(made.log_joint, (a.requires_grad_(), e.requires_grad_()), rtol=1e-5, atol=1e-3)


def test_gradient_at_a_discount_of_zero() -> None:
    """d/dε of log prod (α + ε t) is sum t / α there, and of the tables -sum 1 / i."""
    sizes = [40, 3]
    values = torch.repeat_interleave(torch.arange(2), torch.tensor(sizes))
    a, e = torch.tensor([2.0]), torch.zeros(1, requires_grad=True)
    made_of("minimal", [torch.zeros_like(values)], values, a, e.detach()).log_joint(a, e).backward()
    wanted = 1 / 2 - sum(1 / i for n in sizes for i in range(1, n))
    assert float(e.grad) == pytest.approx(wanted)  # type: ignore[arg-type]
    e.grad = None
    made_of("maximal", [torch.zeros_like(values)], values, a, e.detach()).log_joint(a, e).backward()
    assert float(e.grad) == pytest.approx(sum(t / 2 for t in range(1, 43)))  # type: ignore[arg-type]


def test_at_the_least_concentration_there_is_but_one_draw() -> None:
    keys, e = [torch.zeros(3).long()], torch.tensor([0.4])
    one = made_of("minimal", keys, torch.tensor([2, 2, 2]), -e, e)
    assert float(one.log_joint(-e, e)) == pytest.approx(math.log(1 / V) + rising(0.6, 1, 2) - rising(0.6, 1, 2))
    assert one.predict_all([torch.zeros(1).long()], -e, e)[0].tolist() == [0, 0, 1, 0]
    two = made_of("minimal", keys, torch.tensor([2, 2, 1]), -e, e)
    assert float(two.log_joint(-e, e)) == -math.inf


@pytest.mark.parametrize("number", [2, 20, 60])
def test_joint_at_the_least_concentration_of_many_draws(number: int) -> None:
    """Of different values, which cannot come from one draw: the probability is zero, however many there are."""
    restaurants = Restaurants(1, 100, "minimal")
    restaurants.add([torch.zeros(number, dtype=torch.long)], torch.arange(number), torch.ones(1), torch.zeros(1))
    for epsilon in (0.0, 0.3):
        assert restaurants.log_joint(torch.tensor([-epsilon]), torch.tensor([epsilon])) == -math.inf


@pytest.mark.parametrize("paths", ["minimal", "maximal"])
def test_one_after_the_other(paths: Any) -> None:
    """The recorded sequence gives what adding gives, for other parameters as well; its gradient is right."""
    keys, words = trigrams(150)
    made = Restaurants(3, V, paths)
    sequence = made.add_recorded(keys, words)
    for seed in range(3):
        a, e = torch.rand(3, generator=torch.Generator().manual_seed(seed)) * 3 - 0.1, torch.tensor([0.2, 0.4, 0.7])
        other = Restaurants(3, V, paths)
        assert float(sequence.log_prob(a, e)) == pytest.approx(float(other.add(keys, words, a, e).sum()), rel=1e-12)
        for level in range(3):
            for found, wanted in zip(made.table(level), other.table(level), strict=True):
                assert torch.equal(found, wanted)
    a.requires_grad_(), e.requires_grad_()
    assert torch.autograd.gradcheck(sequence.log_prob, (a, e))


@pytest.mark.parametrize("paths", ["minimal", "maximal", "exact"])
def test_adding_and_removing_restores(paths: Any) -> None:
    keys, words = trigrams(500)
    a, e = torch.ones(3), torch.tensor([0.1, 0.5, 0.9])
    made = made_of(paths, [k[:300] for k in keys], words[:300], a, e)
    before = [made.table(level) for level in range(3)]
    rest = [k[300:] for k in keys], words[300:]
    log_p = made.add(*rest, a, e)
    back = made.remove(*rest, a, e)
    last = -1 if paths == "exact" else 3  # of exact seats the counts at the finest level are restored
    if paths != "exact":
        torch.testing.assert_close(back, log_p)
    for level in [-1] if last < 0 else range(3):
        old, new = before[level], made.table(level)
        assert all(torch.equal(x, y) for x, y in zip(old[:3], new[:3], strict=True))
        assert paths == "exact" or torch.equal(old.t, new.t)


@pytest.mark.parametrize("paths", ["minimal", "maximal", "exact"])
def test_a_long_life(paths: Any) -> None:
    """Observations of ever new contexts come and go: counts are those of a dictionary, memory that of what is there."""
    generator = torch.Generator().manual_seed(0)
    a, e = torch.tensor([0.5, 1.0]), torch.tensor([0.5, 0.2])
    made = Restaurants(2, 50, paths)
    there: list[tuple[Tensor, Tensor]] = []
    for turn in range(300):
        fine = torch.randint(-(2**62), 2**62, (1 + turn % 40,), generator=generator)
        fine = torch.cat([fine, fine])  # some contexts are seen twice
        values = (torch.rand(len(fine), generator=generator) ** 3 * 50).long()
        made.add([fine % 7, fine], values, a, e, generator)
        there.append((fine, values))
        if turn % 3:
            fine, values = there.pop(int(torch.randint(len(there), (), generator=generator)))
            made.remove([fine % 7, fine], values, a, e, generator)
        if paths == "exact" and turn % 50 == 0:
            made.reseat(a, e, generator)
        if turn % 60 == 59:
            _compare(made, there, paths)
    assert len(made.arrays.keys) < 8 * made.num_contexts
    while there:
        fine, values = there.pop()
        made.remove([fine % 7, fine], values, a, e, generator)
    assert made.num_contexts == made.num_observations == 0
    assert int(made.arrays.c.sum()) == int(made.arrays.t.sum()) == 0 and (made.arrays.buckets[:50] == -1).all()


def _compare(made: Restaurants, there: list[tuple[Tensor, Tensor]], paths: str) -> None:
    wanted = Counter(pair for f, v in there for pair in zip(f.tolist(), v.tolist(), strict=True))
    contexts, values, c, t = (x.tolist() for x in made.table(1))
    assert dict(zip(zip(contexts, values, strict=True), c, strict=True)) == dict(wanted)
    coarse: Counter[Any] = Counter()
    for f, w, n, m in zip(contexts, values, c, t, strict=True):
        coarse[f % 7, w] += {"minimal": 1, "maximal": n, "exact": m}[paths]
        assert 1 <= m <= n and (paths == "exact" or m == {"minimal": 1, "maximal": n}[paths])
    contexts, values, c, t = (x.tolist() for x in made.table(0))
    assert dict(zip(zip(contexts, values, strict=True), c, strict=True)) == dict(coarse)
    assert made.num_observations == sum(wanted.values())


def test_what_is_refused() -> None:
    a, e = torch.ones(2), torch.tensor([0.5, 0.5])
    keys, values = [torch.tensor([0, 0]), torch.tensor([3, 4])], torch.tensor([1, 1])
    made = made_of("minimal", keys, values, a, e)
    before = made.state_dict()
    for wrong, message in [
        (lambda: made.add([torch.tensor([5, 1]), torch.tensor([9, 3])], values, a, e), "observation 1 are not nested"),
        (lambda: made.predict([torch.tensor([1]), torch.tensor([3])], values[:1], a, e), "not nested"),
        (lambda: made.add(keys[:1], values, a, e), "2 tensors, one for each level"),
        (lambda: made.add([keys[0], keys[1][:1]], values, a, e), "level 1"),
        (lambda: made.add(keys, torch.tensor([0, 4]), a, e), r"values must be 0\.\.3"),
        (lambda: made.add(keys, torch.tensor([0.0, 1.0]), a, e), "integers"),
        (lambda: made.remove(keys, torch.tensor([1, 2]), a, e), "observation 1 cannot be removed: value 2"),
        (lambda: made.remove([k.repeat(2) for k in keys], values.repeat(2), a, e), "observation 2 cannot"),
        (lambda: made.remove([torch.tensor([0]), torch.tensor([5])], values[:1], a, e), "observation 0 cannot"),
        (lambda: made.add(keys, values, -e - 0.01, e), "at least -discount"),
        (lambda: made.add(keys, values, a, torch.tensor([0.5, 1.0])), "below 1"),
        (lambda: made.log_joint(a[:1], e[:1]), r"shape \(2,\)"),
        (lambda: made.reseat(a, e), "exact seats"),
        (lambda: made.table(2), r"one of 0\.\.1"),
        (lambda: Restaurants(2, V, "other"), "'minimal', 'maximal' or 'exact'"),  # type: ignore[arg-type]
        (lambda: Restaurants(2, V, "exact", base=torch.ones(V)), "probabilities"),
        (lambda: Restaurants(1, V, "minimal").load_state_dict(before), "not the state"),
        (lambda: Restaurants(2, V, "exact").add_recorded(keys, values), "other paths"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
    assert made.num_observations == 2 and made.num_contexts == 3
    for level in range(2):  # and so is what was refused as a whole
        assert len(made.table(level).c) == (1, 2)[level]
    made.add([torch.tensor([6]), torch.tensor([9])], values[:1], a, e)  # key 9 was never seen with another


def test_lists_and_numbers_are_tensors_and_nothing_else_is() -> None:
    def seated(*arguments: Any, base: Any) -> Restaurants:
        made = Restaurants(2, 3, "minimal", base=base)
        made.add(*arguments)
        return made

    keys, values, alpha, epsilon, base = [[1, 1], [3, 4]], [0, 2], [1.0, 2.0], [0.5, 0.25], [0.2, 0.3, 0.5]
    tensors = [torch.tensor(x) for x in (values, alpha, epsilon)]
    by_tensors = seated([torch.tensor(key) for key in keys], *tensors, base=torch.tensor(base))
    by_lists = seated(keys, values, alpha, epsilon, base=base)
    assert torch.equal(by_lists.log_joint(alpha, epsilon), by_tensors.log_joint(*tensors[1:]))  # type: ignore[arg-type]
    made = Restaurants(2, 3, "minimal")
    for arguments, message in [
        ((keys, values, None, None), "concentration must be a tensor or numbers, not None"),
        ((keys, values, alpha, None), "discount must be a tensor or numbers, not None"),
        ((keys, None, alpha, epsilon), "values must be a tensor or numbers, not None"),
        (([None, None], values, alpha, epsilon), "keys must be a tensor or numbers, not None"),
        ((keys, values, [[1.0], [1.0, 2.0]], epsilon), "concentration must be a tensor or numbers, not .*2.0"),
        ((keys, values, [tensors[1][0], tensors[1][1]], epsilon), "which torch.stack makes one of"),
    ]:
        with pytest.raises(TypeError, match=message):
            made.add(*arguments)  # type: ignore[arg-type]
    assert made.num_observations == 0
    with pytest.raises(TypeError, match="base must be a tensor or numbers, not 'uniform'"):
        Restaurants(2, 3, "minimal", base="uniform")  # type: ignore[arg-type]


def test_numbers_of_levels_and_values_are_sizes() -> None:
    for name, sizes in (("num_levels", lambda n: (n, 3)), ("num_values", lambda n: (2, n))):
        for wrong in (0, -1):
            with pytest.raises(ValueError, match=f"^{name} must be at least 1, not {wrong}$"):
                Restaurants(*sizes(wrong), "exact")
        for bad in (2.5, "2", True, None):
            with pytest.raises(TypeError, match=f"^{name} must be an integer, not"):
                Restaurants(*sizes(bad), "exact")
    with pytest.raises(ValueError, match="paths must be 'minimal', 'maximal' or 'exact', not 'none'"):
        Restaurants(2, 3, "none")  # type: ignore[arg-type]
