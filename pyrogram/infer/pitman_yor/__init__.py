# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sampling of the hyperparameters and seats of hierarchical Pitman-Yor processes."""
