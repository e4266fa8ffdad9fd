import math
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.core.wording import on_command_line, worded
from clew.metrics.bootstrap import paired_bootstrap
from clew.metrics.welch import welch
from clew.recipes.resolving import config_of
from clew.runs.comparison import (
    cautions,
    compare_groups,
    curve,
    group_differences,
    group_runs,
    lower_is_better,
    rank_groups,
)
from clew.runs.folder.predictions import write_predictions
from clew.runs.folder.records import Summary


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_of(name: str, loss: float, *settings: str, recipe: str = "shakespeare-lstm", **more: object) -> Summary:
    config = config_of(recipe, settings)
    folder = Path("runs", name)
    folder.mkdir(parents=True)
    end = {"step": config.training.steps, "best.step": 1, "best.valid.loss": loss, "best.valid.accuracy": -loss, **more}
    return Summary(folder, config, [end])


@pytest.fixture
def cells() -> list[Summary]:
    return [
        run_of(f"{cell}-{seed}", loss + 0.01 * seed, f"model.cell={cell}", f"seed={seed}")
        for cell, loss in (("lstm", 1.56), ("gru", 1.54), ("elman", 1.71))
        for seed in (1, 2, 3)
    ]


def test_runs_that_differ_only_in_the_seed_form_one_group(cells: list[Summary]) -> None:
    groups, notes = group_runs(cells)
    assert [(group.label, len(group.runs)) for group in groups] == [
        ("cell=lstm", 3),
        ("cell=gru", 3),
        ("cell=elman", 3),
    ]
    assert notes == []
    assert groups[0].mean("valid.loss") == pytest.approx(1.58)
    assert groups[0].spread("valid.loss") == pytest.approx(0.01), "the sample's: over n - 1"


def test_the_device_and_logging_do_not_separate_groups() -> None:
    groups, _ = group_runs(
        [run_of("a", 1.0, "device=cpu"), run_of("b", 1.1, "seed=2", "training.log_every=3", "training.save_every=7")]
    )
    assert [(group.label, len(group.runs)) for group in groups] == [("shakespeare-lstm", 2)]


def test_a_second_run_of_the_same_seed_is_skipped_and_named() -> None:
    groups, notes = group_runs([run_of("a", 1.0), run_of("b", 1.1)])
    assert [group.scores("valid.loss") for group in groups] == [[1.0]]
    assert notes == ["runs/b is skipped: it has the same settings and seed as runs/a"]


def test_an_average_is_a_group_of_its_own() -> None:
    groups, _ = group_runs([run_of("a", 1.0), run_of("mean", 0.9, averaged=[{"weights": "a"}])])
    assert [group.label for group in groups] == ["shakespeare-lstm", "shakespeare-lstm averaged"]


def test_groups_of_several_recipes_are_named_by_recipe() -> None:
    runs = [
        run_of("a", 1.0),
        run_of("b", 1.1, "model.dropout=0.2"),
        run_of("c", 1.2, recipe="shakespeare-gpt"),
    ]
    assert [group.label for group in group_runs(runs)[0]] == [
        "shakespeare-lstm dropout=0.0",
        "shakespeare-lstm dropout=0.2",
        "shakespeare-gpt",
    ]


def test_fields_with_the_same_last_name_are_named_in_full() -> None:
    runs = [run_of("a", 1.0), run_of("b", 1.1, "model.init_scale=0.1", "task.init_scale=0.1")]
    assert group_runs(runs)[0][1].label == "task.init_scale=0.1 model.init_scale=0.1"


def test_the_best_group_comes_first_for_losses_and_for_scores(cells: list[Summary]) -> None:
    groups, _ = group_runs(cells)
    assert [group.label for group in rank_groups(groups, "valid.loss")] == ["cell=gru", "cell=lstm", "cell=elman"]
    assert [group.label for group in rank_groups(groups, "valid.accuracy")] == ["cell=gru", "cell=lstm", "cell=elman"]
    assert [
        lower_is_better(m)
        for m in ("valid.loss", "test.perplexity", "valid.bits_per_character", "valid.bleu", "test.accuracy")
    ] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_group_without_the_measure_comes_last(cells: list[Summary]) -> None:
    other = run_of("odd", 0.1, "model.dim=9", **{"best.test.loss": 2.0})
    groups, _ = group_runs([*cells, other])
    assert rank_groups(groups, "test.loss")[0].runs == (other,)


def test_an_unknown_test_is_rejected(cells: list[Summary]) -> None:
    groups, _ = group_runs(cells)
    with pytest.raises(UserError, match="unknown test 'boostrap'; did you mean 'bootstrap'"):
        compare_groups(groups[0], groups[1], "valid.loss", "boostrap")


def test_an_unknown_measure_is_rejected(cells: list[Summary]) -> None:
    with pytest.raises(
        UserError, match="unknown measure 'valid.los'; did you mean 'valid.loss'\\? known: valid.accuracy, valid.loss"
    ):
        rank_groups(group_runs(cells)[0], "valid.los")


def test_settings_that_differ_between_groups_are_listed_with_their_values(cells: list[Summary]) -> None:
    groups, _ = group_runs([*cells[:2], *cells[3:5], run_of("x", 2.0, "training.learning_rate=0.5")])
    assert group_differences(groups) == [
        ("model.cell", ["lstm", "gru", "lstm"]),
        ("training.learning_rate", [0.002, 0.002, 0.5]),
    ]


def test_seeds_are_compared_by_welchs_test(cells: list[Summary]) -> None:
    lstm, gru, _ = group_runs(cells)[0]
    verdict, notes = compare_groups(lstm, gru, "valid.loss")
    assert (verdict.name, verdict.over, notes) == ("Welch", "3 and 3 seeds", [])
    assert verdict.p == welch([1.57, 1.58, 1.59], [1.55, 1.56, 1.57]).p


def test_one_seed_is_not_enough_for_a_test(cells: list[Summary]) -> None:
    one, other = group_runs([cells[0], *cells[3:6]])[0]
    assert compare_groups(one, other, "valid.loss") == (("none", None, "1 and 3 seeds"), [])


def test_predictions_are_compared_by_paired_bootstrap(cells: list[Summary]) -> None:
    lstm, gru = group_runs(cells[:4])[0]
    for number, run in enumerate(lstm.runs):
        write_predictions(run.folder, {"a": number * 1.0, "b": number * 2.0, "c": 0.5})
    write_predictions(gru.runs[0].folder, {"c": 1.0, "a": 0.0, "b": 1.0})
    verdict, notes = compare_groups(lstm, gru, "valid.loss")
    assert (verdict.name, verdict.over) == ("paired bootstrap", "scores of 3 examples")
    assert notes == ["predictions.jsonl has no valid.loss of single examples, so p is of the mean of their scores"]
    assert verdict.p == paired_bootstrap([1.0, 2.0, 0.5], [0.0, 1.0, 1.0]).p, (
        "each example's mean over seeds, paired by id"
    )


def test_predictions_of_different_examples_are_not_paired(cells: list[Summary]) -> None:
    lstm, gru, elman = group_runs(cells)[0]
    for group, names in ((lstm, "ab"), (gru, "bc")):
        for run in group.runs:
            write_predictions(run.folder, dict.fromkeys(names, 1.0))
    verdict, notes = compare_groups(lstm, gru, "valid.loss")
    assert verdict.name == "Welch"
    assert notes == [
        "the predictions of cell=lstm and cell=gru are of different examples, so the groups are compared over seeds"
    ]
    assert compare_groups(lstm, elman, "valid.loss")[1] == [], "where a group has none there is nothing to say"
    write_predictions(lstm.runs[2].folder, {"a": 1.0})
    _, notes = compare_groups(lstm, gru, "valid.loss")
    assert notes == ["runs/lstm-3 and runs/lstm-1 have predictions of different examples (1 are in only one of them)"]


def test_a_malformed_predictions_file_is_named_and_ignored(cells: list[Summary]) -> None:
    lstm, gru, _ = group_runs(cells)[0]
    (lstm.runs[0].folder / "predictions.jsonl").write_text("{")
    verdict, notes = compare_groups(lstm, gru, "valid.loss")
    assert verdict.name == "Welch" and notes[0].startswith("runs/lstm-1/predictions.jsonl:1: this is not JSON")


def test_different_tokens_and_texts_give_a_caution() -> None:
    first = run_of("a", 1.0)
    groups, _ = group_runs([first, run_of("b", 4.0, "text.tokenizer=word")])
    sentence = "the groups have different tokens (text.tokenizer), so valid.loss is not comparable; use "
    assert cautions(groups, "valid.loss") == [f"{sentence}measure='valid.bits_per_character'"]
    with worded(on_command_line):
        assert cautions(groups, "valid.loss") == [f"{sentence}--measure valid.bits_per_character"]
    assert cautions(groups, "valid.bits_per_character") == []
    groups, _ = group_runs([first, run_of("c", 4.0, "data.corpus=null", "data.train=x.txt")])
    assert cautions(groups, "valid.loss") == [
        "the groups read different texts (data.corpus, data.train), so their scores are not comparable"
    ]


def test_unfinished_runs_give_a_caution() -> None:
    run = run_of("a", 1.0)
    groups, _ = group_runs([Summary(run.folder, run.config, [{"step": 30, "valid.loss": 2.0}])])
    assert cautions(groups, "valid.loss") == ["runs/a is interrupted at step 30 of 1500"]


def test_a_curve_has_the_finite_logged_values() -> None:
    run = run_of("a", 1.0)
    records = [
        {"step": 1, "train.loss": 3.0},
        {"step": 2, "train.loss": math.nan},
        {"step": 2, "valid.loss": 9.0},
        {"step": 3, "train.loss": 2},
    ]
    assert curve(Summary(run.folder, run.config, records), "train.loss") == ((1, 3), (3.0, 2))
