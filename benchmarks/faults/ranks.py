"""Two processes that train together: the loss curve of one, a dead one that ends the other in time and leaves a run
that goes on, restarts by torchrun, and a gradient of NaN on one of them, which skips the step on both."""

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

from benchmarks.faults.children import Child, Ended, done, own_folder
from benchmarks.faults.divergence import Poisoned
from benchmarks.faults.groups import together
from benchmarks.faults.subjects import (
    GPT,
    LSTM,
    decoder_steps,
    decoder_training,
    difference,
    measured,
    text_beside,
    train_recipe,
)
from benchmarks.faults.trials import Fault, Result, fault_in_sentence, in_this_process, put_through
from clew.cli.main import main
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import is_run, read_metrics
from clew.training.optimisers import adamw
from clew.training.parallel import replicate, shard, whole_weights

ROOT = Path(__file__).parents[2]
STEPS = 24
SPREADS: dict[str, Callable[[nn.Module], nn.Module]] = {"ddp": replicate, "fsdp": shard}
RECIPES = {"lstm": ("text-lstm", LSTM), "gpt": ("text-gpt", GPT)}
TOLERANCE = 1e-6
PATIENCE = 60.0
"""Seconds within which the others have to end when one has died."""
TIMEOUT = "15"
"""Seconds that a process waits for one that never came."""


class Case(NamedTuple):
    """What is tried, on which model, spread how; which process is killed after which share of the time, or poisoned in
    which step, or which signal comes."""

    what: str
    subject: str = "lstm"
    parallel: str = "ddp"
    rank: int = 0
    when: float = 0.0


def run(count: int, seed: int) -> Result:
    with own_folder("ranks") as place:
        cases = drawn(count, seed)
        in_order, straight = iter(cases), Straight(place)
        fault = Fault(
            "ranks", lambda _: next(in_order), lambda case: attempt(case, straight), str, lambda case: (), seconds=400.0
        )
        return put_through(fault, len(cases), seed, in_this_process)


def drawn(count: int, seed: int) -> list[Case]:
    """The curves of every model and both ways to spread it, poisoned steps, signals, restarts, and deaths for the
    rest."""
    chance = random.Random(f"ranks {seed}")
    every = [(subject, parallel) for subject in ("lstm", "gpt", "decoder") for parallel in SPREADS]
    curves = [Case("curve", *pair) for pair in every]
    poisoned = [
        Case("poison", "decoder", parallel, rank, chance.randrange(1, STEPS - 1))
        for parallel in SPREADS
        for rank in (0, 1)
    ]
    signals = [
        Case("signal", subject, when=number) for subject, number in (("lstm", signal.SIGTERM), ("gpt", signal.SIGINT))
    ]
    restarts = [Case("restart", rank=rank, when=chance.uniform(0.2, 0.6)) for rank in (0, 1)]
    deaths = [
        Case(
            "death",
            chance.choice(list(RECIPES)),
            chance.choice(list(SPREADS)),
            chance.randrange(2),
            chance.uniform(0, 1),
        )
        for _ in range(max(count - len(curves) - len(poisoned) - len(signals) - len(restarts), 1))
    ]
    few = [curves[1], poisoned[1], deaths[0]]
    return few[:count] if count <= len(few) else [*curves, *poisoned, *signals, *deaths, *restarts][:count]


class Straight:
    """Trainings that nobody touched, each done when it is first asked for."""

    def __init__(self, place: Path):
        self.place = place
        self.seconds: dict[str, float] = {}

    def alone(self, subject: str) -> Path:
        folder = self.place / f"{subject}-alone"
        if not folder.exists():
            ended = done(lambda: train_once(subject, "ddp", folder), self.place)
            assert ended.status == 0, ended.err
        return folder

    def pair(self, subject: str, parallel: str, steps: int = STEPS) -> tuple[Path, float]:
        """By two processes through the command, and how long it took."""
        folder = self.place / f"{subject}-{parallel}-{steps}"
        if folder.name not in self.seconds:
            shutil.rmtree(folder, ignore_errors=True)
            began = time.perf_counter()
            for ended in command(subject, parallel, folder, steps):
                assert ended.status == 0, ended.err
            self.seconds[folder.name] = time.perf_counter() - began
        return folder, self.seconds[folder.name]


def attempt(case: Case, straight: Straight) -> str:
    return {"curve": curve, "poison": poison, "signal": interrupt, "death": death, "restart": restart}[case.what](
        case, straight
    )


def settings(subject: str, parallel: str, steps: int = STEPS) -> tuple[str, list[str]]:
    """Without dropout, whose draws depend on how rows are spread."""
    recipe, given = RECIPES[subject]
    return recipe, [
        *given,
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
    spread = SPREADS[parallel](training.task) if "RANK" in os.environ else training.task
    training.optimiser, training.average = adamw(training.task.parameters(), 0.01), None
    losses = [record.loss for record in decoder_steps(training, STEPS, spread)]
    if os.environ.get("RANK", "0") == "0":
        folder.mkdir()
        (folder / "metrics.jsonl").write_text(
            "".join(f'{{"step": {step}, "loss": {loss!r}}}\n' for step, loss in enumerate(losses))
        )


def losses(folder: Path) -> list[float]:
    return [value for record in read_metrics(folder) for name, value in sorted(record.items()) if name.endswith("loss")]


def curve(case: Case, straight: Straight) -> str:
    """Two processes have the losses of one."""
    folder = straight.place / "trial"
    shutil.rmtree(folder, ignore_errors=True)
    together(lambda rank: train_once(case.subject, case.parallel, folder), 2, straight.place)
    alone, found = losses(straight.alone(case.subject)), losses(folder)
    assert len(alone) == len(found) >= STEPS, f"{len(alone)} losses and {len(found)}"
    apart = max(abs(a - b) / abs(a) for a, b in zip(alone, found, strict=True))
    assert apart <= TOLERANCE, f"{case.subject} {case.parallel}: {apart:.1e} apart"
    return "curves of one process"


def poison(case: Case, straight: Straight) -> str:
    """A gradient of NaN on one process in one step: skipped on both, whose weights stay equal."""
    place, step = straight.place, int(case.when)

    def train_poisoned(rank: int) -> None:
        training = decoder_training(dropout=0.0)
        task = Poisoned(
            training.task,
            lambda: ("gradient", math.nan) if training.progress.step == step and rank == case.rank else None,
        )
        training.task = task
        spread = SPREADS[case.parallel](task)
        training.optimiser, training.average = adamw(task.parameters(), 0.01), None
        lines = []
        for record in decoder_steps(training, STEPS, spread):
            weights = torch.cat([tensor.flatten() for tensor in whole_weights(task).values()])
            lines.append(f"{record.skipped} {float(weights.double().sum())!r}")
        (place / f"poisoned-{rank}").write_text("\n".join(lines))

    together(train_poisoned, 2, place)
    first, second = ((place / f"poisoned-{rank}").read_text().splitlines() for rank in (0, 1))
    assert first == second, "the processes went apart"
    skipped = [number for number, line in enumerate(first) if line.startswith("True")]
    assert skipped == [step], f"skipped {skipped}, poisoned {step}"
    assert first[step].split()[1] == first[step - 1].split()[1], "the skipped step changed weights"
    return "poisoned on one, skipped on both"


def interrupt(case: Case, straight: Straight) -> str:
    """A signal to both, as torchrun sends it: both save, end with its exit code, and the run goes on to the same
    end."""
    steps, number = 200, signal.Signals(int(case.when))
    whole, _ = straight.pair(case.subject, case.parallel, steps)
    folder = straight.place / "trial"
    shutil.rmtree(folder, ignore_errors=True)

    def send(children: list[Child]) -> None:
        wait_for(lambda: len(measured(folder)) > 10)
        for child in children:
            child.send(number)

    for ended in command(case.subject, case.parallel, folder, steps, send):
        assert ended.status == 128 + number, f"status {ended.status}: {ended.last}"
        assert "; saved in " in ended.last and "--resume" in ended.last, ended.last
    for again in command(case.subject, case.parallel, folder, steps):
        assert again.status == 0, again.last
    found = difference(whole, folder)
    assert not found, f"another {found}"
    return "signals, saved and gone on to the same bits"


def death(case: Case, straight: Straight) -> str:
    """One of two is killed: the other ends in time with a sentence, and the run goes on to the same end."""
    whole, seconds = straight.pair(case.subject, case.parallel)
    folder = straight.place / "trial"
    shutil.rmtree(folder, ignore_errors=True)

    def kill(children: list[Child]) -> None:
        if not children[case.rank].ends_within(case.when * seconds):
            children[case.rank].send(signal.SIGKILL)

    ended = command(case.subject, case.parallel, folder, STEPS, kill)
    other = ended[1 - case.rank]
    if ended[case.rank].was_killed and other.status != 0:  # else it died when all was done
        assert other.status == 2, f"status {other.status}: {other.last}"
        said = [line for line in other.err.splitlines() if line.startswith("clew: ")]
        assert len(said) == 1, f"{len(said)} lines of clew's: {other.last}"
        assert not fault_in_sentence(said[0]), said[0]
    for again in command(case.subject, case.parallel, folder, STEPS):
        assert again.status == 0, again.last
    found = difference(whole, folder)
    assert not found, f"another {found}"
    return "deaths, ended in time and gone on to the same bits"


def command(
    subject: str, parallel: str, folder: Path, steps: int, meddle: Callable[[list[Child]], None] = lambda children: None
) -> list[Ended]:
    """`clew train` by two processes that torchrun would have started so, and what is done to them meanwhile."""
    recipe, given = settings(subject, parallel, steps)
    port = 20000 + (os.getpid() * 31 + time.monotonic_ns() // 1000) % 20000
    again = ["--resume"] if is_run(folder) else []
    arguments = ["train", recipe, f"data.train={text_beside(folder)}", *given, "--out", str(folder), *again]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "CLEW_TIMEOUT": TIMEOUT}
    shared |= {"CLEW_CACHE": str(folder.parent / "cache")}
    with ExitStack() as stack:
        children = [
            stack.enter_context(
                Child(lambda: main(arguments), folder.parent, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            )
            for rank in range(2)
        ]
        meddle(children)
        return [child.wait(PATIENCE) for child in children]


def restart(case: Case, straight: Straight) -> str:
    """torchrun starts both anew when one is killed, and the run comes to the end that it would have come to."""
    steps = 300
    whole, _ = straight.pair("lstm", "ddp", steps)
    folder = straight.place / "trial"
    shutil.rmtree(folder, ignore_errors=True)
    recipe, given = settings("lstm", "ddp", steps)
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "--max-restarts=1",
        "--monitor-interval=0.1",
    ]
    arguments = ["-m", "clew", "train", recipe, f"data.train={text_beside(folder)}", *given, "--out", str(folder)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "CLEW_CACHE": str(folder.parent / "cache"),
    }
    with (straight.place / "torchrun").open("w+") as log:
        with subprocess.Popen(
            [*launch, *arguments], env=environment, cwd=folder.parent, stdout=log, stderr=log
        ) as process:
            try:
                wait_for(lambda: len(measured(folder)) > case.when * steps or process.poll() is not None)
                victims = [pid for pid in started_by(process.pid) if variables(pid).get("RANK") == str(case.rank)]
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
                status = process.wait(120)
            finally:
                process.kill()
        log.seek(0)
        text = log.read()
    assert victims and status == 0, f"status {status}: {text[-300:]}"
    assert "resuming from step" in text, "it was not started anew"
    there, here = losses(whole), losses(folder)
    assert len(there) == len(here) and all(
        math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(there, here, strict=True)
    ), "another curve"
    weights = read_weights(whole / "model.safetensors"), read_weights(folder / "model.safetensors")
    assert all(torch.allclose(value, weights[1][name], rtol=1e-5, atol=1e-6) for name, value in weights[0].items()), (
        "other weights"
    )
    return "restarts by torchrun"


def wait_for(is_so: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(f"nothing happened for {seconds:g} s")
        time.sleep(0.01)


def started_by(parent: int) -> list[int]:
    """The children of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == parent:
                found.append(int(path.parent.name))
        except (OSError, IndexError):
            continue
    return found


def variables(pid: int) -> dict[str, str]:
    try:
        rows = Path(f"/proc/{pid}/environ").read_text().split("\0")
    except OSError:
        return {}
    return dict(row.split("=", 1) for row in rows if "=" in row)
