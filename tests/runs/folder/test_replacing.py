"""A run in a folder is replaced on request, and only files of a run are ever deleted."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import clew
from clew.cli.main import main
from clew.core.errors import UserError
from clew.recipes.running import run_recipe
from clew.runs.folder.lock import locked
from clew.runs.folder.replacing import check_replaceable, foreign_files
from tests.runs.small import lstm_settings

LETTER = "a letter"


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def test_a_run_is_replaced_on_request(tmp_path: Path) -> None:
    arguments = lstm_settings(tmp_path, steps=2)
    clew.train("text-lstm", *arguments, out="run", quiet=True)
    with pytest.raises(
        UserError,
        match="run is a run already; resume it with resume=True, replace it with overwrite=True, or choose",
    ):
        clew.train("text-lstm", *arguments, out="run", quiet=True)
    again = clew.train(
        "text-lstm", *arguments, out="run", overwrite=True, quiet=True, model__cell="gru", training__save_every=1
    )
    assert again.config.model.cell == "gru" and clew.load("run", device="cpu").score("the door") == again.score(
        "the door"
    )
    assert sorted(path.name for path in Path("run/checkpoints").iterdir()) == ["step-00000001", "step-00000002"]


def test_overwrite_accepts_a_new_folder(tmp_path: Path) -> None:
    assert clew.train(
        "text-lstm", *lstm_settings(tmp_path, steps=1), out="new", overwrite=True, quiet=True
    ).folder == Path("new")


def test_a_mistake_in_the_new_run_leaves_the_old_one(tmp_path: Path) -> None:
    clew.train("text-lstm", *lstm_settings(tmp_path, steps=1), out="run", quiet=True)
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    for wrong in ({"data__train": "none.txt"}, {"data__train": "story.txt", "model__cell": "gur"}):
        with pytest.raises(UserError):
            clew.train("text-lstm", **wrong, out="run", overwrite=True, quiet=True)
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before


def test_only_runs_are_replaced(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=1), out=Path("run"))
    Path("letters").mkdir()
    Path("letters/config.json").write_text('{"model_type": "bert"}')
    Path("file").write_text(LETTER)
    Path("run/notes.txt").write_text(LETTER)
    Path("link").symlink_to("run", target_is_directory=True)
    for folder, sentence in {
        "letters": "letters is not a run of clew's, and only runs can be replaced; choose another folder with out=...",
        "file": "file is not a run of clew's",
        "run": (
            "run also has notes.txt, which no run has written, and only runs can be replaced; move it away, or choose"
            " another folder"
        ),
        "link": "link is a link, and only a folder itself can be replaced; name the folder that it points to",
    }.items():
        with pytest.raises(UserError, match=sentence):
            check_replaceable(Path(folder))
    Path("run/notes.txt").unlink()
    with pytest.raises(UserError, match="run is the run that the new run starts from, so it cannot be replaced"):
        check_replaceable(Path("run"), [None, str(tmp_path / "run")])
    with locked(Path("run")), pytest.raises(UserError, match="run is being written by another process; wait for it"):
        check_replaceable(Path("run"))


@pytest.mark.parametrize(
    "name",
    ["checkpoints/notes.txt", "vocabulary/mine.txt", "checkpoints/step-00000001/notes.md", "vocabulary/a/b.json"],
)
def test_a_run_folder_with_files_of_the_user_is_not_replaced(tmp_path: Path, name: str) -> None:
    arguments = lstm_settings(tmp_path, steps=1)
    clew.train("text-lstm", *arguments, out="run", quiet=True)
    path = Path("run") / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(LETTER)
    with pytest.raises(
        UserError, match=f"run also has {name}, which no run has written, and only runs can be replaced; move it away"
    ):
        clew.train("text-lstm", *arguments, out="run", quiet=True, overwrite=True)
    assert path.read_text() == LETTER


def test_partial_files_of_a_killed_run_are_replaced(tmp_path: Path) -> None:
    arguments = lstm_settings(tmp_path, steps=1)
    clew.train("text-lstm", *arguments, out="run", quiet=True)
    for name in (".step-00000001.partial/model.safetensors", ".step-00000001.dropped.partial/training.json.partial"):
        (Path("run/checkpoints") / name).parent.mkdir()
        (Path("run/checkpoints") / name).write_bytes(b"")
    Path("run/vocabulary/tokenizer.json.partial").write_text("{")
    assert clew.train("text-lstm", *arguments, out="run", quiet=True, overwrite=True).score("the door")


def test_frozen_runs_have_no_foreign_files_in_subfolders() -> None:
    runs = [path.parent for path in (Path(__file__).parents[1] / "frozen").glob("**/config.json")]
    assert runs and not [name for run in runs for name in foreign_files(run) if "/" in name]


def test_overwrite_needs_a_folder_and_excludes_resume(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="overwrite=True replaces the run in a folder; name the folder with out=..."):
        clew.train("text-lstm", overwrite=True)
    with pytest.raises(
        UserError, match="resume=True continues a run and overwrite=True replaces it; leave one of them out"
    ):
        clew.train("text-lstm", overwrite=True, resume=True, out="run")


def test_the_command_replaces_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "text-lstm", *lstm_settings(tmp_path, steps=1), "--out", "run"]
    assert [main(arguments), main(arguments), main([*arguments, "--overwrite"])] == [0, 2, 0]
    assert "replace it with --overwrite" in capsys.readouterr().err
    assert main([*arguments, "seed=1,2", "--overwrite"]) == 2
    assert (
        "--overwrite replaces one run, but this is a grid of several"
        "; leave it out, or delete the folders first" in capsys.readouterr().err
    )


class Mean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean).square().mean()


def test_fit_replaces_a_run(tmp_path: Path) -> None:
    loader = DataLoader(torch.randn(8, 1), batch_size=4)  # type: ignore[arg-type]
    clew.fit(Mean(), loader, "fit", steps=3, device="cpu", quiet=True)
    assert clew.fit(Mean(), loader, "fit", steps=2, device="cpu", quiet=True, overwrite=True).step == 2
    Path("fit/letter").write_text(LETTER)
    with pytest.raises(UserError, match="fit also has letter, which no run has written"):
        clew.fit(Mean(), loader, "fit", steps=2, device="cpu", quiet=True, overwrite=True)
    assert Path("fit/letter").read_text() == LETTER
