# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums over derivations as one operator of torch, for whatever traces, compiles or transforms a program.

A chart runs compiled code on the numbers of its tensors. A tracer that follows the operations of torch would find
nothing to follow: it would keep the numbers that it saw. A traced program therefore calls ``pyrogram::operation``. Its
first argument is the number of an :class:`Operation`, its second the tensors. An operation knows the shapes of its
results. Its derivative is another operation, and so is the same operation on a batch. An operation runs outside of all
tracing, with autograd of its own, so no chart needs to know of tracers.

An operator costs some 40 microseconds, and calls that nothing traces go around it. Numbers of operations are good for
one process: an exported program runs where it was exported.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch._C import _functorch

__all__ = [
    "LogSum",
    "Operation",
    "Values",
    "captured",
    "constant",
    "handle_of",
    "log_sum",
    "log_sum_and_gradient",
    "number_of",
    "object_of",
    "operate",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def constant(function: Function) -> Function:
    """A function from constants to a constant of traced programs: nothing that it does is traced."""

    @functools.wraps(function)
    def untraced(*arguments: Any) -> Any:
        with _untraced():
            return function(*arguments)

    # The mark of torch.compiler.assume_constant_result, which would import the compiler, for seconds.
    untraced._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return cast(Function, untraced)


def captured() -> bool:
    """Whether a tracer, a compiler or a transform of torch looks on: then values cannot be read."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or _functorch.peek_interpreter_stack() is not None
        or (torch._C._len_torch_dispatch_stack() > 0 and _has_no_numbers())
    )


def _has_no_numbers() -> bool:
    """Whether tensors stand for those of a program, as in make_fx, or of an export: other modes of torch only watch."""
    kinds = torch._C._TorchDispatchModeKey
    return any(torch._C._get_dispatch_mode(x) is not None for x in (kinds.PROXY, kinds.FAKE, kinds.FUNCTIONAL))


class Operation(ABC):
    """A function from tensors to tensors that nobody looks into; equal arguments give equal results."""

    @abstractmethod
    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The results; with a graph if gradients are enabled and a tensor requires one."""

    @abstractmethod
    def empty(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors in the shapes, types and places of the results, whatever their values."""

    @abstractmethod
    def batched(self) -> int:
        """The number of the same operation with one more dimension in front of all arguments and results."""

    def pull(
        self, number: int, tensors: Sequence[Tensor], results: Sequence[Tensor], gradients: Sequence[Tensor]
    ) -> list[Tensor]:
        """Gradients of the arguments that are floating-point numbers, from gradients of the results.

        :param number: of the operation itself.
        """
        return operate(number_of(Pull, number, len(tensors)), [*tensors, *gradients])


class LogSum(Operation):
    """The logarithm of a sum over derivations, as a function of tables of weights, words and lengths.

    :param function: from the arguments to log Z, in the shape to which their batches broadcast and in the type of the
        first one. It is differentiable.
    :param event_dims: how many dimensions of each argument are not the batch's.
    :param mapped: how many dimensions all arguments have in front of their batches.
    """

    def __init__(self, function: Callable[..., Tensor], event_dims: tuple[int, ...], mapped: int = 0):
        self.function, self.event_dims, self.mapped = function, event_dims, mapped

    def aligned(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Arguments whose batches have equal ranks, so that mapped dimensions meet one another."""
        m, ranks = self.mapped, [x.dim() - d for x, d in zip(tensors, self.event_dims, strict=True)]
        if not m:
            return list(tensors)
        missing = [max(ranks) - rank for rank in ranks]
        return [x.reshape(*x.shape[:m], *(1,) * k, *x.shape[m:]) for x, k in zip(tensors, missing, strict=True)]

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return [self.function(*self.aligned(tensors))]

    def empty(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        pairs = zip(self.aligned(tensors), self.event_dims, strict=True)
        batches = torch.broadcast_tensors(*(tensors[0].new_empty(x.shape[: x.dim() - d]) for x, d in pairs))
        return [tensors[0].new_empty(batches[0].shape)]

    def batched(self) -> int:
        return number_of(LogSum, self.function, self.event_dims, self.mapped + 1)


class Gradient(Operation):
    """Log Z, and the gradient of its sum by each argument that has floating-point numbers.

    :param number: of the :class:`LogSum`.
    :param kept: whether the gradients are kept for the backward pass of log Z alone.
    """

    def __init__(self, number: int, kept: bool):
        self.number, self.kept = number, kept

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        results, gradients = _differentiated(self.number, tensors, [])
        return [*results, *gradients]

    def empty(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return [*_OPERATIONS[self.number].empty(tensors), *_empties(tensors)]

    def batched(self) -> int:
        return number_of(Gradient, _OPERATIONS[self.number].batched(), self.kept)

    def pull(
        self, number: int, tensors: Sequence[Tensor], results: Sequence[Tensor], gradients: Sequence[Tensor]
    ) -> list[Tensor]:
        if not self.kept:
            return super().pull(number, tensors, results, gradients)
        scaled = number_of(Scaled, self.number, len(tensors))
        return operate(scaled, [*tensors, gradients[0], *results[1:]])


class Pull(Operation):
    """The gradients of an operation's arguments, given those of its results, which follow the arguments.

    :param number: of the operation.
    :param size: how many arguments it has.
    """

    def __init__(self, number: int, size: int):
        self.number, self.size = number, size

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return _differentiated(self.number, tensors[: self.size], tensors[self.size :])[1]

    def empty(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return _empties(tensors[: self.size])

    def batched(self) -> int:
        return number_of(type(self), _OPERATIONS[self.number].batched(), self.size)


class Scaled(Pull):
    """The same of a :class:`LogSum`; the gradients of the sum of log Z are there already, and come last."""

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        plain, by, gradients = tensors[: self.size + 1], tensors[self.size], tensors[self.size + 1 :]
        graph = torch.is_grad_enabled() and any(x.requires_grad for x in plain)
        if not graph and by.numel() and bool((by == by.flatten()[0]).all()):  # a plate's scale: the usual case
            return [g * by.flatten()[0] for g in gradients]
        return super().run(plain)

    def pull(
        self, number: int, tensors: Sequence[Tensor], results: Sequence[Tensor], gradients: Sequence[Tensor]
    ) -> list[Tensor]:
        plain, kept = tensors[: self.size + 1], tensors[self.size + 1 :]
        pull = number_of(Pull, self.number, self.size)
        return [*_OPERATIONS[pull].pull(pull, plain, results, gradients), *map(torch.zeros_like, kept)]


class Push(Pull):
    """The derivative of an operation in the direction of tangents of its arguments, which follow the arguments."""

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        xs, tangents = tensors[: self.size], [t for t in tensors[self.size :] if t.is_floating_point()]
        with torch.inference_mode(False), torch.enable_grad():
            results = _OPERATIONS[self.number].empty(xs)
            cotangents = [torch.zeros_like(y).requires_grad_() for y in results]
            gradients = _differentiated(self.number, xs, cotangents)[1]
            return _gradients(gradients, cotangents, tangents, any(x.requires_grad for x in tensors))

    def empty(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return _OPERATIONS[self.number].empty(tensors[: self.size])


class Values(Operation):
    """Draws, best derivations and the like, which have no gradient.

    :param function: from the arguments to a list of results.
    :param shapes: from the arguments to a list of tensors that are shaped as the results.
    :param mapped: how many dimensions all arguments have in front.
    """

    def __init__(self, function: Callable[..., list[Tensor]], shapes: Callable[..., list[Tensor]], mapped: int = 0):
        self.function, self.shapes, self.mapped = function, shapes, mapped

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        with torch.no_grad():
            return _one_by_one(self.function, tensors, self.mapped)

    def empty(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return _one_by_one(self.shapes, tensors, self.mapped)

    def batched(self) -> int:
        return number_of(Values, self.function, self.shapes, self.mapped + 1)

    def pull(
        self, number: int, tensors: Sequence[Tensor], results: Sequence[Tensor], gradients: Sequence[Tensor]
    ) -> list[Tensor]:
        return [torch.zeros_like(x) for x in tensors if x.is_floating_point()]


def _one_by_one(function: Callable[..., list[Tensor]], tensors: Sequence[Tensor], mapped: int) -> list[Tensor]:
    """The results for each element of the first dimensions, stacked."""
    if not mapped:
        return function(*tensors)
    rows = [_one_by_one(function, row, mapped - 1) for row in zip(*tensors, strict=True)]
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def _empties(tensors: Sequence[Tensor]) -> list[Tensor]:
    """For the gradients of those that are floating-point numbers."""
    return [x.new_empty(x.shape) for x in tensors if x.is_floating_point()]


def _differentiated(
    number: int, tensors: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """The results of an operation, and the gradients of its arguments that are floating-point numbers.

    :param gradients: of the results; none for ones.
    """
    graph = torch.is_grad_enabled() and any(x.requires_grad for x in (*tensors, *gradients))
    with torch.inference_mode(False), torch.enable_grad():
        leaves = [
            x if not x.is_floating_point() or (graph and x.requires_grad) else x.detach().clone().requires_grad_()
            for x in tensors
        ]
        results = _OPERATIONS[number].run(leaves)
        grads = _gradients(results, [x for x in leaves if x.is_floating_point()], gradients, graph)
    return (results if graph else [y.detach() for y in results]), grads


def _gradients(
    results: Sequence[Tensor], arguments: Sequence[Tensor], gradients: Sequence[Tensor], graph: bool
) -> list[Tensor]:
    """The gradients of the arguments, given those of the results; none for ones."""
    gradients = gradients or [torch.ones_like(y) for y in results]
    pairs = [(y, g) for y, g in zip(results, gradients, strict=True) if y.requires_grad]
    if not pairs:
        return [torch.zeros_like(x) for x in arguments]
    ys, gs = zip(*pairs, strict=True)
    return list(torch.autograd.grad(ys, arguments, gs, create_graph=graph, allow_unused=True, materialize_grads=True))


# ---------------------------------------------------------------------- numbers

_OPERATIONS: list[Operation] = []
_OBJECTS: list[Any] = []


@functools.cache
def _number_of(kind: Callable[..., Operation], *constants: Hashable) -> int:
    _OPERATIONS.append(kind(*constants))
    return len(_OPERATIONS) - 1


@constant
def number_of(kind: Callable[..., Operation], *constants: Hashable) -> int:
    """The number of an operation, which is made when it is first asked for.

    :param kind: makes the operation from the constants.
    """
    return _number_of(kind, *constants)


def handle_of(thing: Any) -> int:
    """A number for an object that operations need; what was traced keeps it alive. A copy has another one."""
    handle: int | None = thing.__dict__.get("_handle")
    if handle is None or handle >= len(_OBJECTS) or _OBJECTS[handle] is not thing:
        handle = thing.__dict__["_handle"] = len(_OBJECTS)
        _OBJECTS.append(thing)
    return handle


def object_of(handle: int) -> Any:
    """The object that has a number by :func:`handle_of`."""
    return _OBJECTS[handle]


# ---------------------------------------------------------------------- calls


def log_sum(number: int, tensors: Sequence[Tensor]) -> Tensor:
    """Log Z, by a :class:`LogSum` of that number."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors) and not _is_pushed():
        number = number_of(Gradient, number, True)
    return operate(number, tensors)[0]


def log_sum_and_gradient(number: int, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Log Z and the gradients of its sum, all of them differentiable, by a :class:`LogSum` of that number."""
    return operate(number_of(Gradient, number, False), tensors)


def operate(number: int, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The results of an operation."""
    if not captured():
        return _OPERATIONS[number].run(tensors)
    if not _is_transformed():
        return list(operation(number, tensors))
    if torch.compiler.is_compiling():
        torch._dynamo.graph_break("torch.compile takes no differentiable operator inside of a transform of torch.func")
    return list(_Transformed.apply(number, *tensors))


@torch.library.custom_op("pyrogram::operation", mutates_args=())
def operation(number: int, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The results of an operation, as one node of what is traced."""
    with _untraced(), torch.no_grad():
        return [y.detach().clone(memory_format=torch.contiguous_format) for y in _OPERATIONS[number].run(tensors)]


@operation.register_fake
def _(number: int, tensors: Sequence[Tensor]) -> list[Tensor]:
    return _OPERATIONS[number].empty(tensors)


def _keep(ctx: Any, inputs: tuple[int, Sequence[Tensor]], output: Sequence[Tensor]) -> None:
    ctx.number, ctx.size = inputs[0], len(inputs[1])
    ctx.save_for_backward(*inputs[1], *output)


def _pulled(ctx: Any, gradients: Sequence[Tensor]) -> tuple[None, list[Tensor | None]]:
    saved = ctx.saved_tensors  # which checkpointing gives once
    tensors, results = saved[: ctx.size], saved[ctx.size :]
    grads = iter(_OPERATIONS[ctx.number].pull(ctx.number, tensors, results, gradients))
    return None, [next(grads) if x.is_floating_point() else None for x in tensors]


def _vmapped(info: Any, in_dims: Any, number: int, tensors: Sequence[Tensor]) -> tuple[list[Tensor], list[int]]:
    pairs = zip(tensors, in_dims[1], strict=True)
    rows = [x.expand(info.batch_size, *x.shape) if d is None else x.movedim(d, 0) for x, d in pairs]
    results = operate(_OPERATIONS[number].batched(), rows)
    return results, [0] * len(results)


operation.register_autograd(_pulled, setup_context=_keep)
operation.register_vmap(_vmapped)


class _Transformed(torch.autograd.Function):
    """The operator under transforms of ``torch.func``, which registered operators cannot be differentiated in."""

    generate_vmap_rule = False

    @staticmethod
    def forward(number: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(operate(number, tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        number, *tensors = inputs
        _keep(ctx, (number, tensors), output)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return (None, *_pulled(ctx, gradients)[1])

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> Any:
        tensors = ctx.saved_tensors[: ctx.size]
        moved = [torch.zeros_like(x) if t is None else t for x, t in zip(tensors, tangents, strict=True)]
        return tuple(operate(number_of(Push, ctx.number, ctx.size), [*tensors, *moved]))

    @staticmethod
    def vmap(info: Any, in_dims: Any, number: int, *tensors: Tensor) -> Any:
        results, out_dims = _vmapped(info, (None, in_dims[1:]), number, tensors)
        return tuple(results), tuple(out_dims)


@constant
def _is_transformed() -> bool:
    """Whether a transform of ``torch.func`` is on."""
    return _functorch.peek_interpreter_stack() is not None


@constant
def _is_pushed() -> bool:
    """Whether a transform of ``torch.func`` pushes tangents forward."""
    return any(level.key() == _functorch.TransformType.Jvp for level in _functorch.get_interpreter_stack() or ())


# What a thread has on that has not begun to trace anything.
with ThreadPoolExecutor(1) as _thread:
    _NOTHING_ON = _thread.submit(
        lambda: (torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set())
    ).result()


@contextmanager
def _untraced() -> Iterator[None]:
    """Torch as it is when nothing traces, autograd included, without which an operator is called."""
    private: Any = torch._C
    tracing = private._get_tracing_state()
    if tracing is not None:
        private._set_tracing_state(None)  # else sizes are tensors
    try:
        with private._ForceDispatchKeyGuard(*_NOTHING_ON):
            yield
    finally:
        if tracing is not None:
            private._set_tracing_state(tracing)
