# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest
from command_line import call, refused, run_folder, treebanks

__all__ = ["call", "refused", "run_folder", "treebanks", "undrawn"]


@pytest.fixture(scope="module")
def undrawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """In the fast stage as without matplotlib, for most of a small run is drawing; some tests are of pictures."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.getoption("--slow"):
            patch.setattr("reproductions.induction.pictures.find_spec", lambda name: None)
        yield
