from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from clew.core.masks import Clock
from clew.core.state import (
    MOST_STACKED,
    copy_state,
    detach_state,
    leaves,
    map_state,
    map_tree,
    put_rows,
    reorder,
    select_rows,
    where_rows,
    write_rows,
)
from clew.core.types import Fixed, Memory


class Pair(NamedTuple):
    left: Tensor
    right: Tensor | None


MEMORY = Memory(torch.arange(4.0).view(2, 2), torch.tensor([[True, True], [True, False]]), None)


def state():
    return {"a": Pair(torch.tensor([[0.0], [1.0], [2.0]]), None), "b": [torch.tensor([10, 11, 12]), (MEMORY,)]}


def test_selected_rows_are_in_the_requested_order_and_leave_memory_unchanged():
    chosen = select_rows(state(), torch.tensor([2, 0, 2, 1]))
    assert chosen["a"].left.tolist() == [[2.0], [0.0], [2.0], [1.0]]
    assert chosen["a"].right is None
    assert chosen["b"][0].tolist() == [12, 10, 12, 11]
    assert chosen["b"][1][0] is MEMORY


def test_memory_rows_are_selected_only_on_request():
    chosen = select_rows(state(), torch.tensor([0]), memory_rows=torch.tensor([1]))
    assert chosen["b"][1][0].values.tolist() == [[2.0, 3.0]]
    assert chosen["b"][1][0].mask.tolist() == [[True, False]]
    assert chosen["a"].left.tolist() == [[0.0]]


def test_reordered_rows_move_everything_except_clock_and_memory():
    clock = Clock(torch.tensor([5, 5, 5]), torch.tensor([0, 0, 0]), torch.tensor([0, 0, 0]))
    more = torch.tensor([[5.0], [6.0], [7.0]])
    moved = reorder({**state(), "c": (clock, more)}, torch.tensor([2, 0, 2]))
    assert moved["a"].left.tolist() == [[2.0], [0.0], [2.0]]
    assert moved["a"].right is None
    assert moved["b"][0].tolist() == [12, 10, 12]
    assert moved["b"][1][0] is MEMORY
    assert moved["c"][0] is clock
    assert moved["c"][1].tolist() == [[7.0], [5.0], [7.0]]


def test_large_tensors_of_one_shape_are_reordered_too():
    large = torch.arange(3.0)[:, None].expand(3, MOST_STACKED).contiguous()
    first, second = reorder((large, -large), torch.tensor([1, 1, 0]))
    assert first[:, 0].tolist() == [1.0, 1.0, 0.0]
    assert second[:, -1].tolist() == [-1.0, -1.0, 0.0]


def test_where_takes_each_row_from_the_new_or_the_old_state_and_memory_from_the_new():
    old = map_state(lambda leaf: -leaf, state())
    old["b"][1] = (MEMORY._replace(values=MEMORY.values + 1),)
    merged = where_rows(torch.tensor([True, False, True]), state(), old)
    assert merged["a"].left.tolist() == [[0.0], [-1.0], [2.0]]
    assert merged["b"][0].tolist() == [10, -11, 12]
    assert merged["b"][1][0] is MEMORY


def test_written_rows_replace_those_named_and_no_others():
    part = select_rows(map_state(lambda leaf: 100 + leaf, state()), torch.tensor([0, 1]))
    updated = write_rows(state(), torch.tensor([2, 0]), part)
    assert updated["a"].left.tolist() == [[101.0], [1.0], [100.0]]
    assert updated["b"][0].tolist() == [111, 11, 110]


def test_put_rows_are_written_in_place_up_to_the_smaller_capacity():
    state = {"cache": torch.zeros(3, 4, 2), "count": torch.zeros(3), "memory": MEMORY, "none": None}
    cache, count = state["cache"], state["count"]
    put_rows(
        state,
        torch.tensor([2, 0]),
        {"cache": torch.ones(2, 2, 2), "count": torch.tensor([5.0, 7.0]), "memory": MEMORY, "none": None},
    )
    assert cache[:, :, 0].tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]] and count.tolist() == [7, 0, 5]
    small = {"cache": torch.zeros(1, 1, 2), "count": torch.zeros(1), "memory": MEMORY, "none": None}
    put_rows(small, torch.tensor([0]), {"cache": cache[2:], "count": count[2:], "memory": MEMORY, "none": None})
    assert small["cache"].tolist() == [[[1, 1]]] and small["count"].tolist() == [5]


def test_a_copy_shares_nothing_that_a_step_writes():
    first = state()
    second = copy_state(first)
    first["a"].left.zero_()
    assert second["a"].left.tolist() == [[0.0], [1.0], [2.0]]


def test_a_detached_state_has_the_values_without_a_graph_even_in_memory():
    leaf = torch.ones(2, 1, requires_grad=True)
    detached = detach_state((leaf * 2, Memory(leaf * 3)))
    assert [value.requires_grad for value in leaves(detached)] == [False, False]
    assert detached[1].values.tolist() == [[3.0], [3.0]]


def test_leaves_are_in_order():
    assert [leaf.shape[0] for leaf in leaves((torch.zeros(1), [torch.zeros(2), None], {"x": torch.zeros(3)}))] == [
        1,
        2,
        3,
    ]


def test_kept_nodes_come_from_the_first_tree():
    fixed = Fixed(torch.ones(1))
    first, second = (torch.ones(1), fixed), (torch.ones(1), Fixed(torch.zeros(1)))
    total = map_tree(lambda a, b: a + b, first, second, keep=(Fixed,))
    assert total[0].tolist() == [2.0]
    assert total[1] is fixed


def test_non_tensors_in_a_state_are_rejected():
    with pytest.raises(TypeError, match="a state holds tensors in tuples, lists and dicts, not int"):
        leaves((torch.ones(1), 3))
    with pytest.raises(TypeError, match="a state holds tensors in tuples, lists and dicts, not int"):
        reorder((torch.ones(1), 3), torch.tensor([0]))


def test_trees_of_different_structure_are_rejected():
    with pytest.raises(ValueError, match="zip"):
        map_tree(lambda a, b: a, (torch.ones(1), torch.ones(1)), (torch.ones(1),))
