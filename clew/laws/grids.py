"""Laws of layers that read grids: `(x (batch, height, width, input_dim), mask) -> (hidden (batch, height, width, dim),
...)`.

The `directions` of such a layer are the corners from which it reads, as in `clew.layers.shapes.grids`. A trial's length
is the maximum height and width.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.taps import Tap, watching
from clew.kernels import only_equations
from clew.laws.cases import Build, Case, Law, Sizes
from clew.laws.sequences import check_output

CELLS = ("row", "height", "width", "feature")


def grid_contract(build: Build, sizes: Sizes) -> None:
    """A grid layer returns a tuple whose first item is a vector (batch, height, width, dim) per cell, of its input's
    type."""
    case = Case("contract", build, sizes)
    x = draw_grids(case, case.randint(1, sizes.length))
    for mask in (None, torch.ones(x.shape[:3], dtype=torch.bool)):
        result = case.module(x, mask)
        if not isinstance(result, tuple):
            case.fail(f"a grid layer must return (hidden, ...), not a {type(result).__name__}")
        check_output(case, result[0], (*x.shape[:3], case.module.dim))


def grid_padding(build: Build, sizes: Sizes) -> None:
    """A grid padded below and to the right has the same values and gradients as without padding."""
    case = Case("padding", build, sizes)
    case.module.eval()
    x = draw_grids(case, case.randint(1, sizes.length)).requires_grad_()
    real = [(case.randint(1, x.shape[1]), case.randint(1, x.shape[2])) for _ in range(sizes.batch)]
    alone = [hidden_of(case, x[row : row + 1, :height, :width])[0] for row, (height, width) in enumerate(real)]
    weights = [case.randn(*hidden.shape) for hidden in alone]
    expected = case.gradients(alone, weights, x)
    mask = rectangles(real, x.shape[1] + 1, x.shape[2] + 1)
    for _ in range(2):
        wider = torch.nn.functional.pad(x, (0, 0, 0, 1, 0, 1))
        hidden = hidden_of(case, torch.where(mask[..., None], wider, 10 * case.randn(*wider.shape)), mask)
        padded = [hidden[row, :height, :width] for row, (height, width) in enumerate(real)]
        for row, (left, right) in enumerate(zip(alone, padded, strict=True)):
            case.same(f"the grid of row {row}, of {real[row]} cells, padded", left, right, axes=CELLS[1:])
        case.same_gradients(f"grids of {real} cells, padded", expected, case.gradients(padded, weights, x))


def grid_batch(build: Build, sizes: Sizes) -> None:
    """Grids of a batch are independent: neither the other rows nor the order of rows matter."""
    case = Case("batch", build, sizes)
    case.module.eval()
    x = draw_grids(case, case.randint(1, sizes.length))
    together = hidden_of(case, x)
    order = torch.randperm(sizes.batch, generator=case.generator)
    case.same("grids in another order", together[order], hidden_of(case, x[order]), axes=CELLS)
    for row in range(sizes.batch):
        case.same(
            f"the grid of row {row} alone", together[row : row + 1], hidden_of(case, x[row : row + 1]), axes=CELLS
        )


def grid_causality(build: Build, sizes: Sizes) -> None:
    """A cell's vector depends on exactly the cells between it and the corners where the layer starts."""
    for seed in range(sizes.seed, sizes.seed + 4):  # one small rectified layer may be dead, but not all four
        case = Case("causality", build, sizes._replace(seed=seed))
        case.module.eval()
        grid = draw_grids(case, case.randint(1, sizes.length), batch=1)
        height, width = grid.shape[1:3]
        x = grid.repeat(height * width, 1, 1, 1).requires_grad_()  # one copy per cell
        hidden = hidden_of(case, x).flatten(1, 2)
        (gradient,) = torch.autograd.grad(hidden.diagonal(dim1=0, dim2=1).sum(), x)
        is_used = (gradient != 0).any(-1)
        is_read = torch.stack(
            [between(case.module.directions, i, j, height, width) for i in range(height) for j in range(width)]
        )
        if bool((is_used & ~is_read).any()):
            cell, *other = (is_used & ~is_read).nonzero()[0].tolist()
            case.fail(
                f"the vector of cell {divmod(cell, width)} depends on cell {tuple(other)}, which is not between it and"
                " a corner where the layer starts"
            )
        if bool((is_used == is_read).all()):
            return
    case.fail(
        "a cell's vector does not depend on all cells that are read before it; a step must use its neighbours' states"
    )


def grid_watching(build: Build, sizes: Sizes) -> None:
    """Watching taps does not change a layer's outputs, and a tap shows one vector per cell."""
    case = Case("watching", build, sizes)
    case.module.eval()
    x = draw_grids(case, case.randint(1, sizes.length))
    mask = rectangles(
        [(case.randint(1, x.shape[1]), case.randint(1, x.shape[2])) for _ in range(sizes.batch)], *x.shape[1:3]
    )
    plain = hidden_of(case, x, mask)
    tap_values: list[Tensor] = []
    with watching({tap: tap_values.append for tap in case.module.modules() if isinstance(tap, Tap)}):
        case.same("hidden while every tap is watched", plain, hidden_of(case, x, mask), axes=CELLS)
    for value in tap_values:
        if value.shape[:3] != x.shape[:3]:
            case.fail(
                f"a tap shows {tuple(value.shape)} for grids of {tuple(x.shape[:3])}; join the steps of a loop as cells"
            )


def grid_kernels(build: Build, sizes: Sizes) -> None:
    """A grid layer's kernel equals its equation in values and gradients."""
    case = Case("kernels", build, sizes)
    case.module.eval()
    x = draw_grids(case, case.randint(1, sizes.length)).requires_grad_()
    for mask in (
        None,
        rectangles(
            [(case.randint(1, x.shape[1]), case.randint(1, x.shape[2])) for _ in range(sizes.batch)], *x.shape[1:3]
        ),
    ):
        fast = hidden_of(case, x, mask)
        with only_equations():
            written = hidden_of(case, x, mask)
        case.same("hidden of the kernel, against the equation", written, fast, axes=CELLS)
        weights = [case.randn(*written.shape)]
        case.same_gradients(
            "the kernel, against the equation", *(case.gradients([hidden], weights, x) for hidden in (written, fast))
        )


def hidden_of(case: Case, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return case.module(x, mask)[0]


def draw_grids(case: Case, width: int, batch: int | None = None) -> Tensor:
    """Return random grids whose height is the trial's length."""
    return case.randn(case.sizes.batch if batch is None else batch, case.sizes.length, width, case.sizes.input_dim)


def rectangles(real: Sequence[tuple[int, int]], height: int, width: int) -> Tensor:
    """Return the mask (batch, height, width) of grids with these numbers of rows and columns."""
    heights, widths = torch.tensor(real).unbind(1)
    return (torch.arange(height) < heights[:, None])[:, :, None] & (torch.arange(width) < widths[:, None])[:, None, :]


def between(directions: int, row: int, column: int, height: int, width: int) -> Tensor:
    """Return the mask (height, width) of the cells that are read before a cell from any starting corner, and of the
    cell itself."""
    rows, columns = torch.arange(height)[:, None], torch.arange(width)
    above, below, left, right = rows <= row, rows >= row, columns <= column, columns >= column
    corners = [above & left, below & right, above & right, below & left]
    return torch.stack(corners[:directions]).any(0)


class OverGrids(nn.Module):
    """The layers of a grid body, above its embedding, as one grid layer. With several layers a cell sees all others,
    unless all layers start at the same corner."""

    def __init__(self, body: Any):
        super().__init__()
        self.body = body
        self.dim = body.dim
        directions = body.layers[0].directions
        self.directions = directions if len(body.layers) == 1 or directions == 1 else 4

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor]:
        return (self.body.grids(x, mask)[-1].vectors,)


GRID_LAWS: dict[str, Law] = {
    "contract": grid_contract,
    "padding": grid_padding,
    "batch": grid_batch,
    "causality": grid_causality,
    "watching": grid_watching,
    "kernels": grid_kernels,
}
