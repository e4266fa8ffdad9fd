"""`clew import`: its messages, and the use of an imported run by other verbs."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Clew
from tests.interop.test_llama2c import make


def test_verbs_accept_an_imported_checkpoint(clew: Clew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path, tied=True)
    result = clew("import", "stories.bin")
    assert result.status == 0 and result.err == "wrote runs/stories\n"
    assert "architecture  llama2.c: clew's family llama" in result.out
    assert "task          language_model: `clew generate runs/stories`" in result.out
    listed = clew("runs").out
    assert "imported" in listed and "0/" not in listed  # no steps: it was trained by another program
    assert clew("generate", "runs/stories", "the cat", "--max-new", "3", "--method", "greedy").status == 0
    assert json.loads(clew("runs", "--json").out)["state"] == "imported"
    evaluated = clew("evaluate", "runs/stories")
    assert (
        evaluated.status == 2
        and evaluated.err
        == "clew: runs/stories was imported and has no data of its own; name a FILE to evaluate it on\n"
    )
    pruned = clew("runs", "prune", "runs/stories", "--heads", "0.5", "--out", "runs/pruned")
    assert pruned.status == 2
    assert "runs/stories was imported and has no data of its own; give some, such as data.train=FILE" in pruned.err
    again = clew("import", "stories.bin")
    assert again.status == 2 and "runs/stories is a run already; choose another folder with --out" in again.err
    facts = json.loads(clew("import", "stories.bin", "--out", "other", "--json").out)
    assert (facts["folder"], facts["verb"], facts["notes"]) == ("other", "generate", [])


def test_files_that_cannot_be_imported_are_reported_in_one_line(clew: Clew, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "model.pt").write_bytes(b"PK")
    for name, message in {
        "nowhere": "nowhere; give a checkpoint's folder, or a llama2.c file",
        "notes.txt": "is not a checkpoint that clew knows",
        "model.pt": "may be a pickle, which can run code",
        ".": "is not a checkpoint that clew knows",
    }.items():
        result = clew("import", str(tmp_path / name), "--out", str(tmp_path / "run"))
        assert result.status == 2 and message in result.err and result.err.count("\n") == 1
