# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tables 3 and 4 of Wallach, Sutton and McCallum (2008): syntactic topics."""
