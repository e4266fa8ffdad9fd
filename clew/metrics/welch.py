"""Welch's t-test: whether two samples with different variances have the same mean (Welch 1947)."""

import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import NamedTuple

from clew.core.errors import UserError


class Welch(NamedTuple):
    t: float
    freedom: float
    p: float


def welch(first: Sequence[float], second: Sequence[float]) -> Welch:
    """Welch's t-test, two-sided.

        t       = (mean1 - mean2) / sqrt(v1 + v2),              v = variance / n, with the sample variance, over n - 1
        freedom = (v1 + v2)^2 / (v1^2 / (n1 - 1) + v2^2 / (n2 - 1))
        p       = P(|T| >= |t|),                                T of Student's t distribution

    Samples without variance have p = 1 if they are equal, and 0 if not.
    """
    if len(first) < 2 or len(second) < 2:
        raise UserError(
            f"Welch's test needs at least 2 values on either side, not {len(first)} and {len(second)}; run more seeds"
        )
    v1, v2 = variance(first) / len(first), variance(second) / len(second)
    difference = fmean(first) - fmean(second)
    if v1 + v2 == 0:
        return Welch(math.copysign(math.inf, difference) if difference else 0.0, math.inf, 0.0 if difference else 1.0)
    t = difference / math.sqrt(v1 + v2)
    # Divided by v1 + v2, since the squares of very small variances underflow to 0.
    share = v1 / (v1 + v2)
    freedom = 1 / (share**2 / (len(first) - 1) + (1 - share) ** 2 / (len(second) - 1))
    return Welch(t, freedom, student_tails(t, freedom))


def student_tails(t: float, freedom: float) -> float:
    """P(|T| >= |t|) = I_x(freedom / 2, 1 / 2) at x = freedom / (freedom + t^2), I the regularised incomplete beta
    function."""
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b) by its continued fraction (Abramowitz and Stegun 26.5.8), which converges fast below (a + 1) / (a + b +
    2)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    return front / beta_fraction(x, a, b)


def beta_fraction(x: float, a: float, b: float) -> float:
    """1 + d1 / (1 + d2 / (1 + ...)) by Lentz's method."""
    tiny = 1e-300
    value, numerator, denominator = 1.0, 1.0, 0.0
    for n in range(1, 10_000):
        m = n // 2
        if n % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / ((1 + d * denominator) or tiny)
        numerator = (1 + d / numerator) or tiny
        value *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-15:
            break
    return value
