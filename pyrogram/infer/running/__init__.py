# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The run of a loop or a sampler: its state, its checkpoints, when it stops."""
