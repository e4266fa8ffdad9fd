"""Steps compiled as C against the equation under autograd, in float64."""

import copy
import errno
import logging
import math

import pytest
import torch
from torch import nn

from clew.core.state import leaves, map_tree
from clew.kernels import only_equations
from clew.kernels.cells import comparing, native, written_out
from clew.kernels.cells.expressions import Graph
from clew.kernels.cells.native import LEAST_NUMBERS, Column, compiled, may_compile, native_step
from clew.kernels.cells.native_source import Result
from clew.kernels.cells.tracing import trace_step
from clew.kernels.cells.written_out import walk_written_out
from clew.layers.cells import CELLS
from clew.layers.recurrent import Recurrent
from tests.kernels.cells.built import BUILT
from tests.kernels.cells.test_walking import MASKS, looped, with_gradients

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="no C compiler")
TRIED = ("peephole_lstm", "layernorm_lstm", "Clipped")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "name", [name if name in TRIED else pytest.param(name, marks=pytest.mark.slow) for name in BUILT]
)
def test_values_and_gradients_are_those_of_the_equation(name, mask):
    torch.manual_seed(3)
    cell, rows, width = BUILT[name](5, 19), 3, 19
    exact, real = copy.deepcopy(cell).double(), MASKS[mask]
    x = torch.randn(rows, 7, cell.input_dim)
    state = map_tree(lambda leaf: torch.randn(rows, width), cell.initial_state(rows, like=x))

    def run(cell, dtype, walk):
        leaf = x.to(dtype).requires_grad_()
        states = map_tree(lambda each: each.to(dtype).requires_grad_(), state)
        torch.manual_seed(5)  # for dropped weights
        result = walk(cell.inputs(leaf), states)
        return with_gradients(*result, real, [leaf, *leaves(states), *cell.parameters()])

    expected = run(exact, torch.double, lambda inputs, states: looped(exact, inputs, real, states))
    actual = run(
        cell,
        torch.float,
        lambda inputs, states: walk_written_out(trace_step(cell, inputs, states), real, is_native=True),
    )
    for a, b in zip(actual, expected, strict=True):
        assert (a - b).abs().max() <= 3e-5 * b.abs().max() + 1e-6  # layer norms multiply float32's rounding


@pytest.mark.parametrize("name", ["peephole_lstm", "layernorm_lstm"])
def test_long_sequences_run_in_c_and_agree_with_the_equation(name, monkeypatch):
    steps = []
    monkeypatch.setattr(written_out, "native_step", lambda *a: steps.append(native_step(*a)) or steps[-1])
    monkeypatch.setattr(written_out, "_native_steps", {})
    torch.manual_seed(0)
    layer, x = Recurrent(CELLS[name](40, 70)), torch.randn(16, LEAST_NUMBERS // 16 // 70 + 1, 40)
    mask = torch.arange(x.shape[1]) < torch.randint(1, x.shape[1], (16, 1))

    def run():
        layer.zero_grad()
        y, state = layer(x, mask)
        (y[mask].sum() + sum(leaf.sum() for leaf in leaves(state.cell))).backward()
        return [y.detach()[mask], *(each.grad for each in layer.parameters())]

    actual = run()
    assert len(steps) >= 2 and None not in steps
    with only_equations():
        expected = run()
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * b.abs().max().item())


@pytest.mark.parametrize("name", ["peephole_lstm", "layernorm_lstm"])
def test_threads_share_the_rows_of_a_step(name):
    torch.manual_seed(0)
    cell, x = CELLS[name](4, 600), torch.randn(16, 3, 4)
    threads = torch.get_num_threads()

    def run(number):
        torch.set_num_threads(number)
        cell.zero_grad()
        y, _ = walk_written_out(trace_step(cell, cell.inputs(x), cell.initial_state(16, like=x)), None, is_native=True)
        y.square().sum().backward()
        return [y.detach(), *(each.grad for each in cell.parameters())]

    try:
        alone, together = run(1), run(2)
    finally:
        torch.set_num_threads(threads)
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5 * a.abs().max().item())


def test_short_sequences_other_types_and_single_units_are_not_compiled():
    assert may_compile(torch.zeros(16, 256), LEAST_NUMBERS // 16 // 256)
    assert not may_compile(torch.zeros(16, 256), LEAST_NUMBERS // 16 // 256 - 1)
    assert not may_compile(torch.zeros(16, 256).double(), 1000)
    assert not may_compile(torch.zeros(1000, 1), 1000)
    assert not may_compile(torch.zeros(100, 100, 100), 1000)
    assert not may_compile(torch.zeros(1000), 1000)


@pytest.mark.parametrize("command", ["false", "/bin/sh -c 'echo step.c: no such header >&2; exit 1'"])
def test_a_compiler_that_fails_leaves_torch_operations(command, monkeypatch, caplog):
    monkeypatch.setenv("CC", command)
    monkeypatch.setattr(written_out, "_native_steps", {})
    monkeypatch.setattr(comparing, "_logged", set())
    native.compiler.cache_clear()
    compiled.cache_clear()
    try:
        torch.manual_seed(3)
        cell, x = BUILT["peephole_lstm"](5, 6).eval(), torch.randn(3, 7, 5, requires_grad=True)
        state = cell.initial_state(3, like=x)
        targets = [x, *cell.parameters()]
        with caplog.at_level(logging.DEBUG, logger="clew.kernels"):
            results = [
                with_gradients(
                    *walk_written_out(trace_step(cell, cell.inputs(x), state), None, is_native), None, targets
                )
                for is_native in (True, False)
            ]
        assert all(map(torch.equal, *results))
        assert "steps of cells run without compiled C: " in caplog.text
    finally:
        native.compiler.cache_clear()
        compiled.cache_clear()


def test_a_temporary_folder_that_cannot_be_written_leaves_torch_operations(monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(native.tempfile, "TemporaryDirectory", full)
    assert compiled("// never compiled before") is None


def test_a_compiler_whose_name_cannot_be_read_is_passed_over(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    native.compiler.cache_clear()
    try:
        usual = native.compiler()
        native.compiler.cache_clear()
        monkeypatch.setenv("CC", "gcc 'half a quotation")
        assert native.compiler() == usual
    finally:
        native.compiler.cache_clear()


def test_without_a_compiler_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(native, "compiler", lambda: None)
    assert not may_compile(torch.zeros(100, 100), 1000)


def applied(name, *arguments):
    """Apply an operation in C to rows of numbers."""
    graph = Graph()
    known = {graph.leaf("x", place): Column(x[None]) for place, x in enumerate(arguments)}
    node = graph.apply(name, *known)
    rows, width = arguments[0].shape
    result = torch.empty(1, rows, 1 if name == "mean" else width)
    step = native_step(graph, dict.fromkeys(known, False), [Result(node, name == "mean")])
    step.bound(known, [Column(result)], rows, width)(0)
    return result[0]


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "exp", "rsqrt"])
def test_functions_of_a_number_are_exact_to_a_few_bits(name):
    x = torch.cat([torch.linspace(-120, 120, 4001), torch.linspace(-1e-3, 1e-3, 2001), torch.randn(2000) * 5])
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 88.0, 88.7, 88.73, 1e30, -1e30, 1e-30])
    x = torch.cat([x, special])[None]
    x = x.abs() if name == "rsqrt" else x
    actual, expected = applied(name, x), getattr(torch, name)(x.double()).float()
    usual = (expected.abs() > 1e-37) | ~expected.isfinite()  # numbers below may be 0
    torch.testing.assert_close(actual[usual], expected[usual], rtol=4e-7, atol=0, equal_nan=True)
    assert (actual[~usual].abs() <= 1e-37).all()


@pytest.mark.parametrize("width", [2, 16, 33, 700])
def test_means_are_over_all_units_and_arguments(width):
    x, y = torch.randn(5, width), torch.randn(5, width)
    expected = torch.cat([x, y], 1).double().mean(1, keepdim=True).float()
    torch.testing.assert_close(applied("mean", x, y), expected, rtol=1e-5, atol=1e-6)


def test_expanded_gradients_and_inputs_with_strides_are_read(monkeypatch):
    torch.manual_seed(3)
    cell = BUILT["coupled_lstm"](4, 8)
    wide = torch.randn(4, 7, 3).transpose(0, 2).requires_grad_()  # (3, 7, 4), the features not side by side
    state = cell.initial_state(3, like=wide)

    def gradient(is_native):
        y, _ = walk_written_out(trace_step(cell, cell.inputs(wide), state), None, is_native)
        return torch.autograd.grad(y.sum(), [wide, *cell.parameters()])  # the gradient of y is one expanded number

    for a, b in zip(gradient(True), gradient(False), strict=True):
        torch.testing.assert_close(a, b)


def test_a_user_cell_that_swaps_its_states_is_copied_rightly():
    class Swapping(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent = nn.Linear(8, 8)

        def forward(self, x, state):
            left, right = state
            return right, (right, torch.tanh(x + self.recurrent(left)))

    cell, inputs = Swapping(), torch.randn(3, 7, 8, requires_grad=True)
    state = (torch.randn(3, 8, requires_grad=True), torch.randn(3, 8, requires_grad=True))
    tensors = [inputs, *state, *cell.parameters()]
    expected = with_gradients(*looped(cell, inputs, None, state), None, tensors)
    actual = with_gradients(*walk_written_out(trace_step(cell, inputs, state), None, is_native=True), None, tensors)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
