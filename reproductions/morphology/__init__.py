# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Figure 5 of Wang and Blunsom (2013): sparse grammars of the parts of words."""
