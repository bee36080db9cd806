# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops that turn expected counts into weights: EM, variational EM, collapsed variational Bayes."""
