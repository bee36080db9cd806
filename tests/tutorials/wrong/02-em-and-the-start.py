# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Answers that the checks of 02-em-and-the-start.ipynb must refuse.

# %% exercise-1
answer_1 = -4 * math.log(grammar.num_tags) - 11 * math.log(2)  # one tree


# %% exercise-2
def m_step(counts, alpha):  # the posterior's mean, not its mode
    more = counts + alpha
    return more / more.sum(-1, keepdim=True)


# %% exercise-3
def gap(other, present):  # the counts of the other weights
    present = {name: w.log() for name, w in present.items()}
    other = {name: w.log() for name, w in other.items()}
    log_z, counts = grammar.expected_counts(other, short[None])
    change = sum((counts[name] * (present[name] - other[name])).sum() for name in counts)
    return change - grammar.log_partition(present, short) + log_z.sum()


# %% exercise-4
answer_4 = accuracy(attach_right(corpus.lengths)) - 1


# %% exercise-5
def growth(weights):  # derivatives without their weights
    free = {name: w.clone().requires_grad_() for name, w in weights.items()}
    total = grammar.log_partition({name: w.log() for name, w in free.items()}, words).sum()
    slopes = dict(zip(free, torch.autograd.grad(total, list(free.values()))))
    return {name: block.normalize(slopes[name]) for name, block in grammar.blocks.items()}
