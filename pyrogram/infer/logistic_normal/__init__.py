# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The variational posterior of logistic normals, its E-step, and empirical Bayes."""
