# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Models with latent tree sites, and their log joints with the trees listed.

The list asks nothing but the models themselves: each is run once for each choice of all trees.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor

from pyrogram import DMV, HMM
from pyrogram.distributions import ProjectiveDependencyTree, SiblingDependencyTree, dirichlet_prior, of_heads
from pyrogram.trees import projective_trees

V, T = 3, 2
GRAMMAR = DMV(V)
WORDS = torch.tensor([[0, 1, 2], [1, 0, -1], [2, -1, -1], [0, 0, -1]])
TOKENS = torch.tensor([[1, 0, 1], [1, 1, -1], [0, -1, -1], [0, 1, -1]])
CHAIN = HMM(2, V)


def weights(grammar: Any = GRAMMAR) -> dict[str, Tensor]:
    return {name: pyro.sample(name, dirichlet_prior(block, 2.0)) for name, block in grammar.blocks.items()}


def emission(name: str = "emission", labels: int = V + 1) -> Tensor:
    found: Tensor = pyro.sample(name, dist.Dirichlet(torch.ones(labels, T)).to_event(1))
    return found


def tags_of_heads(words: Tensor, heads: Tensor) -> Tensor:
    return of_heads(torch.nn.functional.pad(words, (1, 0), value=V), heads)


def token_log_probs(table: Tensor, words: Tensor, heads: Tensor, tokens: Tensor) -> Tensor:
    """By word; zero in the padding."""
    return torch.where(tokens >= 0, table[tags_of_heads(words, heads), tokens.clamp_min(0)].log(), 0.0)


# ---------------------------------------------------------------------- models


def padded_batch() -> None:
    w, table = weights(), emission()
    with pyro.plate("sentences", len(WORDS)):
        heads = pyro.sample("heads", GRAMMAR.derivation(w, WORDS))
        pyro.factor("tokens", token_log_probs(table, WORDS, heads, TOKENS).sum(-1))


def plate_of_words() -> None:
    w, table = weights(), emission()
    words = WORDS[:, None]
    with pyro.plate("sentences", len(WORDS), dim=-2):
        heads = pyro.sample("heads", GRAMMAR.derivation(w, words))
        with pyro.plate("words", 3, dim=-1), poutine.mask(mask=WORDS >= 0):
            tags = tags_of_heads(words, heads)[..., 0, :]
            pyro.sample("tokens", dist.Categorical(table[tags]), obs=TOKENS.clamp_min(0))


def no_plate() -> None:
    w, table = weights(), emission()
    heads = pyro.sample("heads", GRAMMAR.derivation(w, WORDS).to_event(1))
    tags = tags_of_heads(WORDS, heads)
    tokens = dist.Categorical(table[tags]).mask(WORDS >= 0).to_event(2)
    pyro.sample("tokens", tokens, obs=TOKENS.clamp_min(0))


def annotators() -> None:
    """A plate left of that of the sentences, and one whose trees do not differ."""
    w = weights()
    with pyro.plate("annotators", 2, dim=-2):
        table = pyro.sample("emission", dist.Dirichlet(torch.ones(V + 1, T)).to_event(1))
    with pyro.plate("sentences", len(WORDS), dim=-1):
        heads = pyro.sample("heads", GRAMMAR.derivation(w, WORDS))
        with pyro.plate("annotators.", 2, dim=-2):
            tags = tags_of_heads(WORDS, heads)
            k = torch.arange(2)[:, None, None]
            log_probs = table.squeeze(-3)[k, tags, TOKENS.clamp_min(0)].log()
            pyro.factor("tokens", torch.where(WORDS >= 0, log_probs, 0.0).sum(-1))


def two_sites() -> None:
    """One likelihood of two trees of each sentence, and one of one of them."""
    w, table = weights(), emission()
    with pyro.plate("sentences", 3):
        words, tokens = WORDS[1:], TOKENS[1:]
        one = pyro.sample("one", GRAMMAR.derivation(w, words))
        two = pyro.sample("two", ProjectiveDependencyTree(torch.ones(3, 4, 4).tril(), lengths=(words >= 0).sum(-1)))
        both = token_log_probs(table, words, one, tokens) + 2 * token_log_probs(table, words, two, tokens)
        pyro.factor("both", both.sum(-1))
        pyro.factor("rest", token_log_probs(table, words, two, words.clamp_max(1)).sum(-1))


def two_plates() -> None:
    """Two sites in different plates, one within the other's."""
    w, table = weights(), emission()
    with pyro.plate("outer", 2, dim=-2):
        words, tokens = WORDS[1:3, None], TOKENS[1:3, None]
        one = pyro.sample("one", GRAMMAR.derivation(w, words))
        pyro.factor("of one", token_log_probs(table, words, one, tokens).sum(-1))
        with pyro.plate("inner", 2, dim=-1):
            here = torch.tensor([[1, 2], [3, 1]])
            words, tokens = WORDS[here], TOKENS[here]
            two = pyro.sample("two", GRAMMAR.derivation(w, words))
            pyro.factor("of two", token_log_probs(table, words, two, tokens).sum(-1))


def one_by_one() -> None:
    w, table = weights(), emission()
    for i in pyro.plate("sentences", 3, subsample_size=2, subsample=torch.tensor([0, 1])):
        words, tokens = WORDS[i, : 3 - i], TOKENS[i, : 3 - i]
        heads = pyro.sample(f"heads.{i}", GRAMMAR.derivation(w, words))
        log_probs = token_log_probs(table, words, heads, tokens)
        pyro.factor(f"tokens.{i}", log_probs.sum(-1))


def latent_below() -> None:
    """A latent site that depends on the tree, and data that depend on it."""
    w = weights()
    with pyro.plate("sentences", len(WORDS)):
        heads = pyro.sample("heads", GRAMMAR.derivation(w, WORDS))
        roots = torch.where(WORDS >= 0, tags_of_heads(WORDS, heads) == V, False).to(torch.get_default_dtype())
        table = torch.linspace(-1, 1, 3)
        z = pyro.sample("z", dist.Normal(roots * table, 1.0).to_event(1))
        pyro.sample("seen", dist.Normal(z, 1.0).to_event(1), obs=torch.ones(len(WORDS), 3))


def subsampled() -> None:
    w, table = weights(), emission()
    with pyro.plate("sentences", len(WORDS), subsample_size=2, subsample=torch.tensor([1, 3])) as i:
        heads = pyro.sample("heads", GRAMMAR.derivation(w, WORDS[i]))
        pyro.factor("tokens", token_log_probs(table, WORDS[i], heads, TOKENS[i]).sum(-1))


def masked_sentences() -> None:
    w, table = weights(), emission()
    with pyro.plate("sentences", len(WORDS)), poutine.mask(mask=torch.tensor([True, False, True, True])):
        heads = pyro.sample("heads", GRAMMAR.derivation(w, WORDS))
        pyro.factor("tokens", token_log_probs(table, WORDS, heads, TOKENS).sum(-1))


def conditioned_inside() -> None:
    poutine.condition(padded_batch, {"emission": torch.full((V + 1, T), 0.5)})()


def parameters() -> None:
    w = weights()
    logits = pyro.param("logits", torch.arange(8.0).reshape(V + 1, T).sin())
    with pyro.plate("sentences", len(WORDS)):
        heads = pyro.sample("heads", GRAMMAR.derivation(w, WORDS))
        pyro.factor("tokens", token_log_probs(logits.softmax(-1), WORDS, heads, TOKENS).sum(-1))


def several_roots() -> None:
    scores = pyro.sample("scores", dist.Normal(torch.zeros(4, 4, 2), 1.0).to_event(3))
    table, lengths = emission(), (WORDS >= 0).sum(-1)
    with pyro.plate("sentences", len(WORDS)):
        heads = pyro.sample("heads", ProjectiveDependencyTree(scores, lengths=lengths, multiroot=True))
        pyro.factor("tokens", token_log_probs(table, WORDS, heads, TOKENS).sum(-1))


def siblings() -> None:
    scores = pyro.sample("scores", dist.Normal(torch.zeros(4, 4, 4), 1.0).to_event(3))
    table, lengths = emission(), (WORDS >= 0).sum(-1)
    with pyro.plate("sentences", len(WORDS)):
        heads = pyro.sample("heads", SiblingDependencyTree(scores[0], scores, lengths=lengths))
        pyro.factor("tokens", token_log_probs(table, WORDS, heads, TOKENS).sum(-1))


def states() -> None:
    w, table = weights(CHAIN), emission("tokens.emission", 2)
    with pyro.plate("sentences", len(WORDS)):
        found = pyro.sample("states", CHAIN.derivation(w, WORDS))
        log_probs = table[found.clamp_min(0), TOKENS.clamp_min(0)].log()
        pyro.factor("tokens", torch.where(WORDS >= 0, log_probs, 0.0).sum(-1))


def nothing_said() -> None:
    """A tree on which nothing depends."""
    with pyro.plate("sentences", len(WORDS)):
        pyro.sample("heads", GRAMMAR.derivation(weights(), WORDS))


MODELS: list[Callable[[], None]] = [
    padded_batch,
    plate_of_words,
    no_plate,
    annotators,
    two_sites,
    two_plates,
    one_by_one,
    latent_below,
    subsampled,
    masked_sentences,
    conditioned_inside,
    parameters,
    several_roots,
    siblings,
    states,
    nothing_said,
]

# ---------------------------------------------------------------------- the truth


def latent_values(model: Callable[..., Any], *args: Any) -> dict[str, Tensor]:
    """A draw of all that is latent besides trees."""
    nodes: Any = poutine.trace(model).get_trace(*args).nodes
    return {n: s["value"] for n, s in nodes.items() if is_latent(s) and not is_tree(s)}


def is_latent(site: Any) -> bool:
    return site["type"] == "sample" and not site["is_observed"] and type(site["fn"]).__name__ != "_Subsample"


def is_tree(site: Any) -> bool:
    return hasattr(getattr(site["fn"], "base_dist", site["fn"]), "tilted")


def all_trees(model: Callable[..., Any], *args: Any) -> list[dict[str, Tensor]]:
    """Every choice of the trees of all sites and sentences."""
    nodes: Any = poutine.trace(model).get_trace(*args).nodes
    sites = {name: site for name, site in nodes.items() if is_latent(site) and is_tree(site)}
    return [dict(zip(sites, c, strict=True)) for c in itertools.product(*(_values(s) for s in sites.values()))]


def _values(site: Any) -> list[Tensor]:
    tree = getattr(site["fn"], "base_dist", site["fn"])
    lengths = tree.lengths.expand(tree.batch_shape)
    rows = []
    for n in lengths.flatten().tolist():
        if hasattr(tree, "multiroot"):
            values = projective_trees(n, tree.multiroot)
        else:
            values = torch.tensor(list(itertools.product(range(tree.num_states), repeat=n)))
        rows.append(torch.nn.functional.pad(values, (0, tree.event_shape[0] - n), value=-1))
    return [torch.stack(c).reshape(site["value"].shape) for c in itertools.product(*rows)]


Runs = list[tuple[dict[str, Tensor], Any]]


def every_run(model: Callable[..., Any], values: Mapping[str, Tensor], *args: Any) -> Runs:
    """Every choice of trees, and the trace of the model with them and these values of all else."""
    found = []
    for trees in all_trees(model, *args):
        trace: Any = poutine.trace(poutine.condition(model, {**values, **trees})).get_trace(*args)
        trace.compute_log_prob()
        found.append((trees, trace))
    return found


def summed_log_joint(model: Callable[..., Any], values: Mapping[str, Tensor], *args: Any) -> Tensor:
    """The log joint with these values, summed over trees; the sum itself is scaled where the model is."""
    fixed, scaled, scale = [], [], 1.0
    for _, trace in every_run(model, values, *args):
        sites = [s for s in trace.nodes.values() if s["type"] == "sample"]
        scale = max(float(s["scale"]) for s in sites)
        within = [s["log_prob_sum"] / scale for s in sites if s["scale"] == scale]
        fixed.append(sum((s["log_prob_sum"] for s in sites if s["scale"] != scale), torch.zeros(())))
        scaled.append(sum(within, torch.zeros(())))
    return fixed[0] + scale * torch.stack(scaled).logsumexp(0)


def log_joint(model: Callable[..., Any], values: Mapping[str, Tensor], *args: Any) -> Tensor:
    trace: Any = poutine.trace(poutine.condition(model, dict(values))).get_trace(*args)
    total: Tensor = trace.log_prob_sum()
    return total
