"""requirements.lock pins the packages of constraints.txt with hashes, and is complete."""

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest

requirements = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).parents[1]


def test_the_lock_has_every_version_of_the_constraints_with_hashes() -> None:
    pins = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = re.findall(
        r"^([\w.-]+)==([^\s+]+)(?:\+\w+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", lock, re.MULTILINE
    )
    assert [(name, version) for name, version, _ in locked] == pins and len(pins) > 80
    assert lock.count("--hash") == sum(hashes.count("--hash") for _, _, hashes in locked)


def test_every_dependency_of_the_project_is_locked() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(
        r'^    "([A-Za-z][\w.-]*)(?:>=[\d.]+)?",$', project.partition("[project.scripts]")[0], re.MULTILINE
    )
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").lower().replace("_", "-")
    assert len(named) > 25 and [name for name in named if f"\n{name.lower().replace('_', '-')}==" not in lock] == []


def test_every_dependency_of_a_locked_package_is_locked() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = {simplified(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    missing = [(name, need) for name in sorted(locked) for need in needs(name) if need not in locked]
    assert missing == []


def needs(name: str) -> set[str]:
    """The requirements of a package on this platform, without extras; none if it is not installed."""
    try:
        lines = requires(name) or []
    except PackageNotFoundError:
        return set()
    parsed = [requirements.Requirement(line) for line in lines]
    return {simplified(each.name) for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})}


def simplified(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
