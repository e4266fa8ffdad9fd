import math

import pytest

from clew.drawing.scales import Scale, extent, labels, log_ticks, power_of_ten, short_number, ticks


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0, 1500, ["0", "500", "1,000", "1,500"]),
        (1.31, 4.02, ["1.5", "2.0", "2.5", "3.0", "3.5", "4.0"]),
        (0.101, 0.1049, ["0.101", "0.102", "0.103", "0.104"]),
        (-3, 3, ["-3", "-2", "-1", "0", "1", "2", "3"]),
        (0, 4e7, ["0", "1×10⁷", "2×10⁷", "3×10⁷", "4×10⁷"]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, shown: list[str]) -> None:
    values = ticks(low, high, 6)
    assert labels(values) == shown
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in values)


def test_ticks_of_tiny_and_huge_spans_can_be_told_apart() -> None:
    for low, high in ((1e-20, 3e-20), (0, 1e-9), (-1e140, 1e140)):
        values = ticks(low, high, 6)
        assert 2 <= len(values) <= 7 and len(set(labels(values))) == len(values)


def test_a_logarithm_has_powers_of_ten_and_more_where_they_are_few() -> None:
    assert log_ticks(0.001, 1000, 7) == pytest.approx([0.001, 0.01, 0.1, 1, 10, 100, 1000])
    assert log_ticks(1, 50, 6) == pytest.approx([1, 2, 5, 10, 20, 50])
    assert len(log_ticks(1e-60, 1, 6)) <= 7
    assert [power_of_ten(value) for value in (1e-4, 0.01, 1, 20, 1e6, 2e8, 5e-5)] == [
        "10⁻⁴",
        "0.01",
        "1",
        "20",
        "10⁶",
        "2×10⁸",
        "5×10⁻⁵",
    ]


def test_a_scale_has_its_ends_at_its_ends() -> None:
    scale = Scale(0, 10, 100, 300)
    assert (scale(0), scale(10), scale(2.5)) == (100, 300, 150)
    log = Scale(1, 100, 300, 100, log=True)
    assert (log(1), log(100)) == (300, 100) and log(10) == pytest.approx(200)


def test_what_no_scale_can_show_does_not_decide_its_extent() -> None:
    nan, inf = math.nan, math.inf
    assert extent([nan, inf, -inf]) == (0, 1) and extent([0, -1], log=True) == (1, 10)
    low, high = extent([1, 3, nan, inf])
    assert 0.9 <= low <= 1 and 3 <= high <= 3.1
    low, high = extent([5, 5])
    assert low < 5 < high
    low, high = extent([1e308, -1e308])
    assert math.isfinite(high - low)
    low, high = extent([1e-320, 1e308], log=True)
    assert 0 < low < high and math.isfinite(math.log(high / low))


def test_numbers_are_short() -> None:
    shown = [
        short_number(value)
        for value in (0, 3.0, 1234567.0, 0.123456, 12345.6, 1e-9, -5.014e-5, 1.0737e9, math.nan, math.inf)
    ]
    assert shown == ["0", "3", "1,234,567", "0.123", "12,346", "1×10⁻⁹", "-5.01×10⁻⁵", "1.07×10⁹", "none", "infinite"]


@pytest.mark.parametrize(
    ("low", "high", "first", "last"),
    [
        (0.70325, 0.7034, "0.70325", "0.70340"),
        (1e9, 1.01e9, "1×10⁹", "1.01×10⁹"),
        (0, 5e-5, "0", "5×10⁻⁵"),
        (0, 2.5e6, "0", "2,500,000"),
    ],
)
def test_no_two_ticks_read_alike(low: float, high: float, first: str, last: str) -> None:
    shown = labels(ticks(low, high, 6))
    assert len(set(shown)) == len(shown) and (shown[0], shown[-1]) == (first, last)
