"""The common part of both estimators: settings as parameters, training by a recipe, and pickling.

A fitted estimator has a run in a folder: the folder that the user chose, or a temporary one that is deleted with the
estimator. A pickled estimator has the run's files as bytes (JSON and safetensors, no Python objects). After unpickling,
its first use writes them to a temporary folder. So joblib can send it to other processes, and a pickle file works on
another machine.
"""

import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from clew.core.errors import UserError, shortened, shown
from clew.core.files import file_hash, removed_with
from clew.recipes.calling import run_with
from clew.recipes.listed import Listed
from clew.runs.folder.run_files import CONFIG, METRICS, VOCABULARY, WEIGHTS
from clew.runs.loaded import Run, load_run
from clew.runs.settings.keywords import keyword_path, python_errors

KEPT = (CONFIG, WEIGHTS, METRICS)
"""The files of a run that are pickled, in addition to its vocabulary."""


class Estimator(BaseEstimator):
    """A recipe with settings as parameters. `run_` is the trained run, a `clew.Run`."""

    _run: Run | None
    """The run in memory; None after unpickling, until its first use."""
    _weights_hash: str | None = None
    """The SHA-256 of the weights of its last fit; None in estimators that an older version of clew has pickled."""
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
            if keyword_path(name)[0] == "data" and name in (
                "data",
                "data__train",
                "data__valid",
                "data__test",
                "data__corpus",
            ):
                raise UserError(
                    f"{name} is not a parameter of {type(self).__name__}, whose data are the arguments of fit(X, y);"
                    " leave it out"
                )

    @property
    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.setting_names}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"recipe": self.recipe, "folder": self.folder, **self.settings}

    def set_params(self, **params: Any) -> Self:
        """Set parameters: any settings, also new ones."""
        for name, value in params.items():
            if name not in ("recipe", "folder"):
                self.check_setting(name)
                if name not in self.setting_names:
                    self.setting_names = (*self.setting_names, name)
            setattr(self, name, value)
        return self

    def _train(self, data: Listed) -> None:
        """Train the run in a temporary folder, or in `folder`, where it replaces the run of an earlier fit."""
        out = self._temporary_folder() if self.folder is None else Path(self.folder)
        settings = {name: value for name, value in self.settings.items() if value is not None}
        with python_errors():
            self._run = run_with(self.recipe, (), settings, data, out=out, overwrite=True)
        self._weights_hash = file_hash(out / WEIGHTS)

    def _temporary_folder(self) -> Path:
        """Return a folder that is deleted with this estimator."""
        parent = Path(tempfile.mkdtemp(prefix="clew-"))
        removed_with(self, parent)
        return parent / "run"

    @property
    def run_(self) -> Run:
        """The trained run, a `clew.Run`."""
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
        """Raise an error if the folder now has another run, for example that of an estimator with the same `folder`."""
        weights = folder / WEIGHTS
        if self._weights_hash is not None and (not weights.is_file() or file_hash(weights) != self._weights_hash):
            raise UserError(
                f"this {type(self).__name__} cannot be pickled, because {shortened(str(folder))} no longer has the run"
                " that it trained; set another folder for each estimator, and fit it again"
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
    """Return the files that a run needs for predictions."""
    vocabulary = sorted(path for path in (folder / VOCABULARY).rglob("*") if path.is_file())
    return [*(path for name in KEPT if (path := folder / name).is_file()), *vocabulary]


def rows_in(data: Any) -> list[Any]:
    """Return the rows of a list, an array, a column or a frame."""
    if hasattr(data, "to_pylist"):  # pyarrow, whose strings cannot become a NumPy array without a copy
        return [tuple(row.values()) if isinstance(row, Mapping) else row for row in data.to_pylist()]
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise UserError(
            f"X and y must be lists, arrays, columns or frames, not {shown(data)}; put a single text in a list"
        )
    values = data.to_numpy() if hasattr(data, "to_numpy") else data
    return values.tolist() if hasattr(values, "tolist") else list(values)


def check_present(labels: Sequence[Any], place: str) -> None:
    """Raise an error for missing labels, which NumPy would turn into a class."""
    for number, label in enumerate(labels):
        if (
            label is None
            or type(label).__name__ in ("NAType", "NaTType")
            or (isinstance(label, float) and math.isnan(label))
        ):
            raise UserError(f"{place} {number} ({shown(label)}); leave out rows without one")


def check_one_type(labels: Sequence[Any]) -> None:
    """Raise an error for strings together with other labels, which NumPy would convert to strings."""
    text = next((label for label in labels if isinstance(label, str)), None)
    other = next((label for label in labels if not isinstance(label, str)), None)
    if text is not None and other is not None:
        raise UserError(
            f"y has both strings and other labels ({shown(text)}, {shown(other)}); convert all of them to strings, or"
            " all to numbers"
        )


def names_of(classes: Sequence[Any]) -> list[str]:
    """Return the names of the classes in the run: the labels as strings, or numbered names if these strings could not
    be told apart in a file."""
    names = [str(each) for each in classes]
    is_plain = len(set(names)) == len(names) and all(name and name == " ".join(name.split()) for name in names)
    return names if is_plain else [f"class {number}" for number in range(len(names))]
