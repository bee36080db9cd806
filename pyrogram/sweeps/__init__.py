# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed inference over a corpus, compiled: :mod:`.engine` runs them.

:mod:`.events` says what is counted of a sentence, :mod:`.layout` where compiled code finds it. :mod:`.batches` goes
through a corpus; :mod:`.collapsed` and :mod:`.hastings` are the two sweeps. :mod:`pyrogram.collapsed` says in plain
torch what they mean.
"""
