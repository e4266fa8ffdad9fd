"""A search from start to end: draws trials, trains them here or in workers, and stops where it is asked to. Knows no
command line."""

import gc
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from clew.core.errors import UserError, counted, shortened
from clew.core.files import file_hash
from clew.core.processes import world_size
from clew.recipes.resolving import check_needs, read_recipe
from clew.runs.directory import is_run
from clew.runs.folder.lock import locked
from clew.studies import STUDY, is_study
from clew.studies.result import Search, keep_best, result_of
from clew.studies.space import Space, read_space
from clew.studies.study import JOURNAL, Study, open_study, read_study, repair_journal, write_study, writing_study
from clew.studies.trials import FAILED, FINISHED, PRUNED, Evaluated, Order, Outcome, train_trial
from clew.studies.workers import Ended, Worker
from clew.training.report import Report
from clew.training.signals import Interrupted

Reporting = Callable[[], AbstractContextManager[Report]]
MOST_JOBS = 64
HOPELESS = 3
"""So many first trials that fail, or two for the same reason, end a search: it is the settings that all of them
share."""
DIED = "its process ended twice"
"""How the note of a trial begins whose worker died, and died again when the trial was resumed."""


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
    """Searches in a new folder, or resumes a search. Raises `Interrupted` where a signal came, after the trials under
    way are saved.

    `reporting` shows the training of a trial where it is trained in this process; `worker` is the command of a process
    that trains others.
    """
    if world_size() > 1:
        raise UserError("a search starts its own processes (--jobs), and not under torchrun; start it by itself")
    if trials < 1:
        raise UserError(
            f"the number of trials ({trials}) must be at least 1; give how many to train, such as --search 20"
        )
    if not 1 <= jobs <= MOST_JOBS:
        raise UserError(f"--jobs ({jobs}) must be from 1 to {MOST_JOBS}: the trials that are trained at once")
    folder = (
        resumed_folder(recipe, assignments, out, code)
        if resume
        else new_folder(recipe, assignments, trials, out, code, say)
    )
    with writing_study(folder), locked(folder):
        repair_journal(folder)
        study = open_study(folder, code)
        check_count(study.space, trials)
        if trials < (begun := len(study.entries())):
            raise UserError(
                f"{folder} has begun {begun} trials already, and --search asks for {trials}; ask for at least as many"
            )
        if trials != study.asked:
            content = read_study(folder)
            write_study(folder, study.space, content["settings"], study.seed, trials, code)
            study.asked = trials
        for axis in study.space.axes:
            say(axis.about)
        conduct = Conduct(study, say)
        if jobs == 1:
            train_here(conduct, reporting, debug)
        else:
            train_beside(conduct, worker, jobs)
        found = result_of(study)
        keep_best(found)
    return found


def new_folder(
    recipe: str,
    assignments: Sequence[str],
    trials: int,
    out: Path | None,
    code: Path | None,
    say: Callable[[str], None],
) -> Path:
    """The folder of a new study, with its settings: runs/RECIPE-search, then runs/RECIPE-search-2, ..."""
    space, config = read_space(recipe, assignments)
    check_needs(config)
    check_count(space, trials)
    training = config.training
    if training.epochs is None and training.evaluate_every >= training.steps:
        say(
            f"no trial is pruned: the first evaluation is the last (training.evaluate_every={training.evaluate_every}, "
            f"training.steps={training.steps}); evaluate more often to end trials that fall behind"
        )
    folder, number = out or Path("runs") / f"{config.recipe}-search", 1
    while out is None and folder.exists():
        number += 1
        folder = Path("runs") / f"{config.recipe}-search-{number}"
    if is_study(folder):
        raise UserError(f"{folder} is a search already; go on with it by `--resume`, or choose another folder")
    if is_run(folder) or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise UserError(f"{folder} exists and is not an empty folder; choose another with --out")
    with writing_study(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JOURNAL).touch()
        write_study(folder, space, assignments, config.seed, trials, code)
    return folder


def resumed_folder(recipe: str, assignments: Sequence[str], out: Path | None, code: Path | None) -> Path:
    """The folder of the search to resume: the one that is named, or the newest below runs/ of this recipe and these
    settings."""
    if out is None:
        found = sorted(
            Path("runs").glob(f"{read_recipe(recipe)[0]}-search*/{STUDY}"), key=lambda path: path.stat().st_mtime
        )
        folders = [
            path.parent
            for path in found
            if not assignments or sorted(read_study(path.parent)["settings"]) == sorted(assignments)
        ]
        if not folders:
            raise UserError(
                f"below runs/ there is no search of {shortened(recipe)} with these settings; leave --resume out to"
                " start one"
            )
        out = folders[-1]
    content = read_study(out)
    if content["recipe"] != recipe:
        raise UserError(
            f"{out} is a search of {content['recipe']}, not of {shortened(recipe)}; name that recipe, or another folder"
        )
    if assignments and sorted(content["settings"]) != sorted(assignments):
        changed = sorted({*content["settings"]} ^ {*assignments})
        raise UserError(
            f"a resumed search keeps its settings, but these changed: {shortened(', '.join(changed))}; "
            "leave the settings out, or start a new search"
        )
    if content["code"] != (None if code is None else file_hash(code)):
        raise UserError(
            f"{out} was begun {'without --code' if content['code'] is None else 'with another --code'}; give the same"
            " file"
        )
    return out


def check_count(space: Space, trials: int) -> None:
    if trials > space.combinations:
        raise UserError(
            f"there are only {counted(int(space.combinations), 'combination')} of these values, and {trials} trials are"
            " asked for; ask for fewer, or train each combination once as a grid (`clew train` without --search)"
        )


@dataclass
class Conduct:
    """Which trial comes next, and what becomes of it; one thread at a time."""

    study: Study
    say: Callable[[str], None]
    lock: threading.RLock = field(default_factory=threading.RLock)
    waiting: list[Order] = field(default_factory=list)
    is_stopping: bool = False

    def __post_init__(self) -> None:
        self.waiting = self.study.interrupted()
        trials = self.study.trials()
        if done := len(trials) - len(self.waiting):
            self.say(f"{counted(done, 'trial')} of {self.study.asked} ended before")

    def next(self) -> Order | None:
        """The trial to train now: one that was interrupted, else a new one."""
        with self.lock:
            if self.is_stopping:
                return None
            if self.waiting:
                order = self.waiting.pop(0)
            else:
                ended = self.study.trials()
                if len(ended) >= self.study.asked:
                    return None
                reasons = {trial.note for trial in ended if trial.state == FAILED}
                if all(trial.state == FAILED for trial in ended) and (
                    len(ended) >= HOPELESS or len(ended) > len(reasons)
                ):
                    remedy = (
                        "lower --jobs or free memory, then"
                        if ended[-1].note.startswith(DIED)
                        else "mend the settings and"
                    )
                    raise UserError(
                        f"the first {len(ended)} trials failed, the last because {shortened(ended[-1].note, 250)}; "
                        f"{remedy} start a new search"
                    )
                drawn = self.study.draw()
                if drawn is None:
                    self.is_stopping = True
                    self.say(f"every draw repeats a trial; the search ends after {counted(len(ended), 'trial')}")
                    return None
                order = drawn
            trial = self.study.trials()[order.number - 1]
            self.say(
                f"trial {order.number} of {self.study.asked}{f', {trial.note}' if trial.note else ''}: {trial.words}"
            )
            return order

    def evaluated(self, order: Order, last: Evaluated, *, aloud: bool = False) -> bool:
        with self.lock:
            if aloud:
                self.say(f"trial {order.number}, step {last.step}: {last.measure} {last.score:.4f}")
            return self.study.evaluated(order.number, last)

    def ended(self, order: Order, outcome: Outcome) -> None:
        with self.lock:
            before = [
                trial.value for trial in self.study.trials() if trial.state == FINISHED and trial.value is not None
            ]
            self.study.end(order.number, outcome)
            trial = self.study.trials()[order.number - 1]
            title = f"trial {trial.number} {trial.state}"
            if trial.state == FAILED:
                self.say(f"{title}: {trial.note}")
            else:
                is_best = trial.state == FINISHED and all(trial.value < value for value in before)  # type: ignore[operator]
                place = f" at step {trial.step} of {trial.steps}" if trial.state == PRUNED else ""
                self.say(f"{title}{place}: {trial.measure} {trial.score:.4f}{' (best so far)' if is_best else ''}")

    def stopped(self, number: int) -> Interrupted:
        with self.lock:
            done = sum(trial.state in (FINISHED, PRUNED, FAILED) for trial in self.study.trials())
            return Interrupted(
                number, f"stopped; {done} of {counted(self.study.asked, 'trial')} ended", self.study.folder
            )


def train_here(conduct: Conduct, reporting: Reporting, debug: bool) -> None:
    """One trial after another, in this process."""
    try:
        while (order := conduct.next()) is not None:
            current = order
            with reporting() as report:
                outcome = train_trial(current, partial(conduct.evaluated, current), report, debug=debug)
            conduct.ended(current, outcome)
            gc.collect()  # cycles of one trial hold memory that the next may need
    except Interrupted as stop:
        raise conduct.stopped(stop.number) from None
    except KeyboardInterrupt as stop:
        raise conduct.stopped(signal_of(stop)) from None


def train_beside(conduct: Conduct, command: list[str], jobs: int) -> None:
    """So many trials at once, each in a process of its own."""
    workers: dict[int, Worker] = {}
    faults: list[BaseException] = []

    def keep_busy(place: int) -> None:
        try:
            while (order := conduct.next()) is not None:
                if not trained(place, order):
                    return
        except BaseException as fault:
            faults.append(fault)
            conduct.is_stopping = True
            for other in list(workers.values()):
                other.stop()
        finally:
            if place in workers:
                workers[place].leave()

    def trained(place: int, order: Order) -> bool:
        """Whether the trial has an outcome; a worker that died is replaced once, and the trial resumed."""
        for attempt in (1, 2):
            with conduct.lock:
                if conduct.is_stopping:
                    return False
                worker = workers.get(place) or workers.setdefault(place, Worker(command, jobs))
            try:
                outcome = worker.train(order, lambda last: conduct.evaluated(order, last, aloud=True))
            except Ended as end:
                workers.pop(place).leave()
                if conduct.is_stopping:
                    return False
                if attempt == 1:
                    conduct.say(f"trial {order.number}: its process ended ({end}); resuming it in another")
                    continue
                outcome = Outcome(FAILED, reason=f"{DIED} ({end}); it may need more memory than there is")
            if outcome is None:
                return False
            conduct.ended(order, outcome)
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
                raise conduct.stopped(number) from None
            number = signal_of(stop)
            conduct.say("stopping when the steps under way are done; once more stops at once")
            conduct.is_stopping = True
            with conduct.lock:
                for worker in list(workers.values()):
                    worker.stop()
    if faults:
        raise faults[0]
    if number:
        raise conduct.stopped(number)


def signal_of(stop: KeyboardInterrupt) -> int:
    return signal.SIGTERM if type(stop).__name__ == "Terminated" else signal.SIGINT
