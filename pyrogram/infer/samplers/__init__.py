# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Markov chains over the derivations of sentences, and over hyperparameters."""
