"""A body with some heads removed gives the same output as the whole body with those heads silenced."""

import pytest
import torch

from clew.core.errors import UserError
from clew.core.taps import Watch, watched
from clew.layers.attending.heads import attending_layers, grouped, keep_heads
from clew.models import MODELS
from clew.sources.tokens import Tokens

BODIES = {
    "gpt": ("gpt", {}),
    "windowed": ("gpt", {"window": 2, "position": "rotary"}),
    "alibi": ("gpt", {"position": "alibi"}),
    "relative": ("gpt", {"position": "relative"}),
    "additive": ("gpt", {"score": "additive"}),
    "location": ("gpt", {"score": "location", "bias": False}),
    "bert": ("bert", {}),
    "llama": ("llama", {}),
    "llama, groups of two": ("llama", {"num_kv_heads": 2}),
    "llama, one group": ("llama", {"num_kv_heads": 1, "head_dim": 6}),
}
KEPT = {
    "some": {"1": [1, 3, 4], "2": [2, 4]},
    "none in a layer": {"1": [], "2": [3]},
    "even": {"1": [1, 2], "2": [3, 4]},
}


def built(family, settings, kept=None):
    torch.manual_seed(0)
    kind = MODELS[family]
    sizes = {} if family == "mixed" else {"num_heads": 4, "num_layers": 2}
    return kind.build(kind.config(family=family, dim=16, **sizes, **settings, heads=kept), Tokens(11)).double().eval()


def silenced(body, kept):
    """Set the weights of all other heads to 0 in the whole body, through its taps."""
    off = [
        name
        for layer in attending_layers(body)
        for name in layer.heads
        if int(name[len(layer.name) + 1 :]) not in kept[layer.name]
    ]

    def change(heads):
        return lambda weights: weights.index_fill(1, torch.tensor(heads), 0.0)

    return watched({layer.attention.weights: Watch((change(heads),)) for layer, heads in grouped(body, off) if heads})


@pytest.mark.parametrize("heads", KEPT)
@pytest.mark.parametrize("name", BODIES)
def test_removing_heads_equals_silencing_them(name, heads):
    whole, cut = built(*BODIES[name]), built(*BODIES[name], KEPT[heads])
    tokens, mask = torch.randint(0, 11, (2, 5)), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
    with silenced(whole, KEPT[heads]):
        expected = whole(tokens, mask)[0]
    torch.testing.assert_close(cut(tokens, mask)[0][mask], expected[mask])
    assert sum(p.numel() for p in cut.parameters()) < sum(p.numel() for p in whole.parameters())


@pytest.mark.parametrize("capacity", [None, 8])
@pytest.mark.parametrize("name", [name for name in BODIES if name != "bert"])
def test_a_pruned_body_reads_step_by_step_as_at_once(name, capacity):
    cut = built(*BODIES[name], KEPT["none in a layer"])
    tokens = torch.randint(0, 11, (2, 5))
    with torch.no_grad():
        state, rows = cut.initial_state(2, capacity=capacity), []
        for place in range(5):
            y, state = cut(tokens[:, place : place + 1], None, state)
            rows.append(y)
        torch.testing.assert_close(torch.cat(rows, 1), cut(tokens)[0])


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("score", ["scaled", "additive"])
def test_heads_of_every_kind_can_be_removed_from_an_encoder_decoder(score, beams):
    kept = {"1": [2], "2": [], "decoder.1": [1, 4], "decoder.2": [3], "cross.1": [], "cross.2": [2, 3]}
    whole, cut = built("transformer", {"score": score}), built("transformer", {"score": score}, kept)
    source, target = torch.randint(0, 11, (2, 4)), torch.randint(0, 11, (2 * beams, 3))
    with silenced(whole, kept):
        expected = whole(target, None, whole.initial_state(2 * beams, whole.encode(source)))[0]
    torch.testing.assert_close(cut(target, None, cut.initial_state(2 * beams, cut.encode(source)))[0], expected)


def test_remaining_heads_are_trained():
    cut = built("llama", {"num_kv_heads": 2}, KEPT["some"])
    cut(torch.randint(0, 11, (2, 5)))[0].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in cut.layers.parameters())


def test_a_mixed_stack_numbers_its_attending_layers():
    settings = {
        "layers": ["lstm", {"name": "attention", "num_heads": 2}, "feedforward", {"name": "attention", "num_heads": 4}]
    }
    cut = built("mixed", settings, {"2": [1]})
    assert [layer.heads for layer in attending_layers(cut)] == [["1.1", "1.2"], ["2.1"]]


@pytest.mark.parametrize(
    "kept, sentence",
    [
        ({"3": [1]}, "unknown layer in model.heads '3'"),
        ({"1": [0]}, "from 1 to 4, each once, not \\[0\\]"),
        ({"1": [5]}, "from 1 to 4"),
        ({"1": [2, 2]}, "each once"),
    ],
)
def test_unknown_heads_are_rejected(kept, sentence):
    with pytest.raises(UserError, match=sentence):
        built("gpt", {}, kept)


def test_naming_no_layer_keeps_all_heads():
    body = built("gpt", {})
    before = [p.shape for p in body.parameters()]
    keep_heads(body, {})
    assert [p.shape for p in body.parameters()] == before
