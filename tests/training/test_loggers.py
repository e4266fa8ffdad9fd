"""Records for TensorBoard, Weights & Biases and MLflow; each test needs the installed package."""

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
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def recorded(name: str) -> list[tuple[int, float]]:
    return [(record["step"], record[name]) for record in read_metrics(Path("runs/one")) if name in record]


def train_and_resume(tmp_path: Path, log: str) -> None:
    """Train a run to step 4, and resume it to step 6."""
    settings = [*lstm_settings(tmp_path, steps=4), f"training.log=[{log}]"]
    run_recipe("text-lstm", settings, out=Path("runs/one"))
    run_recipe("text-lstm", ["training.steps=6"], out=Path("runs/one"), resume=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")  # MLflow uses it with SQLAlchemy
def test_mlflow_has_every_record_of_a_resumed_run_in_one_run(tmp_path: Path) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    pytest.importorskip("sqlalchemy")
    train_and_resume(tmp_path, "mlflow")
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/runs/mlflow.db")
    [run] = client.search_runs([client.get_experiment_by_name("clew").experiment_id])
    assert run.info.run_name == "one" and run.info.status == "FINISHED"
    for name in ("train.loss", "valid.loss"):
        assert [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, name)] == recorded(name)


def wandb_records(path: Path) -> Iterator[bytes]:
    """The records of a file that Weights & Biases wrote: a LevelDB log after seven bytes. The library has no reader for
    such files; it can only parse the content of a record."""
    content, at, record = path.read_bytes(), 7, b""
    assert content.startswith(b":W&B")
    while at + 7 <= len(content):
        remaining = BLOCK - at % BLOCK
        if remaining < 7:
            at += remaining
            continue
        length, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        record += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (FULL, LAST):
            yield record
            record = b""


BLOCK, FULL, LAST = 32768, 1, 4


def wandb_history(path: Path) -> list[dict[str, Any]]:
    """The logged rows, parsed with the messages of the library."""
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
def test_wandb_writes_offline_and_resumes_the_same_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    train_and_resume(tmp_path, "wandb")
    written = sorted(Path("runs/one/wandb").glob("offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime)
    assert len(written) == 2 and len({path.name for path in written}) == 1
    logged = [row for path in written for row in wandb_history(path)]
    for name in ("train.loss", "valid.loss"):
        scalars = [(row["step"], row[key]) for row in logged if (key := name.replace(".", "/")) in row]
        assert scalars == recorded(name)
    assert not Path("runs/one/events").exists()


def test_tensorboard_shows_every_record_of_a_resumed_run(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train_and_resume(tmp_path, "tensorboard")
    contents = accumulator.EventAccumulator("runs/one/events")
    contents.Reload()
    for name in ("train.loss", "valid.loss"):
        scalars = [(event.step, event.value) for event in contents.Scalars(name.replace(".", "/"))]
        assert [step for step, _ in scalars] == [step for step, _ in recorded(name)]
        # Events store float32.
        assert [value for _, value in scalars] == pytest.approx([value for _, value in recorded(name)])


def test_a_logger_that_is_not_installed_is_rejected_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    sentence = (
        "wandb in training.log needs wandb: not installed; run `pip install 'clew.wandb.'`, or leave wandb out of"
        " training.log"
    )
    with pytest.raises(UserError, match=sentence):
        check_training(config_of("text-lstm", ["training.log=[wandb]"]).training)


def test_one_logger_needs_no_brackets() -> None:
    assert config_of("text-lstm", ["training.log=wandb"]) == config_of("text-lstm", ["training.log=[wandb]"])


def test_an_unknown_logger_is_rejected() -> None:
    with pytest.raises(UserError, match="training.log must be one of 'tensorboard', 'wandb' or 'mlflow', not 'comet'"):
        config_of("text-lstm", ["training.log=[comet]"])


def test_loggers_may_change_on_resuming(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=2), out=Path("run"))
    assert run_recipe("text-lstm", ["training.log=[]", "training.steps=4"], out=Path("run"), resume=True).step == 4
