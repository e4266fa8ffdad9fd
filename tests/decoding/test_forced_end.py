"""Forced ends, computed by hand on a transition matrix."""

import math

import pytest
import torch

from clew.core.errors import UserError
from clew.decoding.beam import beam_search
from clew.decoding.forced_end import ForcedEnd
from clew.decoding.sampling import greedy_sequences
from tests.decoding.steppers import Transition

START, YES, END = range(3)
FOREVER = Transition([[[0, 0.9, 0.1]] * 3])
PROMPT = torch.tensor([[START], [START]])


def test_the_last_token_is_the_end_at_no_cost_for_each_row_at_its_own_limit() -> None:
    limits = torch.tensor([2, 4])
    forced = ForcedEnd(FOREVER, end=END, max_new=limits, prompt=1)
    greedy = greedy_sequences(forced, PROMPT, max_new=4, end=END)
    assert greedy.tokens.tolist() == [[YES, END, END, END], [YES, YES, YES, END]]
    best = beam_search(forced, PROMPT, beams=1, max_new=limits, end=END, length_penalty=0.0)
    assert best.lengths[:, 0].tolist() == [2, 4]
    assert best.log_probs[:, 0].tolist() == pytest.approx([math.log(0.9), 3 * math.log(0.9)])


def test_a_prompt_in_one_chunk_equals_its_tokens_one_by_one() -> None:
    prompt = torch.tensor([[START, YES, YES]])
    forced = ForcedEnd(FOREVER, end=END, max_new=1, prompt=3)
    whole, _ = forced(prompt, None, forced.initial_state(1))
    state, parts = forced.initial_state(1), []
    for token in prompt.T:
        log_probs, state = forced(token[:, None], None, state)
        parts.append(log_probs)
    assert torch.equal(whole, torch.cat(parts, 1))
    assert whole[0, -1].tolist() == [-math.inf, -math.inf, 0.0] and whole[0, 0].exp().tolist() == pytest.approx(
        [0, 0.9, 0.1]
    )


def test_an_end_can_be_forced_only_with_an_end_token() -> None:
    with pytest.raises(
        UserError,
        match="forced_end needs an end token, and there is none here; set decoding.stop, or decoding.forced_end=false",
    ):
        ForcedEnd(FOREVER, end=None, max_new=2, prompt=1)


def test_with_early_stopping_only_the_best_candidates_of_a_step_can_end() -> None:
    # After one step: continue (.6), end (.4). A beam of one that considers both candidates ends at once; one that
    # considers only the best continues.
    stepper = Transition([[[0, 0.6, 0.4]] * 3, [[0, 0.5, 0.5]] * 3])
    with_early_stop = beam_search(stepper, PROMPT[:1], beams=1, max_new=2, end=END, length_penalty=0.0)
    without_early_stop = beam_search(
        stepper, PROMPT[:1], beams=1, max_new=2, end=END, length_penalty=0.0, early_stop="never"
    )
    assert with_early_stop.tokens[0, 0].tolist() == [END]
    assert without_early_stop.lengths.item() == 2 and without_early_stop.log_probs.item() == pytest.approx(
        math.log(0.3)
    )
