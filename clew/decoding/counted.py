"""Integers that grow by a constant in every step. Comparisons on them record for how many steps their outcome stays the
same. Knows no tensors."""

import operator
from collections.abc import Callable
from typing import Any

FOREVER = 2**62


class Horizon:
    """The steps for which observations made at step 0 hold: `first` to `last`; none if there is a `reason`."""

    def __init__(self) -> None:
        self.first, self.last = -FOREVER, FOREVER
        self.reason: str | None = None

    def holds(self, step: int) -> bool:
        return self.first <= step <= self.last

    def spoil(self, reason: str) -> None:
        self.reason = self.reason or reason

    def stays(self, difference: float, slope: float) -> None:
        """Restrict the horizon to steps in which a difference that grows by `slope` keeps its sign."""
        if not slope:
            return
        steps = -int(abs(difference) // -abs(slope)) - 1  # the most steps towards 0 that do not reach it
        if difference * slope <= 0:
            self.last = min(self.last, max(steps, 0))
        if difference * slope >= 0:
            self.first = max(self.first, -max(steps, 0))


class Counted(int):
    """An integer that grows by `slope` in every step. Sums and differences are Counted again.

    The result of any other arithmetic would look like a constant, so it spoils the horizon. In `range(n)`, list indices
    and `math`, Python reads the number without calling a method: a step must not branch on these.
    """

    slope: int
    horizon: Horizon

    @classmethod
    def of(cls, value: int, slope: int, horizon: Horizon) -> int:
        if slope == 0:
            return value
        counted = cls(value)
        counted.slope, counted.horizon = slope, horizon
        return counted

    def sum_with(self, other: Any, sign: int, own: int = 1) -> Any:
        if isinstance(other, float):
            self.horizon.spoil("a number that grows from step to step goes into a sum with a fraction")
            return own * float(int.__pos__(self)) + sign * other
        if not isinstance(other, int):
            return NotImplemented
        value = own * int.__pos__(self) + sign * int.__pos__(other)
        return Counted.of(value, own * self.slope + sign * slope_of(other), self.horizon)

    def __add__(self, other: Any) -> Any:
        return self.sum_with(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.sum_with(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return self.sum_with(other, 1, own=-1)

    def __neg__(self) -> int:
        return Counted.of(-int.__pos__(self), -self.slope, self.horizon)

    def __bool__(self) -> bool:
        return bool(self.compare(operator.ne, 0))

    def compare(self, holds: Callable[[Any, Any], bool], other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        ours, theirs = int.__pos__(self), other if isinstance(other, float) else int.__pos__(other)
        self.horizon.stays(ours - theirs, self.slope - slope_of(other))
        return holds(ours, theirs)

    def __eq__(self, other: object) -> Any:
        return self.compare(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self.compare(operator.ne, other)

    def __lt__(self, other: Any) -> Any:
        return self.compare(operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self.compare(operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self.compare(operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self.compare(operator.ge, other)


def spoils(name: str) -> Callable[..., Any]:
    method = getattr(int, name)

    def compute(self: Counted, *operands: Any) -> Any:
        self.horizon.spoil(f"a number that grows from step to step goes into {name}")
        return method(int.__pos__(self), *operands)

    return compute


for _name in (
    *("mul", "rmul", "floordiv", "rfloordiv", "mod", "rmod", "truediv", "rtruediv", "divmod", "rdivmod", "pow", "rpow"),
    *("lshift", "rlshift", "rshift", "rrshift", "and", "rand", "or", "ror", "xor", "rxor", "invert", "abs"),
    *("pos", "int", "float", "round", "trunc", "floor", "ceil", "hash", "repr", "str", "format"),
):
    setattr(Counted, f"__{_name}__", spoils(f"__{_name}__"))
for _name in ("bit_length", "bit_count", "to_bytes", "as_integer_ratio", "conjugate"):
    setattr(Counted, _name, spoils(_name))


def slope_of(number: Any) -> int:
    return number.slope if isinstance(number, Counted) else 0
