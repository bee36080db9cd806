# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled code for many sentences at once, one in each SIMD lane, where items have symbols: sums in register tiles."""
