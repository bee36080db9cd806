# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Wrong answers to the exercises of tutorials/07-pitman-yor-and-topics.ipynb, as a student might give them.

# %% exercise-1
answer_1 = 0.62  # the exponent with which n^ε alone is 300


# %% exercise-2
def together(alpha, epsilon):  # the customers between them are forgotten
    return (1 - epsilon) / (alpha + 3)


# %% exercise-3
def interpolation(c_h, alpha):
    return alpha / (alpha + c_h)


# %% exercise-4
def tables_with_a(alpha, epsilon):  # the prior of three customers: tables did not draw dishes
    return sum(formula(tables, alpha, epsilon) * len(tables) for tables in seatings(3))


# %% exercise-5
def variance(p, alpha, epsilon):  # the Dirichlet process's
    return p * (1 - p) / (alpha + 1)
