"""Long computations pause, and listeners may stop them."""

import pytest
import torch

from clew.core.pauses import on_pause, pause
from clew.decoding.sampling import greedy
from clew.decoding.tape import Tape
from tests.decoding.test_engine import model


def test_a_listener_is_called_at_pauses_until_it_is_removed():
    heard: list[int] = []
    stop = on_pause(lambda: heard.append(1))
    pause()
    stop()
    pause()
    assert heard == [1]


def test_a_listener_can_end_steps_that_call_no_module(monkeypatch):
    class Enough(Exception):
        pass

    tokens, taped, following = [], [], Tape.next_step
    monkeypatch.setattr(Tape, "next_step", lambda tape, ahead: taped.append(len(tokens)) or following(tape, ahead))

    def listen() -> None:
        if len(tokens) > 20:
            raise Enough

    stop = on_pause(listen)
    try:
        with pytest.raises(Enough):
            for token in greedy(model("gpt").stepper(), torch.zeros(1, 1, dtype=torch.long), max_new=60):
                tokens.append(token)
    finally:
        stop()
    assert len(tokens) == 21 and taped[-1] == 20
