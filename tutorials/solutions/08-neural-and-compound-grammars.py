# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Solutions of tutorials/08-neural-and-compound-grammars.ipynb, one cell for each exercise.

# %% exercise-1
# The error of a central difference is h^2 / 6 times the third derivative, and rounding adds about 1e-14 / h here. Both are
# small for h near the cube root of 1e-14.
answer_1 = 3e-5


# %% exercise-2
def gradient_of_logits(counts, theta):
    return counts - counts.sum(-1, keepdim=True) * theta


# %% exercise-3
# E_q[log q - log p] = E_q[-log s - (z - m)^2 / (2 s^2) + log σ + z^2 / (2 σ^2)], E_q[(z - m)^2] = s^2, E_q[z^2] = m^2 + s^2.
def divergence(m, s, sigma):
    return (sigma / s).log() + (m**2 + s**2) / (2 * sigma**2) - 0.5


# %% exercise-4
# Weights are far below the smallest number, so the greatest one is taken out of the sum, as logsumexp does.
def importance_weighted(log_omega):
    return log_omega.logsumexp(0) - log(len(log_omega))


# %% exercise-5
# log p(y | x) = log p(x, y) - log Z = Σ_e f_e(y) log w_e - log Z. Minus its mean over p(y | x) is
#     H = log Z - Σ_e E[f_e] log w_e.
# An event that no tree of the sentence uses counts 0, whatever its weight.
def entropy(log_z, counts, log_weights):
    used = [torch.where(counts[n] > 0, counts[n] * log_weights[n], 0.0).sum() for n in counts]
    return log_z - sum(used)
