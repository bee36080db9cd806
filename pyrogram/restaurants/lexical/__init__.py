# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of words as events in contexts, and predictive probabilities as scores of second-order trees."""
