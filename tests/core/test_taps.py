import threading

import pytest
import torch
from torch import nn

from clew.core.taps import Tap, Watch, is_watched, reordered, steps_of_a_loop, watched, watching


def test_a_tap_returns_its_input():
    x = torch.ones(1)
    assert Tap()(x) is x


def test_a_value_can_be_watched_and_changed():
    tap, x, recorded = Tap(), torch.ones(1), []
    with watching({tap: recorded.append}):
        assert tap(x) is x
    with watched({tap: Watch((lambda value: value + 1,))}):
        assert tap(x).tolist() == [2.0]
    assert recorded[0] is x
    assert len(recorded) == 1


def test_watching_ends_with_its_context_even_by_an_exception():
    tap, recorded = Tap(), []
    with pytest.raises(RuntimeError), watching({tap: recorded.append}):
        raise RuntimeError
    tap(torch.ones(1))
    assert recorded == []


def test_nested_contexts_see_the_changed_values():
    tap, recorded = Tap(), []
    with watched({tap: Watch((lambda x: x + 1,), (lambda x: recorded.append(("outer", x.item())),))}):
        with watched({tap: Watch((lambda x: 10 * x,), (lambda x: recorded.append(("inner", x.item())),))}):
            tap(torch.ones(1))
        tap(torch.ones(1))
    assert recorded == [("outer", 20.0), ("inner", 20.0), ("outer", 2.0)]


def test_watching_is_local_to_a_thread():
    tap, recorded = Tap(), []
    with watching({tap: recorded.append}):
        thread = threading.Thread(target=lambda: tap(torch.ones(1)))
        thread.start()
        thread.join()
    assert recorded == []


def test_a_tap_in_a_loop_is_recorded_once_stacked_on_a_length_axis():
    tap, recorded = Tap(), []
    with watching({tap: recorded.append}), steps_of_a_loop():
        for step in range(3):
            tap(torch.full((2, 1), float(step)))
        assert recorded == []
    assert recorded[0].tolist() == [[[0.0], [1.0], [2.0]]] * 2


def test_a_backward_loop_is_recorded_in_reading_order():
    tap, recorded = Tap(), []
    with watching({tap: recorded.append}), reordered(lambda x: x.flip(1)), steps_of_a_loop():
        for step in range(3):
            tap(torch.full((1, 1), float(step)))
    assert recorded[0][0, :, 0].tolist() == [2.0, 1.0, 0.0]


def test_backwards_inside_backwards_is_forwards():
    tap, recorded = Tap(), []
    with (
        watching({tap: recorded.append}),
        reordered(lambda x: x.flip(1)),
        reordered(lambda x: x.flip(1)),
        steps_of_a_loop(),
    ):
        for step in range(3):
            tap(torch.full((1, 1), float(step)))
    assert recorded[0][0, :, 0].tolist() == [0.0, 1.0, 2.0]


def test_a_change_applies_at_every_step_of_a_loop():
    tap, x = Tap(), torch.ones(1)
    with watched({tap: Watch((lambda x: 2 * x,))}), steps_of_a_loop():
        for _ in range(3):
            x = tap(x)
    assert x.tolist() == [8.0]


def test_a_module_counts_as_watched_if_a_tap_inside_it_is():
    inner = nn.Sequential(Tap(), nn.Identity())
    other_module = nn.Sequential(Tap())
    assert not is_watched(inner)
    with watching({inner[0]: lambda x: None}):
        assert is_watched(inner)
        assert is_watched(nn.Sequential(inner))
        assert not is_watched(other_module)


def test_a_tap_outside_a_backward_loop_is_watched_and_changed_in_reading_order():
    """Inside the layer the last position comes first; every axis of positions is reversed."""
    tap, recorded = Tap(length_axes=(2, 3)), []
    x = torch.arange(4.0).view(1, 1, 2, 2)

    def first_query_alone(weights: torch.Tensor) -> torch.Tensor:
        return weights * torch.tensor([[1.0], [0.0]])

    with watched({tap: Watch((first_query_alone,), (recorded.append,))}), reordered(lambda x: x.flip(1)):
        y = tap(x)
    assert recorded[0].tolist() == [[[[3.0, 2.0], [0.0, 0.0]]]]
    assert y.tolist() == [[[[0.0, 0.0], [2.0, 3.0]]]]


def test_a_loop_may_join_its_steps_differently():
    tap, recorded = Tap(), []
    with watching({tap: recorded.append}), steps_of_a_loop(lambda steps: torch.cat(list(steps))):
        for step in (1, 2):
            tap(torch.full((step,), float(step)))
    assert recorded[0].tolist() == [1.0, 2.0, 2.0]
