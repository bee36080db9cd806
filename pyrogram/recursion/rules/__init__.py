# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The language of recursions and their analysis: rules, their meaning, domains, cells."""
