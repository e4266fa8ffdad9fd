"""Maps values to places in a picture, and chooses round numbers for the axes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LARGEST = 1e140
"""The largest value that is drawn; the difference of two such values is still finite."""


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most `most` round numbers from low to high, 1, 2 or 5 times a power of ten apart."""
    span = high - low or 1e-12
    power = 10 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= most)
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def labels(values: Sequence[float]) -> list[str]:
    """The numbers as text, with as many digits as their distance needs."""
    most = max(map(abs, values), default=0.0)
    distance = max(min((b - a for a, b in zip(values, values[1:], strict=False)), default=most / 10), 1e-15 * most)
    if 1e-3 <= most < 1e7 or distance == 0:
        return [f"{value:,.{max(0, -math.floor(math.log10(distance or 1.0) + 1e-9))}f}" for value in values]
    digits = math.floor(math.log10(most) + 1e-9) - math.floor(math.log10(distance) + 1e-9)
    return ["0" if abs(value) < distance / 2 else with_power(value, min(digits, 15)) for value in values]


def with_power(value: float, digits: int) -> str:
    """1.07×10⁹, with at most `digits` digits after the point."""
    figures, power = f"{value:.{digits}e}".split("e")
    figures = figures.rstrip("0").rstrip(".") if "." in figures else figures
    return f"{figures}×10{str(int(power)).translate(SUPERSCRIPTS)}"


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten: only some of them over a wide range, also their double and fivefold over a narrow one."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    every = max(1, -(-(last - first + 1) // most))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    powers = [factor * 10.0**power for power in range(first, last + 1) if power % every == 0 for factor in factors]
    return [value for value in powers if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def power_of_ten(value: float) -> str:
    """10⁻⁴ for 0.0001, 2×10⁸ for 200000000; numbers near one are written as usual."""
    power = round(math.log10(value))
    if abs(value / 10.0**power - 1) <= 1e-6:
        return f"{value:g}" if abs(power) < 3 else "10" + str(power).translate(SUPERSCRIPTS)
    return f"{value:g}" if 1e-3 <= value < 1e4 else with_power(value, 2)


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """Maps values from low to high to pixels from start to end. Values beyond are placed at an end, or outside if the
    scale is open."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False
    """Whether only whole numbers get a label."""
    is_open: bool = False

    def __call__(self, value: float) -> float:
        value = value if self.is_open else min(max(value, self.low), self.high)
        low, high, at = map(math.log, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        share = (at - low) / (high - low)
        return self.start + (self.end - self.start) * share

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """The places and texts of the axis labels."""
        if not self.log:
            values = [
                value
                for value in ticks(self.low, self.high, most)
                if not self.whole or abs(value - round(value)) < 1e-9
            ]
            return list(zip(map(self, values), labels(values), strict=True))
        return [(self(value), power_of_ten(value)) for value in log_ticks(self.low, self.high, most)]


def extent(values: Iterable[float], *, log: bool = False, margin: float = 0.04) -> tuple[float, float]:
    """The range of the values that a scale can show, with a margin; 0 to 1 (logarithmic 1 to 10) if there are none."""
    least = 1 / LARGEST if log else -LARGEST
    finite = [
        min(max(float(value), least), LARGEST) for value in values if math.isfinite(value) and (value > 0 or not log)
    ]
    if not finite:
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = min(finite), max(finite)
    if log:
        padding = (high / low) ** margin if high > low else 2.0
        return low / padding, high * padding
    padding = margin * (high - low) if high > low else 0.05 * abs(high) or 1.0
    return low - padding, high + padding


def short_number(value: float) -> str:
    """A value as shown on request."""
    if not math.isfinite(value):
        return "none" if math.isnan(value) else "infinite" if value > 0 else "minus infinity"
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return with_power(value, 2)


def short_numbers(values: Sequence[float]) -> list[str]:
    """Values as shown on request, with equally many decimal places if they need only a few."""
    texts = [short_number(value) for value in values]
    digits = max((len(text.partition(".")[2]) for text in texts), default=0)
    return texts if digits > 3 or "×" in "".join(texts) else [f"{value:,.{digits}f}" for value in values]
