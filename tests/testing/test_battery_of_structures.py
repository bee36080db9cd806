# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The public checks, crossed with all other structures by scores: one test for each pair."""

import instances
import pytest


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("case", "check"), instances.crossed(instances.STRUCTURES))
def test_distribution(case, check):
    check(case)
