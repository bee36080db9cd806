# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Many sentences at a time, on a GPU: the code of lanes, with one thread for each sentence.

:mod:`.threads` makes kernels of the same loops, :mod:`.launching` has the driver run them, and :mod:`.engine` brings
sentences in, in order of their lengths, and results out. See docs/gpu.md.
"""
