"""Two processes that train together must have the loss curve of a single process. If one is killed, the other must end
in time, and the run must be resumable or restarted by torchrun. A NaN gradient in one process must skip the step in
both."""

import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from benchmarks.faults.children import Child, CompletedProcess, run_child, temporary_folder
from benchmarks.faults.divergence import Poisoned
from benchmarks.faults.groups import run_group
from benchmarks.faults.subjects import (
    GPT,
    LSTM,
    decoder_steps,
    decoder_training,
    difference,
    recorded_metrics,
    text_beside,
    train_recipe,
)
from benchmarks.faults.trials import Fault, Result, in_this_process, message_problem, run_trials
from clew.cli.main import main
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import is_run, read_metrics
from clew.training.optimisers import adamw
from clew.training.parallel import replicate, shard, whole_weights

ROOT = Path(__file__).parents[2]
STEPS = 24
PARALLEL: dict[str, Callable[[nn.Module], nn.Module]] = {"ddp": replicate, "fsdp": shard}
RECIPES = {"lstm": ("text-lstm", LSTM), "gpt": ("text-gpt", GPT)}
TOLERANCE = 1e-6
PATIENCE = 60.0
"""Seconds within which the other process must end after one was killed."""
TIMEOUT = "15"
"""Seconds that a process waits for a missing one."""


class Case(NamedTuple):
    """A kind of trial, a model, a kind of parallelism and the affected process.

    `when` is the share of the time after which it is killed, the step that is poisoned, or the number of the signal.
    """

    kind: str
    subject: str = "lstm"
    parallel: str = "ddp"
    rank: int = 0
    when: float = 0.0


def run(count: int, seed: int) -> Result:
    with temporary_folder("ranks") as workspace:
        cases = draw_cases(count, seed)
        in_order, references = iter(cases), References(workspace)
        fault = Fault(
            "ranks",
            lambda _: next(in_order),
            lambda case: attempt(case, references),
            str,
            lambda case: (),
            seconds=400.0,
        )
        return run_trials(fault, len(cases), seed, in_this_process)


def draw_cases(count: int, seed: int) -> list[Case]:
    """Make cases of curves for every model and parallelism, of poisoned steps, signals, restarts and deaths."""
    rng = random.Random(f"ranks {seed}")
    pairs = [(subject, parallel) for subject in ("lstm", "gpt", "decoder") for parallel in PARALLEL]
    curves = [Case("curve", *pair) for pair in pairs]
    poisoned = [
        Case("poison", "decoder", parallel, rank, rng.randrange(1, STEPS - 1))
        for parallel in PARALLEL
        for rank in (0, 1)
    ]
    signals = [
        Case("signal", subject, when=number) for subject, number in (("lstm", signal.SIGTERM), ("gpt", signal.SIGINT))
    ]
    restarts = [Case("restart", rank=rank, when=rng.uniform(0.2, 0.6)) for rank in (0, 1)]
    deaths = [
        Case(
            "death",
            rng.choice(list(RECIPES)),
            rng.choice(list(PARALLEL)),
            rng.randrange(2),
            rng.uniform(0, 1),
        )
        for _ in range(max(count - len(curves) - len(poisoned) - len(signals) - len(restarts), 1))
    ]
    minimal = [curves[1], poisoned[1], deaths[0]]
    return minimal[:count] if count <= len(minimal) else [*curves, *poisoned, *signals, *deaths, *restarts][:count]


class References:
    """Uninterrupted trainings, each run when it is first needed."""

    def __init__(self, workspace: Path):
        self.workspace = workspace
        self.seconds: dict[str, float] = {}

    def alone(self, subject: str) -> Path:
        folder = self.workspace / f"{subject}-alone"
        if not folder.exists():
            process = run_child(lambda: train_once(subject, "ddp", folder), self.workspace)
            assert process.status == 0, process.err
        return folder

    def pair(self, subject: str, parallel: str, steps: int = STEPS) -> tuple[Path, float]:
        """Train with two processes by the command; return the folder and the time."""
        folder = self.workspace / f"{subject}-{parallel}-{steps}"
        if folder.name not in self.seconds:
            shutil.rmtree(folder, ignore_errors=True)
            began = time.perf_counter()
            for process in command(subject, parallel, folder, steps):
                assert process.status == 0, process.err
            self.seconds[folder.name] = time.perf_counter() - began
        return folder, self.seconds[folder.name]


def attempt(case: Case, references: References) -> str:
    trials = {"curve": curve, "poison": poison, "signal": interrupt, "death": death, "restart": restart}
    return trials[case.kind](case, references)


def settings(subject: str, parallel: str, steps: int = STEPS) -> tuple[str, list[str]]:
    """Return the recipe and its settings, without dropout, which depends on how rows are distributed."""
    recipe, overrides = RECIPES[subject]
    return recipe, [
        *overrides,
        "model.dropout=0",
        "training.batch_size=5",
        f"training.parallel={parallel}",
        f"training.steps={steps}",
    ]


def train_once(subject: str, parallel: str, folder: Path) -> None:
    if subject != "decoder":
        train_recipe(*settings(subject, parallel), folder)
        return
    training = decoder_training(dropout=0.0)
    parallel_task = PARALLEL[parallel](training.task) if "RANK" in os.environ else training.task
    training.optimiser, training.average = adamw(training.task.parameters(), 0.01), None
    losses = [record.loss for record in decoder_steps(training, STEPS, parallel_task)]
    if os.environ.get("RANK", "0") == "0":
        folder.mkdir()
        (folder / "metrics.jsonl").write_text(
            "".join(f'{{"step": {step}, "loss": {loss!r}}}\n' for step, loss in enumerate(losses))
        )


def losses(folder: Path) -> list[float]:
    return [value for record in read_metrics(folder) for name, value in sorted(record.items()) if name.endswith("loss")]


def curve(case: Case, references: References) -> str:
    """Check that two processes have the losses of one."""
    folder = references.workspace / "trial"
    shutil.rmtree(folder, ignore_errors=True)
    run_group(lambda rank: train_once(case.subject, case.parallel, folder), 2, references.workspace)
    alone, together = losses(references.alone(case.subject)), losses(folder)
    assert len(alone) == len(together) >= STEPS, f"{len(alone)} losses and {len(together)}"
    gap = max(abs(a - b) / abs(a) for a, b in zip(alone, together, strict=True))
    assert gap <= TOLERANCE, f"{case.subject} {case.parallel}: relative difference {gap:.1e}"
    return "curves equal to one process"


def poison(case: Case, references: References) -> str:
    """Insert a NaN gradient in one step of one process. Both must skip the step, and their weights must stay equal."""
    workspace, step = references.workspace, int(case.when)

    def train_poisoned(rank: int) -> None:
        training = decoder_training(dropout=0.0)
        task = Poisoned(
            training.task,
            lambda: ("gradient", math.nan) if training.progress.step == step and rank == case.rank else None,
        )
        training.task = task
        parallel_task = PARALLEL[case.parallel](task)
        training.optimiser, training.average = adamw(task.parameters(), 0.01), None
        lines = []
        for record in decoder_steps(training, STEPS, parallel_task):
            weights = torch.cat([tensor.flatten() for tensor in whole_weights(task).values()])
            lines.append(f"{record.skipped} {float(weights.double().sum())!r}")
        (workspace / f"poisoned-{rank}").write_text("\n".join(lines))

    run_group(train_poisoned, 2, workspace)
    first, second = ((workspace / f"poisoned-{rank}").read_text().splitlines() for rank in (0, 1))
    assert first == second, "the processes diverged"
    skipped = [number for number, line in enumerate(first) if line.startswith("True")]
    assert skipped == [step], f"skipped {skipped}, poisoned {step}"
    assert first[step].split()[1] == first[step - 1].split()[1], "the skipped step changed weights"
    return "poisoned on one, skipped on both"


def interrupt(case: Case, references: References) -> str:
    """Send a signal to both processes, as torchrun does.

    Both must save and exit with the status of the signal, and the resumed run must be bit-identical.
    """
    steps, number = 200, signal.Signals(int(case.when))
    reference, _ = references.pair(case.subject, case.parallel, steps)
    folder = references.workspace / "trial"
    shutil.rmtree(folder, ignore_errors=True)

    def send(children: list[Child]) -> None:
        wait_for(lambda: len(recorded_metrics(folder)) > 10)
        for child in children:
            child.send(number)

    for process in command(case.subject, case.parallel, folder, steps, send):
        assert process.status == 128 + number, f"status {process.status}: {process.last_line}"
        assert "; saved in " in process.last_line and "--resume" in process.last_line, process.last_line
    for process in command(case.subject, case.parallel, folder, steps):
        assert process.status == 0, process.last_line
    changed = difference(reference, folder)
    assert not changed, f"different {changed}"
    return "signals, saved and resumed bit-identically"


def death(case: Case, references: References) -> str:
    """Kill one of two processes. The other must end in time with a message; the resumed run must be bit-identical."""
    reference, seconds = references.pair(case.subject, case.parallel)
    folder = references.workspace / "trial"
    shutil.rmtree(folder, ignore_errors=True)

    def kill(children: list[Child]) -> None:
        if not children[case.rank].ends_within(case.when * seconds):
            children[case.rank].send(signal.SIGKILL)

    processes = command(case.subject, case.parallel, folder, STEPS, kill)
    other = processes[1 - case.rank]
    if processes[case.rank].was_killed and other.status != 0:  # otherwise it was killed after the training
        assert other.status == 2, f"status {other.status}: {other.last_line}"
        messages = [line for line in other.err.splitlines() if line.startswith("clew: ")]
        assert len(messages) == 1, f"{len(messages)} messages: {other.last_line}"
        assert not message_problem(messages[0]), messages[0]
    for process in command(case.subject, case.parallel, folder, STEPS):
        assert process.status == 0, process.last_line
    changed = difference(reference, folder)
    assert not changed, f"different {changed}"
    return "deaths, ended in time and resumed bit-identically"


def command(
    subject: str, parallel: str, folder: Path, steps: int, strike: Callable[[list[Child]], None] = lambda children: None
) -> list[CompletedProcess]:
    """Run `clew train` in two processes, as torchrun starts them, and call `strike` with them."""
    recipe, overrides = settings(subject, parallel, steps)
    port = 20000 + (os.getpid() * 31 + time.monotonic_ns() // 1000) % 20000
    resume = ["--resume"] if is_run(folder) else []
    arguments = ["train", recipe, f"data.train={text_beside(folder)}", *overrides, "--out", str(folder), *resume]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "CLEW_TIMEOUT": TIMEOUT}
    shared |= {"CLEW_CACHE": str(folder.parent / "cache")}
    with ExitStack() as stack:
        children = [
            stack.enter_context(
                Child(lambda: main(arguments), folder.parent, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            )
            for rank in range(2)
        ]
        strike(children)
        return [child.wait(PATIENCE) for child in children]


def restart(case: Case, references: References) -> str:
    """Kill one process under torchrun, which restarts both. The result must equal that of an uninterrupted run."""
    steps = 300
    reference, _ = references.pair("lstm", "ddp", steps)
    folder = references.workspace / "trial"
    shutil.rmtree(folder, ignore_errors=True)
    recipe, overrides = settings("lstm", "ddp", steps)
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "--max-restarts=1",
        "--monitor-interval=0.1",
    ]
    arguments = ["-m", "clew", "train", recipe, f"data.train={text_beside(folder)}", *overrides, "--out", str(folder)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "CLEW_CACHE": str(folder.parent / "cache"),
    }
    with (references.workspace / "torchrun").open("w+") as log:
        with subprocess.Popen(
            [*launch, *arguments], env=environment, cwd=folder.parent, stdout=log, stderr=log
        ) as process:
            try:
                wait_for(lambda: len(recorded_metrics(folder)) > case.when * steps or process.poll() is not None)
                victims = [
                    pid for pid in child_processes(process.pid) if environment_of(pid).get("RANK") == str(case.rank)
                ]
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
                status = process.wait(120)
            finally:
                process.kill()
        log.seek(0)
        text = log.read()
    assert victims and status == 0, f"status {status}: {text[-300:]}"
    assert "resuming from step" in text, "the run was not restarted"
    expected, actual = losses(reference), losses(folder)
    assert len(expected) == len(actual) and all(
        math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(expected, actual, strict=True)
    ), "a different curve"
    weights = read_weights(reference / "model.safetensors"), read_weights(folder / "model.safetensors")
    assert all(torch.allclose(value, weights[1][name], rtol=1e-5, atol=1e-6) for name, value in weights[0].items()), (
        "different weights"
    )
    return "restarts by torchrun"


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"the condition was not met within {seconds:g} s")
        time.sleep(0.01)


def child_processes(parent: int) -> list[int]:
    """Return the ids of the children of a process."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == parent:
                pids.append(int(path.parent.name))
        except (OSError, IndexError):
            continue
    return pids


def environment_of(pid: int) -> dict[str, str]:
    try:
        rows = Path(f"/proc/{pid}/environ").read_text().split("\0")
    except OSError:
        return {}
    return dict(row.split("=", 1) for row in rows if "=" in row)
