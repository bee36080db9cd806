# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Input and output of the command line: corpora read, errors, text on the terminal."""
