"""Chunks that are read from tapes, at any position."""

import weakref

import pytest
import torch

from clew.core.state import copy_state
from clew.decoding.engine import _graphs, forget_graphs
from clew.decoding.tape import Tape
from clew.decoding.taped_calls import TapedCalls
from tests.decoding.test_engine import FAMILIES, VOCABULARY, model


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_a_chunk_read_from_a_tape_equals_the_stepper(family, monkeypatch):
    task, steps, following = model(family), [], Tape.next_step
    monkeypatch.setattr(Tape, "next_step", lambda tape, ahead: steps.append(ahead) or following(tape, ahead))
    plain, taped = task.stepper(), TapedCalls(task.stepper())
    state = plain.initial_state(2, 180)
    generator = torch.Generator().manual_seed(1)
    for number in range(40):
        length = (3, 1, 5)[number % 3]  # so that chunks of one length occur at many distances
        tokens = torch.randint(VOCABULARY, (2, length), generator=generator)
        expected, after = plain(tokens, None, copy_state(state))
        log_probs, _ = taped(tokens, None, copy_state(state))
        torch.testing.assert_close(log_probs, expected)
        state = after
    assert len(steps) >= 9, "chunks of every length are taped"


@torch.inference_mode()
def test_positions_of_a_chunk_are_selected_on_the_tape(monkeypatch):
    task, steps, following = model("gpt"), [], Tape.next_step
    monkeypatch.setattr(Tape, "next_step", lambda tape, ahead: steps.append(ahead) or following(tape, ahead))
    plain, taped = task.stepper(), TapedCalls(task.stepper())
    state, generator = plain.initial_state(2, 180), torch.Generator().manual_seed(1)
    for _ in range(30):
        tokens, at = (torch.randint(high, (2, width), generator=generator) for high, width in ((VOCABULARY, 3), (3, 1)))
        expected, after = plain(tokens, None, copy_state(state))
        log_probs, _ = taped(tokens, None, copy_state(state), at)
        torch.testing.assert_close(log_probs[:, 0], expected[[0, 1], at[:, 0]])
        state = after
    assert len(steps) >= 9


@torch.inference_mode()
def test_a_chunk_with_a_mask_is_read_without_a_tape():
    task = model("gpt")
    tokens, mask = (
        torch.randint(VOCABULARY, (2, 4)),
        torch.tensor([[True, True, True, True], [True, True, False, False]]),
    )
    taped, plain = (
        stepper(tokens, mask, stepper.initial_state(2, 9))[0]
        for stepper in (TapedCalls(task.stepper()), task.stepper())
    )
    torch.testing.assert_close(taped[mask], plain[mask])


@torch.inference_mode()
def test_held_tapes_are_released_with_their_holder():
    forget_graphs()
    task, tokens = model("gpt"), torch.randint(VOCABULARY, (1, 3))
    for _ in range(3):
        taped = TapedCalls(task.stepper())
        place, state = weakref.ref(taped), taped.initial_state(1, 180)
        for _ in range(20):
            _, state = taped(tokens, None, state)
        assert [tape.is_taken for kept in _graphs.values() for tape in kept] == [True]
        del taped
        assert place() is None
        assert [tape.is_taken for kept in _graphs.values() for tape in kept] == [
            False
        ]  # so that the next one uses the same


@torch.inference_mode()
def test_a_new_text_is_read_with_the_current_weights():
    task, tokens = model("gpt"), torch.randint(VOCABULARY, (1, 3))
    taped, plain = TapedCalls(task.stepper()), task.stepper()
    for scale in (1.0, 2.0):
        for parameter in task.parameters():
            parameter.data = scale * parameter.data
        state, plain_state = taped.initial_state(1, 180), plain.initial_state(1, 180)
        for _ in range(20):
            actual, state = taped(tokens, None, state)
            expected, plain_state = plain(tokens, None, plain_state)
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
