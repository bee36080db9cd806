# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Wrong answers to the exercises of tutorials/06-knowledge.ipynb, as a student might give them.

# %% exercise-1
answer_1 = log(9)  # as if the odds had been even


# %% exercise-2
def tilted_probability(P, phi):  # nobody normalised
    return P * exp(phi)


# %% exercise-3
def own_bias(tag, V):  # head and dependent exchanged
    attach = torch.zeros(V, 2, V)
    attach[:, :, tag["CCONJ"]] = -torch.inf
    attach[tag["ADV"], :, tag["VERB"]] = 1.0
    return Bias({"attach": attach})


# %% exercise-4
def arc_probability(words, head, dependent):  # the joint with the evidence, not divided
    known = torch.full_like(words, -1)
    known[0, dependent - 1] = head
    return float(Sentence(grammar, uniform, known=known).log_prob(words).exp())


# %% exercise-5
def curvature(l, prior, g):  # the variance under p: the tilt is missing
    return float((prior * g**2).sum() - (prior * g).sum() ** 2)
