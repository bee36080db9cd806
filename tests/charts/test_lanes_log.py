# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Logarithms in lanes."""

import numpy as np
import pytest

from pyrogram.charts import lanes_log
from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import load, store


def test_logarithms_in_lanes():
    @kernel
    def logs(numbers, out):
        for i in range(len(numbers) // 8):
            store(out, i, lanes_log.log(load(numbers, i)))

    generator = np.random.default_rng(0)
    numbers = np.concatenate([np.exp(generator.uniform(-700, 700, 4000)), 1 + generator.normal(0, 1e-3, 4000)])
    out = np.empty_like(numbers)
    logs(numbers, out)
    np.testing.assert_allclose(out, np.log(numbers), rtol=4e-16, atol=2e-16)
    edges = np.array([0.0, 1.0, 2.0, 0.5, 5e-324, 2.2250738585072014e-308, 1e308, 4.0])
    out = np.empty(8)
    logs(edges, out)
    assert out[1] == 0 and out[0] == out[4] == out[5] == pytest.approx(-708.3964185322641)
    np.testing.assert_allclose(out[[2, 3, 6, 7]], np.log(edges[[2, 3, 6, 7]]), rtol=4e-16)
