# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums over spanning trees, which are no recursion: the matrix-tree theorem, random walks, best arborescences."""
