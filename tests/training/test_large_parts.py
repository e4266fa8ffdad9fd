"""Training on parts on disk gives bit-identical runs, and a second start reads and encodes nothing again."""

from pathlib import Path

import numpy as np
import pytest

from clew.baselines.baseline import Baselines
from clew.data.caching import parts as parts_of_data
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.tasks.learnings.encoded_parts import LENGTHS
from clew.tasks.learnings.examples import lengths_of
from clew.tasks.shared.sequence import SequenceToSequence
from clew.training.problems import prepare_problem
from clew.training.signals import Interrupted
from tests.training.pairs import LSTM, pair_settings
from tests.training.test_run import Listener, assert_same_run

IN_MEMORY = 2**24
CLASSIFIER = [
    "model.dim=8",
    "text.min_count=1",
    "data.text=text",
    "data.label=label",
    "device=cpu",
    "training.batch_size=8",
]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    on_disk(monkeypatch)


def on_disk(monkeypatch: pytest.MonkeyPatch, large: int = 2**9) -> None:
    monkeypatch.setattr(parts_of_data, "LARGE", large)


def settings(folder: Path, steps: int = 9) -> list[str]:
    return [*pair_settings(folder, steps=steps, model=LSTM), "model.dropout=0.2", "training.batch_tokens=100"]


def test_a_run_on_disk_equals_the_run_in_memory_and_resumes_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_recipe("translate", settings(tmp_path), out=Path("disk"))
    assert list((tmp_path / "cache").glob("*/train.lengths"))
    with pytest.raises(Interrupted):
        run_recipe("translate", settings(tmp_path), out=Path("stopped"), report=Listener(stop_at_step=6))
    on_disk(monkeypatch, IN_MEMORY)
    run_recipe("translate", settings(tmp_path), out=Path("memory"))
    run_recipe("translate", [], out=Path("stopped"), resume=True)  # started on disk, resumed in memory
    for other in ("memory", "stopped"):
        assert_same_run(Path("disk"), Path(other))
        assert Path("disk/predictions.jsonl").read_text() == Path(f"{other}/predictions.jsonl").read_text()


def test_a_second_start_encodes_nothing_and_gives_the_same_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of("translate", settings(tmp_path))
    first = prepare_problem(config)
    calls: list[int] = []
    encode = SequenceToSequence.encode
    monkeypatch.setattr(
        SequenceToSequence, "encode", lambda task, pairs: calls.append(len(pairs)) or encode(task, pairs)
    )
    second = prepare_problem(config)
    assert all(count <= 8 for count in calls), (
        "the first examples alone are encoded again, to see whether they still agree"
    )
    assert (second.about, second.identity, second.notes) == (first.about, first.identity, first.notes)
    assert [vocabulary.hash for vocabulary in second.vocabularies.values()] == [
        each.hash for each in first.vocabularies.values()
    ]


def test_a_task_with_another_encoding_ignores_cached_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of("translate", settings(tmp_path))
    before = prepare_problem(config).batches.get(0, 0)
    encode = SequenceToSequence.encode
    monkeypatch.setattr(
        SequenceToSequence,
        "encode",
        lambda task, pairs: [sides._replace(source=sides.source[-1:]) for sides in encode(task, pairs)],
    )
    after = prepare_problem(config).batches.get(0, 0)
    assert before.source.shape[1] > after.source.shape[1] == 1


@pytest.mark.parametrize("change", ["task.longest=100", "text.size=20"])
def test_other_encoding_settings_have_their_own_cached_ids(tmp_path: Path, change: str) -> None:
    def cached_files() -> set[Path]:
        return set((tmp_path / "cache").glob("*/train.lengths"))

    assignments = [setting for setting in settings(tmp_path) if not setting.startswith(("text.size", "text.joint"))]
    prepare_problem(config_of("translate", assignments))
    first = cached_files()
    prepare_problem(config_of("translate", [*assignments, "training.learning_rate=0.1", "model.dim=8"]))
    assert cached_files() == first
    prepare_problem(config_of("translate", [*assignments, change]))
    assert len(cached_files()) == 2


def write_texts(path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in [header, *rows]), encoding="utf-8")


def test_labelled_texts_on_disk_balance_classes_and_report_unseen_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(f"word{number % 9} a text {number}", "good" if number % 3 else "bad") for number in range(60)]
    write_texts(tmp_path / "train.tsv", rows, ("text", "label"))
    write_texts(tmp_path / "valid.tsv", [*rows[:20], ("a text", "odd")], ("text", "label"))
    assignments = ["data.train=train.tsv", "data.valid=valid.tsv", "task.class_weights=balanced", *CLASSIFIER]
    problems = [prepare_problem(config_of("classify", assignments)) for _ in range(2)]
    on_disk(monkeypatch, IN_MEMORY)
    in_memory = prepare_problem(config_of("classify", assignments))
    assert any(
        "1 of 21 labels is not in the training part (odd; first: valid.tsv:22)" in note.replace("'", "")
        for note in in_memory.notes
    )
    for problem in problems:
        assert problem.notes == in_memory.notes
        assert problem.task.answer.class_weights.tolist() == in_memory.task.answer.class_weights.tolist()


def test_baselines_of_a_large_part_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"word{number % 9} a text {number}", "good" if number % 3 else "bad") for number in range(60)]
    write_texts(tmp_path / "train.tsv", rows, ("text", "label"))
    write_texts(tmp_path / "valid.tsv", rows[:20], ("text", "label"))
    assignments = [
        "data.train=train.tsv",
        "data.valid=valid.tsv",
        "training.steps=2",
        "training.evaluate_every=2",
        *CLASSIFIER,
    ]
    measure_all = Baselines.measure_all
    parts: list[object] = []
    monkeypatch.setattr(
        Baselines,
        "measure_all",
        lambda self, part, interrupted: parts.append(part) or measure_all(self, part, interrupted),
    )
    first, second = (run_recipe("classify", assignments, out=Path(name)).valid for name in ("first", "second"))
    assert len(parts) == 1
    assert second.measures == first.measures and "baseline_naive_bayes" in first.measures
    (tmp_path / "train.tsv").write_text(
        (tmp_path / "train.tsv").read_text(encoding="utf-8").replace("good", "fine"), encoding="utf-8"
    )
    run_recipe("classify", assignments, out=Path("other"))
    assert len(parts) == 2


def test_lengths_are_cached_with_the_ids(tmp_path: Path) -> None:
    problem = prepare_problem(config_of("translate", settings(tmp_path)))
    (path,) = (tmp_path / "cache").glob("*/train.lengths")
    encoded = parts_of_data.load_parts(path.parent)[0]["train"]
    assert np.array_equal(lengths_of(problem.task, encoded), lengths_of(problem.task, list(encoded)))
    assert encoded.arrays[LENGTHS].shape == (len(encoded), 2)
