# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import jaxtyping
import pytest

TRACED = "jit_trace", "compile", "transforms", "traced_draws", "passes_the_other_checks", "all_at_once"


@pytest.fixture(autouse=True)
def no_types_in_traced_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """The checks of shapes that tests have at run time, by jaxtyping, are no code that tracers understand."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", before or any(name in request.node.name for name in TRACED))
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
