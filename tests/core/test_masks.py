import pytest
import torch

from clew.core.errors import UserError
from clew.core.masks import (
    advance,
    document_starts,
    has_documents,
    last_real,
    new_clock,
    real_positions,
    reverse_rows,
    row_lengths,
)

BOOLEAN = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])


def x(batch, length):
    return torch.zeros(batch, length, 2)


def test_without_a_mask_positions_count_from_the_start():
    places, clock = advance(None, None, x(2, 3))
    assert places.positions.tolist() == [[0, 1, 2]]
    assert clock.count.tolist() == [3, 3]


def test_positions_continue_where_the_previous_chunk_ended_in_each_row():
    _, clock = advance(None, BOOLEAN, x(3, 3))
    assert clock.count.tolist() == [3, 1, 0]
    places, clock = advance(clock, None, x(3, 2))
    assert places.positions.tolist() == [[3, 4], [1, 2], [0, 1]]
    assert clock.count.tolist() == [5, 3, 2]


def test_padding_has_no_index_and_does_not_move_the_clock():
    places, clock = advance(None, BOOLEAN, x(3, 3))
    assert places.index.tolist() == [[0, 1, 2], [0, -1, -1], [-1, -1, -1]]
    assert places.positions.tolist() == [[0, 1, 2], [0, 0, 0], [0, 0, 0]]
    assert clock.count.tolist() == [3, 1, 0]


def test_documents_restart_positions_and_continue_over_chunks():
    mask = torch.tensor([[1, 1, 2, 2, 2], [5, 6, 7, 0, 0], [0, 0, 0, 0, 0]])
    places, clock = advance(None, mask, x(3, 5))
    assert places.index.tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, -1, -1], [-1] * 5]
    assert places.positions[0].tolist() == [0, 1, 0, 1, 2]
    assert places.positions[1, :3].tolist() == [0, 0, 0]
    assert clock.count.tolist() == [5, 3, 0]
    assert clock.start.tolist() == [2, 2, 0]
    assert clock.document.tolist() == [2, 7, 0]

    places, clock = advance(clock, torch.tensor([[2, 3], [7, 7], [4, 0]]), x(3, 2))
    assert places.positions.tolist() == [[3, 0], [1, 2], [0, 0]]
    assert clock.count.tolist() == [7, 5, 1]
    assert clock.start.tolist() == [6, 2, 0]
    assert clock.document.tolist() == [3, 7, 4]

    places, clock = advance(clock, None, x(3, 2))
    assert places.positions.tolist() == [[1, 2], [3, 4], [1, 2]]
    assert clock.document.tolist() == [3, 7, 4]


def test_an_empty_chunk_does_not_change_the_clock():
    _, before = advance(None, torch.tensor([[1, 2]]), x(1, 2))
    for mask in (None, torch.zeros(1, 0, dtype=torch.bool), torch.zeros(1, 0, dtype=torch.long)):
        places, after = advance(before, mask, x(1, 0))
        assert places.index.shape == (1, 0)
        assert [leaf.tolist() for leaf in after] == [leaf.tolist() for leaf in before]


def test_a_new_clock_has_read_nothing():
    assert [leaf.tolist() for leaf in new_clock(2, torch.device("cpu"))] == [[0, 0]] * 3


def test_a_document_starts_where_the_number_changes_and_never_on_padding():
    mask = torch.tensor([[3, 3, 4, 3, 0], [1, 0, 0, 0, 0]])
    starts = document_starts(mask, torch.tensor([3, 0]))
    assert starts.tolist() == [[False, False, True, True, False], [True, False, False, False, False]]


def test_both_kinds_of_mask_mark_the_real_positions():
    numbers = torch.tensor([[4, 2, 0]])
    assert has_documents(numbers)
    assert not has_documents(BOOLEAN)
    assert not has_documents(None)
    assert real_positions(numbers).tolist() == [[True, True, False]]
    assert real_positions(BOOLEAN) is BOOLEAN
    assert real_positions(None) is None
    assert row_lengths(numbers).tolist() == [2]
    assert row_lengths(BOOLEAN).tolist() == [3, 1, 0]


def test_the_last_real_value_is_each_rows_own():
    values = torch.arange(9.0).view(3, 3, 1)
    otherwise = torch.full((3, 1), -1.0)
    assert last_real(values, BOOLEAN, otherwise).tolist() == [[2.0], [3.0], [-1.0]]
    assert last_real(values, None, otherwise).tolist() == [[2.0], [5.0], [8.0]]
    assert last_real(values[:, :0], None, otherwise) is otherwise


def test_reversing_affects_real_positions_and_leaves_padding():
    values = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    mask = torch.tensor([[True, True, True], [True, True, False], [False, False, False]])
    assert reverse_rows(values, mask).tolist() == [[3, 2, 1], [5, 4, 6], [7, 8, 9]]
    assert reverse_rows(reverse_rows(values, mask), mask).tolist() == values.tolist()
    assert reverse_rows(values[..., None], None)[..., 0].tolist() == values.flip(1).tolist()


def test_a_clock_cannot_be_rewound_past_the_start_of_its_document():
    _, clock = advance(None, torch.tensor([[1, 1, 2, 2], [1, 1, 1, 1]]), torch.zeros(2, 4, 1))
    assert clock.rewind(torch.tensor([3, 1])).count.tolist() == [3, 1]
    with pytest.raises(
        UserError,
        match="row 0 began its document at position 2 and cannot be rewound to 1, before it; keep a copy_state",
    ):
        clock.rewind(torch.tensor([1, 1]))
