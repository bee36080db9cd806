# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Solutions of tutorials/07-pitman-yor-and-topics.ipynb, one cell for each exercise.

# %% exercise-1
# The expectation grows with the discount: halve the interval until it is 300.
left, right = 0.01, 0.99
for _ in range(30):
    middle = (left + right) / 2
    if float(expected_draws(torch.tensor(10_000.0), 1.0, middle)) < 300:
        left = middle
    else:
        right = middle
answer_1 = round(middle, 3)


# %% exercise-2
# Customers are exchangeable, so the first and the fourth share a table as often as the first and the second do. The second
# customer joins the first one with probability (1 - ε) / (α + 1).
def together(alpha, epsilon):
    return (1 - epsilon) / (alpha + 1)


# %% exercise-3
# With t = c and ε = 0, (3) is (c_hw + α P(w | ρ(h))) / (α + c_h): the share of the relative frequency is c_h / (α + c_h).
def interpolation(c_h, alpha):
    return c_h / (alpha + c_h)


# %% exercise-4
# The joint of a seating and the values is (1) times 1/3 for each table, if no table has two dishes. Customers 0, 1 and 2
# ate a, customer 3 ate b.
def tables_with_a(alpha, epsilon):
    total = weighted = 0.0
    for tables in seatings(4):
        if any(3 in table and len(table) > 1 for table in tables):
            continue
        p = formula(tables, alpha, epsilon) / 3 ** len(tables)
        total += p
        weighted += p * (len(tables) - 1)  # all tables but b's
    return weighted / total


# %% exercise-5
# Given G, two customers eat independently, so P(both eat w) = E[G(w)^2]. They share a table with probability
# (1 - ε) / (α + 1), and then both eat w with probability p. Else, with probability (α + ε) / (α + 1), each table draws its
# dish, and both eat w with probability p^2. The mean E[G(w)] is the probability that the first one eats w, p. Hence
#     Var G(w) = ((1 - ε) p + (α + ε) p^2) / (α + 1) - p^2 = (1 - ε) (p - p^2) / (α + 1),
# for (α + ε) - (α + 1) = -(1 - ε).
def variance(p, alpha, epsilon):
    return (1 - epsilon) * p * (1 - p) / (alpha + 1)
