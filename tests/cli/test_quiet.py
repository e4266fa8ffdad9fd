"""`--quiet` shows only answers and errors."""

from pathlib import Path

from tests.cli.conftest import Clew
from tests.runs.small import lstm_settings, write_text


def test_quiet_training_prints_nothing_and_writes_the_run(clew: Clew, tmp_path: Path) -> None:
    result = clew("train", "text-lstm", *lstm_settings(tmp_path, steps=4), "--out", "run", "--quiet")
    assert result == (0, "", "")
    assert Path("run/model.safetensors").is_file()
    # The next command prints messages again.
    assert clew("train", "text-lstm", "--out", "run", "--resume").err.startswith("device cpu")


def test_quiet_leaves_answers_unchanged(clew: Clew, lstm: Path) -> None:
    words = ("evaluate", lstm, "-")
    loud, quiet = (clew(*words, *more, stdin="the % thread %\n") for more in ((), ("--quiet",)))
    assert loud.err == "2 of 15 tokens are unknown to the model\n" and quiet.err == ""
    assert quiet.out == loud.out != ""


def test_quiet_vectors_writes_its_file(clew: Clew, tmp_path: Path) -> None:
    text = write_text(tmp_path)
    result = clew("vectors", text, "--method", "pmi", "--dim", "4", "--min-count", "1", "--out", "words.txt", "--quiet")
    assert result == (0, "", "") and Path("words.txt").is_file()


def test_quiet_does_not_hide_errors(clew: Clew) -> None:
    result = clew("train", "text-lstm", "lr=0.1", "--quiet")
    assert result.status == 2 and result.err.startswith(
        "clew: unknown field 'lr'; did you mean 'training.learning_rate'?"
    )
