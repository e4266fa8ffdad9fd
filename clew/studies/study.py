"""The folder of a search: its settings, and Optuna's journal of its trials. All files are JSON; nothing is unpickled.

study.json        the recipe, its settings as written, the seed, and the number of requested trials
journal.jsonl     Optuna's journal, one JSON object per line
lock              exists while a process searches
trial-1/ ...      one run each
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
from clew.core.files import file_hash, json_hash, read_json, write_json
from clew.core.wording import argument
from clew.data.files.given_files import expand_home
from clew.runs.folder.summary import summarise
from clew.studies import STUDY, is_study
from clew.studies.space import Range, Space
from clew.studies.trials import FAILED, FINISHED, PRUNED, Evaluated, Outcome, TrialSpec
from clew.training.checkpoints import checkpoint_folders

JOURNAL = "journal.jsonl"
FORMAT = 1
NAME = "search"
ENOUGH = 10
"""The number of finished trials from which on the importance of settings is computed."""
INTERRUPTED, RUNNING = "interrupted", "running"


@dataclass(frozen=True)
class Trial:
    """The current state of a trial. `value` is minimised, and `score` is the value of the metric `measure`, for
    display."""

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
        raise UserError("a search needs optuna, which is not installed; run `pip install 'clew[search]'`")
    optuna = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class Study:
    """A search in its folder. Only the process that holds the folder's lock draws and ends trials; any process may
    read."""

    def __init__(self, folder: Path, space: Space, seed: int, requested: int, code: Path | None = None):
        self.folder, self.space, self.seed, self.requested, self.code = folder, space, seed, requested, code
        self.optuna = load_optuna()
        journal = self.optuna.storages.journal
        path = str(folder / JOURNAL)
        try:
            backend = journal.JournalFileBackend(path, lock_obj=journal.JournalFileOpenLock(path))
            storage, pruner = self.optuna.storages.JournalStorage(backend), self.optuna.pruners.MedianPruner()
            if NAME in self.optuna.get_all_study_names(storage):  # so that a process that only reads writes nothing
                self.study = self.optuna.load_study(study_name=NAME, storage=storage, pruner=pruner)
            else:
                self.study = self.optuna.create_study(
                    study_name=NAME, storage=storage, pruner=pruner, load_if_exists=True
                )
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
            raise UserError(
                f"{path} cannot be read as Optuna's journal ({shown(str(error))}); start a new search"
            ) from None

    def entries(self) -> list[Any]:
        """Return the Optuna trials that count: those with all settings that do not repeat another trial. Their order
        gives the trial numbers."""
        fields = {axis.field for axis in self.space.axes}
        return [
            each
            for each in self.study.get_trials(deepcopy=False)
            if fields <= set(each.params) and "skipped" not in each.user_attrs
        ]

    def trials(self, *, is_searched: bool = False) -> list[Trial]:
        """Return all trials in order. An unfinished one is running if a process is searching, else interrupted."""
        return [self.trial(number, each, is_searched) for number, each in enumerate(self.entries(), start=1)]

    def trial(self, number: int, entry: Any, is_searched: bool) -> Trial:
        settings, folder = self.space.settings(entry.params), self.trial_folder(number)
        saved = entry.user_attrs.get("outcome")
        note = entry.user_attrs.get("note", "")
        if saved is not None and entry.state.is_finished():
            outcome = Outcome(**saved)
            facts = (outcome.value, outcome.measure, outcome.score, outcome.step, outcome.steps, outcome.seconds)
            return Trial(
                number, settings, outcome.state, *facts, folder, "; ".join(filter(None, (note, outcome.reason)))
            )
        state = FAILED if entry.state.is_finished() else RUNNING if is_searched else INTERRUPTED
        try:
            run = summarise(folder)
        except UserError:  # not started, or it needs a user's code file that is not imported here
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

    def trial_folder(self, number: int) -> Path:
        return self.folder / f"trial-{number}"

    def spec(self, number: int, entry: Any) -> TrialSpec:
        settings = [f"{field}={value}" for field, value in self.space.settings(entry.params).items()]
        return TrialSpec(
            number, self.space.recipe, (*self.space.fixed, *settings), self.trial_folder(number), self.code
        )

    def interrupted(self) -> list[TrialSpec]:
        """Return the trials that were running when the search ended, and note in the journal that they are resumed. A
        trial that was killed while it was drawn, or that repeats another, never started and does not count."""
        states = self.optuna.trial.TrialState
        for each in self.study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            if each not in self.entries():
                self.skip(each, "never begun")
        specs = []
        for number, each in enumerate(self.entries(), start=1):
            if each.state == states.RUNNING:
                newest = next(iter(checkpoint_folders(self.trial_folder(number))), None)
                step = int(newest.name.rpartition("-")[2]) if newest is not None else 0
                self.handle(each).set_user_attr(
                    "note", f"resumed from step {step}" if step else "interrupted and started again"
                )
                specs.append(self.spec(number, each))
        return specs

    def draw(self) -> TrialSpec | None:
        """Draw the next trial; return None if every draw repeats a trial. A draw depends only on the seed, the number
        of draws and the earlier trials, so that a resumed search continues like an uninterrupted one."""
        for _ in range(MOST_DRAWS):
            self.study.sampler = self.optuna.samplers.TPESampler(
                seed=seed_of(self.seed, len(self.study.get_trials(deepcopy=False)))
            )
            before = [self.space.settings(each.params) for each in self.entries()]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
                drawn = self.study.ask({axis.field: self.distribution(axis) for axis in self.space.axes})
            if (settings := self.space.settings(drawn.params)) not in before:
                return self.spec(len(before) + 1, drawn)
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
        """Return Optuna's object to report on a trial."""
        self.study.sampler = self.optuna.samplers.RandomSampler(seed=0)  # it draws nothing: the trial has its settings
        return self.optuna.trial.Trial(self.study, entry._trial_id)

    def record_evaluation(self, number: int, last: Evaluated) -> bool:
        """Record an evaluation, and return whether the trial should end."""
        trial = self.handle(self.entries()[number - 1])
        if last.step in self.entries()[number - 1].intermediate_values:  # a repeated evaluation after resuming
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
                "its score is not a finite number",
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
        """Return the importance of each setting for being among the best trials (PED-ANOVA, Watanabe et al. 2023), the
        most important first. Empty if few trials have finished, or only one setting is searched."""
        complete = self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.COMPLETE,))
        if len(complete) < ENOUGH or len(self.space.axes) < 2:
            return {}
        evaluator = self.optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return dict(self.optuna.importance.get_param_importances(self.study, evaluator=evaluator))


MOST_DRAWS = 50
"""A search ends after this number of consecutive draws that repeat a trial."""


def seed_of(seed: int, draw: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{draw}".encode()).digest()[:4], "big")


def data_hashes(data: Any) -> dict[str, str]:
    """Return the SHA-256 of each file that a section `data` names; of a folder, that of its files' names and sizes."""
    hashes = {}
    for part in ("train", "valid", "test"):
        paths = getattr(data, part, None) or []
        for name in [paths] if isinstance(paths, str) else paths:
            path = expand_home(name)
            if path.is_file():
                hashes[name] = file_hash(path)
            elif path.is_dir():
                files = sorted(file for file in path.rglob("*") if file.is_file())
                hashes[name] = json_hash([[str(file.relative_to(path)), file.stat().st_size] for file in files])
    return hashes


def write_study(
    folder: Path,
    space: Space,
    assignments: Sequence[str],
    seed: int,
    requested: int,
    code: Path | None,
    data: dict[str, str] | None,
) -> None:
    """Write study.json. `data` are the hashes of the data files; None if an earlier version did not store them."""
    code_hash = None if code is None else file_hash(code)
    facts = {
        "format": FORMAT,
        "recipe": space.recipe,
        "settings": list(assignments),
        "seed": seed,
        "trials": requested,
        "code": code_hash,
    }
    if data is not None:
        facts["data"] = data
    write_json(folder / STUDY, {**facts, "space": space.to_json()})


def read_study(folder: Path) -> dict[str, Any]:
    """Read study.json."""
    if not is_study(folder):
        raise UserError(f"{folder} is not a search (it has no {STUDY}); pass the folder of a search")
    content = read_json(folder / STUDY)
    kinds = {"recipe": str, "settings": list, "seed": int, "trials": int, "space": dict}
    if (
        not isinstance(content, dict)
        or content.get("format") != FORMAT
        or not all(isinstance(content.get(k), v) for k, v in kinds.items())
        or "code" not in content
        or not isinstance(content.get("data", {}), dict)
    ):
        raise UserError(
            f"{folder / STUDY} was not written by this version of clew; use the version that wrote it, or start a new"
            " search"
        )
    return content


def open_study(folder: Path, code: Path | None = None) -> Study:
    """Open an existing study, to read or to resume it."""
    content = read_study(folder)
    try:
        space = Space.from_json(content["space"])
    except (KeyError, TypeError):
        raise UserError(f"{folder / STUDY} has no valid search space, as it was changed; start a new search") from None
    if not (folder / JOURNAL).is_file():
        raise UserError(f"{folder} has no {JOURNAL}, because it is incomplete or not a search; start a new search")
    return Study(folder, space, content["seed"], content["trials"], code)


def repair_journal(folder: Path) -> None:
    """Remove the incomplete last line of a process that was killed, and its lock. Only the process that holds the
    study's lock may call this."""
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
                f"{path}:{number}: this line is not JSON, so the journal is damaged; start a new search"
            ) from None


@contextmanager
def writing_study(folder: Path) -> Iterator[None]:
    """Within this context, raise an error message if the disk is full or not writable."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(folder) in str(error.filename):
            raise UserError(
                f"cannot write the search to {folder}: {error.strerror or error}; free space there, or choose another"
                f" folder with {argument('out')}"
            ) from None
        raise
