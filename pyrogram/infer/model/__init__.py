# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The structure of a Pyro model as inference sees it: sentences, sources of weights, priors."""
