"""A fault at every operation on files of a whole run: a kill, a disk that is full from there on, a folder that is
read-only from there on, one error of the device. And, where the system lets us, disks that are really full and really
read-only.

Whatever happens the newest checkpoint is whole, the command says what to do, and once it is done the run ends with the
bits of one that met no fault.
"""

import errno
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError

from benchmarks.faults.children import Ended, done, own_folder
from benchmarks.faults.mounts import can_mount, mount_memory, own_mounts, remount
from benchmarks.faults.points import Operation, watch_files
from benchmarks.faults.subjects import LSTM, difference, text_beside
from benchmarks.faults.trials import Fault, Result, fault_in_sentence, in_this_process, put_through
from clew.cli.main import main
from clew.runs.folder.run_files import is_run
from clew.training.checkpoints import checkpoint_folders, find_checkpoint, find_fault

STEPS = 4
SETTINGS = [
    *LSTM,
    f"training.steps={STEPS}",
    "training.evaluate_every=2",
    "training.save_every=1",
    "training.keep=1",
    "training.average=ema",
    "decoding.max_new=2",
]
WRITES = ("open", "write", "half a write", "flush", "rename", "mkdir", "tensors", "half the tensors")
FAULTS = {
    "killed at": (*WRITES, "remove", "rmdir", "truncate"),
    "full from": WRITES,
    "read-only from": ("open", "rename", "mkdir", "remove", "rmdir", "tensors"),
    "device error at": ("write", "half a write", "flush", "tensors", "half the tensors"),
}
ERRORS = {"full from": errno.ENOSPC, "read-only from": errno.EACCES, "device error at": errno.EIO}
REMEDIES = ("--resume", "--out")
PAGE = 4096


class Case(NamedTuple):
    """A fault at an operation, or a disk of so many pages, or one that is read-only."""

    fault: str
    number: int
    what: str = ""


def run(count: int, seed: int) -> Result:
    with own_folder("saves") as place:
        folder = place / "straight"
        operations = train_straight(folder)
        cases = [
            Case(fault, operation.number, f"{operation.kind} {operation.path}")
            for fault, kinds in FAULTS.items()
            for operation in operations
            if operation.kind in kinds
        ]
        if can_mount(place):
            size = sum(-(-path.stat().st_size // PAGE) for path in folder.rglob("*"))
            cases += [Case("a disk of pages:", pages) for pages in range(1, 2 * size, 2)]
            cases += [Case("a read-only disk after steps:", steps) for steps in range(STEPS)]
        random.Random(f"saves {seed}").shuffle(cases)
        cases = cases[:count]
        drawn = iter(cases)
        fault = Fault(
            "saves", lambda _: next(drawn), lambda case: attempt(case, folder), str, lambda case: (), seconds=200.0
        )
        return put_through(fault, len(cases), seed, in_this_process)


def attempt(case: Case, straight: Path) -> str:
    folder = straight.with_name("trial")
    shutil.rmtree(folder, ignore_errors=True)
    if case.fault in FAULTS:
        return strike_once(case, straight, folder)
    found = done(
        own_mounts(lambda: fill(case, straight) if case.fault.startswith("a disk") else forbid(case, straight)),
        straight.parent,
    )
    assert found.status == 0, found.last
    return found.out.strip()


def strike_once(case: Case, straight: Path, folder: Path) -> str:
    ended = done(lambda: train(folder, strike=striking(case)), folder.parent)
    if case.fault == "killed at":
        assert ended.was_killed, f"status {ended.status}: {ended.last}"
    elif ended.status != 0:  # the removal of what is no longer needed may fail
        check_sentence(ended, folder)
    check_whole(folder)
    go_on(straight, folder)
    return (
        f"{'killed' if ended.was_killed else 'said what to do' if ended.status else 'needed nothing'}, then the same"
        " bits"
    )


def fill(case: Case, straight: Path) -> int:
    """A run on a disk of some pages, which is then given more."""
    disk = straight.parent / "disk"
    mount_memory(disk, case.number * PAGE)
    folder = disk / "run"
    ended = done(lambda: train(folder), folder.parents[1])
    if ended.status != 0:
        check_sentence(ended, folder)
        check_whole(folder)
        remount(disk, f"size={1000 * PAGE}")
        go_on(straight, folder)
    assert not (found := difference(straight, folder)), found
    print("a full disk, then the same bits" if ended.status else "a disk that was large enough")
    return 0


def forbid(case: Case, straight: Path) -> int:
    """A run that goes on, or begins, on a disk which has become read-only."""
    disk = straight.parent / "disk"
    mount_memory(disk, 1000 * PAGE)
    folder = disk / "run"
    if case.number:
        ended = done(lambda: train(folder, strike=dying_after(case.number)), folder.parents[1])
        assert ended.was_killed, ended.last
    remount(disk, "", read_only=True)
    ended = done(lambda: train(folder), folder.parents[1])
    check_sentence(ended, folder)
    check_whole(folder)
    remount(disk, "")
    go_on(straight, folder)
    print("a read-only disk, then the same bits")
    return 0


def train(folder: Path, strike: Callable[[Operation], None] | None = None) -> int:
    """The command, as a person would give it: with --resume where there is a run."""
    if strike is not None:
        watch_files(folder, strike)
    beside = (
        folder if folder.parent.name != "disk" else folder.parent
    )  # a text and a cache of its own would fill the disk
    os.environ["CLEW_CACHE"] = str(beside.parent / "cache")
    again = ["--resume"] if is_run(folder) else []
    return main(["train", "text-lstm", f"data.train={text_beside(beside)}", *SETTINGS, "--out", str(folder), *again])


def train_straight(folder: Path) -> list[Operation]:
    """A run that meets no fault, and its operations."""
    written = folder.with_name("operations")

    def count() -> int:
        with written.open("w") as file:
            status = train(folder, lambda operation: print(*operation, sep="\t", file=file))
            file.flush()
            return status

    ended = done(count, folder.parent)
    assert ended.status == 0, ended.err
    rows = [line.split("\t") for line in written.read_text().splitlines()]
    return [Operation(int(number), kind, path) for number, kind, path in rows]


def striking(case: Case) -> Callable[[Operation], None]:
    def strike(operation: Operation) -> None:
        is_now = operation.number == case.number
        if case.fault == "killed at" and is_now:
            os.kill(os.getpid(), signal.SIGKILL)
        stays = case.fault in ("full from", "read-only from") and operation.number > case.number
        if case.fault in ERRORS and (is_now or stays) and operation.kind in FAULTS[case.fault]:
            number = ERRORS[case.fault]
            if operation.kind in ("tensors", "half the tensors"):
                raise SafetensorError(f"Error while serializing: I/O error: {os.strerror(number)} (os error {number})")
            raise OSError(number, os.strerror(number), None if "write" in operation.kind else operation.path)

    return strike


def dying_after(steps: int) -> Callable[[Operation], None]:
    """Dies when so many checkpoints have their name and the next one is about to get it."""

    def strike(operation: Operation) -> None:
        if operation.kind == "rename" and operation.path == f"checkpoints/step-{steps + 1:08d}":
            os.kill(os.getpid(), signal.SIGKILL)

    return strike


def check_sentence(ended: Ended, folder: Path) -> None:
    """Exit 2 and one sentence: which folder, and what to do."""
    said = [line for line in ended.err.splitlines() if line.startswith("clew: ")]
    assert ended.status == 2 and len(said) == 1 and said[0] == ended.last, f"status {ended.status}: {ended.last}"
    complaint = fault_in_sentence(said[0])
    assert not complaint, f"{complaint}: {said[0]}"
    assert str(folder) in said[0] and any(remedy in said[0] for remedy in REMEDIES), said[0].replace(
        str(folder), "FOLDER"
    )


def check_whole(folder: Path) -> None:
    """Every checkpoint that has its name is whole."""
    for checkpoint in checkpoint_folders(folder):
        fault = find_fault(checkpoint)
        assert fault is None, f"{checkpoint.name}: {fault}"


def go_on(straight: Path, folder: Path) -> None:
    """What a person does once the fault is gone, which has to lead to the same end, with nothing left over."""
    newest, _ = find_checkpoint(folder)
    ended = done(lambda: train(folder), straight.parent)
    assert ended.status == 0, f"going on from {newest and newest.name}: {ended.last}"
    found = difference(straight, folder)
    assert not found, f"another {found}"
    left = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.name.endswith((".partial", "lock"))]
    assert not left, f"left over: {left}"
