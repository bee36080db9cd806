# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions of the literature, as pages: what the tests of the language and of all back-ends run through."""
