"""The code of a guide runs as it stands, and its commands are commands."""

import re
import shlex
from pathlib import Path

import pytest

from clew.recipes.running import config_of

GUIDES = Path(__file__).parents[1] / "docs" / "guides"


def code_of(guide: str) -> str:
    block = re.search(r"```python\n(.*?)```", (GUIDES / guide).read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return block[1]


def test_the_code_on_own_data_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text("review,stars\n" + "".join(f"film {n},{n % 3}\n" for n in range(30)) + ",1\n\n", encoding="utf-8")
    Path("names.conll").write_text("Ada NNP B-PER\nruns VBZ O\n\nBo NNP B-PER\n", encoding="utf-8")
    Path("corpus").mkdir()
    for language, text in {"en": "a cat\n", "de": "eine Katze\n"}.items():
        Path(f"corpus/train.{language}").write_text(text, encoding="utf-8")
    names: dict = {}
    exec(code_of("own-data.md"), names)
    assert {name: len(part) for name, part in names["parts"].items()} == {"train": 24, "valid": 6}
    assert names["pairs"][1][:2] == ("a dog", "ein Hund")
    assert names["tagged"][0].tags == ("B-PER", "O")
    shown = capsys.readouterr().out
    assert "reviews.csv: comma-separated values, 31 records" in shown
    assert "skipped 1 x empty field (first: reviews.csv:32)" in shown


def test_the_code_on_baselines_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code_of("baselines.md"), names)
    shown = capsys.readouterr().out
    accuracy = {name: float(figure) for name, figure in re.findall(r"(naive Bayes|most frequent class): ([\d.]+)", shown)}
    assert accuracy["naive Bayes"] > 70 > 60 > accuracy["most frequent class"]
    assert "'DET', 'NOUN', 'VERB', 'PRON', 'ADP', 'NUM', 'PUNCT'" in shown
    assert names["vectors"].nearest("king", 1)[0][1] > 0.5
    assert Path("vectors.txt").is_file()


@pytest.mark.parametrize("command", re.findall(r"^clew train .+$", (GUIDES / "own-data.md").read_text(encoding="utf-8"), re.MULTILINE))
def test_a_command_on_own_data_is_a_config(command: str) -> None:
    recipe, *settings = shlex.split(command)[2:]
    assert config_of(recipe, settings).data.train is not None
