"""Many small trials of one kind of fault: what became of each, and the smallest case of every way to fail. Knows no
fault.

A trial is drawn from (seed, number), so that a kind and two numbers are all it takes to see it again.
"""

import json
import os
import random
import re
import resource
import select
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

from clew.core.errors import UserError, printable

LONGEST = 400
REPR = re.compile(
    r"<[\w.]+ object|<class |<function |<built-in|object at 0x|Traceback|ValidationError|errors\.pydantic\.dev"
)
REFUSED = "refused with a sentence"
FAILED = "failed"
MOST_SHRUNK = 2
MEMORY = 8 * 2**30
CLEW = str(Path(__file__).parents[2] / "clew")


class Fault(NamedTuple):
    """A kind: how a case is drawn, tried (the word for how it went well) and written down, and cases a little smaller
    than one."""

    name: str
    draw: Callable[[random.Random], Any]
    attempt: Callable[[Any], str]
    describe: Callable[[Any], str]
    smaller: Callable[[Any], Iterable[Any]]
    seconds: float = 10.0


class Verdict(NamedTuple):
    """How a trial ended; `what` and `case` where it failed."""

    outcome: str
    what: str = ""
    case: str = ""


@dataclass(frozen=True)
class Failure:
    """One way to fail: what was seen, the smallest case that shows it, the first trial that met it and how many did."""

    what: str
    case: str
    trial: int
    times: int

    def __str__(self) -> str:
        return f"  {self.times:,} x {self.what}\n      trial {self.trial}: {self.case}"


@dataclass
class Result:
    """What one kind of fault did to clew."""

    name: str
    trials: int
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        failed = sum(failure.times for failure in self.failures)
        counts = [f"{count:,} {outcome}" for outcome, count in sorted(self.outcomes.items()) if outcome != FAILED]
        verdict = f"{failed:,} failed in {len(self.failures)} ways" if failed else "no traceback"
        line = f"{self.trials:,} {self.name}: {', '.join([verdict, *counts])}, {self.seconds:.0f} s"
        return "\n".join([line, *map(str, self.failures)])


Watch = Callable[[Fault, int, int], Iterator[tuple[int, Verdict]]]


class OutOfTime(BaseException):
    """A trial took longer than its kind allows."""


def put_through(fault: Fault, count: int, seed: int, watch: Watch) -> Result:
    """All trials of one kind, their failures gathered by what was seen."""
    result = Result(fault.name, count)
    found: dict[str, Failure] = {}
    began = time.perf_counter()
    for number, verdict in watch(fault, count, seed):
        result.outcomes[verdict.outcome] += 1
        if verdict.outcome == FAILED:
            before = found.get(verdict.what)
            case = verdict.case if before is None or 0 < len(verdict.case) < len(before.case) else before.case
            found[verdict.what] = Failure(
                verdict.what, case, before.trial if before else number, before.times + 1 if before else 1
            )
    result.failures = sorted(found.values(), key=lambda failure: -failure.times)
    result.seconds = time.perf_counter() - began
    return result


def in_this_process(fault: Fault, count: int, seed: int, first: int = 0) -> Iterator[tuple[int, Verdict]]:
    """One trial after the other; what never comes back to Python is not stopped."""
    shrunk: Counter[str] = Counter()
    for number in range(first, count):
        case = drawn(fault, seed, number)
        verdict = judged(fault, case)
        if verdict.outcome == FAILED:
            shrunk[verdict.what] += 1
            smallest = shrink(fault, case, verdict.what) if shrunk[verdict.what] <= MOST_SHRUNK else case
            verdict = verdict._replace(case=fault.describe(smallest))
        yield number, verdict


def watched(fault: Fault, count: int, seed: int) -> Iterator[tuple[int, Verdict]]:
    """In a process beside this one, which may hang, be killed or run out of memory: that is then what its trial did,
    and a new one goes on with the next."""
    number = 0
    while number < count:
        child, reports = fork(fault, count, seed, number)
        with os.fdopen(reports, "rb", buffering=0) as pipe:
            ended = None
            for line in lines(pipe.fileno(), 3 * fault.seconds + 60 * (number == 0)):
                number, *rest = json.loads(line)
                yield number, Verdict(*rest)
                number += 1
            if number < count:
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            ended = os.waitstatus_to_exitcode(status)
        if number < count:
            what = "never came back" if ended == -signal.SIGKILL else f"ended its process (status {ended})"
            yield number, Verdict(FAILED, what, fault.describe(drawn(fault, seed, number)))
            number += 1


def fork(fault: Fault, count: int, seed: int, first: int) -> tuple[int, int]:
    reports, out = os.pipe()
    child = os.fork()
    if child:
        os.close(out)
        return child, reports
    try:
        os.close(reports)
        torch.set_num_threads(1)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(out, "w") as pipe:
            for number, verdict in in_this_process(fault, count, seed, first):
                pipe.write(json.dumps([number, *verdict]) + "\n")
                pipe.flush()
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def lines(pipe: int, patience: float) -> Iterator[bytes]:
    """The lines of a pipe until its end, or until nothing has come for so many seconds."""
    rest = b""
    while select.select([pipe], [], [], patience)[0]:
        chunk = os.read(pipe, 2**16)
        if not chunk:
            return
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole


def drawn(fault: Fault, seed: int, number: int) -> Any:
    return fault.draw(random.Random(f"{fault.name} {seed} {number}"))


def judged(fault: Fault, case: Any) -> Verdict:
    """Success, a good sentence, or a failure said in one line, the same for the same cause."""
    try:
        with time_limit(fault.seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            return Verdict(fault.attempt(case))
    except UserError as error:
        complaint = fault_in_sentence(str(error))
        return Verdict(FAILED, f"{complaint}: {place(error)}") if complaint else Verdict(REFUSED)
    except KeyboardInterrupt:
        raise
    except OutOfTime:
        return Verdict(FAILED, f"took longer than {fault.seconds:g} s")
    except BaseException as error:
        text = re.sub(r"'[^']*'|[0-9]+", "_", printable(" ".join(str(error).split())))[:100]
        return Verdict(FAILED, f"{type(error).__name__} at {place(error)}: {text}")


def fault_in_sentence(text: str) -> str:
    """What is wrong with what the user reads, if anything."""
    if not text.isprintable():
        return "a sentence that cannot be printed on one line"
    if len(text) > LONGEST:
        return f"a sentence of more than {LONGEST} characters"
    if REPR.search(text):
        return "a sentence with the inside of Python in it"
    return ""


def place(error: BaseException) -> str:
    """The last line of clew's that an error went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(CLEW)]
    return f"{Path(frames[-1].filename).relative_to(CLEW)} {frames[-1].name}" if frames else "no line of clew's"


def shrink(fault: Fault, case: Any, what: str) -> Any:
    """A case with nothing that could be left out and fail in the same way, as far as the time of one trial goes."""
    until = time.monotonic() + fault.seconds
    found: Any = case
    while found is not None:
        case = found
        smaller = (other for other in fault.smaller(case) if time.monotonic() < until)
        found = next((other for other in smaller if judged(fault, other).what == what), None)
    return case


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left)  # a limit that was running before goes on
