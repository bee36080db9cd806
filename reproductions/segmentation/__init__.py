# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Goldwater, Griffiths and Johnson (2009): words found in utterances without boundaries."""
