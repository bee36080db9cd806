# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Simulation-based calibration: whether an inference gives the posterior of a model (Talts et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor
from tqdm import tqdm

from pyrogram.checks import TooLongError
from pyrogram.distributions import Sentence
from pyrogram.infer.loops.variational_em import VariationalEM
from pyrogram.infer.model.sites import base_distribution, is_left_out
from pyrogram.infer.prediction import posterior_predictive
from pyrogram.infer.samplers.trees import TreeSampler
from pyrogram.random_state import random_state_kept
from pyrogram.tree_statistics import Statistics, corpus_means, tree_statistics
from pyrogram.trees import lengths_of

Inference = Callable[..., Mapping[str, Tensor]]
"""From a model and its arguments to posterior draws by latent site, shape (L, *shape), maybe with ``<site>.tree``."""

MOST_TRIES = 10_000


@dataclass(frozen=True)
class Calibration:
    """Ranks of true values among posterior draws, uniform if the inference is right; ``print`` shows p-values.

    :param ranks: by quantity, shape ``(R, *shape)``: how many of the L draws lie below the truth, 0 .. L.
    :param num_draws: L.
    """

    ranks: dict[str, Tensor]
    num_draws: int

    def p_values(self, num_bins: int | None = None) -> dict[str, float]:
        """That ranks are uniform, by Pearson's chi-square; of several numbers the least, times how many there are.

        :param num_bins: by default a tenth of the simulations, from 2 to 20.
        """
        return {name: min(1.0, float(_chi_square(r, self.num_draws, num_bins))) for name, r in self.ranks.items()}

    def __str__(self) -> str:
        width = max(map(len, self.ranks), default=0)
        R = len(next(iter(self.ranks.values()), ()))
        lines = [f"{'':{width}}  numbers  mean rank / {self.num_draws}  p-value   ({R} simulations)"]
        for name, p in self.p_values().items():
            ranks = self.ranks[name]
            mean = float(ranks.double().mean()) / self.num_draws
            lines.append(f"{name:{width}}{ranks[0].numel():>9}{mean:>{14 + len(str(self.num_draws))}.3f}{p:>9.4f}")
        return "\n".join(lines)


def calibrate(
    model: Callable[..., Any],
    inference: Inference,
    *args: Any,
    num_simulations: int = 100,
    statistics: Statistics | None = None,
    seed: int = 0,
    progress: bool = True,
    **kwargs: Any,
) -> Calibration:
    """Draw latent values, sentences and trees from a model, infer them from the sentences, and rank the truth.

    If the inference gives the posterior, the rank of a true value among L independent posterior draws is uniform on
    0 .. L (Talts, Betancourt, Simpson, Vehtari and Gelman 2018, "Validating Bayesian inference algorithms with
    simulation-based calibration", Theorem 1). Ranks that pile up at both ends say that the posterior that is found is
    too narrow, in the middle too wide. Draws of a chain must be thinned until they are nearly independent. Ranked are
    latent values, means over the sentences of statistics of their trees, and the ``"log joint"`` of latent values and
    sentences.

    A whole draw, weights included, is thrown away until no sentence has more words than ``Sentence(max_length=...)``.
    That is an event of the words alone, so the posterior given the words stays that of the model. So take few sentences
    and a prior that ends them.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"]] * 3)  # their number counts
    >>> inference = draws_by_chain(pyrogram.infer.TreeGibbs, num_draws=9, burn_in=0, thin=1)
    >>> model = pyrogram.models.dirichlet.dirichlet
    >>> ranks = calibrate(model, inference, words, grammar, concentration=2.0, num_simulations=30, progress=False).ranks
    >>> ranks["rules"].shape
    torch.Size([30, 2])

    :param model: its sites of sentences, and all else that is observed, are drawn. Positional and other keyword
        arguments are its own.
    :param inference: a function of a model that observes what was drawn, and of the same arguments, to posterior draws
        by latent site, shape ``(L, *shape)``. Trees ``<site>.tree`` may be among them; else they are drawn given the
        rest. See :func:`draws_by_chain` and :func:`draws_by_guide`.
    :param num_simulations: R.
    :param statistics: of trees, as for :func:`.tree_statistics`.
    :param seed: the same seed gives the same ranks; torch's random state is left as it was.
    :param progress: show a progress bar.
    :raises ValueError: for fewer than two simulations, if sentences are hardly ever short enough, if something is known
        of their derivations, or if draws are none, or of another shape than the site.
    """
    if num_simulations < 2:
        raise ValueError(f"num_simulations must be at least 2, not {num_simulations}")
    generator = torch.Generator().manual_seed(seed)
    seeds = torch.randint(2**62, (num_simulations,), generator=generator).tolist()
    ranks: dict[str, list[Tensor]] = {}
    num_draws = 0
    start = deepcopy(pyro.get_param_store().get_state())
    for draw_seed in tqdm(seeds, disable=not progress, desc="calibrate"):
        with random_state_kept(draw_seed), pyro.get_param_store().scope(deepcopy(start)):
            simulation = _simulate(model, args, kwargs)
            conditioned = poutine.condition(model, data=simulation.observed)
            drawn = inference(conditioned, *args, **kwargs)
            if not isinstance(drawn, Mapping) or not drawn:
                raise ValueError(
                    f"inference must return draws by latent site, {{'attach': (L, *shape)}} say, not {drawn!r:.80}"
                )
            draws = {name: x.detach() for name, x in drawn.items()}
            with torch.no_grad():
                pairs = _quantities(simulation, conditioned, draws, statistics, args, kwargs)
        for name, (truth, others) in pairs.items():
            num_draws = num_draws or len(others)
            if len(others) != num_draws:
                raise ValueError(
                    f"inference must return as many draws of each site, each time, but of {name!r} there are "
                    f"{len(others)}, and of others {num_draws}"
                )
            ranks.setdefault(name, []).append(_rank(truth, others, generator))
    return Calibration({name: torch.stack(r) for name, r in ranks.items()}, num_draws)


def draws_by_chain(
    sampler: Callable[..., TreeSampler], *, num_draws: int = 63, burn_in: int = 100, thin: int = 5
) -> Inference:
    """An inference for :func:`calibrate`: a chain of a sampler over trees, with its trees.

    :param sampler: :class:`.TreeGibbs`, :class:`.TreeHastings`, or a partial of one.
    :param burn_in: sweeps before the first draw.
    :param thin: sweeps from one draw to the next.
    :raises ValueError: for no draws, or no sweeps between them.
    """
    if num_draws < 1 or thin < 1:
        raise ValueError(f"need num_draws >= 1 and thin >= 1, not {num_draws} and {thin}")

    def inference(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Mapping[str, Tensor]:
        chain = sampler(model)
        chain.setup(burn_in, *args, **kwargs)
        sites = chain._need_problem().traced.sentences
        named = [site.name for site in sites if site.mixture is None]
        draws: dict[str, list[Tensor]] = {}
        for sweep in range(1, burn_in + num_draws * thin + 1):
            values = chain.sample({})
            if sweep > burn_in and (sweep - burn_in) % thin == 0:
                for name, x in {**values, **{f"{n}.tree": chain.trees(n) for n in named}}.items():
                    draws.setdefault(name, []).append(x)
        return {name: torch.stack(rows) for name, rows in draws.items()}

    return inference


def draws_by_guide(loop: Callable[..., VariationalEM], *, num_draws: int = 63, num_steps: int = 100) -> Inference:
    """An inference for :func:`calibrate`: draws from the q that a loop has found, and trees given these.

    :param loop: :class:`.VariationalEM`, or a partial of it.
    :param num_steps: most iterations.
    :raises TypeError: for another loop, which has no q to draw from.
    """
    kind = loop.func if isinstance(loop, partial) else loop
    if kind is not VariationalEM:
        raise TypeError(f"draws_by_guide needs VariationalEM, or a partial of it, not {kind!r:.80}")

    def inference(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Mapping[str, Tensor]:
        fitted = loop(model).run(*args, num_steps=num_steps, progress=False, **kwargs)
        return posterior_predictive(model, fitted.guide, *args, num_samples=num_draws, **kwargs)

    return inference


# ---------------------------------------------------------------------- one simulation


@dataclass(frozen=True)
class _Simulation:
    """:param sentences: by site, with the weights that the words are drawn from."""

    latent: dict[str, Tensor]
    observed: dict[str, Tensor]
    sentences: dict[str, Sentence]


def _simulate(model: Callable[..., Any], args: Any, kwargs: Any) -> _Simulation:
    for _ in range(MOST_TRIES):
        try:
            with torch.no_grad(), _Raising():
                nodes = poutine.trace(poutine.uncondition(model)).get_trace(*args, **kwargs).nodes
        except TooLongError:
            continue
        sites: dict[str, Any] = {name: s for name, s in nodes.items() if s["type"] == "sample"}
        observed = {name: s["value"] for name, s in sites.items() if s["infer"].get("was_observed")}
        latent = {
            name: s["value"]
            for name, s in sites.items()
            if name not in observed and not is_left_out(s) and s["value"].is_floating_point()
        }
        laws = {name: base_distribution(sites[name]["fn"]) for name in observed}
        sentences = {name: law for name, law in laws.items() if isinstance(law, Sentence)}
        for name in sentences:  # no wider than the longest
            observed[name] = observed[name][..., : int(lengths_of(observed[name]).max())]
        return _Simulation(latent, observed, sentences)
    raise ValueError(
        f"of {MOST_TRIES} draws from the prior none had all sentences of at most max_length words; take fewer "
        "sentences, a greater Sentence(max_length=...), or a prior that ends them sooner"
    )


class _Raising(Messenger):
    """Sentences that are too long are not drawn again on their own."""

    def _pyro_sample(self, msg: Any) -> None:
        sentence = base_distribution(msg["fn"])
        if isinstance(sentence, Sentence):
            if sentence.known is not None:
                raise ValueError(f"calibrate draws new sentences, so leave out known= of site {msg['name']!r}")
            new = copy(sentence)
            new.too_long = "raise"
            msg["fn"] = new.to_event(len(sentence.batch_shape) - len(msg["fn"].batch_shape))


def _quantities(
    simulation: _Simulation,
    conditioned: Callable[..., Any],
    draws: Mapping[str, Tensor],
    statistics: Statistics | None,
    args: Any,
    kwargs: Any,
) -> dict[str, tuple[Tensor, Tensor]]:
    """The truth and the draws of all that is ranked, by name, shapes ``shape`` and ``(L, *shape)``."""
    latent = {name: draws[name] for name in simulation.latent if name in draws}
    pairs: dict[str, tuple[Tensor, Tensor]] = {}
    for name, x in latent.items():
        truth = simulation.latent[name]
        if x.dim() < 1 or len(x) == 0 or x.shape[1:].numel() != truth.numel():
            raise ValueError(
                f"inference must return draws of site {name!r} of shape (L, {', '.join(map(str, truth.shape))}), not "
                f"{tuple(x.shape)}"
            )
        latent[name] = x.reshape(len(x), *truth.shape)
        pairs[name] = truth, latent[name]
    trees = {f"{name}.tree" for name in simulation.sentences}
    if not trees <= set(draws):
        draws = {**posterior_predictive(conditioned, latent, *args, **kwargs), **draws}
    for name, sentence in simulation.sentences.items():
        words = simulation.observed[name]
        law = sentence.derivation(words)
        both = [tree_statistics(law, words, y, statistics) for y in (law.sample(), draws[f"{name}.tree"])]
        truths, others = (corpus_means({n: v.flatten(dim) for n, v in b.items()}) for dim, b in enumerate(both))
        pairs.update({f"{name}.{n}": (truth, others[n]) for n, truth in truths.items()})
    if latent.keys() == simulation.latent.keys():

        def joint(values: Mapping[str, Tensor]) -> Tensor:
            at = poutine.condition(conditioned, data=dict(values))
            return torch.as_tensor(poutine.trace(at).get_trace(*args, **kwargs).log_prob_sum()).double()

        rows = [joint({n: x[i] for n, x in latent.items()}) for i in range(len(next(iter(latent.values()))))]
        pairs["log joint"] = joint(simulation.latent), torch.stack(rows)
    return pairs


def _rank(truth: Tensor, others: Tensor, generator: torch.Generator) -> Tensor:
    """How many others are less; of those that are as great, at random. NaN is less than any number."""
    least = -torch.finfo(torch.float64).max
    truth, others = (x.double().cpu().nan_to_num(least, torch.inf, -torch.inf) for x in (truth, others))
    ties = torch.isclose(others, truth, rtol=1e-9, atol=1e-12)
    number = ties.sum(0)
    chosen = (torch.rand(truth.shape, generator=generator, dtype=torch.float64) * (number + 1)).long()
    return (~ties & (others < truth)).sum(0) + chosen.clamp(max=number)


def _chi_square(ranks: Tensor, num_draws: int, num_bins: int | None) -> Tensor:
    flat, L = ranks.reshape(len(ranks), -1), num_draws
    B = min(L + 1, min(20, max(2, len(flat) // 10)) if num_bins is None else num_bins)
    bin_of = torch.arange(L + 1) * B // (L + 1)
    expected = len(flat) * torch.bincount(bin_of, minlength=B).double()[:, None] / (L + 1)
    seen = torch.nn.functional.one_hot(bin_of[flat], B).sum(0).T.double()
    statistic = ((seen - expected) ** 2 / expected).sum(0)
    degrees = torch.full_like(statistic, (B - 1) / 2)
    each: Tensor = torch.special.gammaincc(degrees, statistic / 2)
    return each.min() * flat.shape[1]
