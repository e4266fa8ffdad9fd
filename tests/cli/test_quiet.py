"""`--quiet`: answers and mistakes alone."""

from pathlib import Path

from tests.cli.conftest import Clew
from tests.runs.small import lstm_settings, write_text


def test_a_quiet_training_says_nothing_and_writes_the_run(clew: Clew, tmp_path: Path) -> None:
    found = clew("train", "text-lstm", *lstm_settings(tmp_path, steps=4), "--out", "run", "--quiet")
    assert found == (0, "", "")
    assert Path("run/model.safetensors").is_file()
    assert clew("train", "text-lstm", "--out", "run", "--resume").err.startswith(
        "device cpu"
    )  # the next command speaks again


def test_a_quiet_answer_is_the_answer(clew: Clew, lstm: Path) -> None:
    words = ("evaluate", lstm, "-")
    loud, quiet = (clew(*words, *more, stdin="the % thread %\n") for more in ((), ("--quiet",)))
    assert loud.err == "2 of 15 tokens are unknown to the model\n" and quiet.err == ""
    assert quiet.out == loud.out != ""


def test_quiet_word_vectors_are_written(clew: Clew, tmp_path: Path) -> None:
    text = write_text(tmp_path)
    found = clew("vectors", text, "--method", "pmi", "--dim", "4", "--min-count", "1", "--out", "words.txt", "--quiet")
    assert found == (0, "", "") and Path("words.txt").is_file()


def test_a_mistake_is_said_however_quiet(clew: Clew) -> None:
    found = clew("train", "text-lstm", "lr=0.1", "--quiet")
    assert found.status == 2 and found.err.startswith(
        "clew: unknown field 'lr'; did you mean 'training.learning_rate'?"
    )
