# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Metropolis-Hastings over the trees and tags of sentences under a lexicalised dependency model."""
