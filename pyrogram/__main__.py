# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``python -m pyrogram``: the command ``pyrogram``."""

import sys

from pyrogram.cli import main

if __name__ == "__main__":
    sys.exit(main())
