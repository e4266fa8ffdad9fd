"""A user-defined task gets programs and a card, derived from its methods and annotations."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import yaml
from torch import Tensor

from clew.cli.main import main
from clew.cli.options.code import load_code
from clew.core.errors import UserError
from clew.interop.description import write_description
from clew.interop.options import ExportOptions
from clew.interop.signatures import Program, Sizes, Tensors
from clew.interop.task_programs import programs_of
from clew.layers.context import Pieces, first_pieces
from clew.recipes.resolving import config_of
from clew.runs.build import build_task, train_side
from clew.runs.directory import write_config, write_weights
from clew.runs.folder.run_files import CODE, WEIGHTS
from clew.runs.folder.vocabularies import save_vocabularies
from clew.runs.loaded import Run, load_run
from clew.tasks import TASKS
from clew.tasks.uses.programs import ReadingProgram, Traced
from tests.interop.test_programs import card_runs, loaded
from tests.interop.untrained import OWN, eagerly, tensors_of
from tests.runs.small import TEXT

FILE = Path(__file__).with_name("own_task.py")
SETTINGS = [*OWN, "task.name=stars", "model.dim=8", "text.tokenizer=bpe", "text.size=280", "device=cpu"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run of the user-defined task, as training would write it."""
    stars = load_code(FILE).STARS
    TASKS.pop("stars", None)
    monkeypatch.setitem(TASKS, "stars", stars)  # for the duration of the test
    config = config_of("sentiment-lstm", SETTINGS)
    vocabularies = {"tokenizer": train_side(config.text, [TEXT], [])}
    folder = tmp_path / "runs" / "stars"
    folder.mkdir(parents=True)
    save_vocabularies(folder, vocabularies)
    write_weights(folder / WEIGHTS, build_task(config, vocabularies, to_train=False).state_dict())
    write_config(folder, config)
    shutil.copy(FILE, folder / CODE)
    yield load_run(folder, device="cpu", code=FILE)


def batch_of(run: Run, texts: list[str]) -> Pieces:
    return run.task.reader.collate(run.task.reader.encode_whole(texts))


@pytest.mark.slow
@pytest.mark.parametrize("to", ["torch", "onnx"])
def test_a_user_defined_task_is_exported_and_its_card_runs(to: str, run: Run, tmp_path: Path) -> None:
    assert main(["export", str(run.folder), "--to", to, "--out", str(tmp_path / "out"), "--code", str(FILE)]) == 0
    description = json.loads((tmp_path / "out" / "export.json").read_text(encoding="utf-8"))
    assert {name: len(program["outputs"]) for name, program in description["programs"].items()} == {
        "logits": 1,
        "levels": 2,
    }
    assert [port["name"] for port in description["programs"]["logits"]["inputs"]] == ["tokens", "mask"]
    pieces = batch_of(run, ["she went in", "a red fox in the walls"])
    with torch.no_grad():
        expected = run.task.logits(batch(pieces))
    torch.testing.assert_close(
        loaded(tmp_path / "out", to)("logits", tensors_of(pieces))["logits"], expected, rtol=1e-5, atol=1e-5
    )
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    matter = yaml.safe_load(card.split("---\n")[1])
    assert matter["pipeline_tag"] == "text-classification" and matter["tags"] == ["clew", "stars", "recurrent"]
    card_runs(tmp_path / "out")


def batch(pieces: Pieces) -> Any:
    return type("Batch", (), {"text": pieces})()


class Words(NamedTuple):
    pieces: Pieces
    tags: Tensor


def with_logits(run: Run, monkeypatch: pytest.MonkeyPatch, logits: Any) -> Run:
    monkeypatch.setattr(type(run.task), "logits", logits)
    return run


def test_logits_of_words_receive_the_positions_of_their_pieces(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def logits(self: Any, batch: Words) -> Tensor:
        return self.output(first_pieces(self.body(batch.pieces.inputs, batch.pieces.mask)[0], batch.pieces))

    first, second = programs_of(with_logits(run, monkeypatch, logits))
    assert first.inputs == ["tokens", "mask", "starts", "ends", "word_mask"]
    pieces = run.task.reader.collate(run.task.reader.encode([["unheard-of", "walls"], ["she", "went"]]))
    with torch.no_grad():
        expected = run.task.logits(Words(pieces, pieces.starts))
    outputs = eagerly([first])(
        "logits", {**tensors_of(pieces), "word_mask": torch.ones_like(pieces.starts, dtype=torch.bool)}
    )
    torch.testing.assert_close(outputs["logits"], expected)
    assert second.inputs == ["tokens", "mask"]


def test_logits_of_the_hidden_vectors_become_a_program(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def logits(self: Any, hidden: Tensor) -> Tensor:
        return self.output(hidden)

    program, _ = programs_of(with_logits(run, monkeypatch, logits))
    assert [port.shape for port in program.ports[1]] == [("batch", "length", 5)]


@pytest.mark.parametrize("logits", [None, lambda self, whatever: whatever])
def test_only_levels_are_exported_without_annotated_logits(
    run: Run, monkeypatch: pytest.MonkeyPatch, logits: Any
) -> None:
    (program,) = programs_of(with_logits(run, monkeypatch, logits))
    assert program.name == "levels" and [port.name for port in program.ports[1]] == ["level.0", "level.1"]


@pytest.mark.parametrize(
    "use",
    [lambda tags: tags != 0, lambda tags: tags.sum(), lambda tags: torch.zeros(2)[tags], lambda tags: torch.relu(tags)],
)
def test_logits_that_need_more_than_a_text_are_rejected_with_the_field(
    run: Run, monkeypatch: pytest.MonkeyPatch, use: Any
) -> None:
    def logits(self: Any, batch: Words) -> Tensor:
        return use(batch.tags)

    with pytest.raises(UserError) as caught:
        programs_of(with_logits(run, monkeypatch, logits))
    assert str(caught.value) == (
        f"{run.folder}: the logits of Stars need more than a text: `tags` of its Words; "
        "give it a method `programs`, as described in clew.tasks.uses.programs"
    )


def test_programs_of_the_task_itself_have_precedence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def first(traced: Traced) -> tuple[Tensor]:
        return (run.task.body(traced.texts[0].inputs, traced.texts[0].mask)[0][:, 0],)

    monkeypatch.setattr(
        type(run.task),
        "programs",
        lambda self: [ReadingProgram("first", ["vector"], first, facts={"stars": 5})],
        raising=False,
    )
    (program,) = programs_of(run)
    assert (program.name, program.facts) == ("first", {"stars": 5})


def test_a_user_defined_module_needs_no_body_and_no_tokenizer(run: Run, tmp_path: Path) -> None:
    def example(sizes: Sizes) -> Tensors:
        return {"frames": torch.zeros(sizes["batch"], sizes["length"], 3)}

    class Louder(torch.nn.Linear):
        def programs(self) -> list[Program]:
            return [Program("louder", OneOutput(self), example, ["frames"], facts={"hertz": 16000})]

    program_run = Run(run.folder, run.config, {}, Louder(3, 3))
    programs = programs_of(program_run)
    write_description(program_run, tmp_path, programs, "torch", ExportOptions())
    description = json.loads((tmp_path / "export.json").read_text(encoding="utf-8"))
    assert description["hertz"] == 16000 and description["programs"]["louder"]["inputs"][0]["shape"] == [
        "batch",
        "length",
        3,
    ]
    assert 'print(about["programs"]["louder"])' in (tmp_path / "README.md").read_text(encoding="utf-8")


class OneOutput(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, tensor: Tensor) -> tuple[Tensor]:
        return (self.inner(tensor),)


def test_a_task_without_a_body_is_rejected(run: Run) -> None:
    with pytest.raises(
        UserError,
        match="Linear defines no programs, and has no `body` that reads tokens and whose vectors could be exported",
    ):
        programs_of(Run(run.folder, run.config, run.vocabularies, torch.nn.Linear(1, 1)))


@pytest.mark.parametrize(
    ("family", "what"), [("seq2seq", "a source and a target"), ("tree_lstm", "trees"), ("graph_lstm", "a graph")]
)
def test_a_body_that_does_not_read_a_single_text_is_rejected(run: Run, family: str, what: str) -> None:
    config = run.config.model_copy(update={"model": run.config.model.model_copy(update={"family": family})})
    with pytest.raises(
        UserError, match=f"Stars defines no programs, and there is no default for a body that reads {what}; give it"
    ):
        programs_of(Run(run.folder, config, run.vocabularies, run.task))
