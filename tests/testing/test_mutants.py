# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The checks can fail: each catches a fault made for it, many of them seen in other people's code."""

import dataclasses
import threading

import instances
import pytest
import torch
from pyro.distributions import Delta, TorchDistribution
from torch.distributions import constraints
from torch.distributions.kl import register_kl
from torch.distributions.utils import lazy_property

from pyrogram import DMV, Block
from pyrogram.distributions import ProjectiveDependencyTree as Tree
from pyrogram.distributions.charted import expected_score
from pyrogram.testing import DISTRIBUTION_CHECKS, GRAMMAR_CHECKS, PADDING_CHECKS, GrammarCase
from pyrogram.testing.compare import chi_square, follows
from pyrogram.trees import lengths_of, projective_trees

CASE, PADDED = instances.TREES["valence and stops"], instances.TREES["padded with valence and stops"]


class Wrong(Tree):
    pass


def mutant(case, change, **methods):
    """The case with other methods, or made from changed arguments."""
    cls = type("Mutant", (methods.pop("base", Tree),), methods)

    def make(weights):
        tree = case.make(weights)
        arguments = {"lengths": tree.lengths, "multiroot": tree.multiroot, "valence": tree._valence}
        return cls(tree.arc_scores, tree.stop_scores, **(arguments | (change or {})))

    return dataclasses.replace(case, make=make, rivals=[lambda: cls(torch.zeros(4, 4), multiroot=True)])


def case_of(cls):
    """The case of a class that can be pickled, because it has a name in this module."""

    def make(weights):
        return cls(weights["arc"], weights["stop"], valence=True)

    return dataclasses.replace(CASE, make=make)


def method(**methods):
    return mutant(CASE, None, **methods)


class Anything(constraints.Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value):
        return torch.ones(value.shape[:-1], dtype=torch.bool)


class Reversed(Tree):
    """Kullback-Leibler the wrong way round."""


@register_kl(Reversed, Reversed)
def _reversed(p, q):
    plain = [Tree(d.arc_scores, d.stop_scores, d.lengths, valence=d._valence) for d in (q, p)]
    return torch.distributions.kl_divergence(*plain)


class Multiroot(Tree):
    """pytorch-struct's fault: an option of one object is written to the class."""

    chosen = False

    def __init__(self, *args, multiroot=False, **kwargs):
        Multiroot.chosen = multiroot
        super().__init__(*args, multiroot=multiroot, **kwargs)

    multiroot = property(lambda self: self.chosen, lambda self, value: None)


class Leaky(Tree):
    """Its parameters are asked for gradients, as pytorch-struct and supar do."""

    def __init__(self, arc_scores, *args, **kwargs):
        super().__init__(arc_scores.requires_grad_(), *args, **kwargs)


def _second_best(self):
    return self.top_k(2)[0][1]


def _in_bits(self):
    return Tree.entropy(self) / 0.6931471805599453


def _flatter(self, sample_shape=()):
    flat = Tree(0.8 * self.arc_scores, self.stop_scores, self.lengths, valence=self._valence)
    return flat.expand(self.batch_shape).sample(sample_shape)


def _same_for_all(self, sample_shape=()):
    draw = Tree.sample(self, sample_shape)
    return draw[..., :1, :].expand(draw.shape).clone() if self.batch_shape else draw


def _own_seed(self, sample_shape=()):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Tree.sample(self, sample_shape)


def _kept_once(self, name, compute):
    if name not in self._cache:
        self._cache[name] = (True, compute())
    return self._cache[name][1]


def _baked_in(self):
    return torch.tensor(Tree.entropy(self).tolist())


def _wrong_when_compiled(self):
    return Tree.entropy(self) * (1.01 if torch.compiler.is_compiling() else 1.0)


def _wrong_when_transformed(self):
    return Tree.entropy(self) * (1.01 if torch._C._are_functorch_transforms_active() else 1.0)


def _drawn_once(self, sample_shape=()):
    return torch.tensor(Tree.sample(self, sample_shape).tolist())


_TREES = projective_trees(3)


def _given_away(self, expand=True):
    trees = _TREES.reshape(-1, *(1 for _ in self.batch_shape), 3)
    return trees.expand(-1, *self.batch_shape, -1) if expand else trees


def _no_floats(self, value):
    if value.is_floating_point():
        raise TypeError("log_prob takes integers")
    return Tree.log_prob(self, value)


def _one_missing(self, expand=True):
    return Tree.enumerate_support(self, expand)[1:]


def _plus(amount):
    return property(lambda self: Tree.log_partition.fget(self) + amount)  # type: ignore[attr-defined]


def _scaled(name, factor):
    def scaled(self, *args):
        result = getattr(Tree, name)(self, *args)
        return {k: v * factor for k, v in result.items()} if isinstance(result, dict) else result * factor

    return scaled


def _log_prob_plus(amount):
    return lambda self, value: Tree.log_prob(self, value) + amount


def _wrong_curvature(self):
    """The right value and gradient, but no second derivative."""
    log_z = Tree.log_partition.fget(self)  # type: ignore[attr-defined]
    arcs, stops = (c.detach() for c in Tree.expected_counts(self).values())
    linear = (arcs * self.arc_scores).sum((-1, -2, -3)) + (stops * self.stop_scores).sum((-1, -2, -3))
    return log_z.detach() + linear - linear.detach()


def _entropy_as_constant(self):
    log_z, arcs, stops = (x.detach() for x in self._posterior())
    nats = expected_score(arcs, self.arc_scores, 3) + expected_score(stops, self.stop_scores, 3)
    return Tree.log_partition.fget(self) - nats  # type: ignore[attr-defined]


@register_kl(Wrong, Tree)
def _constant_kl(p, q):
    plain = Tree(p.arc_scores.detach(), p.stop_scores.detach(), valence=p._valence)
    return torch.distributions.kl_divergence(plain, q) + 0 * p.arc_scores.sum()


@register_kl(Wrong, Wrong)
def _constant_kl_too(p, q):
    return _constant_kl(p, Tree(q.arc_scores, q.stop_scores, valence=q._valence))


def _keeps_everything(self):
    return self.__dict__


class KeepsGraph(Tree):
    """What was computed is copied with its graph, which torch refuses."""

    __getstate__ = _keeps_everything


class ForgetsStops(Tree):
    def __getstate__(self):
        return {**super().__getstate__(), "stop_scores": None}


class KeepsMode(Tree):
    """Another: what is computed once has the batch shape of that time."""

    @lazy_property
    def mode(self):
        return self.argmax()


DISTRIBUTION_MUTANTS = [
    ("shapes", method(entropy=lambda self: Tree.entropy(self).sum(-1) if self.batch_shape else Tree.entropy(self))),
    ("shapes", method(sample=lambda self, s=(): Tree.sample(self, s).movedim(0, -2) if s else Tree.sample(self))),
    ("shapes", method(sample=lambda self, sample_shape=(): Tree.sample(self, sample_shape).double())),
    ("sample_default", method(sample=lambda self, sample_shape: Tree.sample(self, sample_shape))),
    ("enumerate_support", method(enumerate_support=_one_missing)),
    ("enumerate_support", method(enumerate_support=lambda self, expand=True: Tree.enumerate_support(self))),
    ("expand", method(expand=lambda self, shape, _instance=None: TorchDistribution.expand(self, shape))),
    ("expand", method(base=KeepsMode)),
    ("plate", method(sample=_same_for_all)),
    ("mask", method(mask=lambda self, mask: self)),
    ("to_event", method(to_event=lambda self, n: Delta(self.sample(), event_dim=2))),
    ("parallel_enumeration", method(enumerate_support=_one_missing)),
    ("total_probability", method(log_prob=_log_prob_plus(0.01))),
    ("log_partition", method(log_partition=_plus(0.01))),
    ("log_partition", mutant(CASE, {"multiroot": True})),
    ("log_prob", method(log_prob=_log_prob_plus(0.01))),
    ("counts", method(counts=_scaled("counts", 2))),
    ("expected_counts", method(expected_counts=_scaled("expected_counts", 1.001))),
    ("marginals", method(marginals=_scaled("marginals", 1.001))),
    ("entropy", method(entropy=_in_bits)),
    ("kl_divergence", method(base=Reversed)),
    ("argmax", method(argmax=_second_best)),
    ("top_k", method(top_k=lambda self, k: tuple(x.flip(0) for x in Tree.top_k(self, k)))),
    ("top_k", method(top_k=lambda self, k: tuple(x[:1].expand(x.shape) for x in Tree.top_k(self, k)))),
    ("mbr", method(mbr=lambda self: self.top_k(3)[0][2])),
    ("gradient_of_log_partition", method(expected_counts=_scaled("expected_counts", 1.001))),
    ("gradient_of_log_prob", method(log_prob=lambda self, v: Tree.log_prob(self, v) + Tree.log_partition.fget(self))),  # type: ignore
    ("derivatives_of_log_partition", method(log_partition=property(_wrong_curvature))),
    ("derivatives_of_entropy", method(entropy=_entropy_as_constant)),
    ("derivatives_of_kl_divergence", method(base=Wrong)),
    ("gradient_after_no_grad", method(_kept=_kept_once)),
    ("gradient_after_expand", method(expand=lambda self, s, _instance=None: Tree.expand(self, torch.Size([1])))),
    ("support", method(support=property(lambda self: Anything()))),
    ("validation", method(support=property(lambda self: Anything()))),
    ("integral_floats", method(log_prob=_no_floats)),
    ("log_prob_is_at_most_zero", method(log_prob=lambda self, v: Tree.log_prob(self, v) + self.log_partition)),
    ("draws", method(sample=_flatter)),
    ("draws", method(sample=lambda self, s=(): self.argmax().expand(*s, *self.batch_shape, 3))),
    ("draws_are_independent", method(sample=_same_for_all)),
    ("draws_follow_the_seed", method(sample=_own_seed)),
    ("pickle", case_of(ForgetsStops)),
    ("deepcopy", case_of(KeepsGraph)),
    ("deepcopy", case_of(ForgetsStops)),
    ("dtype", method(entropy=lambda self: Tree.entropy(self).double())),
    ("inputs_are_kept", method(base=Leaky)),
    ("inputs_are_kept", method(argmax=lambda self: (self.arc_scores.data.add_(1), Tree.argmax(self))[1])),
    ("instances_are_independent", method(base=Multiroot)),
    ("results_may_be_changed", method(enumerate_support=_given_away)),
    ("jit_trace", method(entropy=_baked_in)),
    ("compile", method(entropy=_wrong_when_compiled)),
    ("transforms", method(entropy=_wrong_when_transformed)),
    ("traced_draws", method(sample=_drawn_once)),
    ("entries_that_are_not_read", method(entropy=lambda self: Tree.entropy(self) + 0 * self.arc_scores[0, 0])),
]

PADDING_MUTANTS = [
    ("padded_sums", mutant(PADDED, {"lengths": None})),
    ("padded_values", method(support=property(lambda self: Anything()))),
    ("padded_decoding", mutant(PADDED, None, mbr=lambda self: Tree.mbr(self).clamp_min(0))),
    ("padded_draws", mutant(PADDED, None, sample=lambda self, s=(): Tree.sample(self, s).clamp_min(0))),
    ("padded_gradients", mutant(PADDED, None, entropy=lambda self: Tree.entropy(self) + self.arc_scores.sum())),
    ("padding_is_not_read", mutant(PADDED, {"lengths": None})),
]
PADDING_MUTANTS[1] = ("padded_values", mutant(PADDED, None, support=property(lambda self: Anything())))


def altered(base=DMV, valence_attach=False, **methods):
    """A DMV with other methods; ``super`` is DMV itself."""
    return type("Altered", (base,), methods)(2, valence_attach=valence_attach)


def log_z(change, by_weights=lambda w: w):
    """A DMV whose log Z is changed, or is that of changed log weights."""
    return altered(log_partition=lambda self, w, x: change(DMV.log_partition(self, by_weights(w), x), x))


def sampled(change, more=0):
    """A DMV whose draws are changed; of sentences that may be longer."""
    return altered(sample=lambda self, w, shape, n: change(DMV.sample(self, w, shape, n + more), n))


def rows(change):
    """A DMV whose rows are computed from what ``change`` makes of the computation, log weights and sentences."""

    def sentence_multinomials(self, words):
        found = DMV.sentence_multinomials(self, words)
        compute = found.expected_counts
        found.expected_counts = lambda w, sentences=None: change(compute, w, sentences)
        return found

    return altered(sentence_multinomials=sentence_multinomials)


def mapped(change):
    """A function of tensors by name."""
    return lambda w: {n: change(t) for n, t in w.items()}


def same(value, _):
    return value


def mean_counts(self, log_weights, words):
    value, counts = DMV.expected_counts(self, log_weights, words)
    return value, {name: c / len(words) for name, c in counts.items()}


def first_grammar_for_all(self, log_weights, words):
    first = {n: w.reshape(-1, *self.blocks[n].shape)[0] for n, w in log_weights.items()}
    return DMV.log_partition(self, first, words)


def backwards(self, weights, words, *, log_weights=None):
    return DMV.derivation(self, weights, words.flip(-1) if words.dim() == 1 else words, log_weights=log_weights)


def without_logarithms(self, weights, words, *, log_weights=None):
    return DMV.derivation(self, None, words, log_weights=log_weights or weights)


def own_seed(self, weights, sample_shape, max_length):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return DMV.sample(self, weights, sample_shape, max_length)


def changes(self, weights, sample_shape, max_length):
    with torch.no_grad():
        weights["root"].copy_(weights["root"] / 2 + 0.5 / self.num_tags)
    return DMV.sample(self, weights, sample_shape, max_length)


def remembers(self, log_weights, words):
    """Keeps what it computed first, without a graph if need be."""
    kept = self.__dict__.setdefault("kept", {})
    key = (words.shape, float(log_weights["root"].detach().sum()))
    return kept.setdefault(key, DMV.log_partition(self, log_weights, words))


def linearised(self, log_weights, words):
    """Right value and gradient, no second derivative."""
    logs = {n: w.detach().requires_grad_() for n, w in log_weights.items()}
    with torch.enable_grad():
        value = DMV.log_partition(self, logs, words)
        counts = torch.autograd.grad(value.sum(), list(logs.values()))
    linear = sum((c * (log_weights[n] - logs[n].detach())).sum() for n, c in zip(logs, counts, strict=True))
    return value.detach() + linear / len(words)


def drifts(self, log_weights, words):
    """No function of its arguments: a traced program has its own number of calls."""
    self.calls = getattr(self, "calls", 0) + 1
    return DMV.log_partition(self, log_weights, words) + 0.1 * self.calls


class ThirdsOnly(Block):
    def normalize(self, values):
        return values / 3


class Locks(DMV):
    def __init__(self, num_tags, **options):
        super().__init__(num_tags, **options)
        self.lock = threading.Lock()


def thirds(self):
    return {n: ThirdsOnly(b.shape) if n == "root" else b for n, b in super(type(self), self).blocks.items()}


def doubled_start(self, words, method="harmonic", **options):
    return {n: 2 * w for n, w in DMV.initial_weights(self, words, method, **options).items()}


def guessed_valence(self, log_weights, words):
    """A fault that the check found in this package."""
    guessed = DMV(self.num_tags, valence_attach=log_weights["attach"].dim() - log_weights["root"].dim() == 3)
    return Tree(*DMV.scores(guessed, log_weights, words), lengths_of(words), valence=True).log_partition


GRAMMAR_MUTANTS = [
    ("blocks", altered(blocks=property(thirds))),
    ("log_prob", log_z(lambda value, words: value + 0.01 * lengths_of(words))),
    ("log_weights", altered(derivation=without_logarithms)),
    ("padding", log_z(lambda value, words: value - 0.01 * words.shape[-1])),
    ("expected_counts", altered(expected_counts=mean_counts)),
    ("derivation", altered(derivation=backwards)),
    ("batched_weights", altered(log_partition=first_grammar_for_all)),
    ("batched_weights", altered(valence_attach=True, log_partition=guessed_valence)),
    ("rows", rows(lambda compute, w, s: compute(mapped(lambda t: t.mean(0).expand(t.shape).clone())(w), s))),
    ("rows", rows(lambda compute, w, sentences: compute(w))),
    ("zero_weights", log_z(same, mapped(lambda w: w.clamp_min(-20.0)))),
    ("impossible_sentences", log_z(lambda value, _: value + 0 * value.sum(-1, keepdim=True))),
    ("derivatives", altered(log_partition=linearised)),
    (
        "scaled_gradients",
        log_z(lambda value, _: value.detach() + (value - value.detach()).mean(-1, keepdim=True)),
    ),
    ("draws", sampled(lambda words, n: words[..., :n], more=3)),
    ("draws_of_any_length", sampled(lambda words, n: words.sort(-1, descending=True).values)),
    ("draws_follow_the_seed", altered(sample=own_seed)),
    ("shapes", sampled(lambda words, n: words.reshape(-1, n))),
    ("expand_mask_to_event", sampled(lambda words, n: words.reshape(-1, n))),
    ("plates", log_z(lambda value, words: value + (0.1 if len(words) == 1 else 0.0))),
    ("initial_weights", altered(initial_weights=doubled_start)),
    ("errors", altered(num_words=0)),
    ("copies", altered(Locks)),
    ("dtype", log_z(lambda value, _: value.double())),
    ("inputs_are_kept", altered(sample=changes)),
    ("gradient_after_no_grad", altered(log_partition=remembers)),
    *((name, altered(log_partition=drifts)) for name in ("jit_trace", "compile", "transforms")),
]


# What a check does not compare but only does may fail by itself.
RAISED = {
    "sample_default": TypeError,
    "integral_floats": TypeError,
    "pickle": (AssertionError, RuntimeError),
    "deepcopy": (AssertionError, RuntimeError),
    "batched_weights": (AssertionError, RuntimeError),
    "copies": TypeError,
}


def _named(mutants):
    return [pytest.param(*mutant, id=f"{mutant[0]}-{i}") for i, mutant in enumerate(mutants)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "case"), _named(DISTRIBUTION_MUTANTS))
def test_distribution_mutant_is_caught(name, case):
    with pytest.raises(RAISED.get(name, AssertionError)):
        DISTRIBUTION_CHECKS[name](case)


def test_numbers_of_float32_are_compared():
    def entropy(self):
        return (1.01 if self.arc_scores.dtype == torch.float32 else 1.0) * Tree.entropy(self)

    with pytest.raises(AssertionError, match="entropy of torch.float32"):
        DISTRIBUTION_CHECKS["dtype"](method(entropy=entropy))


@pytest.mark.parametrize(("name", "case"), _named(PADDING_MUTANTS))
def test_padding_mutant_is_caught(name, case):
    with pytest.raises(AssertionError):
        PADDING_CHECKS[name](case)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "grammar"), _named(GRAMMAR_MUTANTS))
def test_grammar_mutant_is_caught(name, grammar):
    case = GrammarCase(grammar, instances.WORDS, initialisers=instances.STARTS)
    with pytest.raises(RAISED.get(name, AssertionError)):
        GRAMMAR_CHECKS[name](case)


def test_every_check_has_its_mutant():
    assert {name for name, _ in DISTRIBUTION_MUTANTS} == set(DISTRIBUTION_CHECKS)
    assert {name for name, _ in PADDING_MUTANTS} == set(PADDING_CHECKS) - set(DISTRIBUTION_CHECKS)
    assert {name for name, _ in GRAMMAR_MUTANTS} == set(GRAMMAR_CHECKS)


def test_chi_square_of_known_tables():
    # R: chisq.test(c(44, 56)), and of a die thrown 60 times
    assert chi_square(torch.tensor([44, 56]), torch.tensor([0.5, 0.5])) == pytest.approx(0.2301393, rel=1e-6)
    die = torch.tensor([5, 8, 9, 8, 10, 20])
    assert chi_square(die, torch.full((6,), 1 / 6)) == pytest.approx(0.01990522, rel=1e-6)


def test_chi_square_in_the_far_tail_where_pyros_own_says_one():
    observed = torch.zeros(30).fill_(100.0)
    observed[0], observed[1] = 800.0, 0.0
    assert chi_square(observed, torch.full((30,), 1 / 30)) < 1e-100
    assert chi_square(torch.tensor([99, 1]), torch.tensor([1.0, 0.0])) == 0.0


def test_draws_outside_the_support_are_noticed():
    support = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(AssertionError, match="1 of 3 draws are not in the support"):
        follows(torch.tensor([[0, 1], [1, 0], [1, 1]]), support, torch.tensor([0.5, 0.5]), "sample()")
