# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Solutions of the exercises of 09-your-own-grammar-and-prior.ipynb; they need the notebook's other cells.

# %% exercise-1
answer_1 = number(phrases(), 6)  # 2^5 C_5 = 32 * 42 = 1344


# %% exercise-2
def sparse(words, grammar):
    weights = {}
    for name, block in grammar.blocks.items():
        alpha = 0.05 if name == "word" else 0.5
        weights[name] = pyro.sample(name, dist.Dirichlet(alpha * torch.ones(block.shape)).to_event(block.batch_dim))
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, weights), obs=words)


# %% exercise-3
# A phrase ends if it is a word (s), or if it takes an argument (1 - s) and both parts end (q^2). The solutions of
# q = s + (1 - s) q^2 are 1 and s / (1 - s); the smaller one is the limit of the probabilities to end within m steps, which
# rise from 0. For s = 0.4 it is 2/3. The story ends with probability one if s >= 1/2.
answer_3 = 0.4 / 0.6


# %% exercise-4
@recursion
def unambiguous(p):
    i, j, k = p.positions("i j k")
    a, b = p.symbols("a b", "K")
    w = p.words("w")
    (X, Y), Z = p.items("X Y", "K"), p.items("Z")
    root, form = p.weights("root", "K"), p.weights("form", "K", 3)
    arg, word = p.weights("arg", "K", 2, "K"), p.weights("word", "K", "V")
    Y[i, i, a] += form[a, WORD] * word[a, w[i]]
    Y[i, j, a] += form[a, RIGHT] * arg[a, 1, b] * Y[i, k, a] * X[k + 1, j, b]
    X[i, j, a] += Y[i, j, a]
    X[i, j, a] += form[a, LEFT] * arg[a, 0, b] * X[i, k, b] * X[k + 1, j, a]
    Z[()] += root[a] * X[1, p.n, a]


answer_4 = unambiguous()


# %% exercise-5
# Proof. A derivation says of every head in which order it takes its arguments, from the word outwards. On each side the nearer
# argument comes first, for phrases are contiguous: the order on a side is fixed. So an order is a row of l_h + r_h sides, l_h of
# them left, and there are binomial(l_h + r_h, l_h). The orders of different heads do not restrict each other, and different
# orders are different derivations. The product follows. Summed over all trees it counts all derivations, D_n.
def derivations_of(heads):
    product = 1
    for h in range(1, len(heads) + 1):
        left = sum(head == h and m < h for m, head in enumerate(heads, 1))
        product *= math.comb(heads.count(h), left)
    return product
