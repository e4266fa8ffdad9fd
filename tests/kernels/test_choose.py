import pytest
import torch

from clew.core.taps import Tap, watching
from clew.kernels import KERNELS, choose, only_equations
from clew.layers.attention import Attention
from clew.layers.cells import CELLS
from clew.layers.positions import POSITIONS
from clew.layers.scores import SCORES


def test_a_kernel_is_used_unless_a_part_is_recorded_or_equations_are_requested():
    cell = CELLS["lstm"](2, 3)
    assert choose("lstm", cell) is KERNELS["lstm"]
    assert choose(None, cell) is None
    with watching({cell.gates.forget: lambda x: None}):
        assert choose("lstm", cell) is None
    with watching({Tap(): lambda x: None}):
        assert choose("lstm", cell) is KERNELS["lstm"]
    with only_equations():
        assert choose("lstm", cell) is None
    assert choose("lstm", cell) is KERNELS["lstm"]


def test_the_cells_that_have_kernels():
    kernels = {name: cell(2, 3).kernel for name, cell in CELLS.items()}
    assert {name for name, kernel in kernels.items() if kernel} == {"elman", "lstm", "gru", "projected_lstm"}
    assert CELLS["elman"](2, 3, nonlinearity="sigmoid").kernel is None
    assert CELLS["lstm"](2, 3, cell_output="identity").kernel is None
    assert CELLS["gru"](2, 3, reset="before").kernel is None


@pytest.mark.parametrize(
    ("score", "position", "fused"),
    [
        ("scaled", "none", True),
        ("content", "rotary", True),
        ("dot", "alibi", True),
        ("scaled", "relative", False),
        ("additive", "none", False),
    ],
)
def test_attention_is_fused_for_dot_products_with_content_free_positions(score, position, fused):
    attention = Attention(SCORES[score](4, 4), POSITIONS[position](8, 2, 4))
    assert (attention.kernel is not None) == fused


def test_requesting_equations_ends_even_after_an_exception():
    with pytest.raises(RuntimeError), only_equations():
        raise RuntimeError
    assert choose("gru", torch.nn.Identity()) is KERNELS["gru"]
