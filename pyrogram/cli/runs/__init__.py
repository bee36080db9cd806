# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Runs: settings, training from many starts, and the folder in which a trained model lies."""
