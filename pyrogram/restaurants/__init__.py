# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hierarchical Pitman-Yor processes: restaurants, their seats, predictive and joint probabilities."""
