# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Whether Markov chains have forgotten where they began, and how many independent draws theirs are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from torch import Tensor

from pyrogram.printable import plural

from .chains import Chains, draws_of

# Pyro's effective sample size holds the squared number of draws for each number that is drawn.
_NUMBERS_AT_ONCE = 2**24


@dataclass(frozen=True)
class Convergence:
    """Split R-hat and effective sample size of all that chains are followed by; ``print`` shows the worst of each.

    :param r_hat: by name, in the shape of a draw; one if chains agree with each other and their halves with theirs, NaN
        of what never changes.
    :param n_eff: by name, in the shape of a draw; NaN of what never changes, and where draws are too few to tell.
    :param num_chains: C.
    :param num_draws: T, of each chain.
    """

    r_hat: dict[str, Tensor]
    n_eff: dict[str, Tensor]
    num_chains: int
    num_draws: int

    def __str__(self) -> str:
        width = max(map(len, self.r_hat), default=0)
        lines = [
            f"{'':{width}}  numbers  greatest R-hat  least n_eff   ({self.num_chains} x "
            f"{plural(self.num_draws, 'draw')})"
        ]
        for name, r_hat in self.r_hat.items():
            worst, least = (x[~x.isnan()] for x in (r_hat.flatten(), self.n_eff[name].flatten()))
            greatest = f"{float(worst.max()):.3f}" if len(worst) else "-"
            smallest = f"{float(least.min()):.0f}" if len(least) else "-"
            lines.append(f"{name:{width}}{r_hat.numel():>9}{greatest:>16}{smallest:>13}")
        return "\n".join(lines)


def convergence(chains: Chains) -> Convergence:
    """Split R-hat (Gelman et al. 2013, section 11.4) and effective sample size of weights and statistics of trees.

    Both are Pyro's. Chains should begin at different places, as they do with ``initial_weights="random"``. R-hat above
    1.01 says that they have not mixed; of weights alone it says little, for components that swap their names are other
    weights and the same trees.

    >>> grammar = pyrogram.DMV(num_tags=2)
    >>> words = torch.tensor([[0, 1, 1], [1, 0, -1]])
    >>> model = pyrogram.models.dirichlet.dirichlet
    >>> samplers = [pyrogram.infer.TreeGibbs(model, seed=i, keep_statistics=True) for i in range(2)]
    >>> chains = [s.run(words, grammar, num_steps=60, burn_in=10, progress=False) for s in samplers]
    >>> sorted(convergence(chains).r_hat)[:3]
    ['log joint', 'words.dependency_length', 'words.depth']

    :param chains: a ``pyro.infer.MCMC`` that has run, whose kernel may be any; or samplers over trees that ran by
        themselves, with ``keep_statistics`` or ``keep_weights``.
    :raises ValueError: for fewer than four draws.
    """
    draws = draws_of(chains)
    by_name = {**draws.statistics, **draws.values}
    num_chains, num_draws = next(iter(by_name.values())).shape[:2]
    if num_draws < 4:
        raise ValueError(f"convergence needs at least four draws of a chain, not {num_draws}")
    return Convergence(
        {name: _by_number(split_gelman_rubin, x) for name, x in by_name.items()},
        {name: _by_number(effective_sample_size, x) for name, x in by_name.items()},
        num_chains,
        num_draws,
    )


def _by_number(statistic: Callable[[Tensor], Tensor], draws: Tensor) -> Tensor:
    """A statistic (C, T, K) -> (K,) of draws (C, T, *shape), some of the numbers at a time; NaN if it is not positive.

    What never changes has none, and Pyro's effective sample size would take that of its neighbours away.
    """
    flat = draws.to(torch.float64).flatten(2) if draws.dim() > 2 else draws.to(torch.float64)[..., None]
    changes = (flat != flat[:1, :1]).flatten(0, 1).any(0).nonzero()[:, 0]
    values = flat.new_full(flat.shape[2:], torch.nan)
    for chunk in changes.split(max(1, _NUMBERS_AT_ONCE // draws.shape[1] ** 2)):
        values[chunk] = statistic(flat[..., chunk])
    return torch.where(values > 0, values, torch.nan).reshape(draws.shape[2:])
