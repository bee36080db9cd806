# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Solutions of tutorial 5: paste a cell into the notebook's cell of the same name."""

# %% exercise-1
# Cov / Var = -(α² / (α_0² (α_0 + 1))) / (m (1 - m) / (α_0 + 1)), α_0 = K α, m = 1 / K: -(1 / K²) / ((K - 1) / K²) = -1 / (K - 1).
answer_1 = 11


# %% exercise-2
# At ζ = sum exp(m + s² / 2), the tangent is log ζ - 1 + 1.
def log_sum_bound(m, s2):
    return torch.logsumexp(m + s2 / 2, 0)


# %% exercise-3
def gradient(m, s2, f, mu, Sigma):
    share = torch.softmax(m + s2 / 2, 0)  # exp(m + s² / 2) / ζ
    return -torch.linalg.solve(Sigma, m - mu) + f - f.sum() * share


# %% exercise-4
# A sum of independent Gaussians; a factor 1 / |J| comes out of the variance as 1 / |J|².
def mix(means, variances):
    return means.mean(0), variances.sum(0) / len(variances) ** 2


# %% exercise-5
# KL = ½ (log |Σ| - sum log s_i² + sum Λ_ii s_i² + (m - μ)' Λ (m - μ) - K). The last quadratic form is least, zero, at m = μ.
# The derivative by s_i², ½ (Λ_ii - 1 / s_i²), vanishes at s_i² = 1 / Λ_ii, and there sum Λ_ii s_i² = K. What is left is
# ½ (log |Σ| + sum log Λ_ii) = ½ (sum log Λ_ii - log |Λ|), which is not negative by Hadamard's inequality, |Λ| <= prod Λ_ii.
def cost_of_correlation(Sigma):
    return (torch.logdet(Sigma) + torch.linalg.inv(Sigma).diagonal().log().sum()) / 2
