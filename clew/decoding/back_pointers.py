"""Hypotheses as back-pointers: what each step chose, and where a hypothesis ended. Knows no model and no score.

A choice is row * vocabulary + token: the row of the beam that is continued (sentence * beams + beam), and the token that continues it. A
step keeps one choice a beam, so that a hypothesis is known by its last choice and its length; its tokens are read once, at the end.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Ended(NamedTuple):
    """Hypotheses that have ended, best first; the score is -inf where there is none."""

    scores: Tensor  # (sentences, hypotheses) what they compete by: see `Ranking`
    log_probs: Tensor  # (sentences, hypotheses)
    lengths: Tensor  # (sentences, hypotheses)
    choices: Tensor  # (sentences, hypotheses) the last one of each


def best_of(groups: list[Ended], count: int) -> Ended:
    """The `count` of highest score."""
    scores, *others = (torch.cat(part, 1) for part in zip(*groups, strict=True))
    best, index = scores.topk(count)
    return Ended(best, *(other.gather(1, index) for other in others))


def histories(trail: Tensor, lengths: Tensor, choices: Tensor, vocabulary: int) -> Tensor:
    """The tokens (sentences, hypotheses, steps) of hypotheses that ended at `lengths` with `choices`, both (sentences, hypotheses).

        choice_{t - 1} = trail[t - 1, beam of choice_t]
        token_t        = token of choice_t

    `trail` (sentences, steps, beams) has the choices of every step; what stands past a length is of no hypothesis.
    """
    steps, beams = trail.shape[1:]
    parents, last_parents = trail // vocabulary % beams, choices // vocabulary % beams
    is_last = torch.arange(1, 1 + steps, device=trail.device) == lengths[..., None]  # (sentences, hypotheses, steps)
    beam, path = last_parents, torch.empty_like(is_last, dtype=torch.long)
    for step in reversed(range(steps)):
        path[..., step] = beam
        beam = torch.where(is_last[..., step], last_parents, parents[:, step].gather(1, beam))
    along = trail.transpose(1, 2).gather(1, path)
    return torch.where(is_last, choices[..., None], along) % vocabulary
