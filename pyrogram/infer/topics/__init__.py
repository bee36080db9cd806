# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Gibbs sampling of syntactic topics, and predictions for new sentences."""
