import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from clew.cli.main import main
from tests.runs.small import gpt_settings, lstm_settings


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Clew = Callable[..., Outcome]


@pytest.fixture
def clew(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clew:
    """Run the command in this process, in a temporary folder: `clew("generate", run, stdin="...")`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))

    def command(*arguments: object, stdin: str = "") -> Outcome:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            try:
                status = main([str(argument) for argument in arguments])
            except SystemExit as end:
                status = int(end.code or 0)
        return Outcome(status, *capsys.readouterr())

    return command


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two small runs: an LSTM and a GPT with 32 positions."""
    from clew.recipes.running import run_recipe

    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        run_recipe("text-lstm", lstm_settings(folder, steps=8), out=folder / "lstm")
        run_recipe("text-gpt", gpt_settings(folder, steps=8), out=folder / "gpt")
    return {"lstm": folder / "lstm", "gpt": folder / "gpt", "text": folder / "story.txt"}


@pytest.fixture
def lstm(trained: dict[str, Path]) -> Path:
    return trained["lstm"]


@pytest.fixture
def gpt(trained: dict[str, Path]) -> Path:
    return trained["gpt"]


@pytest.fixture(scope="session")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small translation runs that reverse words: two with the same vocabularies, one with subwords, and one with
    several languages."""
    from clew.recipes.running import run_recipe
    from tests.runs.small import pair_settings, save_many_languages

    folder = tmp_path_factory.mktemp("translators")
    settings = pair_settings(folder)
    run_recipe("tatoeba-lstm", settings, out=folder / "lstm")
    run_recipe("tatoeba-lstm", [*settings, "model.cell=gru"], out=folder / "gru")
    run_recipe(
        "tatoeba-transformer", [*settings, "model.num_heads=2", "text.tokenizer=bpe"], out=folder / "transformer"
    )
    save_many_languages(folder / "many")
    return {name: folder / name for name in ("lstm", "gru", "transformer", "many", "pairs.tsv")}


@pytest.fixture
def translator(translators: dict[str, Path]) -> Path:
    return translators["lstm"]
