# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Wrong answers to the exercises of tutorial 5, one each; its check must say so."""

# %% exercise-1
answer_1 = 10  # -1 / K


# %% exercise-2
def log_sum_bound(m, s2):  # the mean of exp η is taken for exp of the mean
    return torch.logsumexp(m, 0)


# %% exercise-3
def gradient(m, s2, f, mu, Sigma):  # Σ in the place of its inverse, a slip that is in print
    share = torch.softmax(m + s2 / 2, 0)
    return -Sigma @ (m - mu) + f - f.sum() * share


# %% exercise-4
def mix(means, variances):  # the mean of the variances
    return means.mean(0), variances.mean(0)


# %% exercise-5
def cost_of_correlation(Sigma):  # Σ in the place of its inverse
    return (torch.logdet(Sigma) + Sigma.diagonal().log().sum()) / 2
