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

    `trail` (sentences, steps, beams) has the choices of every step; what stands past a length is of no hypothesis. Jumps back over one step
    are put together to jumps over 2, 4, 8, ..., so that a search of many steps is read in few operations.
    """
    steps, beams = trail.shape[1:]
    # Behind the beams each hypothesis has a lane of its own, in which it stays until it goes back to the beam that it continued.
    lanes = torch.arange(beams, beams + lengths.shape[1], device=trail.device)[:, None]
    is_last = torch.arange(1, 1 + steps, device=trail.device) == lengths[..., None]  # (sentences, hypotheses, steps)
    by_lane = torch.cat([trail.transpose(1, 2), choices[..., None].expand(-1, -1, steps)], 1)  # (sentences, lanes, steps)
    back = by_lane // vocabulary % beams
    back[:, beams:] = torch.where(is_last, back[:, beams:], lanes)
    stay = torch.arange(back.shape[1], device=trail.device)[:, None].expand(len(trail), -1, 1)
    jumps, over = torch.cat([back[..., 1:], stay], 2), 1  # from step t + over, or the last one, to step t
    while over < steps:
        jumps = torch.cat([jumps[..., :-over].gather(1, jumps[..., over:]), jumps[..., -over:]], 2)
        over *= 2
    return by_lane.gather(1, jumps[:, beams:, :steps]) % vocabulary
