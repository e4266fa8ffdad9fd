"""Long work pauses, and whoever listens may end it."""

import pytest
import torch

from clew.core.pauses import on_pause, pause
from clew.decoding.sampling import greedy
from tests.decoding.test_engine import model


def test_a_listener_hears_pauses_until_it_stops():
    heard: list[int] = []
    stop = on_pause(lambda: heard.append(1))
    pause()
    stop()
    pause()
    assert heard == [1]


def test_a_listener_can_end_steps_that_call_no_module():
    class Enough(Exception):
        pass

    task, tokens = model("gpt"), []
    modules: list[str] = []

    def listen() -> None:
        if len(tokens) > 20:
            raise Enough

    stop = on_pause(listen)
    hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, _: modules.append(type(module).__name__))
    try:
        with pytest.raises(Enough):
            for token in greedy(task.stepper(), torch.zeros(1, 1, dtype=torch.long), max_new=60):
                tokens.append(token)
                if len(tokens) == 15:
                    modules.clear()
    finally:
        stop()
        hook.remove()
    assert len(tokens) == 21 and not modules
