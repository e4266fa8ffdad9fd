"""One step of a recurrence against its equation in float64. Runs on a GPU, or in Triton's interpreter:
TRITON_INTERPRET=1 pytest ..."""

import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from clew.kernels import cell_step as module
from clew.kernels import recurrent
from clew.kernels.cell_step import cell_step
from clew.layers.cells import GRU, LSTM, Elman
from clew.layers.precision import quantised
from clew.layers.recurrent import Recurrent

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or not (torch.cuda.is_available() or IS_INTERPRETED),
    reason="these kernels run on a GPU",
)
ALLOWED = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 4e-3}
GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


@pytest.fixture
def device() -> str:
    torch.manual_seed(7)
    return "cpu" if IS_INTERPRETED else "cuda"


def equation(kind: str, x: Tensor, state: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    x, h, *rest = (each.double() for each in (x, *state))
    w_x, w_h, b_x, b_h = (each.double() for each in weights)
    from_x, from_h = x @ w_x.mT + b_x, h @ w_h.mT + b_h
    if kind == "lstm":
        i, f, g, o = (from_x + from_h).chunk(4, -1)
        cell = f.sigmoid() * rest[0] + i.sigmoid() * g.tanh()
        return [o.sigmoid() * cell.tanh(), cell]
    if kind == "gru":
        (r_x, z_x, n_x), (r_h, z_h, n_h) = from_x.chunk(3, -1), from_h.chunk(3, -1)
        z = (z_x + z_h).sigmoid()
        return [z * h + (1 - z) * (n_x + (r_x + r_h).sigmoid() * n_h).tanh()]
    return [getattr(from_x + from_h, kind)()]


def draw(
    kind: str, rows: int, input_dim: int, dim: int, device: str, dtype: torch.dtype
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device).to(dtype)

    width = GATES[kind] * dim
    weights = [normal(width, input_dim) / input_dim**0.5, normal(width, dim) / dim**0.5, normal(width), normal(width)]
    return normal(rows, input_dim), [normal(rows, dim) for _ in range(2 if kind == "lstm" else 1)], weights


def error(actual: Tensor, expected: Tensor) -> float:
    return float((actual.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize("rows", [1, 3, 8, 9, 33, 64, 128])
@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize("kind", GATES)
def test_a_step_equals_its_equation(device, kind, dtype, rows):
    if IS_INTERPRETED and dtype == torch.bfloat16 and rows > module.FEW:
        pytest.skip("the interpreter multiplies the bits of bfloat16 as integers")
    x, state, weights = draw(kind, rows, 70, 100, device, dtype)
    actual, expected = cell_step(kind, x, state, weights), equation(kind, x, state, weights)
    assert [part.dtype for part in actual] == [dtype] * len(state)
    assert all(error(*pair) < ALLOWED[dtype] for pair in zip(actual, expected, strict=True))


@pytest.mark.parametrize("rows", [2, 20])
@pytest.mark.parametrize("input_dim, dim", [(1, 1), (300, 5), (3, 130), (257, 64)])
@pytest.mark.parametrize("kind", GATES)
def test_a_step_of_any_width_equals_its_equation(device, kind, input_dim, dim, rows):
    x, state, weights = draw(kind, rows, input_dim, dim, device, torch.float32)
    for pair in zip(cell_step(kind, x, state, weights), equation(kind, x, state, weights), strict=True):
        assert error(*pair) < ALLOWED[torch.float32]


@pytest.mark.parametrize("rows", [2, 20])
@pytest.mark.parametrize("kind", GATES)
def test_a_depth_of_several_tiles_equals_the_equation(device, kind, rows, monkeypatch):
    monkeypatch.setattr(module, "FEW_LONGEST", 32)
    monkeypatch.setattr(module, "MANY_STEP", {4: 16})
    x, state, weights = draw(kind, rows, 70, 100, device, torch.float32)
    for pair in zip(cell_step(kind, x, state, weights), equation(kind, x, state, weights), strict=True):
        assert error(*pair) < ALLOWED[torch.float32]


@pytest.mark.parametrize("rows", [3, 17])
@pytest.mark.parametrize("kind", GATES)
def test_matrices_are_read_in_place_and_nothing_outside_them(device, kind, rows):
    """Every matrix is surrounded by NaN, which any read out of bounds would bring into the sums."""
    x, state, weights = draw(kind, rows, 70, 36, device, torch.float32)
    expected = equation(kind, x, state, weights)

    def surrounded_by_nan(matrix: Tensor) -> Tensor:
        around = torch.full((len(matrix) + 2, matrix.shape[1] + 9), torch.nan, device=device)
        around[1:-1, 4:-5] = matrix
        return around[1:-1, 4:-5]

    actual = cell_step(
        kind,
        surrounded_by_nan(x),
        list(map(surrounded_by_nan, state)),
        [*map(surrounded_by_nan, weights[:2]), *weights[2:]],
    )
    assert all(error(*pair) < ALLOWED[torch.float32] for pair in zip(actual, expected, strict=True))
    apart = cell_step(
        kind, x.mT.contiguous().mT, state, [each.mT.contiguous().mT for each in weights[:2]] + weights[2:]
    )
    assert all(error(*pair) < ALLOWED[torch.float32] for pair in zip(apart, expected, strict=True))


@pytest.mark.filterwarnings(
    "ignore:overflow encountered in exp"
)  # NumPy warns in the interpreter, and continues with infinity
@pytest.mark.parametrize("rows", [1, 16])
def test_large_sums_close_and_open_gates_exactly(device, rows):
    """A padded position keeps the cell unchanged through sums of -1e4 and 1e4 (`kernels.recurrent`)."""
    x, state, weights = draw("lstm", rows, 8, 8, device, torch.float32)
    weights[2][:8], weights[2][8:16] = -1e4, 1e4
    assert torch.equal(cell_step("lstm", x, state, weights)[1], state[1])


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1, 1.0, 100.0])
def test_the_hyperbolic_tangent_has_full_precision(device, scale):
    z = scale * torch.randn(1, 500, device=device)
    nothing = torch.zeros(500, 1, device=device), torch.zeros(500, 500, device=device), torch.zeros(500, device=device)
    (actual,) = cell_step(
        "tanh", torch.zeros(1, 1, device=device), [torch.zeros(1, 500, device=device)], [*nothing, z[0]]
    )
    torch.testing.assert_close(actual.double(), z.double().tanh(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", GATES)
def test_nan_is_propagated(device, kind):
    x, state, weights = draw(kind, 3, 20, 20, device, torch.float32)
    x[1] = torch.nan
    for part in cell_step(kind, x, state, weights):
        assert part.isnan().all(1).tolist() == [False, True, False]


CELLS = {"lstm": LSTM, "gru": GRU, "tanh": Elman, "relu": lambda *dims: Elman(*dims, nonlinearity="relu")}


@pytest.mark.parametrize("rows, calls", [(1, 1), (128, 1), (129, 0)])
@pytest.mark.parametrize("kind", CELLS)
def test_a_layer_uses_the_kernel_for_one_position(device, kind, rows, calls, monkeypatch):
    if IS_INTERPRETED:
        monkeypatch.setattr(recurrent, "supports_cell_step", lambda x, *tensors: len(x) <= module.MOST_ROWS[x.dtype])
    kinds_seen: list[str] = []
    monkeypatch.setattr(
        recurrent, "cell_step", lambda kind, *arguments: kinds_seen.append(kind) or cell_step(kind, *arguments)
    )
    layer = Recurrent(CELLS[kind](20, 12)).to(device).eval()
    x = torch.randn(rows, 5, 20, device=device)
    with torch.inference_mode():
        before = layer(x[:, :4])[1]
        y, state = layer(x[:, 4:], None, before)
        expected, end = layer.loop(x[:, 4:], None, before)
    assert kinds_seen == [kind] * calls
    torch.testing.assert_close((y, state), (expected, end))


@pytest.mark.skipif(IS_INTERPRETED, reason="takes a GPU")
def test_other_dtypes_are_left_to_torch():
    x, weight = torch.zeros(4, 1, 8, device="cuda"), torch.zeros(8, 8, device="cuda")
    assert module.supports_cell_step(x, weight)
    assert not module.supports_cell_step(x.double(), weight.double())
    assert not module.supports_cell_step(x, weight.half())
    assert not module.supports_cell_step(x, quantised(weight, 8))
    with torch.autocast("cuda", torch.bfloat16):
        assert not module.supports_cell_step(x, weight)
