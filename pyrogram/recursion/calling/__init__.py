# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What compiled functions are called with: parameters, sentences, checks."""
