# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Answers that the checks of 09-your-own-grammar-and-prior.ipynb must refuse.

# %% exercise-1
answer_1 = 2**5 * math.comb(10, 5)  # no Catalan number


# %% exercise-2
def sparse(words, grammar):  # all blocks alike
    model(words, grammar, alpha=0.05)


# %% exercise-3
answer_3 = 1.0


# %% exercise-4
@recursion
def unambiguous(p):  # a head with arguments on both sides is lost
    i, j, k = p.positions("i j k")
    a, b = p.symbols("a b", "K")
    w = p.words("w")
    (X, Y), Z = p.items("X Y", "K"), p.items("Z")
    root, form = p.weights("root", "K"), p.weights("form", "K", 3)
    arg, word = p.weights("arg", "K", 2, "K"), p.weights("word", "K", "V")
    Y[i, i, a] += form[a, WORD] * word[a, w[i]]
    Y[i, j, a] += form[a, RIGHT] * arg[a, 1, b] * Y[i, k, a] * X[k + 1, j, b]
    X[i, j, a] += Y[i, j, a]
    X[i, j, a] += form[a, LEFT] * arg[a, 0, b] * X[i, k, b] * Y[k + 1, j, a]
    Z[()] += root[a] * X[1, p.n, a]


answer_4 = unambiguous()


# %% exercise-5
def derivations_of(heads):  # left and right dependents do not take turns
    return math.prod(math.factorial(heads.count(h)) for h in range(1, len(heads) + 1))
