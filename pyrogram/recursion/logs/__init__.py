# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One sentence at a time, in logarithms: sums, posteriors, the best derivations, draws."""
