import pytest

from clew.bench.timing import MOST_ROUNDS, Timing, interleave, ratio
from tests.bench.fakes import Clock


def test_medians_quartiles_and_spread_are_those_of_the_rounds() -> None:
    timing = Timing((5.0, 1.0, 3.0, 2.0, 9.0))
    assert timing.median == 3.0
    assert timing.quartiles == (2.0, 5.0)
    assert timing.spread == 1.0
    assert Timing((4.0,)).quartiles == (4.0, 4.0) and Timing((4.0,)).spread == 0.0


def test_a_ratio_compares_medians_and_its_quartiles_rounds() -> None:
    measured = ratio(Timing((2.0, 4.0, 6.0)), Timing((1.0, 4.0, 2.0)))
    assert (measured.value, measured.low, measured.high) == (4.0 / 2.0, 1.5, 2.5)  # ratios of the rounds: 2, 1, 3


def test_sides_alternate_and_the_first_one_rotates() -> None:
    clock = Clock()
    calls = {name: clock.side(name, [1.0]) for name in "abc"}
    interleave(calls, rounds=3, clock=clock)
    assert "".join(clock.called) == "abc" + "bca" + "cab"


def test_each_side_is_given_its_own_seconds() -> None:
    clock = Clock()
    times = interleave({"a": clock.side("a", [1.0, 2.0]), "b": clock.side("b", [10.0, 30.0])}, rounds=2, clock=clock)
    assert times == {"a": Timing((1.0, 2.0)), "b": Timing((10.0, 30.0))}


def test_a_call_is_timed_until_the_device_is_done() -> None:
    clock, pending = Clock(), []

    def wait() -> None:
        clock.now += 5.0 * len(pending)
        pending.clear()

    times = interleave({"a": lambda: pending.append(1)}, rounds=2, wait=wait, clock=clock)
    assert times["a"].seconds == (5.0, 5.0)


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 3), (7.0, 4), (1e9, MOST_ROUNDS)])
def test_rounds_continue_until_the_time_is_over(seconds: float, rounds: int) -> None:
    clock = Clock()
    times = interleave({"a": clock.side("a", [2.0])}, rounds=3, seconds=seconds, clock=clock)
    assert len(times["a"].seconds) == rounds
