"""Run many small trials of one kind of fault, count their outcomes, and find the smallest case of every failure. This
file knows no fault.

A trial is drawn from (seed, number), so that it can be reproduced from its kind and these two numbers.
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

from clew.core.errors import UserError, counted, printable

LONGEST_MESSAGE = 400
LONGEST_WORD = 40
"""The most characters of a word that count towards a message's length: names of files may be long."""
INTERNALS = re.compile(
    r"<[\w.]+ object|<class |<function |<built-in|object at 0x|Traceback|ValidationError|errors\.pydantic\.dev"
)
REJECTED = "rejected with a message"
FAILED = "failed"
MAX_SHRUNK = 2
MEMORY = 8 * 2**30
CLEW = str(Path(__file__).parents[2] / "clew")


class Fault(NamedTuple):
    """A kind of fault: how to draw, run and describe a case, and slightly smaller cases.

    `attempt` returns a word for a successful outcome.
    """

    name: str
    draw: Callable[[random.Random], Any]
    attempt: Callable[[Any], str]
    describe: Callable[[Any], str]
    smaller: Callable[[Any], Iterable[Any]]
    seconds: float = 10.0


class Verdict(NamedTuple):
    """How a trial ended, with its problem and case if it failed."""

    outcome: str
    problem: str = ""
    case: str = ""


@dataclass(frozen=True)
class Failure:
    """A kind of failure: its problem, its smallest case, the first trial with it, and the number of such trials."""

    problem: str
    case: str
    trial: int
    times: int

    def __str__(self) -> str:
        return f"  {self.times:,} x {self.problem}\n      trial {self.trial}: {self.case}"


@dataclass
class Result:
    """The outcomes and failures of one kind of fault."""

    name: str
    trials: int
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        failed = sum(failure.times for failure in self.failures)
        counts = [f"{count:,} {outcome}" for outcome, count in sorted(self.outcomes.items()) if outcome != FAILED]
        verdict = f"{failed:,} failed in {counted(len(self.failures), 'way')}" if failed else "no failures"
        line = f"{self.trials:,} {self.name}: {', '.join([verdict, *counts])}, {self.seconds:.0f} s"
        return "\n".join([line, *map(str, self.failures)])


Runner = Callable[[Fault, int, int], Iterator[tuple[int, Verdict]]]


class OutOfTime(BaseException):
    """A trial took longer than its kind allows."""


def run_trials(fault: Fault, count: int, seed: int, runner: Runner) -> Result:
    """Run all trials of one kind of fault, and group their failures by problem."""
    result = Result(fault.name, count)
    failures: dict[str, Failure] = {}
    began = time.perf_counter()
    for number, verdict in runner(fault, count, seed):
        result.outcomes[verdict.outcome] += 1
        if verdict.outcome == FAILED:
            known = failures.get(verdict.problem)
            case = verdict.case if known is None or 0 < len(verdict.case) < len(known.case) else known.case
            failures[verdict.problem] = Failure(
                verdict.problem, case, known.trial if known else number, known.times + 1 if known else 1
            )
    result.failures = sorted(failures.values(), key=lambda failure: -failure.times)
    result.seconds = time.perf_counter() - began
    return result


def in_this_process(fault: Fault, count: int, seed: int, first: int = 0) -> Iterator[tuple[int, Verdict]]:
    """Run trials one after the other. A trial that never returns to Python is not stopped."""
    shrunk: Counter[str] = Counter()
    for number in range(first, count):
        case = draw_case(fault, seed, number)
        verdict = judge(fault, case)
        if verdict.outcome == FAILED:
            shrunk[verdict.problem] += 1
            smallest = shrink(fault, case, verdict.problem) if shrunk[verdict.problem] <= MAX_SHRUNK else case
            verdict = verdict._replace(case=fault.describe(smallest))
        yield number, verdict


def run_in_child(fault: Fault, count: int, seed: int) -> Iterator[tuple[int, Verdict]]:
    """Run trials in a child process.

    If the child hangs, is killed or runs out of memory, its trial has failed, and a new child continues with the next.
    """
    number = 0
    while number < count:
        child, reports = fork(fault, count, seed, number)
        with os.fdopen(reports, "rb", buffering=0) as pipe:
            for line in lines(pipe.fileno(), 3 * fault.seconds + 60 * (number == 0)):
                number, *rest = json.loads(line)
                yield number, Verdict(*rest)
                number += 1
            if number < count:
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            exit_status = os.waitstatus_to_exitcode(status)
        if number < count:
            hung = exit_status == -signal.SIGKILL
            problem = "did not return" if hung else f"ended its process (status {exit_status})"
            yield number, Verdict(FAILED, problem, fault.describe(draw_case(fault, seed, number)))
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
    """Yield the lines of a pipe until its end, or until nothing arrives for `patience` seconds."""
    rest = b""
    while select.select([pipe], [], [], patience)[0]:
        chunk = os.read(pipe, 2**16)
        if not chunk:
            return
        *complete, rest = (rest + chunk).split(b"\n")
        yield from complete


def draw_case(fault: Fault, seed: int, number: int) -> Any:
    return fault.draw(random.Random(f"{fault.name} {seed} {number}"))


def judge(fault: Fault, case: Any) -> Verdict:
    """Run a case. The problem of a failure is one line, which is equal for failures with the same cause."""
    try:
        with time_limit(fault.seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            return Verdict(fault.attempt(case))
    except UserError as error:
        problem = message_problem(str(error))
        return Verdict(FAILED, f"{problem}: {innermost_function(error)}") if problem else Verdict(REJECTED)
    except KeyboardInterrupt:
        raise
    except OutOfTime:
        return Verdict(FAILED, f"took longer than {fault.seconds:g} s")
    except BaseException as error:
        text = re.sub(r"'[^']*'|[0-9]+", "_", printable(" ".join(str(error).split())))[:100]
        return Verdict(FAILED, f"{type(error).__name__} at {innermost_function(error)}: {text}")


def message_problem(text: str) -> str:
    """Return what is wrong with an error message, or an empty string."""
    if not text.isprintable():
        return "a message that cannot be printed on one line"
    if sum(1 + min(len(word), LONGEST_WORD) for word in text.split(" ")) > LONGEST_MESSAGE:
        return f"a message of more than {LONGEST_MESSAGE} characters"
    if INTERNALS.search(text):
        return "a message with Python internals"
    return ""


def innermost_function(error: BaseException) -> str:
    """Return the innermost function of clew in the traceback of an error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(CLEW)]
    return f"{Path(frames[-1].filename).relative_to(CLEW)} {frames[-1].name}" if frames else "no function of clew"


def shrink(fault: Fault, case: Any, problem: str) -> Any:
    """Reduce a case as long as it fails with the same problem, for at most the time of one trial."""
    until = time.monotonic() + fault.seconds
    reduced: Any = case
    while reduced is not None:
        case = reduced
        candidates = (candidate for candidate in fault.smaller(case) if time.monotonic() < until)
        reduced = next((candidate for candidate in candidates if judge(fault, candidate).problem == problem), None)
    return case


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def raise_out_of_time(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    previous = signal.signal(signal.SIGALRM, raise_out_of_time)
    remaining, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        signal.setitimer(signal.ITIMER_REAL, remaining)  # restart an outer time limit
