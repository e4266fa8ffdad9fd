import json
from pathlib import Path

import torch
import yaml

from clew.core.files import write_json
from clew.interop.model_card import model_card
from clew.interop.options import ExportOptions
from clew.runs.directory import append_metrics, write_config, write_environment
from clew.runs.folder.run_files import ORIGIN
from clew.runs.loaded import Run
from tests.interop.untrained import untrained

USAGE = "print('hello')"


def metadata(card: str) -> dict:
    return yaml.safe_load(card.split("---\n")[1])


def test_a_card_describes_the_run(tmp_path: Path) -> None:
    run = untrained("lstm", tmp_path / "runs" / "story")
    append_metrics(run.folder, {"step": 8, "valid.loss": 3.0})
    append_metrics(
        run.folder,
        {"step": 9, "best.step": 8, "best.valid.loss": 3.0, "best.valid.perplexity": 20.1, "best.valid.baseline": 2.5},
    )
    card = model_card(
        run, library="onnx", usage=USAGE, options=ExportOptions("mit", "clew train text-lstm seed=1"), tags=["tiny"]
    )
    fields = metadata(card)
    assert fields == {
        "license": "mit",
        "library_name": "onnx",
        "pipeline_tag": "text-generation",
        "tags": ["clew", "language-model", "recurrent", "tiny"],
        "metrics": ["loss", "perplexity"],
    }
    assert card.startswith("---\n") and "\n# story\n" in card
    parameters = sum(parameter.numel() for parameter in run.task.parameters())
    assert f"{parameters:,} parameters, over {run.tokenizer.vocabulary} characters" in card
    assert f"```python\n{USAGE}\n```" in card
    for line in (
        "- recipe: `text-lstm`",
        "- command: `clew train text-lstm seed=1`",
        "- steps: 9",
        "- train: `mine`",
        "The model: mit.",
    ):
        assert line in card, line
    assert (
        "Of the weights of step 8." in card
        and "| valid | perplexity | 20.1 |" in card
        and "| valid | baseline | 2.5 |" in card
    )


def test_a_card_omits_unknown_facts(tmp_path: Path) -> None:
    run = untrained("lstm", tmp_path / "run")
    card = model_card(run, library="pytorch", usage=USAGE, options=ExportOptions())
    assert set(metadata(card)) == {"library_name", "pipeline_tag", "tags"}
    for absent in ("command", "steps", "hardware", "Scores", "Licence", "None", "null\n---"):
        assert absent not in card, absent


def test_the_card_of_an_imported_run_names_its_origin_and_no_training(tmp_path: Path) -> None:
    run = untrained("lstm", tmp_path / "run")
    write_json(run.folder / ORIGIN, {"architecture": "GPT2LMHeadModel", "source": "tiny"})
    write_environment(run.folder, torch.device("cpu"))
    card = model_card(run, library="onnx", usage=USAGE, options=ExportOptions())
    assert "Imported from `tiny`, a `GPT2LMHeadModel`." in card
    assert "## Training" not in card and "seed" not in card


def test_the_card_names_source_and_licence_of_an_embedded_corpus(tmp_path: Path) -> None:
    run = untrained("tagger", tmp_path / "run")
    settings = run.config.model_dump(mode="json")
    config = type(run.config).model_validate(
        {**settings, "data": {**settings["data"], "corpus": "ewt-sample", "train": None}}
    )
    write_config(run.folder, config)
    card = model_card(
        Run(run.folder, config, run.vocabularies, run.task), library="onnx", usage=USAGE, options=ExportOptions()
    )
    assert metadata(card)["language"] == ["en"] and "license" not in metadata(card)
    assert "The corpus `ewt-sample`." in card
    assert "3,000 / 500 / 500 sentences" in card and "Licence: CC BY-SA 4.0" in card


def test_the_card_names_files_without_their_folders(tmp_path: Path) -> None:
    run = untrained("bag", tmp_path / "run")
    settings = run.config.model_dump(mode="json")
    config = type(run.config).model_validate(
        {**settings, "data": {**settings["data"], "train": "/home/ada/secret/tickets.csv"}}
    )
    write_config(run.folder, config)
    card = model_card(
        Run(run.folder, config, run.vocabularies, run.task), library="onnx", usage=USAGE, options=ExportOptions()
    )
    assert "- train: `tickets.csv`" in card and "ada" not in card
    assert json.loads((run.folder / "config.json").read_text(encoding="utf-8"))["data"]["train"].startswith("/home/ada")
