"""The version is defined in one place, and copies of it agree."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import clew
from clew.cli.main import main

ROOT = Path(__file__).parents[1]


def test_the_installed_version_matches_the_package() -> None:
    assert version("clew") == clew.__version__


def test_the_command_prints_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["--version"])
    assert exited.value.code == 0
    assert clew.__version__ in capsys.readouterr().out


def test_citation_and_changelog_have_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert citation["version"] == newest[1] == clew.__version__
