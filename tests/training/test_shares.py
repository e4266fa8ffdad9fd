"""A process makes its own rows of a batch alone, and they are the rows that it would have taken of the whole batch."""

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
"""Letters of words and masked places are padded among the rows that are made: `lengths` does not count them."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def tensors(batch: Any) -> list[Tensor]:
    found: list[Tensor] = []
    map_batch(found.append, batch)
    return found


def assert_same_rows(made: Any, taken: Any, is_narrower: bool) -> None:
    assert num_rows(made) == num_rows(taken)
    for here, there in zip(tensors(made), tensors(taken), strict=True):
        if is_narrower and here.shape != there.shape:
            inner = tuple(slice(0, size) for size in here.shape)
            outside = there.clone()
            outside[inner] = outside.new_zeros(())
            assert set(outside.flatten().tolist()) <= {0, -1, -100}, "more than padding was left out"
            there = there[inner]
        assert torch.equal(here, there)


@pytest.mark.parametrize("recipe", [*RECIPES, "text-bert"])
def test_rows_made_alone_are_the_rows_taken_of_the_whole_batch_counts_included(recipe: str, tmp_path: Path) -> None:
    settings = bert_settings(tmp_path, steps=7) if recipe == "text-bert" else RECIPES[recipe]
    problem = prepare_problem(config_of(recipe, settings))
    batches, task = problem.batches, problem.task
    assert (batches.own is None) == (recipe == "answer-facts")
    last = batches.per_epoch(1) - 1
    for epoch, number, parts in ((0, 0, 2), (0, 1, 3), (1, last, 2), (1, last, 200)):
        whole = batches.get(epoch, number)
        taken = cut_rows(whole, parts)
        shares = [batches.share(epoch, number, part, parts) for part in range(parts)]
        for made, there in zip(shares, taken, strict=True):
            assert_same_rows(made, there, is_narrower=recipe in NARROWER)
            if num_rows(made):
                assert {k: float(v) for k, v in task.counts(made).items()} == {
                    k: float(v) for k, v in task.counts(there).items()
                }
        assert sum(getattr(share, "num_tokens", 0) for share in shares if num_rows(share)) == getattr(
            whole, "num_tokens", 0
        )


def test_a_process_without_rows_is_fed_the_first_row_which_counts_for_nothing() -> None:
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


def test_nothing_else_is_made_where_a_batch_can_be_made_in_parts() -> None:
    asked: list[tuple[int, ...]] = []

    def get(epoch: int, number: int) -> Rows:
        raise AssertionError("the whole batch was made")

    def own(*share: int) -> Rows:
        asked.append(share)
        return Rows(torch.ones(2, 3))

    ahead = Loader(Batches(lambda epoch: 2, get, own), 0, pin=False).ahead(0, 1, 1, 2)
    assert [next(ahead)[:2] for _ in range(3)] == [(0, 1), (1, 0), (1, 1)]
    assert asked == [(0, 1, 1, 2), (1, 0, 1, 2), (1, 1, 1, 2)]
