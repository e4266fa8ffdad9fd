import numpy as np
import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.layers.adapters import LowRank, adapt, adapter_names, merge, own_weights
from clew.models import MODELS
from clew.sources.tokens import Tokens
from tests.runs.pretrained import BODIES


def body_of(kind: str) -> nn.Module:
    family = MODELS[kind]
    torch.manual_seed(1)
    return family.build(family.config(**BODIES[kind]), Tokens(11)).eval()


def train_a_little(body: nn.Module) -> None:
    with torch.no_grad():
        for name, parameter in body.named_parameters():
            if name.endswith(".up"):
                parameter.normal_()


@pytest.mark.parametrize("bias", [True, False])
def test_an_adapted_map_equals_its_equation(bias: bool) -> None:
    linear = nn.Linear(5, 3, bias=bias).double()
    adapted = LowRank(linear, rank=2, alpha=6.0).double()
    with torch.no_grad():
        adapted.up.normal_()
    x = torch.randn(4, 5, dtype=torch.double)
    weight, down, up = (tensor.detach().numpy() for tensor in (linear.weight, adapted.down, adapted.up))
    expected = np.stack([weight @ row + (6.0 / 2) * (up @ (down @ row)) for row in x.numpy()])
    expected = expected + (linear.bias.detach().numpy() if bias else 0)
    np.testing.assert_allclose(adapted(x).detach().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(adapted.merged()(x).detach().numpy(), expected, rtol=1e-12)


def test_dropout_applies_only_to_the_adapters_input() -> None:
    linear = nn.Linear(5, 3)
    adapted = LowRank(linear, dropout=0.5).train()
    x = torch.randn(4, 5)
    assert torch.equal(adapted(x), linear(x))  # U is 0
    with torch.no_grad():
        adapted.up.normal_()
    assert not torch.equal(adapted(x), adapted(x))
    assert torch.equal(adapted.eval()(x), adapted(x))


@pytest.mark.parametrize("kind", ["bert", "gpt", "llama", "mixed"])
def test_an_adapted_body_starts_unchanged_learns_and_can_be_merged(kind: str) -> None:
    """Without gradients, attention applies its three maps as one if they are plain."""
    body, tokens = body_of(kind), torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    names = list(body.state_dict())
    with torch.no_grad():
        before = body(tokens)[0]
        adapt(body, {"name": "lora", "rank": 3, "targets": ["query", "key", "value", "output", "inner", "outer"]})
        torch.testing.assert_close(body(tokens)[0], before)
        train_a_little(body)
        changed = body(tokens)[0]
        assert not torch.allclose(changed, before, atol=1e-3)
    torch.testing.assert_close(body(tokens)[0].detach(), changed)
    added = adapter_names(body)
    assert set(names) | added == set(body.state_dict()) and not set(names) & added
    merge(body)
    assert list(body.state_dict()) == names
    with torch.no_grad():
        torch.testing.assert_close(body(tokens)[0], changed, atol=1e-5, rtol=1e-5)


def test_only_the_trained_weights_of_an_adapted_body_are_saved() -> None:
    body = body_of("bert")
    assert own_weights(body, body.state_dict()).keys() == body.state_dict().keys()
    assert adapt(body, "lora") == 4
    for name, parameter in body.named_parameters():
        parameter.requires_grad_(name in adapter_names(body))
    assert own_weights(body, body.state_dict()).keys() == adapter_names(body)
    assert {name.split(".")[-2] for name in adapter_names(body)} == {"query", "value"}


@pytest.mark.parametrize(
    ("kind", "adapter", "sentence"),
    [
        (
            "recurrent",
            "lora",
            (
                "transfer.adapter=lora adapts the maps query, key, value, output, inner, gate, outer, and this body has"
                " none of them; use transfer.freeze instead"
            ),
        ),
        (
            "bert",
            {"name": "lora", "targets": ["queri"]},
            "unknown map for transfer.adapter.targets 'queri'; did you mean 'query'?",
        ),
        (
            "bert",
            {"name": "lora", "targets": ["gate"]},
            "unknown map for transfer.adapter.targets 'gate'; known: inner, key,",
        ),
        (
            "bert",
            {"name": "lora", "targets": []},
            "transfer.adapter.targets is empty; name some of query, key, value, output, inner, outer",
        ),
        (
            "bert",
            {"name": "lora", "rank": 0},
            "the rank of an adapter (0) must be at least 1; set transfer.adapter.rank",
        ),
        ("bert", {"name": "lora", "dropout": 1.0}, "an adapter's dropout (1.0) must be at least 0 and below 1"),
    ],
)
def test_invalid_adapters_are_rejected(kind: str, adapter, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError) as error:
        adapt(body_of(kind), adapter)
    assert str(error.value).startswith(sentence)
