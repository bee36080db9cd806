# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Values in nested contexts under a hierarchical Pitman-Yor process, the distributions of all contexts integrated out.

Wallach, Sutton and McCallum (2008), section 2; Teh (2006), A hierarchical Bayesian language model based on Pitman-Yor
processes. With discounts of zero it is a hierarchical Dirichlet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints

from pyrogram.checks import broadcast_shapes
from pyrogram.restaurants.checks import as_tensor, base_measure, parameters, stacked
from pyrogram.restaurants.restaurants import PATHS, Paths, Restaurants, check_nested

Likelihood = Literal["joint", "predictive"]
Density = Callable[[Tensor, Tensor], Tensor]


class Contexts:
    """In which contexts N observations are made, at L levels.

    A context is an integer, its *key*, at each level; observation i is made in context ``keys[-1][i]``, whose
    reduction is ``keys[-2][i]``, and so on. Make it once, outside of the model: it keeps the counts of the values that
    were seen last.

    :param keys: L tensors, or lists, of shape ``(N,)``, the coarsest level first.
    :raises ValueError: if shapes differ, or if equal keys at a level have different keys at a coarser one.
    """

    def __init__(self, keys: Sequence[Any]):
        if not hasattr(keys, "__len__"):
            raise TypeError(f"keys must be a sequence of tensors, one for each level, not {keys!r}")
        if len(keys) == 0:
            raise ValueError("contexts need at least one level of keys")
        check_nested(keys)
        self.keys = tuple(torch.from_numpy(stacked(keys)))
        self._last: tuple[Tensor, tuple[Any, ...], Tensor | None, Density] | None = None

    def __repr__(self) -> str:
        return f"Contexts(num_levels={self.num_levels}, num_observations={len(self)})"

    def __len__(self) -> int:
        return len(self.keys[0])

    @property
    def num_levels(self) -> int:
        """L."""
        return len(self.keys)

    def density(
        self, values: Tensor, num_values: int, paths: Paths, likelihood: Likelihood, base: Tensor | None
    ) -> Density:
        """The log density of values as a function of concentration and discount, both of shape ``(L,)``.

        The counts that it needs are kept until other values, or other settings, are asked for.

        :param values: shape ``(N,)``, from 0 to ``num_values - 1``.
        """
        values = values.detach().cpu()
        settings = num_values, paths, likelihood
        if self._last is not None:
            seen, before, measure, density = self._last
            if settings == before and _equal(measure, base) and torch.equal(seen, values):
                return density
        restaurants = Restaurants(self.num_levels, num_values, paths, base=base)
        if likelihood == "predictive":
            density = restaurants.add_recorded(self.keys, values).log_prob
        else:
            restaurants.add(self.keys, values, torch.ones(self.num_levels), torch.zeros(self.num_levels))
            density = restaurants.log_joint
        self._last = values.clone(), settings, None if base is None else base.clone(), density
        return density


def _equal(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return (a.dtype, a.device) == (b.dtype, b.device) and torch.equal(a, b)


class HierarchicalPitmanYor(TorchDistribution):
    """Values of all observations together, which depend on one another through the distributions of their contexts.

    The distribution of values in a context has a Pitman-Yor prior, whose base measure is the distribution of the
    context's reduction, up to the base measure of level 0. These distributions are integrated out, so a value is *all*
    N observations, shape ``(N,)``::

        contexts = Contexts([coarse, fine])  # outside of the model

        def model(values):
            discount = pyro.sample("discount", dist.Beta(1, 1).expand([2]).to_event(1))
            strength = pyro.sample("strength", dist.Gamma(1, 0.1).expand([2]).to_event(1))
            prior = HierarchicalPitmanYor(contexts, strength - discount, discount, num_values)
            pyro.sample("values", prior, obs=values)

    Where values come from the same internal draw is latent. ``paths`` says what is assumed (see
    :mod:`pyrogram.restaurants.restaurants`), and ``likelihood`` what ``log_prob(values)`` is, in nats:

    ``"joint"``
        log P(values, draws): the *joint* of the values and of that one configuration of internal draws, not of
        the values alone, whose probability is the sum over all configurations. After its first call with the same
        values it costs nothing that grows with N. With maximal paths it is of no use for learning: if every
        observation has a draw of its own, it is greatest for infinite concentrations, or discounts of one.
    ``"predictive"``
        the sum of log P(value | context, values before it), each by the counts under the assumption: a distribution,
        whose probabilities of all values sum to one. It depends on the order of the observations, and costs O(N L).

    Both are differentiable in concentration and discount, so NUTS, SVI and slice sampling
    (:class:`~pyrogram.infer.PitmanYorSampler`) can learn them. With ``paths="exact"`` draws are latent: ``log_prob`` is
    refused, and ``PitmanYorSampler`` samples them together with what the parameters depend on.

    ``sample`` draws ancestrally from the process itself or, with ``likelihood="predictive"``, from that distribution.

    :param contexts: of the N observations.
    :param concentration: α of each level, coarsest first, at least -ε; shape ``(*batch, L)``. As of the discount,
        a number alone is that of all levels, and integers become floating-point numbers.
    :param discount: ε of each level, from 0 (a Dirichlet) to below 1; shape ``(*batch, L)``.
    :param num_values: V; values are 0 .. V-1.
    :param paths: ``"minimal"``, ``"maximal"`` or ``"exact"``.
    :param likelihood: ``"predictive"``, by default, or ``"joint"``, which alone goes with exact paths.
    :param base: base measure above level 0, probabilities of shape ``(V,)``; uniform by default.
    :raises ValueError: if a shape does not fit or, with validation, if a number is out of range.
    """

    arg_constraints: dict[str, Any] = {}  # α >= -ε is checked together

    def __init__(
        self,
        contexts: Contexts,
        concentration: Any,
        discount: Any,
        num_values: int,
        *,
        paths: Paths = "minimal",
        likelihood: Likelihood | None = None,
        base: Any = None,
        validate_args: bool | None = None,
    ):
        if paths not in PATHS or num_values < 1:
            raise ValueError(
                f"need num_values >= 1 and paths 'minimal', 'maximal' or 'exact', not {num_values}, {paths!r}"
            )
        if likelihood is None:
            likelihood = "joint" if paths == "exact" else "predictive"
        if likelihood not in ("joint", "predictive") or (paths, likelihood) == ("exact", "predictive"):
            raise ValueError(
                "likelihood must be 'joint' or, unless paths='exact', 'predictive', not "
                f"{likelihood!r} with paths={paths!r}"
            )
        if not isinstance(contexts, Contexts):
            raise TypeError(f"contexts must be Contexts, made once and outside of the model, not {contexts!r}")
        L = contexts.num_levels
        alpha, epsilon = _parameters(concentration, discount)
        shape = broadcast_shapes(alpha.shape, epsilon.shape) or torch.Size([L])
        if shape[-1:] != (L,):
            raise ValueError(
                f"concentration and discount must be numbers or have shape (*batch, {L}), one for each level, not "
                f"{tuple(alpha.shape)} and {tuple(epsilon.shape)}"
            )
        if base is not None and not isinstance(base, Tensor):
            base = as_tensor("base", base, torch.float64)
        self.contexts, self.num_values, self.base = contexts, num_values, base
        self.paths, self.likelihood = paths, likelihood
        self.concentration, self.discount = alpha.expand(shape), epsilon.expand(shape)
        super().__init__(shape[:-1], torch.Size([len(contexts)]), validate_args=validate_args)
        if self._validate_args:
            for alpha, epsilon in self._batch_parameters():
                parameters(alpha, epsilon, L)
            if base is not None:
                base_measure(base, num_values)

    @property
    def support(self) -> Any:
        """N integers from 0 to V-1."""
        return constraints.independent(constraints.integer_interval(0, self.num_values - 1), 1)

    def expand(self, batch_shape: Any, _instance: Any = None) -> HierarchicalPitmanYor:
        """The same distribution in a larger batch."""
        new: HierarchicalPitmanYor = self._get_checked_instance(HierarchicalPitmanYor, _instance)
        for name in ("contexts", "num_values", "paths", "likelihood", "base"):
            setattr(new, name, getattr(self, name))
        shape = torch.Size(batch_shape) + (self.contexts.num_levels,)
        new.concentration, new.discount = self.concentration.expand(shape), self.discount.expand(shape)
        super(HierarchicalPitmanYor, new).__init__(torch.Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        """Which log probability it is, the class says; shape ``broadcast(batch_shape, value.shape[:-1])``.

        :raises NotImplementedError: if ``paths="exact"``.
        """
        if self.paths == "exact":
            raise NotImplementedError(
                "the probability of values with all seatings summed out is intractable: sample the seats with "
                "PitmanYorSampler, or use paths='minimal' or 'maximal'"
            )
        if not isinstance(value, Tensor):
            raise ValueError(
                f"values must be a tensor of integers of shape (*batch, {len(self.contexts)}), not {value!r}"
            )
        if self._validate_args:
            self._validate_sample(value)
        shape = broadcast_shapes(self.batch_shape, value.shape[:-1])
        values = value.expand(shape + value.shape[-1:]).reshape(shape.numel(), len(self.contexts))
        L = self.contexts.num_levels
        alphas, epsilons = (x.expand(shape + (L,)).reshape(-1, L) for x in (self.concentration, self.discount))
        rows = [
            self.contexts.density(v, self.num_values, self.paths, self.likelihood, self.base)(alpha, epsilon)
            for v, alpha, epsilon in zip(values, alphas, epsilons, strict=True)
        ]
        like = torch.result_type(self.concentration, self.discount)
        if not rows:
            return alphas.new_zeros(shape, dtype=like)
        return torch.stack(rows).reshape(shape).to(self.concentration.device, like)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values drawn one after the other, each given those before, shape ``(*sample_shape, *batch_shape, N)``."""
        shape = torch.Size(sample_shape) + self.batch_shape
        paths: Paths = self.paths if self.likelihood == "predictive" else "exact"
        draws = []
        with torch.no_grad():
            for _ in range(torch.Size(sample_shape).numel()):
                for alpha, epsilon in self._batch_parameters():
                    restaurants = Restaurants(self.contexts.num_levels, self.num_values, paths, base=self.base)
                    draws.append(restaurants.draw(self.contexts.keys, alpha, epsilon))
        device = self.concentration.device
        if not draws:
            return torch.zeros(shape + self.event_shape, dtype=torch.long, device=device)
        return torch.stack(draws).reshape(shape + self.event_shape).to(device)

    def restaurants(self, values: Tensor, generator: torch.Generator | None = None) -> Restaurants:
        """The observations, seated; they may be changed.

        :param values: shape ``(N,)``.
        :param generator: for ``paths="exact"``, whose seats are drawn one after the other: a start for
            :meth:`~pyrogram.restaurants.restaurants.Restaurants.reseat`, not a draw from their posterior.
        """
        if self.batch_shape:
            raise ValueError(
                f"restaurants need concentration and discount of shape (L,), not a batch {self.batch_shape}"
            )
        restaurants = Restaurants(self.contexts.num_levels, self.num_values, self.paths, base=self.base)
        restaurants.add(self.contexts.keys, values, self.concentration, self.discount, generator)
        return restaurants

    def _validate_sample(self, value: Tensor) -> None:
        N = len(self.contexts)  # the restaurants look at the values themselves
        if value.shape[-1:] != (N,):
            raise ValueError(f"values must have shape (*batch, {N}), one for each context, not {tuple(value.shape)}")

    def _batch_parameters(self) -> list[tuple[Tensor, Tensor]]:
        """Parameters of each element of the batch."""
        L = self.contexts.num_levels
        return list(zip(self.concentration.reshape(-1, L), self.discount.reshape(-1, L), strict=True))


def _parameters(concentration: Any, discount: Any) -> tuple[Tensor, Tensor]:
    """Both as floating-point tensors: what is none is made one like the other or, if both are none, the default."""
    pair = (concentration, discount)
    like = [x for x in pair if isinstance(x, Tensor)]
    dtype = next((x.dtype for x in like if x.is_floating_point()), torch.get_default_dtype())
    device = like[0].device if like else None
    tensors = []
    for name, x in zip(("concentration", "discount"), pair, strict=True):
        if isinstance(x, Tensor) and x.is_complex():
            raise ValueError(f"{name} must be real numbers, not {x.dtype}")
        real = isinstance(x, Tensor) and x.is_floating_point()
        tensors.append(x if real else as_tensor(name, x, dtype).to(device))
    return tensors[0], tensors[1]
