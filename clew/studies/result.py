"""The result of a search: its trials, the best one, a table, a command and a YAML file."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from clew.core.errors import UserError, counted
from clew.core.files import write_text
from clew.drawing.views import View
from clew.recipes.resolving import read_recipe
from clew.runs.folder.lock import is_locked
from clew.runs.settings.values import parse_assignment
from clew.studies.picture import view_of_trials
from clew.studies.space import Space
from clew.studies.study import Study, Trial
from clew.studies.trials import FAILED, FINISHED, PRUNED

BEST = "best.yaml"


@dataclass(frozen=True)
class Search:
    """The current state of a search. `best` is the finished trial with the best validation score;
    `clew.load(search.best.folder)` is its run."""

    folder: Path
    space: Space = field(repr=False)
    requested: int
    """The number of requested trials."""
    trials: tuple[Trial, ...] = field(repr=False)
    importances: dict[str, float] = field(repr=False)
    """The importance of each setting, as shares that sum to 1, the most important first; empty if there are few
    trials."""

    @property
    def best(self) -> Trial:
        finished = [trial for trial in self.trials if trial.state == FINISHED]
        if not finished:
            raise UserError(f"no trial of {self.folder} has finished yet, so there is no best one; resume the search")
        return min(finished, key=lambda trial: (trial.value, trial.number))

    @property
    def has_best(self) -> bool:
        return any(trial.state == FINISHED for trial in self.trials)

    @property
    def measure(self) -> str:
        return next((trial.measure for trial in self.trials if trial.measure), "score")

    @property
    def ended(self) -> int:
        return sum(trial.state in (FINISHED, PRUNED, FAILED) for trial in self.trials)

    @property
    def assignments(self) -> list[str]:
        """The best settings, and those that all trials share."""
        return [*self.space.fixed, *(f"{field}={value}" for field, value in self.best.settings.items())]

    @property
    def command(self) -> str:
        """The command that trains the best settings again."""
        return shlex.join(["clew", "train", self.space.recipe, *self.assignments])

    @property
    def yaml(self) -> str:
        """The best settings as a file for `clew train`."""
        recipe, content = read_recipe(self.space.recipe)
        for assignment in self.assignments:
            path, value = parse_assignment(assignment)
            set_field(content, path, value)
        return str(yaml.safe_dump({"recipe": recipe, **content}, sort_keys=False, allow_unicode=True))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return a header, and one row per trial."""
        fields = [axis.field for axis in self.space.axes]
        header = ["trial", *short_names(fields), f"valid {self.measure}", "steps", "time", "state", "note"]
        return header, [self.row(trial, fields) for trial in self.trials]

    def row(self, trial: Trial, fields: Sequence[str]) -> list[str]:
        score = "" if trial.score is None else f"{trial.score:.4f}"
        seconds = (
            ""
            if trial.seconds is None
            else f"{trial.seconds:.1f} s"
            if trial.seconds < 60
            else f"{trial.seconds / 60:.1f} min"
        )
        steps = f"{trial.step}/{trial.steps}" if trial.steps else ""
        notes = ["best"] if self.has_best and trial == self.best else []
        return [
            str(trial.number),
            *(trial.settings[field] for field in fields),
            score,
            steps,
            seconds,
            trial.state,
            "; ".join(filter(None, (*notes, trial.note))),
        ]

    def view(self) -> View:
        """Return the search as a picture: scores in the order of the trials, and by each setting."""
        return view_of_trials(self.space, self.trials, self.measure, self.importances, self.about)

    @property
    def about(self) -> str:
        best = (
            f"; the best is trial {self.best.number}, valid {self.measure} {self.best.score:.4f}"
            if self.has_best
            else ""
        )
        return f"{self.space.recipe}: {self.ended} of {counted(self.requested, 'trial')} ended{best}"

    def __str__(self) -> str:
        header, rows = self.table()
        widths = [max(len(line[column]) for line in [header, *rows]) for column in range(len(header))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in [header, *rows]
        ]
        return "\n".join([self.about, *lines])

    def __repr__(self) -> str:
        return f"<Search {self.folder}: {self.about}>"

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()


def short_names(fields: Sequence[str]) -> list[str]:
    """Shorten `model.dim` to `dim`, unless another field has the same last part."""
    ends = [name.rpartition(".")[2] for name in fields]
    return [end if ends.count(end) == 1 else name for name, end in zip(fields, ends, strict=True)]


def set_field(content: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a field of nested settings. A part that is only a name becomes a mapping when one of its options is set."""
    *sections, last = path
    for name in sections:
        inner = content.get(name)
        content[name] = inner = inner if isinstance(inner, dict) else {} if inner is None else {"name": inner}
        content = inner
    content[last] = value


def build_result(study: Study) -> Search:
    """Return the current state of a study."""
    trials = tuple(study.trials(is_searched=is_locked(study.folder)))
    return Search(study.folder, study.space, study.requested, trials, study.importances())


def save_best(result: Search) -> None:
    """Write the best settings to the folder of the search."""
    if result.has_best:
        write_text(result.folder / BEST, result.yaml)
