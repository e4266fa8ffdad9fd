"""`python -m benchmarks.grid_lstm [--size N] [--batch N] [--dim N ...]`: cells a second of the two-dimensional LSTM,
trained.

The same grids under the same layer: by diagonals with the backward pass written out (the kernel); by diagonals as the
equation is; and cell by cell, a double loop that calls the layer's cell for row i and column j of all examples. All
three give the same vectors, which is checked first, and each is timed forward and backward.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.side_by_side import device, timed
from clew.kernels import only_equations
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.shapes.grid_lstm import GridLSTM
from clew.layers.shapes.grids import CORNERS, GridCell

ROUNDS = 5

Way = Callable[[GridLSTM, Tensor], Tensor]


def by_kernel(layer: GridLSTM, x: Tensor) -> Tensor:
    return layer(x)[0]


def by_equation(layer: GridLSTM, x: Tensor) -> Tensor:
    with only_equations():
        return layer(x)[0]


def cell_by_cell(layer: GridLSTM, x: Tensor) -> Tensor:
    """Each corner's reader, over rows and columns in its own order."""
    return torch.cat([double_loop(cell, x, **CORNERS[corner]) for corner, cell in layer.cells.items()], -1)


def double_loop(cell: GridCell, x: Tensor, *, rows: bool = False, columns: bool = False) -> Tensor:
    down, right = -1 if rows else 1, -1 if columns else 1
    nothing = LSTMState(x.new_zeros(len(x), cell.dim), x.new_zeros(len(x), cell.dim))
    states: dict[tuple[int, int], LSTMState] = {}
    for i in range(x.shape[1])[::down]:
        for j in range(x.shape[2])[::right]:
            up, left = states.get((i - down, j), nothing), states.get((i, j - right), nothing)
            states[i, j] = cell(cell.inputs(x[:, i, j]), up, left)
    found = [torch.stack([states[i, j].hidden for j in range(x.shape[2])], 1) for i in range(x.shape[1])]
    return torch.stack(found, 1)


def seconds(ways: dict[str, Way], layer: GridLSTM, x: Tensor) -> dict[str, float]:
    """The fastest of some rounds of each, forward and backward, in turns, so that a noisy machine is noisy to all."""

    def call(way: Way) -> None:
        layer.zero_grad()
        way(layer, x).sum().backward()

    rounds = [{name: timed(lambda way=way: call(way)) for name, way in ways.items()} for _ in range(ROUNDS)]  # type: ignore[misc]
    return {name: min(times[name] for times in rounds) for name in ways}


WAYS: dict[str, Way] = {"kernel": by_kernel, "equation": by_equation, "cell by cell": cell_by_cell}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid_lstm", description=__doc__)
    parser.add_argument("--size", type=int, default=32, help="height and width")
    parser.add_argument("--batch", type=int, default=8, help="grids in a batch")
    parser.add_argument(
        "--dim", type=int, nargs="+", default=[16, 32, 64], help="width of a reader and of what it reads"
    )
    options = parser.parse_args()
    place, size = device(), options.size
    torch.manual_seed(0)
    where = torch.cuda.get_device_name() if place.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}; {options.batch} grids of {size} x {size}", flush=True)
    for dim in options.dim:
        for directions in (1, 4):
            layer = GridLSTM(dim, dim, directions=directions).to(place)
            x = torch.randn(options.batch, size, size, dim, device=place)
            with torch.no_grad():
                for way in (by_kernel, by_equation):
                    torch.testing.assert_close(way(layer, x[:2]), cell_by_cell(layer, x[:2]), rtol=1e-3, atol=1e-4)
            times = seconds(WAYS, layer, x)
            for label, spent in times.items():
                speed, ratio = options.batch * size * size / spent, times["cell by cell"] / spent
                print(
                    f"dim {dim:3}, {directions} corners  {label:12} {speed:>10,.0f} cells/s  {ratio:5.1f} x", flush=True
                )
