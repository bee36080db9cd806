# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

from typing import Annotated

import typer

from pyrogram.cli.io.errors import be_quiet

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=be_quiet, help="No progress and no notes on stderr; errors stay.")
]
