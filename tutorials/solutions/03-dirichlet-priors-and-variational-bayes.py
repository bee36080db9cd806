# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Solutions of tutorial 3: paste a cell into the notebook's cell of the same name."""

# %% exercise-1
# The posterior mean of the unseen rule is α / (3 α + 6). It is 0.05 if α = 0.15 α + 0.3, so α = 0.3 / 0.85.
answer_1 = 0.3 / 0.85


# %% exercise-2
def log_evidence(counts, alpha):
    return log_b(alpha + counts) - log_b(alpha)


# %% exercise-3
# q's concentrations: with_verb 1 + r, alone 1 + (1 - r); with_noun 1 + (1 - r), plain 1 + 3. The first tree has the weight
# w[with_verb] w[plain]^3, the second w[alone] w[with_noun] w[plain]^3, so that w[plain] cancels. The digamma of the total of
# VP cancels, too; that of NP, 2 + 3 + (1 - r), does not.
r = torch.tensor(0.5)
for _ in range(300):
    first = torch.digamma(1 + r)
    second = torch.digamma(2 - r) + torch.digamma(2 - r) - torch.digamma(6 - r)
    r = (first - second).sigmoid()
answer_3 = float(r)


# %% exercise-4
# log p = sum_i (log Γ(f_i + α) - log Γ(α)) - log Γ(n + K α) + log Γ(K α), n = sum_i f_i. Differentiate term by term.
def evidence_gradient(counts, alpha):
    alpha, K = torch.tensor(alpha), len(counts)
    events = (torch.digamma(counts + alpha) - torch.digamma(alpha)).sum()
    return events - K * (torch.digamma(counts.sum() + K * alpha) - torch.digamma(K * alpha))


# %% exercise-5
# F = E_q[log p(x, y | θ)] + E_q[log p(θ | α) - log q(θ)] - E_q[log q(y)].
# The last term is the sum of the entropies. In the first, log p(x, y | θ) = sum f log θ, and y and θ are independent under q,
# so it is sum f̃ E[log θ]. With log p(θ | α) = -log B(α) + sum (α - 1) log θ, and log q(θ) = -log B(α + f̃) + sum (α + f̃ - 1)
# log θ for each left side, the sums over log θ cancel: f̃ + (α - 1) - (α + f̃ - 1) = 0. What is left of the first two terms
# is log B(α + f̃) - log B(α), summed over left sides.
def bound_of_counts(entropies, counts, alpha):
    return entropies.sum() + (log_b_of_rows(alpha + counts) - log_b_of_rows(alpha)).sum()
