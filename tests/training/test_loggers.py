"""Records for TensorBoard, Weights & Biases and MLflow; each is tested where its package is installed."""

from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.recipes.running import config_of, run_recipe
from clew.runs.directory import read_metrics
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


@pytest.mark.filterwarnings("ignore")  # theirs
def test_mlflow_has_every_record_of_a_run_that_goes_on_as_one_run(tmp_path: Path) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    pytest.importorskip("sqlalchemy")
    trained_twice(tmp_path, "mlflow")
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/runs/mlflow.db")
    [run] = client.search_runs([client.get_experiment_by_name("clew").experiment_id])
    assert run.info.run_name == "one" and run.info.status == "FINISHED"
    for name in ("train.loss", "valid.loss"):
        assert [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, name)] == measured(name)


@pytest.mark.filterwarnings("ignore")  # theirs
def test_wandb_writes_offline_and_goes_on_as_the_same_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    trained_twice(tmp_path, "wandb")
    written = list(Path("runs/one/wandb").glob("offline-run-*/run-*.wandb"))
    assert len(written) == 2 and len({path.name for path in written}) == 1
    assert all(b"train/loss" in path.read_bytes() for path in written)
    assert not Path("runs/one/events").exists()


def test_a_logger_that_is_not_installed_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    sentence = (
        "training.log asks for wandb, which needs wandb: not installed; `pip install 'clew.wandb.'`, or leave wandb out of training.log"
    )
    with pytest.raises(UserError, match=sentence):
        check_training(config_of("text-lstm", ["training.log=[wandb]"]).training)


def test_a_logger_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="training.log must be one of 'tensorboard', 'wandb' or 'mlflow', not 'comet'"):
        config_of("text-lstm", ["training.log=[comet]"])


def test_the_loggers_may_change_when_a_run_goes_on(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=2), out=Path("run"))
    assert run_recipe("text-lstm", ["training.log=[]", "training.steps=4"], out=Path("run"), resume=True).step == 4
