# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Priors ready to use: each maps a block of a grammar to its weights, in a few lines of Pyro.

They take plain blocks and packed ones, and any mixture of them makes a grammar's weights:

>>> from pyrogram.distributions import Sentence, dirichlet_prior
>>> grammar = pyrogram.DMV(num_tags=3)
>>> def model(words):
...     block, position = grammar.blocks, torch.arange(3.0)
...     similar = (-((position - position[:, None]) ** 2)).exp()  # of tags: a kernel
...     weights = {
...         "root": pyro.sample("root", dirichlet_prior(block["root"], 0.5)),
...         "attach": gaussian_process("attach", block["attach"], {0: similar, 2: similar}),
...         "stop": hierarchical_dirichlet("stop", block["stop"], 4.0),
...     }
...     with pyro.plate("sentences", len(words)):
...         pyro.sample("words", Sentence(grammar, weights), obs=words)
>>> trace = pyro.poutine.trace(model).get_trace(torch.tensor([[0, 1, 2], [1, 0, -1]]))
>>> [name for name, site in trace.nodes.items() if site["type"] == "sample"]
['root', 'attach.z', 'base.stop', 'stop', 'sentences', 'words']

Shapes below are those of an event. Every enclosing plate, and every vectorised particle, adds its dimensions on the
left; called in the plate of sentences, a prior draws weights for each sentence. *A number* is a float, or a tensor that
holds one for each element of the batch, ``(*batch,)``, such as the value of another site; tensors that are given say
dtype and device.

Dirichlets that do not know each other are :func:`~pyrogram.distributions.dirichlet_prior`, logistic normals
:func:`~pyrogram.distributions.logistic_normal` and :func:`~pyrogram.distributions.shared_logistic_normal`.
"""

from .dirichlets import hierarchical_dirichlet, stick_breaking
from .logits import gaussian_process, log_linear, low_rank
from .networks import NeuralWeights, bayesian

__all__ = [
    "NeuralWeights",
    "bayesian",
    "gaussian_process",
    "hierarchical_dirichlet",
    "log_linear",
    "low_rank",
    "stick_breaking",
]


def __dir__() -> list[str]:
    return __all__
