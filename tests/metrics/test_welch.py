import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.welch import incomplete_beta, student_tails, welch


@pytest.mark.parametrize("t", [0.0, 1e-3, 0.5, 1.0, 2.5, 12.7, 1e3, 1e8])
def test_the_tails_equal_known_closed_forms(t: float) -> None:
    assert student_tails(t, 1) == pytest.approx(2 / math.pi * math.atan2(1, t), rel=1e-10)
    assert student_tails(t, 2) == pytest.approx(2 / (2 + t * t + t * math.sqrt(2 + t * t)), rel=1e-10)
    cosine = 1 / math.sqrt(1 + t * t / 3)
    three = 1 - 2 / math.pi * (math.atan(t / math.sqrt(3)) + cosine * math.sin(math.atan(t / math.sqrt(3))))
    assert student_tails(t, 3) == pytest.approx(three, abs=1e-12)


@pytest.mark.parametrize("freedom", [2.28, 4.0, 7.5, 31.0])
@pytest.mark.parametrize("t", [0.3, 1.0, 2.0, 4.0])
def test_the_tails_equal_the_area_under_the_density(t: float, freedom: float) -> None:
    x = np.linspace(0, t, 200_001)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    area = np.trapezoid(scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2), x)
    assert student_tails(t, freedom) == pytest.approx(1 - 2 * area, abs=1e-9)


def test_many_degrees_of_freedom_give_the_normal_distribution() -> None:
    assert student_tails(1.959964, 1e7) == pytest.approx(0.05, abs=1e-6)


@given(st.floats(0.001, 0.999), st.floats(0.1, 50), st.floats(0.1, 50))
def test_the_beta_function_is_symmetric(x: float, a: float, b: float) -> None:
    assert incomplete_beta(x, a, b) + incomplete_beta(1 - x, b, a) == pytest.approx(1.0)
    assert incomplete_beta(0.0, a, b) == 0.0 and incomplete_beta(1.0, a, b) == 1.0


def test_the_test_equals_a_hand_computed_case() -> None:
    """Means 2 and 5, variances 1 and 4 over 3 each: t = -3 / sqrt(5 / 3), freedom = (5 / 3)^2 / ((1 / 9 + 16 / 9) / 2)
    = 50 / 17."""
    result = welch([1.0, 2.0, 3.0], [3.0, 5.0, 7.0])
    assert result.t == pytest.approx(-3 / math.sqrt(5 / 3))
    assert result.freedom == pytest.approx(50 / 17)
    assert result.p == pytest.approx(student_tails(3 / math.sqrt(5 / 3), 50 / 17))


def test_equal_spreads_and_sizes_give_students_test() -> None:
    result = welch([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    assert result.freedom == pytest.approx(4)
    assert result.p == pytest.approx(1 - math.sqrt(1.5 / 5.5) * (1 + 2 / 5.5), abs=1e-12), (
        "df = 4: 1 - s (3 - s^2) / 2, s^2 = t^2 / (4 + t^2)"
    )


@pytest.mark.slow
def test_p_has_the_stated_error_rate() -> None:
    """Of 4,000 pairs of samples from one distribution, five percent have p below 0.05."""
    generator = np.random.default_rng(2)
    below = sum(welch(generator.normal(size=5), generator.normal(size=5)).p < 0.05 for _ in range(4000))
    assert below / 4000 == pytest.approx(0.05, abs=0.012)


def test_samples_without_spread_are_either_equal_or_different() -> None:
    assert welch([1.0, 1.0], [1.0, 1.0]).p == 1.0
    assert welch([1.0, 1.0], [2.0, 2.0]).p == 0.0


def test_small_spreads_do_not_vanish() -> None:
    result = welch([1 + 1e-12, 1 - 1e-12], [1 + 2e-12, 1 - 2e-12])
    assert 1 <= result.freedom <= 2 and 0 <= result.p <= 1


def test_a_sample_of_one_value_is_rejected() -> None:
    with pytest.raises(
        UserError, match="Welch's test needs at least 2 values on either side, not 1 and 3; run more seeds"
    ):
        welch([1.0], [1.0, 2.0, 3.0])
