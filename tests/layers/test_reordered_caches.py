"""Beams over a buffer of keys and values: they read through a table what rows that were copied read in their own
storage."""

import pytest
import torch

from clew.core.state import copy_state, leaves, reorder, select_rows
from clew.layers.attending.caches import Buffer
from clew.layers.attention import SelfAttention
from clew.layers.positions import POSITIONS
from tests.references.agreement import randn, randomise

ORDERS = [[1, 0, 2, 2], [0, 0, 3, 3], [1, 1, 3, 2], [0, 1, 2, 2]]
"""Of two sentences of two beams each, between steps."""
LENGTHS = {"even": [3, 3, 3, 3], "ragged": [3, 3, 1, 1]}
CASES = pytest.mark.parametrize(
    "position, lengths", [("none", "even"), ("none", "ragged"), ("rotary", "ragged"), ("relative", "even")]
)


def prompted(position: str, lengths: str) -> tuple[SelfAttention, Buffer]:
    """A layer, and the state of four rows after a prompt."""
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
def both(position: str, lengths: str):
    """The layer, and the states that were reordered and that were copied, after the same steps gave the same
    outputs."""
    layer, state = prompted(position, lengths)
    x, copied = randn(4, len(ORDERS), 8, seed=1), copy_state(state)
    (found, reordered), (wanted, copied) = steps(layer, state, reorder, x), steps(layer, copied, select_rows, x)
    torch.testing.assert_close(found, wanted)
    return layer, reordered, copied


@CASES
@torch.no_grad()
def test_reordered_beams_read_what_copied_ones_read(position, lengths):
    layer, reordered, copied = both(position, lengths)
    x = randn(4, 3, 8, seed=2)
    torch.testing.assert_close(layer(x, None, reordered)[0], layer(x, None, copied)[0])


def test_no_key_is_moved():
    _, state = prompted("none", "even")
    addresses = state.keys.data_ptr(), state.values.data_ptr()
    moved = reorder(state, torch.tensor(ORDERS[0]))
    assert (moved.keys.data_ptr(), moved.values.data_ptr()) == addresses
    assert moved.places.tolist() == [[row * 13 + slot for slot in range(13)] for row in ORDERS[0]]


@CASES
@torch.no_grad()
def test_rows_chosen_after_a_reordering_go_on_alone(position, lengths):
    layer, reordered, copied = both(position, lengths)
    x, rows = randn(3, 2, 8, seed=2), torch.tensor([3, 0, 3])
    found, chosen = layer(x, None, select_rows(reordered, rows))
    torch.testing.assert_close(found, layer(x, None, select_rows(copied, rows))[0])
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
    layer, reordered, copied = both(position, lengths)
    x = randn(4, 2, 8, seed=2)
    branch = copy_state(reordered)
    layer(-x, None, reordered)
    torch.testing.assert_close(layer(x, None, branch)[0], layer(x, None, copied)[0])


@CASES
@torch.no_grad()
def test_reordered_beams_can_be_rewound_to_lengths_of_their_own(position, lengths):
    layer, reordered, copied = both(position, lengths)
    x = randn(4, 3, 8, seed=2)
    back = torch.tensor([4, 6, 2, 4])
    torch.testing.assert_close(layer(x, None, reordered.rewind(back))[0], layer(x, None, copied.rewind(back))[0])


@torch.no_grad()
def test_a_ring_is_reordered_with_its_rows():
    layer = randomise(SelfAttention(8, 4, window=2))
    x, more = randn(4, 3, 8), randn(4, len(ORDERS), 8, seed=1)
    _, state = layer(x, None, layer.initial_state(4, capacity=200, like=x))
    copied = copy_state(state)
    torch.testing.assert_close(steps(layer, state, reorder, more)[0], steps(layer, copied, select_rows, more)[0])
