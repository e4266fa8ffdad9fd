"""The public types are those that `user_script.py` states, under `mypy --strict`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clew

SCRIPT = Path(__file__).parent / "user_script.py"
ROOT = Path(clew.__file__).parents[1]


def checked(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """mypy's output for a script, without errors in clew itself, as for an installed package."""
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={folder}"]
    command = [sys.executable, "-m", "mypy", *options, str(script)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(ROOT)}, cwd=folder
    )


@pytest.mark.slow
def test_every_public_function_has_the_stated_return_type(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        'import clew\nclew.load(3)\nclew.fit_\nclew.train("classify", callbacks=[object()])\nclew.layers\n',
        encoding="utf-8",
    )
    result = checked(SCRIPT, tmp_path)
    assert result.returncode == 0, result.stdout
    errors = checked(wrong, tmp_path).stdout
    assert [line.partition("wrong.py:")[2].partition(":")[0] for line in errors.splitlines() if "error:" in line] == [
        "2",
        "3",
        "4",
    ]


def test_the_package_declares_that_it_is_typed() -> None:
    assert (Path(clew.__file__).parent / "py.typed").is_file()
