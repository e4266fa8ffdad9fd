import json
from pathlib import Path

import pytest

from clew.core.files import read_json
from clew.runs.config import resolve
from clew.runs.directory import write_config, write_weights
from clew.runs.loaded import load_run
from tests.cli.conftest import Clew
from tests.runs.pretrained import save_pretrained


def test_half_of_the_heads_are_pruned_and_the_rest_keep_the_measured_loss(clew: Clew, gpt: Path, tmp_path: Path):
    result = clew(
        "prune", gpt, "--heads", "0.5", "--points", "2", "--batches", "2", "--device", "cpu", "--json", "--out", "half"
    )
    assert result.status == 0, result.err
    *points, written = map(json.loads, result.out.splitlines())
    assert [point["kept"] for point in points] == [2, 1, 0] and written["kept"] == 1 and len(written["off"]) == 1
    assert written["measures"]["loss"] == pytest.approx(points[1]["loss"], abs=1e-6)
    assert written["parameters"][1] < written["parameters"][0] and all(
        seconds > 0 for seconds in written["seconds_per_batch"]
    )
    evaluated = json.loads(clew("evaluate", "half", "--device", "cpu", "--json").out.splitlines()[0])
    assert evaluated["loss"] == pytest.approx(points[1]["loss"], abs=1e-6)
    summary = json.loads((tmp_path / "half" / "pruning.json").read_text())
    assert [point["loss"] for point in summary["points"]] == [point["loss"] for point in points] and set(
        summary["importance"]
    ) == {"1.1", "1.2"}
    page = (tmp_path / "half" / "pruning.html").read_text()
    assert "heads kept" in page and "loss (nats)" in page and page.count("parameters became") == 1
    assert (
        "weight 8 x 16" in clew("describe", "half").out
        and clew("generate", "half", "the", "--max-new", "3").status == 0
    )

    again = clew("train", "text-gpt", "--out", "half", "--resume")
    assert (
        again.status == 2
        and "was pruned and has no checkpoint to resume from; train it as a new run, transfer.from=" in again.err
    )


def test_named_heads_are_pruned_even_all_of_a_layer(clew: Clew, gpt: Path, tmp_path: Path):
    result = clew("prune", gpt, "--off", "1.1", "1.2", "--device", "cpu", "--out", "none")
    assert result.status == 0, result.err
    assert "0 of 2*" in result.out and load_run(tmp_path / "none", device="cpu").config.model.heads == {"1": []}  # type: ignore[attr-defined]


def test_an_encoder_without_a_loss_is_pruned_by_the_cosine_of_its_vectors(clew: Clew, tmp_path: Path):
    folder = save_pretrained(tmp_path / "encoder", "gpt")
    settings = {
        name: part
        for name, part in read_json(folder / "config.json").items()
        if name not in ("format", "sha256", "files")
    }
    weights = load_run(folder, device="cpu").task.body.state_dict()
    write_weights(folder / "model.safetensors", {f"body.{name}": value for name, value in weights.items()})
    write_config(folder, resolve({**settings, "task": {"name": "representation"}, "data": {}}))
    result = clew("prune", folder, "--heads", "0.75", "--points", "0", "--device", "cpu", "--json", "--out", "near")
    assert result.status == 0, result.err
    whole, fewer, written = map(json.loads, result.out.splitlines())
    assert whole["cosine"] == pytest.approx(1) and fewer["cosine"] < 1
    assert written["measures"]["cosine"] == pytest.approx(fewer["cosine"], abs=1e-5)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([], "give either --heads SHARE, the share of heads to keep, or --off with the heads to remove"),
        (["--heads", "1"], "must be at least 0 and below 1"),
        (["--heads", "0.5", "--off", "1.1"], "either --heads SHARE"),
        (["--off", "7.1"], "unknown head '7.1'"),
        (["--heads", "0.9"], "--heads 0.9 keeps all 2 heads of "),
        (["--heads", "0.9"], "; keep a smaller share"),
        (["--heads", "0.5", "--batches", "0"], "--batches (0)"),
        (["--heads", "0.5", "model.dim=3"], "only settings of the section data can"),
    ],
)
def test_mistakes_are_reported_in_one_line(clew: Clew, gpt: Path, arguments: list[str], sentence: str):
    result = clew("prune", gpt, *arguments, "--device", "cpu", "--out", "out")
    assert result.status == 2 and sentence in result.err and result.err.strip().count("\n") <= 1


def test_a_run_without_heads_is_rejected(clew: Clew, lstm: Path):
    result = clew("prune", lstm, "--heads", "0.5", "--out", "out")
    assert result.status == 2
    assert result.err == (f"clew: {lstm} has no attention heads to prune; `clew describe {lstm}` shows its layers\n")
