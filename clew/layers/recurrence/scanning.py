"""A cell over time as one `scan` operator, for exported programs of any length: a loop would be unrolled to the length
of the example.

For the same reason sizes are read as `x.shape[0]` in traced code: `len(x)` is a Python number and would fix the size.
"""

import torch
from torch import Tensor
from torch._higher_order_ops import scan

from clew.core.state import leaves, where_rows, with_leaves
from clew.core.types import Fixed, Memory, State
from clew.layers.cells import Cell


def scan_cell(cell: Cell, x: Tensor, real: Tensor | None, state: State) -> tuple[Tensor, State]:
    """y (batch, length, dim) and the state after each row's last real position. `Fixed` and `Memory` parts are not
    carried."""
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


def scan_viterbi(
    emissions: Tensor, real: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """The best tags (batch, length) and their score (batch,) by Viterbi's algorithm, back pointers included. Padding
    repeats the last tag."""
    batch, length, num_tags = emissions.shape
    stay = torch.arange(num_tags, device=emissions.device)
    firsts = (torch.arange(length, device=emissions.device) == 0)[:, None].expand(-1, batch)

    def ahead(scores: Tensor, now: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        emission, is_real, is_first = now
        best, back_pointer = (scores[:, :, None] + transitions).max(1)  # (batch, to)
        best = torch.where(is_first[:, None], start, best) + emission
        return torch.where(is_real[:, None], best, scores), torch.where(is_real[:, None], back_pointer, stay)

    def back(tag: Tensor, back_pointer: Tensor) -> tuple[Tensor, Tensor]:
        return back_pointer.gather(1, tag), tag.clone()

    scores, back_pointers = scan(ahead, torch.zeros_like(emissions[:, 0]), (emissions.transpose(0, 1), real.mT, firsts))
    score, last = (scores + end).max(1, keepdim=True)
    _, tags = scan(back, last, back_pointers, reverse=True)
    return tags[..., 0].mT, score[:, 0]
