"""Ctrl-C and SIGTERM in every phase of a command: exit 130 or 143 and one line, what can be saved is saved, and the
command that the line names leads to the bits of a run that nobody interrupted, though a kill may come on the way.

The signal is sent when some function of clew's is entered for the n-th time: one that stands for a phase, or any.
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

from benchmarks.faults.children import Child, Ended, done, own_folder
from benchmarks.faults.points import Operation, watch_calls, watch_files
from benchmarks.faults.subjects import LSTM, difference, text_beside
from benchmarks.faults.trials import Fault, Result, fault_in_sentence, in_this_process, put_through
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
    """A verb, the phase and the function in whose n-th call a signal comes, whether it comes twice or the loader has a
    worker, and, where the run goes on, the operation on its files at which it is killed."""

    verb: str
    phase: str
    function: str
    number: int
    signal: signal.Signals
    twice: bool = False
    workers: int = 0
    killed_at: int | None = None


def run(count: int, seed: int) -> Result:
    with own_folder("interruptions") as place:
        straight = place / "straight"
        calls = {"train": count_calls(lambda: train(straight), place)}
        calls |= {verb: count_calls(partial(use, verb, straight), place) for verb in VERBS}
        cases = iter([drawn(seed, number, calls) for number in range(count)])
        fault = Fault(
            "interruptions",
            lambda _: next(cases),
            lambda case: attempt(case, straight),
            describe,
            smaller,
            seconds=200.0,
        )
        return put_through(fault, count, seed, in_this_process)


def drawn(seed: int, number: int, calls: dict[str, Counter[str]]) -> Case:
    """The phases in turn, so that each is met."""
    chance = random.Random(f"interruptions {seed} {number}")
    which = [*PHASES, *VERBS][number % (len(PHASES) + len(VERBS))]
    verb = which if which in VERBS else "train"
    there = calls[verb]
    named = [function for function in PHASES.get(which, ()) if there[function]]
    function = chance.choice(named) if named else ""
    case = Case(verb, which, function, chance.randrange(there[function] or there.total()), chance.choice(list(STATUS)))
    if verb != "train":
        return case
    killed_at = chance.randrange(400) if chance.random() < 0.3 else None
    return case._replace(twice=chance.random() < 0.15, workers=int(chance.random() < 0.15), killed_at=killed_at)


def describe(case: Case) -> str:
    return str(case._asdict())


def smaller(case: Case) -> list[Case]:
    simpler = [case._replace(twice=False), case._replace(workers=0), case._replace(killed_at=None)]
    return [other for other in simpler if other != case]


def train(folder: Path, *more: str) -> int:
    os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
    return main(command(folder, *more))


def command(folder: Path, *more: str) -> list[str]:
    return ["train", "text-lstm", f"data.train={text_beside(folder)}", *SETTINGS, "--out", str(folder), *more]


def use(verb: str, folder: Path) -> int:
    os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
    return main([verb, str(folder), *VERBS[verb]])


def count_calls(do: Callable[[], int], place: Path) -> Counter[str]:
    """How often a command enters each of clew's functions."""
    written = place / "calls"

    def count() -> int:
        found: Counter[str] = Counter()
        watch_calls(lambda name: found.update([name]))
        status = do()
        written.write_text("".join(f"{name} {times}\n" for name, times in found.items()))
        return status

    shutil.rmtree(place / "cache", ignore_errors=True)
    ended = done(count, place)
    assert ended.status == 0, ended.err
    return Counter({name: int(times) for name, times in (line.split() for line in written.read_text().splitlines())})


def attempt(case: Case, straight: Path) -> str:
    folder = straight.with_name("trial") if case.verb == "train" else straight
    shutil.rmtree(folder.parent / "cache", ignore_errors=True)
    if case.verb == "train":
        shutil.rmtree(folder, ignore_errors=True)
    ended = interrupt(case, folder)
    if ended.status == 0:  # it came when all was done
        assert case.phase == "any call" or case.verb != "train", f"{case.phase}: exit 0"
        return "came too late"
    said = [line for line in ended.err.splitlines() if line.startswith("clew: ")]
    assert ended.status == STATUS[case.signal], f"{case.phase}: status {ended.status}: {ended.last}"
    assert "Traceback" not in ended.err, f"{case.phase}: {ended.last}"
    assert len(said) == 1 and said[0] == ended.last, f"{case.phase}: {len(said)} lines of clew's, and last {ended.last}"
    complaint = fault_in_sentence(said[0].replace(command(folder)[-1], ""))
    assert not complaint or "characters" in complaint, complaint  # a command is as long as its settings
    if case.verb != "train":
        return f"{case.verb}: ended with {ended.status}"
    named = said[0].split("`")[1] if "`" in said[0] else None
    is_complete = any("best.step" in record for record in read_metrics(folder)) if is_run(folder) else False
    assert named is not None or not is_run(folder) or is_complete, f"{case.phase}: names no command: {said[0]}"
    assert named is not None or not is_complete or "is complete" in said[0] or case.phase == "any call", (
        f"{case.phase}: {said[0]}"
    )
    again = shlex.split(named)[1:] if named is not None else command(folder, *(["--resume"] if is_run(folder) else []))
    go_on(again, folder, case.killed_at)
    found = difference(straight, folder)
    assert not found, f"{case.phase}: another {found}"
    return f"{case.phase}: {'saved, ' if named is not None else ''}then the same bits"


def interrupt(case: Case, folder: Path) -> Ended:
    met = 0

    def strike(name: str) -> None:
        nonlocal met
        if case.function in ("", name):
            if met == case.number:
                os.killpg(os.getpid(), case.signal)
            met += 1
            if case.twice and met == case.number + 3:
                os.kill(os.getpid(), case.signal)

    def do() -> int:
        watch_calls(strike)
        return train(folder, f"training.workers={case.workers}") if case.verb == "train" else use(case.verb, folder)

    with Child(do, folder.parent) as child:
        return child.wait()


def go_on(arguments: list[str], folder: Path, killed_at: int | None) -> None:
    """The command that was named, once killed on its way where the case says so, until it ends."""

    def die(operation: Operation) -> None:
        if operation.number == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def go() -> int:
        os.environ["CLEW_CACHE"] = str(folder.parent / "cache")
        return main(arguments)

    def go_and_die() -> int:
        watch_files(folder, die)
        return go()

    if killed_at is not None:
        ended = done(go_and_die, folder.parent)
        assert ended.status in (0, -signal.SIGKILL), ended.last
        arguments = [*arguments, *(["--resume"] if is_run(folder) and "--resume" not in arguments else [])]
    ended = done(go, folder.parent)
    assert ended.status == 0, ended.last
