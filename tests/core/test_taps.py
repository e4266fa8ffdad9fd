import threading

import pytest
import torch
from torch import nn

from clew.core.taps import Tap, Watch, is_watched, reordered, steps_of_a_loop, watched, watching


def test_a_tap_hands_on_what_it_is_given():
    x = torch.ones(1)
    assert Tap()(x) is x


def test_a_value_is_seen_and_changed():
    tap, x, seen = Tap(), torch.ones(1), []
    with watching({tap: seen.append}):
        assert tap(x) is x
    with watched({tap: Watch((lambda value: value + 1,))}):
        assert tap(x).tolist() == [2.0]
    assert seen[0] is x
    assert len(seen) == 1


def test_watching_ends_with_its_context_even_by_an_exception():
    tap, seen = Tap(), []
    with pytest.raises(RuntimeError), watching({tap: seen.append}):
        raise RuntimeError
    tap(torch.ones(1))
    assert seen == []


def test_contexts_nest_and_each_sees_what_the_changes_made():
    tap, seen = Tap(), []
    with watched({tap: Watch((lambda x: x + 1,), (lambda x: seen.append(("outer", x.item())),))}):
        with watched({tap: Watch((lambda x: 10 * x,), (lambda x: seen.append(("inner", x.item())),))}):
            tap(torch.ones(1))
        tap(torch.ones(1))
    assert seen == [("outer", 20.0), ("inner", 20.0), ("outer", 2.0)]


def test_another_thread_does_not_see_what_is_watched_here():
    tap, seen = Tap(), []
    with watching({tap: seen.append}):
        thread = threading.Thread(target=lambda: tap(torch.ones(1)))
        thread.start()
        thread.join()
    assert seen == []


def test_a_tap_in_a_loop_is_shown_once_stacked_on_a_length_axis():
    tap, seen = Tap(), []
    with watching({tap: seen.append}), steps_of_a_loop():
        for step in range(3):
            tap(torch.full((2, 1), float(step)))
        assert seen == []
    assert seen[0].tolist() == [[[0.0], [1.0], [2.0]]] * 2


def test_a_loop_that_reads_backwards_is_shown_in_reading_order():
    tap, seen = Tap(), []
    with watching({tap: seen.append}), reordered(lambda x: x.flip(1)), steps_of_a_loop():
        for step in range(3):
            tap(torch.full((1, 1), float(step)))
    assert seen[0][0, :, 0].tolist() == [2.0, 1.0, 0.0]


def test_backwards_inside_backwards_is_forwards():
    tap, seen = Tap(), []
    with (
        watching({tap: seen.append}),
        reordered(lambda x: x.flip(1)),
        reordered(lambda x: x.flip(1)),
        steps_of_a_loop(),
    ):
        for step in range(3):
            tap(torch.full((1, 1), float(step)))
    assert seen[0][0, :, 0].tolist() == [0.0, 1.0, 2.0]


def test_a_change_acts_at_every_step_of_a_loop():
    tap, x = Tap(), torch.ones(1)
    with watched({tap: Watch((lambda x: 2 * x,))}), steps_of_a_loop():
        for _ in range(3):
            x = tap(x)
    assert x.tolist() == [8.0]


def test_a_module_is_watched_where_a_tap_inside_it_is():
    inner = nn.Sequential(Tap(), nn.Identity())
    other = nn.Sequential(Tap())
    assert not is_watched(inner)
    with watching({inner[0]: lambda x: None}):
        assert is_watched(inner)
        assert is_watched(nn.Sequential(inner))
        assert not is_watched(other)


def test_a_tap_outside_a_loop_of_a_backward_reader_is_seen_and_changed_in_reading_order():
    """What is read at last stands first in the layer; every axis that counts positions is turned."""
    tap, seen = Tap(length_axes=(2, 3)), []
    x = torch.arange(4.0).view(1, 1, 2, 2)

    def first_query_alone(weights: torch.Tensor) -> torch.Tensor:
        return weights * torch.tensor([[1.0], [0.0]])

    with watched({tap: Watch((first_query_alone,), (seen.append,))}), reordered(lambda x: x.flip(1)):
        y = tap(x)
    assert seen[0].tolist() == [[[[3.0, 2.0], [0.0, 0.0]]]]
    assert y.tolist() == [[[[0.0, 0.0], [2.0, 3.0]]]]


def test_a_loop_may_join_its_steps_in_another_way():
    tap, seen = Tap(), []
    with watching({tap: seen.append}), steps_of_a_loop(lambda steps: torch.cat(list(steps))):
        for step in (1, 2):
            tap(torch.full((step,), float(step)))
    assert seen[0].tolist() == [1.0, 2.0, 2.0]
