# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Cohen, Gimpel and Smith (2008), Cohen and Smith (2009), and Figure 6 of Wang and Blunsom (2013)."""
