"""Ctrl-C and SIGTERM in every phase of a command: exit status 130 or 143, one line of output, and a checkpoint if there
is anything to save. The command in that line must lead to the same result, bit for bit, as an uninterrupted run, even
if it is killed and resumed.

The signal is sent at the n-th call of a function of clew: one that is typical of a phase, or any.
"""

import os
import random
import shlex
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.children import Child, CompletedProcess, run_child, temporary_folder
from benchmarks.faults.points import Operation, watch_calls, watch_files
from benchmarks.faults.subjects import LSTM, difference, text_beside
from benchmarks.faults.trials import Fault, Result, in_this_process, message_problem, run_trials
from clew.cli.main import main
from clew.runs.folder.run_files import is_run, read_metrics

STEPS = 8
SETTINGS = [
    *LSTM,
    f"training.steps={STEPS}",
    "training.evaluate_every=4",
    "training.save_every=3",
    "data.test_fraction=0.1",
]
PHASES = {
    "parsing": ("cli.main.verb_parser", "cli.train.add_arguments"),
    "start-up": (
        "cli.train.run",
        "recipes.resolving.config_of",
        "training.run.check_training",
        "data.kinds.text.find_texts",
    ),
    "tokenizer": ("runs.build.train_tokenizer",),
    "encoding": ("data.caching.encoding.write_ids", "training.run.progress"),
    "building": ("runs.build.build_task",),
    "making the folder": (
        "training.run_folder.make_folder",
        "training.run_folder.prepare",
        "runs.directory.write_config",
    ),
    "training": ("training.backward.backward", "training.loop.clip"),
    "evaluating": ("tasks.learnings.streams.evaluate", "tasks.language_model.forward"),
    "keeping the best weights": ("training.driving.keep_weights", "runs.directory.tensors_hash"),
    "saving": (
        "training.checkpoints.save_checkpoint",
        "training.checkpoints.write_group",
        "runs.directory.flush",
        "training.checkpoints.drop",
    ),
    "final evaluation": ("training.run.finish", "tasks.learnings.streams.score_of"),
    "sample": (
        "runs.loaded.generate",
        "tasks.uses.generation.generate",
        "decoding.sampling.invert_cumulative",
        "cli.train.what_next",
    ),
    "any call": (),
}
VERBS = {"generate": ["--max-new", "40", "--seed", "1"], "evaluate": []}
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Case(NamedTuple):
    """A verb, and the phase, the function and the number of its call at which a signal is sent.

    The signal may be sent twice, and the loader may have a worker. `killed_at` is the operation on files at which the
    resumed run is killed.
    """

    verb: str
    phase: str
    function: str
    number: int
    signal: signal.Signals
    twice: bool = False
    workers: int = 0
    killed_at: int | None = None


def run(count: int, seed: int) -> Result:
    with temporary_folder("interruptions") as workspace:
        reference = workspace / "reference"
        calls = {"train": count_calls(lambda: train(reference), workspace)}
        calls |= {verb: count_calls(partial(run_verb, verb, reference), workspace) for verb in VERBS}
        cases = iter([draw_case(seed, number, calls) for number in range(count)])
        fault = Fault(
            "interruptions",
            lambda _: next(cases),
            lambda case: attempt(case, reference),
            describe,
            smaller,
            seconds=200.0,
        )
        return run_trials(fault, count, seed, in_this_process)


def draw_case(seed: int, number: int, calls: dict[str, Counter[str]]) -> Case:
    """Take the phases in turn, so that every phase is tested."""
    rng = random.Random(f"interruptions {seed} {number}")
    phase = [*PHASES, *VERBS][number % (len(PHASES) + len(VERBS))]
    verb = phase if phase in VERBS else "train"
    counts = calls[verb]
    possible = [function for function in PHASES.get(phase, ()) if counts[function]]
    function = rng.choice(possible) if possible else ""
    case = Case(verb, phase, function, rng.randrange(counts[function] or counts.total()), rng.choice(list(STATUS)))
    if verb != "train":
        return case
    killed_at = rng.randrange(400) if rng.random() < 0.3 else None
    return case._replace(twice=rng.random() < 0.15, workers=int(rng.random() < 0.15), killed_at=killed_at)


def describe(case: Case) -> str:
    return str(case._asdict())


def smaller(case: Case) -> list[Case]:
    simpler = [case._replace(twice=False), case._replace(workers=0), case._replace(killed_at=None)]
    return [candidate for candidate in simpler if candidate != case]


def train(folder: Path, *options: str) -> int:
    os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
    return main(command(folder, *options))


def command(folder: Path, *options: str) -> list[str]:
    return ["train", "text-lstm", f"data.train={text_beside(folder)}", *SETTINGS, "--out", str(folder), *options]


def run_verb(verb: str, folder: Path) -> int:
    os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
    return main([verb, str(folder), *VERBS[verb]])


def count_calls(run: Callable[[], int], workspace: Path) -> Counter[str]:
    """Count the calls of each of clew's functions in a command."""
    file = workspace / "calls"

    def count() -> int:
        counts: Counter[str] = Counter()
        watch_calls(lambda name: counts.update([name]))
        status = run()
        file.write_text("".join(f"{name} {times}\n" for name, times in counts.items()))
        return status

    shutil.rmtree(workspace / "cache", ignore_errors=True)
    process = run_child(count, workspace)
    assert process.status == 0, process.err
    return Counter({name: int(times) for name, times in (line.split() for line in file.read_text().splitlines())})


def attempt(case: Case, reference: Path) -> str:
    folder = reference.with_name("trial") if case.verb == "train" else reference
    shutil.rmtree(folder.parent / "cache", ignore_errors=True)
    if case.verb == "train":
        shutil.rmtree(folder, ignore_errors=True)
    process = interrupt(case, folder)
    if process.status == 0:  # the signal came after the end of the command
        assert case.phase == "any call" or case.verb != "train", f"{case.phase}: exit 0"
        return "signal after the end"
    messages = [line for line in process.err.splitlines() if line.startswith("clew: ")]
    assert process.status == STATUS[case.signal], f"{case.phase}: status {process.status}: {process.last_line}"
    assert "Traceback" not in process.err, f"{case.phase}: {process.last_line}"
    assert len(messages) == 1 and messages[0] == process.last_line, (
        f"{case.phase}: {len(messages)} messages, last line {process.last_line}"
    )
    problem = message_problem(messages[0].replace(command(folder)[-1], ""))
    assert not problem or "characters" in problem, problem  # a command with many settings may be long
    if case.verb != "train":
        return f"{case.verb}: exit status {process.status}"
    next_command = messages[0].split("`")[1] if "`" in messages[0] else None
    is_complete = any("best.step" in record for record in read_metrics(folder)) if is_run(folder) else False
    assert next_command is not None or not is_run(folder) or is_complete, (
        f"{case.phase}: no command in the message: {messages[0]}"
    )
    assert next_command is not None or not is_complete or "is complete" in messages[0] or case.phase == "any call", (
        f"{case.phase}: {messages[0]}"
    )
    if next_command is not None:
        arguments = shlex.split(next_command)[1:]
    else:
        arguments = command(folder, *(["--resume"] if is_run(folder) else []))
    resume(arguments, folder, case.killed_at)
    changed = difference(reference, folder)
    assert not changed, f"{case.phase}: different {changed}"
    return f"{case.phase}: {'saved, ' if next_command is not None else ''}then bit-identical"


def interrupt(case: Case, folder: Path) -> CompletedProcess:
    calls = 0

    def strike(name: str) -> None:
        nonlocal calls
        if case.function in ("", name):
            if calls == case.number:
                os.killpg(os.getpid(), case.signal)
            calls += 1
            if case.twice and calls == case.number + 3:
                os.kill(os.getpid(), case.signal)

    def run_watched() -> int:
        watch_calls(strike)
        if case.verb == "train":
            return train(folder, f"training.workers={case.workers}")
        return run_verb(case.verb, folder)

    with Child(run_watched, folder.parent) as child:
        return child.wait()


def resume(arguments: list[str], folder: Path, killed_at: int | None) -> None:
    """Run the command to its end, after killing it once if `killed_at` is given."""

    def die(operation: Operation) -> None:
        if operation.number == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def run_to_end() -> int:
        os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
        return main(arguments)

    def run_and_die() -> int:
        watch_files(folder, die)
        return run_to_end()

    if killed_at is not None:
        process = run_child(run_and_die, folder.parent)
        assert process.status in (0, -signal.SIGKILL), process.last_line
        arguments = [*arguments, *(["--resume"] if is_run(folder) and "--resume" not in arguments else [])]
    process = run_child(run_to_end, folder.parent)
    assert process.status == 0, process.last_line
