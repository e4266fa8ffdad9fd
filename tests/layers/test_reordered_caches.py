"""Beams over a buffer of keys and values: reading through a table of rows equals reading copied rows."""

import pytest
import torch

from clew.core.state import copy_state, leaves, reorder, select_rows
from clew.layers.attending.caches import Buffer
from clew.layers.attention import SelfAttention
from clew.layers.positions import POSITIONS
from tests.references.agreement import randn, randomise

ORDERS = [[1, 0, 2, 2], [0, 0, 3, 3], [1, 1, 3, 2], [0, 1, 2, 2]]
"""Orders of two sentences with two beams each, between steps."""
LENGTHS = {"even": [3, 3, 3, 3], "ragged": [3, 3, 1, 1]}
CASES = pytest.mark.parametrize(
    "position, lengths", [("none", "even"), ("none", "ragged"), ("rotary", "ragged"), ("relative", "even")]
)


def prompted(position: str, lengths: str) -> tuple[SelfAttention, Buffer]:
    """A layer, and its state for four rows after a prompt."""
    layer = randomise(SelfAttention(8, 4, num_kv_heads=2, position=POSITIONS[position](8, 4, 2)))
    mask = torch.arange(3) < torch.tensor(LENGTHS[lengths])[:, None]
    x = randn(4, 3, 8)
    _, state = layer(x, None if lengths == "even" else mask, layer.initial_state(4, capacity=12, like=x))
    return layer, state


def steps(layer, state, move, x):
    outputs = []
    for t, order in enumerate(ORDERS):
        y, state = layer(x[:, t : t + 1], None, move(state, torch.tensor(order)))
        outputs.append(y)
    return torch.cat(outputs, 1), state


@torch.no_grad()
def reordered_and_copied(position: str, lengths: str):
    """A layer with its reordered and its copied state, after checking that the same steps gave the same outputs."""
    layer, state = prompted(position, lengths)
    x, copied = randn(4, len(ORDERS), 8, seed=1), copy_state(state)
    (reordered_output, reordered), (copied_output, copied) = (
        steps(layer, state, reorder, x),
        steps(layer, copied, select_rows, x),
    )
    torch.testing.assert_close(reordered_output, copied_output)
    return layer, reordered, copied


@CASES
@torch.no_grad()
def test_reordered_beams_equal_copied_ones(position, lengths):
    layer, reordered, copied = reordered_and_copied(position, lengths)
    x = randn(4, 3, 8, seed=2)
    torch.testing.assert_close(layer(x, None, reordered)[0], layer(x, None, copied)[0])


def test_reordering_moves_no_keys():
    _, state = prompted("none", "even")
    addresses = state.keys.data_ptr(), state.values.data_ptr()
    moved = reorder(state, torch.tensor(ORDERS[0]))
    assert (moved.keys.data_ptr(), moved.values.data_ptr()) == addresses
    assert moved.places.tolist() == [[row * 13 + slot for slot in range(13)] for row in ORDERS[0]]


@CASES
@torch.no_grad()
def test_rows_selected_after_a_reordering_are_independent(position, lengths):
    layer, reordered, copied = reordered_and_copied(position, lengths)
    x, rows = randn(3, 2, 8, seed=2), torch.tensor([3, 0, 3])
    actual, chosen = layer(x, None, select_rows(reordered, rows))
    torch.testing.assert_close(actual, layer(x, None, select_rows(copied, rows))[0])
    assert [leaf.shape for leaf in leaves(chosen)] == [leaf[rows].shape for leaf in leaves(reordered)], (
        "a captured step keeps its frame's form"
    )
    order = torch.tensor([2, 1, 0])
    torch.testing.assert_close(
        layer(x[:, :1], None, reorder(copy_state(chosen), order))[0],
        layer(x[:, :1], None, select_rows(chosen, order))[0],
    )


@CASES
@torch.no_grad()
def test_a_copy_of_reordered_beams_shares_nothing_with_them(position, lengths):
    layer, reordered, copied = reordered_and_copied(position, lengths)
    x = randn(4, 2, 8, seed=2)
    branch = copy_state(reordered)
    layer(-x, None, reordered)
    torch.testing.assert_close(layer(x, None, branch)[0], layer(x, None, copied)[0])


@CASES
@torch.no_grad()
def test_reordered_beams_can_be_rewound_to_different_lengths(position, lengths):
    layer, reordered, copied = reordered_and_copied(position, lengths)
    x = randn(4, 3, 8, seed=2)
    rewound_to = torch.tensor([4, 6, 2, 4])
    torch.testing.assert_close(
        layer(x, None, reordered.rewind(rewound_to))[0], layer(x, None, copied.rewind(rewound_to))[0]
    )


@torch.no_grad()
def test_a_ring_is_reordered_with_its_rows():
    layer = randomise(SelfAttention(8, 4, window=2))
    x, more = randn(4, 3, 8), randn(4, len(ORDERS), 8, seed=1)
    _, state = layer(x, None, layer.initial_state(4, capacity=200, like=x))
    copied = copy_state(state)
    torch.testing.assert_close(steps(layer, state, reorder, more)[0], steps(layer, copied, select_rows, more)[0])
