"""Layers converted from torch.nn agree with the originals: values, gradients, masks, states and names."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import clew
from clew.core.errors import UserError
from clew.core.types import Memory
from clew.interop.from_torch import accept_torch_names
from clew.layers.attention import SelfAttention
from clew.layers.cells import GRU, LSTM
from clew.layers.recurrent import Recurrent
from clew.layers.sequence import Stack
from clew.models.recurrent import RecurrentConfig, build_recurrent
from clew.sources.tokens import Tokens
from tests.references.agreement import randn, randomise

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # a warning whenever such a module is built

RECURRENT = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "RNN": nn.RNN,
    "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}
LENGTHS = torch.tensor([6, 2, 4])
MASK = torch.arange(6) < LENGTHS[:, None]
SHAPES: dict[str, dict[str, Any]] = {
    "one layer": {},
    "three layers": {"num_layers": 3},
    "both ways": {"num_layers": 2, "bidirectional": True},
    "without bias": {"num_layers": 2, "bias": False, "bidirectional": True},
    "with dropout": {"num_layers": 3, "dropout": 0.4},
}


def packed(theirs: Any, x: Tensor) -> tuple[Tensor, Any]:
    """The output of torch for rows of unequal length."""
    rows = nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    y, state = theirs(rows)
    return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0], state


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", RECURRENT)
def test_a_recurrence_matches_torch_in_values_and_gradients(kind: str, shape: str) -> None:
    theirs: Any = randomise(RECURRENT[kind](3, 4, batch_first=True, **SHAPES[shape])).eval()
    ours: Any = clew.from_torch(theirs)
    assert not ours.training
    mine, other = (randn(3, 6, 3, seed=1).requires_grad_() for _ in range(2))
    y, _ = ours(mine, MASK)
    expected, _ = packed(theirs, other)
    torch.testing.assert_close(y[MASK], expected[MASK])
    weights = randn(*expected[MASK].shape, seed=2)
    (y[MASK] * weights).sum().backward()
    (expected[MASK] * weights).sum().backward()
    torch.testing.assert_close(mine.grad, other.grad)
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert {name for name, gradient in gradients.items() if gradient is None} == {
        name for name in gradients if name.endswith("bias") and not theirs.bias
    }
    for number, layer in enumerate(ours.layers):
        layer = getattr(layer, "layer", layer)
        directions = (
            {"": layer} if not theirs.bidirectional else {"": layer.forward_layer, "_reverse": layer.backward_layer}
        )
        for suffix, direction in directions.items():
            torch.testing.assert_close(
                direction.cell.input_weight.grad, getattr(theirs, f"weight_ih_l{number}{suffix}").grad
            )
            torch.testing.assert_close(
                direction.cell.hidden_weight.grad, getattr(theirs, f"weight_hh_l{number}{suffix}").grad
            )
            if theirs.bias:
                torch.testing.assert_close(direction.cell.bias.grad, getattr(theirs, f"bias_ih_l{number}{suffix}").grad)


def test_batch_first_makes_no_difference() -> None:
    first: Any = randomise(nn.GRU(3, 4, batch_first=True))
    second: Any = nn.GRU(3, 4).double()
    second.load_state_dict(first.state_dict())
    x = randn(2, 5, 3)
    torch.testing.assert_close(clew.from_torch(second)(x)[0], first(x)[0])
    torch.testing.assert_close(clew.from_torch(second)(x)[0], second(x.transpose(0, 1))[0].transpose(0, 1))


def test_a_projection_is_converted() -> None:
    theirs: Any = randomise(nn.LSTM(3, 6, num_layers=2, proj_size=2, bidirectional=True, batch_first=True))
    x = randn(3, 6, 3)
    torch.testing.assert_close(clew.from_torch(theirs)(x, MASK)[0][MASK], packed(theirs, x)[0][MASK])


def test_dropout_is_only_between_layers() -> None:
    ours: Any = clew.from_torch(nn.LSTM(3, 4, num_layers=3, dropout=0.4))
    assert ours.training and [getattr(getattr(layer, "dropout", None), "p", None) for layer in ours.layers] == [
        0.4,
        0.4,
        None,
    ]


def test_initial_and_carried_states_match_torch() -> None:
    theirs: Any = randomise(nn.LSTM(3, 4, num_layers=2, batch_first=True))
    ours, x = clew.from_torch(theirs), randn(2, 6, 3)
    hidden, cell = randn(2, 2, 4, seed=3), randn(2, 2, 4, seed=4)
    initial = ours.initial_state(2, Memory(x, None, tuple(zip(hidden, cell, strict=True))), like=x)
    first, state = ours(x[:, :4], None, initial)
    second, state = ours(x[:, 4:], None, state)
    expected, (last_hidden, last_cell) = theirs(x, (hidden, cell))
    torch.testing.assert_close(torch.cat([first, second], 1), expected)
    for number, layer in enumerate(state):
        torch.testing.assert_close(layer.cell.hidden, last_hidden[number])
        torch.testing.assert_close(layer.cell.cell, last_cell[number])


HALVES: dict[str, dict[str, Any]] = {
    "as published": {},
    "norm first": {"norm_first": True},
    "gelu, without bias": {"activation": "gelu", "bias": False, "layer_norm_eps": 1e-3},
    "a module for an activation": {"activation": nn.GELU(approximate="tanh"), "norm_first": True},
}


def settings_of(case: str, **more: Any) -> dict[str, Any]:
    return {
        "d_model": 8,
        "nhead": 2,
        "dim_feedforward": 12,
        "dropout": 0.0,
        "batch_first": True,
        **HALVES[case],
        **more,
    }


def encoder_of(case: str, *, norm: bool = True) -> Any:
    layer = nn.TransformerEncoderLayer(**settings_of(case))
    return randomise(nn.TransformerEncoder(layer, 2, nn.LayerNorm(8) if norm else None, enable_nested_tensor=False))


def check_gradients(pairs: list[tuple[Tensor, Tensor]], mine: nn.Module, theirs: nn.Module, weights: Tensor) -> None:
    """Compare the gradients of the inputs and of every parameter."""
    (y, expected), *inputs = pairs
    torch.testing.assert_close(y, expected)
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    for one, other in inputs:
        torch.testing.assert_close(one.grad, other.grad)
    copied = copy.deepcopy(mine)
    copied.load_state_dict({name: parameter.grad for name, parameter in theirs.named_parameters()})
    gradients = dict(copied.named_parameters())
    assert gradients
    for name, parameter in mine.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name].detach())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("case", HALVES)
def test_an_encoder_matches_torch_in_values_and_gradients(case: str, norm: bool, causal: bool) -> None:
    theirs = encoder_of(case, norm=norm)
    ours: Any = clew.from_torch(theirs, causal=causal)
    one, other = (randn(3, 6, 8, seed=1).requires_grad_() for _ in range(2))
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None
    y, expected = ours(one, MASK)[0][MASK], theirs(other, mask=mask, src_key_padding_mask=~MASK)[MASK]
    check_gradients([(y, expected), (one, other)], ours, theirs, randn(*y.shape, seed=2))


@pytest.mark.parametrize("case", HALVES)
def test_a_decoder_matches_torch_in_values_and_gradients(case: str) -> None:
    theirs = randomise(nn.TransformerDecoder(nn.TransformerDecoderLayer(**settings_of(case)), 2, nn.LayerNorm(8)))
    ours: Any = clew.from_torch(theirs)
    (x, memory), (other, their_memory) = (
        (randn(3, 5, 8, seed=1).requires_grad_(), randn(3, 6, 8, seed=2).requires_grad_()) for _ in "12"
    )
    mask = torch.arange(5) < torch.tensor([5, 3, 1])[:, None]
    y = ours(x, mask, ours.initial_state(3, Memory(memory, MASK), like=x))[0][mask]
    expected = theirs(
        other,
        their_memory,
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=~mask,
        memory_key_padding_mask=~MASK,
    )[mask]
    check_gradients([(y, expected), (x, other), (memory, their_memory)], ours, theirs, randn(*y.shape, seed=3))


@pytest.mark.parametrize("case", ["as published", "norm first"])
def test_a_transformer_matches_torch_at_once_and_step_by_step(case: str) -> None:
    theirs: Any = randomise(nn.Transformer(num_encoder_layers=1, num_decoder_layers=2, **settings_of(case)))
    ours: Any = clew.from_torch(theirs)
    source, target = randn(3, 6, 8, seed=1), randn(3, 5, 8, seed=2)
    mask = torch.arange(5) < torch.tensor([5, 3, 1])[:, None]
    y = ours(target, mask, ours.initial_state(3, ours.encode(source, MASK)))[0][mask]
    expected = theirs(
        source,
        target,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64),
        src_key_padding_mask=~MASK,
        memory_key_padding_mask=~MASK,
        tgt_is_causal=True,
    )[mask]
    check_gradients([(y, expected)], ours, theirs, randn(*y.shape, seed=3))
    state, steps = ours.initial_state(3, ours.encode(source, MASK)), []
    for place in range(5):
        step, state = ours(target[:, place : place + 1], None, state)
        steps.append(step)
    torch.testing.assert_close(torch.cat(steps, 1)[mask], expected)


def test_dropouts_are_converted() -> None:
    ours: Any = clew.from_torch(
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, dropout=0.3), 1, enable_nested_tensor=False)
    )
    attention, network = ours.layers
    assert ours.training and (attention.dropout.p, attention.layer.attention.dropout) == (0.3, 0.3)
    assert (network.dropout.p, network.layer.dropout.p) == (0.3, 0.3)


def test_weights_with_torch_names_are_loaded_and_wrong_ones_named() -> None:
    theirs: Any = randomise(nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True), seed=1)
    ours: Any = clew.from_torch(nn.GRU(3, 4, num_layers=2, bidirectional=True).double())
    x = randn(2, 5, 3)
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours(x)[0], theirs(x)[0])
    again: Any = clew.from_torch(nn.GRU(3, 4, num_layers=2, bidirectional=True).double())
    again.load_state_dict(ours.state_dict())  # its own names are accepted too
    torch.testing.assert_close(again(x)[0], theirs(x)[0])
    short = {name: tensor for name, tensor in theirs.state_dict().items() if "_l1_reverse" not in name}
    with pytest.raises(RuntimeError, match=r"Missing key.*layers.1.backward_layer.cell.input_weight"):
        ours.load_state_dict(short)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*weight_ih_l2"):
        ours.load_state_dict({**theirs.state_dict(), "weight_ih_l2": torch.zeros(1)})
    with pytest.raises(RuntimeError, match="size mismatch for layers.0.forward_layer.cell.input_weight"):
        ours.load_state_dict(nn.GRU(5, 4, num_layers=2, bidirectional=True).state_dict())


def test_a_converted_submodule_loads_an_old_checkpoint() -> None:
    class Tagger(nn.Module):
        def __init__(self, reader: nn.Module):
            super().__init__()
            self.reader = reader
            self.output = nn.Linear(8, 2)

    old = randomise(Tagger(nn.LSTM(3, 4, bidirectional=True, batch_first=True)))
    new = Tagger(clew.from_torch(nn.LSTM(3, 4, bidirectional=True))).double()
    for module in (new, copy.deepcopy(new), pickle.loads(pickle.dumps(new.reader))):
        loaded = old if isinstance(module, Tagger) or hasattr(module, "output") else old.reader
        module.load_state_dict(loaded.state_dict())
        reader: Any = getattr(module, "reader", module)
        x = randn(2, 5, 3)
        torch.testing.assert_close(reader(x)[0], old.reader(x)[0])


def test_layers_of_a_body_load_torch_weights() -> None:
    theirs: Any = randomise(nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True))
    body = (
        build_recurrent(
            RecurrentConfig(dim=8, embedding_dim=6, num_layers=2, bidirectional=True, dropout=0.2), Tokens(9)
        )
        .double()
        .eval()
    )
    accept_torch_names(body.layers)
    body.layers.load_state_dict(theirs.state_dict())
    tokens = torch.randint(9, (3, 6))
    torch.testing.assert_close(body(tokens, MASK)[0][MASK], packed(theirs, body.embedding.weight[tokens])[0][MASK])


def test_unsupported_modules_are_rejected_in_one_sentence() -> None:
    class Mine(nn.TransformerEncoderLayer):
        """A user-defined layer."""

    layer = nn.TransformerEncoderLayer(8, 2, 12)
    biased = nn.TransformerEncoderLayer(8, 2, 12)
    biased.self_attn = nn.MultiheadAttention(8, 2, add_bias_kv=True)
    faults: dict[str, nn.Module] = {
        "clew has no attention layer with add_bias_kv, add_zero_attn, kdim or vdim; build the layer without them": (
            nn.TransformerEncoder(biased, 1, enable_nested_tensor=False)
        ),
        "from_torch does not know Linear; known: RNN, LSTM, GRU, TransformerEncoder"
        ".*; convert the parts of any other module": nn.Linear(2, 2),
        "the layer Mine is not known; known: TransformerEncoderLayer": nn.TransformerEncoder(Mine(8, 2), 1),
        "the activation sigmoid of a Transformer's layer is not known; known: relu, gelu, silu, tanh": (
            nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, activation=torch.sigmoid), 1)
        ),
        "the last norm of a TransformerEncoder is a RMSNorm; known: LayerNorm": nn.TransformerEncoder(
            layer, 1, nn.RMSNorm(8), enable_nested_tensor=False
        ),
        "a Transformer of Linear and TransformerDecoder is not supported; its halves must be": nn.Transformer(
            8, 2, custom_encoder=nn.Linear(1, 1)
        ),
    }
    for sentence, module in faults.items():
        with pytest.raises(UserError, match=sentence):
            clew.from_torch(module)  # type: ignore[call-overload]
    with pytest.raises(
        UserError,
        match="causal applies to a TransformerEncoder only, and this is a LSTM"
        ".*, which has its own direction; leave causal out",
    ):
        clew.from_torch(nn.LSTM(2, 2), causal=True)
    before = Stack([Recurrent(GRU(2, 2, reset="before"))])
    accept_torch_names(before)
    with pytest.raises(
        UserError,
        match="torch's GRU resets after the product with the hidden weights, and this one before it; build it with"
        " reset=after",
    ):
        before.load_state_dict(nn.GRU(2, 2).state_dict())
    with pytest.raises(
        UserError,
        match="SelfAttention cannot load weights under torch's names"
        "; stacks of LSTM, GRU and Elman cells can, and results of from_torch",
    ):
        accept_torch_names(SelfAttention(8, 2))
    ours: Any = clew.from_torch(nn.Transformer(8, 2, 1, 1, 12))
    with pytest.raises(UserError, match="a Transformer decodes from a source; pass it the state"):
        ours(torch.zeros(1, 2, 8))
    with pytest.raises(UserError, match="pass initial_state a memory"):
        ours.initial_state(1)


def test_conversion_copies_the_weights() -> None:
    theirs: Any = nn.LSTM(2, 3)
    ours: Any = clew.from_torch(theirs)
    assert isinstance(ours, Stack) and isinstance(ours.layers[0], Recurrent) and isinstance(ours.layers[0].cell, LSTM)
    before = theirs.weight_ih_l0.detach().clone()
    with torch.no_grad():
        ours.layers[0].cell.input_weight.zero_()
    assert torch.equal(theirs.weight_ih_l0, before)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_frozen_weights_stay_frozen(kind: type[nn.RNNBase]) -> None:
    module = kind(3, 4, num_layers=2, bidirectional=True)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_("_l1" in name and "weight" in name)
    for name, parameter in clew.from_torch(module).named_parameters():
        assert parameter.requires_grad == (name.startswith("layers.1.") and name.endswith("weight")), name
    assert not any(
        each.requires_grad
        for name, each in clew.from_torch(kind(3, 4, bias=False)).named_parameters()
        if name.endswith("bias")
    )
