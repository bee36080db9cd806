# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The papers' tables, made anew: ``pyrogram reproduce``. Not part of the installed package."""
