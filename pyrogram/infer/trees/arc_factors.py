# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the likelihood of a tree says of each arc: the differences that single heads make.

If the log likelihood of trees y is a sum over words, L(y) = sum_i l_i(y_i), then l_i(h) - l_i(b_i) is what it gains if
word i alone gets head h in place of b_i. So the model is run with all trees that differ from a tree b in one head,
stacked in a dimension left of all others, and nothing about the likelihood need be known. Whether it is such a sum is
seen from heads that differ in many places; whether the model is right about trees in a stack, from runs without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pyrogram.infer.model.structure import ModelError
from pyrogram.random_state import random_state_kept

from .sites import TreeSite, dims_of

RANDOM_TRIES = 8
"""How many random heads of all words a likelihood is tried with."""

_CURE = "let it take heads with more dimensions, as in heads[..., i] and distributions.of_heads(values, heads)"

LogProbs = dict[str, Tensor]
"""By site of the likelihood."""


class ArcFactors:
    """The likelihood of latent trees, given all else that a run of the model drew.

    Numbers of nats have P dimensions of plates, the model's and those around it, and others left of a tree's own.

    :param model: has its arguments.
    :param first: the sites of that run by name, without the trees; handlers around the model took part in it.
    :param sites: the trees.
    :param caller: for messages.
    :param heads_at_once: how many heads the model is given at a time.
    """

    def __init__(
        self,
        model: Callable[[], Any],
        first: Mapping[str, Any],
        sites: Mapping[str, TreeSite],
        caller: str,
        heads_at_once: int,
    ):
        self.model, self.first, self.sites = model, first, sites
        self.caller, self.heads_at_once = caller, heads_at_once
        shapes = [node["fn"].batch_shape for node in first.values() if _has_likelihood(node)]
        self.P = max(len(shape) for shape in (*shapes, *(site.function.batch_shape for site in sites.values())))
        self.common = frozenset.intersection(*(site.dims for site in sites.values()))
        self.names: list[set[str]] = []  # of the sites of each run

    def bonuses(self) -> dict[str, Tensor]:
        """By site, what the likelihood gains by each label of each word, shape ``(*batch, n, L)``, in nats.

        :raises ModelError: if the likelihood is no sum over words.
        """
        tries = {name: self._lifted(_tries(site)) for name, site in self.sites.items()}
        with torch.no_grad():
            tried = self._stacked(tries, self.common)
            self._check_stack(tries, tried)
        gained = {likelihood: log_probs.new_zeros(()) for likelihood, log_probs in tried.items()}
        bonuses = {}
        for name, site in self.sites.items():
            by_likelihood = self._gains(site)
            for likelihood, gains in by_likelihood.items():
                labels = tries[name].clamp_min(0)[..., None]  # nothing is gained in the padding
                total = torch.take_along_dim(gains.detach()[None], labels, -1)[..., 0].sum(-1)
                gained[likelihood] = gained[likelihood] + _summed(total, site.dims - self.common)
            nothing = torch.zeros_like(site.possible(), dtype=site.tree.log_partition.dtype)
            bonus = sum(by_likelihood.values(), nothing).to(nothing.dtype)
            while bonus.dim() > nothing.dim() and bonus.shape[0] == 1:
                bonus = bonus[0]
            if site.mask is not None and bool((bonus.detach() * ~_as_tensor(site.mask)[..., None, None]).any()):
                raise ModelError(f"{self.caller} found that site {name!r} is masked where its likelihood is not")
            bonuses[name] = bonus.unflatten(-2, site.function.event_shape)
        for likelihood, log_probs in tried.items():
            self._check_sum(likelihood, log_probs, gained[likelihood])
        return bonuses

    # ------------------------------------------------------------------ differences

    def _gains(self, site: TreeSite) -> LogProbs:
        """What each label of each word gains over the drawn one, shape ``(*plates, words, L)``."""
        possible, drawn = site.possible(), site.labels
        words, L = possible.shape[-2:]
        changes = possible.reshape(-1, words, L).any(0).nonzero()
        changes = torch.cat([changes.new_tensor([[0, -1]]), changes])  # at first, none
        others = {name: other.labels for name, other in self.sites.items()}

        def run(chunk: Tensor) -> LogProbs:
            return self._stacked({**others, site.name: self._lifted(_changed(drawn, possible, chunk))}, site.dims)

        chunks = changes.split(max(1, self.heads_at_once // drawn.numel()))
        again = len(chunks) > 1 and torch.is_grad_enabled()  # for the gradient, so as not to keep every chunk
        runs = [checkpoint(run, c, use_reentrant=False) if again else run(c) for c in chunks]
        by_likelihood = {}
        for likelihood in runs[0]:
            log_probs = torch.cat([r[likelihood] for r in runs])
            if not bool(log_probs[0].detach().isfinite().all()):
                raise ModelError(
                    f"{self.caller} needs a likelihood of {likelihood!r} that is finite for every tree that site "
                    f"{site.name!r} may draw; forbid other arcs by scores of -inf"
                )
            gains = log_probs.new_zeros(words * L, *log_probs.shape[1:])
            gains = gains.index_copy(0, changes[1:, 0] * L + changes[1:, 1], log_probs[1:] - log_probs[0])
            by_likelihood[likelihood] = gains.movedim(0, -1).unflatten(-1, (words, L))
        return by_likelihood

    # ------------------------------------------------------------------ runs of the model

    def _run(self, labels: Mapping[str, Tensor]) -> dict[str, Any]:
        """Sites after a tree, in a run with labels of shape ``(.., *site.labels.shape)``, and all else as before."""
        values = {name: x.unflatten(-1, self.sites[name].function.event_shape) for name, x in labels.items()}
        with poutine.block(), poutine.trace() as recorded, _ReplayMessenger(self.first, values) as messenger:
            self.model()
        after = recorded.trace.nodes.keys() - messenger.before
        nodes = {name: node for name, node in recorded.trace.nodes.items() if name in after and _has_likelihood(node)}
        self.names.append(set(nodes))
        if self.names[-1] != self.names[0]:
            names = sorted(self.names[-1] ^ self.names[0])
            raise ModelError(f"{self.caller} needs the same sites for all trees, but only some trees have {names}")
        return nodes

    def _stacked(self, labels: Mapping[str, Tensor], kept: frozenset[int]) -> LogProbs:
        """Log probabilities of sites that depend on a stack of trees, shape ``(stack, *plates)``.

        :param kept: plates that are not summed over.
        """
        try:
            nodes = self._run(labels)
        except (RuntimeError, ValueError, IndexError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                f"{self.caller} could not run the model on trees stacked in a dimension left of all plates: "
                f"{type(error).__name__}; {_CURE}"
            ) from error
        log_probs = {}
        for name, node in nodes.items():
            depth = max(len(node["fn"].batch_shape), node["value"].dim() - node["fn"].event_dim)
            if depth > self.P:
                log_prob = _log_prob(node)
                if depth > self.P + 1 or log_prob.dim() <= self.P:
                    self._refuse_stack(name)
                for site in self.sites.values():
                    if not _equal(node["scale"], site.scale):
                        raise ModelError(
                            f"{self.caller} needs one scale for a tree and its likelihood, but that of site {name!r} "
                            f"is another one than that of {site.name!r}"
                        )
                log_probs[name] = _summed(log_prob, dims_of(node["cond_indep_stack"]) - kept)
        return log_probs

    def _lifted(self, labels: Tensor) -> Tensor:
        """A stack of labels, shape ``(stack, *batch, words)``, moved left of all plates."""
        return labels.reshape(len(labels), *(1,) * (self.P + 2 - labels.dim()), *labels.shape[1:])

    # ------------------------------------------------------------------ what is refused

    def _check_stack(self, tries: Mapping[str, Tensor], tried: LogProbs) -> None:
        """The first two trees of a stack have the log probabilities that they have by themselves."""
        runs = []
        for i in range(2):
            alone = {n: x[i].reshape(self.sites[n].labels.shape) for n, x in tries.items()}
            runs.append({name: _log_prob(node).sum() for name, node in self._run(alone).items()})
        for name in self.names[0]:
            gain = _difference(runs[1][name], runs[0][name])
            there = _difference(*tried[name][[1, 0]]).sum() if name in tried else torch.zeros_like(gain)
            if not _close(there, gain, runs[0][name]):
                self._refuse_stack(name)

    def _refuse_stack(self, likelihood: str) -> None:
        raise ModelError(
            f"{self.caller} found that site {likelihood!r} has another log probability when trees are stacked in a "
            f"dimension left of all plates; {_CURE}, put the likelihood of {sorted(self.sites)} into their plates, and "
            "draw nothing at random outside of pyro.sample"
        )

    def _check_sum(self, likelihood: str, log_probs: Tensor, gained: Tensor) -> None:
        """Heads that differ in many places gain the sum of what each gains."""
        difference = _difference(log_probs, log_probs[:1])
        if not _close(difference, gained, log_probs):
            off = float((difference - gained).abs().nan_to_num(torch.inf).max())
            raise ModelError(
                f"{self.caller} needs a likelihood that is a sum over words and their heads (or states), but that of "
                f"{likelihood!r} is off by {off:.3g} nats given {sorted(self.sites)}; SVI with Trace_ELBO and a guide "
                "that draws the trees takes any"
            )


class _ReplayMessenger(Messenger):
    """Give every site and parameter the value that it had in a first run, and trees other ones.

    It also knows what handlers around the model have said: a second run that is to be hidden from them lacks them.
    """

    def __init__(self, first: Mapping[str, Any], trees: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.first, self.trees = first, trees
        self.met = False  # a tree
        self.before: set[str] = set()  # sites that no tree comes before, so that they depend on none

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in self.trees:
            msg["value"], msg["done"], msg["stop"] = self.trees[msg["name"]], True, True
            self.met = True
            return
        if not self.met:
            self.before.add(msg["name"])
        if not msg["is_observed"]:
            self._pyro_param(msg)

    def _pyro_param(self, msg: Any) -> None:
        if msg["name"] in self.first:
            msg["value"], msg["done"] = self.first[msg["name"]]["value"], True


def _has_likelihood(node: Any) -> bool:
    return node["type"] == "sample" and not site_is_subsample(node) and not node["infer"].get("_deterministic", False)


def _log_prob(node: Any) -> Tensor:
    log_prob: Tensor = scale_and_mask(node["fn"].log_prob(node["value"]), mask=node["mask"])
    return log_prob


def _changed(labels: Tensor, possible: Tensor, changes: Tensor) -> Tensor:
    """Copies of labels, in each of which one word has another label, where that is possible.

    :param labels: shape ``(*batch, words)``.
    :param possible: shape ``(*batch, words, L)``.
    :param changes: words and labels, shape ``(copies, 2)``; a label of -1 changes nothing.
    """
    word, label = changes.reshape(-1, 2, *(1,) * labels.dim()).unbind(1)
    mask = torch.arange(labels.shape[-1], device=labels.device) == word
    allowed = possible[..., changes[:, 0], changes[:, 1]].movedim(-1, 0)[..., None]  # of no use where the label is -1
    return torch.where(mask & allowed & (label >= 0), label, labels)


def _tries(site: TreeSite) -> Tensor:
    """Labels that need not be a tree: the drawn ones, and of all that are possible the first, the last, random ones."""
    possible = site.possible()
    with random_state_kept(seed=0):
        order = torch.rand(RANDOM_TRIES, *possible.shape)
    rising = torch.linspace(0, 1, possible.shape[-1]).expand(1, *possible.shape)
    order = torch.cat([1 - rising, rising, order]).to(possible.device)
    tries = torch.where(possible, order, -1.0).argmax(-1)
    return torch.cat([site.labels[None], torch.where(possible.any(-1), tries, site.labels)])


def _summed(log_probs: Tensor, dims: frozenset[int]) -> Tensor:
    return log_probs.sum(tuple(dims), keepdim=True) if dims else log_probs


def _difference(a: Tensor, b: Tensor) -> Tensor:
    """a - b, and 0 where both are -inf."""
    return torch.where(a == b, 0.0, a - b)


def _close(a: Tensor, b: Tensor, size: Tensor) -> bool:
    """Whether differences of numbers of this size are equal to half of the digits."""
    tolerance = torch.finfo(size.dtype).eps ** 0.5 * (1 + float(size.abs().nan_to_num(0, 0, 0).max()))
    return bool(torch.isclose(a, b, rtol=0.0, atol=tolerance).all())


def _equal(a: Any, b: Any) -> bool:
    return bool((_as_tensor(a) == _as_tensor(b)).all())


def _as_tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else torch.tensor(x)
