"""What both estimators share: settings as parameters, training by a recipe, and how a fitted one is pickled.

A fitted estimator holds its run, which stands in a folder: the one that is asked for, or a temporary one that goes with
the estimator. Pickled, it holds the run's files as bytes (JSON and safetensors, no Python objects), and makes a
temporary folder of them again when it is first asked after that. So joblib may send it to other processes, and a file
of it works on another machine.
"""

import math
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from clew.core.errors import UserError, shortened, shown
from clew.core.files import file_hash
from clew.recipes.calling import run_with
from clew.recipes.listed import Listed
from clew.runs.directory import CONFIG, METRICS, VOCABULARY, WEIGHTS
from clew.runs.loaded import Run, load_run
from clew.runs.settings.keywords import path_of, python_errors

KEPT = (CONFIG, WEIGHTS, METRICS)
"""The files of a run that are pickled, besides its vocabulary."""


class Estimator(BaseEstimator):
    """A recipe with settings as parameters. `run_` is the trained run, a `clew.Run`."""

    _run: Run | None
    """The run in memory; None after unpickling, until it is asked for."""
    _weights_hash: str | None = None
    """The SHA-256 of the weights of its last fit; None in estimators pickled before it was kept."""
    _files: dict[str, bytes]
    """The files of a pickled run, by name."""

    def __init__(self, recipe: str, folder: str | Path | None, settings: Mapping[str, Any]):
        self.recipe = recipe
        self.folder = folder
        for name, value in settings.items():
            self.check_setting(name)
            setattr(self, name, value)
        self.setting_names = tuple(settings)

    def check_setting(self, name: str) -> None:
        with python_errors():
            if path_of(name)[0] == "data" and name in (
                "data",
                "data__train",
                "data__valid",
                "data__test",
                "data__corpus",
            ):
                raise UserError(
                    f"{name} is no parameter of {type(self).__name__}: its data are what fit(X, y) is given; leave"
                    " it out"
                )

    @property
    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.setting_names}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"recipe": self.recipe, "folder": self.folder, **self.settings}

    def set_params(self, **params: Any) -> Self:
        """Sets parameters; any setting may be set, whether it was before or not."""
        for name, value in params.items():
            if name not in ("recipe", "folder"):
                self.check_setting(name)
                if name not in self.setting_names:
                    self.setting_names = (*self.setting_names, name)
            setattr(self, name, value)
        return self

    def _train(self, data: Listed) -> None:
        """Trains the run: in a temporary folder, or in the one that is asked for, where it replaces the run of an
        earlier fit."""
        out = self._temporary_folder() if self.folder is None else Path(self.folder)
        settings = {name: value for name, value in self.settings.items() if value is not None}
        with python_errors():
            self._run = run_with(self.recipe, (), settings, data, out=out, overwrite=True)
        self._weights_hash = file_hash(out / WEIGHTS)

    def _temporary_folder(self) -> Path:
        """A folder that goes with this estimator."""
        parent = tempfile.mkdtemp(prefix="clew-")
        weakref.finalize(self, shutil.rmtree, parent, ignore_errors=True)
        return Path(parent) / "run"

    @property
    def run_(self) -> Run:
        """The trained run; what `clew.Run` offers goes for it too."""
        check_is_fitted(self, "_run")
        if self._run is None:
            folder = self._temporary_folder()
            for name, content in self._files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            self._files = {}
            self._run = load_run(folder, device=getattr(self, "device", None) or "auto")
        return self._run

    def _check_folder(self, folder: Path) -> None:
        """Refuses a folder that has another run by now, e.g. that of an estimator with the same `folder`."""
        weights = folder / WEIGHTS
        if self._weights_hash is not None and (not weights.is_file() or file_hash(weights) != self._weights_hash):
            raise UserError(
                f"{shortened(str(folder))} no longer has the run that this {type(self).__name__} has trained, so it"
                " cannot be pickled; give each estimator its own folder and fit it again"
            )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if (run := state.get("_run")) is not None:
            self._check_folder(run.folder)
            state["_files"] = {
                path.relative_to(run.folder).as_posix(): path.read_bytes() for path in files_of(run.folder)
            }
            state["_run"] = None
        return state


def files_of(folder: Path) -> list[Path]:
    """What a run's answers are computed from."""
    vocabulary = sorted(path for path in (folder / VOCABULARY).rglob("*") if path.is_file())
    return [*(path for name in KEPT if (path := folder / name).is_file()), *vocabulary]


def rows_in(data: Any) -> list[Any]:
    """The rows of a list, an array, a column or a frame."""
    if hasattr(data, "to_pylist"):  # pyarrow, whose strings have no NumPy array without copying
        return [tuple(row.values()) if isinstance(row, Mapping) else row for row in data.to_pylist()]
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise UserError(
            f"X and y are lists, arrays, columns or frames, not {shown(data)}; put a single text into a list"
        )
    values = data.to_numpy() if hasattr(data, "to_numpy") else data
    return values.tolist() if hasattr(values, "tolist") else list(values)


def check_present(labels: Sequence[Any], place: str) -> None:
    """Refuses missing labels, which NumPy would make a class of."""
    for number, label in enumerate(labels):
        if (
            label is None
            or type(label).__name__ in ("NAType", "NaTType")
            or (isinstance(label, float) and math.isnan(label))
        ):
            raise UserError(f"{place} {number} ({shown(label)}); leave out rows without one")


def check_one_type(labels: Sequence[Any]) -> None:
    """Refuses texts together with numbers, which NumPy would make texts of."""
    text = next((label for label in labels if isinstance(label, str)), None)
    other = next((label for label in labels if not isinstance(label, str)), None)
    if text is not None and other is not None:
        raise UserError(
            f"y has texts and other labels together ({shown(text)}, {shown(other)}); make all of them texts, or all"
            " numbers"
        )


def names_of(classes: Sequence[Any]) -> list[str]:
    """What the run calls the classes: as they read, or by numbers where they would not stay apart in a file."""
    names = [str(each) for each in classes]
    is_plain = len(set(names)) == len(names) and all(name and name == " ".join(name.split()) for name in names)
    return names if is_plain else [f"class {number}" for number in range(len(names))]
