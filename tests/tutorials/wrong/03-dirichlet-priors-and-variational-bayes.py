# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Wrong answers to the exercises of tutorial 3, one each; its check must say so."""

# %% exercise-1
answer_1 = 0.3  # α / 6: the prior's own counts are left out of the total


# %% exercise-2
def log_evidence(counts, alpha):  # the multinomial coefficient is counted, too
    n = counts.sum()
    return log_b(alpha + counts) - log_b(alpha) + torch.lgamma(n + 1) - torch.lgamma(counts + 1).sum()


# %% exercise-3
answer_3 = 0.5  # the start


# %% exercise-4
def evidence_gradient(counts, alpha):  # without the chain rule's K
    alpha, K = torch.tensor(alpha), len(counts)
    events = (torch.digamma(counts + alpha) - torch.digamma(alpha)).sum()
    return events - (torch.digamma(counts.sum() + K * alpha) - torch.digamma(K * alpha))


# %% exercise-5
def bound_of_counts(entropies, counts, alpha):  # without the entropies
    return (log_b_of_rows(alpha + counts) - log_b_of_rows(alpha)).sum()
