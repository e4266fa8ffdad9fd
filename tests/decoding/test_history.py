import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.core.state import select_rows
from clew.decoding.history import ABSENT, empty_history
from tests.decoding.steppers import padded

CHUNKS = st.integers(1, 3).flatmap(
    lambda rows: st.lists(
        st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=rows, max_size=rows).filter(any),
        min_size=1,
        max_size=4,
    )
)


def read(chunks):
    history = empty_history(len(chunks[0]))
    for chunk in chunks:
        history, slots = history.extend(*padded(chunk))
    return history, slots


def real(history):
    assert all(
        token == ABSENT
        for row, n in zip(history.tokens.tolist(), history.lengths.tolist(), strict=True)
        for token in row[n:]
    )
    return [row[:n] for row, n in zip(history.tokens.tolist(), history.lengths.tolist(), strict=True)]


@given(CHUNKS)
def test_a_history_is_the_concatenation_of_each_rows_tokens(chunks):
    history, slots = read(chunks)
    rows = [sum(parts, []) for parts in zip(*chunks, strict=True)]
    assert real(history) == rows
    assert slots[:, 0].tolist() == [len(row) - len(last) for row, last in zip(rows, chunks[-1], strict=True)]


@given(CHUNKS, st.integers(0, 5))
def test_rewinding_keeps_only_the_first_tokens(chunks, length):
    history, _ = read(chunks)
    assert real(history.rewind(torch.full_like(history.lengths, length))) == [row[:length] for row in real(history)]


def test_rows_of_a_history_can_be_selected():
    history, _ = read([[[1, 2, 3], [4]]])
    assert real(select_rows(history, torch.tensor([1, 0, 1]))) == [[4], [1, 2, 3], [4]]
