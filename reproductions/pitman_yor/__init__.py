# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Table 2 of Wallach, Sutton and McCallum (2008): priors of the lexicalised dependency model."""
