# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From Pyro's MCMC to ArviZ."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np


def to_inference_data(mcmc: Any) -> Any:
    """The draws and diagnostics of a finished ``pyro.infer.MCMC`` as ArviZ knows them.

    ``posterior`` holds the samples by chain and draw, ``sample_stats`` the log joint of every draw as ``lp``, where the
    kernel has it. ArviZ's own ``from_pyro`` reads the kernel's model, which a sampler over trees has no use for.

    :param mcmc: has run.
    :raises ImportError: without arviz.
    """
    try:
        arviz: Any = importlib.import_module("arviz")
    except ImportError as error:
        raise ImportError("to_inference_data needs arviz: pip install 'pyro-grammar[arviz]'") from error
    samples = mcmc.get_samples(group_by_chain=True)
    if samples is None:
        raise RuntimeError("the MCMC has no samples yet; call run first")
    posterior = {name: np.asarray(draws.detach().cpu()) for name, draws in samples.items()}
    stats = {}
    joints = [chain.get("log joint", []) for chain in mcmc._diagnostics]
    if all(len(j) == mcmc.num_samples for j in joints):
        stats["lp"] = np.asarray(joints)
    groups = {"posterior": posterior, **({"sample_stats": stats} if stats else {})}
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups)
    return arviz.from_dict(**groups)
