"""`clew import`: what it says, and that verbs take what it writes."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Clew
from tests.interop.test_llama2c import make


def test_a_checkpoint_becomes_a_run_that_verbs_take(
    clew: Clew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path, tied=True)
    found = clew("import", "stories.bin")
    assert found.status == 0 and found.err == "wrote runs/stories\n"
    assert "architecture  llama2.c: clew's family llama" in found.out
    assert "task          language_model: `clew generate runs/stories`" in found.out
    listed = clew("runs").out
    assert "imported" in listed and "0/" not in listed  # it was trained elsewhere
    assert clew("generate", "runs/stories", "the cat", "--max-new", "3", "--method", "greedy").status == 0
    assert json.loads(clew("runs", "--json").out)["state"] == "imported"
    alone = clew("evaluate", "runs/stories")
    assert (
        alone.status == 2
        and alone.err == "clew: runs/stories was imported and has no data of its own; name a FILE to evaluate it on\n"
    )
    again = clew("import", "stories.bin")
    assert again.status == 2 and "runs/stories is a run already; choose another folder with --out" in again.err
    facts = json.loads(clew("import", "stories.bin", "--out", "other", "--json").out)
    assert (facts["folder"], facts["verb"], facts["notes"]) == ("other", "generate", [])


def test_what_cannot_be_imported_is_said_in_a_line(clew: Clew, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "model.pt").write_bytes(b"PK")
    for given, complaint in {
        "nowhere": "nowhere; give a checkpoint's folder, or a llama2.c file",
        "notes.txt": "is not a checkpoint that clew knows",
        "model.pt": "may be a pickle, which can run code",
        ".": "is not a checkpoint that clew knows",
    }.items():
        found = clew("import", str(tmp_path / given), "--out", str(tmp_path / "run"))
        assert found.status == 2 and complaint in found.err and found.err.count("\n") == 1
