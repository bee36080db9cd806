# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tensors whose values cannot be looked at."""

import torch
from torch import Tensor


def is_traced(tensor: Tensor) -> bool:
    """Whether torch compiles or transforms (vmap, grad): then values cannot be looked at."""
    functorch = torch._C._functorch
    return (
        torch.compiler.is_compiling()
        or functorch.is_functorch_wrapped_tensor(tensor)
        or functorch.is_legacy_batchedtensor(tensor)
    )
