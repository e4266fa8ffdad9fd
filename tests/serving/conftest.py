"""Folders of small untrained runs: LSTMs over characters and bytes, a GPT, translators of both kinds, and a classifier
with heads."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.runs.directory import write_config, write_weights
from clew.runs.folder.predictions import write_predictions
from clew.runs.folder.run_files import METRICS, WEIGHTS
from clew.runs.folder.vocabularies import save_vocabularies
from clew.runs.loaded import Run
from clew.serving.service import Service
from clew.serving.worker import Worker
from tests.instruments.small_runs import small_run
from tests.runs.small import save_many_languages

ERRORS = {
    "pairs": {"source": "the walls", "second": "were tall", "target": "good", "prediction": "bad"},
    "tagger": {
        "source": "a red",
        "target": "D N",
        "prediction": "D D",
        "wrong": [{"word": 2, "gold": "N", "predicted": "D"}],
    },
}
OFFERING = ("parser", "bert", "elmo", "answerer")
NAMES = ("lstm", "gpt", "attentive", "transformer", "heads", "bytes")


@pytest.fixture(scope="package")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    parent = tmp_path_factory.mktemp("inspected")
    return {name: save(small_run(name), parent / name) for name in NAMES}


@pytest.fixture(scope="package")
def odd_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that only some views support: a translator into several languages, a GPT whose first layer has no heads,
    runs of other tasks, and a classifier of pairs and a tagger with one error each."""
    parent = tmp_path_factory.mktemp("odd")
    save_many_languages(parent / "languages")
    save(small_run("pruned"), parent / "pruned")
    for name in OFFERING:
        save(small_run(name), parent / name)
    for name, error in ERRORS.items():
        write_predictions(save(small_run(name), parent / name), {"1": 0.0}, {"1": error})
    return {name: parent / name for name in ("languages", "pruned", *ERRORS)} | {
        name: parent / name for name in OFFERING
    }


def save(run: Run, folder: Path) -> Path:
    folder.mkdir()
    save_vocabularies(folder, run.vocabularies)
    write_weights(folder / WEIGHTS, run.task.state_dict())
    records = [{"step": step, "train.loss": 3.0 / step, "valid.loss": 3.1 / step} for step in range(1, 6)]
    (folder / METRICS).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    write_config(folder, run.config)
    return folder


Make = Callable[..., Service]


@pytest.fixture
def make() -> Iterator[Make]:
    """A function that makes services of small runs; they are closed at the end."""
    workers = []

    def make_service(*names: str, **options: Any) -> Service:
        workers.append(Worker())
        return Service([small_run(name) for name in names], workers[-1], **{"wait": 0.0, **options})

    yield make_service
    for worker in workers:
        assert worker.close(10.0)
