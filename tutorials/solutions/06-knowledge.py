# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Solutions of tutorials/06-knowledge.ipynb, one cell for each exercise.

# %% exercise-1
# Let P be the probability before. A tilt of b nats makes the odds P / (1 - P) e^b, and these must be 9.
P = float(p.marginals()[0, 0, 3])
answer_1 = log(9 * (1 - P) / P)


# %% exercise-2
# By (1), trees with the arc are e^φ times as heavy, all others as heavy as before.
def tilted_probability(P, phi):
    return P * exp(phi) / (P * exp(phi) + 1 - P)


# %% exercise-3
def own_bias(tag, V):
    attach = torch.zeros(V, 2, V)
    attach[tag["CCONJ"]] = -torch.inf
    attach[tag["VERB"], :, tag["ADV"]] = 1.0
    return Bias({"attach": attach}, told=("Conjunctions govern nothing; adverbs of verbs gain a nat.",))


# %% exercise-4
def arc_probability(words, head, dependent):
    known = torch.full_like(words, -1)
    known[0, dependent - 1] = head
    with_arc = Sentence(grammar, uniform, known=known).log_prob(words)
    return float((with_arc - Sentence(grammar, uniform).log_prob(words)).exp())


# %% exercise-5
# Z'(λ) = E_p[g e^(λg)] and Z''(λ) = E_p[g^2 e^(λg)], so (log Z)' = Z' / Z is the mean of g under q_λ, and
# (log Z)'' = Z'' / Z - (Z' / Z)^2 = E[g^2] - E[g]^2 under q_λ: the variance of g, which is not negative.
def curvature(l, prior, g):
    q = prior * (l * g).exp()
    q = q / q.sum()
    return float((q * g**2).sum() - (q * g).sum() ** 2)
