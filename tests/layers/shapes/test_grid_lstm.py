import pytest
import torch

import clew
from clew.core.errors import UserError
from clew.core.taps import Tap, watching
from clew.kernels import choose, only_equations
from clew.laws.grids import rectangles
from clew.layers.cells import LSTM
from clew.layers.recurrent import Recurrent
from clew.layers.shapes.grid_lstm import GRID_LAYERS, GridGRU, GridLSTM
from clew.layers.shapes.grids import CORNERS, GridBlocks
from tests.references import grid_lstm as references
from tests.references.agreement import assert_agrees, randn, randomise

SIZES = [(3, 4), (2, 4), (3, 1), (1, 2)]
MASK = rectangles(SIZES, 3, 4)
every_layer = pytest.mark.parametrize("name", GRID_LAYERS)


@every_layer
@pytest.mark.parametrize("directions", [1, 2, 4])
def test_a_layer_over_ragged_grids_equals_its_paper_in_values_and_gradients(name, directions):
    layer = randomise(GRID_LAYERS[name](2, 2, directions=directions))

    def reference(p, x):
        return references.grid(name, p, x, SIZES)

    assert_agrees(layer, lambda x: layer(x, MASK)[0], reference, randn(4, 3, 4, 2), entries=2)


@every_layer
def test_the_equation_and_the_paper_also_agree_without_padding(name):
    layer = randomise(GRID_LAYERS[name](2, 3, directions=4))

    def reference(p, x):
        return references.grid(name, p, x, [(2, 3)] * 2)

    with only_equations():
        assert_agrees(layer, lambda x: layer(x)[0], reference, randn(2, 2, 3, 2), entries=1)


@pytest.mark.parametrize("column", [False, True])
def test_a_grid_of_one_row_or_column_is_an_lstm(column):
    """The same values and gradients from the parameters that such a grid uses: one forget gate, one neighbour's h."""
    layer, cell = randomise(GridLSTM(2, 3)), randomise(LSTM(2, 3))
    parts, side = ([0, 1, 3, 4], slice(0, 3)) if column else ([0, 2, 3, 4], slice(3, 6))
    own = layer.cells["top_left"]
    rows = torch.cat([torch.arange(3) + 3 * part for part in parts])
    with torch.no_grad():
        cell.input_weight.copy_(own.input_weight[rows])
        cell.hidden_weight.copy_(own.hidden_weight[rows, side])
        cell.bias.copy_(own.bias[rows])
    x, weights = randn(2, 6, 2), randn(2, 6, 3, seed=1)
    expected = Recurrent(cell)(x)[0]
    actual = layer(x.unsqueeze(2 if column else 1))[0].squeeze(2 if column else 1)
    torch.testing.assert_close(actual, expected)
    (expected * weights).sum().backward()
    (actual * weights).sum().backward()
    torch.testing.assert_close(own.input_weight.grad[rows], cell.input_weight.grad)
    torch.testing.assert_close(own.hidden_weight.grad[rows, side], cell.hidden_weight.grad)
    torch.testing.assert_close(own.bias.grad[rows], cell.bias.grad)


def test_readers_from_other_corners_read_the_flipped_grid():
    layer = randomise(GridLSTM(2, 3, directions=4)).requires_grad_(False)
    for cell in layer.cells.values():
        cell.load_state_dict(layer.cells["top_left"].state_dict())
    x = randn(1, 3, 4, 2)
    axes = {"top_left": (), "bottom_right": (1, 2), "top_right": (2,), "bottom_left": (1,)}
    for corner, actual in zip(CORNERS, layer(x)[0].chunk(4, -1), strict=True):
        torch.testing.assert_close(actual, layer(x.flip(axes[corner]))[0][..., :3].flip(axes[corner]))


@every_layer
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_padding_affects_no_value_and_no_gradient(name, value):
    layer = GRID_LAYERS[name](2, 3, directions=4)
    x = torch.where(MASK[..., None], randn(4, 3, 4, 2).float(), value).requires_grad_()
    hidden = layer(x, MASK)[0]
    hidden.sum().backward()
    assert not hidden[~MASK].any() and not x.grad[~MASK].any()
    assert all(p.grad.isfinite().all() for p in layer.parameters()) and x.grad.isfinite().all()


@every_layer
def test_empty_inputs_give_empty_outputs(name):
    layer = GRID_LAYERS[name](2, 3, directions=2)
    for shape in ((0, 2, 3), (2, 0, 3), (2, 3, 0)):
        assert layer(torch.zeros(*shape, 2), torch.ones(shape, dtype=torch.bool))[0].shape == (*shape, 6)
    nowhere = torch.zeros(1, 2, 3, dtype=torch.bool)
    assert not layer(torch.ones(1, 2, 3, 2), nowhere)[0].any()


@every_layer
def test_half_precision_runs(name):
    layer = GRID_LAYERS[name](2, 3, directions=2)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = layer(torch.randn(4, 3, 4, 2), MASK)[0]
    hidden.float().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_a_recorded_grid_lstm_does_not_use_its_kernel():
    layer = GridLSTM(2, 3)
    assert choose(layer.kernel, layer) is not None and GridGRU.kernel is None
    with watching({layer.cells["top_left"].gates.output: lambda x: None}):
        assert choose(layer.kernel, layer) is None


def test_taps_equal_the_equation_in_reading_order_from_every_corner():
    layer = randomise(GridLSTM(2, 3, directions=4)).requires_grad_(False)
    with clew.record(layer, "*") as recorded:
        hidden = layer(randn(4, 3, 4, 2), MASK)[0]
    places = {"top_left": (1, 1), "bottom_right": (-1, -1), "top_right": (1, -1), "bottom_left": (-1, 1)}
    for number, (corner, (down, right)) in enumerate(places.items()):
        i, f_up, f_left, candidate, o, c, h = (
            recorded[f"cells.{corner}.{place}"]
            for place in (
                "gates.input",
                "gates.forget_up",
                "gates.forget_left",
                "gates.candidate",
                "gates.output",
                "cell_state",
                "hidden",
            )
        )
        torch.testing.assert_close(h, hidden[..., 3 * number : 3 * number + 3])
        torch.testing.assert_close(h, o * c.tanh())
        for row, (height, width) in enumerate(SIZES):
            for y in range(height):
                for x in range(width):
                    above = c[row, y - down, x] if 0 <= y - down < height else torch.zeros(3).double()
                    left = c[row, y, x - right] if 0 <= x - right < width else torch.zeros(3).double()
                    position = (row, y, x)
                    torch.testing.assert_close(
                        c[position],
                        i[position] * candidate[position] + f_up[position] * above + f_left[position] * left,
                    )
        assert not f_up[~MASK].any() and not c[~MASK].any()


def test_updates_of_a_grid_gru_sum_to_one():
    layer = randomise(GridGRU(2, 3))
    with clew.record(layer, "*.gates.update") as recorded:
        layer(randn(2, 3, 4, 2))
    update = recorded["*.gates.update"].unflatten(-1, (4, 3))
    torch.testing.assert_close(update.sum(-2), torch.ones(2, 3, 4, 3).double())
    assert bool((update > 0).all())


@pytest.mark.parametrize("directions", [1, 4])
def test_with_closed_forget_gates_a_cell_has_only_its_candidate(directions):
    layer = randomise(GridLSTM(2, 3, directions=directions))
    with clew.intervene(layer, {"*.gates.forget_*": torch.zeros_like}), clew.record(layer, "*") as recorded:
        layer(randn(4, 3, 4, 2), MASK)
    for corner in layer.cells:
        path = f"cells.{corner}."
        torch.testing.assert_close(
            recorded[path + "cell_state"], recorded[path + "gates.input"] * recorded[path + "gates.candidate"]
        )


def test_unwritten_cells_stay_zero_and_a_value_written_once_is_kept():
    """With i = 1 only in the corner, f_up = 1 and f_left = 0, the first column keeps the written value, and the rest
    stays zero."""
    layer = GridLSTM(1, 1).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        cell = layer.cells["top_left"]
        cell.input_weight[0], cell.input_weight[3] = 200.0, 1.0
        cell.bias.copy_(torch.tensor([-100.0, 100.0, -100.0, 0.0, 100.0]))
    x = torch.zeros(1, 3, 3, 1).double()
    x[0, 0, 0] = 1.0
    hidden = layer(x)[0][0, :, :, 0]
    expected = torch.zeros(3, 3).double()
    expected[:, 0] = torch.tensor(1.0).double().tanh().tanh()
    torch.testing.assert_close(hidden, expected)


def test_blocks_concatenate_squares_of_cells_row_by_row_with_zero_padding():
    blocks = randomise(GridBlocks(1, 2, block=2)).requires_grad_(False)
    x = torch.arange(1.0, 7.0).double().view(1, 2, 3, 1)
    joined, mask = blocks(x)
    squares = torch.tensor([[1.0, 2.0, 4.0, 5.0], [3.0, 0.0, 6.0, 0.0]]).double()
    assert mask is None and joined.shape == (1, 1, 2, 2)
    torch.testing.assert_close(joined[0, 0], torch.tanh(squares @ blocks.map.weight.mT + blocks.map.bias))
    wider = torch.full((1, 4, 4, 1), 9.0).double()
    wider[:, :2, :3] = x
    padded, mask = blocks(wider, rectangles([(2, 3)], 4, 4))
    assert mask.tolist() == [[[True, True], [False, False]]]
    torch.testing.assert_close(padded[:, :1], joined)


def test_invalid_settings_and_inputs_are_rejected_with_a_sentence():
    with pytest.raises(
        UserError, match=r"directions \(3\) must be 1, 2 or 4: the number of corners that a grid is read from"
    ):
        GridLSTM(2, 3, directions=3)
    with pytest.raises(UserError, match="a grid cell's widths must be at least 1, not input_dim=0, dim=3"):
        GridLSTM(0, 3)
    with pytest.raises(UserError, match=r"block \(0\) must be at least 1"):
        GridBlocks(2, 3, block=0)
    layer, x = GridLSTM(2, 3), torch.zeros(2, 3, 4, 2)
    sentence = (
        r"boolean with the shape \[2, 3, 4\], \(batch, height, width\), and this one is torch.int64 with the shape \[2,"
        r" 3, 4\]"
    )
    with pytest.raises(UserError, match=sentence):
        layer(x, torch.ones(2, 3, 4, dtype=torch.long))
    with pytest.raises(UserError, match=r"and this one is torch.bool with the shape \[2, 3\]"):
        layer(x, torch.ones(2, 3, dtype=torch.bool))
    sentence = (
        "the real cells of a grid must be a rectangle at its top left, and those of example 1 are not; move them there,"
        " with the padding"
    )
    holes = torch.ones(2, 3, 4, dtype=torch.bool)
    for hole in ((1, 0, 0), (1, 2, 3), (1, 0)):
        mask = holes.clone()
        mask[hole] = False
        with pytest.raises(UserError, match=sentence):
            layer(x, mask)


def test_every_tap_of_every_layer_is_named_by_its_corner():
    for build in GRID_LAYERS.values():
        taps = [path for path, part in build(2, 3, directions=4).named_modules() if isinstance(part, Tap)]
        assert {path.split(".")[1] for path in taps} == set(CORNERS)
