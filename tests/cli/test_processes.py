"""Signals, pipes and exit codes, which need a separate process."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from clew.cli.main import main
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import read_metrics
from clew.training.checkpoints import checkpoint_folders
from tests.runs.small import lstm_settings
from tests.warm import Command, has_lines

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "clew"]
STEPS = 400


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "CLEW_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def settings(folder: Path) -> list[str]:
    """Slow steps, so that a signal arrives in the middle of training; with dropout and a carried state."""
    return [*lstm_settings(folder, steps=STEPS), "model.dropout=0.2", "model.dim=64", "training.evaluate_every=150"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the same settings that was not interrupted."""
    from clew.recipes.running import run_recipe

    folder = tmp_path_factory.mktemp("uninterrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        with one_thread():
            run_recipe("text-lstm", settings(folder), out=folder / "run")
    return folder / "run"


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, as in the processes: another order of summation changes the last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def metrics_of(folder: Path) -> list[dict]:
    return [
        {key: value for key, value in record.items() if key not in ("tokens_per_second", "seconds")}
        for record in read_metrics(folder)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_run_resumes_bit_for_bit(
    tmp_path: Path,
    uninterrupted: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    status: int,
) -> None:
    arguments = ["train", "text-lstm", *settings(tmp_path), "--out", "in a maze"]
    metrics = tmp_path / "in a maze" / "metrics.jsonl"
    code, out, err = Command(arguments, tmp_path).stop(number, when=lambda: has_lines(metrics, 20))
    assert code == status
    assert out == "" and "Traceback" not in err
    message = err.splitlines()[-1]
    assert (
        message.startswith("clew: stopped at step ")
        and f" of {STEPS}; saved in in a maze; resume with `clew train text-lstm" in message
    )
    resume = shlex.split(message.split("`")[1])
    assert resume == ["clew", *arguments, "--resume"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    with one_thread():
        assert main(resume[1:]) == 0

    folder = tmp_path / "in a maze"
    assert metrics_of(folder) == metrics_of(uninterrupted)
    newest = checkpoint_folders(uninterrupted)[0].name
    for path in (
        "model.safetensors",
        f"checkpoints/{newest}/model.safetensors",
        f"checkpoints/{newest}/optimiser.safetensors",
    ):
        expected, actual = read_weights(uninterrupted / path), read_weights(folder / path)
        assert expected.keys() == actual.keys()
        assert all(torch.equal(value, actual[name]) for name, value in expected.items()), path


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that closes streams")
@pytest.mark.parametrize(("closed", "verb", "status"), [(">&-", "recipes", 0), (">&- 2>&- <&-", "nonsense", 2)])
def test_commands_run_without_standard_streams(
    environment: dict[str, str], closed: str, verb: str, status: int
) -> None:
    command = f"{shlex.join(COMMAND)} {verb} {closed}"
    result = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (status, "", "")


@pytest.mark.slow
def test_a_closed_pipe_ends_the_command_silently(environment: dict[str, str], tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "recipes"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


def test_standard_input_that_is_not_utf8_is_rejected(tmp_path: Path, lstm: Path) -> None:
    code, out, err = Command(["evaluate", str(lstm), "-"], tmp_path, b"the \xff end").wait()
    assert (code, out) == (2, "")
    assert err.startswith("clew: standard input is not UTF-8 at position 4")


def test_a_mistake_sets_the_exit_code(environment: dict[str, str], tmp_path: Path) -> None:
    completed = subprocess.run([*COMMAND, "trian"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert completed.stderr.startswith("clew: unknown verb 'trian'; did you mean 'train'?")


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_a_file_name_that_is_not_utf8_is_accepted_and_shown(tmp_path: Path) -> None:
    arguments = [*lstm_settings(tmp_path, steps=1)[1:], "data.train=caf\udce9.txt", "--out", "run"]
    (tmp_path / "story.txt").rename(tmp_path / "caf\udce9.txt")
    code, _, err = Command(["train", "text-lstm", *arguments], tmp_path).wait()
    assert code == 0, err
    assert "data.train=caf\\udce9.txt" in err
    # The byte is written unchanged.
    assert Command(["evaluate", "run", "caf\udce9.txt"], tmp_path).wait()[1].startswith("caf\udce9.txt: loss ")
