# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Solutions of the exercises of 01-trees-and-charts.ipynb; they need the notebook's other cells.

# %% exercise-1
# Z is linear in each weight of an arc, since no tree uses an arc twice. The trees with the arc weigh 150 together (section 6:
# inside 15 times outside 10), and these double: 234 + 150.
other = arc.copy()
other[2, 4] = 6
answer_1 = sum(weight(heads, arc=other) for heads in trees)


# %% exercise-2
class BestAndHowMany(Semiring):
    zero, one = (0.0, 0), (1.0, 1)

    def plus(self, a, b):
        if a[0] == b[0]:
            return a[0], a[1] + b[1]
        return max(a, b)

    def times(self, a, b):
        return a[0] * b[0], a[1] * b[1]

    def weight(self, key, value):
        return value, 1


answer_2 = BestAndHowMany()

# %% exercise-3
# The goal uses L(1, 2) with r = 2: root(2) R(2, 4) = 3 * 16 = 48.
# L(1, 4) += L(1, 2) IL(2, 4): the outside value of L(1, 4) is root(4) R(4, 4) = 1, so this use gives 1 * 5 = 5.
# L(1, 3) += L(1, 2) IL(2, 3): the outside value of L(1, 3) is root(3) R(3, 4) + 1 * IL(3, 4) = 1 + 4 = 5; this use gives 5 * 1 = 5.
answer_3 = 48 + 5 + 5


# %% exercise-4
@recursion
def several_roots(p):
    i, j, k, r = p.positions("i j k r")
    R, L, IR, IL, F, Z = p.items("R L IR IL F Z")
    arc, root = p.weights("arc root")
    R[i, i] += 1
    L[i, i] += 1
    IR[i, j] += arc[i, j] * R[i, k] * L[k + 1, j]
    IL[i, j] += arc[j, i] * R[i, k] * L[k + 1, j]
    R[i, j] += IR[i, k] * R[k, j]
    L[i, j] += L[i, k] * IL[k, j]
    F[j] += root[r] * L[1, r] * R[r, j]
    F[j] += F[i - 1] * root[r] * L[i, r] * R[r, j]
    Z[()] += F[p.n]


answer_4 = several_roots()


# %% exercise-5
# Proof. The first derivative is E[n_e] = (1/Z) sum_y w(y) n_e(y). Differentiate this quotient by theta_e':
# the derivative of w(y) is w(y) n_e'(y), and that of 1/Z is -(1/Z) E[n_e'], for dZ/dtheta_e' = Z E[n_e']. So
#     (1/Z) sum_y w(y) n_e(y) n_e'(y)  -  (1/Z) E[n_e'] sum_y w(y) n_e(y)  =  E[n_e n_e'] - E[n_e] E[n_e'].
def covariance(log_arc, log_root, e, e2):
    log_z = TorchEngine(page).log_partition({"arc": log_arc, "root": log_root}, torch.tensor([4]))[0]
    (first,) = torch.autograd.grad(log_z, [log_arc], create_graph=True)
    (second,) = torch.autograd.grad(first[e], [log_arc])
    return second[e2].item()
