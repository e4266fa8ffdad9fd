import json
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.core.files import file_hash
from clew.recipes.running import run_recipe
from clew.runs.directory import keep_code, read_config, read_weights, write_weights
from clew.runs.folder.run_files import read_metrics
from clew.runs.loaded import load_run
from clew.training.checkpoint_average import Source, average_runs, average_weights, choose_sources, intact_checkpoints
from clew.training.checkpoints import checkpoint_folders
from tests.runs.small import lstm_settings, write_text


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def train(name: str, *settings: str, steps: int = 8) -> Path:
    """Train a run with checkpoints at steps 4 and 8."""
    run_recipe("text-lstm", [*lstm_settings(Path(".").resolve(), steps=steps), *settings], out=Path(name))
    return Path(name)


def test_the_average_of_checkpoints_is_their_mean() -> None:
    run = train("run")
    averaged = average_runs([run], Path("mean"), device="cpu")
    newest, older = (read_weights(folder / "model.safetensors") for folder in checkpoint_folders(run))
    average = read_weights(Path("mean/model.safetensors"))
    assert average.keys() == newest.keys()
    for name, value in average.items():
        assert value.dtype == newest[name].dtype
        torch.testing.assert_close(value, (newest[name] + older[name]) / 2)
    assert [source.step for source in averaged.sources] == [8, 4]


def test_an_average_is_a_run_that_records_its_sources() -> None:
    run = train("run")
    averaged = average_runs([run], Path("mean"), device="cpu")
    assert load_run("mean", device="cpu").generate("the", max_new=5).text
    assert read_config(Path("mean")) == read_config(run)
    assert {path.name for path in Path("mean").iterdir()} == {
        "config.json",
        "model.safetensors",
        "vocabulary",
        "environment.json",
        "metrics.jsonl",
    }
    (record,) = read_metrics(Path("mean"))
    assert record["averaged"] == [
        {"weights": str(folder), "step": step, "sha256": file_hash(folder / "manifest.json")}
        for folder, step in zip(checkpoint_folders(run), (8, 4), strict=True)
    ]
    assert record["best.valid.loss"] == averaged.loss.loss and record["step"] == 8


def test_sources_and_average_are_scored() -> None:
    run = train("run")
    averaged = average_runs([run], Path("mean"), device="cpu")
    logged = {record["step"]: record["valid.loss"] for record in read_metrics(run) if "valid.loss" in record}
    assert [likelihood.loss for likelihood in averaged.losses] == pytest.approx([logged[8], logged[4]], rel=1e-6)
    assert averaged.loss.loss not in logged.values() and averaged.loss.loss < 4


def test_several_runs_are_averaged_by_their_best_weights() -> None:
    runs = [train(f"run-{seed}", f"seed={seed}", steps=4) for seed in (1, 2, 3)]
    averaged = average_runs(runs, Path("mean"), device="cpu")
    weights = [read_weights(run / "model.safetensors") for run in runs]
    for name, value in read_weights(Path("mean/model.safetensors")).items():
        torch.testing.assert_close(value, sum(each[name] for each in weights) / 3)
    assert [source.name for source in averaged.sources] == ["run-1", "run-2", "run-3"]


def test_the_average_of_identical_runs_is_the_same_run() -> None:
    run = train("run", steps=4)
    again = Path("again")
    run.rename(again)
    train("run", steps=4)
    average_runs([Path("run"), again], Path("mean"), device="cpu")
    expected, actual = read_weights(Path("run/model.safetensors")), read_weights(Path("mean/model.safetensors"))
    assert all(torch.equal(value, actual[name]) for name, value in expected.items())


def test_checkpoints_are_chosen_by_count_by_step_or_with_the_best() -> None:
    run = train("run")
    steps = lambda **options: [source.step for source in choose_sources(run, **options)]  # noqa: E731
    assert steps(last=1) == [8]
    assert steps(last=2) == [8, 4]
    assert steps(steps=[4]) == [4]
    assert steps(steps=[4, 8, 4]) == [8, 4]
    best = choose_sources(run, best=True)
    assert [(source.path.name, source.name) for source in best] == [("model.safetensors", "run")]
    assert steps(last=2, best=True) == [8, 4], "the best weights are those of step 8, which counts once"
    other = 4 if best[0].step == 8 else 8
    assert steps(steps=[other], best=True) == [other, best[0].step]


def test_a_damaged_checkpoint_is_named_and_skipped() -> None:
    run = train("run")
    path = checkpoint_folders(run)[0]
    (path / "model.safetensors").write_bytes(b"x")
    notes: list[str] = []
    assert list(intact_checkpoints(run, notes.append)) == [4]
    assert notes == [f"{path} is damaged (model.safetensors has changed since it was written) and is skipped"]
    with pytest.raises(UserError, match="run has 1 intact checkpoint, not 2; their steps are: 4"):
        choose_sources(run, last=2)


def test_whole_numbers_are_copied_and_small_types_summed_in_float32() -> None:
    for name, value in (("a", 1.0), ("b", 2.0)):
        write_weights(
            Path(f"{name}.safetensors"),
            {"x": torch.full((2,), value, dtype=torch.bfloat16), "count": torch.tensor(int(value))},
        )
    sources = [Source(Path(name), Path(f"{name}.safetensors"), 1) for name in ("a", "b")]
    average = average_weights(sources)
    assert torch.equal(average["x"], torch.full((2,), 1.5, dtype=torch.bfloat16)) and average["count"] == 1


@pytest.mark.parametrize(
    ("tensors", "shapes"),
    [({"x": (3, 2)}, "x is (2, 2) in a and (3, 2) in b"), ({"y": (2, 2)}, "x is (2, 2) in a and missing in b")],
)
def test_weights_of_different_shapes_are_rejected(tensors: dict[str, tuple[int, ...]], shapes: str) -> None:
    write_weights(Path("a.safetensors"), {"x": torch.zeros(2, 2)})
    write_weights(Path("b.safetensors"), {name: torch.zeros(shape) for name, shape in tensors.items()})
    with pytest.raises(UserError) as error:
        average_weights([Source(Path(name), Path(f"{name}.safetensors"), 1) for name in ("a", "b")])
    assert str(error.value) == f"only weights of one model can be averaged, but {shapes}"


def test_runs_of_different_models_are_rejected_with_the_difference() -> None:
    first, second = (
        train("a", steps=1),
        train("b", "model.cell=gru", "model.dim=12", "training.learning_rate=0.5", steps=1),
    )
    with pytest.raises(UserError) as error:
        average_runs([first, second], Path("mean"))
    assert (
        str(error.value)
        == "only runs of one model can be averaged, but b differs from a in model.cell: 'lstm' -> 'gru'; model.dim: 16"
        " -> 12"
    )
    assert not Path("mean").exists()


def test_runs_with_different_vocabularies_are_rejected() -> None:
    first = train("a", steps=1)
    write_text(Path("."), "other letters: QXZ, and many of them. " * 20, "other.txt")
    second = train("b", "data.train=other.txt", steps=1)
    with pytest.raises(
        UserError, match="only runs with the same vocabulary can be averaged, but b was trained with another one than a"
    ):
        average_runs([first, second], Path("mean"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"last": 5}, "run has 2 intact checkpoints, not 5; their steps are: 4, 8"),
        ({"steps": [3]}, "run has no intact checkpoint of step 3; it has checkpoints of the steps: 4, 8"),
        (
            {"last": 1},
            (
                "an average needs at least two sets of weights, and there is 1; name more checkpoints or runs, or add"
                " best=True"
            ),
        ),
    ],
)
def test_missing_checkpoints_are_rejected(options: dict, sentence: str) -> None:
    run = train("run")
    with pytest.raises(UserError) as error:
        average_runs([run], Path("mean"), **options)
    assert str(error.value) == sentence
    assert not Path("mean").exists()


def test_a_run_without_checkpoints_cannot_be_averaged() -> None:
    average_runs([train("run")], Path("mean"), device="cpu")
    with pytest.raises(UserError, match="an average needs at least two sets of weights, and there are none;"):
        average_runs([Path("mean")], Path("again"))


def test_unsuitable_folders_are_rejected() -> None:
    run = train("run")
    Path("full").mkdir()
    Path("full/letter.txt").write_text("dear reader")
    with pytest.raises(UserError, match="full exists and is not an empty folder; choose another with out=..."):
        average_runs([run], Path("full"))
    with pytest.raises(UserError, match="run is a run already; choose another folder with out=..."):
        average_runs([run], run)
    with pytest.raises(UserError, match="nothing is not a run directory"):
        average_runs([Path("nothing")], Path("mean"))
    with pytest.raises(
        UserError, match=r"cannot write the average to story.txt/mean: .*; choose another folder with out=..."
    ):
        average_runs([run], Path("story.txt/mean"), device="cpu")


def test_a_run_without_its_text_is_averaged_without_evaluation() -> None:
    run = train("run")
    Path("story.txt").unlink()
    notes: list[str] = []
    averaged = average_runs([run], Path("mean"), device="cpu", say=notes.append)
    assert (averaged.losses, averaged.loss) == (None, None)
    assert len(notes) == 1 and notes[0].startswith("not evaluated: no such file: ")
    assert load_run("mean", device="cpu").score("the ball").log_probs


def test_user_code_is_copied_to_the_average() -> None:
    run, code = train("run"), Path("mine.py")
    code.write_text("x = 1\n")
    keep_code(run, code)
    with pytest.raises(UserError, match="run was trained with a user's code, which is never loaded automatically"):
        average_runs([run], Path("mean"))
    average_runs([run], Path("mean"), device="cpu", code=code)
    assert Path("mean/code.py").read_text() == "x = 1\n"


def test_the_record_of_an_average_is_plain_json() -> None:
    average_runs([train("run")], Path("mean"), device="cpu")
    assert json.loads(Path("mean/metrics.jsonl").read_text())["best.step"] == 8
