import json
import sys
from pathlib import Path

import pytest

from clew.cli import export
from clew.interop import EXPORTS
from clew.interop.options import ExportOptions
from clew.runs.loaded import Run
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused
from tests.interop.untrained import untrained


@pytest.fixture
def run(clew: Clew) -> Path:
    return untrained("bag", Path("runs/bag")).folder


def test_help_names_every_format() -> None:
    assert sorted(export.FORMATS) == sorted(EXPORTS)


def test_an_export_has_programs_vocabularies_and_a_card(clew: Clew, run: Path) -> None:
    result = clew("export", run, "--to", "torch", "--license", "cc0-1.0", "--json")
    assert result.status == 0
    assert result.err == "wrote exports/bag-torch; its README.md shows how to use it\n"
    files = ["README.md", "classifier.pt2", "export.json", "vocabulary/labels.json", "vocabulary/tokenizer.json"]
    assert json.loads(result.out) == {"folder": "exports/bag-torch", "files": files}
    description = json.loads(Path("exports/bag-torch/export.json").read_text(encoding="utf-8"))
    assert description["labels"] == ["bad", "good", "odd"]
    assert description["programs"]["classifier"]["inputs"] == [
        {"name": "tokens", "dtype": "int64", "shape": ["batch", "length"]},
        {"name": "mask", "dtype": "bool", "shape": ["batch", "length"]},
    ]
    assert description["programs"]["classifier"]["outputs"][1] == {
        "name": "probabilities",
        "dtype": "float32",
        "shape": ["batch", 3],
    }
    card = Path("exports/bag-torch/README.md").read_text(encoding="utf-8")
    assert (
        "license: cc0-1.0" in card and "- command: `clew train sentiment-bag data.corpus=null data.train=mine`" in card
    )
    assert [path.name for path in Path("exports").iterdir()] == ["bag-torch"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--to", "onxn"], "unknown format 'onxn'; did you mean 'onnx'? known:"),
        (
            ["--to", "hf", "--license", " "],
            "--license is empty; give the model's licence, such as apache-2.0, or leave it out",
        ),
        ([], "the following arguments are required: --to; `clew export --help` shows how"),
        (["--to", "onnx", "--out", "runs/bag"], "runs/bag is a run; choose another folder with --out"),
        (
            ["--to", "onnx", "--out", "runs/bag/config.json"],
            "runs/bag/config.json is a file; choose another folder with --out",
        ),
        (
            ["--to", "onnx", "--out", "runs"],
            "runs is not empty; choose another folder with --out, or replace its files with --force",
        ),
    ],
)
def test_mistakes_in_exporting_are_reported_in_one_line(
    clew: Clew, run: Path, arguments: list[str], sentence: str
) -> None:
    assert_refused(clew("export", run, *arguments), sentence)


def test_the_error_without_onnx_tells_how_to_install_it(clew: Clew, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    result = clew("export", run, "--to", "onnx")
    assert_refused(
        result,
        "exporting to ONNX needs onnxscript, which is not installed; `pip install 'clew[onnx]'`, or use --to torch",
    )
    assert not Path("exports/bag-onnx").exists()


@pytest.fixture
def interruptible_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export format that writes one file, and is then interrupted if the licence is `stop`."""

    def write(run: Run, folder: Path, options: ExportOptions) -> None:
        (folder / "deep").mkdir()
        (folder / "deep" / "new.txt").write_text("new", encoding="utf-8")
        if options.license == "stop":
            raise KeyboardInterrupt

    monkeypatch.setitem(EXPORTS, "text", write)


@pytest.mark.usefixtures("interruptible_format")
def test_an_interrupted_export_leaves_nothing(clew: Clew, run: Path) -> None:
    result = clew("export", run, "--to", "text", "--out", "mine", "--license", "stop")
    assert (result.status, result.err) == (130, "clew: interrupted; mine was not written\n")
    assert not Path("mine").exists() and not Path("mine.partial").exists()
    Path("mine.partial").mkdir()  # as a killed export leaves it
    assert clew("export", run, "--to", "text", "--out", "mine").status == 0
    assert [str(path) for path in Path("mine").rglob("*.txt")] == ["mine/deep/new.txt"] and not Path(
        "mine.partial"
    ).exists()


@pytest.mark.usefixtures("interruptible_format")
def test_force_replaces_files_of_the_same_name_only(clew: Clew, run: Path) -> None:
    Path("mine/deep").mkdir(parents=True)
    for name in ("mine/deep/new.txt", "mine/kept.txt"):
        Path(name).write_text("old", encoding="utf-8")
    assert clew("export", run, "--to", "text", "--out", "mine", "--force", "--license", "stop").status == 130
    assert Path("mine/deep/new.txt").read_text(encoding="utf-8") == "old"
    assert clew("export", run, "--to", "text", "--out", "mine", "--force").status == 0
    assert Path("mine/deep/new.txt").read_text(encoding="utf-8") == "new"
    assert Path("mine/kept.txt").read_text(encoding="utf-8") == "old"
