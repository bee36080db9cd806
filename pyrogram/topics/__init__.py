# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Syntactic topics: Gibbs updates of the states of words, evidence, and states of new trees."""
