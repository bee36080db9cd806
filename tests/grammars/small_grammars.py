# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One small grammar of each kind, with normalised weights, and two sentences of it."""

import torch

from pyrogram import CFG, DMV, HMM, LatentAnnotations

WORDS = torch.tensor([[0, 1, 0], [1, 0, -1]])


def dmv(valence_attach=False):
    grammar = DMV(2, valence_attach=valence_attach)
    return grammar, grammar.initial_weights(WORDS, "random", seed=1), WORDS


def hmm():
    grammar = HMM(2, 2)
    return grammar, grammar.initial_weights(WORDS, "random", seed=1), WORDS


def cfg():
    grammar = CFG([("S", ("S", "S")), ("S", ("a",)), ("S", ("b",))])
    return grammar, {"rules": torch.tensor([0.3, 0.4, 0.3])}, WORDS


def annotations():
    base = CFG([("S", ("A", "A")), ("A", ("A", "A")), ("A", ("a",)), ("A", ("b",))])
    grammar = LatentAnnotations(base, 2)
    words = torch.tensor([[0, 2, 3, -1, -1], [0, 1, 2, 3, 2]])
    return grammar, grammar.initial_weights(words, "random", seed=1), words


GRAMMARS = {"DMV": dmv, "EVG": lambda: dmv(True), "HMM": hmm, "CFG": cfg, "LatentAnnotations": annotations}
