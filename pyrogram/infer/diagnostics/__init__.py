# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Whether a chain has mixed, whether a model fits, and whether an inference is right."""
