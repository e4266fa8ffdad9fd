"""Stored runs of every format can still be loaded, used, scored, inspected and resumed. `frozen/make.py` made them."""

import json
import os
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import clew
from clew.layers import precision as layers_precision
from clew.metrics.statistics import score
from clew.runs.evaluation import examples_of, score_part
from clew.runs.folder.run_files import FORMAT
from clew.tasks import TASKS
from tests.runs.frozen.asking import ask, command, differences, plain

FROZEN = Path(__file__).parent / "frozen"
RECORDED = sorted(path.parent for path in FROZEN.glob("format-*/*/recorded.json"))
SENTENCE = "Whoever enters the maze ties a thread to its door, and the thread brings them home.\n"
LOSSES = 1e-4
"""Relative tolerance of the losses of a resumed run: they were recorded by an earlier version on another machine."""


CODE = "language_model_code/run/code.py"
"""The user's code that one of the runs needs."""


class FrozenRun:
    """A frozen run in a copy of its format's folder, and its recorded answers. Commands name files relative to that
    folder."""

    def __init__(self, folder: Path):
        self.root, self.name = folder.parent, folder.name
        self.folder = Path(self.name) / "run"
        self.recorded = json.loads((folder / "recorded.json").read_text(encoding="utf-8"))
        self.resumed: dict[str, Any] | None = self.recorded.get("resumed")

    @property
    def code(self) -> Path | None:
        return self.folder / "code.py" if (self.folder / "code.py").exists() else None

    @cached_property
    def run(self) -> Any:
        return clew.load(self.folder, device="cpu", code=self.code)

    def resume(self, out: Path) -> None:
        """Resume a copy of the run to its end, with the command."""
        assert self.resumed is not None
        words = [self.recorded["recipe"], *self.resumed["settings"], "--out", str(out), "--resume"]
        result = command("train", *words, *([] if self.code is None else ["--code", str(self.code)]))
        assert result.status == 0, result.err


@pytest.fixture(scope="module")
def copied_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of all frozen runs; the table of cells, to which one of them adds, is restored afterwards."""
    from clew.layers.cells import CELLS

    before, threads = dict(CELLS), torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("frozen")
    for format in FROZEN.glob("format-*"):
        shutil.copytree(format, folder / format.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        yield folder
    torch.set_num_threads(threads)
    CELLS.clear()
    CELLS.update(before)


@pytest.fixture(scope="module", params=RECORDED, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def frozen_run(request: pytest.FixtureRequest, copied_runs: Path) -> Iterator[FrozenRun]:
    previous = os.getcwd()
    folder = copied_runs / request.param.relative_to(FROZEN)
    os.chdir(folder.parent)
    yield FrozenRun(folder)
    os.chdir(previous)


def assert_agree(recorded: Any, actual: Any, relative: float = 1e-3) -> None:
    assert list(differences(recorded, actual, relative=relative)) == []


def test_answers_match_the_recorded_ones(frozen_run: FrozenRun) -> None:
    assert frozen_run.run.folder == frozen_run.folder
    for each in frozen_run.recorded["python"]:
        assert_agree(each["answer"], ask(frozen_run.run, each["method"], each["arguments"], each["options"]))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])
def test_every_precision_gives_answers(frozen_run: FrozenRun, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise most matrices of these small runs would stay float.
    monkeypatch.setattr(layers_precision, "LEAST_SIDE", 1)
    run = clew.load(frozen_run.folder, device="cpu", code=frozen_run.code, precision=precision)
    for each in frozen_run.recorded["python"]:
        assert type(ask(run, each["method"], each["arguments"], each["options"])) is type(each["answer"])


@pytest.mark.slow
def test_commands_print_the_recorded_output(frozen_run: FrozenRun) -> None:
    for each in frozen_run.recorded["commands"]:
        assert_agree(each["objects"], command(*each["arguments"]).objects)


def test_measures_can_be_computed_from_statistics_of_examples(frozen_run: FrozenRun) -> None:
    """Every measure of an evaluation follows from the statistics that predictions store for each example."""
    entry = TASKS[frozen_run.run.config.task.name]
    if entry.learning is None or not entry.learning.has_examples:
        pytest.skip("learns from no examples")
    for part, examples in examples_of(frozen_run.run.folder, frozen_run.run.config, [], []).items():
        evaluation = score_part(frozen_run.run, frozen_run.run.config, part, examples)
        each = [json.loads(json.dumps(evaluation.statistics[example.id])) for example in examples]
        assert "loss" in evaluation.measures
        for name, value in evaluation.measures.items():
            stored_name = "loss" if name == "perplexity" else name
            (formula,) = each[0][stored_name]
            computed = score(
                "perplexity" if name == "perplexity" else formula,
                [statistics[stored_name][formula] for statistics in each],
            )
            assert computed == pytest.approx(value, rel=1e-5, abs=1e-6), name


@pytest.mark.slow
def test_instruments_report_the_recorded_facts(frozen_run: FrozenRun) -> None:
    for each in frozen_run.recorded["looks"]:
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in each["options"].items()}
        actual = plain(clew.look(frozen_run.run, each["instrument"], **options).facts)
        assert_agree({each["instrument"]: comparable(each["facts"])}, {each["instrument"]: comparable(actual)})


MEMORY = ("memory", "power_of_memory")
RENAMED = {"told": "coefficients"}
"""Names of facts that have changed since they were recorded."""


def comparable(facts: Any) -> Any:
    """Facts by their present names, without numbers of bytes, which depend on this version's code, not on the frozen
    run."""
    if isinstance(facts, dict):
        return {RENAMED.get(name, name): comparable(value) for name, value in facts.items() if name not in MEMORY}
    return [comparable(value) for value in facts] if isinstance(facts, list) else facts


@pytest.mark.slow
def test_an_interrupted_run_resumes(frozen_run: FrozenRun) -> None:
    """The losses match those of the uninterrupted run, recorded by an earlier version. The command and Python give
    bit-identical weights."""
    if frozen_run.resumed is None:
        pytest.skip("it was not trained: it has no checkpoint")
    once, twice = frozen_run.folder.with_name("once"), frozen_run.folder.with_name("twice")
    for out in (once, twice):
        shutil.copytree(frozen_run.folder, out)
    frozen_run.resume(once)
    clew.train(
        frozen_run.recorded["recipe"],
        *frozen_run.resumed["settings"],
        out=twice,
        resume=True,
        code=frozen_run.code,
        quiet=True,
    )
    before, after = (records(folder) for folder in (frozen_run.folder, once))
    format_1 = frozen_run.resumed["from"]
    assert [each for each in after if each["step"] <= format_1] == [each for each in before if "best.step" not in each]
    one, other = weights_in(once), weights_in(twice)
    assert one.keys() == other.keys()
    assert [name for name, tensor in one.items() if not torch.equal(tensor, other[name])] == []
    if frozen_run.resumed["draws"] not in (None, dropout_mask()):
        pytest.skip("torch draws other masks of dropout here")
    expected, actual = (
        frozen_run.resumed["metrics"],
        [each for each in after if each["step"] > format_1 or "best.step" in each],
    )
    assert [each["step"] for each in actual] == [each["step"] for each in expected]
    for then, now in zip(expected, actual, strict=True):
        for name, value in then.items():
            if name.endswith("calibration_error"):
                # Earlier versions used every fitted temperature. Now a temperature that raises the error on the
                # validation part is not used.
                assert now[name] <= value * (1 + 1e-3), (then["step"], name)
                continue
            assert now[name] == pytest.approx(value, rel=LOSSES if name.endswith("loss") else 1e-3, abs=1e-6), (
                then["step"],
                name,
            )


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def weights_in(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a run and its checkpoints: weights, averages, optimiser state and carried states."""
    files = {path.relative_to(folder): load_file(path) for path in folder.rglob("*.safetensors")}
    return {f"{path} {name}": tensor for path, tensors in files.items() for name, tensor in tensors.items()}


def dropout_mask() -> list[int]:
    """The mask that dropout draws from a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return [int(each) for each in torch.nn.functional.dropout(torch.ones(32), 0.5) > 0]


@pytest.fixture
def format_1(copied_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the runs of format 1, as the working directory."""
    monkeypatch.chdir(copied_runs / "format-1")
    return copied_runs / "format-1"


def test_an_early_run_of_format_1_repeats_its_training_text(format_1: Path) -> None:
    """Its config lacks many later fields, and has no hashes."""
    run = clew.load("early", device="cpu")
    assert str(run.generate("Who", method="greedy", max_new=len(SENTENCE) - 3)) == SENTENCE
    assert str(run.generate("Who", method="beam", max_new=len(SENTENCE) - 3)) == SENTENCE
    assert run.score(SENTENCE).likelihood.loss < 0.5


def test_frozen_runs_are_listed_with_their_state(format_1: Path) -> None:
    listed = {each["folder"]: each for each in command("runs", ".", "--json", "--code", CODE).objects}
    assert all("fault" not in each for each in listed.values())
    for folder in RECORDED:
        if folder.parent.name != format_1.name:
            continue
        recorded = json.loads((folder / "recorded.json").read_text(encoding="utf-8"))
        assert_agree(recorded["listed"], listed[f"{folder.name}/run"])


def test_a_merged_frozen_adapter_gives_the_recorded_answer(format_1: Path) -> None:
    merged = command("merge", "classification_adapter/run", "--out", "merged")
    assert merged.status == 0, merged.err
    recorded = json.loads(Path("classification_adapter/recorded.json").read_text(encoding="utf-8"))["python"][0]
    assert_agree(recorded["answer"], ask(clew.load("merged", device="cpu"), "classify", recorded["arguments"], {}))


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        (
            "finetune-text",
            ["transfer.from=language_model/run", "data.train=language_model/story.txt", "training.length=16"],
        ),
        (
            "finetune-classify",
            ["transfer.from=masked_language_model/run", "data.train=classification_adapter/opinions.tsv"],
        ),
        ("finetune-classify", ["transfer.from=representation/run", "data.train=classification_adapter/opinions.tsv"]),
        (
            "finetune-translate",
            [
                "transfer.from=translation/run",
                "data.train=translation/pairs.csv",
                "data.source=german",
                "data.target=english",
            ],
        ),
        (
            "tag",
            [
                "embedding.from=bidirectional_language_model/run",
                "model.dim=8",
                "data.train=tagging_context/sentences.conllu",
                "data.tags=upos",
            ],
        ),
    ],
    ids=["a text", "a classifier", "an encoder's classifier", "a translator", "a tagger"],
)
def test_a_new_run_can_start_from_a_frozen_one(
    format_1: Path, tmp_path: Path, recipe: str, settings: list[str]
) -> None:
    steps = ["training.steps=2", "training.evaluate_every=2", "training.schedule=constant", "device=cpu"]
    result = command("train", recipe, *settings, *steps, "--out", str(tmp_path / "run"))
    assert result.status == 0, result.err
    assert load_file(tmp_path / "run" / "model.safetensors")
    assert records(tmp_path / "run")[-1]["best.step"] == 2


@pytest.mark.parametrize(
    ("recorded", "actual"),
    [
        ({"loss": 0.5, "tags": ["DET"]}, {"loss": 0.501, "tags": ["DET"]}),
        ({"tags": ["DET", "NOUN"]}, {"tags": ["DET"]}),
        ({"tags": ["DET"]}, {"tags": ["ADJ"]}),
        ({"tokens": 1000}, {"tokens": 1001}),
        ({"answer": None}, {"answer": 0.0}),
        ({"text": "loss 0.50 of 12"}, {"text": "loss 0.52 of 12"}),
        ({"text": "12 tokens"}, {"text": "13 tokens"}),
        ({"loss": 0.5}, {}),
    ],
)
def test_a_changed_answer_is_detected(recorded: Any, actual: Any) -> None:
    assert list(differences(recorded, actual)) != []
    assert list(differences(recorded, {**recorded, "more": 1})) == []


def test_the_last_digit_of_an_answer_may_differ() -> None:
    assert list(differences([0.5, "loss 0.50 of 12", 0.0], [0.50004, "loss 0.51 of 12", 1e-6])) == []


def test_the_current_format_has_frozen_runs() -> None:
    assert any(folder.parent.name == f"format-{FORMAT}" for folder in RECORDED)


def test_every_task_has_a_frozen_run() -> None:
    tasks = {
        json.loads((folder / "run" / "config.json").read_text(encoding="utf-8"))["task"]["name"] for folder in RECORDED
    }
    assert tasks == set(TASKS)
