"""A broken picture or sound among good ones: it has its sentence, the others their answers, and no file from before is
lost."""

from pathlib import Path

import pytest

from clew.cli.main import main

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "format-3"
RUNS = {"caption": ("captioning", "0.png", "5.png"), "transcribe": ("transcription", "0.wav", "3.wav")}
every_verb = pytest.mark.parametrize("verb", RUNS)


def asked(verb: str, *files: Path | str) -> list[str]:
    return [verb, str(FROZEN / RUNS[verb][0] / "run"), *map(str, files), "--device", "cpu"]


def good_and_broken(verb: str, folder: Path) -> tuple[Path, Path, Path]:
    run, *names = RUNS[verb]
    first, second = (FROZEN / run / name for name in names)
    broken = folder / f"broken{first.suffix}"
    broken.write_bytes(first.read_bytes()[:60])
    return first, broken, second


@every_verb
@pytest.mark.parametrize("listed", [False, True], ids=["command", "list"])
def test_a_broken_file_is_passed_over_with_its_sentence(
    verb: str, listed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, broken, second = good_and_broken(verb, tmp_path)
    assert main(asked(verb, first, second)) == 0
    alone = capsys.readouterr().out
    files = [first, broken, tmp_path / "missing", second]
    (tmp_path / "list.txt").write_text("".join(f"{file}\n" for file in files), encoding="utf-8")
    assert main(asked(verb, *(["--file", tmp_path / "list.txt"] if listed else files))) == 2
    found = capsys.readouterr()
    assert found.out == alone
    assert [str(file) in line for file, line in zip(files[1:3], found.err.splitlines(), strict=True)] == [True, True]
    assert found.err.startswith(f"clew: {broken}: ")


@every_verb
def test_where_nothing_is_answered_a_file_from_before_stays(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, broken, _ = good_and_broken(verb, tmp_path)
    out = tmp_path / "answers.txt"
    out.write_text("from before\n", encoding="utf-8")
    assert main([*asked(verb, broken), "--out", str(out)]) == 2
    assert out.read_text(encoding="utf-8") == "from before\n" and capsys.readouterr().err.count("\n") == 1


def test_a_refusal_of_what_is_asked_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, _, second = good_and_broken("caption", tmp_path)
    assert main([*asked("caption", first, second), "--beams", "0"]) == 2
    assert capsys.readouterr().err.count("clew: ") == 1


LOOKED = [
    ("caption", "captioning"),
    ("attribution", "captioning"),
    ("transcript", "transcription"),
    ("attribution", "sound_classification"),
]


@pytest.mark.parametrize(("instrument", "run"), LOOKED)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing.png", "no such file: {}; the folder"),
        ("folder", "{}: this is a folder; name a file in it: the folder"),
        ("empty", "{}: the file is empty"),
    ],
)
def test_an_instrument_refuses_what_is_no_file_of_its_kind(
    instrument: str, run: str, name: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    assert main(["look", instrument, str(FROZEN / run / "run"), str(tmp_path / name), "--device", "cpu"]) == 2
    found = capsys.readouterr()
    assert (
        found.out == "" and found.err.startswith(f"clew: {told.format(tmp_path / name)}") and found.err.count("\n") == 1
    )


def test_a_misspelt_run_beside_one_that_reads_texts_is_still_told_so(
    lstm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", "tokens", str(lstm), "runs/typo", "--text", "a"]) == 2
    assert "clew: runs/typo is not a run directory" in capsys.readouterr().err
