import socket
from pathlib import Path

import pytest
import torch

from clew.core import processes
from clew.core.errors import UserError
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import read_metrics
from clew.training.checkpoints import MODEL, checkpoint_folders, read_group
from tests.runs.small import lstm_settings
from tests.training.group import train_together


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    return [*lstm_settings(tmp_path, steps=8), "training.batch_size=5", "training.average.name=ema", "model.dropout=0"]


def curve(folder: Path) -> list[float]:
    return [value for record in read_metrics(folder) for name, value in sorted(record.items()) if name.endswith("loss")]


def test_more_processes_than_gpus_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with (
        pytest.raises(
            UserError,
            match="process 1 of this host has no GPU of its own: there are 1; start at most that many with"
            " --nproc-per-node, or set device=cpu",
        ),
        processes.process_group("auto"),
    ):
        pass


def test_a_timeout_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("CLEW_TIMEOUT", "soon")
    with (
        pytest.raises(UserError, match=r"CLEW_TIMEOUT \('soon'\) must be a number of seconds above 0"),
        processes.process_group("cpu"),
    ):
        pass


def test_an_unreachable_process_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:  # bound, but nobody listens
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        settings = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "CLEW_TIMEOUT": 1}
        for name, value in settings.items():
            monkeypatch.setenv(name, str(value))
        with (
            pytest.raises(
                UserError,
                match=r"process 1 lost another process, which died or cannot be reached \(.*\); torchrun says which;"
                r" continue with resume=True, or let torchrun restart them with --max-restarts",
            ),
            processes.process_group("cpu"),
        ):
            pass


def test_the_other_processes_fail_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "rank", lambda: 1)
    monkeypatch.setattr(processes, "sum_over_processes", lambda failures: failures + 1)
    with pytest.raises(
        UserError, match="the first process failed and has reported why; fix that, then start all processes again"
    ):
        processes.first_alone(lambda: None)


@pytest.mark.slow
def test_any_number_of_processes_trains_the_same_run_as_one(tmp_path: Path, settings: list[str]) -> None:
    """Five rows per batch, so that processes get different numbers of rows; half-way the run continues with another
    number of processes."""
    half, fsdp = "training.steps=4", "training.parallel=fsdp"
    run_recipe("text-lstm", settings, out=Path("one"))
    run_recipe("text-lstm", [*settings, half], out=Path("one-then-two"))
    train_together(
        2,
        tmp_path,
        [
            (settings, "two", False),
            ([*settings, fsdp], "two-sharded", False),
            ([*settings, half, fsdp], "two-then-one", False),
            (["training.steps=8", fsdp], "one-then-two", True),
        ],
    )
    assert (checkpoint_folders(Path("two-then-one"))[0] / "model-2-of-2.safetensors").is_file()
    run_recipe("text-lstm", ["training.steps=8", "training.parallel=ddp"], out=Path("two-then-one"), resume=True)
    straight = read_weights(Path("one/model.safetensors"))
    last = read_group(checkpoint_folders(Path("one"))[0], MODEL)
    for name in ("two", "two-sharded", "two-then-one", "one-then-two"):
        assert curve(Path(name)) == pytest.approx(curve(Path("one")), rel=1e-6), name
        for key, value in read_weights(Path(name) / "model.safetensors").items():
            torch.testing.assert_close(value, straight[key], rtol=1e-5, atol=1e-6, msg=f"{name} {key}")
        for key, value in read_group(checkpoint_folders(Path(name))[0], MODEL).items():
            torch.testing.assert_close(value, last[key], rtol=1e-5, atol=1e-6, msg=f"{name} {key}")
