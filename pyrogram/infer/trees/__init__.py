# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees as sites of a Pyro model: summed out, drawn, or found."""
