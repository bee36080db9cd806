# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The runtime of compiled charts: the cache of machine code, threads, and SIMD lanes as a numba type."""
