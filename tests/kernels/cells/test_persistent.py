"""The kernel that walks a cell over a sequence, against the equation. Without a GPU its source is compiled for the CPU and run there."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from clew.core.state import leaves, with_leaves
from clew.kernels import only_equations
from clew.kernels.cells import on_gpu, persistent
from clew.kernels.cells.persistent import WARPS, program_for, sizes_for, walk_with
from clew.kernels.cells.source import Sizes
from clew.kernels.cells.tracing import trace_step
from clew.layers.cells import CELLS, Cell
from clew.layers.recurrent import Bidirectional, Recurrent
from tests.kernels.cells import emulated
from tests.kernels.cells.own_cells import Leaky

CUDA = torch.cuda.is_available()
ALLOWED = {torch.float32: 3e-6, torch.bfloat16: 2e-2}
emulates = pytest.mark.skipif(emulated.COMPILER is None, reason="there is no g++")
slow = partial(pytest.param, marks=pytest.mark.slow)
on_cuda = pytest.mark.skipif(not CUDA, reason="there is no GPU")


def share(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.detach().double(), wanted.detach().double()
    return float((found - wanted).norm() / wanted.norm().clamp(min=1e-9))


def results(y: Tensor, state: object, given: list[Tensor], mask: Tensor | None) -> list[Tensor]:
    """y where it is specified, the state, and the gradients of a random sum of them."""
    generator = torch.Generator().manual_seed(1)

    def like(x: Tensor) -> Tensor:
        return torch.randn(x.shape, generator=generator).to(x.device, torch.float32)

    y = y if mask is None else torch.where(mask[..., None], y, 0.0)
    total = (y.float() * like(y)).sum() + sum((leaf.float() * like(leaf)).sum() for leaf in leaves(state))
    return [y, *leaves(state), *torch.autograd.grad(total, given)]


def drawn(cell: Cell, batch: int, length: int, is_masked: bool, device: str = "cpu", dtype: torch.dtype = torch.float32):
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
        slow(CELLS["coupled_lstm"](12, 24), torch.bfloat16, Sizes(24, 16, 16, 2, 2, 1), 12, 4, False),
        (Leaky(6, 20), torch.float32, Sizes(20, 16, 8, 2, 2, 0), 4, 6, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_the_walk_equals_the_loop_in_values_and_gradients(tmp_path, cell, dtype, sizes, batch, length, is_masked):
    torch.manual_seed(0)
    x, mask, state = drawn(cell, batch, length, is_masked)
    given = [x, *leaves(state), *cell.parameters()]
    layer = Recurrent(cell)
    wanted = results(*layer.cell_loop(x, mask, state), given, mask)
    step = trace_step(cell.forward, cell.inputs(x), state)
    step = step._replace(inputs=tuple(each.to(dtype) for each in step.inputs))
    program = program_for(step, sizes, dtype, is_masked, True)
    launch = emulated.Emulated(program, tmp_path)
    found = results(*walk_with(step, mask, dtype, sizes, program, launch, True), given, mask)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.isfinite().all()
        assert share(ours, theirs) < ALLOWED[dtype]


@emulates
def test_a_walk_without_gradients_keeps_nothing_for_them(tmp_path):
    torch.manual_seed(0)
    cell = CELLS["lstm"](6, 16)
    x, _, state = drawn(cell, 3, 5, False)
    sizes = Sizes(16, 16, 8, 1, 2, 0)
    with torch.no_grad():
        wanted = Recurrent(cell).cell_loop(x, None, state)
        step = trace_step(cell.forward, cell.inputs(x), state)
        program = program_for(step, sizes, torch.float32, False, False)
        y, new = walk_with(step, None, torch.float32, sizes, program, emulated.Emulated(program, tmp_path), False)
    assert "products" not in program.forward
    assert share(y, wanted[0]) < 1e-6 and all(share(a, b) < 1e-6 for a, b in zip(leaves(new), leaves(wanted[1]), strict=True))


@pytest.mark.parametrize("width", [8, 100, 256, 650, 768, 1024, 1500])
@pytest.mark.parametrize("num_products", [1, 3, 4])
def test_all_blocks_of_a_layout_are_on_the_gpu_at_once(width, num_products):
    for batch in (1, 7, 16, 64, 300):
        for number in (torch.float32, torch.bfloat16):
            sizes = sizes_for(width, num_products, batch, number, 132, False)
            if sizes is not None:
                assert sizes.blocks * -(-batch // sizes.rows) <= 132
                assert sizes.padded >= width and sizes.padded % 16 == 0 and sizes.warps == WARPS


def test_a_layer_too_wide_for_the_registers_has_no_layout():
    assert sizes_for(4096, 4, 16, torch.bfloat16, 132, False) is None
    assert sizes_for(768, 4, 4096, torch.bfloat16, 132, False) is None


@pytest.mark.parametrize("is_masked", [False, True])
def test_a_projected_lstm_carries_its_wide_vector(is_masked):
    torch.manual_seed(0)
    cell = CELLS["projected_lstm"](5, 6, hidden_dim=11).double()
    x, mask, state = drawn(cell, 4, 7, is_masked, dtype=torch.float64)
    if mask is not None:
        mask[0] = False  # a row without a real position
    given = [x, *leaves(state), *cell.parameters()]
    wanted = results(*Recurrent(cell).cell_loop(x, mask, state), given, mask)
    recurrence = cell.recurrence(x, state)
    carried, outputs = recurrence.state, []
    for t in range(x.shape[1]):
        y, new = recurrence.step((recurrence.inputs[0][:, t], recurrence.inputs[1]), carried)
        keeps = torch.ones(4, dtype=torch.bool) if mask is None else mask[:, t]
        carried = type(new)(*(torch.where(keeps[:, None], a, b) for a, b in zip(new, carried, strict=True)))
        outputs.append(y)
    y, new = recurrence.finish(torch.stack(outputs, 1), carried, mask)
    for ours, theirs in zip(results(y, new, given, mask), wanted, strict=True):
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
        given = [x, *leaves(state), *cell.parameters()]
        layer = Recurrent(cell)
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            walked = on_gpu.walk_on_gpu(cell, x, mask, state, layer.cell_loop)
            written = layer.cell_loop(x, mask, state)
        assert walked is not None
        found, plain = results(*walked, given, mask), results(*written, given, mask)
        double = deepcopy(layer).double()
        wide = x.detach().double().requires_grad_()
        wide_state = with_leaves(state, [leaf.detach().double().requires_grad_() for leaf in leaves(state)])
        exact = results(*double.cell_loop(wide, mask, wide_state), [wide, *leaves(wide_state), *double.parameters()], mask)
        for ours, theirs, right in zip(found, plain, exact, strict=True):
            assert share(ours, right) < ALLOWED[dtype] + 2 * share(theirs, right)


@on_cuda
def test_padding_may_hold_anything(monkeypatch):
    monkeypatch.setattr(persistent, "is_better_in_a_library", lambda _: False)
    torch.manual_seed(0)
    layer = Recurrent(CELLS["lstm"](8, 32)).cuda()
    x, mask, state = drawn(layer.cell, 6, 9, True, "cuda")
    given = [*leaves(state), *layer.parameters()]
    clean, spoilt = (torch.where(mask[..., None], x.detach(), value) for value in (0.0, torch.nan))
    wanted = results(*on_gpu.walk_on_gpu(layer.cell, clean, mask, state, layer.cell_loop), given, mask)
    found = results(*on_gpu.walk_on_gpu(layer.cell, spoilt, mask, state, layer.cell_loop), given, mask)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, wanted, strict=True))


@on_cuda
def test_layers_take_the_kernel_and_chunks_go_on_from_each_other():
    torch.manual_seed(0)
    layer = Recurrent(CELLS["coupled_lstm"](16, 48)).cuda()
    x = torch.randn(5, 20, 16, device="cuda")
    with only_equations(), torch.no_grad():
        wanted, end = layer(x)
    with torch.no_grad():
        first, state = layer(x[:, :9])
        second, state = layer(x[:, 9:], state=state)
    assert share(torch.cat([first, second], 1), wanted) < 2e-6
    assert all(share(a, b) < 2e-6 for a, b in zip(leaves(state.cell), leaves(end.cell), strict=True))


@on_cuda
def test_a_layer_read_both_ways_equals_its_equation():
    torch.manual_seed(0)
    layer = Bidirectional(*(Recurrent(CELLS["peephole_lstm"](16, 32)) for _ in range(2))).cuda()
    x = torch.randn(6, 15, 16, device="cuda")
    mask = torch.arange(15, device="cuda") < torch.randint(1, 16, (6, 1), device="cuda")
    with torch.no_grad(), only_equations():
        wanted, _ = layer(x, mask)
    with torch.no_grad():
        found, _ = layer(x, mask)
    assert share(found[mask], wanted[mask]) < 2e-6


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
        found, _ = layer(x)
        layer.cell.times.zero_()
        wanted, _ = layer.loop(x, None, layer.initial_state(2, like=x))
    assert torch.equal(found, wanted)


@on_cuda
def test_a_user_s_cell_is_compared_with_its_equation_the_first_time(monkeypatch, caplog):
    torch.manual_seed(0)

    class Own(Leaky):
        pass

    layer = Recurrent(Own(8, 16)).cuda()
    x = torch.randn(2, 6, 8, device="cuda")
    monkeypatch.setattr(on_gpu, "difference_of", lambda *_: 0.5)
    with torch.no_grad():
        assert on_gpu.walk_on_gpu(layer.cell, x, None, layer.cell.initial_state(2, like=x), layer.cell_loop) is None
    assert "a Own is looped: its kernel differs from its equation by 5.0e-01 of the values" in caplog.text
