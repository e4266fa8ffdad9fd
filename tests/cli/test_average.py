import json
from pathlib import Path

import pytest

from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused
from tests.runs.small import lstm_settings


@pytest.fixture
def run(clew: Clew, tmp_path: Path) -> Path:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=8), out=Path("runs/one"))
    return Path("runs/one")


def test_an_average_is_scored_beside_its_sources_and_usable_as_a_run(clew: Clew, run: Path) -> None:
    result = clew("average", run, "--out", "runs/mean", "--device", "cpu")
    assert result.status == 0
    lines = [line.split() for line in result.out.splitlines()]
    assert " ".join(lines[0]) == "weights step valid loss valid perplexity valid bits per character"
    assert [line[0] for line in lines[1:3]] == [str(run / "checkpoints" / f"step-0000000{step}") for step in (8, 4)]
    assert lines[3][:3] == ["average", "of", "2"]
    assert result.err == "wrote runs/mean\n"
    evaluated = json.loads(clew("evaluate", "runs/mean", "--json").out)
    assert evaluated["loss"] == pytest.approx(float(lines[3][-3]), abs=1e-4)
    assert len(clew("generate", "runs/mean", "the", "--max-new", 5).out) == len("the") + 5 + 1
    assert "averaged" in clew("runs").out


def test_options_choose_the_sources_of_an_average(clew: Clew, run: Path) -> None:
    result = clew("average", run, "--checkpoints", 4, 8, "--out", "mean", "--json", "--device", "cpu")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [(row["weights"][-1], row["step"]) for row in rows] == [("8", 8), ("4", 4), ("2", 8)]
    assert all(row["valid.perplexity"] > 1 for row in rows)
    assert clew("average", run, "--last", 1, "--out", "other").status == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--last", "0", "--out", "mean"], "--last (0) must be at least 1"),
        (
            ["--last", "2", "--checkpoints", "4", "--out", "mean"],
            "--last and --checkpoints exclude each other; leave one of them out",
        ),
        (["--last", "1", "--out", "mean"], "an average needs at least two sets of weights, and there is 1;"),
        (["--last", "9", "--out", "mean"], "runs/one has 2 intact checkpoints, not 9; their steps are: 4, 8"),
        ([], "the following arguments are required: --out; `clew runs average --help` shows how"),
        (["--out", "runs/one"], "runs/one is a run already; choose another folder with --out"),
        (["runs/two", "--out", "mean"], "runs/two is not a run directory (it has no config.json); runs here: runs/one"),
    ],
)
def test_mistakes_in_averaging_are_reported_in_one_line(
    clew: Clew, run: Path, arguments: list[str], sentence: str
) -> None:
    assert_refused(clew("average", run, *arguments), sentence)
