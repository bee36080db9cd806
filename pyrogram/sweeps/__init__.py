# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed inference over a corpus.

:mod:`.plain` says in plain torch what they mean, for any grammar. :mod:`.compiled` has those of a grammar that is a
page, and :mod:`.mixed` of a mixture of such; :mod:`.engine` runs their code. :mod:`.events` says what is counted of a
sentence, :mod:`.layout` where compiled code finds it. :mod:`.batches` goes through a corpus; :mod:`.collapsed` and
:mod:`.hastings` are the code of the two sweeps.
"""
