# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the battery of checks does not say of traced programs: other tracers, Pyro's own bounds, words and evidence."""

from collections.abc import Callable
from typing import Any

import jaxtyping
import pyro
import pyro.distributions as dist
import pytest
import torch
from own_grammars import hmm as own_hmm
from pyro.infer import (
    MCMC,
    NUTS,
    JitTrace_ELBO,
    JitTraceEnum_ELBO,
    JitTraceMeanField_ELBO,
    Trace_ELBO,
    TraceEnum_ELBO,
    TraceMeanField_ELBO,
)
from pyro.infer.autoguide import AutoNormal
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from pyrogram import CFG, DMV, HMM, Grammar, operators
from pyrogram.distributions import ProjectiveDependencyTree, Sentence
from pyrogram.models.dirichlet import dirichlet_prior

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own, of torch.jit
]
WORDS = torch.tensor([[0, 1, 2, 1], [1, 0, -1, -1], [2, 2, 1, -1], [1, -1, -1, -1]])
RULES = CFG.from_string("S -> A B | S S\nA -> 'a' | 'b'\nB -> 'b' | 'c' | A A")
GRAMMARS: dict[str, tuple[Grammar, Tensor]] = {
    "DMV": (DMV(3), WORDS),
    "HMM": (HMM(2, 3), WORDS),
    "CFG": (RULES, RULES.encode([["a", "b"], ["a", "c"], ["a", "b", "a", "c"], ["a", "a", "b"]])),
    "own": (own_hmm(2, 3), WORDS),
}
of_grammars = pytest.mark.parametrize("of", GRAMMARS)


def log_weights(grammar: Grammar, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(block.shape, generator=generator) for name, block in grammar.blocks.items()}


def of_tensors(grammar: Grammar) -> Callable[..., Tensor]:
    """log Z from words and the blocks in their order."""
    return lambda words, *tables: grammar.log_partition(dict(zip(grammar.blocks, tables, strict=True)), words)


def inputs(of: str, seed: int = 0) -> tuple[Tensor, ...]:
    grammar, words = GRAMMARS[of]
    return words if seed == 0 else words.flip(0), *log_weights(grammar, seed).values()


def nodes(graph: torch.fx.Graph) -> list[Any]:
    return [node for node in graph.nodes if node.target is torch.ops.pyrogram.operation.default]


@pytest.mark.one_in(6)
@of_grammars
def test_make_fx_sees_one_node(of: str) -> None:
    log_z, seen, others = of_tensors(GRAMMARS[of][0]), inputs(of), inputs(of, 1)
    for mode in ("real", "fake", "symbolic"):
        program = make_fx(log_z, tracing_mode=mode)(*seen)
        assert len(nodes(program.graph)) == 1
        torch.testing.assert_close(program(*others), log_z(*others))
    gradients = torch.func.grad(lambda *x: log_z(*x).sum(), tuple(range(1, len(seen))))
    program = make_fx(lambda *x: gradients(*x), tracing_mode="symbolic")(*seen)
    torch.testing.assert_close(program(*others), gradients(*others))


@of_grammars
def test_export_sees_one_node(of: str) -> None:
    log_z, seen, others = of_tensors(GRAMMARS[of][0]), inputs(of), inputs(of, 1)

    class Program(torch.nn.Module):
        def forward(self, *tensors: Tensor) -> Tensor:
            return log_z(*tensors)

    exported = torch.export.export(Program(), seen)
    assert len(nodes(exported.graph)) == 1
    torch.testing.assert_close(exported.module()(*others), log_z(*others))


@pytest.mark.one_in(6)
@of_grammars
def test_sizes_may_be_dynamic(of: str) -> None:
    log_z, seen = of_tensors(GRAMMARS[of][0]), inputs(of)
    torch.compiler.reset()
    program = torch.compile(log_z, backend="aot_eager", fullgraph=True, dynamic=True)
    words, *tables = inputs(of, 1)
    for few in (seen[0], words[:3], words[:3, :3] if of != "CFG" else words[:2]):
        torch.testing.assert_close(program(few, *tables), log_z(few, *tables))
    traced = torch.jit.trace(log_z, seen, check_trace=False)
    torch.testing.assert_close(traced(words[:2], *tables), log_z(words[:2], *tables))


def test_a_distribution_of_any_size() -> None:
    def log_z(scores: Tensor) -> Tensor:
        found: Tensor = ProjectiveDependencyTree(scores, valence=False).log_partition
        return found

    torch.compiler.reset()
    program = torch.compile(log_z, backend="aot_eager", fullgraph=True, dynamic=True)
    for shape in ((2, 4, 4), (3, 6, 6), (5, 7, 7)):
        scores = torch.randn(shape)
        torch.testing.assert_close(program(scores), log_z(scores))


def test_transforms_are_compiled_in_parts() -> None:
    """torch.compile knows no differentiable operator inside of a transform; what it leaves out is done as it is."""
    log_z, seen, others = of_tensors(GRAMMARS["DMV"][0]), inputs("DMV"), inputs("DMV", 1)
    gradient = torch.func.vmap(torch.func.grad(lambda *x: log_z(*x).sum(), 1), (0, None, None, None))
    torch.compiler.reset()
    program = torch.compile(gradient, backend="aot_eager")
    program(*seen)
    torch.testing.assert_close(program(*others), gradient(*others))


def test_sentences_with_shares_of_their_own() -> None:
    """A gradient that is no multiple of the counts' sum."""
    log_z, seen = of_tensors(GRAMMARS["DMV"][0]), inputs("DMV")
    shares = torch.linspace(-1.0, 2.0, 4)
    leaves = [seen[0], *(x.clone().requires_grad_() for x in seen[1:])]
    program = torch.jit.trace(lambda *x: shares @ log_z(*x), tuple(leaves), check_trace=False)
    expected = torch.autograd.grad(shares @ log_z(*leaves), leaves[1:])
    torch.testing.assert_close(torch.autograd.grad(program(*leaves), leaves[1:]), expected)


def test_second_derivatives_of_a_traced_program() -> None:
    log_z, (words, root, *others) = of_tensors(GRAMMARS["DMV"][0]), inputs("DMV")
    leaf = root.clone().requires_grad_()
    program = torch.jit.trace(lambda root: log_z(words, root, *others).sum(), leaf, check_trace=False)
    expected = torch.autograd.functional.hessian(lambda root: log_z(words, root, *others).sum(), root)
    torch.testing.assert_close(torch.autograd.functional.hessian(program, root), expected)


def test_evidence_is_an_argument() -> None:
    """What is known of one batch of sentences is not what is known of the next."""
    grammar, words = GRAMMARS["DMV"]
    logs = log_weights(grammar)
    heads = torch.tensor([[2, 0, -1, -1], [0, 1, -1, -1], [-1, -1, 2, -1], [0, -1, -1, -1]])

    def log_prob(words: Tensor, heads: Tensor) -> Tensor:
        return Sentence(grammar, log_weights=logs, known={"heads": heads}, normalized=False).log_prob(words)

    traced = torch.jit.trace(log_prob, (words[:2], heads[:2]), check_trace=False)
    torch.testing.assert_close(traced(words[2:], heads[2:]), log_prob(words[2:], heads[2:]))
    mapped = torch.func.vmap(log_prob)(words, heads)
    torch.testing.assert_close(mapped, log_prob(words, heads))


@pytest.mark.parametrize("grammar", [DMV(3), DMV(3, valence_attach=True, num_valences=3)])
def test_given_trees_are_arguments(grammar: DMV) -> None:
    """Of trees, too, a program is traced by one batch, and right for the next."""
    logs, words = log_weights(grammar), torch.tensor([[0, 1, 2, 1], [2, 2, 0, -1], [1, 0, 2, 2], [0, 1, 2, -1]])
    heads = torch.tensor([[2, 0, 2, 3], [0, 1, 1, -1], [2, 3, 0, 3], [3, 3, 0, -1]])

    def log_prob(words: Tensor, heads: Tensor) -> tuple[Tensor, ...]:
        law = grammar.derivation(None, words, log_weights=logs)
        return law.log_prob(heads), *grammar.counts(words, heads).values()

    jaxtyping.config.update("jaxtyping_disable", True)  # while something is traced, sizes are tensors
    try:
        traced = torch.jit.trace(log_prob, (words[:2], heads[:2]), check_trace=False)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    torch.testing.assert_close(traced(words[2:], heads[2:]), log_prob(words[2:], heads[2:]))


def test_a_program_refuses_what_a_call_refuses() -> None:
    log_z, seen = of_tensors(GRAMMARS["DMV"][0]), inputs("DMV")
    traced = torch.jit.trace(log_z, seen, check_trace=False)
    with pytest.raises(Exception, match=r"words must be one or more of 0..2 and then padding of -1, but sentence 3"):
        traced(torch.tensor([[0], [1], [2], [3]]), *seen[1:])


def test_a_copy_of_a_grammar_has_a_number_of_its_own() -> None:
    import copy

    grammar = DMV(2)
    number = grammar.handle()
    twin = copy.deepcopy(grammar)
    assert twin.handle() != number == grammar.handle()
    assert operators.object_of(twin.handle()) is twin


def model(of: str) -> Callable[[Tensor], None]:
    grammar = GRAMMARS[of][0]

    def sentences(words: Tensor) -> None:
        weights = {
            name: pyro.sample(name, dirichlet_prior(block, torch.tensor(0.7))) for name, block in grammar.blocks.items()
        }
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    return sentences


BOUNDS: dict[str, Callable[[bool], Any]] = {
    "trace": lambda jit: JitTrace_ELBO(ignore_jit_warnings=True) if jit else Trace_ELBO(),
    "enum": lambda jit: (
        JitTraceEnum_ELBO(ignore_jit_warnings=True, strict_enumeration_warning=False)
        if jit
        else TraceEnum_ELBO(strict_enumeration_warning=False)
    ),
    "mean field": lambda jit: JitTraceMeanField_ELBO(ignore_jit_warnings=True) if jit else TraceMeanField_ELBO(),
    "particles": lambda jit: (JitTrace_ELBO if jit else Trace_ELBO)(
        num_particles=3, vectorize_particles=True, max_plate_nesting=1, **({"ignore_jit_warnings": True} if jit else {})
    ),
}


@pytest.mark.one_in(40)
@of_grammars
@pytest.mark.parametrize("bound", BOUNDS)
def test_compiled_bounds_are_the_eager_ones(of: str, bound: str) -> None:
    """Losses and gradients of minibatches that the compiled bound did not see."""
    words, sentences = GRAMMARS[of][1], model(of)
    guide = AutoNormal(sentences)
    guide(words)
    eager, compiled = BOUNDS[bound](False), BOUNDS[bound](True)
    for elbo in (eager, compiled):
        elbo.loss_and_grads(sentences, guide, words[:2])
    # Pyro's compiled mean-field bound is traced in each call: it draws three times, and returns the last loss.
    draws = 3 if bound == "mean field" else 1

    def run(elbo: Any, batch: Tensor, seed: int, times: int) -> list[tuple[float, ...]]:
        pyro.set_rng_seed(seed)
        found = []
        for _ in range(times):
            store: Any = pyro.get_param_store()
            leaves = [value.unconstrained() for value in store.values()]
            for leaf in leaves:
                leaf.grad = None
            loss = elbo.loss_and_grads(sentences, guide, batch)
            found.append((float(loss), *(float(leaf.grad.double().norm()) for leaf in leaves)))
        return found

    losses = set()
    for seed, batch in enumerate((words[:2], words[2:])):
        run(compiled, batch, seed, 1)  # traced once, if it had not seen a batch of this shape
        ((*found,),) = run(compiled, batch, seed, 1)
        expected = run(eager, batch, seed, draws)[-1]
        assert found == pytest.approx(list(expected), rel=1e-8, abs=1e-8)
        losses.add(round(found[0], 6))
    assert len(losses) == 2


@pytest.mark.one_in(6)
@of_grammars
def test_nuts_is_compiled(of: str) -> None:
    samples = []
    for compiled in (False, True):
        pyro.set_rng_seed(0)
        kernel = NUTS(model(of), jit_compile=compiled, ignore_jit_warnings=True, max_tree_depth=3)
        chain = MCMC(kernel, num_samples=3, warmup_steps=2, disable_progbar=True)
        chain.run(GRAMMARS[of][1])
        samples.append(chain.get_samples())
    torch.testing.assert_close(samples[0], samples[1])


def test_trees_of_a_guide_are_drawn_anew() -> None:
    """A compiled bound with trees in the guide: its loss depends on the tree that is drawn."""
    scores = torch.zeros(4, 4)

    def sentence() -> None:
        tree = pyro.sample("tree", ProjectiveDependencyTree(scores, valence=False))
        roots = (tree == 0).to(scores) @ torch.tensor([1.0, 2.0, 3.0])
        pyro.sample("position", dist.Normal(roots, 1.0), obs=torch.tensor(2.0))

    def guide() -> None:
        pyro.sample("tree", ProjectiveDependencyTree(pyro.param("scores", torch.randn(4, 4)), valence=False))

    elbo = JitTrace_ELBO(ignore_jit_warnings=True)
    losses = {round(float(elbo.loss_and_grads(sentence, guide)), 6) for _ in range(20)}
    assert len(losses) > 1
