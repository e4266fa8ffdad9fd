"""Batches of all kinds of containers."""

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
    """A mapping that is not a dict, as in transformers."""


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
def test_a_batch_of_any_container_is_cut_by_rows_and_keeps_its_type(batch: Any) -> None:
    first, second = cut_rows(batch, 2)
    assert type(first) is type(second) is type(batch)
    assert [num_rows(batch), num_rows(first), num_rows(second)] == [5, 3, 2]
    tensors: list[Tensor] = []
    map_batch(tensors.append, second)
    assert tensors[0].tolist() == [3, 4]


def test_moving_a_dataclass_copies_it_and_keeps_non_tensors() -> None:
    batch = Frozen(rows(), "a")
    moved = to_device(batch, torch.device("meta"))
    assert (moved.name, moved.x.device.type, batch.x.device.type) == ("a", "meta", "cpu")


def test_a_dataclass_gets_its_step() -> None:
    batch = Nested({"x": rows()}, torch.zeros(5, dtype=torch.int64))
    assert at_step(batch, 7).step.tolist() == [7] * 5
    assert batch.step.tolist() == [0] * 5


@pytest.mark.parametrize(("batch", "name"), [(object(), "object"), ({"x": [1, 2]}, "dict"), (Named, "type")])
def test_a_batch_without_a_tensor_is_rejected(batch: Any, name: str) -> None:
    with pytest.raises(
        UserError,
        match=rf"a batch \({name}\) has no tensor, so there is nothing to train on; give tensors with the rows",
    ):
        num_rows(batch)
