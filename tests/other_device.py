# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A device that is not the CPU, where there is none: tensors that say ``meta`` and hold numbers.

``with OtherDevice() as device:`` makes them wherever a tensor is asked for on ``meta``. As on a real device, operations
refuse operands of which one is on the CPU, and numpy cannot have them. What comes back to the CPU is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten
_COPIES = {aten._to_copy.default, aten.copy_.default}
_JOINED = {aten.cat.default, aten.stack.default}  # of which numbers of the CPU may not be
_INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}  # CUDA takes indices of the CPU
META = torch.device("meta")


class There(Tensor):
    """A tensor on the device."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> There:
        with torch.inference_mode(False):  # in which no wrapper can be detached
            made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls, held.shape, strides=held.stride(), dtype=held.dtype, device=META, requires_grad=held.requires_grad
            )
        made.held = held
        return made  # type: ignore[no-any-return]

    def __repr__(self) -> str:  # type: ignore[override]
        return f"There({self.held!r})"

    def tolist(self) -> Any:
        return self.held.tolist()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(None, func, args, kwargs or {})


def _from_numbers(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``torch.tensor([1, 2], device=...)``: on ``meta`` torch forgets the numbers."""

    def made(*args: Any, **kwargs: Any) -> Tensor:
        asked = kwargs.get("device")
        if asked is not None and torch.device(asked) == META:
            return make(*args, **{**kwargs, "device": "cpu"}).to(META)
        return make(*args, **kwargs)

    return made


class OtherDevice(TorchDispatchMode):
    """See the module.

    :ivar numbers: how often a number was read by the host.
    :ivar copies: shapes of tensors that were copied to the CPU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0
        self.copies: list[tuple[int, ...]] = []
        self.device = META
        self._patches = pytest.MonkeyPatch()

    def __enter__(self) -> OtherDevice:
        # A mode for functions would be off while derivatives are computed.
        self._patches.setattr(torch, "tensor", _from_numbers(torch.tensor))
        self._patches.setattr(torch, "as_tensor", _from_numbers(torch.as_tensor))
        return super().__enter__()  # type: ignore[no-any-return]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patches.undo()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.is_inference_mode_enabled() and func._can_decompose():  # autograd, which does it, is off
            super().__enter__()
            try:
                return func.decompose(*args, **(kwargs or {}))
            finally:
                super().__exit__(None, None, None)
        return dispatch(self, func, args, kwargs or {})

    def put(self, value: Tensor) -> Tensor:
        """A copy of a tensor, on the device."""
        return There(value.detach().clone())


def dispatch(mode: OtherDevice | None, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    flat = tree_flatten((args, kwargs))[0]
    there = any(isinstance(x, There) for x in flat)
    asked = kwargs.get("device")
    goes_there = asked is not None and torch.device(asked).type == "meta"
    comes_back = there and asked is not None and torch.device(asked).type == "cpu"
    if there and func not in _COPIES:
        if func in _INDEXED:  # of which indices may be anywhere
            operands = [args[0], *args[2:3]]
        else:
            operands = flat
        for x in operands:
            is_number = isinstance(x, Tensor) and x.dim() == 0 and func not in _JOINED
            if isinstance(x, Tensor) and not isinstance(x, There) and not is_number:
                raise RuntimeError(f"{func} has operands on two devices: shape {tuple(x.shape)} is on the CPU")
    if mode is not None and func is aten._local_scalar_dense.default and there:
        mode.numbers += 1
    if mode is not None and (comes_back or (func is aten.copy_.default and not isinstance(args[0], There) and there)):
        mode.copies.append(tuple(args[1 if func is aten.copy_.default else 0].shape))
    if goes_there or comes_back:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    inner_args, inner_kwargs = tree_map(lambda x: x.held if isinstance(x, There) else x, (args, kwargs))
    found = func(*inner_args, **inner_kwargs)
    if func is aten.copy_.default:
        return args[0]
    if comes_back or not (there or goes_there):
        return found
    known = {id(x.held): x for x in flat if isinstance(x, There)}  # operations in place give back their operand
    return tree_map(lambda x: known[id(x)] if id(x) in known else There(x) if isinstance(x, Tensor) else x, found)
