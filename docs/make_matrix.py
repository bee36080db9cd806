# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Write docs/priors-and-inferences.md: what every inference makes of every prior, for four grammars.

    python docs/make_matrix.py            # or: make docs

The models are in tests/infer/matrix_models.py; tests/infer/test_matrix.py checks their numbers.
"""

import re
import sys
from pathlib import Path

import pyro
import torch

PAGE = Path(__file__).with_name("priors-and-inferences.md")
HEAD = """# Priors and inferences

What every inference makes of every prior, for four grammars. `make docs` writes the page: each model is
built (`tests/infer/matrix_models.py`, a few lines each) and given to each inference, whose `plan()` is the cell.
`tests/infer/test_matrix.py` checks the numbers of the cells: objectives, bounds, log joints and potentials against
sums over all derivations of small corpora, bounds of logistic normals against importance sampling.

- **closed form**: normalised counts, or a Dirichlet's new concentrations.
- **Newton's method**: of the Gaussians of logistic normals.
- **gradient**: L-BFGS (in SVI: stochastic gradients) on what the weights are computed from.
- **guide**: stochastic gradients on the guide of what the weights are computed from; `AutoNormal` here, or any other.
- **integrated out**: Dirichlets, of which only the counts of derivations matter.
- **drawn**: from the posterior. TreeGibbs and TreeHastings draw derivations in every cell.
- **constant**: left as it is, for a sampler estimates no `pyro.param`.
- After a plus: the parameters and latent sites that the prior of the weights depends on.
- A number: the model is refused, and the note says why.

Priors are on every block of the grammar. EM is MAP where weights have priors; "unconstrained" is
`EM(unconstrained=True)`, whose densities are those of unconstrained coordinates. SVI has `AutoNormal` for a guide.
"""
GRAMMARS = {
    "DMV": "DMV",
    "HMM": "HMM",
    "CFG": "CFG",
    "own": "A grammar of one's own: the DMV with three valences, a `RecursiveGrammar` of twenty lines",
}


def page() -> str:
    """The whole text."""
    from infer.matrix_cells import INFERENCES, cell
    from infer.matrix_models import PRIORS

    notes: dict[str, tuple[str, int]] = {}
    parts = [HEAD]
    for grammar, title in GRAMMARS.items():
        parts += [f"\n## {title}\n\n", row("prior", *INFERENCES), row(*["---"] * (1 + len(INFERENCES)))]
        for prior in PRIORS:
            cells = (cell(grammar, prior, inference) for inference in INFERENCES)
            parts.append(row(prior, *(said or note(cause, notes) for said, cause in cells)))
    parts.append("\n## Why not\n\nSites and numbers are those of the first such model.\n\n")
    return "".join(parts) + "".join(f"{number}. {text}\n" for text, number in notes.values())


def row(*cells: str) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |\n"


def note(cause: str, notes: dict[str, tuple[str, int]]) -> str:
    """The number of a cause, whichever inference it is, and whatever the names and numbers of its sites."""
    told = cause.split(" ", 1)[1]
    alike = re.sub(r"( and)? (pyro.param )?'[^']*'( \(\w+\))?|[0-9.]+", "", told)
    _, number = notes.setdefault(alike, (told, len(notes) + 1))
    return f"({number})"


def main() -> None:
    """Write the page."""
    tests = Path(__file__).resolve().parents[1] / "tests"
    sys.path[:0] = [str(tests), str(tests / "oracles"), str(tests / "grammars")]
    torch.set_default_dtype(torch.float64)
    pyro.set_rng_seed(0)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
