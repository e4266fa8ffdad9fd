"""The version stands in one place, and what repeats it agrees."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import clew
from clew.cli.main import main

ROOT = Path(__file__).parents[1]


def test_the_installed_version_is_that_of_the_package() -> None:
    assert version("clew") == clew.__version__


def test_the_command_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert clew.__version__ in capsys.readouterr().out


def test_the_citation_and_the_newest_changes_are_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert citation["version"] == newest[1] == clew.__version__
