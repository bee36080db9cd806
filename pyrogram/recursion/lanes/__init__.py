# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Many sentences at a time, in SIMD lanes: inside, outside, descents, sweeps.

The passes, in order: :mod:`.schedule` (sums of a cell, their common range), :mod:`.gauge` (a power of two for each
word), :mod:`.tables` (where cells and weights lie), :mod:`.numbers` (of any size), :mod:`.blocks` (straight-line code),
:mod:`.inside`, :mod:`.outside`, :mod:`.driver` (sentences in and out).
"""
