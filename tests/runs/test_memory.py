import contextlib
from typing import get_args

import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.models import MODELS
from clew.recipes.resolving import config_of
from clew.runs import memory
from clew.runs.build import build_task, train_tokenizer
from clew.runs.config import Config
from clew.runs.memory import Allowance, TooLarge, gigabytes, largest_number, machine_memory, weight_bytes
from clew.text.tokenizer import Tokenizer
from tests.runs.small import TEXT

CPU = ["device=cpu"]


@pytest.fixture
def tokenizer() -> Tokenizer:
    return train_tokenizer(config_of("text-lstm").text, [TEXT])


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        (
            "text-lstm",
            ["model.dim=100000000"],
            r"needs 6\.4e\+08 GB, but this machine has .* GB of memory; lower model.dim \(100000000\)",
        ),
        ("text-gpt", ["model.dim=6000000"], r"needs .* GB, but this machine has .*; lower model.dim \(6000000\)"),
        ("text-lstm", ["model.dim=1000000000000000000"], r"; lower model.dim \(1000000000000000000\)"),
        (
            "text-lstm",
            ["model.cell={name: lstm, forget_bias: 1}", "model.dim=1000000000000000000"],
            r"; lower model.dim \(",
        ),
        ("text-gpt", ["model.max_length=1000000000000"], r"; lower model.max_length \(1000000000000\)"),
        (
            "text-gpt",
            ["model.score={name: location, max_length: 9000000000000}"],
            r"; lower model.score.max_length \(9000000000000\)",
        ),
        (
            "text-lstm",
            ["model.family=mixed", "model.layers=[{name: convolution, width: 900000000}]"],
            r"; lower model.layers.width \(9000",
        ),
    ],
)
def test_a_model_that_exceeds_memory_is_rejected_with_its_size(
    tokenizer: Tokenizer, recipe: str, settings: list[str], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence) as error:
        build_task(config_of(recipe, [*CPU, *settings]), {"tokenizer": tokenizer})
    assert str(error.value).startswith(
        "training the model, with its weights, gradients and optimiser state, needs "
    ) or "weights need" in str(error.value)


def whole_numbers_of_families() -> list[tuple[str, str]]:
    return [
        (family, field)
        for family, (section, *_) in MODELS.items()
        for field, info in section.model_fields.items()
        if any(kind is int for kind in (info.annotation, *get_args(info.annotation)))
    ]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("family", "field"), whole_numbers_of_families())
def test_no_huge_setting_of_any_family_hangs(tokenizer: Tokenizer, family: str, field: str) -> None:
    assignments = [*CPU, f"model.family={family}", "model.dim=4", f"model.{field}=1000000000"]
    with contextlib.suppress(UserError):
        build_task(config_of("text-lstm", assignments), {"tokenizer": tokenizer})


def test_training_needs_more_than_the_weights(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of("text-lstm", [*CPU, "model.dim=64"])
    weights = sum(p.nbytes for p in build_task(config, {"tokenizer": tokenizer}).parameters())
    monkeypatch.setattr(memory, "SMALL", 1000)
    monkeypatch.setattr(memory, "machine_memory", lambda device: 3 * weights)
    with pytest.raises(UserError, match="training the model, with its weights, gradients and optimiser state, needs"):
        build_task(config, {"tokenizer": tokenizer})
    built = build_task(config, {"tokenizer": tokenizer}, to_train=False)
    assert sum(p.nbytes for p in built.parameters()) == weights
    shards = config_of("text-lstm", [*CPU, "model.dim=64", "training.parallel=fsdp"])
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert sum(p.nbytes for p in build_task(shards, {"tokenizer": tokenizer}).parameters()) == weights
    plain = config_of("text-lstm", [*CPU, "model.dim=64", "training.optimiser=sgd"])
    assert sum(p.nbytes for p in build_task(plain, {"tokenizer": tokenizer}).parameters()) == weights


def test_checking_memory_does_not_change_the_weights(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of("text-gpt", [*CPU, "model.dim=12", "model.num_layers=2"])
    light = build_task(config, {"tokenizer": tokenizer})
    monkeypatch.setattr(memory, "SMALL", 1000)
    heavy = build_task(config, {"tokenizer": tokenizer})
    assert all(torch.equal(a, b) for a, b in zip(light.parameters(), heavy.parameters(), strict=True))
    assert weight_bytes(lambda: build_task(config, {"tokenizer": tokenizer})) == sum(
        p.nbytes for p in light.parameters()
    )


def test_a_run_can_be_built_without_its_device(tokenizer: Tokenizer) -> None:
    config = config_of("text-lstm", ["device=mps", "model.dim=8"])
    assert isinstance(build_task(config, {"tokenizer": tokenizer}, to_train=False), nn.Module)


def test_a_body_that_reads_its_own_values_has_no_weight_estimate() -> None:
    assert weight_bytes(lambda: nn.Linear(2, int(torch.ones(()).item()))) == 0


def test_a_tensor_above_the_allowance_is_never_allocated() -> None:
    with pytest.raises(TooLarge) as error, Allowance(1000):
        torch.zeros((10, 10))
        nn.Linear(10**12, 10**12)
    assert error.value.requested == 400 + 4 * 10**24


def test_a_container_limit_lowers_the_memory_of_the_machine(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = machine_memory(torch.device("cpu"))
    monkeypatch.setattr(memory, "LIMIT", tmp_path / "memory.max")
    for text, expected in (("max\n", whole), ("1000\n", 1000)):
        (tmp_path / "memory.max").write_text(text)
        assert machine_memory(torch.device("cpu")) == expected


def test_the_largest_number_can_be_the_vocabulary() -> None:
    config: Config = config_of("text-lstm", ["model.dim=64"])
    assert largest_number(config, 10**6) == "text.size (the vocabulary is 1000000)"
    assert largest_number(config, 60) == "model.embedding_dim (128)"


def test_bytes_are_shown_in_gigabytes() -> None:
    assert [gigabytes(number) for number in (25_300_000_000, 4 * 10**13, 10**30)] == [
        "25.3 GB",
        "40,000.0 GB",
        "1.0e+21 GB",
    ]
