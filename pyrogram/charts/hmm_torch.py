# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hidden Markov chains in torch: any device, any number of derivatives, one step for all sentences at a time.

The arguments are those of :mod:`.hmm`: tables of log weights whose batch is that of the words, or 1.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def log_partition(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
) -> Float[Tensor, "B"]:
    """Log of the total weight of all state sequences; -inf if there is none."""
    return _log_z(initial, transition, word_scores(emission, words), words)


def posteriors(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B K K+1"], Float[Tensor, "B n K"]]:
    """log Z and its gradient: expected counts of the transitions, and the probabilities of each word's states.

    Differentiable if an input requires a gradient. Zero for a sentence without any state sequence.
    """
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (initial, transition, emission))
    with torch.inference_mode(False), torch.enable_grad():
        if not keep:
            initial, transition, emission = (t.detach() for t in (initial, transition, emission))
        # Constant tables have posteriors too, so whatever has no graph becomes a leaf.
        moves, scores = transition.expand(len(words), -1, -1).clone(), word_scores(emission, words).clone()
        moves, scores = (t if t.requires_grad else t.requires_grad_() for t in (moves, scores))
        log_z = _log_z(initial, moves, scores, words)
        gradient = torch.autograd.grad(log_z.sum(), [moves, scores], create_graph=keep)
    return (log_z if keep else log_z.detach()), gradient[0], gradient[1]


@torch.no_grad()
def sample(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "S B n"]:
    """Independent draws from the posterior, from the last word to the first; padded with -1.

    :raises ValueError: if a sentence has no state sequence of positive weight.
    """
    B, n = words.shape
    cells = torch.stack(_forward(initial, transition, word_scores(emission, words), words), 1)
    last = (words >= 0).sum(1) - 1
    moves = transition.expand(B, -1, -1)
    own = torch.arange(B, device=words.device)
    ends = cells[own, last] + moves[:, :, -1]
    possible = (ends > -torch.inf).any(-1)
    if not bool(possible.all()):
        raise ValueError(f"sentence {int((~possible).nonzero()[0])} has no states of positive weight to sample")

    def draw(logits: Tensor) -> Tensor:
        probabilities = (logits - logits.amax(-1, keepdim=True)).exp()
        return (probabilities / torch.empty_like(probabilities).exponential_(generator=generator)).argmax(-1)

    states = words.new_full((num_samples, B, n), -1, dtype=torch.long)
    state = draw(ends.expand(num_samples, -1, -1))
    for t in range(n - 1, -1, -1):
        earlier = draw(torch.where((t < last)[:, None], cells[:, t] + moves[own, :, state], 0.0))
        state = torch.where(t < last, earlier, state)
        states[:, :, t] = torch.where(t <= last, state, -1)
    return states


@torch.no_grad()
def top_k(
    initial: Float[Tensor, "#B K"],
    transition: Float[Tensor, "#B K K+1"],
    emission: Float[Tensor, "#B K V"],
    words: Int[Tensor, "B n"],
    k: int,
) -> tuple[Int[Tensor, "k B n"], Float[Tensor, "k B"]]:
    """The k best state sequences and their scores, best first; where there are fewer, states are -1, scores -inf."""
    B, n = words.shape
    K = initial.shape[-1]
    scores, real = word_scores(emission, words), words >= 0
    moves = transition.expand(B, -1, -1)
    best = torch.full((B, k, K), -torch.inf, dtype=scores.dtype, device=words.device)
    best[:, 0] = initial + scores[:, 0]
    back = []
    for t in range(1, n):
        # Candidates (rank, state) in one dimension, for every next state.
        candidates = (best[..., None] + moves[:, None, :, :K]).flatten(1, 2)
        found = candidates.topk(k, 1)
        back.append(found.indices)
        best = torch.where(real[:, t, None, None], found.values + scores[:, t, None], best)
    final = (best + moves[:, None, :, K]).flatten(1).topk(min(k, k * K), 1)
    place, states = final.indices, words.new_full((B, k, n), -1, dtype=torch.long)  # place is rank * K + state
    for t in range(n - 1, -1, -1):
        states[..., t] = torch.where(real[:, t, None], place % K, -1)
        if t:
            earlier = back[t - 1].flatten(1).gather(1, place)
            place = torch.where(real[:, t, None], earlier, place)
    states = torch.where((final.values > -torch.inf)[..., None], states, -1)
    return states.transpose(0, 1), final.values.T


def word_scores(emission: Float[Tensor, "#B K V"], words: Int[Tensor, "B n"]) -> Float[Tensor, "B n K"]:
    """The log weight of every word in every state; anything finite in the padding."""
    index = words.clamp_min(0)
    if emission.shape[0] == 1:
        return emission[0].T[index]
    # A gather on expanded indices keeps this traceable by torch's transforms.
    places = index[:, None, :].expand(-1, emission.shape[1], -1)
    return emission.gather(2, places).transpose(1, 2)


def _forward(initial: Tensor, transition: Tensor, scores: Tensor, words: Tensor) -> list[Tensor]:
    """Log weight of all sequences that end in each state, (B, K) for each word; padding repeats the last word's."""
    K = initial.shape[-1]
    cell = initial + scores[:, 0]
    cells = [cell]
    for t in range(1, words.shape[1]):
        moved = log_sum_exp((cell[:, :, None] + transition[:, :, :K]).transpose(0, 1))
        cell = torch.where((words[:, t] >= 0)[:, None], moved + scores[:, t], cell)
        cells.append(cell)
    return cells


def _log_z(initial: Tensor, transition: Tensor, scores: Tensor, words: Tensor) -> Tensor:
    last = _forward(initial, transition, scores, words)[-1]
    return log_sum_exp((last + transition[:, :, -1]).T)


def log_sum_exp(x: Tensor) -> Tensor:
    """Over the first dimension; where all is -inf the value is -inf and every derivative is 0, never NaN."""
    peak = x.detach().amax(0)
    empty = peak == -torch.inf
    total = (x - peak.clamp_min(torch.finfo(x.dtype).min)).exp().sum(0)
    return (total + empty).log() + peak
