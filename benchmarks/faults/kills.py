"""SIGKILL at any moment: a training that goes on from disk ends with the bits of one that nobody touched.

Half of the kills come after a random time, the others at a random operation on the training's files, which is to say
inside a save; a third of the trainings is killed once more when it goes on.
"""

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.children import Child, done, own_folder
from benchmarks.faults.points import Operation, watch_files
from benchmarks.faults.subjects import SUBJECTS, difference
from benchmarks.faults.trials import Fault, Result, in_this_process, put_through

STEPS = 24


class Case(NamedTuple):
    """Which training, and when it is killed: after a share of its time, or of its operations on files."""

    subject: str
    moments: tuple[tuple[str, float], ...]


class Straight(NamedTuple):
    """A training that nobody touched: where it is, how long it took, and how often it changed its files."""

    folder: Path
    seconds: float
    operations: int


def run(count: int, seed: int) -> Result:
    with own_folder("kills") as place:
        straight = {name: train_straight(name, place) for name in list(SUBJECTS)[:count]}
        cases = iter([drawn(seed, number) for number in range(count)])
        fault = Fault(
            "kills",
            lambda _: next(cases),
            lambda case: attempt(case, straight[case.subject]),
            str,
            smaller,
            seconds=200.0,
        )
        return put_through(fault, count, seed, in_this_process)


def drawn(seed: int, number: int) -> Case:
    chance = random.Random(f"kills {seed} {number}")
    moments = [
        (chance.choice(("time", "operation")), round(chance.uniform(0, 1), 4))
        for _ in range(2 if chance.random() < 1 / 3 else 1)
    ]
    return Case(list(SUBJECTS)[number % len(SUBJECTS)], tuple(moments))


def smaller(case: Case) -> list[Case]:
    return (
        [case._replace(moments=case.moments[:1]), case._replace(moments=case.moments[1:])]
        if len(case.moments) > 1
        else []
    )


def train_straight(name: str, place: Path) -> Straight:
    folder, counted = place / name / "straight", place / name / "operations"

    def train() -> None:
        with counted.open("w") as file:
            watch_files(folder, lambda operation: print(operation.kind, file=file))
            SUBJECTS[name](folder, STEPS)
            file.flush()

    folder.parent.mkdir()
    began = time.perf_counter()
    ended = done(train, folder.parent)
    assert ended.status == 0, ended.err
    return Straight(folder, time.perf_counter() - began, len(counted.read_text().splitlines()))


def attempt(case: Case, straight: Straight) -> str:
    folder, train = straight.folder.with_name("trial"), SUBJECTS[case.subject]
    kills, earlier = 0, 1.0
    while not kills:  # one that comes when all is done is no kill, and comes earlier the next time
        shutil.rmtree(folder, ignore_errors=True)
        kills = sum(kill(case.subject, kind, earlier * share, straight, folder) for kind, share in case.moments)
        earlier /= 2
    ended = done(lambda: train(folder, STEPS), folder.parent)
    assert ended.status == 0, f"after {kills} kills: {ended.last}"
    found = difference(straight.folder, folder)
    assert not found, f"after {kills} kills another {found}"
    return f"{case.subject}: same bits after {('a kill', 'two kills')[kills - 1]}"


def kill(subject: str, kind: str, share: float, straight: Straight, folder: Path) -> bool:
    """Starts a training, or goes on with it, and kills it after a share of the time or of the operations; whether it
    came to that."""

    def train() -> None:
        if kind == "operation":
            watch_files(folder, lambda operation: die(operation, int(share * straight.operations)))
        SUBJECTS[subject](folder, STEPS)

    with Child(train, folder.parent) as child:
        if kind == "time" and not child.ends_within(share * straight.seconds):
            child.send(signal.SIGKILL)
        ended = child.wait()
        assert ended.status in (0, -signal.SIGKILL), ended.last
        return ended.was_killed


def die(operation: Operation, at: int) -> None:
    if operation.number == at:
        os.kill(os.getpid(), signal.SIGKILL)
