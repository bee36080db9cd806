# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Table 1 and Figure 7 of Wang and Blunsom (2013): latent annotations of a treebank."""
