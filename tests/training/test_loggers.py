"""Records for TensorBoard, Weights & Biases and MLflow; each is tested where its package is installed."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.folder.run_files import read_metrics
from clew.training import loggers
from clew.training.run import check_training
from tests.runs.small import lstm_settings


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def measured(name: str) -> list[tuple[int, float]]:
    return [(record["step"], record[name]) for record in read_metrics(Path("runs/one")) if name in record]


def trained_twice(tmp_path: Path, log: str) -> None:
    """A run that ends at step 4 and goes on to step 6."""
    given = [*lstm_settings(tmp_path, steps=4), f"training.log=[{log}]"]
    run_recipe("text-lstm", given, out=Path("runs/one"))
    run_recipe("text-lstm", ["training.steps=6"], out=Path("runs/one"), resume=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")  # MLflow's, of SQLAlchemy
def test_mlflow_has_every_record_of_a_run_that_goes_on_as_one_run(tmp_path: Path) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    pytest.importorskip("sqlalchemy")
    trained_twice(tmp_path, "mlflow")
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/runs/mlflow.db")
    [run] = client.search_runs([client.get_experiment_by_name("clew").experiment_id])
    assert run.info.run_name == "one" and run.info.status == "FINISHED"
    for name in ("train.loss", "valid.loss"):
        assert [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, name)] == measured(name)


def wandb_records(path: Path) -> Iterator[bytes]:
    """The records of a file that Weights & Biases wrote: LevelDB's log, behind seven bytes. Its library writes such
    files and reads them in a program of its own, so that only what a record holds can be read by its messages."""
    content, at, whole = path.read_bytes(), 7, b""
    assert content.startswith(b":W&B")
    while at + 7 <= len(content):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (FULL, LAST):
            yield whole
            whole = b""


BLOCK, FULL, LAST = 32768, 1, 4


def wandb_history(path: Path) -> list[dict[str, Any]]:
    """What was logged, as the messages of the library have it."""
    messages = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    rows = []
    for content in wandb_records(path):
        record = messages.Record()
        record.ParseFromString(content)
        if record.WhichOneof("record_type") == "history":
            rows.append(
                {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            )
    return rows


@pytest.mark.slow
def test_wandb_writes_offline_and_goes_on_as_the_same_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    trained_twice(tmp_path, "wandb")
    written = sorted(Path("runs/one/wandb").glob("offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime)
    assert len(written) == 2 and len({path.name for path in written}) == 1
    logged = [row for path in written for row in wandb_history(path)]
    for name in ("train.loss", "valid.loss"):
        found = [(row["step"], row[key]) for row in logged if (key := name.replace(".", "/")) in row]
        assert found == measured(name)
    assert not Path("runs/one/events").exists()


def test_tensorboard_shows_every_record_of_a_run_that_goes_on(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    trained_twice(tmp_path, "tensorboard")
    shown = accumulator.EventAccumulator("runs/one/events")
    shown.Reload()
    for name in ("train.loss", "valid.loss"):
        found = [(event.step, event.value) for event in shown.Scalars(name.replace(".", "/"))]
        assert [step for step, _ in found] == [step for step, _ in measured(name)]
        assert [value for _, value in found] == pytest.approx(
            [value for _, value in measured(name)]
        )  # events hold float32


def test_a_logger_that_is_not_installed_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    sentence = (
        "wandb in training.log needs wandb: not installed; run `pip install 'clew.wandb.'`, or leave wandb out of"
        " training.log"
    )
    with pytest.raises(UserError, match=sentence):
        check_training(config_of("text-lstm", ["training.log=[wandb]"]).training)


def test_one_logger_needs_no_brackets() -> None:
    assert config_of("text-lstm", ["training.log=wandb"]) == config_of("text-lstm", ["training.log=[wandb]"])


def test_a_logger_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="training.log must be one of 'tensorboard', 'wandb' or 'mlflow', not 'comet'"):
        config_of("text-lstm", ["training.log=[comet]"])


def test_the_loggers_may_change_when_a_run_goes_on(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=2), out=Path("run"))
    assert run_recipe("text-lstm", ["training.log=[]", "training.steps=4"], out=Path("run"), resume=True).step == 4
