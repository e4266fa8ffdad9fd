"""Tapes: the torch calls of a step as one flat function, without the modules around them. Knows no model and no
algorithm.

A step of a small model on a CPU spends up to a third of its time in Python, calling modules and packing and unpacking
states. When a step makes the same calls as the one before it (`recording`), these calls become a tape. Each number that
the host reads is read again and compared with the number that the tape expects. If they differ, the step would have
made other calls: the tape raises `Diverged`, and the step has to be run eagerly.
"""

import weakref
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from torch import Tensor

from clew.decoding.counted import Counted, slope_of
from clew.decoding.recording import Entry, Recording, Ref, Slice, changes_in_place, function_name, refs_in


class Diverged(Exception):
    """The step would now make other calls than the tape. If `ahead` is a number, they may be those of the step `ahead`
    steps later."""

    def __init__(self, message: str, ahead: int | None = None):
        super().__init__(message)
        self.ahead = ahead


class Tape:
    """The calls of a recording that matched the one before it, as a function of the input tensors.

    `step` is the number of the last step run, counted from the recording. A tape holds only weak references to the
    weights that it reads.
    """

    def __init__(self, recording: Recording):
        self.horizon, self.step = recording.horizon, 0
        self.constants = [weakref.ref(recording.kept[ref.number]) for ref in recording.constants]
        names, source = recording.inputs + recording.constants, Source()
        lines = source.lines(recording.entries, recording.outputs)
        self.text = "\n    ".join([f"def step(k, {', '.join(f't{ref.number}' for ref in names)}):", *lines])
        # The text contains only names t0, t1, ..., n0, n1, ... and numbers, nothing from a file or a user.
        exec(compile(self.text, "<tape>", "exec"), source.names)
        self.function: Callable[..., tuple[Tensor, ...]] = source.names["step"]

    def begin(self) -> Callable[[Sequence[Tensor]], tuple[Tensor, ...]]:
        """Return the function from input tensors to output tensors; it may start at any step.

        It raises Diverged, or the error of a call, when the step has to be run eagerly.
        """
        constants = [place() for place in self.constants]
        if any(tensor is None for tensor in constants):
            raise Diverged("a weight has been freed")
        self.step, is_first = min(0, self.horizon.last - 1), True

        def run(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
            nonlocal is_first
            try:
                results = self.function(self.next_step(1), *inputs, *constants)
            except Diverged as error:
                if not is_first or error.ahead is None:
                    raise
                results = self.function(self.next_step(error.ahead), *inputs, *constants)
            is_first = False
            return results

        return run

    def next_step(self, ahead: int) -> int:
        self.step += ahead
        if not self.horizon.holds(self.step):
            raise Diverged("a number that grows from step to step has reached a number that it is compared with")
        return self.step


def different(now: Any, expected: Any, slopes: Any) -> Diverged:
    """Return the error for a host read that differs from the tape's number."""
    numbers = zip(now, expected, slopes, strict=False) if isinstance(slopes, list) else [(now, expected, slopes)]
    ahead = next(((is_now - was_expected) // slope for is_now, was_expected, slope in numbers if slope), None)
    return Diverged(f"the host reads {now!r} and not {expected!r}", ahead)


class Source:
    """Writes calls as lines of Python, and collects the objects that the names in them refer to."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"different": different}
        self.numbers = count()

    def lines(self, entries: Sequence[Entry], outputs: Sequence[Ref]) -> list[str]:
        entries = needed_entries(entries, outputs)
        named = [set(refs_in([entry.arguments, entry.results])) for entry in entries]
        last = {ref: place for place, refs in enumerate(named) for ref in refs}
        lines = []
        for place, (entry, refs) in enumerate(zip(entries, named, strict=True)):
            lines.append(self.line(entry))
            if dead := sorted(ref.number for ref in refs - set(outputs) if last[ref] == place):
                lines.append(f"del {', '.join(f't{number}' for number in dead)}")
        return [*lines, f"return ({''.join(f't{ref.number}, ' for ref in outputs)})"]

    def line(self, entry: Entry) -> str:
        args, kwargs = entry.arguments
        if function_name(entry.function) == "__get__":  # a property, such as mT
            call = f"t{args[0].number}.{entry.function.__self__.__name__}"
        else:
            parts = [self.text(part) for part in args] + [f"{name}={self.text(part)}" for name, part in kwargs.items()]
            call = f"{self.named(entry.function)}({', '.join(parts)})"
        if entry.results is None:
            if entry.numbers is None:
                return call
            expected = self.text(entry.numbers)
            slopes = (
                [*map(slope_of, entry.numbers)] if isinstance(entry.numbers, (list, tuple)) else slope_of(entry.numbers)
            )
            return f"if (now := {call}) != {expected}: raise different(now, {expected}, {slopes})"
        if isinstance(entry.results, list):
            return f"{''.join(f't{ref.number}, ' for ref in entry.results)}= {call}"
        return f"t{entry.results.number} = {call}"

    def text(self, part: Any) -> str:
        if isinstance(part, Ref):
            return f"t{part.number}"
        if isinstance(part, Counted):
            return f"{int.__pos__(part)} + {part.slope} * k"
        if isinstance(part, Slice):
            return f"slice({', '.join(map(self.text, part))})"
        if isinstance(part, tuple):
            return f"({''.join(f'{self.text(each)}, ' for each in part)})"
        if isinstance(part, list):
            return f"[{', '.join(map(self.text, part))}]"
        if isinstance(part, dict):
            return f"{{{', '.join(f'{name!r}: {self.text(value)}' for name, value in part.items())}}}"
        if part is None or type(part) in (bool, int):
            return repr(part)
        return self.named(part)

    def named(self, thing: Any) -> str:
        name = f"n{next(self.numbers)}"
        self.names[name] = thing
        return name


def needed_entries(entries: Sequence[Entry], outputs: Sequence[Ref]) -> list[Entry]:
    """Select the entries that an output depends on, that write in place, or that read a number to the host.

    A call that returns its argument may have written to it: relu(x, inplace=True), where x is a view of another tensor.
    """
    needed, kept = set(outputs), []
    for entry in reversed(entries):
        arguments, results = set(refs_in(entry.arguments)), set(refs_in(entry.results))
        if entry.results is None or changes_in_place(function_name(entry.function)) or results & (needed | arguments):
            needed |= arguments
            kept.append(entry)
    return kept[::-1]
