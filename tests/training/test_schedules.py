import math

import pytest

from clew.core.errors import UserError
from clew.training.schedules import SCHEDULES, ByEpoch, Constant, Cosine, InverseSqrt, Linear, Plateau


def factors(schedule: Constant, steps: list[int], epoch: int = 0) -> list[float]:
    return [schedule.factor(step, epoch) for step in steps]


def test_constant_is_one_everywhere() -> None:
    assert factors(Constant(10), [0, 5, 9]) == [1.0, 1.0, 1.0]


def test_warmup_rises_by_equal_steps_to_one() -> None:
    assert factors(Constant(10, warmup=4), [0, 1, 2, 3, 4, 9]) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_cosine_is_halfway_in_the_middle_and_ends_at_its_floor() -> None:
    schedule = Cosine(12, warmup=2, floor=0.2)
    assert schedule.factor(2, 0) == pytest.approx(1.0)
    assert schedule.factor(7, 0) == pytest.approx(0.6)  # halfway between 1 and 0.2
    assert schedule.factor(12, 0) == pytest.approx(0.2)
    quarter = 0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2
    assert Cosine(8, floor=0.2).factor(2, 0) == pytest.approx(quarter)


def test_linear_falls_by_equal_steps() -> None:
    assert factors(Linear(5), [0, 1, 2, 3, 4]) == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    assert Linear(4, floor=0.5).factor(2, 0) == pytest.approx(0.75)


def test_inverse_sqrt_halves_when_the_step_is_four_times_the_warmup() -> None:
    assert factors(InverseSqrt(100, warmup=4), [0, 3, 15, 35]) == pytest.approx([0.25, 1.0, 0.5, 1 / 3])


def test_by_epoch_decays_from_the_first_epoch_after_the_constant_ones() -> None:
    schedule = ByEpoch(100, decay=0.5, constant=4)
    assert [schedule.factor(0, epoch) for epoch in range(7)] == [1.0, 1.0, 1.0, 1.0, 0.5, 0.25, 0.125]


def test_plateau_decays_after_evaluations_without_improvement() -> None:
    schedule = Plateau(100, decay=0.1, patience=2)
    rates = []
    for loss in (3.0, 2.0, 2.5, 2.0, 1.5, 1.6, 1.7):
        schedule.observe(loss)
        rates.append(schedule.factor(0, 0))
    assert rates == pytest.approx([1.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.01])


def test_plateau_continues_from_its_state_dict() -> None:
    first, second = Plateau(10, patience=2), Plateau(10, patience=2)
    assert second.state_dict() == {"warmup": 0, "best": None, "worse": 0, "current": 1.0}
    for loss in (1.0, 2.0):
        first.observe(loss)
    second.load_state_dict(first.state_dict())
    for schedule in (first, second):
        schedule.observe(3.0)
    assert first.factor(0, 0) == second.factor(0, 0) == 0.5


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_warmup_longer_than_the_run_is_shortened_to_a_tenth_with_a_note(name: str) -> None:
    long, as_long, tenth = (SCHEDULES[name](100, warmup=warmup) for warmup in (4000, 100, 10))
    assert factors(long, range(100)) == factors(tenth, range(100))
    assert as_long.warmup == 100 and as_long.note == tenth.note == ""
    assert (
        long.note == "a warm-up of 4,000 steps is longer than a training of 100, and is shortened to 10 (a tenth);"
        " set training.schedule.warmup to change this"
    )


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_negative_warmup_is_rejected(name: str) -> None:
    with pytest.raises(
        UserError, match=r"the schedule's warmup \(-1\) must be at least 0; set training.schedule.warmup"
    ):
        SCHEDULES[name](10, warmup=-1)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_warmup_share_equals_the_same_number_of_steps(name: str) -> None:
    share, steps = SCHEDULES[name](100, warmup=0.29), SCHEDULES[name](100, warmup=29)
    assert factors(share, list(range(100))) == factors(steps, list(range(100)))


@pytest.mark.parametrize(
    ("share", "steps", "warmup"), [(0.29, 100, 29), (0.067, 1500, 100), (0.1, 355, 35), (0.9, 10, 9), (0.999, 1, 0)]
)
def test_a_warmup_share_is_rounded_down_to_whole_steps(share: float, steps: int, warmup: int) -> None:
    assert Cosine(steps, warmup=share).warmup == warmup


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_warmup_of_less_than_one_step_is_none(name: str, share: float) -> None:
    assert SCHEDULES[name](3, warmup=share).factor(0, 0) == 1.0


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warmup", [-0.1, 1.0, 1.5])
def test_a_warmup_that_is_neither_steps_nor_a_share_is_rejected(name: str, warmup: float) -> None:
    message = (
        rf"the schedule's warmup \({warmup}\) must be a whole number of steps, or a share of them that is at least 0"
        r" and below 1; set "
    )
    with pytest.raises(UserError, match=message):
        SCHEDULES[name](10, warmup=warmup)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_run_resumed_with_more_steps_keeps_its_warmup(name: str) -> None:
    """A tenth of 1000 steps would warm up again after a tenth of 100 steps has ended."""
    before, after = SCHEDULES[name](100, warmup=0.1), SCHEDULES[name](1000, warmup=0.1)
    after.load_state_dict(before.state_dict())
    same = SCHEDULES[name](1000, warmup=10)
    assert factors(after, list(range(1000))) == factors(same, list(range(1000)))


def test_a_schedule_continues_from_a_state_without_a_warmup() -> None:
    schedule = Cosine(100, warmup=10)
    schedule.load_state_dict({})
    assert schedule.warmup == 10


@pytest.mark.parametrize(
    ("name", "option"), [("cosine", "floor"), ("linear", "floor"), ("by_epoch", "decay"), ("plateau", "decay")]
)
@pytest.mark.parametrize("value", [-0.1, 10.0])
def test_floor_and_decay_must_be_between_0_and_1(name, option, value):
    message = rf"the schedule's {option} \({value}\) must be between 0 and 1; set training.schedule.{option}"
    with pytest.raises(UserError, match=message):
        SCHEDULES[name](10, **{option: value})
