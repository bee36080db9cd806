# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Wrong answers to the exercises of tutorials/08-neural-and-compound-grammars.ipynb, as a student might give them.

# %% exercise-1
answer_1 = 1e-12  # the smaller, the better?


# %% exercise-2
def gradient_of_logits(counts, theta):  # that of the log weights
    return counts


# %% exercise-3
def divergence(m, s, sigma):  # the prior's deviation for its variance
    return (sigma / s).log() + (m**2 + s**2) / (2 * sigma) - 0.5


# %% exercise-4
def importance_weighted(log_omega):  # weights underflow
    return log_omega.exp().mean(0).log()


# %% exercise-5
def entropy(log_z, counts, log_weights):  # the sign of log Z
    return -log_z - sum(torch.where(counts[n] > 0, counts[n] * log_weights[n], 0.0).sum() for n in counts)
