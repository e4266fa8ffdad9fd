"""A run's records for the programs that show them, beside metrics.jsonl: TensorBoard, Weights & Biases (offline),
MLflow.

Each is in a package of its own, and writes to the disk alone:

tensorboard   RUN/events           `tensorboard --logdir runs`
wandb         RUN/wandb            `wandb sync RUN/wandb/offline-run-*` sends it, where and when a person wants that
mlflow        mlflow.db beside RUN `mlflow ui --backend-store-uri sqlite:///runs/mlflow.db`
"""

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from clew.core.errors import UserError
from clew.core.files import read_text
from clew.training.events import Events, numbers_of

EVENTS, WANDB, MLFLOW = "events", "wandb", "mlflow"
"""Where they write, in the folder of a run."""
PROJECT = "clew"


class Logger(Protocol):
    """Is built of a run's folder and the step that it goes on after, where it does."""

    def add(self, record: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class Wandb:
    """Weights & Biases, offline: nothing leaves the machine. A run that goes on is the same run there."""

    def __init__(self, folder: Path, *, after: int | None = None):
        wandb = import_module("wandb")
        name = kept(folder / WANDB / "id", lambda: uuid.uuid4().hex)
        settings = wandb.Settings(silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True)
        self.run: Any = wandb.init(
            mode="offline", dir=str(folder), project=PROJECT, name=folder.name, id=name, settings=settings
        )
        self.run.define_metric("*", step_metric="step")

    def add(self, record: Mapping[str, Any]) -> None:
        if (found := numbers_of(record)) is not None:
            step, numbers = found
            self.run.log({"step": step, **{name.replace(".", "/", 1): value for name, value in numbers.items()}})

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """MLflow, in an SQLite file that all runs beside this one share. A run that goes on is the same run there."""

    def __init__(self, folder: Path, *, after: int | None = None):
        for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
            os.environ.setdefault(name, "true")  # nothing is sent anywhere
        tracking, self.entities = import_module("mlflow.tracking"), import_module("mlflow.entities")
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        database = folder.absolute().parent / "mlflow.db"
        self.client = tracking.MlflowClient(tracking_uri=f"sqlite:///{database}")
        there = self.client.get_experiment_by_name(PROJECT)
        experiment = self.client.create_experiment(PROJECT) if there is None else there.experiment_id
        (folder / MLFLOW).mkdir(exist_ok=True)
        self.run = kept(
            folder / MLFLOW / "id", lambda: str(self.client.create_run(experiment, run_name=folder.name).info.run_id)
        )

    def add(self, record: Mapping[str, Any]) -> None:
        if (found := numbers_of(record)) is not None:
            step, numbers = found
            now = round(time.time() * 1000)
            metrics = [self.entities.Metric(name, float(value), now, step) for name, value in numbers.items()]
            self.client.log_batch(self.run, metrics=metrics)

    def close(self) -> None:
        self.client.set_terminated(self.run)


def kept(path: Path, made: Callable[[], str]) -> str:
    """What a run is called by another program: as it was before, or made now."""
    if path.is_file():
        return read_text(path)
    name = made()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name, encoding="utf-8")
    return name


def tensorboard(folder: Path, *, after: int | None = None) -> Events:
    return Events(folder / EVENTS, after=after)


LOGGERS: dict[str, Callable[..., Logger]] = {"tensorboard": tensorboard, "wandb": Wandb, "mlflow": MLflow}
PACKAGES = {"tensorboard": ("tensorboard",), "wandb": ("wandb",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}
"""What each needs; mlflow-skinny has what SQLite needs not among its own."""


def check_loggers(names: Sequence[str] | None) -> None:
    """Refuses a logger that was asked for by name and is not installed."""
    for name in names or ():
        lacking = [package for package in PACKAGES[name] if find_spec(package) is None]
        if lacking:
            raise UserError(
                f"training.log asks for {name}, which needs {' and '.join(lacking)}: not installed; "
                f"`pip install 'clew[{name}]'`, or leave {name} out of training.log"
            )


def loggers_of(names: Sequence[str] | None, folder: Path, after: int | None) -> list[Logger]:
    """Those that are asked for; where none is named TensorBoard, which writes nothing where it is not installed."""
    return [LOGGERS[name](folder, after=after) for name in dict.fromkeys(("tensorboard",) if names is None else names)]
