# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Solutions of tutorial 4: paste a cell into the notebook's cell of the same name."""

# %% exercise-1
# After one use the concentrations are (α + 1, α), so the same rule comes again with probability (α + 1) / (2 α + 1) = 0.9.
answer_1 = 0.1 / 0.8


# %% exercise-2
def second_order(r, alpha):
    mean, variance = r.sum(), (r * (1 - r)).sum()
    return (mean + alpha).log() - variance / (2 * (mean + alpha) ** 2)


# %% exercise-3
def acceptance(old, new, others, alpha):
    start = others + alpha
    log_theta = (start / start.sum()).log()

    def log_ratio(counts):  # log π(t) - log q(t), but for what all trees have in common
        a = start + counts
        return torch.lgamma(a).sum() - torch.lgamma(a.sum()) - (counts * log_theta).sum()

    return (log_ratio(new) - log_ratio(old)).clamp_max(0).exp()


# %% exercise-4
# 1 + 2 sum φ^k = 1 + 2 φ / (1 - φ) = (1 + φ) / (1 - φ).
def share(phi):
    return (1 - phi) / (1 + phi)


# %% exercise-5
# The derivatives of log B(a) = log of the integral of exp(sum (a_i - 1) log θ_i) are those of a cumulant function: the
# first is E[log θ_i], the second Cov[log θ_i, log θ_j]. A covariance matrix has no negative eigenvalue, so log B is convex.
# The counts enter linearly, so E_Q[log B(α + f)] >= log B(α + E_Q[f]); the entropies of both bounds are the same.
def bound_by_definition(Q):
    probabilities = torch.stack([q[choices[:, i]] for i, q in enumerate(Q)]).prod(0)
    entropy = -sum((q * q.log()).sum() for q in Q)
    return (probabilities * log_joint(tuples, alpha)).sum() + entropy
