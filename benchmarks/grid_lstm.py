"""`python -m benchmarks.grid_lstm [--size N] [--batch N] [--dim N ...]`: training speed of the two-dimensional LSTM, in
cells per second.

The same layer reads the same grids in three ways: by diagonals with an explicit backward pass (the kernel); by
diagonals as in the equation; and cell by cell, in a double loop that calls the layer's cell for row i and column j of
all examples. The three are first checked to give the same vectors, then each is timed forward and backward.
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.side_by_side import default_device, timed
from clew.kernels import only_equations
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.shapes.grid_lstm import GridLSTM
from clew.layers.shapes.grids import CORNERS, GridCell

ROUNDS = 5

Variant = Callable[[GridLSTM, Tensor], Tensor]


def by_kernel(layer: GridLSTM, x: Tensor) -> Tensor:
    return layer(x)[0]


def by_equation(layer: GridLSTM, x: Tensor) -> Tensor:
    with only_equations():
        return layer(x)[0]


def cell_by_cell(layer: GridLSTM, x: Tensor) -> Tensor:
    """Run the cell of each corner over rows and columns in its own order."""
    return torch.cat([double_loop(cell, x, **CORNERS[corner]) for corner, cell in layer.cells.items()], -1)


def double_loop(cell: GridCell, x: Tensor, *, rows: bool = False, columns: bool = False) -> Tensor:
    down, right = -1 if rows else 1, -1 if columns else 1
    zeros = LSTMState(x.new_zeros(len(x), cell.dim), x.new_zeros(len(x), cell.dim))
    states: dict[tuple[int, int], LSTMState] = {}
    for i in range(x.shape[1])[::down]:
        for j in range(x.shape[2])[::right]:
            up, left = states.get((i - down, j), zeros), states.get((i, j - right), zeros)
            states[i, j] = cell(cell.inputs(x[:, i, j]), up, left)
    hidden_rows = [torch.stack([states[i, j].hidden for j in range(x.shape[2])], 1) for i in range(x.shape[1])]
    return torch.stack(hidden_rows, 1)


def seconds(variants: dict[str, Variant], layer: GridLSTM, x: Tensor) -> dict[str, float]:
    """Time forward and backward passes of all variants, in turns because of noise, and return the fastest of each."""

    def call(variant: Variant) -> None:
        layer.zero_grad()
        variant(layer, x).sum().backward()

    rounds = [{name: timed(partial(call, variant)) for name, variant in variants.items()} for _ in range(ROUNDS)]
    return {name: min(times[name] for times in rounds) for name in variants}


VARIANTS: dict[str, Variant] = {"kernel": by_kernel, "equation": by_equation, "cell by cell": cell_by_cell}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid_lstm", description=__doc__)
    parser.add_argument("--size", type=int, default=32, help="height and width")
    parser.add_argument("--batch", type=int, default=8, help="grids in a batch")
    parser.add_argument("--dim", type=int, nargs="+", default=[16, 32, 64], help="widths of the layer and its input")
    options = parser.parse_args()
    device, size = default_device(), options.size
    torch.manual_seed(0)
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{hardware}, torch {torch.__version__}; {options.batch} grids of {size} x {size}", flush=True)
    for dim in options.dim:
        for directions in (1, 4):
            layer = GridLSTM(dim, dim, directions=directions).to(device)
            x = torch.randn(options.batch, size, size, dim, device=device)
            with torch.no_grad():
                for variant in (by_kernel, by_equation):
                    torch.testing.assert_close(variant(layer, x[:2]), cell_by_cell(layer, x[:2]), rtol=1e-3, atol=1e-4)
            times = seconds(VARIANTS, layer, x)
            for label, duration in times.items():
                speed, ratio = options.batch * size * size / duration, times["cell by cell"] / duration
                print(
                    f"dim {dim:3}, {directions} corners  {label:12} {speed:>10,.0f} cells/s  {ratio:5.1f} x", flush=True
                )
