"""SIGKILL at any moment: a resumed training must end bit-identical to an uninterrupted one.

Half of the kills come after a random time, the others at a random operation on the training's files, that is, inside a
save. A third of the trainings are killed again after they were resumed.
"""

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.children import Child, run_child, temporary_folder
from benchmarks.faults.points import Operation, watch_files
from benchmarks.faults.subjects import SUBJECTS, difference
from benchmarks.faults.trials import Fault, Result, in_this_process, run_trials

STEPS = 24


class Case(NamedTuple):
    """A training, and the moments at which it is killed, as shares of its time or of its operations on files."""

    subject: str
    moments: tuple[tuple[str, float], ...]


class Reference(NamedTuple):
    """An uninterrupted training: its folder, its duration, and its number of operations on files."""

    folder: Path
    seconds: float
    operations: int


def run(count: int, seed: int) -> Result:
    with temporary_folder("kills") as workspace:
        reference = {name: train_reference(name, workspace) for name in list(SUBJECTS)[:count]}
        cases = iter([draw_case(seed, number) for number in range(count)])
        fault = Fault(
            "kills",
            lambda _: next(cases),
            lambda case: attempt(case, reference[case.subject]),
            str,
            smaller,
            seconds=200.0,
        )
        return run_trials(fault, count, seed, in_this_process)


def draw_case(seed: int, number: int) -> Case:
    rng = random.Random(f"kills {seed} {number}")
    moments = [
        (rng.choice(("time", "operation")), round(rng.uniform(0, 1), 4))
        for _ in range(2 if rng.random() < 1 / 3 else 1)
    ]
    return Case(list(SUBJECTS)[number % len(SUBJECTS)], tuple(moments))


def smaller(case: Case) -> list[Case]:
    return (
        [case._replace(moments=case.moments[:1]), case._replace(moments=case.moments[1:])]
        if len(case.moments) > 1
        else []
    )


def train_reference(name: str, workspace: Path) -> Reference:
    folder, operations = workspace / name / "reference", workspace / name / "operations"

    def train() -> None:
        with operations.open("w") as file:
            watch_files(folder, lambda operation: print(operation.kind, file=file))
            SUBJECTS[name](folder, STEPS)
            file.flush()

    folder.parent.mkdir()
    began = time.perf_counter()
    process = run_child(train, folder.parent)
    assert process.status == 0, process.err
    return Reference(folder, time.perf_counter() - began, len(operations.read_text().splitlines()))


def attempt(case: Case, reference: Reference) -> str:
    folder, train = reference.folder.with_name("trial"), SUBJECTS[case.subject]
    kills, scale = 0, 1.0
    while not kills:  # if the training ended before the kill, try again with earlier kills
        shutil.rmtree(folder, ignore_errors=True)
        kills = sum(kill(case.subject, kind, scale * share, reference, folder) for kind, share in case.moments)
        scale /= 2
    process = run_child(lambda: train(folder, STEPS), folder.parent)
    assert process.status == 0, f"after {kills} kills: {process.last_line}"
    changed = difference(reference.folder, folder)
    assert not changed, f"after {kills} kills, different {changed}"
    return f"{case.subject}: bit-identical after {('one kill', 'two kills')[kills - 1]}"


def kill(subject: str, kind: str, share: float, reference: Reference, folder: Path) -> bool:
    """Start or resume a training, and kill it after a share of the time or of the operations.

    Return False if the training ended before that.
    """

    def train() -> None:
        if kind == "operation":
            watch_files(folder, lambda operation: die_at(operation, int(share * reference.operations)))
        SUBJECTS[subject](folder, STEPS)

    with Child(train, folder.parent) as child:
        if kind == "time" and not child.ends_within(share * reference.seconds):
            child.send(signal.SIGKILL)
        process = child.wait()
        assert process.status in (0, -signal.SIGKILL), process.last_line
        return process.was_killed


def die_at(operation: Operation, number: int) -> None:
    if operation.number == number:
        os.kill(os.getpid(), signal.SIGKILL)
