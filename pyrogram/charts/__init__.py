# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Dynamic programs on tensors and arrays; nothing here knows Pyro."""
