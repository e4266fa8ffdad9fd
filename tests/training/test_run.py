import errno
import json
import signal
from pathlib import Path

import pytest
import torch

from clew.core.batches import cut_rows
from clew.core.errors import UserError
from clew.data.plans import TokenBatch
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import read_metrics
from clew.runs.loaded import Run
from clew.training.checkpoints import checkpoint_folders
from clew.training.report import Silence
from clew.training.run import check_training, train_run
from clew.training.run_folder import RunFolder
from clew.training.signals import Interrupted, stop_requests
from tests.runs.small import gpt_settings, lstm_settings, write_text


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


class Listener(Silence):
    """Collects messages, and raises a signal at a step or an evaluation."""

    def __init__(self, stop_at_step: int | None = None, stop_at_evaluation: int | None = None):
        self.messages: list[str] = []
        self.stop_at_step = stop_at_step
        self.stop_at_evaluation = stop_at_evaluation

    def say(self, text: str) -> None:
        self.messages.append(text)

    def step(self, record, steps, tokens_per_second) -> None:
        if record.step in (self.stop_at_step, self.stop_at_evaluation):
            signal.raise_signal(signal.SIGTERM)


def losses(folder: Path) -> list[tuple]:
    """All metrics in order, except those that depend on the clock."""
    return [
        tuple(sorted((k, v) for k, v in record.items() if k not in ("tokens_per_second", "seconds")))
        for record in read_metrics(folder)
    ]


def assert_same_run(first: Path, second: Path) -> None:
    assert losses(first) == losses(second)
    for path in ("model.safetensors", f"checkpoints/{checkpoint_folders(first)[0].name}/model.safetensors"):
        expected, actual = read_weights(first / path), read_weights(second / path)
        assert expected.keys() == actual.keys()
        assert all(torch.equal(value, actual[name]) for name, value in expected.items()), path


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [("text-lstm", lstm_settings), ("text-gpt", gpt_settings)],
    ids=["streams, state carried", "windows"],
)
def test_a_run_stopped_between_evaluations_resumes_bit_for_bit(tmp_path: Path, recipe: str, settings) -> None:
    assignments = [*settings(tmp_path, steps=9), "model.dropout=0.2", "training.log_every=1"]
    run_recipe(recipe, assignments, out=Path("straight"))
    with pytest.raises(Interrupted, match="stopped at step 6 of 9; saved in stopped") as stop:
        run_recipe(recipe, assignments, out=Path("stopped"), report=Listener(stop_at_step=6))
    assert stop.value.number == signal.SIGTERM
    listener = Listener()
    run_recipe(recipe, [], out=Path("stopped"), resume=True, report=listener)
    assert "resuming from step 6" in listener.messages
    assert_same_run(Path("straight"), Path("stopped"))


@pytest.mark.parametrize("step", [4, 8])
def test_a_run_stopped_during_an_evaluation_is_evaluated_on_resuming(tmp_path: Path, step: int) -> None:
    """Step 4 is the first evaluation, before which no best weights exist; step 8 is the last."""
    assignments = lstm_settings(tmp_path, steps=8)
    run_recipe("text-lstm", assignments, out=Path("straight"))
    with pytest.raises(Interrupted):
        run_recipe("text-lstm", assignments, out=Path("stopped"), report=Listener(stop_at_evaluation=step))
    run_recipe("text-lstm", [], out=Path("stopped"), resume=True)
    assert_same_run(Path("straight"), Path("stopped"))


class Killed(BaseException):
    """Like SIGKILL, ends training without further writing."""


@pytest.mark.parametrize("step", [4, 8])
def test_an_evaluation_repeated_on_resuming_is_repeated_again_after_a_kill(tmp_path: Path, step: int) -> None:
    """The checkpoint stores the schedule and the best value; it does not include an evaluation that was repeated after
    it was written."""
    assignments = [
        *lstm_settings(tmp_path, steps=12),
        "training.schedule={name: plateau, patience: 1}",
        "training.learning_rate=1.0",
    ]
    run_recipe("text-lstm", assignments, out=Path("straight"))
    with pytest.raises(Interrupted):
        run_recipe("text-lstm", assignments, out=Path("killed"), report=Listener(stop_at_evaluation=step))

    class Killer(Silence):
        def step(self, record, steps, tokens_per_second) -> None:
            raise Killed

    with pytest.raises(Killed):
        run_recipe("text-lstm", [], out=Path("killed"), resume=True, report=Killer())
    run_recipe("text-lstm", [], out=Path("killed"), resume=True)
    assert_same_run(Path("straight"), Path("killed"))
    first, second = (
        json.loads((checkpoint_folders(Path(name))[0] / "training.json").read_text()) for name in ("straight", "killed")
    )
    assert (first["best"], first["schedule"]) == (second["best"], second["schedule"])


def test_a_signal_during_the_last_evaluation_is_handled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def signalled(*parts):
        signal.raise_signal(signal.SIGTERM)
        return Run(*parts)

    monkeypatch.setattr("clew.training.run.Run", signalled)
    with pytest.raises(Interrupted, match="stopped after the final evaluation; saved in run") as stop:
        run_recipe("text-lstm", lstm_settings(tmp_path, steps=4), out=Path("run"))
    assert stop.value.number == signal.SIGTERM
    assert any("best.step" in record for record in read_metrics(Path("run")))


def test_a_second_signal_stops_at_once_and_names_the_last_checkpoint(tmp_path: Path) -> None:
    class Impatient(Silence):
        def step(self, record, steps, tokens_per_second) -> None:
            if record.step == 6:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGTERM)

    message = "stopped at once; the last checkpoint is run/checkpoints/step-00000004"
    with pytest.raises(Interrupted, match=message) as stop:
        run_recipe("text-lstm", lstm_settings(tmp_path, steps=8), out=Path("run"), report=Impatient())
    assert stop.value.number == signal.SIGTERM


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9])], ids=["missing", "cut short"]
)
@pytest.mark.parametrize("average", ["null", "ema"])
def test_lost_weights_are_replaced_on_resuming(tmp_path: Path, damage, average: str) -> None:
    assignments = [*lstm_settings(tmp_path, steps=4), f"training.average={average}"]
    run_recipe("text-lstm", assignments, out=Path("straight"))
    run_recipe("text-lstm", assignments, out=Path("lost"))
    damage(Path("lost/model.safetensors"))
    listener = Listener()
    run_recipe("text-lstm", [], out=Path("lost"), resume=True, report=listener)
    assert any(
        "; the weights of step 4 replace the best weights so far, of step 4" in message for message in listener.messages
    )
    assert_same_run(Path("straight"), Path("lost"))


def test_lost_weights_of_an_earlier_step_are_replaced_by_the_next_evaluation(tmp_path: Path) -> None:
    """The learning rate is too small to change anything, so the first evaluation is the best."""
    assignments = [*lstm_settings(tmp_path, steps=8), "training.learning_rate=1e-12"]
    run_recipe("text-lstm", assignments, out=Path("run"))
    Path("run/model.safetensors").unlink()
    listener = Listener()
    result = run_recipe("text-lstm", ["training.steps=12"], out=Path("run"), resume=True, report=listener)
    assert any(
        "the weights of step 8 replace the best weights so far, of step 4" in message for message in listener.messages
    )
    assert result.best_step == 12


@pytest.mark.parametrize("file", ["metrics.jsonl", "model.safetensors"])
def test_a_full_disk_ends_a_run_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    def raise_disk_full(*_) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(
        f"clew.training.{'trainer.append_metrics' if file == 'metrics.jsonl' else 'driving.write_weights'}",
        raise_disk_full,
    )
    what = "metrics" if file == "metrics.jsonl" else "weights"
    message = (
        f"cannot write the {what} in run: No space left on device; free space there, or make it writable, and resume"
        " with resume=True"
    )
    with pytest.raises(UserError, match=f"{message} from the start, as no checkpoint was saved yet"):
        run_recipe("text-lstm", lstm_settings(tmp_path, steps=4), out=Path("run"))


def test_a_run_that_cannot_be_prepared_leaves_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_disk_full(*_) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("clew.training.run_folder.write_config", raise_disk_full)
        with pytest.raises(
            UserError, match="cannot write the run to run: No space left on device; choose another folder with out=..."
        ):
            run_recipe("text-lstm", lstm_settings(tmp_path, steps=2), out=Path("run"))
    assert list(Path("run").iterdir()) == []
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=2), out=Path("run"))


def test_a_run_resumes_from_the_checkpoint_before_a_damaged_one(tmp_path: Path) -> None:
    assignments = lstm_settings(tmp_path, steps=8)
    run_recipe("text-lstm", assignments, out=Path("straight"))
    run_recipe("text-lstm", assignments, out=Path("damaged"))
    newest = checkpoint_folders(Path("damaged"))[0] / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:100])
    listener = Listener()
    run_recipe("text-lstm", [], out=Path("damaged"), resume=True, report=listener)
    assert (
        f"{newest.parent} is damaged (model.safetensors has changed since it was written) and is skipped"
        in listener.messages
    )
    assert "resuming from step 4" in listener.messages
    assert_same_run(Path("straight"), Path("damaged"))


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=4), out=Path("done"))
    before = losses(Path("done"))
    again = run_recipe("text-lstm", [], out=Path("done"), resume=True)
    assert again.step == 4
    assert losses(Path("done")) == before


def test_a_finished_run_can_be_resumed_for_more_steps(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=4), out=Path("more"))
    run_recipe("text-lstm", ["training.steps=8"], out=Path("more"), resume=True)
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=8), out=Path("straight"))
    assert read_weights(Path("more/model.safetensors"))["output_bias"].equal(
        read_weights(Path("straight/model.safetensors"))["output_bias"]
    )


def test_a_run_without_a_checkpoint_starts_again(tmp_path: Path) -> None:
    assignments = lstm_settings(tmp_path, steps=4)
    run_recipe("text-lstm", assignments, out=Path("straight"))
    run_recipe("text-lstm", assignments, out=Path("killed"))
    import shutil

    shutil.rmtree("killed/checkpoints")
    listener = Listener()
    run_recipe("text-lstm", [], out=Path("killed"), resume=True, report=listener)
    assert "killed has no checkpoint yet; starting from step 0" in listener.messages
    assert_same_run(Path("straight"), Path("killed"))


def test_a_changed_text_is_rejected(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=4), out=Path("run"))
    write_text(tmp_path, "other words stand in the file now, and more of them.\n" * 20)
    with pytest.raises(
        UserError,
        match=(
            r"the training text changed since it was written \(then [\d,]+ tokens, \w+; now [\d,]+ tokens, \w+\);"
            r" restore the earlier training text"
        ),
    ):
        run_recipe("text-lstm", [], out=Path("run"), resume=True)


def test_a_changed_setting_is_rejected(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=4), out=Path("run"))
    message = (
        "a resumed run keeps its settings, but these changed: model.dim: 16 -> 32; leave them as they were, or start a"
        " new run"
    )
    with pytest.raises(UserError, match=message):
        run_recipe("text-lstm", ["model.dim=32"], out=Path("run"), resume=True)


def test_patience_ends_a_run_without_improvement(tmp_path: Path) -> None:
    assignments = [
        *lstm_settings(tmp_path, steps=50),
        "training.patience=2",
        "training.learning_rate=1e-12",
        "training.evaluate_every=1",
    ]
    listener = Listener()
    result = run_recipe("text-lstm", assignments, out=Path("run"), report=listener)
    assert result.step < 50
    assert f"no improvement in 2 evaluations; stopped at step {result.step}" in listener.messages


def test_a_run_has_the_weights_of_its_best_evaluation(tmp_path: Path) -> None:
    """The learning rate is so large that training diverges; the last weights are not the best."""
    assignments = [
        *lstm_settings(tmp_path, steps=12),
        "training.evaluate_every=2",
        "training.learning_rate=3.0",
        "training.clip_norm=null",
    ]
    result = run_recipe("text-lstm", assignments, out=Path("run"))
    measured = {record["step"]: record["valid.loss"] for record in read_metrics(Path("run")) if "valid.loss" in record}
    assert result.valid.loss == min(measured.values()) == measured[result.best_step]


def test_more_micro_batches_than_rows_are_rejected(tmp_path: Path) -> None:
    config = config_of("text-lstm", ["training.batch_size=2", "training.accumulate=4"])
    message = (
        r"training.batch_size \(2\) must be at least training.accumulate \(4\) times the number of processes \(1\)"
    )
    with pytest.raises(UserError, match=message):
        check_training(config.training)


def test_a_run_that_another_process_starts_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.training.run_folder.is_run", lambda path: True)
    with pytest.raises(
        UserError,
        match="another process has started a run in .*run meanwhile; choose another folder with out=...",
    ):
        run_recipe("text-lstm", lstm_settings(tmp_path, steps=1), out=tmp_path / "run")


def test_lengths_vary_only_in_streams() -> None:
    config = config_of("text-gpt", ["training.vary_length=true"])
    with pytest.raises(
        UserError,
        match="training.vary_length needs training.batching=streams; set it, or leave training.vary_length out",
    ):
        check_training(config.training)


def test_accumulation_trains_to_the_same_model(tmp_path: Path) -> None:
    for parts in (1, 4):
        run_recipe(
            "text-lstm",
            [*lstm_settings(tmp_path, steps=4), "model.dropout=0.0", f"training.accumulate={parts}"],
            out=Path(f"parts-{parts}"),
        )
    expected, actual = (read_weights(Path(f"parts-{parts}/model.safetensors")) for parts in (1, 4))
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=1e-3, atol=1e-5)


def test_cutting_rows_into_parts_keeps_each_row_once() -> None:
    tokens = torch.arange(10).view(5, 2)
    parts = cut_rows(TokenBatch(tokens, tokens + 1, tokens > 0, False), 3)
    assert [len(part.tokens) for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat([part.tokens for part in parts]), tokens)
    assert torch.equal(torch.cat([part.targets for part in parts]), tokens + 1)
    assert not any(part.fresh for part in parts)


def test_the_same_config_gives_the_same_run(tmp_path: Path) -> None:
    assignments = [*lstm_settings(tmp_path, steps=4), "model.dropout=0.3"]
    for name in ("first", "second"):
        torch.rand(3)
        train_run(config_of("text-lstm", assignments), RunFolder(Path(name)))
    assert_same_run(Path("first"), Path("second"))


def test_a_first_signal_is_recorded_and_a_second_raises() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_requests() as request:
        assert not request
        signal.raise_signal(signal.SIGINT)
        assert request.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_resuming_a_run_out_of_patience_does_not_train(tmp_path: Path) -> None:
    assignments = [
        *lstm_settings(tmp_path, steps=40),
        "training.learning_rate=1e-12",
        "training.evaluate_every=1",
        "training.patience=2",
    ]
    first = run_recipe("text-lstm", assignments, out=Path("run"))
    assert first.step < 40
    report = Listener()
    again = run_recipe("text-lstm", [], out=Path("run"), resume=True, report=report)
    assert again.step == first.step
    assert f"no improvement in 2 evaluations; stopped at step {first.step}" in report.messages


def test_windows_longer_than_the_positions_are_rejected_before_a_folder_is_created(tmp_path: Path) -> None:
    assignments = [*gpt_settings(tmp_path, steps=2), "model.max_length=4", "training.length=8"]
    with pytest.raises(
        UserError,
        match=r"training.length \(8\) must be at most the model's 4 positions; lower it" ", or raise model.max_length",
    ):
        run_recipe("text-gpt", assignments, out=Path("run"))
    assert not Path("run").exists()


def test_streams_are_rejected_for_attention(tmp_path: Path) -> None:
    assignments = [*gpt_settings(tmp_path, steps=2), "training.batching=streams"]
    with pytest.raises(
        UserError, match="that of attention would grow during the whole epoch; set training.batching=windows"
    ):
        run_recipe("text-gpt", assignments, out=Path("run"))


def test_a_run_is_not_resumed_for_fewer_steps_than_it_has_done(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=4), out=Path("run"))
    before = Path("run/config.json").read_text()
    with pytest.raises(
        UserError, match="run has done 4 steps already, so training.steps=2 is too small; set it to 4 or more"
    ):
        run_recipe("text-lstm", ["training.steps=2"], out=Path("run"), resume=True)
    assert Path("run/config.json").read_text() == before


def test_resume_finds_the_run_by_its_fixed_settings(tmp_path: Path) -> None:
    assignments = lstm_settings(tmp_path, steps=4)
    run_recipe("text-lstm", assignments)
    longer = run_recipe("text-lstm", [*assignments, "training.steps=6"], resume=True)
    assert (str(longer.run.folder), longer.step) == ("runs/text-lstm", 6)
    settings = Path("mine.yaml")
    settings.write_text("recipe: text-lstm\nmodel: {word_dropout: 0.33}\n")
    with pytest.raises(UserError, match="there is no run of text-lstm with these settings to resume"):
        run_recipe("mine.yaml", assignments, resume=True)
