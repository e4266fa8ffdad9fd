"""The folder of a search: its settings, and Optuna's journal of its trials. Only JSON; nothing is ever unpickled.

study.json        the recipe, the words of its settings, the seed, and how many trials were asked for
journal.jsonl     every step of Optuna's, one JSON object a line
lock              there while a process searches
trial-1/ ...      a run each
best.yaml         the best settings, for `clew train`
"""

import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, shown
from clew.core.files import file_hash, read_json, write_json
from clew.runs.folder.summary import summarise
from clew.studies import STUDY, is_study
from clew.studies.space import Range, Space
from clew.studies.trials import FAILED, FINISHED, PRUNED, Evaluated, Order, Outcome
from clew.training.checkpoints import checkpoint_folders

JOURNAL = "journal.jsonl"
FORMAT = 1
NAME = "search"
ENOUGH = 10
"""Finished trials from which on it is said which settings matter."""
INTERRUPTED, RUNNING = "interrupted", "running"


@dataclass(frozen=True)
class Trial:
    """One trial as it stands. `value` is to become small; `score` is the same as its measure has it."""

    number: int
    settings: dict[str, str]
    state: str
    """finished, pruned, failed, running or interrupted."""
    value: float | None
    measure: str
    score: float | None
    step: int
    steps: int
    seconds: float | None
    folder: Path
    note: str = ""

    @property
    def words(self) -> str:
        return " ".join(f"{field}={value}" for field, value in self.settings.items())


def load_optuna() -> Any:
    if find_spec("optuna") is None:
        raise UserError("a search needs optuna: not installed; `pip install 'clew[search]'`")
    optuna = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class Study:
    """A search in its folder. Only the process that holds the folder's lock draws and ends trials; any process may
    read."""

    def __init__(self, folder: Path, space: Space, seed: int, asked: int, code: Path | None = None):
        self.folder, self.space, self.seed, self.asked, self.code = folder, space, seed, asked, code
        self.optuna = load_optuna()
        journal = self.optuna.storages.journal
        path = str(folder / JOURNAL)
        try:
            backend = journal.JournalFileBackend(path, lock_obj=journal.JournalFileOpenLock(path))
            storage, pruner = self.optuna.storages.JournalStorage(backend), self.optuna.pruners.MedianPruner()
            if NAME in self.optuna.get_all_study_names(storage):  # who only reads writes nothing
                self.study = self.optuna.load_study(study_name=NAME, storage=storage, pruner=pruner)
            else:
                self.study = self.optuna.create_study(
                    study_name=NAME, storage=storage, pruner=pruner, load_if_exists=True
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path} is not a journal of Optuna's that can be read ({shown(str(error))}); start the search anew"
            ) from None

    def entries(self) -> list[Any]:
        """The trials of Optuna that count: fully drawn, and no repetitions. Their order gives our trial numbers."""
        fields = {axis.field for axis in self.space.axes}
        return [
            each
            for each in self.study.get_trials(deepcopy=False)
            if fields <= set(each.params) and "skipped" not in each.user_attrs
        ]

    def trials(self, *, is_searched: bool = False) -> list[Trial]:
        """Every trial in order; one that has not ended is running where somebody searches."""
        return [self.trial(number, each, is_searched) for number, each in enumerate(self.entries(), start=1)]

    def trial(self, number: int, entry: Any, is_searched: bool) -> Trial:
        settings, folder = self.space.settings(entry.params), self.place(number)
        told = entry.user_attrs.get("outcome")
        note = entry.user_attrs.get("note", "")
        if told is not None and entry.state.is_finished():
            outcome = Outcome(**told)
            facts = (outcome.value, outcome.measure, outcome.score, outcome.step, outcome.steps, outcome.seconds)
            return Trial(
                number, settings, outcome.state, *facts, folder, "; ".join(filter(None, (note, outcome.reason)))
            )
        state = FAILED if entry.state.is_finished() else RUNNING if is_searched else INTERRUPTED
        try:
            run = summarise(folder)
        except UserError:  # not begun, or of a user's file that is not imported here
            return Trial(number, settings, state, None, "", None, 0, 0, None, folder, note)
        score = run.best.get(f"valid.{run.measure}")
        return Trial(
            number,
            settings,
            state,
            None,
            run.measure,
            score,
            run.step,
            run.config.training.steps,
            run.seconds,
            folder,
            note,
        )

    def place(self, number: int) -> Path:
        return self.folder / f"trial-{number}"

    def order(self, number: int, entry: Any) -> Order:
        words = [f"{field}={value}" for field, value in self.space.settings(entry.params).items()]
        return Order(number, self.space.recipe, (*self.space.fixed, *words), self.place(number), self.code)

    def interrupted(self) -> list[Order]:
        """The trials that were under way when the search ended, each noted to be resumed. One that was killed while it
        was drawn, or a repetition, never began and does not count."""
        states = self.optuna.trial.TrialState
        for each in self.study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            if each not in self.entries():
                self.skip(each, "never begun")
        orders = []
        for number, each in enumerate(self.entries(), start=1):
            if each.state == states.RUNNING:
                newest = next(iter(checkpoint_folders(self.place(number))), None)
                step = int(newest.name.rpartition("-")[2]) if newest is not None else 0
                self.handle(each).set_user_attr(
                    "note", f"resumed from step {step}" if step else "interrupted and started again"
                )
                orders.append(self.order(number, each))
        return orders

    def draw(self) -> Order | None:
        """The next trial; None where every draw is a repetition. What is drawn follows from the seed, the number of
        draws and the trials before, so that a search that was interrupted goes on as it would have."""
        for _ in range(MOST_DRAWS):
            self.study.sampler = self.optuna.samplers.TPESampler(
                seed=seed_of(self.seed, len(self.study.get_trials(deepcopy=False)))
            )
            before = [self.space.settings(each.params) for each in self.entries()]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
                drawn = self.study.ask({axis.field: self.distribution(axis) for axis in self.space.axes})
            if (settings := self.space.settings(drawn.params)) not in before:
                return self.order(len(before) + 1, drawn)
            drawn.set_user_attr("skipped", f"the settings of trial {before.index(settings) + 1}")
            self.study.tell(drawn, state=self.optuna.trial.TrialState.FAIL)
        return None

    def distribution(self, axis: Any) -> Any:
        kinds = self.optuna.distributions
        if not isinstance(axis, Range):
            return kinds.CategoricalDistribution(axis.values)
        if axis.is_whole:
            return kinds.IntDistribution(int(axis.low), int(axis.high), log=axis.is_log, step=int(axis.step or 1))
        return kinds.FloatDistribution(axis.low, axis.high, log=axis.is_log, step=axis.step)

    def handle(self, entry: Any) -> Any:
        """What Optuna takes reports of a trial by."""
        self.study.sampler = self.optuna.samplers.RandomSampler(seed=0)  # draws nothing: the trial has its settings
        return self.optuna.trial.Trial(self.study, entry._trial_id)

    def evaluated(self, number: int, last: Evaluated) -> bool:
        """Notes an evaluation; whether the trial should end."""
        trial = self.handle(self.entries()[number - 1])
        if last.step in self.entries()[number - 1].intermediate_values:  # evaluated again after it was resumed
            return False
        trial.report(last.value, last.step)
        return bool(trial.should_prune())

    def end(self, number: int, outcome: Outcome) -> None:
        states = self.optuna.trial.TrialState
        entry = self.entries()[number - 1]
        if outcome.state == FINISHED and (outcome.value is None or not math.isfinite(outcome.value)):
            outcome = Outcome(
                FAILED,
                None,
                outcome.measure,
                None,
                outcome.step,
                outcome.steps,
                outcome.seconds,
                "its score is no number",
            )
        self.handle(entry).set_user_attr("outcome", outcome.to_json())
        if outcome.state == FINISHED:
            self.study.tell(entry.number, outcome.value)
        else:
            self.study.tell(entry.number, state=states.PRUNED if outcome.state == PRUNED else states.FAIL)

    def skip(self, entry: Any, why: str) -> None:
        self.handle(entry).set_user_attr("skipped", why)
        self.study.tell(entry.number, state=self.optuna.trial.TrialState.FAIL)

    def importances(self) -> dict[str, float]:
        """How much of what makes the best trials good each setting explains (PED-ANOVA, Watanabe et al. 2023), the most
        important first; nothing while few trials have finished, or where one setting is searched."""
        complete = self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.COMPLETE,))
        if len(complete) < ENOUGH or len(self.space.axes) < 2:
            return {}
        evaluator = self.optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return dict(self.optuna.importance.get_param_importances(self.study, evaluator=evaluator))


MOST_DRAWS = 50
"""Draws in a row that may repeat a trial before a search ends."""


def seed_of(seed: int, draw: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{draw}".encode()).digest()[:4], "big")


def write_study(folder: Path, space: Space, words: Sequence[str], seed: int, asked: int, code: Path | None) -> None:
    hashed = None if code is None else file_hash(code)
    facts = {
        "format": FORMAT,
        "recipe": space.recipe,
        "settings": list(words),
        "seed": seed,
        "trials": asked,
        "code": hashed,
    }
    write_json(folder / STUDY, {**facts, "space": space.to_json()})


def read_study(folder: Path) -> dict[str, Any]:
    """What study.json says."""
    if not is_study(folder):
        raise UserError(f"{folder} is no search (it has no {STUDY}); name the folder of one")
    content = read_json(folder / STUDY)
    kinds = {"recipe": str, "settings": list, "seed": int, "trials": int, "space": dict}
    if (
        not isinstance(content, dict)
        or content.get("format") != FORMAT
        or not all(isinstance(content.get(k), v) for k, v in kinds.items())
    ):
        raise UserError(
            f"{folder / STUDY} is not what a search of this version writes; use the version that wrote it, or start"
            " anew"
        )
    return content


def open_study(folder: Path, code: Path | None = None) -> Study:
    """A study that is there, to read it or to go on with it."""
    content = read_study(folder)
    try:
        space = Space.from_json(content["space"])
    except (KeyError, TypeError):
        raise UserError(
            f"{folder / STUDY} does not say what is searched; it was changed: start the search anew"
        ) from None
    if not (folder / JOURNAL).is_file():
        raise UserError(f"{folder} has no {JOURNAL}; it was copied in part, or is no search: start it anew")
    return Study(folder, space, content["seed"], content["trials"], code)


def repair_journal(folder: Path) -> None:
    """Cuts off the line that a process was writing when it was killed, and removes its lock. Only who holds the study's
    lock may do so."""
    path = folder / JOURNAL
    (folder / f"{JOURNAL}.lock").unlink(missing_ok=True)
    if not path.is_file():
        return
    with path.open("r+b") as file:
        whole = file.read()
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            file.truncate(end)
            file.flush()
            os.fsync(file.fileno())
    for number, line in enumerate(whole[:end].splitlines(), start=1):
        try:
            json.loads(line)
        except ValueError:
            raise UserError(
                f"{path}:{number}: this line is not JSON; the journal was damaged: start the search anew"
            ) from None


@contextmanager
def writing_study(folder: Path) -> Iterator[None]:
    """Within this context a disk that refuses ends the search with a sentence."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(folder) in str(error.filename):
            raise UserError(
                f"the search cannot be written to {folder}: {error.strerror or error}; make room there or choose"
                " another place with --out"
            ) from None
        raise
