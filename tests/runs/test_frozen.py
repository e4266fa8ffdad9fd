"""Run directories of every format there has been, trained once and never written again: they load, answer, are scored,
looked into and resumed for ever. `frozen/make.py` says how they were made."""

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
KEPT = sorted(path.parent for path in FROZEN.glob("format-*/*/recorded.json"))
SENTENCE = "Whoever enters the maze ties a thread to its door, and the thread brings them home.\n"
LOSSES = 1e-4
"""How far losses of a resumed run may be, relatively, from those that the version which made it had on another
machine."""


CODE = "language_model_code/run/code.py"
"""The user's file that one of the runs needs."""


class Kept:
    """A frozen run, in a copy of its format's folder, with what was recorded of it. Commands name files from that
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
        """Goes on to the end in a copy, by the command."""
        assert self.resumed is not None
        words = [self.recorded["recipe"], *self.resumed["settings"], "--out", str(out), "--resume"]
        found = command("train", *words, *([] if self.code is None else ["--code", str(self.code)]))
        assert found.status == 0, found.err


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of all frozen runs; the table of cells, to which one of them adds, is put back in the end."""
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


@pytest.fixture(scope="module", params=KEPT, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def kept(request: pytest.FixtureRequest, place: Path) -> Iterator[Kept]:
    there = os.getcwd()
    folder = place / request.param.relative_to(FROZEN)
    os.chdir(folder.parent)
    yield Kept(folder)
    os.chdir(there)


def assert_agree(recorded: Any, found: Any, relative: float = 1e-3) -> None:
    assert list(differences(recorded, found, relative=relative)) == []


def test_it_answers_as_the_version_that_made_it_did(kept: Kept) -> None:
    assert kept.run.folder == kept.folder
    for each in kept.recorded["python"]:
        assert_agree(each["answer"], ask(kept.run, each["method"], each["arguments"], each["options"]))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])
def test_it_answers_in_every_precision(kept: Kept, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers_precision, "LEAST_SIDE", 1)  # or most matrices of these small runs would stay float
    run = clew.load(kept.folder, device="cpu", code=kept.code, precision=precision)
    for each in kept.recorded["python"]:
        assert type(ask(run, each["method"], each["arguments"], each["options"])) is type(each["answer"])


@pytest.mark.slow
def test_commands_print_what_they_printed(kept: Kept) -> None:
    for each in kept.recorded["commands"]:
        assert_agree(each["objects"], command(*each["arguments"]).objects)


def test_statistics_of_examples_give_every_measure_of_an_evaluation(kept: Kept) -> None:
    """Whatever is measured of all examples together is computed from what predictions have of each."""
    entry = TASKS[kept.run.config.task.name]
    if entry.learning is None or not entry.learning.has_examples:
        pytest.skip("learns from no examples")
    for part, examples in examples_of(kept.run.folder, kept.run.config, [], []).items():
        found = score_part(kept.run, kept.run.config, part, examples)
        each = [json.loads(json.dumps(found.statistics[example.id])) for example in examples]
        assert "loss" in found.measures
        for name, value in found.measures.items():
            of = "loss" if name == "perplexity" else name
            (formula,) = each[0][of]
            computed = score(
                "perplexity" if name == "perplexity" else formula, [statistics[of][formula] for statistics in each]
            )
            assert computed == pytest.approx(value, rel=1e-5, abs=1e-6), name


@pytest.mark.slow
def test_instruments_see_what_they_saw(kept: Kept) -> None:
    for each in kept.recorded["looks"]:
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in each["options"].items()}
        found = plain(clew.look(kept.run, each["instrument"], **options).facts)
        assert_agree({each["instrument"]: without_memory(each["facts"])}, {each["instrument"]: without_memory(found)})


def without_memory(facts: Any) -> Any:
    """Facts without bytes of memory: these depend on the code of this version, not on the frozen run."""
    if isinstance(facts, dict):
        return {
            name: without_memory(value) for name, value in facts.items() if name not in ("memory", "power_of_memory")
        }
    return [without_memory(value) for value in facts] if isinstance(facts, list) else facts


@pytest.mark.slow
def test_it_goes_on_where_it_was_interrupted(kept: Kept) -> None:
    """To the losses that the uninterrupted run of the version which made it had; and twice to the same bit, by the
    command and from Python."""
    if kept.resumed is None:
        pytest.skip("it was not trained: it has no checkpoint")
    once, twice = kept.folder.with_name("once"), kept.folder.with_name("twice")
    for out in (once, twice):
        shutil.copytree(kept.folder, out)
    kept.resume(once)
    clew.train(kept.recorded["recipe"], *kept.resumed["settings"], out=twice, resume=True, code=kept.code, quiet=True)
    before, after = (records(folder) for folder in (kept.folder, once))
    first = kept.resumed["from"]
    assert [each for each in after if each["step"] <= first] == [each for each in before if "best.step" not in each]
    one, other = weights_in(once), weights_in(twice)
    assert one.keys() == other.keys()
    assert [name for name, tensor in one.items() if not torch.equal(tensor, other[name])] == []
    if kept.resumed["draws"] not in (None, drawn()):
        pytest.skip("torch draws other masks of dropout here")
    wanted, found = kept.resumed["metrics"], [each for each in after if each["step"] > first or "best.step" in each]
    assert [each["step"] for each in found] == [each["step"] for each in wanted]
    for then, now in zip(wanted, found, strict=True):
        for name, value in then.items():
            if name.endswith("calibration_error"):
                # Those versions used every temperature that they fitted; now one that raises the error on the
                # validation part is not.
                assert now[name] <= value * (1 + 1e-3), (then["step"], name)
                continue
            assert now[name] == pytest.approx(value, rel=LOSSES if name.endswith("loss") else 1e-3, abs=1e-6), (
                then["step"],
                name,
            )


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def weights_in(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a run and its checkpoints: weights, averages, the optimiser's, carried states."""
    files = {path.relative_to(folder): load_file(path) for path in folder.rglob("*.safetensors")}
    return {f"{path} {name}": tensor for path, tensors in files.items() for name, tensor in tensors.items()}


def drawn() -> list[int]:
    """What dropout draws from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return [int(each) for each in torch.nn.functional.dropout(torch.ones(32), 0.5) > 0]


@pytest.fixture
def first(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs of format 1."""
    monkeypatch.chdir(place / "format-1")
    return place / "format-1"


def test_an_early_run_of_format_1_recites_what_it_learnt(first: Path) -> None:
    """Its config has few of the fields that later ones have, and no hashes."""
    run = clew.load("early", device="cpu")
    assert str(run.generate("Who", method="greedy", max_new=len(SENTENCE) - 3)) == SENTENCE
    assert str(run.generate("Who", method="beam", max_new=len(SENTENCE) - 3)) == SENTENCE
    assert run.score(SENTENCE).likelihood.loss < 0.5


def test_frozen_runs_are_listed_with_what_became_of_them(first: Path) -> None:
    listed = {each["folder"]: each for each in command("runs", ".", "--json", "--code", CODE).objects}
    assert all("fault" not in each for each in listed.values())
    for folder in KEPT:
        if folder.parent.name != first.name:
            continue
        recorded = json.loads((folder / "recorded.json").read_text(encoding="utf-8"))
        assert_agree(recorded["listed"], listed[f"{folder.name}/run"])


def test_a_frozen_adapter_is_merged_and_answers_the_same(first: Path) -> None:
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
def test_a_new_run_stands_on_a_frozen_one(first: Path, tmp_path: Path, recipe: str, settings: list[str]) -> None:
    steps = ["training.steps=2", "training.evaluate_every=2", "training.schedule=constant", "device=cpu"]
    found = command("train", recipe, *settings, *steps, "--out", str(tmp_path / "run"))
    assert found.status == 0, found.err
    assert load_file(tmp_path / "run" / "model.safetensors")
    assert records(tmp_path / "run")[-1]["best.step"] == 2


@pytest.mark.parametrize(
    ("recorded", "found"),
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
def test_a_changed_answer_is_told_from_the_recorded_one(recorded: Any, found: Any) -> None:
    assert list(differences(recorded, found)) != []
    assert list(differences(recorded, {**recorded, "more": 1})) == []


def test_the_last_digit_of_an_answer_may_differ() -> None:
    assert list(differences([0.5, "loss 0.50 of 12", 0.0], [0.50004, "loss 0.51 of 12", 1e-6])) == []


def test_there_are_frozen_runs_of_the_format_that_is_written() -> None:
    assert any(folder.parent.name == f"format-{FORMAT}" for folder in KEPT)


def test_every_task_has_a_frozen_run() -> None:
    tasks = {
        json.loads((folder / "run" / "config.json").read_text(encoding="utf-8"))["task"]["name"] for folder in KEPT
    }
    assert tasks == set(TASKS)
