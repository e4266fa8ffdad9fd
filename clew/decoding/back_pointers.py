"""Hypotheses as back-pointers: the choices of each step, and where each hypothesis ended. Knows no model and no score.

A choice is row * vocabulary + token: the row of the beam that is continued (sentence * beams + beam), and the token
that continues it. A step keeps one choice per beam, so the last choice and the length identify a hypothesis; its tokens
are read once, at the end.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Ended(NamedTuple):
    """Finished hypotheses, best first; an empty place has score -inf."""

    scores: Tensor  # (sentences, hypotheses) ranking scores: see `Ranking`
    log_probs: Tensor  # (sentences, hypotheses)
    lengths: Tensor  # (sentences, hypotheses)
    choices: Tensor  # (sentences, hypotheses) the last choice of each


def best_of(groups: list[Ended], count: int) -> Ended:
    """Select the `count` hypotheses of highest score among all groups."""
    scores, *fields = (torch.cat(part, 1) for part in zip(*groups, strict=True))
    best, index = scores.topk(count)
    return Ended(best, *(field.gather(1, index) for field in fields))


def histories(trail: Tensor, lengths: Tensor, choices: Tensor, vocabulary: int) -> Tensor:
    """Return the tokens (sentences, hypotheses, steps) of hypotheses that ended at `lengths` with `choices`, both
    (sentences, hypotheses).

        choice_{t - 1} = trail[t - 1, beam of choice_t]
        token_t        = token of choice_t

    `trail` (sentences, steps, beams) holds the choices of every step; tokens past a length are meaningless. Jumps back
    over one step are composed into jumps over 2, 4, 8, ..., so that a long search is read in few operations.
    """
    steps, beams = trail.shape[1:]
    # After the beams, each hypothesis has its own lane. It stays there until the jump back to the beam that it
    # continued.
    lanes = torch.arange(beams, beams + lengths.shape[1], device=trail.device)[:, None]
    is_last = torch.arange(1, 1 + steps, device=trail.device) == lengths[..., None]  # (sentences, hypotheses, steps)
    # (sentences, lanes, steps)
    by_lane = torch.cat([trail.transpose(1, 2), choices[..., None].expand(-1, -1, steps)], 1)
    back = by_lane // vocabulary % beams
    back[:, beams:] = torch.where(is_last, back[:, beams:], lanes)
    stay = torch.arange(back.shape[1], device=trail.device)[:, None].expand(len(trail), -1, 1)
    jumps, over = torch.cat([back[..., 1:], stay], 2), 1  # from step t + over, or the last one, to step t
    while over < steps:
        jumps = torch.cat([jumps[..., :-over].gather(1, jumps[..., over:]), jumps[..., -over:]], 2)
        over *= 2
    return by_lane.gather(1, jumps[:, beams:, :steps]) % vocabulary
