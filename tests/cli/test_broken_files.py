"""A broken picture or sound among intact ones is reported; the others are answered, and no earlier output is lost."""

from pathlib import Path

import pytest

from clew.cli.main import main

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "format-3"
RUNS = {"caption": ("captioning", "0.png", "5.png"), "transcribe": ("transcription", "0.wav", "3.wav")}
every_verb = pytest.mark.parametrize("verb", RUNS)


def arguments_of(verb: str, *files: Path | str) -> list[str]:
    return [verb, str(FROZEN / RUNS[verb][0] / "run"), *map(str, files), "--device", "cpu"]


def intact_and_broken(verb: str, folder: Path) -> tuple[Path, Path, Path]:
    run, *names = RUNS[verb]
    first, second = (FROZEN / run / name for name in names)
    broken = folder / f"broken{first.suffix}"
    broken.write_bytes(first.read_bytes()[:60])
    return first, broken, second


@every_verb
@pytest.mark.parametrize("listed", [False, True], ids=["command", "list"])
def test_a_broken_file_is_reported_and_skipped(
    verb: str, listed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, broken, second = intact_and_broken(verb, tmp_path)
    assert main(arguments_of(verb, first, second)) == 0
    alone = capsys.readouterr().out
    files = [first, broken, tmp_path / "missing", second]
    (tmp_path / "list.txt").write_text("".join(f"{file}\n" for file in files), encoding="utf-8")
    assert main(arguments_of(verb, *(["--file", tmp_path / "list.txt"] if listed else files))) == 2
    captured = capsys.readouterr()
    assert captured.out == alone
    assert [str(file) in line for file, line in zip(files[1:3], captured.err.splitlines(), strict=True)] == [True, True]
    assert captured.err.startswith(f"clew: {broken}: ")


@every_verb
def test_an_earlier_output_stays_if_nothing_is_answered(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, broken, _ = intact_and_broken(verb, tmp_path)
    out = tmp_path / "answers.txt"
    out.write_text("from before\n", encoding="utf-8")
    assert main([*arguments_of(verb, broken), "--out", str(out)]) == 2
    assert out.read_text(encoding="utf-8") == "from before\n" and capsys.readouterr().err.count("\n") == 1


def test_a_mistake_in_the_options_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, _, second = intact_and_broken("caption", tmp_path)
    assert main([*arguments_of("caption", first, second), "--beams", "0"]) == 2
    assert capsys.readouterr().err.count("clew: ") == 1


INSTRUMENTS = [
    ("caption", "captioning"),
    ("attribution", "captioning"),
    ("transcript", "transcription"),
    ("attribution", "sound_classification"),
]


@pytest.mark.parametrize(("instrument", "run"), INSTRUMENTS)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.png", "no such file: {}; the folder"),
        ("folder", "{}: this is a folder; name a file in it: the folder"),
        ("empty", "{}: the file is empty"),
    ],
)
def test_an_instrument_rejects_missing_and_empty_files(
    instrument: str, run: str, name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    assert main(["look", instrument, str(FROZEN / run / "run"), str(tmp_path / name), "--device", "cpu"]) == 2
    captured = capsys.readouterr()
    assert (
        captured.out == ""
        and captured.err.startswith(f"clew: {message.format(tmp_path / name)}")
        and captured.err.count("\n") == 1
    )


def test_a_misspelt_run_among_runs_is_reported(lstm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "tokens", str(lstm), "runs/typo", "--text", "a"]) == 2
    assert "clew: runs/typo is not a run directory" in capsys.readouterr().err
