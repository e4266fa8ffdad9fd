"""A fault at every operation on files of a run: a kill, a disk that is full from then on, a folder that is read-only
from then on, or a single device error. If the system allows mounts, also real full and real read-only disks.

In all cases the newest checkpoint must be complete and the command must print what to do. The run that results from
doing it must be bit-identical to one without a fault.
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

from benchmarks.faults.children import CompletedProcess, run_child, temporary_folder
from benchmarks.faults.mounts import can_mount, mount_memory, remount, with_own_mounts
from benchmarks.faults.points import Operation, watch_files
from benchmarks.faults.subjects import LSTM, difference, text_beside
from benchmarks.faults.trials import Fault, Result, in_this_process, message_problem, run_trials
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
    """A fault, with the number of an operation, or of pages of a disk, or of steps before a disk becomes read-only."""

    fault: str
    number: int
    operation: str = ""


def run(count: int, seed: int) -> Result:
    with temporary_folder("saves") as workspace:
        folder = workspace / "reference"
        operations = train_reference(folder)
        cases = [
            Case(fault, operation.number, f"{operation.kind} {operation.path}")
            for fault, kinds in FAULTS.items()
            for operation in operations
            if operation.kind in kinds
        ]
        if can_mount(workspace):
            size = sum(-(-path.stat().st_size // PAGE) for path in folder.rglob("*"))
            cases += [Case("disk with pages:", pages) for pages in range(1, 2 * size, 2)]
            cases += [Case("read-only disk after steps:", steps) for steps in range(STEPS)]
        random.Random(f"saves {seed}").shuffle(cases)
        cases = cases[:count]
        in_order = iter(cases)
        fault = Fault(
            "saves", lambda _: next(in_order), lambda case: attempt(case, folder), str, lambda case: (), seconds=200.0
        )
        return run_trials(fault, len(cases), seed, in_this_process)


def attempt(case: Case, reference: Path) -> str:
    folder = reference.with_name("trial")
    shutil.rmtree(folder, ignore_errors=True)
    if case.fault in FAULTS:
        return strike_once(case, reference, folder)
    process = run_child(
        with_own_mounts(lambda: fill(case, reference) if case.fault.startswith("disk") else forbid(case, reference)),
        reference.parent,
    )
    assert process.status == 0, process.last_line
    return process.out.strip()


def strike_once(case: Case, reference: Path, folder: Path) -> str:
    process = run_child(lambda: train(folder, strike=make_strike(case)), folder.parent)
    if case.fault == "killed at":
        assert process.was_killed, f"status {process.status}: {process.last_line}"
    elif process.status != 0:  # the status is 0 if only the removal of old files failed
        check_message(process, folder)
    check_whole(folder)
    resume(reference, folder)
    outcome = "killed" if process.was_killed else "message with a remedy" if process.status else "no error"
    return f"{outcome}, then bit-identical"


def fill(case: Case, reference: Path) -> int:
    """Run on a disk with few pages, then enlarge it and resume."""
    disk = reference.parent / "disk"
    mount_memory(disk, case.number * PAGE)
    folder = disk / "run"
    process = run_child(lambda: train(folder), folder.parents[1])
    if process.status != 0:
        check_message(process, folder)
        check_whole(folder)
        remount(disk, f"size={1000 * PAGE}")
        resume(reference, folder)
    assert not (changed := difference(reference, folder)), f"different {changed}"
    print("full disk, then bit-identical" if process.status else "disk large enough")
    return 0


def forbid(case: Case, reference: Path) -> int:
    """Start or resume a run on a disk that has become read-only."""
    disk = reference.parent / "disk"
    mount_memory(disk, 1000 * PAGE)
    folder = disk / "run"
    if case.number:
        process = run_child(lambda: train(folder, strike=kill_after(case.number)), folder.parents[1])
        assert process.was_killed, process.last_line
    remount(disk, "", read_only=True)
    process = run_child(lambda: train(folder), folder.parents[1])
    check_message(process, folder)
    check_whole(folder)
    remount(disk, "")
    resume(reference, folder)
    print("read-only disk, then bit-identical")
    return 0


def train(folder: Path, strike: Callable[[Operation], None] | None = None) -> int:
    """Run the command as a user does: with --resume if there is a run."""
    if strike is not None:
        watch_files(folder, strike)
    # Text and cache are outside the disk, because they would fill it.
    neighbour = folder if folder.parent.name != "disk" else folder.parent
    os.environ["CLEW_CACHE"] = str(neighbour.parent / "cache")
    options = ["--resume"] if is_run(folder) else []
    return main(
        ["train", "text-lstm", f"data.train={text_beside(neighbour)}", *SETTINGS, "--out", str(folder), *options]
    )


def train_reference(folder: Path) -> list[Operation]:
    """Train without a fault, and return the operations on its files."""
    log = folder.with_name("operations")

    def count() -> int:
        with log.open("w") as file:
            status = train(folder, lambda operation: print(*operation, sep="\t", file=file))
            file.flush()
            return status

    process = run_child(count, folder.parent)
    assert process.status == 0, process.err
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    return [Operation(int(number), kind, path) for number, kind, path in rows]


def make_strike(case: Case) -> Callable[[Operation], None]:
    def strike(operation: Operation) -> None:
        is_now = operation.number == case.number
        if case.fault == "killed at" and is_now:
            os.kill(os.getpid(), signal.SIGKILL)
        is_lasting = case.fault in ("full from", "read-only from") and operation.number > case.number
        if case.fault in ERRORS and (is_now or is_lasting) and operation.kind in FAULTS[case.fault]:
            number = ERRORS[case.fault]
            if operation.kind in ("tensors", "half the tensors"):
                raise SafetensorError(f"Error while serializing: I/O error: {os.strerror(number)} (os error {number})")
            raise OSError(number, os.strerror(number), None if "write" in operation.kind else operation.path)

    return strike


def kill_after(steps: int) -> Callable[[Operation], None]:
    """Kill the process when `steps` checkpoints are complete and the next one is about to be renamed."""

    def strike(operation: Operation) -> None:
        if operation.kind == "rename" and operation.path == f"checkpoints/step-{steps + 1:08d}":
            os.kill(os.getpid(), signal.SIGKILL)

    return strike


def check_message(process: CompletedProcess, folder: Path) -> None:
    """Check for exit status 2 and one message, which names the folder and a remedy."""
    messages = [line for line in process.err.splitlines() if line.startswith("clew: ")]
    assert process.status == 2 and len(messages) == 1 and messages[0] == process.last_line, (
        f"status {process.status}: {process.last_line}"
    )
    problem = message_problem(messages[0])
    assert not problem, f"{problem}: {messages[0]}"
    assert str(folder) in messages[0] and any(remedy in messages[0] for remedy in REMEDIES), messages[0].replace(
        str(folder), "FOLDER"
    )


def check_whole(folder: Path) -> None:
    """Check that every checkpoint with its final name is complete."""
    for checkpoint in checkpoint_folders(folder):
        fault = find_fault(checkpoint)
        assert fault is None, f"{checkpoint.name}: {fault}"


def resume(reference: Path, folder: Path) -> None:
    """Resume after the fault is gone, and check that the result is bit-identical and no temporary files are left."""
    newest, _ = find_checkpoint(folder)
    process = run_child(lambda: train(folder), reference.parent)
    assert process.status == 0, f"resuming from {newest and newest.name}: {process.last_line}"
    changed = difference(reference, folder)
    assert not changed, f"different {changed}"
    left = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.name.endswith((".partial", "lock"))]
    assert not left, f"left over: {left}"
