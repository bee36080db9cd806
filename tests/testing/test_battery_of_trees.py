# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The public checks, crossed with projective dependency trees: one test for each pair."""

import instances
import pytest


@pytest.mark.one_in(40)
@pytest.mark.parametrize(("case", "check"), instances.crossed(instances.TREES))
def test_distribution(case, check):
    check(case)
