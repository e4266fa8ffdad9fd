"""Evaluations during training can read a part of the validation data; the last one reads all."""

from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.recipes.running import run_recipe
from clew.runs.folder.run_files import read_metrics
from clew.tasks.learnings.examples import sample_rows
from clew.tasks.learnings.streams import evaluate
from tests.runs.small import BERT, gpt_settings, lstm_settings, write_text


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("recipe", "settings"), [("text-lstm", lstm_settings), ("text-gpt", gpt_settings)], ids=["streams", "windows"]
)
def test_the_last_evaluation_reads_everything(tmp_path: Path, recipe: str, settings) -> None:
    assignments = [*settings(tmp_path, steps=4), "data.valid_fraction=0.4"]
    losses = {}
    for name, more in (("whole", []), ("capped", ["training.evaluate_tokens=64"])):
        run_recipe(recipe, [*assignments, *more], out=Path(name))
        losses[name] = {
            key: value for record in read_metrics(Path(name)) for key, value in record.items() if "valid.loss" in key
        }
    assert (
        losses["capped"]["best.valid.loss"]
        == losses["whole"]["best.valid.loss"]
        == pytest.approx(losses["whole"]["valid.loss"], rel=1e-5)
    )
    assert losses["capped"]["valid.loss"] != losses["whole"]["valid.loss"]


def test_a_cap_reads_the_first_batches_and_a_large_cap_changes_nothing(tmp_path: Path) -> None:
    run = run_recipe("text-gpt", [*gpt_settings(tmp_path, steps=1), "data.valid_fraction=0.4"], out=Path("run")).run
    text = run.task.tokenizer.encode(Path("story.txt").read_text(encoding="utf-8"))
    from clew.data.caching.encoded import TokenFile

    file = TokenFile(np.array(text), len(text), len(text) - 1, 0)
    whole, above, part = (
        evaluate(run.task, file, run.config.training, most_tokens=most) for most in (None, 10**9, 100)
    )
    assert whole == above and part.tokens < 200 < whole.tokens
    first = TokenFile(np.array(text[: part.tokens + 1]), part.tokens + 1, part.tokens, 0)
    assert evaluate(run.task, first, run.config.training).nats == pytest.approx(part.nats, rel=1e-5)
    assert part.characters == part.tokens  # a token is a character


def test_examples_are_sampled_up_to_a_number_of_tokens() -> None:
    lengths = np.full((100, 2), 5)
    sampled = sample_rows(lengths, 200)
    assert len(sampled) == 20 == len(set(sampled)) and sampled == sorted(sampled) == sample_rows(lengths, 200)
    assert max(sampled) > 60 and min(sampled) < 40
    assert len(sample_rows(lengths, 1)) == 1 and sample_rows(lengths, 10**6) == list(range(100))


def test_masked_language_models_reject_a_cap(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match="training.evaluate_tokens works for running text and examples, but this task learns from .*; leave it",
    ):
        run_recipe(
            "text-bert", [f"data.train={write_text(tmp_path)}", *BERT, "training.evaluate_tokens=10"], out=Path("run")
        )
