# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Imported by the process of which workers are copies."""

from pyrogram.cli.runs.forks import import_all

import_all()
