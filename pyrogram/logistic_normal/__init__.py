# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational Gaussians of logistic normals: Newton's method and sums over experts, in SIMD lanes."""
