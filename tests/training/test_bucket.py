"""Batches of few shapes: training is the same, and an epoch has only a handful of shapes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clew.core.batches import few_lengths, map_batch, padded, rounded_up
from clew.core.errors import UserError
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.training.problems import prepare_problem
from clew.training.signals import Interrupted
from tests.training.pairs import TRANSFORMER, pair_settings
from tests.training.test_run import Listener, assert_same_run

PLAIN = ["model.dropout=0", "data.limit=60", "training.batch_tokens=200"]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def doubled(batch: Any) -> Any:
    return map_batch(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, batch)


def sums_and_gradients(task: Any, batch: Any) -> tuple[dict[str, Tensor], list[Tensor]]:
    task.zero_grad()
    terms, _ = task(batch)
    assert {name: float(term.count) for name, term in terms.items()} == {
        name: float(count) for name, count in task.counts(batch).items()
    }
    sum(term.weight * term.sum / term.count for term in terms.values()).backward()
    return {name: term.sum.detach() for name, term in terms.items()}, [
        p.grad for p in task.parameters() if p.grad is not None
    ]


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("tatoeba-transformer", ["task.label_smoothing=0.1"]),
        ("tatoeba-transformer", ["model.position=learned", "model.max_length=53"]),
        ("tatoeba-lstm", []),
        ("ewt-tagger", ["embedding.dropout=0"]),
        ("sentiment-lstm", ["task.dropout=0", "model.word_dropout=0"]),
    ],
)
def test_more_padding_changes_neither_losses_nor_gradients(recipe: str, settings: list[str]) -> None:
    problem = prepare_problem(config_of(recipe, [*PLAIN, *settings]))
    task = problem.task.double().train()
    collate, collated = task.collate, []
    task.collate = lambda examples: collated.append(examples) or collate(examples)
    problem.batches.get(0, 0), problem.batches.get(0, 1)
    max_length = task.longest
    for examples in list(collated):
        tight = doubled(collate(examples))
        with few_lengths(max_length):
            wide = doubled(collate(examples))
        expected, expected_gradients = sums_and_gradients(task, tight)
        actual, actual_gradients = sums_and_gradients(task, wide)
        for name, value in expected.items():
            torch.testing.assert_close(actual[name], value, rtol=1e-10, atol=1e-10)
        for gradient, value in zip(actual_gradients, expected_gradients, strict=True):
            torch.testing.assert_close(gradient, value, rtol=1e-8, atol=1e-10)


def shapes_of(batches: Any) -> list[tuple[Any, ...]]:
    all_batches = [batches.get(0, number) for number in range(batches.per_epoch(0))]
    return [
        (tuple(batch.source.shape), tuple(batch.tokens.shape), batch.source_mask is None, batch.mask is None)
        for batch in all_batches
    ]


def test_an_epoch_has_a_handful_of_shapes() -> None:
    plain, few = (
        shapes_of(prepare_problem(config_of("tatoeba-transformer", [f"training.bucket={on}"])).batches)
        for on in ("false", "true")
    )
    assert sum(source[0] for source, *_ in plain) == sum(source[0] for source, *_ in few), "every example once"
    assert len(set(plain)) > 50 and len(set(few)) <= 10
    assert all(side % 8 == 0 for source, target, *_ in few for side in (*source, *target))
    assert not any(is_none for *_, source_is_none, is_none in few for is_none in (source_is_none, is_none)), (
        "graphs with and without a mask"
    )
    assert all(source[0] * (source[1] + target[1]) <= 2048 for source, target, *_ in few)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_lengths_are_rounded_up_within_the_limit_of_the_model(length: int, max_length: int) -> None:
    rounded = int(rounded_up(np.array(length), max_length))
    assert length <= rounded <= max(length, min(max_length, length + max(7, length // 8)))
    assert rounded % 8 == 0 or rounded in (length, max_length)
    assert len(set(rounded_up(np.arange(1, 4097), 10**6).tolist())) == 16 + 8 * 5


def test_shifted_rows_have_a_rounded_length_after_the_shift() -> None:
    with few_lengths(100):
        ids, mask = padded([[1, 2, 3], [4, 5, 6]])
        shifted, _ = padded([[1] * 18, [2]], shifted=True)
    assert ids.tolist() == [[1, 2, 3, 0, 0, 0, 0, 0], [4, 5, 6, 0, 0, 0, 0, 0]]
    assert mask is not None and mask.sum(1).tolist() == [3, 3]
    assert shifted[:, :-1].shape == (2, 24)
    assert padded([[1, 2, 3]])[1] is None


def test_a_bucketed_run_resumes_bit_for_bit_with_the_same_setting(tmp_path: Path) -> None:
    settings = [
        *pair_settings(tmp_path, steps=6, model=TRANSFORMER),
        "training.bucket=true",
        "training.batch_tokens=300",
    ]
    run_recipe("translate", settings, out=Path("straight"))
    with pytest.raises(Interrupted, match="stopped at step 4"):
        run_recipe("translate", settings, out=Path("stopped"), report=Listener(stop_at_step=4))
    with pytest.raises(UserError, match="training.bucket"):
        run_recipe("translate", ["training.bucket=false"], out=Path("stopped"), resume=True)
    run_recipe("translate", [], out=Path("stopped"), resume=True)
    assert_same_run(Path("straight"), Path("stopped"))


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            "shakespeare-gpt",
            "training.bucket is for examples, but all rows of a running text have the same length; leave it out",
        ),
        (
            "gum-tree-lstm",
            "training.bucket pads texts to few lengths, but this task's examples are not only texts; leave it out",
        ),
    ],
)
def test_bucket_is_rejected_without_ragged_texts(recipe: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        prepare_problem(config_of(recipe, ["training.bucket=true"]))
