"""Commands that only list load neither torch nor pydantic, so they answer at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew.recipes.resolving import config_of
from clew.runs.directory import write_config

PROGRAM = """
import sys
from clew.cli.main import main
try:
    status = main(sys.argv[1:])
except SystemExit as end:
    status = end.code
print(f"{status} {[name for name in ('torch', 'pydantic') if name in sys.modules]}", file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["train", "--help"],
        ["recipes"],
        ["recipes", "translation", "--json"],
        ["runs"],
        ["runs", "--json"],
        ["look"],
        ["look", "--json"],
        ["look", "surprisal"],
        ["data", "book.txt"],
        ["data", "table.csv"],
    ],
    ids=" ".join,
)
def test_listing_commands_load_neither_torch_nor_pydantic(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("one line\nand another\n", encoding="utf-8")
    (tmp_path / "table.csv").write_text("text,label\na b,x\nc d,y\n" * 5, encoding="utf-8")
    (tmp_path / "runs" / "one").mkdir(parents=True)
    write_config(tmp_path / "runs" / "one", config_of("shakespeare-lstm", ["model.dim=16"]))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    completed = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert completed.stderr.splitlines()[-1] == "0 []", completed.stderr
    assert completed.stdout
