import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.state import leaves
from clew.decoding.ensemble import Ensemble
from clew.decoding.filters import FILTERS
from clew.decoding.forced_end import ForcedEnd
from clew.decoding.sliding import Sliding
from clew.decoding.stepper import Extent, drop_padding, picked, prefill, prompt_extent, read_at, start_of
from clew.decoding.taped_calls import TapedCalls
from tests.decoding.steppers import Attending, Recurrent, padded
from tests.decoding.test_engine import FAMILIES, VOCABULARY, model
from tests.decoding.test_filters import OPTIONS


class Picking(Recurrent):
    """Records the number of positions for which each call returns log-probabilities."""

    def __init__(self, seed):
        super().__init__(5, seed)
        self.lengths = []

    def __call__(self, tokens, mask, state, at=None):
        log_probs, state = super().__call__(tokens, mask, state)
        log_probs = picked(log_probs, at)
        self.lengths.append(log_probs.shape[1])
        return log_probs, state


AROUND = {
    **{name: lambda inner, name=name: FILTERS[name](inner, **OPTIONS[name]) for name in FILTERS},
    "ensemble": lambda inner: Ensemble([inner, Recurrent(5, seed=8)]),
    "forced end": lambda inner: ForcedEnd(inner, end=3, max_new=3, prompt=4),
    "sliding": lambda inner: Sliding(inner, limit=6, keep=2),
    "taped": TapedCalls,
}
ROWS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=4)


@settings(deadline=None, max_examples=40)
@given(ROWS, st.integers(1, 10), st.sampled_from([Recurrent, Attending]))
def test_prefilling_ragged_prompts_in_any_chunks_equals_each_prompt_alone(rows, chunk, family):
    stepper = family(4, seed=1)
    tokens, mask = padded(rows)
    last, state = prefill(stepper, tokens, mask, stepper.initial_state(len(rows), 10), chunk)
    following, _ = stepper(torch.full((len(rows), 1), 2), None, state)
    for i, row in enumerate(rows):
        alone, _ = stepper(torch.tensor([[*row, 2]]), None, stepper.initial_state(1, 10))
        torch.testing.assert_close(last[i], alone[0, -2])
        torch.testing.assert_close(following[i, 0], alone[0, -1])


def test_a_prompt_is_cut_to_its_longest_row_without_a_mask_if_rows_are_equal():
    tokens = torch.arange(10).view(2, 5)
    for lengths, expected in (([3, 3], None), ([3, 1], [[True] * 3, [True, False, False]])):
        mask = torch.arange(5) < torch.tensor(lengths)[:, None]
        extent = prompt_extent(tokens, mask)
        assert extent == (min(lengths), 3)
        cut, remaining_mask = drop_padding(tokens, mask, extent)
        assert cut.tolist() == [[0, 1, 2], [5, 6, 7]]
        assert (None if remaining_mask is None else remaining_mask.tolist()) == expected
    assert prompt_extent(tokens, None) == (5, 5)


def test_extents_that_fill_the_same_chunks_are_equal():
    assert Extent(9, 20).in_chunks(4) == Extent(11, 20).in_chunks(4) == (8, 20)
    assert Extent(9, 9).in_chunks(4) == (9, 9)


def test_a_first_state_can_be_remade_from_its_tensors():
    task = model("gpt")
    start = start_of(task.stepper(), None, 3, 20)
    assert start.made_from == () and start.numbers == (3, 20)
    remade, plain = start.state(start.made_from), task.stepper().initial_state(3, 20)
    assert all(map(torch.equal, leaves(remade), leaves(plain)))
    assert start_of(task.stepper(), remade, 3, 20)[::2] == (remade, ())


def test_prefill_stops_at_the_longest_row_and_never_reads_more_than_a_chunk():
    lengths = []

    class Watched(Recurrent):
        def __call__(self, tokens, mask, state):
            lengths.append((tokens.shape[1], mask is None))
            return super().__call__(tokens, mask, state)

    stepper = Watched(3, seed=0)
    mask = torch.arange(20) < torch.tensor([[7], [4]])
    prefill(stepper, torch.zeros(2, 20, dtype=torch.long), mask, stepper.initial_state(2), chunk=3)
    assert lengths == [(3, True), (3, False), (1, False)]


def test_a_prompt_without_tokens_is_rejected():
    stepper = Recurrent(3, seed=0)
    mask = torch.tensor([[True, True], [False, False]])
    with pytest.raises(
        UserError, match=r"^row 1 of the prompt is empty; each row needs at least one token, such as the start token$"
    ):
        prefill(stepper, torch.zeros(2, 2, dtype=torch.long), mask, stepper.initial_state(2))
    with pytest.raises(UserError, match="^row 0 of the prompt is empty"):
        prefill(stepper, torch.zeros(2, 0, dtype=torch.long), None, stepper.initial_state(2))


def test_padding_on_the_left_is_rejected():
    stepper = Recurrent(3, seed=0)
    mask = torch.tensor([[True, True], [False, True]])
    with pytest.raises(UserError, match=r"^row 1 of the prompt has padding before a real token; pad on the right$"):
        prefill(stepper, torch.zeros(2, 2, dtype=torch.long), mask, stepper.initial_state(2))


@pytest.mark.parametrize("name", AROUND)
@settings(deadline=None, max_examples=25)
@given(
    rows=ROWS, places=st.lists(st.floats(0, 1), min_size=1, max_size=3), cut=st.integers(0, 9), seed=st.integers(0, 99)
)
def test_requested_positions_equal_those_of_the_whole_chunk(name, rows, places, cut, seed):
    tokens, mask = padded(rows)
    at = torch.tensor([[round(place * (len(row) - 1)) for place in places] for row in rows])
    inner = Picking(seed)
    stepper = AROUND[name](inner)
    for real in (None, mask):
        state, expected_state = (stepper.initial_state(len(rows), 40) for _ in range(2))
        for _ in range(2):  # the second chunk continues from a state
            inner.lengths.clear()
            log_probs, state = read_at(stepper, tokens, real, state, at)
            assert set(inner.lengths) <= {1, len(places)}  # one at which a sliding window restarts
            expected, expected_state = stepper(tokens, real, expected_state)
            torch.testing.assert_close(log_probs, picked(expected, at))
            torch.testing.assert_close(leaves(state), leaves(expected_state))


@pytest.mark.parametrize("name", AROUND)
@settings(deadline=None, max_examples=10)
@given(ROWS, st.integers(2, 10))
def test_prefill_requests_one_position_per_row_through_every_stepper(name, rows, chunk):
    inner = Picking(seed=1)
    stepper = AROUND[name](inner)
    tokens, mask = padded([[*row, 0, 1] for row in rows])
    last, _ = prefill(stepper, tokens, mask, stepper.initial_state(len(rows), 16), chunk)
    assert set(inner.lengths) == {1}
    for i, row in enumerate(rows):
        alone, _ = stepper(torch.tensor([[*row, 0, 1]]), None, stepper.initial_state(1, 16))
        torch.testing.assert_close(last[i], alone[0, -1])


def test_a_subclass_whose_call_takes_no_positions_is_supported():
    class Halved(Picking):
        def __call__(self, tokens, mask, state):
            log_probs, state = super().__call__(tokens, mask, state)
            return log_probs / 2, state

    tokens, at = torch.tensor([[0, 1, 2], [3, 1, 0]]), torch.tensor([[2], [0]])
    stepper = Halved(seed=2)
    log_probs, _ = read_at(stepper, tokens, None, stepper.initial_state(2), at)
    whole, _ = stepper(tokens, None, stepper.initial_state(2))
    assert torch.equal(log_probs, whole[[0, 1], [2, 0]][:, None])


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_a_language_model_applies_its_output_layer_to_one_vector_per_row(family, monkeypatch):
    task, linear, num_vectors = model(family), torch.nn.functional.linear, []

    def counted(x, weight, bias=None):
        if weight is task.output_weight:
            num_vectors.append(x.shape[:-1].numel())
        return linear(x, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", counted)
    tokens, mask = torch.randint(VOCABULARY, (3, 20)), torch.arange(20) < torch.tensor([[20], [13], [1]])
    stepper = task.stepper()
    last, state = prefill(stepper, tokens, mask, stepper.initial_state(3, 21), chunk=8)
    assert num_vectors == [3, 3, 3]
    expected, after = stepper(tokens, mask, stepper.initial_state(3, 21))
    torch.testing.assert_close(last, expected[[0, 1, 2], [19, 12, 0]])
    following, expected = (stepper(torch.zeros(3, 1, dtype=torch.long), None, each)[0] for each in (state, after))
    torch.testing.assert_close(following, expected)
