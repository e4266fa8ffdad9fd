"""A search from start to end: draw trials, train them in this process or in workers, and stop on a signal. Knows no
command line."""

import gc
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, counted, shortened
from clew.core.files import file_hash
from clew.core.processes import world_size
from clew.core.wording import argument, argument_name, call
from clew.recipes.resolving import check_needs, read_recipe
from clew.runs.folder.lock import locked
from clew.runs.folder.run_files import is_run
from clew.studies import STUDY, is_study
from clew.studies.result import Search, build_result, save_best
from clew.studies.space import Space, read_space
from clew.studies.study import (
    JOURNAL,
    Study,
    data_hashes,
    open_study,
    read_study,
    repair_journal,
    write_study,
    writing_study,
)
from clew.studies.trials import FAILED, FINISHED, PRUNED, Evaluated, Outcome, TrialSpec, train_trial
from clew.studies.workers import Worker, WorkerExited
from clew.training.report import Report
from clew.training.signals import Interrupted

Reporting = Callable[[], AbstractContextManager[Report]]
MOST_JOBS = 64
MOST_FIRST_FAILURES = 3
"""A search ends if this number of first trials fail, or two for the same reason: then the fault is in the settings that
all trials share."""
DIED = "its process ended twice"
"""The start of the note of a trial whose worker died, and died again after the trial was resumed."""


def search(
    recipe: str,
    assignments: Sequence[str],
    *,
    trials: int,
    jobs: int = 1,
    out: Path | None = None,
    resume: bool = False,
    code: Path | None = None,
    say: Callable[[str], None],
    reporting: Reporting,
    worker: list[str],
    debug: bool = False,
) -> Search:
    """Start a search in a new folder, or resume one. On a signal, save the running trials and raise `Interrupted`.

    `reporting` shows the training of a trial in this process; `worker` is the command that starts a worker process.
    """
    if world_size() > 1:
        raise UserError(
            "a search starts its own processes and cannot run under torchrun; start it without torchrun, with"
            f" {argument('jobs', 2)} to train two trials at once"
        )
    if trials < 1:
        raise UserError(
            f"the number of trials ({trials}) must be at least 1; set it, for example with"
            f" {argument('trials', 20, option='search')}"
        )
    if not 1 <= jobs <= MOST_JOBS:
        raise UserError(
            f"{argument_name('jobs')} ({jobs}), the number of trials that are trained at once, must be from 1 to"
            f" {MOST_JOBS}"
        )
    folder = (
        resumed_folder(recipe, assignments, out, code)
        if resume
        else new_folder(recipe, assignments, trials, out, code, say)
    )
    with writing_study(folder), locked(folder):
        repair_journal(folder)
        study = open_study(folder, code)
        check_count(study.space, trials)
        if trials < (started := len(study.entries())):
            raise UserError(
                f"{folder} already has {counted(started, 'trial')}, but {argument('trials', trials, option='search')}"
                f" requests fewer; request at least {started}"
            )
        if trials != study.requested:
            content = read_study(folder)
            write_study(folder, study.space, content["settings"], study.seed, trials, code, content.get("data"))
            study.requested = trials
        for axis in study.space.axes:
            say(axis.about)
        queue = TrialQueue(study, say)
        if jobs == 1:
            train_here(queue, reporting, debug)
        else:
            train_in_workers(queue, worker, jobs)
        result = build_result(study)
        save_best(result)
    return result


def new_folder(
    recipe: str,
    assignments: Sequence[str],
    trials: int,
    out: Path | None,
    code: Path | None,
    say: Callable[[str], None],
) -> Path:
    """Create the folder of a new study, with its settings: runs/RECIPE-search, runs/RECIPE-search-2, and so on."""
    space, config = read_space(recipe, assignments)
    check_needs(config)
    check_count(space, trials)
    training = config.training
    if training.epochs is None and training.evaluate_every >= training.steps:
        say(
            f"no trial can be pruned, because its first evaluation is its last (training.evaluate_every="
            f"{training.evaluate_every}, training.steps={training.steps}); to prune bad trials, evaluate more often"
        )
    folder, number = out or Path("runs") / f"{config.recipe}-search", 1
    while out is None and folder.exists():
        number += 1
        folder = Path("runs") / f"{config.recipe}-search-{number}"
    if is_study(folder):
        raise UserError(
            f"{folder} is already a search; resume it with {argument('resume', True)}, or choose another folder"
        )
    if is_run(folder) or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise UserError(f"{folder} exists and is not an empty folder; choose another with {argument('out')}")
    with writing_study(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JOURNAL).touch()
        write_study(folder, space, assignments, config.seed, trials, code, data_hashes(config.data))
    return folder


def resumed_folder(recipe: str, assignments: Sequence[str], out: Path | None, code: Path | None) -> Path:
    """Return the folder of the search to resume: `out`, or the newest in runs/ with this recipe and these settings."""
    if out is None:
        studies = sorted(
            Path("runs").glob(f"{read_recipe(recipe)[0]}-search*/{STUDY}"), key=lambda path: path.stat().st_mtime
        )
        folders = [
            path.parent
            for path in studies
            if not assignments or sorted(read_study(path.parent)["settings"]) == sorted(assignments)
        ]
        if not folders:
            raise UserError(
                f"there is no search of {shortened(recipe)} with these settings in runs/; leave"
                f" {argument('resume', True)} out to start one"
            )
        out = folders[-1]
    content = read_study(out)
    if content["recipe"] != recipe:
        raise UserError(
            f"{out} is a search of {content['recipe']}, not of {shortened(recipe)}; pass that recipe, or another folder"
        )
    if assignments and sorted(content["settings"]) != sorted(assignments):
        changed = sorted({*content["settings"]} ^ {*assignments})
        raise UserError(
            f"a resumed search keeps its settings, but these changed: {shortened(', '.join(changed))}; "
            "leave the settings out, or start a new search"
        )
    if content["code"] != (None if code is None else file_hash(code)):
        name = argument_name("code")
        problem, remedy = (
            (f"without {name}", f"leave {name} out")
            if content["code"] is None
            else (f"with another file as {name}", "pass the same file")
        )
        raise UserError(f"{out} was started {problem}; {remedy}")
    check_data(out, content)
    return out


def check_data(folder: Path, study: Mapping[str, Any]) -> None:
    """Check that the data files are those of the earlier trials: scores on other data cannot be compared."""
    if "data" not in study:  # written by an earlier version
        return
    before, now = study["data"], data_hashes(read_space(study["recipe"], study["settings"])[1].data)
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if changed:
        raise UserError(
            f"{shortened(', '.join(changed))} changed since {folder} was started, so its trials could not be compared;"
            " start a new search"
        )


def check_count(space: Space, trials: int) -> None:
    if trials > space.combinations:
        train = "clew train RECIPE FIELD=VALUE,VALUE"
        raise UserError(
            f"these values have only {counted(int(space.combinations), 'combination')}, fewer than the {trials}"
            " requested"
            f" trials; request fewer, or train each combination once with {call('clew.train(...)', train)}"
        )


@dataclass
class TrialQueue:
    """Chooses the next trial, and records evaluations and outcomes; one thread at a time."""

    study: Study
    say: Callable[[str], None]
    lock: threading.RLock = field(default_factory=threading.RLock)
    waiting: list[TrialSpec] = field(default_factory=list)
    is_stopping: bool = False

    def __post_init__(self) -> None:
        self.waiting = self.study.interrupted()
        trials = self.study.trials()
        if done := len(trials) - len(self.waiting):
            self.say(f"{counted(done, 'trial')} of {self.study.requested} ended before")

    def next(self) -> TrialSpec | None:
        """Return the trial to train next: an interrupted one, or else a new one; None if there are no more."""
        with self.lock:
            if self.is_stopping:
                return None
            if self.waiting:
                spec = self.waiting.pop(0)
            else:
                ended = self.study.trials()
                if len(ended) >= self.study.requested:
                    return None
                reasons = {trial.note for trial in ended if trial.state == FAILED}
                if all(trial.state == FAILED for trial in ended) and (
                    len(ended) >= MOST_FIRST_FAILURES or len(ended) > len(reasons)
                ):
                    remedy = (
                        f"lower {argument_name('jobs')} or free memory, and"
                        if ended[-1].note.startswith(DIED)
                        else "correct the settings, and"
                    )
                    raise UserError(
                        f"the first {len(ended)} trials failed, the last with the error:"
                        f" {shortened(ended[-1].note, 250)}; "
                        f"{remedy} start a new search"
                    )
                drawn = self.study.draw()
                if drawn is None:
                    self.is_stopping = True
                    self.say(f"every draw repeats a trial; the search ends after {counted(len(ended), 'trial')}")
                    return None
                spec = drawn
            trial = self.study.trials()[spec.number - 1]
            self.say(
                f"trial {spec.number} of {self.study.requested}{f', {trial.note}' if trial.note else ''}: {trial.words}"
            )
            return spec

    def record_evaluation(self, spec: TrialSpec, last: Evaluated, *, aloud: bool = False) -> bool:
        """Record an evaluation, and return whether the trial should end."""
        with self.lock:
            if aloud:
                self.say(f"trial {spec.number}, step {last.step}: {last.measure} {last.score:.4f}")
            return self.study.record_evaluation(spec.number, last)

    def record_outcome(self, spec: TrialSpec, outcome: Outcome) -> None:
        with self.lock:
            before = [
                trial.value for trial in self.study.trials() if trial.state == FINISHED and trial.value is not None
            ]
            self.study.end(spec.number, outcome)
            trial = self.study.trials()[spec.number - 1]
            title = f"trial {trial.number} {trial.state}"
            if trial.state == FAILED:
                self.say(f"{title}: {trial.note}")
            else:
                is_best = trial.state == FINISHED and all(trial.value < value for value in before)  # type: ignore[operator]
                place = f" at step {trial.step} of {trial.steps}" if trial.state == PRUNED else ""
                self.say(f"{title}{place}: {trial.measure} {trial.score:.4f}{' (best so far)' if is_best else ''}")

    def interruption(self, number: int) -> Interrupted:
        """Return the exception for a search that was stopped by a signal."""
        with self.lock:
            done = sum(trial.state in (FINISHED, PRUNED, FAILED) for trial in self.study.trials())
            return Interrupted(
                number, f"stopped; {done} of {counted(self.study.requested, 'trial')} ended", self.study.folder
            )


def train_here(queue: TrialQueue, reporting: Reporting, debug: bool) -> None:
    """Train one trial after another in this process."""
    try:
        while (spec := queue.next()) is not None:
            current = spec
            with reporting() as report:
                outcome = train_trial(current, partial(queue.record_evaluation, current), report, debug=debug)
            queue.record_outcome(current, outcome)
            gc.collect()  # reference cycles of one trial keep memory that the next may need
    except Interrupted as stop:
        raise queue.interruption(stop.number) from None
    except KeyboardInterrupt as stop:
        raise queue.interruption(signal_of(stop)) from None


def train_in_workers(queue: TrialQueue, command: list[str], jobs: int) -> None:
    """Train `jobs` trials at once, each in its own process."""
    workers: dict[int, Worker] = {}
    faults: list[BaseException] = []

    def keep_busy(place: int) -> None:
        try:
            while (spec := queue.next()) is not None:
                if not train(place, spec):
                    return
        except BaseException as fault:
            faults.append(fault)
            queue.is_stopping = True
            for other in list(workers.values()):
                other.stop()
        finally:
            if place in workers:
                workers[place].leave()

    def train(place: int, spec: TrialSpec) -> bool:
        """Train a trial, and return whether it has an outcome. A worker that dies is replaced once, and its trial
        resumed."""
        for attempt in (1, 2):
            with queue.lock:
                if queue.is_stopping:
                    return False
                worker = workers.get(place) or workers.setdefault(place, Worker(command, jobs))
            try:
                outcome = worker.train(spec, lambda last: queue.record_evaluation(spec, last, aloud=True))
            except WorkerExited as error:
                workers.pop(place).leave()
                if queue.is_stopping:
                    return False
                if attempt == 1:
                    queue.say(f"trial {spec.number}: its process ended ({error}); resuming it in another process")
                    continue
                outcome = Outcome(FAILED, reason=f"{DIED} ({error}); it may need more memory than there is")
            if outcome is None:
                return False
            queue.record_outcome(spec, outcome)
            return True
        raise AssertionError

    threads = [threading.Thread(target=keep_busy, args=(place,), daemon=True) for place in range(jobs)]
    number = 0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            for thread in threads:
                thread.join(timeout=0.2)
        except KeyboardInterrupt as stop:
            if number:
                for worker in list(workers.values()):
                    worker.kill()
                raise queue.interruption(number) from None
            number = signal_of(stop)
            queue.say("stopping after the current steps; press Ctrl-C again to stop at once")
            queue.is_stopping = True
            with queue.lock:
                for worker in list(workers.values()):
                    worker.stop()
    if faults:
        raise faults[0]
    if number:
        raise queue.interruption(number)


def signal_of(stop: KeyboardInterrupt) -> int:
    return signal.SIGTERM if type(stop).__name__ == "Terminated" else signal.SIGINT
