# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Many sentences at a time, in SIMD lanes and scaled real space: inside, outside, and the judgement of the result.

The passes, in order: :mod:`.schedule` (sums of a cell, their common range), :mod:`.scaling` (which rules bring the
factor of a column), :mod:`.tables` (where cells and weights lie), :mod:`.blocks` (straight-line code), :mod:`.inside`,
:mod:`.outside`, :mod:`.driver` (sentences in and out).
"""
