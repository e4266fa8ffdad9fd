import hashlib
import json
import math
from pathlib import Path

import pytest
import torch

import clew as library
from clew.cli.options.precision import PRECISIONS
from clew.core.errors import UserError
from clew.interop.exporting import export_run
from clew.kernels.quantised_weight import QuantisedWeight
from clew.layers import precision as layers
from clew.layers.precision import num_bytes
from clew.runs.directory import write_weights
from clew.runs.pruning import prune_run
from clew.training.fitting import fit
from tests.cli.conftest import Clew

SMALLER = pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])


def file_hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_help_offers_every_precision_of_the_layers():
    assert tuple(PRECISIONS) == layers.PRECISIONS


@SMALLER
def test_evaluation_reports_the_cost_of_a_precision(clew: Clew, gpt: Path, precision: str) -> None:
    before = file_hashes(gpt)
    whole = [json.loads(line) for line in clew("evaluate", gpt, "--json").out.splitlines()]
    result = clew("evaluate", gpt, "--precision", precision, "--json")
    parts = [json.loads(line) for line in result.out.splitlines()]
    assert result.status == 0 and [part["text"] for part in parts] == [part["text"] for part in whole]
    for part, expected in zip(parts, whole, strict=True):
        assert part["precision"] == precision
        for name, value in part["float32"].items():
            assert value == pytest.approx(expected[name], rel=1e-6)
            assert part["difference"][name] == part[name] - value
        assert part["difference"]["loss"] != 0 and math.isfinite(part["loss"])
    small, large = (num_bytes(library.load(gpt, precision=each).task) for each in (precision, "float32"))
    assert f"weights take {small:,} bytes in {precision}, {large:,} in float32\n" in result.err and small < large
    assert file_hashes(gpt) == before, "the run stays as it is"


def test_scores_of_both_precisions_are_shown_in_a_table(clew: Clew, lstm: Path) -> None:
    lines = clew("evaluate", lstm, "--precision", "int8").out.splitlines()
    header, loss = next((a, b) for a, b in zip(lines, lines[1:], strict=False) if a.startswith("measure"))
    assert header.split() == ["measure", "int8", "float32", "difference"]
    name, small, whole, difference = loss.split()
    assert name == "loss" and float(difference) == pytest.approx(float(small) - float(whole), abs=2e-4)
    assert "measure" not in clew("evaluate", lstm).out


def test_files_and_other_tasks_are_scored_in_both_precisions(
    clew: Clew, gpt: Path, translators: dict[str, Path]
) -> None:
    Path("poem.txt").write_text("the walls were tall.\n", encoding="utf-8")
    of_file = json.loads(clew("evaluate", gpt, "poem.txt", "--precision", "int8", "--json").out.splitlines()[-1])
    assert of_file["difference"]["loss"] == of_file["loss"] - of_file["float32"]["loss"]
    translated = json.loads(
        clew("evaluate", translators["transformer"], "--precision", "int8", "--json").out.splitlines()[0]
    )
    assert translated["difference"].keys() == translated["float32"].keys() and "bleu" in translated["difference"]
    Path("labels.csv").write_text("text,label\nthe door,a\n", encoding="utf-8")
    chosen = clew("evaluate", gpt, "labels.csv", "--choices", "a=red,b=tall", "--precision", "int4", "--json")
    assert "accuracy" in json.loads(chosen.out.splitlines()[0])["difference"]


@SMALLER
def test_runs_answer_in_every_precision(
    clew: Clew, gpt: Path, lstm: Path, translators: dict[str, Path], precision: str
) -> None:
    for run in (gpt, lstm):
        result = clew("generate", run, "the ", "--precision", precision, "--method", "greedy", "--json")
        assert result.status == 0 and json.loads(result.out)["text"]
        assert clew("predict", run, "-", "--precision", precision, stdin="the \n").status == 0
        assert clew("embed", run, "the door", "--precision", precision).status == 0
    assert clew("translate", translators["transformer"], "a b", "--precision", precision, "--beams", "2").status == 0


def test_instruments_report_the_same_facts_of_a_quantised_run(clew: Clew, gpt: Path) -> None:
    small, whole = (library.load(gpt, device="cpu", precision=precision) for precision in ("int8", "float32"))
    for instrument in ("surprisal", "attention", "gradients"):
        assert (
            library.look(small, instrument, text="the door").facts.keys()
            == library.look(whole, instrument, text="the door").facts.keys()
        )


def test_quantised_weights_cannot_be_saved_or_trained(clew: Clew, gpt: Path, tmp_path: Path) -> None:
    run = library.load(gpt, device="cpu", precision="int8")
    message = "a run whose weights were loaded in bfloat16, int8 or int4 cannot be {}; load it without a precision"
    with pytest.raises(UserError, match=message.format("exported")):
        export_run(run, "torch", tmp_path / "export")
    with pytest.raises(UserError, match=message.format("exported")):
        export_run(library.load(gpt, device="cpu", precision="bfloat16"), "torch", tmp_path / "export")
    with pytest.raises(UserError, match=message.format("pruned")):
        prune_run(run, ["1.1"], tmp_path / "pruned")
    with pytest.raises(UserError, match="int8 and int4 weights cannot be saved; load the run without a precision"):
        write_weights(tmp_path / "model.safetensors", run.task.state_dict())
    with pytest.raises(
        UserError,
        match="a module whose weights are in int8 or int4 cannot be trained; load the run without a precision",
    ):
        fit(run.task, torch.utils.data.DataLoader([1]), tmp_path / "fit", steps=1)
    assert not any((tmp_path / name).exists() for name in ("export", "pruned", "model.safetensors", "fit"))


def test_an_unknown_precision_is_rejected_before_the_run_is_read(clew: Clew, gpt: Path) -> None:
    with pytest.raises(
        UserError, match="unknown precision 'int2'; did you mean 'int8'\\? known: bfloat16, float32, int4, int8"
    ):
        library.load("nowhere", precision="int2")
    assert "argument --precision: invalid choice: 'int2'" in clew("generate", gpt, "--precision", "int2").err


def test_tied_embeddings_stay_tied_when_quantised(gpt: Path) -> None:
    task = library.load(gpt, device="cpu", precision="int8").task
    assert isinstance(task.weight, QuantisedWeight) and task.weight is task.body.embedding.tokens.weight
