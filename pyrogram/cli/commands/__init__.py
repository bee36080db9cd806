# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The commands, a module each: options in, files and tables out."""
