# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights that a network makes from embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import pyro.distributions as dist
import torch
from pyro.nn import PyroModule, PyroSample
from pyro.nn.module import to_pyro_module_
from torch import Tensor

from pyrogram.checks import broadcast_shapes
from pyrogram.grammar import Block

from .outcomes import by_event, inner_products, multinomials, outcomes_of


class NeuralWeights(PyroModule):
    """Weights of a block from vectors of what indexes it: of tags, of directions, of nonterminals, of right sides.

    The vectors of a multinomial's indices go through a layer of rectified linear units, and the weight of an outcome is
    softmax of the inner product with its vector (Jiang, Han and Tu 2016, section 3.1; Kim, Dyer and Rush 2019,
    section 2.2, without residual layers):

        h[k] = relu(A [u(k1); u(k2); ..; z] + a),    w[k, i] = softmax(<h[k], v(i)> / √size + b(i)).

    Blocks whose networks are given the same embeddings learn from each other:

    >>> grammar = pyrogram.DMV(num_tags=5)
    >>> tags = torch.nn.Embedding(5, 8)
    >>> attach = NeuralWeights("attach", grammar.blocks["attach"], 8, {0: tags, -1: torch.nn.Embedding(5, 8)})
    >>> stop = NeuralWeights("stop", grammar.blocks["stop"], 8, {0: tags})
    >>> attach().shape, stop().shape
    (torch.Size([5, 2, 5]), torch.Size([5, 2, 2, 2]))

    A ``PyroModule``: called in a model, it makes its parameters known to Pyro, as ``"<name>.hidden.weight"`` and so on,
    or by the attribute of the module that it is part of. :func:`bayesian` draws them instead; networks that share drawn
    embeddings must be called by one module that has both.

    :param name: of the parameters, before a dot.
    :param block: the block.
    :param size: of a vector, and of the hidden layer.
    :param embeddings: by dimension, ``torch.nn.Embedding`` whose vectors, of this size, are used; other dimensions have
        vectors of their own. Outcomes are the last dimension, -1; multinomials of a packed block are dimension 0.
    :param outcomes: of a packed block, the outcome of each event, shape ``(R,)``; all different by default.
    :param context_size: of z, a vector that may differ from sentence to sentence.
    :raises ValueError: if embeddings or ``outcomes`` do not fit to the block.
    """

    outcomes: Tensor
    bias: Tensor

    def __init__(
        self,
        name: str,
        block: Block,
        size: int,
        embeddings: Mapping[int, torch.nn.Embedding] | None = None,
        *,
        outcomes: Tensor | None = None,
        context_size: int = 0,
    ):
        super().__init__(name)
        self.block, self.context_size = block, context_size
        self.register_buffer("outcomes", outcomes_of(block, outcomes), persistent=False)
        sizes = [*multinomials(block), int(self.outcomes.max()) + 1]
        by_dim = {dim % len(sizes): table for dim, table in (embeddings or {}).items()}
        for dim, table in (embeddings or {}).items():
            n = sizes[dim] if -len(sizes) <= dim < len(sizes) else None
            if n is None or table.weight.shape != (n, size) or len(by_dim) < len(embeddings or {}):
                raise ValueError(
                    f"embeddings may be given once for each of the dimensions 0..{len(sizes) - 1}, of shapes "
                    f"{[(n, size) for n in sizes]}, but for {dim} there is {tuple(table.weight.shape)}"
                )
        tables = [by_dim.get(dim) or torch.nn.Embedding(n, size) for dim, n in enumerate(sizes)]
        self.embeddings = torch.nn.ModuleList(tables)
        self.hidden = torch.nn.Linear(max(1, len(sizes) - 1) * size + context_size, size)
        self.bias = torch.nn.Parameter(torch.zeros(sizes[-1]))
        if len(sizes) == 1:  # a single multinomial has a vector, too
            self.only = torch.nn.Parameter(torch.randn(size))
        to_pyro_module_(self)

    def forward(self, context: Tensor | None = None) -> Tensor:
        """Weights, shape ``(*batch, *block.shape)``.

        :param context: z, shape ``(*batch, context_size)``.
        :raises ValueError: if it is missing or has another size.
        """
        if (0 if context is None else context.shape[-1]) != self.context_size:
            actual = "missing" if context is None else f"of shape {tuple(context.shape)}"
            raise ValueError(f"context must have shape (..., {self.context_size}), but is {actual}")
        tables: list[Any] = list(self.embeddings)
        *rows, columns = (table.weight for table in tables)
        shape = multinomials(self.block)
        inputs = [_at(table, dim, len(shape)) for dim, table in enumerate(rows)] or [self.only]
        if context is not None:
            inputs.append(context.reshape(*context.shape[:-1], *(1 for _ in shape), self.context_size))
        full = broadcast_shapes(*(x.shape[:-1] for x in inputs), shape)
        joined = torch.cat([x.expand(*full, -1) for x in inputs], -1)
        flat = joined.reshape(*full[: len(full) - len(shape)], -1, joined.shape[-1])  # (*batch, K, inputs)
        hidden = (flat @ self.hidden.weight.mT + self.hidden.bias[..., None, :]).relu()
        hidden = hidden.reshape(*hidden.shape[:-2], *shape, hidden.shape[-1])
        scores = inner_products(self.block, hidden, columns, self.outcomes) / sqrt(columns.shape[-1])
        return self.block.softmax(scores + by_event(self.block, self.bias, self.outcomes))


def bayesian(module: torch.nn.Module, scale: float = 1.0) -> PyroModule:
    """A Bayesian network: every parameter of a module becomes a latent site with a normal prior, in place.

    The standard deviation is ``scale``, of the matrix of a linear layer with n inputs ``scale / √n``, so that sums of n
    products stay as large as one of them (Neal 1996, section 2.1).

    >>> network = bayesian(NeuralWeights("stop", pyrogram.DMV(num_tags=2).blocks["stop"], 4))
    >>> list(pyro.poutine.trace(network).get_trace().stochastic_nodes)[-1]
    'stop.bias'

    :param module: on the device, and of the dtype, that it is to have.
    """
    to_pyro_module_(module)
    for part in module.modules():
        for name, value in list(part.named_parameters(recurse=False)):
            is_matrix = isinstance(part, torch.nn.Linear) and name == "weight"
            deviation = scale / sqrt(value.shape[-1]) if is_matrix else scale
            zeros = torch.zeros_like(value, requires_grad=False)
            setattr(part, name, PyroSample(dist.Normal(zeros, zeros.new_tensor(deviation)).to_event(value.dim())))
    return module  # type: ignore[return-value]


def _at(table: Tensor, dim: int, num_dims: int) -> Tensor:
    """Vectors ``(*batch, n, size)`` along one of some dimensions: ``(*batch, 1, .., n, .., 1, size)``."""
    *batch, n, size = table.shape
    return table.reshape(*batch, *(n if d == dim else 1 for d in range(num_dims)), size)
