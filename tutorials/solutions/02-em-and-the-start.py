# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Solutions of the exercises of 02-em-and-the-start.ipynb; they need the notebook's other cells.

# %% exercise-1
# Every tree of four words makes 4 choices of a tag (the root, and 3 attachments), 8 decisions to stop (two sides of each word)
# and 3 to continue. So all thirty trees have the probability T^-4 2^-11.
answer_1 = math.log(30) - 4 * math.log(grammar.num_tags) - 11 * math.log(2)


# %% exercise-2
# Q + log p = sum over e of (c_e + alpha - 1) log theta_e: the same function with alpha - 1 more of each event.
def m_step(counts, alpha):
    more = counts + alpha - 1
    return more / more.sum(-1, keepdim=True)


# %% exercise-3
# log q(y) - log p(y | x, theta) = sum n (log theta' - log theta) - log Z' + log Z. The expectation under q replaces n by the
# expected counts at theta'.
def gap(other, present):
    present = {name: w.log() for name, w in present.items()}
    other = {name: w.log() for name, w in other.items()}
    log_z, counts = grammar.expected_counts(present, short[None])
    change = sum((counts[name] * (present[name] - other[name])).sum() for name in counts)
    return change - log_z.sum() + grammar.log_partition(other, short)


# %% exercise-4
answer_4 = accuracy(parse(learn(grammar.initial_weights(words, "harmonic", distance=2.0)).weights()))


# %% exercise-5
# Proof. L is a sum of log Z of sentences, and the expected counts are c_ke = dL / d log theta_ke (notebook 1). By the chain rule
# dL / d log theta = theta dL / d theta. So the M-step's ratio c_ke / sum over e' of c_ke' is the formula. (The constraint that
# the theta_k sum to one plays no part: the derivatives are those of L as a function of free numbers.)
def growth(weights):
    free = {name: w.clone().requires_grad_() for name, w in weights.items()}
    total = grammar.log_partition({name: w.log() for name, w in free.items()}, words).sum()
    slopes = torch.autograd.grad(total, list(free.values()))
    grown = {name: w * slope for (name, w), slope in zip(weights.items(), slopes)}
    return {name: block.normalize(grown[name]) for name, block in grammar.blocks.items()}
