import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.decoding.stepper import prefill
from tests.decoding.steppers import Attending, Recurrent, padded

ROWS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=4)


@settings(deadline=None, max_examples=40)
@given(ROWS, st.integers(1, 10), st.sampled_from([Recurrent, Attending]))
def test_prefill_of_ragged_prompts_in_any_chunks_is_each_prompt_alone_in_one(rows, chunk, family):
    stepper = family(4, seed=1)
    tokens, mask = padded(rows)
    last, state = prefill(stepper, tokens, mask, stepper.initial_state(len(rows), 10), chunk)
    following, _ = stepper(torch.full((len(rows), 1), 2), None, state)
    for i, row in enumerate(rows):
        alone, _ = stepper(torch.tensor([[*row, 2]]), None, stepper.initial_state(1, 10))
        torch.testing.assert_close(last[i], alone[0, -2])
        torch.testing.assert_close(following[i, 0], alone[0, -1])


def test_prefill_stops_at_the_longest_row_and_never_holds_more_than_a_chunk():
    lengths = []

    class Watched(Recurrent):
        def __call__(self, tokens, mask, state):
            lengths.append((tokens.shape[1], mask is None))
            return super().__call__(tokens, mask, state)

    stepper = Watched(3, seed=0)
    mask = torch.arange(20) < torch.tensor([[7], [4]])
    prefill(stepper, torch.zeros(2, 20, dtype=torch.long), mask, stepper.initial_state(2), chunk=3)
    assert lengths == [(3, True), (3, False), (1, False)]


def test_a_prompt_without_a_token_is_refused():
    stepper = Recurrent(3, seed=0)
    mask = torch.tensor([[True, True], [False, False]])
    with pytest.raises(UserError, match=r"^row 1 of the prompt is empty; each row needs at least one token, such as the start token$"):
        prefill(stepper, torch.zeros(2, 2, dtype=torch.long), mask, stepper.initial_state(2))
    with pytest.raises(UserError, match="^row 0 of the prompt is empty"):
        prefill(stepper, torch.zeros(2, 0, dtype=torch.long), None, stepper.initial_state(2))


def test_padding_on_the_left_is_refused():
    stepper = Recurrent(3, seed=0)
    mask = torch.tensor([[True, True], [False, True]])
    with pytest.raises(UserError, match=r"^row 1 of the prompt has padding before a real token; pad on the right$"):
        prefill(stepper, torch.zeros(2, 2, dtype=torch.long), mask, stepper.initial_state(2))
