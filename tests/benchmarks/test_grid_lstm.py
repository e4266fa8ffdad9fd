import pytest
import torch

from benchmarks.grid_lstm import VARIANTS
from clew.layers.shapes.grid_lstm import GridLSTM


@pytest.mark.parametrize("directions", [1, 4])
def test_grids_by_kernel_by_equation_and_cell_by_cell_have_the_same_vectors(directions):
    layer = GridLSTM(3, 4, directions=directions).double()
    x = torch.randn(2, 3, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = VARIANTS["cell by cell"](layer, x)
    for variant in ("kernel", "equation"):
        torch.testing.assert_close(VARIANTS[variant](layer, x), expected)
