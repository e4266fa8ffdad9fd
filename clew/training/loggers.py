"""Loggers that write a run's records for other programs, in addition to metrics.jsonl: TensorBoard, Weights & Biases
(offline), MLflow.

Each needs its own package and writes only to the disk:

tensorboard   RUN/events               `tensorboard --logdir runs`
wandb         RUN/wandb                `wandb sync RUN/wandb/offline-run-*` uploads it, if the user wants that
mlflow        mlflow.db next to RUN    `mlflow ui --backend-store-uri sqlite:///runs/mlflow.db`
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
from clew.training.events import Events, step_numbers

EVENTS, WANDB, MLFLOW = "events", "wandb", "mlflow"
"""The folders of the loggers, in the folder of a run."""
PROJECT = "clew"


class Logger(Protocol):
    """Built as `L(folder, after=step)`: the folder of a run, and the step from which it resumes, or None."""

    def add(self, record: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class Wandb:
    """Weights & Biases, offline: nothing leaves the machine. A resumed run keeps its id."""

    def __init__(self, folder: Path, *, after: int | None = None):
        wandb = import_module("wandb")
        run_id = read_or_create_id(folder / WANDB / "id", lambda: uuid.uuid4().hex)
        settings = wandb.Settings(silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True)
        self.run: Any = wandb.init(
            mode="offline", dir=str(folder), project=PROJECT, name=folder.name, id=run_id, settings=settings
        )
        self.run.define_metric("*", step_metric="step")

    def add(self, record: Mapping[str, Any]) -> None:
        if (point := step_numbers(record)) is not None:
            step, numbers = point
            self.run.log({"step": step, **{name.replace(".", "/", 1): value for name, value in numbers.items()}})

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """MLflow, in an SQLite file that is shared by all runs in the same folder. A resumed run keeps its id."""

    def __init__(self, folder: Path, *, after: int | None = None):
        for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
            os.environ.setdefault(name, "true")  # nothing is sent anywhere
        tracking, self.entities = import_module("mlflow.tracking"), import_module("mlflow.entities")
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        database = folder.absolute().parent / "mlflow.db"
        self.client = tracking.MlflowClient(tracking_uri=f"sqlite:///{database}")
        known = self.client.get_experiment_by_name(PROJECT)
        experiment = self.client.create_experiment(PROJECT) if known is None else known.experiment_id
        (folder / MLFLOW).mkdir(exist_ok=True)
        self.run = read_or_create_id(
            folder / MLFLOW / "id", lambda: str(self.client.create_run(experiment, run_name=folder.name).info.run_id)
        )

    def add(self, record: Mapping[str, Any]) -> None:
        if (point := step_numbers(record)) is not None:
            step, numbers = point
            now = round(time.time() * 1000)
            metrics = [self.entities.Metric(name, float(value), now, step) for name, value in numbers.items()]
            self.client.log_batch(self.run, metrics=metrics)

    def close(self) -> None:
        self.client.set_terminated(self.run)


def read_or_create_id(path: Path, create: Callable[[], str]) -> str:
    """Return the id of a run in another program: from the file of an earlier call, or else a new one."""
    if path.is_file():
        return read_text(path)
    run_id = create()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(run_id, encoding="utf-8")
    return run_id


def tensorboard(folder: Path, *, after: int | None = None) -> Events:
    return Events(folder / EVENTS, after=after)


LOGGERS: dict[str, Callable[..., Logger]] = {"tensorboard": tensorboard, "wandb": Wandb, "mlflow": MLflow}
PACKAGES = {"tensorboard": ("tensorboard",), "wandb": ("wandb",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}
"""The packages that each logger needs. mlflow-skinny does not install those for SQLite itself."""


def check_loggers(names: Sequence[str] | None) -> None:
    """Raise an error for a logger in `training.log` whose packages are not installed."""
    for name in names or ():
        missing = [package for package in PACKAGES[name] if find_spec(package) is None]
        if missing:
            raise UserError(
                f"{name} in training.log needs {' and '.join(missing)}: not installed; run `pip install"
                f" 'clew[{name}]'`, or leave {name} out of training.log"
            )


def build_loggers(names: Sequence[str] | None, folder: Path, after: int | None) -> list[Logger]:
    """Build the loggers of `training.log`. The default is TensorBoard, which writes nothing if it is not installed."""
    return [LOGGERS[name](folder, after=after) for name in dict.fromkeys(("tensorboard",) if names is None else names)]
