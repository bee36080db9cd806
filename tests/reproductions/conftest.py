# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from command_line import call, refused, run_folder, treebanks

__all__ = ["call", "refused", "run_folder", "treebanks", "undrawn", "undrawn_here"]


@contextmanager
def without_pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """In the fast stage as without matplotlib, for most of a small run is drawing; some tests are of pictures."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.getoption("--slow"):
            for module in ("induction.pictures", "shared.tables"):
                patch.setattr(f"reproductions.{module}.find_spec", lambda name: None)
        yield


@pytest.fixture(scope="module")
def undrawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """No pictures in the whole module."""
    with without_pictures(request):
        yield


@pytest.fixture
def undrawn_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """No pictures in one test, for runs of the module have them."""
    with without_pictures(request):
        yield
