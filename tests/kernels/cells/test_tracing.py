"""Traced steps against the cells they were traced from, in float64, and the derivatives of their graphs against
autograd."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from clew.core.state import leaves, map_tree
from clew.core.taps import watching
from clew.core.types import Memory
from clew.kernels.cells.expressions import errors_of
from clew.kernels.cells.tracing import Refused, Step, trace_step
from clew.layers.cells import CELLS
from clew.layers.recurrence.nested_cells import DroppedCell, StackedCell
from clew.layers.recurrent import unbind_steps
from tests.kernels.cells.built import BUILT
from tests.kernels.cells.own_cells import OWN, Leaky
from tests.references.expressions import evaluate

BATCH, LENGTH, DIM, AT = 3, 4, 6, 2


def drawn(build, input_dim: int = 5, dim: int = DIM):
    """A cell, its inputs of a chunk, and a state; x where gradients go."""
    torch.manual_seed(5)
    cell = build(input_dim, dim).double()
    x = torch.randn(BATCH, LENGTH, cell.input_dim, dtype=torch.double, requires_grad=True)
    state = map_tree(lambda leaf: torch.randn_like(leaf).requires_grad_(), cell.initial_state(BATCH, like=x))
    return cell, x, cell.inputs(x), state


def traced(cell, inputs, state) -> Step:
    with torch.no_grad():
        trace_step(cell, inputs, state)  # without gradients there are as many nodes
    return trace_step(cell, inputs, state)


def leaf_values(step: Step, at: int) -> dict:
    """What a step's leaves are at a position."""
    graph, values = step.graph, {}
    blocks = torch.cat([each[:, at] for each in step.inputs], -1).split(step.width, -1) if step.inputs else []
    products = [F.linear(step.states[m.state], m.weight) for m in step.matrices]
    blocks_of_products = torch.cat(products, -1).split(step.width, -1) if products else []
    for kind, tensors in (
        ("input", blocks),
        ("product", blocks_of_products),
        ("fixed", step.fixed),
        ("state", step.states),
    ):
        values |= {graph.leaf(kind, place): tensor for place, tensor in enumerate(tensors)}
    return values


def numbers(values: dict) -> dict:
    return {node: np.atleast_2d(tensor.detach().numpy()) for node, tensor in values.items()}


@pytest.mark.parametrize("name", BUILT)
def test_the_graph_gives_what_the_cell_gives(name):
    cell, _, inputs, state = drawn(BUILT[name])
    step = traced(cell, inputs, state)
    y, new = cell(unbind_steps(inputs, LENGTH)[AT], state)
    expected = [y, *leaves(new)]
    actual = evaluate([step.output, *step.new_states], numbers(leaf_values(step, AT)))
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12, atol=1e-12)
    rebuilt = step.rebuild(leaves(new))
    assert type(rebuilt) is type(new) and all(a is b for a, b in zip(leaves(rebuilt), leaves(new), strict=True))


@pytest.mark.parametrize("name", BUILT)
def test_the_derived_backward_pass_is_that_of_autograd(name):
    cell, x, inputs, state = drawn(BUILT[name])
    step = traced(cell, inputs, state)
    y, new = cell(unbind_steps(inputs, LENGTH)[AT], state)
    outputs = [y, *leaves(new)]
    weights = [torch.randn_like(each) for each in outputs]
    tensors = [x, *leaves(state), *cell.parameters()]
    expected = torch.autograd.grad(outputs, tensors, weights, retain_graph=True, allow_unused=True)

    graph, values = step.graph, leaf_values(step, AT)
    error_leaves = [graph.leaf("error", place) for place in range(len(weights))]
    errors = errors_of(graph, list(zip([step.output, *step.new_states], error_leaves, strict=True)))
    reached = [leaf for leaf in values if leaf in errors and values[leaf].requires_grad]
    all_values = numbers(values) | numbers(dict(zip(error_leaves, weights, strict=True)))
    leaf_errors = [torch.tensor(each) for each in evaluate([errors[leaf] for leaf in reached], all_values)]
    leaf_errors = [each.sum_to_size(values[leaf].shape) for each, leaf in zip(leaf_errors, reached, strict=True)]
    actual = torch.autograd.grad([values[leaf] for leaf in reached], tensors, leaf_errors, allow_unused=True)
    for a, b, tensor in zip(actual, expected, tensors, strict=True):
        torch.testing.assert_close(
            torch.zeros_like(tensor) if a is None else a, torch.zeros_like(tensor) if b is None else b
        )


def test_inputs_that_a_step_projects_are_projected_for_all_steps_at_once():
    cell, x, inputs, state = drawn(OWN["Joined"])
    step = traced(cell, inputs, state)
    (projected,) = step.inputs
    torch.testing.assert_close(projected, F.linear(x, cell.both.weight[:, :5], cell.both.bias))
    assert [tuple(matrix.weight.shape) for matrix in step.matrices] == [(2 * DIM, DIM)]


def test_steps_of_one_structure_have_one_signature_and_others_another():
    def signature(build, dim=DIM):
        cell, _, inputs, state = drawn(build, dim=dim)
        return traced(cell, inputs, state).signature

    signatures = {name: signature(build) for name, build in BUILT.items()}
    assert signatures["lstm"] == signature(BUILT["lstm"], dim=4) == signatures["resting dropout"]
    same = {"lstm", "resting dropout"}
    assert len(set(signatures.values())) == len(signatures) - len(same) + 1
    assert signature(partial(Leaky, leak=0.5)) == signatures["Leaky"]


def test_the_same_tensor_is_the_same_leaf_whatever_its_shape():
    scale, bias = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.randn(1, 2))

    def step(x, state):
        y = x * scale + bias + (state - bias) * scale
        return y, y

    traced_step = trace_step(step, torch.randn(3, 4, 2), torch.zeros(3, 2))
    assert [tuple(each.shape) for each in traced_step.fixed] == [(2,), (2,)]
    assert all(each.requires_grad for each in traced_step.fixed)


class Effects(nn.Module):
    """A cell's step with something that a trace must not do, or not know."""

    def __init__(self, does):
        super().__init__()
        self.does = does
        self.weight = nn.Parameter(torch.randn(2, 2))
        self.register_buffer("seen", torch.zeros(2))
        self.list = []

    def forward(self, x, state):
        y = self.does(self, torch.tanh(x + F.linear(state, self.weight)))
        return y, y


def swallowing(self, y):
    try:
        return y.softmax(-1)
    except Exception:
        return y * 2


def without_gradients(self, y):
    with torch.no_grad():
        return y * 2


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, error):
        return error


REFUSALS = [
    (lambda self, y: y.softmax(-1), "it calls softmax, which is not supported"),
    (swallowing, "it calls softmax, which is not supported"),
    (
        lambda self, y: y if (y > 0) else -y,
        "it reads the value of a number (__bool__), which is only known when the step runs",
    ),
    (lambda self, y: y * y.item(), "it reads the value of a number (item), which is only known when the step runs"),
    (
        lambda self, y: y * float(y),
        "it reads the value of a number (__float__), which is only known when the step runs",
    ),
    (
        lambda self, y: y if y.grad_fn else -y,
        "it reads the attribute 'grad_fn' of a value that is only known when the step runs",
    ),
    (lambda self, y: y.add_(1), "it writes to a tensor in place (add_)"),
    (lambda self, y: F.relu(y, inplace=True), "it writes to a tensor in place"),
    (lambda self, y: y + self.seen.add_(1), "it writes to a tensor in place (add_)"),
    (lambda self, y: F.dropout(y, 0.5), "it draws random numbers in every step (dropout)"),
    (lambda self, y: y * torch.rand(2), "it draws random numbers in every step (rand)"),
    (lambda self, y: y * torch.bernoulli(torch.full((3, 2), 0.5)), "it draws random numbers in every step (bernoulli)"),
    (without_gradients, "it calls mul with gradients switched off inside the step"),
    (lambda self, y: Straight.apply(y), "it calls mul with gradients switched off inside the step"),
    (lambda self, y: y.detach(), "it calls detach, which is not supported"),
    (
        lambda self, y: y @ self.weight,
        "it multiplies the result of tanh by a matrix; only the state before the step and the inputs can be",
    ),
    (lambda self, y: torch.matmul(y, y), "it multiplies two values that are only known when the step runs"),
    (lambda self, y: y**2.5, "it raises to the power 2.5; -2, -1, -0.5, 0.5, 1, 2, 3 and 4 are supported"),
    (lambda self, y: torch.cat([y[:, :1], y[:, 1:]], -1), "it cuts 0 to 1 out of a block of 2 features"),
    (lambda self, y: y.chunk(2), "it splits or concatenates tensors along the batch"),
    (
        lambda self, y: y + torch.ones(2).double(),
        "it computes with a tensor of type float64, while its state has type float32",
    ),
    (lambda self, y: y * ((y > 0) + (y < 1)), "it applies add to booleans only, which are no numbers"),
    (lambda self, y: y + (y > 0) * (y < 1) * True, "it applies multiply to booleans only, which are no numbers"),
    (lambda self, y: y.double(), "it converts a tensor to float64"),
    (lambda self, y: y + torch.ones(4), "it combines a tensor of shape (4,) with one of shape (3, 2)"),
    (lambda self, y: torch.cat([y, y], 1), "its output ((3, 4)) does not have the shape of its states (3, 2)"),
    (
        lambda self, y: y - y.mean(0),
        "it reduces a tensor other than over all features of a row with keepdim=True",
    ),
    (lambda self, y: y[:, None], "it indexes a tensor other than by a slice of its features"),
    (lambda self, y: setattr(self, "last", y) or y, "it sets the attribute 'last' in every step"),
    (lambda self, y: setattr(self, "seen", self.seen + 1) or y, "it sets the attribute 'seen' in every step"),
    (lambda self, y: self.list.append(y) or y, "it keeps values of a step"),
    (lambda self, y: y * self.missing, "AttributeError: 'Effects' object has no attribute 'missing'"),
]


def refusal_of(step, inputs, state) -> str:
    with pytest.raises(Refused) as refusal:
        trace_step(step, inputs, state)
    return str(refusal.value)


@pytest.mark.parametrize(("does", "reason"), REFUSALS)
def test_what_has_no_graph_is_refused_with_the_reason_and_leaves_no_trace(does, reason):
    cell, x, state = Effects(does), torch.randn(3, 4, 2), torch.zeros(3, 2)
    attributes, buffers, random = dict(vars(cell)), dict(cell._buffers), torch.get_rng_state()
    assert refusal_of(cell, x, state) == reason
    assert vars(cell) == attributes and cell._buffers == buffers and not cell.seen.any()
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            partial(CELLS["gru"], reset="before"),
            "it multiplies the result of multiply by a matrix; only the state before the step and the inputs can be",
        ),
        (
            CELLS["projected_lstm"],
            "its states have the shapes (3, 6), (3, 24), but all states must have the same shape (batch, width)",
        ),
        (
            partial(CELLS["projected_lstm"], hidden_dim=DIM, cell_clip=0.5),
            "it multiplies the result of multiply by a matrix; only the state before the step and the inputs can be",
        ),
        (
            lambda input_dim, dim: StackedCell([CELLS["elman"](input_dim, dim), CELLS["elman"](dim, dim)]),
            "it indexes a tensor other than by a slice of its features",
        ),
        (
            lambda input_dim, dim: DroppedCell(CELLS["elman"](input_dim, dim), 0.5),
            "it draws random numbers in every step (dropout)",
        ),
    ],
)
def test_cells_that_have_no_graph_are_refused_with_the_reason(build, reason):
    cell, _, inputs, state = drawn(build)
    assert refusal_of(cell, inputs, state) == reason


def test_states_and_inputs_without_one_width_are_refused_with_the_reason():
    def step(x, state):
        return x + state, x + state

    x, state = torch.randn(3, 4, 2), torch.zeros(3, 2)
    assert refusal_of(step, x, None) == "it has no state"
    assert refusal_of(step, x, (state, Memory(x))) == "it reads a memory"
    assert (
        refusal_of(step, x, torch.zeros(3, 2, 2))
        == "its states have the shapes (3, 2, 2), but all states must have the same shape (batch, width)"
    )
    assert refusal_of(step, x, state.long()) == "a state does not hold floating-point numbers"
    assert (
        refusal_of(step, x[:, :, 0], state)
        == "an input of shape (3, 4) and type float32 is not (batch, length, features) of numbers"
    )
    assert refusal_of(step, torch.randn(3, 4, 3), state) == (
        "it computes with 3 features of its inputs, which is not a multiple of the state's 2"
    )


def test_a_step_under_a_function_mode_or_with_a_hook_is_refused_with_the_reason():
    cell, _, inputs, state = drawn(Leaky)
    with torch.device("cpu"):
        assert refusal_of(cell, inputs, state) == "a torch function mode is active"
    handle = cell.recurrent.register_forward_hook(lambda *_: None)
    assert refusal_of(cell, inputs, state) == "a hook is registered on its Linear"
    handle.remove()
    trace_step(cell, inputs, state)


def test_taps_pass_symbols_through_unless_they_are_watched():
    cell, _, inputs, state = drawn(CELLS["lstm"])
    seen = []
    with watching({nn.Identity(): seen.append}):
        trace_step(cell, inputs, state)
    with watching({cell.gates.forget: seen.append}):
        assert refusal_of(cell, inputs, state) == "it keeps values of a step"
