"""Batches of every container that people make them of."""

from collections import UserDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from clew.core.batches import at_step, cut_rows, map_batch, num_rows, to_device
from clew.core.errors import UserError


class Named(NamedTuple):
    x: Tensor
    name: str


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Tensor
    name: str
    width: int = field(init=False, default=0)


@dataclass
class Nested:
    inner: Any
    step: Tensor


class Encoding(UserDict[str, Any]):
    """As transformers has it: a mapping that is no dict."""


def rows() -> Tensor:
    return torch.arange(5)


@pytest.mark.parametrize(
    "batch",
    [
        Named(rows(), "a"),
        Frozen(rows(), "a"),
        {"x": rows(), "name": "a"},
        Encoding(x=rows(), name="a"),
        [rows(), "a"],
        (rows(), "a"),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_a_batch_of_any_container_is_cut_by_rows_and_stays_what_it_is(batch: Any) -> None:
    first, second = cut_rows(batch, 2)
    assert type(first) is type(second) is type(batch)
    assert [num_rows(batch), num_rows(first), num_rows(second)] == [5, 3, 2]
    tensors: list[Tensor] = []
    map_batch(tensors.append, second)
    assert tensors[0].tolist() == [3, 4]


def test_what_is_no_tensor_stays_in_a_dataclass_and_the_first_one_is_left_alone() -> None:
    batch = Frozen(rows(), "a")
    moved = to_device(batch, torch.device("meta"))
    assert (moved.name, moved.x.device.type, batch.x.device.type) == ("a", "meta", "cpu")


def test_a_dataclass_is_told_its_step() -> None:
    batch = Nested({"x": rows()}, torch.zeros(5, dtype=torch.int64))
    assert at_step(batch, 7).step.tolist() == [7] * 5
    assert batch.step.tolist() == [0] * 5


@pytest.mark.parametrize(("batch", "name"), [(object(), "object"), ({"x": [1, 2]}, "dict"), (Named, "type")])
def test_a_batch_without_a_tensor_is_refused(batch: Any, name: str) -> None:
    with pytest.raises(
        UserError,
        match=rf"a batch \({name}\) has no tensor, so there is nothing to train on; give tensors with the rows",
    ):
        num_rows(batch)
