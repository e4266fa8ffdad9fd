"""Training on examples gives the same run in several processes or with interruptions; invalid data are rejected."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from clew.core.errors import UserError, counted
from clew.data.notes import Notes
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights
from clew.runs.folder.predictions import read_prediction_records, without_statistics
from clew.runs.folder.run_files import read_metrics
from clew.tasks import TASKS
from clew.tasks.learning import Evaluation
from clew.tasks.learnings.examples import evaluation_budget
from clew.training.problems import prepare_problem
from clew.training.report import Silence
from clew.training.signals import Interrupted
from tests.training.group import train_together
from tests.training.pairs import LSTM, TRANSFORMER, pair_settings, write_pairs
from tests.training.test_run import Listener, assert_same_run


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def scores_of(folder: Path) -> list[float]:
    """Every loss and score, in order."""
    names = ("loss", "smoothing", "perplexity", "bleu", "chrf")
    return [
        value
        for record in read_metrics(folder)
        for name, value in sorted(record.items())
        if name.rpartition(".")[2] in names
    ]


def records(folder: Path) -> list[dict[str, Any]]:
    stored = read_prediction_records(folder)
    assert stored
    return stored


def losses_of(folder: Path) -> list[float]:
    """The loss of every example of the test part; the last bits depend on the other rows of its batch."""
    return [record["statistics"]["loss"]["mean"][0] for record in records(folder)]


@pytest.mark.slow
def test_two_processes_train_and_evaluate_like_one(tmp_path: Path) -> None:
    """Batches have an odd number of rows; the validation part has fewer batches than processes, the test part many.
    One run is stopped during an evaluation, with which the two processes begin. Keys have no bias: its gradient is 0
    except for rounding errors, which Adam would enlarge."""
    few, many = write_pairs(tmp_path, "few.tsv", 3, seed=2), write_pairs(tmp_path, "many.tsv", 150, seed=3)
    more = [f"data.valid={few}", f"data.test={many}", "task.label_smoothing=0.1", "training.batch_tokens=150"]
    lstm = [*pair_settings(tmp_path, steps=8), *more]
    shared = ["text.joint=true", "model.shared_embeddings=true", "model.bias=false"]
    transformer = [*pair_settings(tmp_path, steps=8, model=TRANSFORMER), *more, *shared]
    fsdp = "training.parallel=fsdp"
    run_recipe("translate", lstm, out=Path("lstm-one"))
    run_recipe("translate", transformer, out=Path("transformer-one"))
    with pytest.raises(Interrupted):
        run_recipe(
            "translate", transformer, out=Path("transformer-one-then-two"), report=Listener(stop_at_evaluation=4)
        )
    runs = [
        (lstm, "lstm-two", False),
        ([*lstm, fsdp], "lstm-two-sharded", False),
        (transformer, "transformer-two", False),
        ([*transformer, fsdp], "transformer-two-sharded", False),
        ([fsdp], "transformer-one-then-two", True),
    ]
    train_together(2, tmp_path, runs, "translate")
    for _, name, _ in runs:
        alone, together = Path(f"{name.partition('-')[0]}-one"), Path(name)
        assert scores_of(together) == pytest.approx(scores_of(alone), rel=1e-6, abs=1e-6), name
        assert losses_of(together) == pytest.approx(losses_of(alone), rel=1e-6), name
        assert [without_statistics(record) for record in records(together)] == [
            without_statistics(record) for record in records(alone)
        ], name
        expected = read_weights(alone / "model.safetensors")
        for key, value in read_weights(together / "model.safetensors").items():
            torch.testing.assert_close(value, expected[key], rtol=1e-5, atol=1e-6, msg=f"{name} {key}")


@pytest.mark.parametrize("model", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
def test_a_run_resumes_bit_for_bit(tmp_path: Path, model: list[str]) -> None:
    settings = [*pair_settings(tmp_path, steps=9, model=model), "model.dropout=0.2", "training.batch_tokens=100"]
    run_recipe("translate", settings, out=Path("straight"))
    with pytest.raises(Interrupted, match="stopped at step 6 of 9; saved in stopped"):
        run_recipe("translate", settings, out=Path("stopped"), report=Listener(stop_at_step=6))
    run_recipe("translate", [], out=Path("stopped"), resume=True)
    assert_same_run(Path("straight"), Path("stopped"))
    assert Path("straight/predictions.jsonl").read_text() == Path("stopped/predictions.jsonl").read_text()


@pytest.mark.parametrize("step", [4, 8])
def test_a_run_stopped_during_an_evaluation_is_evaluated_on_resuming(tmp_path: Path, step: int) -> None:
    settings = [*pair_settings(tmp_path, steps=8), "training.evaluate_batch=1"]
    run_recipe("translate", settings, out=Path("straight"))
    with pytest.raises(Interrupted):
        run_recipe("translate", settings, out=Path("stopped"), report=Listener(stop_at_evaluation=step))
    assert not any(record["step"] == step and "valid.loss" in record for record in read_metrics(Path("stopped")))
    run_recipe("translate", [], out=Path("stopped"), resume=True)
    assert_same_run(Path("straight"), Path("stopped"))


def test_a_signal_ends_the_final_evaluation(tmp_path: Path) -> None:
    class AtTheEnd(Silence):
        def evaluated(self, step, score, is_best) -> None:
            if step == 8:
                signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted, match="stopped at step 8 of 8; saved in run"):
        run_recipe("translate", pair_settings(tmp_path, steps=8), out=Path("run"), report=AtTheEnd())
    assert run_recipe("translate", [], out=Path("run"), resume=True).step == 8


def test_changed_examples_are_rejected_but_moved_ones_are_not(tmp_path: Path) -> None:
    run_recipe("translate", pair_settings(tmp_path, steps=4), out=Path("run"))
    pairs = tmp_path / "pairs.tsv"
    before = pairs.read_text()
    pairs.write_text("\n\n" + before)
    run_recipe("translate", ["training.steps=5"], out=Path("run"), resume=True)
    pairs.write_text(before.replace("a", "b"))
    message = (
        r"the training examples changed since it was written \(then [\d,]+, \w+; now [\d,]+, \w+\); restore the"
        r" earlier training examples"
    )
    with pytest.raises(UserError, match=message):
        run_recipe("translate", ["training.steps=6"], out=Path("run"), resume=True)


def test_workers_do_not_change_a_run(tmp_path: Path) -> None:
    for workers in (0, 2):
        run_recipe(
            "translate",
            [*pair_settings(tmp_path, steps=8), f"training.workers={workers}"],
            out=Path(f"workers-{workers}"),
        )
    assert_same_run(Path("workers-0"), Path("workers-2"))


def rows_in_batches(settings: list[str]) -> list[tuple[int, int]]:
    """The number of rows and of positions in every batch of an epoch."""
    problem = prepare_problem(config_of("translate", settings))
    batches = [problem.batches.get(0, number) for number in range(problem.batches.per_epoch(0))]
    return [(len(batch.source), batch.source.numel() + batch.tokens.numel()) for batch in batches]


def test_batch_size_limits_examples_and_batch_tokens_limits_tokens(tmp_path: Path) -> None:
    settings = pair_settings(tmp_path)
    by_size = rows_in_batches([*settings, "training.batch_size=8"])
    by_tokens = rows_in_batches([*settings, "training.batch_tokens=100"])
    assert sum(rows for rows, _ in by_size) == sum(rows for rows, _ in by_tokens) == 54
    assert [rows for rows, _ in by_size] == [8] * 6 + [6]
    assert all(positions <= 100 for _, positions in by_tokens) and len({rows for rows, _ in by_tokens}) > 1


def test_epochs_have_every_example_once_in_different_orders(tmp_path: Path) -> None:
    problem = prepare_problem(config_of("translate", pair_settings(tmp_path)))
    epochs = []
    for epoch in (0, 1):
        batches = [problem.batches.get(epoch, number) for number in range(problem.batches.per_epoch(epoch))]
        epochs.append([tuple(row[row > 0].tolist()) for batch in batches for row in batch.targets])
    assert epochs[0] != epochs[1] and sorted(epochs[0]) == sorted(epochs[1])


def test_too_long_examples_are_skipped_and_counted(tmp_path: Path) -> None:
    """Examples have up to six words and an end token, so those with six words have seven tokens."""
    config = config_of("translate", [*pair_settings(tmp_path), "task.longest=6"])
    problem = prepare_problem(config)
    longer = sum(len(line.split("\t")[0].split()) == 6 for line in (tmp_path / "pairs.tsv").read_text().splitlines())
    num_kept = sum(len(problem.batches.get(0, number).source) for number in range(problem.batches.per_epoch(0)))
    [note] = problem.notes
    left_out = int(note.split()[2])
    assert note.startswith(
        f"left out {counted(left_out, 'training example')} of more than 6 tokens on a side (first:"
        f" {tmp_path}/pairs.tsv:"
    )
    assert 0 < left_out <= longer and num_kept == 54 - left_out


def test_data_without_short_enough_examples_are_rejected(tmp_path: Path) -> None:
    message = "all 54 training examples have more than 1 tokens on a side, the end included; raise task.longest"
    with pytest.raises(UserError, match=message):
        prepare_problem(config_of("translate", [*pair_settings(tmp_path), "task.longest=1"]))
    learnt = [
        *pair_settings(tmp_path, model=TRANSFORMER),
        "model.position=learned",
        "model.max_length=1",
        f"data.valid={tmp_path / 'v.tsv'}",
    ]
    (tmp_path / "v.tsv").write_text("a\tb\n")
    with pytest.raises(UserError, match="v.tsv:1: the source has 2 tokens, but the model has only 1 positions"):
        prepare_problem(config_of("translate", learnt))


def test_a_too_long_validation_example_is_rejected_with_its_line(tmp_path: Path) -> None:
    valid = tmp_path / "valid.tsv"
    valid.write_text("a b\tb a\na b c d e f g h\th g\n")
    settings = [
        *pair_settings(tmp_path, model=TRANSFORMER),
        f"data.valid={valid}",
        "model.position=learned",
        "model.max_length=8",
    ]
    message = (
        "valid.tsv:2: the source has 9 tokens, but the model has only 8 positions; shorten it, or train with a"
        " larger model.max"
    )
    with pytest.raises(UserError, match=message):
        prepare_problem(config_of("translate", settings))
    prepare_problem(config_of("translate", [*settings, "model.max_length=9"]))


def test_streams_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match="training.batching=streams carries a state through one text, but this task learns from examples",
    ):
        prepare_problem(config_of("translate", [*pair_settings(tmp_path), "training.batching=streams"]))


@pytest.mark.parametrize("method", ["beam", "sample"])
def test_a_score_does_not_depend_on_how_examples_are_batched(tmp_path: Path, method: str) -> None:
    config = config_of("translate", [*pair_settings(tmp_path, model=TRANSFORMER), f"decoding.method={method}"])
    problem = prepare_problem(config)
    task = problem.task.double()
    learning = TASKS[config.task.name].learns
    pairs = learning.read(config.data, config.seed, Notes())["valid"]
    scores = []
    for tokens in (1, 15, 2500):
        training = config.training.model_copy(update={"batch_tokens": tokens})
        scores.append(
            learning.judge(
                task, task, pairs, task.encode(pairs), Evaluation(training, config.decoding, config.seed, is_final=True)
            )
        )
    for score in scores[1:]:
        assert score.measures == pytest.approx(scores[0].measures, rel=1e-9)
        assert score.examples == scores[0].examples
        assert score.predictions == scores[0].predictions
    assert list(scores[0].examples) == [pair.id for pair in pairs]
    assert task.training


def test_the_last_evaluation_uses_the_decoding_settings_and_writes_predictions(tmp_path: Path) -> None:
    result = run_recipe("translate", pair_settings(tmp_path, steps=4), out=Path("run"))
    assert "BLEU" in result.valid.text and "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in result.valid.text
    lines = [json.loads(line) for line in Path("run/predictions.jsonl").read_text().splitlines()]
    assert len(lines) == 6 and all(line["id"].startswith(f"{tmp_path}/pairs.tsv:") for line in lines)


def test_the_best_evaluation_is_chosen_by_the_configured_measure(tmp_path: Path) -> None:
    for best in ("loss", "chrf"):
        result = run_recipe(
            "translate",
            [*pair_settings(tmp_path, steps=12), "training.evaluate_every=2", f"task.best={best}"],
            out=Path(best),
        )
        values = {r["step"]: r[f"valid.{best}"] for r in read_metrics(Path(best)) if f"valid.{best}" in r}
        assert values[result.best_step] == (min if best == "loss" else max)(values.values())


def test_evaluation_uses_larger_batches_than_training() -> None:
    assert evaluation_budget(config_of("translate", ["training.batch_tokens=500"]).training) == 4 * 500
    assert evaluation_budget(config_of("copy", ["training.batch_size=8"]).training) == 4 * 8 * 64
    assert evaluation_budget(config_of("copy", ["training.evaluate_batch=3"]).training) == 4 * 3 * 64
