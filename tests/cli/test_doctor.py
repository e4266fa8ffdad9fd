"""`clew doctor` describes the machine and names missing packages."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from clew.cli import doctor
from tests.cli.conftest import Clew

PROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")


def test_versions_devices_cache_and_disks_are_shown(clew: Clew, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "ids").write_bytes(b"x" * 2000)
    result = clew("doctor")
    assert (result.status, result.err) == (0, "")
    assert f"torch {torch.__version__.partition('+')[0]}" in result.out
    assert f"{tmp_path / 'cache'}: 2.0 kB in 1 files" in result.out
    facts = json.loads(clew("doctor", "--json").out)
    assert facts["gpus"] == [] or torch.cuda.is_available()
    assert [disk["for"] for disk in facts["disks"]] == ["runs", "cache"] and all(
        disk["free"] > 0 for disk in facts["disks"]
    )


def test_every_extra_has_a_purpose() -> None:
    section = PROJECT.partition("[project.optional-dependencies]")[2].partition("[project.scripts]")[0]
    extras = re.findall(r"^(\w+) = \[", section, re.MULTILINE)
    assert set(doctor.PURPOSES) == set(extras) - {"dev"}


def test_missing_packages_of_an_extra_are_named_with_their_purpose(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "requires", lambda name: ["torch>=2.11", 'nosuchpackage>=1.0; extra == "onnx"', 'other; extra == "dev"']
    )
    result = clew("doctor")
    assert result.status == 0
    assert re.search(r"nosuchpackage +`clew export --to onnx` +pip install 'clew\[onnx\]'", result.out)
    assert "other" not in result.out


def test_a_required_package_that_is_too_old_is_a_failure(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "requires", lambda name: ["torch>=99.1"])
    result = clew("doctor")
    assert result.status == 1
    assert re.search(r"torch [\d.]+\S*, at least 99.1 +clew itself +pip install --upgrade clew", result.out)


def test_a_nearly_full_disk_is_reported(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**12, 10**12, 10**6))  # type: ignore[attr-defined]
    result = clew("doctor")
    assert result.status == 0 and "1.0 MB free" in result.out and "choose another folder with --out" in result.out


def test_a_file_in_place_of_the_cache_is_reported(clew: Clew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "file" / "cache"))
    out = clew("doctor").out
    assert f"permission to write to {tmp_path / 'file'}" in out and "set CLEW_CACHE to another folder" in out


def test_versions_are_compared_as_numbers() -> None:
    assert doctor.numbers("2.9.1") < doctor.numbers("2.13.0+cu130") == (2, 13, 0)
