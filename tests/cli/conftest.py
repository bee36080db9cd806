# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
from command_line import call, refused, run_folder, treebanks

__all__ = ["call", "refused", "run_folder", "treebanks"]
