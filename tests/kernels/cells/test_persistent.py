"""The kernel that walks a cell over a sequence, against the equation. Without a GPU its source is compiled for the CPU
and run there."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.state import leaves, with_leaves
from clew.kernels import only_equations
from clew.kernels.cells import on_gpu, persistent
from clew.kernels.cells.compiling import Uncompiled
from clew.kernels.cells.persistent import WARPS, Gpu, program_for, sizes_for, walk_with
from clew.kernels.cells.source import Sizes
from clew.kernels.cells.tracing import trace_step
from clew.layers.cells import CELLS, Cell
from clew.layers.recurrent import Bidirectional, Recurrent
from tests.kernels.cells import emulated
from tests.kernels.cells.own_cells import Leaky

H200 = Gpu(132, 232448)
CUDA = torch.cuda.is_available()
ALLOWED = {torch.float32: 3e-6, torch.bfloat16: 2e-2}
emulates = pytest.mark.skipif(emulated.COMPILER is None, reason="there is no g++")
slow = partial(pytest.param, marks=pytest.mark.slow)
on_cuda = pytest.mark.skipif(not CUDA, reason="there is no GPU")


def share(actual: Tensor, expected: Tensor) -> float:
    actual, expected = actual.detach().double(), expected.detach().double()
    return float((actual - expected).norm() / expected.norm().clamp(min=1e-9))


def results(y: Tensor, state: object, tensors: list[Tensor], mask: Tensor | None) -> list[Tensor]:
    """y where it is specified, the state, and the gradients of a random sum of them."""
    generator = torch.Generator().manual_seed(1)

    def like(x: Tensor) -> Tensor:
        return torch.randn(x.shape, generator=generator).to(x.device, torch.float32)

    y = y if mask is None else torch.where(mask[..., None], y, 0.0)
    total = (y.float() * like(y)).sum() + sum((leaf.float() * like(leaf)).sum() for leaf in leaves(state))
    return [y, *leaves(state), *torch.autograd.grad(total, tensors)]


def drawn(
    cell: Cell, batch: int, length: int, is_masked: bool, device: str = "cpu", dtype: torch.dtype = torch.float32
):
    x = torch.randn(batch, length, cell.input_dim, device=device, dtype=dtype)
    mask = None
    if is_masked:
        mask = torch.arange(length, device=device) < torch.randint(1, length + 1, (batch, 1), device=device)
    state = cell.initial_state(batch, like=x)
    state = with_leaves(state, [torch.randn_like(leaf).requires_grad_() for leaf in leaves(state)])
    return x.requires_grad_(), mask, state


@emulates
@pytest.mark.parametrize(
    ("cell", "dtype", "sizes", "batch", "length", "is_masked"),
    [
        (CELLS["lstm"](12, 32), torch.float32, Sizes(32, 16, 8, 2, 2, 0), 8, 5, False),
        (CELLS["lstm"](5, 17), torch.bfloat16, Sizes(17, 16, 8, 2, 2, 1), 9, 6, True),
        slow(CELLS["gru"](12, 40), torch.float32, Sizes(40, 8, 8, 6, 2, 0), 11, 5, True),
        slow(CELLS["elman"](12, 56), torch.bfloat16, Sizes(56, 16, 8, 4, 2, 1), 3, 5, True),
        slow(CELLS["peephole_lstm"](12, 24), torch.float32, Sizes(24, 16, 24, 2, 4, 0), 20, 4, True),
        slow(CELLS["layernorm_lstm"](12, 40), torch.float32, Sizes(40, 8, 24, 6, 2, 0), 30, 3, True),
        slow(CELLS["layernorm_lstm"](12, 40), torch.bfloat16, Sizes(40, 16, 8, 3, 2, 1), 9, 6, True),
        slow(CELLS["coupled_lstm"](12, 24), torch.bfloat16, Sizes(24, 16, 16, 2, 2, 1), 12, 4, False),
        (Leaky(6, 20), torch.float32, Sizes(20, 16, 8, 2, 2, 0), 4, 6, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_the_walk_equals_the_loop_in_values_and_gradients(tmp_path, cell, dtype, sizes, batch, length, is_masked):
    torch.manual_seed(0)
    x, mask, state = drawn(cell, batch, length, is_masked)
    tensors = [x, *leaves(state), *cell.parameters()]
    layer = Recurrent(cell)
    expected = results(*layer.cell_loop(x, mask, state), tensors, mask)
    step = trace_step(cell.forward, cell.inputs(x), state)
    step = step._replace(inputs=tuple(each.to(dtype) for each in step.inputs))
    program = program_for(step, sizes, dtype, is_masked, True)
    launch = emulated.Emulated(program, tmp_path)
    actual = results(*walk_with(step, mask, dtype, sizes, program, launch, True), tensors, mask)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.isfinite().all()
        assert share(ours, theirs) < ALLOWED[dtype]


@emulates
def test_a_walk_without_gradients_keeps_nothing_for_them(tmp_path):
    torch.manual_seed(0)
    cell = CELLS["lstm"](6, 16)
    x, _, state = drawn(cell, 3, 5, False)
    sizes = Sizes(16, 16, 8, 1, 2, 0)
    with torch.no_grad():
        expected = Recurrent(cell).cell_loop(x, None, state)
        step = trace_step(cell.forward, cell.inputs(x), state)
        program = program_for(step, sizes, torch.float32, False, False)
        y, new = walk_with(step, None, torch.float32, sizes, program, emulated.Emulated(program, tmp_path), False)
    assert "products" not in program.forward
    assert share(y, expected[0]) < 1e-6 and all(
        share(a, b) < 1e-6 for a, b in zip(leaves(new), leaves(expected[1]), strict=True)
    )


@pytest.fixture
def on_emulated_gpu(monkeypatch, tmp_path):
    """`walk_on_gpu` for tensors of the CPU; gives a list of the kernels that ran."""
    if emulated.COMPILER is None:
        pytest.skip("there is no g++")
    ran, compiled = [], {}

    def kernels_for(program, threads, device):
        key = tuple(program.headers.items())
        if key not in compiled:
            compiled[key] = emulated.Emulated(program, tmp_path / str(len(compiled)))

        def launch(name, blocks, values):
            ran.append(name)
            compiled[key](name, blocks, values)

        return launch

    def layout(step, number):
        if persistent.fed_state(step) is None:
            return None
        return Sizes(step.width, 16, 8, -(-step.width // 16), 2, persistent.NUMBERS[number])

    monkeypatch.setattr(on_gpu, "fits", lambda x, state: x.shape[1] >= persistent.LEAST_STEPS)
    monkeypatch.setattr(persistent, "number_of", lambda step: step.matrices[0].weight.dtype if step.matrices else None)
    monkeypatch.setattr(persistent, "layout", layout)
    monkeypatch.setattr(persistent, "kernels_for", kernels_for)
    monkeypatch.setattr(persistent, "is_better_in_a_library", lambda sizes: False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return ran


def walked(layer: Recurrent, x: Tensor, mask: Tensor | None = None):
    return on_gpu.walk_on_gpu(layer.cell, x, mask, layer.cell.initial_state(len(x), like=x), layer.cell_loop)


def test_a_user_s_cell_runs_on_the_kernel_in_inference_mode_too(on_emulated_gpu):
    torch.manual_seed(0)
    layer = Recurrent(Leaky(5, 16))
    with torch.inference_mode():
        x = torch.randn(3, 7, 5)
        actual = walked(layer, x)
        expected = layer.cell_loop(x, None, layer.cell.initial_state(3, like=x))
    assert on_emulated_gpu.count("walk_forward") == 2 and share(actual[0], expected[0]) < 1e-6


def test_second_derivatives_are_refused_with_the_remedy(on_emulated_gpu):
    layer = Recurrent(CELLS["elman"](5, 16))
    x = torch.randn(2, 5, 5, requires_grad=True)
    y, _ = walked(layer, x)
    with pytest.raises(UserError, match="create_graph=True.*only_equations"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_the_output_of_one_row_may_be_written_to(on_emulated_gpu):
    layer = Recurrent(CELLS["elman"](5, 16))
    y, _ = walked(layer, torch.randn(1, 5, 5, requires_grad=True))
    y.mul_(2)


def test_weights_may_lie_anywhere_in_memory(on_emulated_gpu):
    torch.manual_seed(0)
    layer = Recurrent(CELLS["elman"](5, 16))
    parameters = [nn.Parameter(torch.zeros(1)), *layer.parameters()]
    torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector(parameters), parameters)
    assert layer.cell.hidden_weight.data_ptr() % 16
    x = torch.randn(2, 5, 5)
    assert share(walked(layer, x)[0], layer.cell_loop(x, None, layer.cell.initial_state(2, like=x))[0]) < 1e-6


class Dropped(CELLS["elman"]):
    """A user's variant of a cell that drops weights."""


def test_both_sides_of_the_comparison_drop_the_same_weights(on_emulated_gpu, caplog):
    torch.manual_seed(0)
    layer = Recurrent(Dropped(5, 16, weight_drop=0.5)).train()
    x = torch.randn(2, 7, 5)
    state = torch.get_rng_state()
    actual = walked(layer, x)
    torch.set_rng_state(state)  # the comparison has drawn nothing
    expected = layer.cell_loop(x, None, layer.cell.initial_state(2, like=x))
    assert not caplog.text and share(actual[0], expected[0]) < 1e-6


def test_a_cell_that_was_refused_does_not_decide_for_another(on_emulated_gpu):
    x = torch.randn(2, 5, 5)
    before, after = (Recurrent(CELLS["gru"](5, 16, reset=reset)) for reset in ("before", "after"))
    assert walked(before, x) is None and walked(before, x) is None
    assert walked(after, x) is not None


def test_a_transform_of_torch_func_takes_another_way(on_emulated_gpu):
    layer = Recurrent(CELLS["elman"](5, 16))
    seen = []

    def total(x: Tensor) -> Tensor:
        seen.append(walked(layer, x))
        return layer.cell_loop(x, None, torch.zeros(2, 16))[0].sum()

    torch.func.grad(total)(torch.randn(2, 5, 5))
    assert seen == [None]


def test_a_kernel_that_the_gpu_does_not_start_leaves_the_work_to_another_way(on_emulated_gpu, monkeypatch, caplog):
    def refuse(*_):
        raise Uncompiled("launching: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE")

    monkeypatch.setattr(persistent, "kernels_for", lambda *_: refuse)
    assert walked(Recurrent(CELLS["elman"](5, 16)), torch.randn(2, 5, 5)) is None
    assert "which failed: launching: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" in caplog.text


class Varied(Cell):
    """h' = tanh(x + z / sqrt(var(z) + 1)),  z = U h + 100: a variance without a mean, of numbers far from 0."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input, self.recurrent = nn.Linear(input_dim, dim), nn.Linear(dim, dim)
        nn.init.constant_(self.recurrent.bias, 100.0)

    def inputs(self, x: Tensor) -> Tensor:
        return self.input(x)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        z = self.recurrent(state)
        hidden = torch.tanh(inputs + 0.01 * z / torch.sqrt(z.var(-1, unbiased=False, keepdim=True) + 1))
        return hidden, hidden


def test_a_variance_of_numbers_far_from_0_keeps_its_digits(on_emulated_gpu):
    torch.manual_seed(0)
    layer = Recurrent(Varied(5, 20))
    x = torch.randn(3, 12, 5)
    actual, expected = (
        walked(layer, x),
        layer.double().cell_loop(x.double(), None, torch.zeros(3, 20, dtype=torch.float64)),
    )
    assert share(actual[0], expected[0]) < 1e-4


@pytest.mark.parametrize("width", [8, 100, 256, 650, 768, 1024, 1500])
@pytest.mark.parametrize("num_products", [1, 3, 4])
def test_all_blocks_of_a_layout_are_on_the_gpu_at_once(width, num_products):
    for batch in (1, 7, 16, 64, 300):
        for number in (torch.float32, torch.bfloat16):
            sizes = sizes_for(width, num_products, batch, number, H200)
            if sizes is not None:
                assert sizes.blocks * -(-batch // sizes.rows) <= 132
                assert sizes.padded >= width and sizes.padded % 16 == 0 and sizes.warps == WARPS


def test_a_layer_too_wide_for_the_registers_has_no_layout():
    assert sizes_for(4096, 4, 16, torch.bfloat16, H200) is None
    assert sizes_for(768, 4, 4096, torch.bfloat16, H200) is None


@pytest.mark.parametrize("is_masked", [False, True])
def test_a_projected_lstm_carries_its_wide_vector(is_masked):
    torch.manual_seed(0)
    cell = CELLS["projected_lstm"](5, 6, hidden_dim=11).double()
    x, mask, state = drawn(cell, 4, 7, is_masked, dtype=torch.float64)
    if mask is not None:
        mask[0] = False  # a row without a real position
    tensors = [x, *leaves(state), *cell.parameters()]
    expected = results(*Recurrent(cell).cell_loop(x, mask, state), tensors, mask)
    recurrence = cell.recurrence(x, state)
    carried, outputs = recurrence.state, []
    for t in range(x.shape[1]):
        y, new = recurrence.step((recurrence.inputs[0][:, t], recurrence.inputs[1]), carried)
        keeps = torch.ones(4, dtype=torch.bool) if mask is None else mask[:, t]
        carried = type(new)(*(torch.where(keeps[:, None], a, b) for a, b in zip(new, carried, strict=True)))
        outputs.append(y)
    y, new = recurrence.finish(torch.stack(outputs, 1), carried, mask)
    for ours, theirs in zip(results(y, new, tensors, mask), expected, strict=True):
        assert share(ours, theirs) < 1e-12


@on_cuda
@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("name", [*CELLS, "leaky"])
def test_every_cell_on_a_gpu_equals_its_equation(name, is_masked, dtype, monkeypatch):
    monkeypatch.setattr(persistent, "is_better_in_a_library", lambda _: False)
    torch.manual_seed(0)
    for batch, length, dim in ((3, 5, 40), (20, 33, 72), (16, 12, 256)):
        cell = {**CELLS, "leaky": Leaky}[name](12, dim).cuda()
        x, mask, state = drawn(cell, batch, length, is_masked, "cuda")
        tensors = [x, *leaves(state), *cell.parameters()]
        layer = Recurrent(cell)
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            walked = on_gpu.walk_on_gpu(cell, x, mask, state, layer.cell_loop)
            written = layer.cell_loop(x, mask, state)
        assert walked is not None
        actual, plain = results(*walked, tensors, mask), results(*written, tensors, mask)
        double = deepcopy(layer).double()
        wide = x.detach().double().requires_grad_()
        wide_state = with_leaves(state, [leaf.detach().double().requires_grad_() for leaf in leaves(state)])
        exact = results(
            *double.cell_loop(wide, mask, wide_state), [wide, *leaves(wide_state), *double.parameters()], mask
        )
        for ours, theirs, right in zip(actual, plain, exact, strict=True):
            assert share(ours, right) < ALLOWED[dtype] + 2 * share(theirs, right)


@on_cuda
def test_padding_may_hold_anything(monkeypatch):
    monkeypatch.setattr(persistent, "is_better_in_a_library", lambda _: False)
    torch.manual_seed(0)
    layer = Recurrent(CELLS["lstm"](8, 32)).cuda()
    x, mask, state = drawn(layer.cell, 6, 9, True, "cuda")
    tensors = [*leaves(state), *layer.parameters()]
    clean, spoilt = (torch.where(mask[..., None], x.detach(), value) for value in (0.0, torch.nan))
    expected = results(*on_gpu.walk_on_gpu(layer.cell, clean, mask, state, layer.cell_loop), tensors, mask)
    actual = results(*on_gpu.walk_on_gpu(layer.cell, spoilt, mask, state, layer.cell_loop), tensors, mask)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(actual, expected, strict=True))


@on_cuda
def test_layers_take_the_kernel_and_chunks_go_on_from_each_other():
    torch.manual_seed(0)
    layer = Recurrent(CELLS["coupled_lstm"](16, 48)).cuda()
    x = torch.randn(5, 20, 16, device="cuda")
    with only_equations(), torch.no_grad():
        expected, end = layer(x)
    with torch.no_grad():
        first, state = layer(x[:, :9])
        second, state = layer(x[:, 9:], state=state)
    assert share(torch.cat([first, second], 1), expected) < 2e-6
    assert all(share(a, b) < 2e-6 for a, b in zip(leaves(state.cell), leaves(end.cell), strict=True))


@on_cuda
def test_a_layer_read_both_ways_equals_its_equation():
    torch.manual_seed(0)
    layer = Bidirectional(*(Recurrent(CELLS["peephole_lstm"](16, 32)) for _ in range(2))).cuda()
    x = torch.randn(6, 15, 16, device="cuda")
    mask = torch.arange(15, device="cuda") < torch.randint(1, 16, (6, 1), device="cuda")
    with torch.no_grad(), only_equations():
        expected, _ = layer(x, mask)
    with torch.no_grad():
        actual, _ = layer(x, mask)
    assert share(actual[mask], expected[mask]) < 2e-6


class Stale(Leaky):
    """A cell whose step is not the same each time."""

    def forward(self, inputs, state):
        self.register_buffer("times", getattr(self, "times", torch.zeros(())) + 1)
        return super().forward(inputs * self.times, state)


@on_cuda
def test_a_cell_that_changes_itself_runs_as_written():
    torch.manual_seed(0)
    layer = Recurrent(Stale(8, 16)).cuda()
    x = torch.randn(2, 6, 8, device="cuda")
    with torch.no_grad():
        actual, _ = layer(x)
        layer.cell.times.zero_()
        expected, _ = layer.loop(x, None, layer.initial_state(2, like=x))
    assert torch.equal(actual, expected)


@on_cuda
def test_a_user_s_cell_is_compared_with_its_equation_the_first_time(monkeypatch, caplog):
    torch.manual_seed(0)

    class Own(Leaky):
        pass

    layer = Recurrent(Own(8, 16)).cuda()
    x = torch.randn(2, 6, 8, device="cuda")
    monkeypatch.setattr(on_gpu, "share", lambda *_: 0.5)
    with torch.no_grad():
        assert on_gpu.walk_on_gpu(layer.cell, x, None, layer.cell.initial_state(2, like=x), layer.cell_loop) is None
    assert "a Own runs as a loop: its kernel differs from its equation by 5.0e-01 of the values" in caplog.text
