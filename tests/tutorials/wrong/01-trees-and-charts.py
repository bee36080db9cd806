# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
# Answers that the checks of 01-trees-and-charts.ipynb must refuse.

# %% exercise-1
answer_1 = 2 * 234


# %% exercise-2
class BestAndHowMany(Semiring):
    zero, one = (0.0, 0), (1.0, 1)

    def plus(self, a, b):  # forgets the ties
        return max(a, b)

    def times(self, a, b):
        return a[0] * b[0], a[1] * b[1]

    def weight(self, key, value):
        return value, 1


answer_2 = BestAndHowMany()

# %% exercise-3
answer_3 = 48


# %% exercise-4
@recursion
def several_roots(p):  # two roots at most
    i, j, k, r, s = p.positions("i j k r s")
    R, L, IR, IL, F, Z = p.items("R L IR IL F Z")
    arc, root = p.weights("arc root")
    R[i, i] += 1
    L[i, i] += 1
    IR[i, j] += arc[i, j] * R[i, k] * L[k + 1, j]
    IL[i, j] += arc[j, i] * R[i, k] * L[k + 1, j]
    R[i, j] += IR[i, k] * R[k, j]
    L[i, j] += L[i, k] * IL[k, j]
    F[j] += root[r] * L[1, r] * R[r, j]
    Z[()] += F[p.n]
    Z[()] += F[i - 1] * root[r] * L[i, r] * R[r, p.n]


answer_4 = several_roots()


# %% exercise-5
def covariance(log_arc, log_root, e, e2):  # the product of the expectations is not taken off
    log_z = TorchEngine(page).log_partition({"arc": log_arc, "root": log_root}, torch.tensor([4]))[0]
    (first,) = torch.autograd.grad(log_z, [log_arc])
    return (first[e] * first[e2]).item()
