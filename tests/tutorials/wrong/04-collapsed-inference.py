# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Wrong answers to the exercises of tutorial 4, one each; its check must say so."""

# %% exercise-1
answer_1 = 0.9


# %% exercise-2
def second_order(r, alpha):  # the zeroth order
    return (r.sum() + alpha).log()


# %% exercise-3
def acceptance(old, new, others, alpha):  # without the proposal's probabilities
    def log_pi(counts):
        a = others + alpha + counts
        return torch.lgamma(a).sum() - torch.lgamma(a.sum())

    return (log_pi(new) - log_pi(old)).clamp_max(0).exp()


# %% exercise-4
def share(phi):  # only one side of the chain is counted
    return 1 - phi


# %% exercise-5
def bound_by_definition(Q):  # the joint at the expected counts
    entropy = -sum((q * q.log()).sum() for q in Q)
    return log_joint(sum(q @ t for q, t in zip(Q, trees, strict=True)), alpha) + entropy
