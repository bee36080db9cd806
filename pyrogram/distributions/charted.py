# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What distributions have in common whose probabilities come out of a chart: it is filled once, and kept."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyrogram.checks import broadcast_shapes, fits_compiled
from pyrogram.operators import LogSum, Values, captured, log_sum, log_sum_and_gradient, number_of, operate
from pyrogram.recursion.rules.charts import Chart
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.run.tensor_inputs import TensorInputs

Self = TypeVar("Self", bound="ChartDistribution")
Method = TypeVar("Method", bound=Callable[..., Any])


class ChartDistribution(TorchDistribution):
    """A distribution that computes a chart once, and again if a tensor that it was computed from has changed.

    A change in place is told by the tensor's version, as autograd does; so a change of ``tensor.data``, which hides
    from autograd, is not noticed.
    """

    _cache: dict[str, _Kept]

    @abstractmethod
    def _inputs(self) -> tuple[Tensor | None, ...]:
        """The tensors that charts are computed from."""

    @abstractmethod
    def _log_partition(self) -> Tensor:
        """log Z in the parameters' own batch shape, or in a larger one."""

    def _posterior(self) -> Any:
        """log Z, and its gradient by all parameters, in their own batch shape; kept."""
        raise NotImplementedError

    @property
    def log_partition(self) -> Tensor:
        """log Z in nats, shape ``batch_shape``; -inf where nothing is possible."""
        if captured():
            log_z = self._traced_log_partition()
        elif self._is_kept("posterior"):  # the posterior's chart has log Z as well
            log_z = copied(self._posterior()[0])  # a caller may change it in place
        else:
            log_z = copied(self._kept("log_z", self._log_partition))
        return log_z if log_z.shape == self.batch_shape else log_z.expand(self.batch_shape)

    def _validate_sample(self, value: Tensor) -> None:
        if not captured():
            super()._validate_sample(value)

    # ------------------------------------------------------------------ where something traces

    @abstractmethod
    def _recipe(self) -> tuple[Recipe, list[Tensor]]:
        """What makes this distribution from tensors, and the tensors."""

    def _traced_log_partition(self) -> Tensor:
        """log Z as an operator, in the parameters' own batch shape."""
        return self._traced_scalar("log_partition")

    def _traced_scalar(self, name: str, *values: Tensor) -> Tensor:
        """What a property, or a method of values, gives: a differentiable number for each distribution; as an operator.

        :param values: with one dimension that is not the batch's.
        """
        recipe, tensors = self._recipe()
        return log_sum(number_of(_scalar, *recipe, name, len(values)), [*tensors, *values])

    def _traced_gradient(self) -> tuple[Tensor, dict[str, Tensor]]:
        """The same with its gradient by each floating tensor of the recipe, expanded to one batch, by name."""
        recipe, tensors = self._recipe()
        dims = recipe[2]
        batch = broadcast_shapes(*(x.shape[: x.dim() - d] for x, (_, d) in zip(tensors, dims, strict=True)))
        wide = [x.expand((*batch, *x.shape[x.dim() - d :])) for x, (_, d) in zip(tensors, dims, strict=True)]
        log_z, *gradients = log_sum_and_gradient(number_of(_scalar, *recipe, "log_partition", 0), wide)
        names = [name for (name, _), x in zip(dims, tensors, strict=True) if x.is_floating_point()]
        return log_z, dict(zip(names, gradients, strict=True))

    def _traced_values(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """What a method returns, as an operator; draws follow torch's generator as the traced program calls it."""
        recipe, tensors = self._recipe()
        batch, dims = self.batch_shape, recipe[2]
        wide = [x.expand((*batch, *x.shape[x.dim() - d :])) for x, (_, d) in zip(tensors, dims, strict=True)]
        if method == "sample":
            wide.append(torch.randint(2**62, ()))
        outputs = operate(number_of(_values, *recipe, method, arguments), wide)
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def _summed(self) -> Summed:
        """The recursion that sums over the values, and what it is run on.

        :raises TypeError: if there is none.
        """
        raise TypeError(f"{type(self).__name__} is not computed by a recursion over spans, so it has no chart to show")

    def chart(self, sentence: int | Sequence[int] | None = None) -> Chart:
        """The chart of one sentence, item by item, in plain numbers: to be looked at, see :func:`pyrogram.viz.chart`.

        :param sentence: its index in the batch; None if there is only one.
        :raises TypeError: if no recursion over spans computes the distribution.
        :raises ValueError: if there are several sentences and none is chosen, or the chart is too large.
        :raises IndexError: if there is no such sentence.
        """
        summed = self._summed()
        numbers = np.arange(summed.batch.numel()).reshape(summed.batch)
        numbers = np.broadcast_to(numbers, self.batch_shape)
        if sentence is None and numbers.size != 1:
            raise ValueError(
                f"a chart is of one sentence, and the batch has shape {tuple(self.batch_shape)}; say which one, as in "
                f"chart({'0' if numbers.ndim == 1 else (0,) * numbers.ndim})"
            )
        chosen = numbers.reshape(-1)[0] if sentence is None else numbers[sentence]
        if np.ndim(chosen):
            raise ValueError(f"a chart is of one sentence, and {sentence} are {np.size(chosen)}")
        b, inputs = int(chosen), summed.inputs
        tables = {name: w[min(b, len(w) - 1)].detach().exp() for name, w in inputs.weights.items()}
        return Chart(
            summed.recursion,
            {name: w.to("cpu", torch.float64).numpy() for name, w in tables.items()},
            int(inputs.lengths[b]),
            sizes=inputs.sizes,
            lists=inputs.lists,
            words={name: rows[b].tolist() for name, rows in inputs.words.items()},
            symbols=summed.symbols,
        )

    def expand(self: Self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same distribution in a larger batch; nothing is copied, and what is computed stays computed."""
        new: Self = self._get_checked_instance(type(self), _instance)
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("_batch_shape", "_validate_args")})
        TorchDistribution.__init__(new, torch.Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __getstate__(self) -> dict[str, Any]:
        # What was computed hangs on a graph: torch refuses to copy that, and a pickle would cut it off unnoticed.
        return {**self.__dict__, "_cache": {}}

    def _is_kept(self, name: str) -> bool:
        """Whether something was computed, with the graph that is wanted, from the tensors as they are."""
        kept = self._cache.get(name)
        if kept is None or (torch.is_grad_enabled() and not kept.with_graph):
            return False
        now = _states(self._inputs())
        return now is not None and all(a is b and v == w for (a, v), (b, w) in zip(kept.inputs, now, strict=True))

    def _kept(self, name: str, compute: Callable[[], Any]) -> Any:
        """Compute once, and again if it is not kept."""
        if self._is_kept(name):
            return self._cache[name].value
        inputs, value = _states(self._inputs()), compute()
        if inputs is not None:
            self._cache[name] = _Kept(torch.is_grad_enabled(), inputs, value)
        return value


#: What makes a distribution from tensors: a function from constants to a function from tensors; the constants; names of
#: the tensors, and how many dimensions of each are not the batch's.
Recipe = tuple[Callable[..., Callable[..., Any]], tuple[Hashable, ...], tuple[tuple[str, int], ...]]


#: Arguments of a constructor that are no tensors, by name.
Options = tuple[tuple[str, Hashable], ...]


def structure(kind: type, names: tuple[str, ...], options: Options) -> Callable[..., Any]:
    """From the tensors that a constructor calls by these names to the distribution."""
    return lambda *tensors: kind(**dict(zip(names, tensors, strict=False)), **dict(options))


def traceable(method: Method) -> Method:
    """A method whose results are integers, found by compiled code; where something traces it, an operator."""

    @functools.wraps(method)
    def either(self: ChartDistribution, *arguments: Any, **options: Any) -> Any:
        if not captured():
            return method(self, *arguments, **options)
        values = (*arguments, *options.values())
        constants = (tuple(map(int, x)) if isinstance(x, Sequence) and not isinstance(x, str) else x for x in values)
        return self._traced_values(method.__name__, tuple(constants))

    return cast(Method, either)


def _scalar(
    make: Callable[..., Any],
    constants: tuple[Hashable, ...],
    dims: tuple[tuple[str, int], ...],
    name: str,
    num_values: int,
) -> LogSum:
    of, size = make(*constants), len(dims)

    def scalar(*tensors: Tensor) -> Tensor:
        attribute = getattr(of(*tensors[:size]), name)
        result: Tensor = attribute(*tensors[size:]) if num_values else attribute
        return result

    return LogSum(scalar, (*(d for _, d in dims), *(1,) * num_values))


def _values(
    make: Callable[..., Any],
    constants: tuple[Hashable, ...],
    dims: tuple[tuple[str, int], ...],
    method: str,
    arguments: tuple[Any, ...],
) -> Values:
    of, size = make(*constants), len(dims)

    def values(*tensors: Tensor) -> list[Tensor]:
        law = of(*tensors[:size])
        with torch.random.fork_rng(devices={x.device for x in tensors if x.device.type == "cuda"}):
            for seed in tensors[size:]:
                torch.manual_seed(int(seed))
            results = getattr(law, method)(*arguments)
        return list(results) if isinstance(results, tuple) else [results]

    def empty(*tensors: Tensor) -> list[Tensor]:
        law = of(*tensors[:size])
        front = tuple(arguments[0]) if method == "sample" and arguments else arguments[:1] if method == "top_k" else ()
        rows = tensors[0].new_empty(*front, *law.batch_shape, *law.event_shape, dtype=torch.long)
        return [rows, tensors[0].new_empty(*front, *law.batch_shape)] if method == "top_k" else [rows]

    return Values(values, empty)


class Summed(NamedTuple):
    """What a distribution sums with.

    :param inputs: of B sentences.
    :param batch: their batch shape.
    :param symbols: names of symbols, by the name of their size.
    """

    recursion: Recursion
    inputs: TensorInputs
    batch: torch.Size
    symbols: Mapping[str, Sequence[str]]


class _Kept(NamedTuple):
    """What was computed, whether with a graph, and from which tensors in which state."""

    with_graph: bool
    inputs: tuple[tuple[Tensor | None, int], ...]
    value: Any


def _states(inputs: tuple[Tensor | None, ...]) -> tuple[tuple[Tensor | None, int], ...] | None:
    """Tensors and their versions; None if one has no version, so that nobody can tell whether it changed."""
    states = []
    for x in inputs:
        if x is not None and x.is_inference():
            return None
        states.append((x, 0 if x is None else x._version))
    return tuple(states)


def differ(one: Tensor, other: Tensor) -> bool:
    """Whether lengths or words are known to differ: what is traced cannot be looked at."""
    return not captured() and not bool((one == other).all())


def expected_score(counts: Tensor, values: Tensor, dims: int = 1) -> Tensor:
    """Sum of counts times values, in which nothing times -inf is nothing: shape ``batch``, of ``(*batch, *events)``.

    :param dims: how many dimensions the events have.
    """
    product = counts * torch.where(counts > 0, values, 0.0)
    return product.flatten(product.dim() - dims).sum(-1) if dims else product


def conditional(score: Tensor, log_z: Tensor) -> Tensor:
    """log p(y | x) = score - log Z; -inf where log Z is, for then no y is possible. NaN stays NaN."""
    return torch.where(log_z == -torch.inf, -torch.inf, score - log_z)


def copied(values: Tensor) -> Tensor:
    """A copy, by numpy where it can: torch would wake its threads, which then spin and get in the way of ours."""
    if captured() or values.requires_grad or not fits_compiled(values):
        return values.clone()
    return torch.from_numpy(values.numpy().copy())
