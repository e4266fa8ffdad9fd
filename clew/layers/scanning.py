"""A cell over time as one operator. An exported program of any length is made of it: a loop would be written out to the length shown."""

import torch
from torch import Tensor
from torch._higher_order_ops import scan

from clew.core.state import leaves, where_rows, with_leaves
from clew.core.types import Fixed, Memory, State
from clew.layers.cells import Cell


def scan_cell(cell: Cell, x: Tensor, real: Tensor | None, state: State) -> tuple[Tensor, State]:
    """y (batch, length, dim) and the state after each row's last real position. What is fixed and what is only read is not carried."""
    inputs = cell.inputs(x)
    real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if real is None else real

    def step(before: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        old = with_leaves(state, before, keep=(Memory,))
        y, new = cell(with_leaves(inputs, now[:-1], keep=(Fixed,)), old)
        after = where_rows(now[-1], new, old)
        return leaves(after, keep=(Memory,)), leaves(y)[0].clone()

    steps = [part.transpose(0, 1) for part in (*leaves(inputs, keep=(Fixed,)), real)]
    after, y = scan(step, leaves(state, keep=(Memory,)), steps)
    return y.transpose(0, 1), with_leaves(state, after, keep=(Memory,))


def scan_viterbi(emissions: Tensor, real: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """The best tags (batch, length) and their score (batch,): Viterbi's algorithm, and back by the ways that were best. On padding the
    last tag stands still."""
    batch, length, num_tags = emissions.shape
    stay = torch.arange(num_tags, device=emissions.device)
    firsts = (torch.arange(length, device=emissions.device) == 0)[:, None].expand(-1, batch)

    def ahead(scores: Tensor, now: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        emission, is_real, is_first = now
        best, way = (scores[:, :, None] + transitions).max(1)  # (batch, to)
        best = torch.where(is_first[:, None], start, best) + emission
        return torch.where(is_real[:, None], best, scores), torch.where(is_real[:, None], way, stay)

    def back(tag: Tensor, way: Tensor) -> tuple[Tensor, Tensor]:
        return way.gather(1, tag), tag.clone()

    scores, ways = scan(ahead, torch.zeros_like(emissions[:, 0]), (emissions.transpose(0, 1), real.mT, firsts))
    found, last = (scores + end).max(1, keepdim=True)
    _, tags = scan(back, last, ways, reverse=True)
    return tags[..., 0].mT, found[:, 0]
