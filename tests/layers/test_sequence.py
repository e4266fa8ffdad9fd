from threading import Thread

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from clew.core.errors import UserError
from clew.core.state import detach_state, leaves
from clew.core.taps import watching
from clew.core.types import Memory
from clew.inspection.recording import record
from clew.kernels import only_equations
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.cells import GRU, LSTM, Elman
from clew.layers.feedforward import FeedForward
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.recurrent import Recurrent
from clew.layers.sequence import Stack
from clew.models.gpt import GPTConfig, build_gpt
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens
from tests.crossing import quickly

VOCABULARY = 11
TOKENS = torch.randint(VOCABULARY, (3, 7), generator=torch.Generator().manual_seed(0))
MASK = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]


def lstm():
    torch.manual_seed(0)
    cell = {"name": "lstm", "weight_drop": 0.3}
    return build_recurrent(
        RecurrentConfig(cell=cell, dim=6, num_layers=3, dropout=0.4, dropout_kind="locked"), Tokens(VOCABULARY)
    )


def gpt():
    torch.manual_seed(0)
    return build_gpt(GPTConfig(dim=8, num_layers=2, num_heads=2, max_length=16, dropout=0.3), Tokens(VOCABULARY))


def run(body, recompute, mask=None, state=None):
    """Output, state and gradients of one pass with dropout, and the number of tensors saved for the backward pass."""
    body.layers.recompute = recompute
    saved = []
    torch.manual_seed(5)
    with saved_tensors_hooks(lambda x: saved.append(x.numel()) or x, lambda x: x):
        hidden, state = body(TOKENS, mask, state)
    hidden = hidden if mask is None else hidden.masked_fill(~mask[..., None], 0.0)
    loss = hidden.square().sum() + sum(leaf.square().sum() for leaf in leaves(state) if leaf.is_floating_point())
    return [hidden, *leaves(state)], torch.autograd.grad(loss, list(body.parameters()), allow_unused=True), sum(saved)


@pytest.mark.parametrize("make", [lstm, gpt])
@pytest.mark.parametrize("mask", [None, MASK])
def test_recomputed_layers_give_the_same_bits_and_save_less(make, mask):
    body = make()
    values, gradients, num_saved = run(body, False, mask)
    recomputed_values, recomputed, num_saved_recomputed = run(body, True, mask)
    assert all(torch.equal(a, b) for a, b in zip(values, recomputed_values, strict=True))
    for (name, _), one, two in zip(body.named_parameters(), gradients, recomputed, strict=True):
        assert (one is None and two is None) or torch.equal(one, two), name
    assert num_saved_recomputed < num_saved / 3


def test_a_carried_state_works_with_recomputation():
    body = lstm()
    state = detach_state(body(TOKENS)[1])
    values, gradients, _ = run(body, False, state=state)
    recomputed_values, recomputed, _ = run(body, True, state=state)
    assert all(torch.equal(a, b) for a, b in zip(values, recomputed_values, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(gradients, recomputed, strict=True))


@pytest.mark.parametrize("make", [lstm, gpt])
def test_evaluation_and_inference_run_once(make):
    body = make()
    body.layers.recompute = True
    calls = []
    body.layers.layers[0].register_forward_pre_hook(lambda *_: calls.append(1))
    body.eval()(TOKENS)[0].sum().backward()
    with torch.no_grad():
        body.train()(TOKENS)
    assert len(calls) == 2
    body(TOKENS)[0].sum().backward()
    assert len(calls) == 4, "a training pass runs a layer twice"


def test_a_recomputed_layer_is_recorded_once():
    body = lstm()
    body.layers.recompute = True
    with record(body, "layers.layers.1", "layers.layers.1.layer.cell.gates.forget") as recorded:
        hidden, _ = body(TOKENS)
        hidden.sum().backward()
    assert all(len(recorded.calls(path)) == 1 for path in recorded)
    values = []
    with watching({body.layers.layers[2].layer.cell.hidden: values.append}):
        body(TOKENS)[0].sum().backward()
    assert len(values) == 1


def test_recomputation_repeats_the_equation_in_any_thread():
    body = lstm()
    body.layers.recompute = True
    parameters = list(body.parameters())
    with only_equations():
        torch.manual_seed(5)
        loss = body(TOKENS)[0].square().sum()
    gradients = []
    thread = Thread(target=lambda: gradients.extend(torch.autograd.grad(loss, parameters)))
    thread.start()
    thread.join()
    body.layers.recompute = False
    with only_equations():
        torch.manual_seed(5)
        expected = torch.autograd.grad(body(TOKENS)[0].square().sum(), parameters)
    assert all(torch.equal(one, two) for one, two in zip(gradients, expected, strict=True))


def test_gradients_reach_the_state():
    stack = Stack([CrossAttention(4, 2), CrossAttention(4, 2)])
    x, values = torch.randn(2, 3, 4), torch.randn(2, 5, 4, requires_grad=True)

    def gradient(recompute):
        stack.recompute = recompute
        y, _ = stack(x, None, stack.initial_state(2, Memory(values), like=x))
        return torch.autograd.grad(y.square().sum(), values)[0]

    assert bool(gradient(False).any()) and torch.equal(gradient(True), gradient(False))


@pytest.mark.slow
@pytest.mark.parametrize("make", quickly([lstm, gpt], gpt))
def test_a_compiled_stack_can_be_recomputed(make):
    torch._dynamo.reset()
    body = make()
    for part in body.modules():  # compiled code samples dropout differently
        for name in ("p", "dropout", "weight_drop"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    expected, gradients, _ = run(body, False)
    body.layers.recompute = True
    hidden, state = torch.compile(body, backend="aot_eager")(TOKENS)
    torch.testing.assert_close(hidden, expected[0])
    loss = hidden.square().sum() + sum(leaf.square().sum() for leaf in leaves(state) if leaf.is_floating_point())
    for actual, one in zip(
        torch.autograd.grad(loss, list(body.parameters()), allow_unused=True), gradients, strict=True
    ):
        assert one is None or torch.testing.assert_close(actual, one) is None


def test_each_layer_of_a_stack_starts_from_its_own_part_of_a_memorys_final_state():
    stack = Stack([Recurrent(LSTM(2, 3)), Recurrent(GRU(3, 4)), FeedForward(4), Recurrent(Elman(4, 3))])
    parts = [torch.full((2, width), float(number)) for number, width in enumerate([3, 3, 4])]
    state = stack.initial_state(2, Memory(None, None, (LSTMState(parts[0], parts[1]), parts[2])), like=torch.zeros(1))
    assert torch.equal(state[0].cell.cell, parts[1]) and torch.equal(state[1].cell, parts[2])
    assert state[2] is None and not state[3].cell.any()
    with pytest.raises(
        UserError,
        match="a memory's final state has a part for each of the first layers, but here are 5 parts for 4 layers",
    ):
        stack.initial_state(2, Memory(None, None, (None,) * 5), like=torch.zeros(1))
