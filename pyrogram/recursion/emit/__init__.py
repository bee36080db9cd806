# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Code for many sentences at a time, one in each SIMD lane, or for one: inside, outside, descents.

To be read in this order: :mod:`.numbers` (of any size), :mod:`.tables` (where cells and weights lie), :mod:`.sums`
(sums of products, and their reverse), :mod:`.inside`, :mod:`.outside`; then :mod:`.driver` (sentences in and out).
"""
