"""Two-dimensional LSTM with an explicit backward pass: the readers from all corners together, with one matrix product
per diagonal.

Forward, where s are the activations [i f_up f_left c~ o] and `before` holds the neighbours' states:

    s = nonlinearities(W x + b + U [h_up; h_left]),    c = i c~ + f_up c_up + f_left c_left,    t = tanh(c),    h = o t

Backward, from the last diagonal to the first, where dh and dc are the gradients from the output and from later
diagonals:

    dc += dh o (1 - t^2)
    da  = [dc c~ i(1-i),  dc c_up f_up(1-f_up),  dc c_left f_left(1-f_left),  dc i(1-c~^2),  dh t o(1-o)]
    [dh_up; dh_left] += U^T da,    dc_up += dc f_up,    dc_left += dc f_left

All factors of dc and dh in da are known after the forward pass. They are computed for the whole grid before the
backward loop, which multiplies them in place; dU is one product after it. Rows are (cells, batch), ordered by diagonal,
so that those of a diagonal are contiguous.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from clew.core.grids import Diagonals

HIDDEN, CELL = 0, 1
UP, LEFT = 0, 1


def grid_lstm(inputs: Sequence[Tensor], weights: Sequence[Tensor], diagonals: Diagonals) -> list[Tensor]:
    """Return h (cells, batch, dim) of each reader, from W x + b (cells, batch, 5 * dim) and its U (5 * dim, 2 *
    dim)."""
    weight = torch.stack([each.to(inputs[0].dtype) for each in weights])
    hidden: Tensor = GridLSTMWalk.apply(diagonals, weight, *inputs)  # type: ignore[no-untyped-call]
    return list(hidden.unflatten(1, inputs[0].shape[:2]).unbind(0))


class GridLSTMWalk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, diagonals: Diagonals, weight: Tensor, *inputs: Tensor) -> Tensor:
        batch, dim = inputs[0].shape[1], weight.shape[2] // 2
        gates = torch.stack(inputs).flatten(1, 2)  # (readers, rows, 5 * dim), a copy that may be overwritten
        readers, rows = gates.shape[:2]
        before = gates.new_zeros(readers, rows, 2, 2, dim)  # neighbours' (hidden, cell), each of (up, left)
        state = gates.new_empty(readers, rows, 2, dim)
        squashed = gates.new_empty(readers, rows, dim)
        sizes = [size * batch for size in diagonals.sizes]
        befores = before.split(sizes, 1)
        parts = (
            *(gates, gates[..., : 3 * dim], *gates.chunk(5, -1)),
            *(before[:, :, HIDDEN].flatten(2), before[:, :, CELL, UP], before[:, :, CELL, LEFT]),
            *(state, state[:, :, HIDDEN], state[:, :, CELL], squashed),
        )
        steps = zip(*(part.split(sizes, 1) for part in parts), strict=True)
        for number, (
            a,
            first_three,
            i,
            f_up,
            f_left,
            candidate,
            o,
            h_before,
            c_up,
            c_left,
            now,
            hidden,
            cell,
            t,
        ) in enumerate(steps, 1):
            torch.baddbmm(a, h_before, weight.mT, out=a)
            first_three.sigmoid_()
            candidate.tanh_()
            o.sigmoid_()
            torch.mul(i, candidate, out=cell)
            cell.addcmul_(f_up, c_up).addcmul_(f_left, c_left)
            torch.tanh(cell, out=t)
            torch.mul(o, t, out=hidden)
            if number < len(sizes):
                (up, from_up), (left, from_left) = neighbours_of(sizes, number, diagonals.width, batch)
                befores[number][:, up, :, UP] = now[:, from_up]
                befores[number][:, left, :, LEFT] = now[:, from_left]
        ctx.save_for_backward(weight, gates, before, squashed)
        ctx.sizes, ctx.width, ctx.cells, ctx.batch = sizes, diagonals.width, inputs[0].shape[0], batch
        return state[:, :, HIDDEN]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        weight, gates, before, t = ctx.saved_tensors
        dim = weight.shape[2] // 2
        i, f, candidate, o = gates.unflatten(2, (5, dim)).split_with_sizes([1, 2, 1, 1], 2)
        da = torch.addcmul(gates, gates, gates, value=-1).unflatten(2, (5, dim))  # s (1 - s), of the sigmoids
        da[:, :, :1].mul_(candidate)
        da[:, :, 1:3].mul_(before[:, :, CELL])
        torch.mul(i, 1 - candidate**2, out=da[:, :, 3:4])
        da[:, :, 4].mul_(t)
        into_cell = o[:, :, 0] * (1 - t**2)
        d_state = torch.zeros_like(before[:, :, :, UP])  # (readers, rows, 2, dim)
        d_state[:, :, HIDDEN] = gradient
        parts = (da.flatten(2), da[:, :, :4], da[:, :, 4], into_cell, f, d_state[:, :, HIDDEN], d_state[:, :, CELL])
        steps = list(zip(*(part.split(ctx.sizes, 1) for part in parts), strict=True))
        for number in range(len(steps) - 1, -1, -1):
            da_here, of_cell, of_hidden, into_here, f_here, d_hidden, d_cell = steps[number]
            d_cell.addcmul_(d_hidden, into_here)
            of_cell.mul_(d_cell[:, :, None])
            of_hidden.mul_(d_hidden)
            if number:
                *_, d_hidden_before, d_cell_before = steps[number - 1]
                d_neighbours = torch.bmm(da_here, weight).unflatten(2, (2, dim))  # (readers, rows, neighbours, dim)
                d_kept = d_cell[:, :, None] * f_here
                for side, (here, neighbours) in enumerate(neighbours_of(ctx.sizes, number, ctx.width, ctx.batch)):
                    d_hidden_before[:, neighbours].add_(d_neighbours[:, here, side])
                    d_cell_before[:, neighbours].add_(d_kept[:, here, side])
        d_weight = da.flatten(2).mT @ before[:, :, HIDDEN].flatten(2)
        return None, d_weight, *da.flatten(2).unflatten(1, (ctx.cells, ctx.batch)).unbind(0)


def neighbours_of(
    sizes: Sequence[int], number: int, width: int, batch: int
) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Return the rows of a diagonal that have a neighbour above, and these neighbours' rows in the diagonal before;
    then the same to the left."""
    here, before = sizes[number], sizes[number - 1]
    # Rows of this diagonal in the top row of the grid, without a neighbour above.
    alone = batch if number < width else 0
    ending = batch - alone  # rows of the diagonal before in the last column, without a right neighbour
    return (slice(alone, here), slice(0, here - alone)), (slice(0, before - ending), slice(ending, before))
