# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From loops of typed statements to machine code: the language of statements, LLVM, and the cache of objects."""
