import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.decoding.beam import beam_search
from clew.decoding.ensemble import Ensemble
from clew.decoding.filters import FilterState, NoRepeatNgram, TopK
from clew.decoding.forced_end import ForcedEnd, ForcedState
from clew.decoding.history import empty_history
from clew.decoding.sampling import greedy_sequences
from clew.decoding.sliding import Sliding, SlidingState
from clew.decoding.stepper import ASKS_THE_HOST, MANY, calm_steps
from tests.decoding.steppers import Attending, Recurrent, padded, probs_after


def window(row, limit, keep):
    """The remaining tokens of a row read token by token: a full window shrinks to its last `keep` before the next
    token."""
    remaining = []
    for token in row:
        remaining = [*(remaining[-keep:] if len(remaining) == limit else remaining), token]
    return remaining


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=17), min_size=1, max_size=3),
    cuts=st.sets(st.integers(1, 16)),
    limit_and_keep=st.integers(2, 6).flatmap(lambda limit: st.tuples(st.just(limit), st.integers(1, limit - 1))),
    family=st.sampled_from([lambda limit: Recurrent(5, 7, positions=limit), lambda limit: Attending(5, 7)]),
)
def test_every_position_equals_the_inner_stepper_on_the_last_tokens(rows, cuts, limit_and_keep, family):
    limit, keep = limit_and_keep
    inner = family(limit)
    stepper = Sliding(inner, limit, keep)
    tokens, mask = padded(rows)
    state = stepper.initial_state(len(rows))
    edges = [0, *sorted(cut for cut in cuts if cut < tokens.shape[1]), tokens.shape[1]]
    pieces = []
    for start, stop in zip(edges, edges[1:], strict=False):
        log_probs, state = stepper(tokens[:, start:stop], mask[:, start:stop], state)
        pieces.append(log_probs)
    probs = torch.cat(pieces, 1).exp()
    for i, row in enumerate(rows):
        for t in range(len(row)):
            assert probs[i, t].tolist() == pytest.approx(probs_after(inner, window(row[: t + 1], limit, keep)))


def test_a_row_that_reads_nothing_is_unaffected_by_the_restart_of_another():
    inner = Recurrent(5, 7, positions=3)
    stepper = Sliding(inner, limit=3, keep=1)
    _, state = stepper(*padded([[0, 1, 2, 3], []]), stepper.initial_state(2))
    log_probs, _ = stepper(torch.tensor([[4], [2]]), None, state)
    assert log_probs[0, 0].exp().tolist() == pytest.approx(probs_after(inner, [2, 3, 4]))
    assert log_probs[1, 0].exp().tolist() == pytest.approx(probs_after(inner, [2]))


def test_a_row_ended_at_a_full_window_causes_no_restart():
    calls = []

    class Watched(Recurrent):
        def __call__(self, tokens, mask, state):
            calls.append(tokens.shape[1])
            return super().__call__(tokens, mask, state)

    stepper = Sliding(Watched(5, 7, positions=6), limit=6, keep=1)
    _, state = stepper(*padded([[0, 1, 2, 3, 4, 0], [2]]), stepper.initial_state(2))
    for token in range(4):
        _, state = stepper(torch.tensor([[1], [token]]), torch.tensor([[False], [True]]), state)
    assert calls == [6, 1, 1, 1, 1]


def test_generation_continues_past_the_last_position():
    inner = Recurrent(5, 3, positions=4)
    generated = greedy_sequences(Sliding(inner, limit=4, keep=2), torch.tensor([[0, 1, 2]]), max_new=9)
    row = [0, 1, 2]
    for token in generated.tokens[0].tolist():
        probs = probs_after(inner, window(row, 4, 2))
        assert token == probs.index(max(probs))
        row.append(token)


def test_beams_also_reorder_the_tokens_read_by_a_restart():
    inner = Recurrent(5, 11, positions=3)
    stepper = Sliding(inner, limit=3, keep=2)
    hypotheses = beam_search(stepper, torch.tensor([[0, 1]]), beams=4, max_new=6, end=4, n_best=4)
    for tokens, length, total in zip(
        hypotheses.tokens[0].tolist(),
        hypotheses.lengths[0].tolist(),
        hypotheses.log_probs[0].exp().tolist(),
        strict=True,
    ):
        probability = 1.0
        for t in range(length):
            probability *= probs_after(inner, window([0, 1, *tokens[:t]], 3, 2))[tokens[t]]
        assert total == pytest.approx(probability)


@pytest.mark.parametrize("keep", [0, 8])
def test_a_restart_must_leave_room(keep):
    with pytest.raises(UserError) as error:
        Sliding(Recurrent(3, 0), limit=8, keep=keep)
    assert (
        str(error.value)
        == f"keep ({keep}) must be at least 1 and below limit (8), so that a restart leaves room for new tokens"
    )


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 20), min_size=1, max_size=3),
    limit_and_keep=st.integers(2, 6).flatmap(lambda limit: st.tuples(st.just(limit), st.integers(1, limit - 1))),
)
def test_calm_steps_end_where_the_first_row_restarts(lengths, limit_and_keep):
    limit, keep = limit_and_keep
    stepper = Sliding(Recurrent(5, 7), limit, keep)
    state = SlidingState(None, empty_history(len(lengths))._replace(lengths=torch.tensor(lengths)))
    rows = [[0] * length for length in lengths]
    calm = 0
    while all(len(window([*row, 0], limit, keep)) == len(window(row, limit, keep)) + 1 for row in rows):
        rows, calm = [[*row, 0] for row in rows], calm + 1
    assert stepper.calm_steps(state) == calm
    assert calm_steps(TopK(stepper, k=2), state) == calm
    assert calm_steps(NoRepeatNgram(stepper, n=2), FilterState(state, empty_history(len(lengths)))) == calm
    forced = ForcedEnd(Ensemble([Recurrent(5, 7), stepper]), end=1, max_new=3, prompt=1)
    assert calm_steps(forced, ForcedState((None, state), torch.zeros(1))) == calm


def test_a_stepper_that_needs_the_host_at_unknown_steps_is_never_calm():
    class Asking:
        signature = ("asking", ASKS_THE_HOST)

    assert calm_steps(Asking(), None) == 0
    assert calm_steps(Recurrent(5, 7), None) == MANY
