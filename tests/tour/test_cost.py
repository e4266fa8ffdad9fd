"""Cost against length."""

import pytest

from clew.tour.cost import WIDTH, crossing, run


def test_costs_cross_where_their_ratio_is_one() -> None:
    assert crossing([10, 20, 40], [5, 10, 40], [10, 10, 10]) == pytest.approx(20)
    assert crossing([10, 20], [5, 15], [10, 10]) == pytest.approx(15)
    assert crossing([10, 20], [1, 2], [10, 10]) is None


@pytest.mark.slow
def test_attention_overtakes_an_lstm_at_the_length_of_the_formulas() -> None:
    """8 n d^2 + 4 n^2 d = 16 n d^2 at n = 2 d."""
    finding = run("quick", 0, lambda line: None)
    assert float(finding.rows[-1][2]) == pytest.approx(2 * WIDTH)
    powers = {what.split(", ")[1]: float(measured) for what, _, measured in finding.rows[:-1]}
    assert powers["recurrence"] == powers["convolution"] == powers["windowed attention"] == 1
    assert 1.5 < powers["self-attention"] < 2
