import copy
from typing import Any

import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.inspection.recording import record
from clew.kernels import quantised_products
from clew.kernels.quantised_weight import QuantisedWeight
from clew.layers.adapters import adapt
from clew.layers.attention import SelfAttention
from clew.layers.cells import CELLS
from clew.layers.losses.crf import CRF
from clew.layers.precision import PRECISIONS, is_quantised, num_bytes, quantise
from clew.layers.recurrent import Recurrent
from clew.models import MODELS
from clew.sources.tokens import Tokens

VOCABULARY = 96
WIDE: dict[str, dict[str, Any]] = {
    "recurrent": {"dim": 64, "num_layers": 2, "embedding_dim": 64},
    "window": {"dim": 64, "embedding_dim": 64, "width": 3},
    "gpt": {"dim": 64, "num_layers": 2, "num_heads": 2, "max_length": 32},
    "llama": {"dim": 64, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2},
    "bert": {"dim": 64, "num_layers": 2, "num_heads": 2, "max_length": 32},
    "bag": {"dim": 64},
    "cnn": {"dim": 64, "embedding_dim": 64, "widths": [1, 3]},
    "elmo": {"dim": 64, "num_layers": 2},
    "mixed": {"dim": 64, "layers": ["lstm", "attention", "convolution", "feedforward"]},
}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "transformer": {"dim": 64, "num_heads": 2, "num_layers": 2, "hidden_dim": 128, "max_length": 32},
    "seq2seq": {"dim": 64, "embedding_dim": 64},
    "convolutional": {"dim": 64, "embedding_dim": 64, "num_layers": 2, "max_length": 32},
}
FAMILIES = pytest.mark.parametrize("family", [*WIDE, *TRANSLATORS])


def build(family: str) -> Any:
    torch.manual_seed(1)
    member = MODELS[family]
    if family in WIDE:
        return member.build(member.config(**WIDE[family]), Tokens(VOCABULARY)).eval()
    return member.build(member.config(**TRANSLATORS[family]), Tokens(VOCABULARY), Tokens(VOCABULARY)).eval()


def read(body: Any, family: str) -> torch.Tensor:
    """The body's vectors for two rows, one of them padded; for an encoder-decoder, those of its targets."""
    tokens = torch.arange(14).reshape(2, 7) * 5
    mask = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    with torch.no_grad():
        state = body.initial_state(2, body.encode(tokens, mask)) if family in TRANSLATORS else None
        hidden: torch.Tensor = body(tokens, None if family in TRANSLATORS else mask, state)[0]
    return hidden[mask]


def with_rounded_weights(body: nn.Module) -> nn.Module:
    """The same body with its quantised parameters converted back to floats."""
    whole = copy.deepcopy(body)
    for part in whole.modules():
        for name, parameter in part._parameters.items():
            if isinstance(parameter, QuantisedWeight):
                part._parameters[name] = nn.Parameter(parameter.integers.floats(torch.float32))
    return whole


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


@FAMILIES
@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_every_family_equals_itself_with_rounded_weights(family, precision, monkeypatch):
    monkeypatch.setattr(quantised_products, "multiplies_integers", lambda device: False)
    body = quantise(build(family), precision)
    assert is_quantised(body)
    torch.testing.assert_close(read(body, family), read(with_rounded_weights(body), family), rtol=1e-4, atol=1e-5)


@FAMILIES
def test_every_family_is_more_accurate_in_int8_than_in_int4(family):
    """A step of int8 is a sixteenth of one of int4; rounding x to 8 bits, in both, hides only part of it."""
    whole = read(build(family), family)
    near, coarse = (
        relative_error(read(quantise(build(family), precision), family), whole) for precision in ("int8", "int4")
    )
    assert 0 < near < coarse / 4


@FAMILIES
def test_memory_decreases_by_the_size_of_the_matrices(family):
    body = build(family)
    names = {name: parameter.numel() for name, parameter in body.named_parameters()}
    sizes = {precision: num_bytes(quantise(build(family), precision)) for precision in PRECISIONS}
    quantised = quantise(build(family), "int8")
    matrices = {
        name: parameter for name, parameter in quantised.named_parameters() if isinstance(parameter, QuantisedWeight)
    }
    assert (
        names.keys() == dict(quantised.named_parameters()).keys()
        and body.state_dict().keys() == quantised.state_dict().keys()
    )
    scales = sum(4 * len(parameter) for parameter in matrices.values())
    assert sizes["int8"] == sizes["float32"] - 3 * sum(names[name] for name in matrices) + scales
    assert sizes["int4"] < sizes["int8"] and sizes["bfloat16"] < sizes["float32"]


def test_norms_biases_positions_and_scores_of_tags_stay_float():
    body = nn.ModuleDict({"gpt": build("gpt"), "crf": CRF(32)})
    quantise(body, "int8")
    floats = {name for name, parameter in body.named_parameters() if not isinstance(parameter, QuantisedWeight)}
    assert "gpt.embedding.position.weight" in floats and "crf.transitions" in floats
    assert all(
        body.get_parameter(name).dim() == 1 for name in floats - {"gpt.embedding.position.weight", "crf.transitions"}
    )
    assert isinstance(body.get_parameter("gpt.embedding.tokens.weight"), QuantisedWeight)


def test_no_floats_of_joined_weights_remain():
    layer = quantise(SelfAttention(64, 2), "int8")
    assert isinstance(layer.together.weight, QuantisedWeight)
    assert layer.together.weight.data_ptr() == layer.query.weight.data_ptr()


def test_a_shared_weight_stays_shared():
    first, second = nn.Linear(32, 32), nn.Linear(32, 32)
    second.weight = first.weight
    quantise(nn.ModuleList([first, second]), "int4")
    assert first.weight is second.weight and isinstance(first.weight, QuantisedWeight)


def test_a_width_not_divisible_into_groups_uses_int8():
    layer = quantise(nn.Linear(48, 16), "int4")
    assert repr(layer.weight) == "QuantisedWeight([16, 48], int8)"


def test_small_matrices_stay_float():
    assert not is_quantised(quantise(nn.Linear(64, 15), "int8"))


def test_an_adapter_stays_float_next_to_its_quantised_map():
    body = build("bert")
    adapt(body, "lora")
    whole = read(body, "bert")
    for name, parameter in body.named_parameters():
        if name.endswith("up"):
            nn.init.normal_(parameter, std=0.02)
    moved = read(body, "bert")
    quantise(body, "int8")
    assert not any(
        isinstance(parameter, QuantisedWeight)
        for name, parameter in body.named_parameters()
        if name.endswith(("up", "down"))
    )
    assert relative_error(read(body, "bert"), moved) < relative_error(moved, whole)


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_gives_similar_results_step_by_step_and_at_once(cell):
    torch.manual_seed(2)
    layer = quantise(Recurrent(CELLS[cell](64, 64)), "int8").eval()
    x = torch.randn(2, 5, 64)
    rounded = with_rounded_weights(layer)
    with torch.no_grad():
        whole, _ = rounded(x)
        state, steps = None, []
        for t in range(5):
            y, state = layer(x[:, t : t + 1], None, state)
            steps.append(y)
        actual, _ = layer(x)
    # x and the state are rounded to 127 steps of their largest entry in each product, and five steps follow each other.
    assert relative_error(torch.cat(steps, 1), whole) < 5 * 2 / 127
    assert relative_error(actual, whole) < 5 * 2 / 127


def test_taps_show_the_values_computed_without_recording():
    body = quantise(build("gpt"), "int8")
    tokens = torch.arange(7)[None]
    with torch.no_grad():
        unwatched = body(tokens)[0]
    with record(body, "*weights") as recording, torch.no_grad():
        watched = body(tokens)[0]
    assert recording and relative_error(watched, unwatched) < 1e-4


def test_gradients_reach_the_inputs_of_quantised_layers():
    torch.manual_seed(1)
    layer, x = quantise(SelfAttention(64, 2), "int8"), torch.randn(1, 4, 64)
    whole = with_rounded_weights(layer)
    gradients = []
    for each in (layer, whole):
        inputs = x.clone().requires_grad_()
        each(inputs)[0].square().sum().backward()
        gradients.append(inputs.grad)
    assert relative_error(*gradients) < 2 * 2 / 127  # there are two products in sequence, with rounding between them


def test_unknown_precisions_are_rejected():
    with pytest.raises(UserError, match="unknown precision 'int5'; did you mean"):
        quantise(nn.Linear(2, 2), "int5")


def test_float32_leaves_a_module_unchanged():
    layer = nn.Linear(32, 32)
    weight = layer.weight
    assert quantise(layer, "float32").weight is weight and weight.requires_grad
