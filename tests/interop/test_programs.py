"""Exported programs of ONNX and torch give the same results as the run."""

import json
import os
import re
import zipfile
from pathlib import Path

import pytest
import torch
from torch import Tensor

import clew
from clew.core.errors import UserError
from clew.interop import EXPORTS
from clew.interop.onnx_programs import runtime
from clew.interop.options import ExportOptions
from clew.interop.task_programs import programs_of
from tests.interop.untrained import RUNS, Call, assert_same, untrained

QUICK = [("torch", "mixed"), ("torch", "tagger of pieces"), ("onnx", "lstm")]
"""Together they cover a scan, a cache, a convolution's window, positions and phrase tags."""
ALL = [
    pytest.param(to, name, marks=[] if (to, name) in QUICK else pytest.mark.slow)
    for to in ("torch", "onnx")
    for name in RUNS
]


def loaded(folder: Path, to: str) -> Call:
    """Load the programs in a folder, as listed in export.json."""
    programs = json.loads((folder / "export.json").read_text(encoding="utf-8"))["programs"]
    calls = {
        name: runtime(folder / program["file"])
        if to == "onnx"
        else torch.export.load(folder / program["file"]).module()
        for name, program in programs.items()
    }

    def call(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        inputs, outputs = ([port["name"] for port in programs[name][side]] for side in ("inputs", "outputs"))
        arguments = [tensors[each] for each in inputs]
        results = calls[name](arguments) if to == "onnx" else calls[name](*arguments)  # type: ignore[misc]
        return dict(zip(outputs, results, strict=True))

    return call


@pytest.mark.slow
@pytest.mark.parametrize(("to", "name"), ALL)
def test_a_program_matches_the_run_on_ragged_batches_of_any_shape(to: str, name: str, tmp_path: Path) -> None:
    run, out = untrained(name, tmp_path / "run"), tmp_path / "out"
    out.mkdir()
    EXPORTS[to](run, out, ExportOptions())
    assert_same(run, programs_of(run), loaded(out, to))
    card_runs(out)
    assert not [path for path in out.rglob("*") if path.is_file() and names_a_folder(path)]


def names_a_folder(path: Path) -> bool:
    """Whether a file contains the folder of the code that wrote it."""
    members = zipfile.ZipFile(path) if zipfile.is_zipfile(path) else None
    contents = [path.read_bytes()] if members is None else [members.read(name) for name in members.namelist()]
    return any(
        b"site-packages" in content or str(Path(clew.__file__).parent).encode() in content for content in contents
    )


def card_runs(folder: Path) -> None:
    """Run the code of the card unchanged, in the folder of the export."""
    lines = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert lines is not None and "clew" not in lines[1]
    names: dict = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(lines[1], names)
    finally:
        os.chdir(before)


def test_a_model_that_cannot_be_traced_is_rejected_with_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = untrained("window", tmp_path / "run")
    monkeypatch.setattr(
        type(run.task), "log_probs", lambda self, hidden: hidden if float(hidden.sum()) > 0 else -hidden
    )
    with pytest.raises(UserError, match="^torch.export cannot write the program 'step' of this model: "):
        EXPORTS["torch"](run, tmp_path, ExportOptions())
    assert not list(tmp_path.glob("*.pt2"))
    assert all(parameter.requires_grad for parameter in run.task.parameters())
