"""A process builds only its own rows of a batch, and they equal its rows of the full batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clew.core.batches import Batches, cut_rows, map_batch, num_rows
from clew.recipes.resolving import config_of
from clew.training.feeding import Feed
from clew.training.loader import Loader
from clew.training.problems import prepare_problem
from tests.runs.small import bert_settings
from tests.training.tasks import Rows

RECIPES = {
    "tatoeba-transformer": ["training.batch_tokens=300"],
    "tatoeba-lstm": ["training.batch_tokens=null", "training.batch_size=6"],
    "shakespeare-lstm": [],
    "shakespeare-gpt": ["training.documents=apart"],
    "ewt-tagger": [],
    "gum-tree-lstm": [],
    "answer-facts": ["data.size=400"],
}
NARROWER = ("ewt-tagger", "text-bert")
"""Recipes whose shares have less padding: characters and masked positions are padded among the rows of the share."""


@pytest.fixture(autouse=True)
def in_tmp_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def tensors(batch: Any) -> list[Tensor]:
    collected: list[Tensor] = []
    map_batch(collected.append, batch)
    return collected


def assert_same_rows(share_rows: Any, expected_rows: Any, is_narrower: bool) -> None:
    assert num_rows(share_rows) == num_rows(expected_rows)
    for actual, expected in zip(tensors(share_rows), tensors(expected_rows), strict=True):
        if is_narrower and actual.shape != expected.shape:
            inner = tuple(slice(0, size) for size in actual.shape)
            outside = expected.clone()
            outside[inner] = outside.new_zeros(())
            assert set(outside.flatten().tolist()) <= {0, -1, -100}, "more than padding was left out"
            expected = expected[inner]
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("recipe", [*RECIPES, "text-bert"])
def test_a_share_has_the_rows_and_counts_of_its_part_of_the_batch(recipe: str, tmp_path: Path) -> None:
    settings = bert_settings(tmp_path, steps=7) if recipe == "text-bert" else RECIPES[recipe]
    problem = prepare_problem(config_of(recipe, settings))
    batches, task = problem.batches, problem.task
    assert (batches.own is None) == (recipe == "answer-facts")
    last = batches.per_epoch(1) - 1
    for epoch, number, parts in ((0, 0, 2), (0, 1, 3), (1, last, 2), (1, last, 200)):
        whole = batches.get(epoch, number)
        expected_rows = cut_rows(whole, parts)
        shares = [batches.share(epoch, number, part, parts) for part in range(parts)]
        for share_rows, expected in zip(shares, expected_rows, strict=True):
            assert_same_rows(share_rows, expected, is_narrower=recipe in NARROWER)
            if num_rows(share_rows):
                assert {k: float(v) for k, v in task.counts(share_rows).items()} == {
                    k: float(v) for k, v in task.counts(expected).items()
                }
        assert sum(getattr(share, "num_tokens", 0) for share in shares if num_rows(share)) == getattr(
            whole, "num_tokens", 0
        )


def test_a_process_without_rows_gets_the_first_row_with_no_weight() -> None:
    x = torch.arange(6.0).reshape(3, 2)

    class LastOfFour(Batches):
        def ahead(
            self, epoch: int, batch: int, part: int = 0, parts: int = 1, place: Any = None
        ) -> Iterator[tuple[int, int, Any]]:
            return super().ahead(epoch, batch, 3, 4)

    batches = LastOfFour(lambda epoch: 1, lambda epoch, number: Rows(x))
    assert [len(batches.share(0, 0, part, 4).x) for part in range(4)] == [1, 1, 1, 0]
    fed = Feed(batches, 0, 0, torch.device("cpu")).take()
    assert not fed.is_real and torch.equal(fed.batch.x, x[:1])


def test_only_the_own_share_is_built_if_a_batch_has_shares() -> None:
    requested: list[tuple[int, ...]] = []

    def get(epoch: int, number: int) -> Rows:
        raise AssertionError("the whole batch was made")

    def own(*share: int) -> Rows:
        requested.append(share)
        return Rows(torch.ones(2, 3))

    ahead = Loader(Batches(lambda epoch: 2, get, own), 0, pin=False).ahead(0, 1, 1, 2)
    assert [next(ahead)[:2] for _ in range(3)] == [(0, 1), (1, 0), (1, 1)]
    assert requested == [(0, 1, 1, 2), (1, 0, 1, 2), (1, 1, 1, 2)]
