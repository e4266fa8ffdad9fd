import subprocess
import sys
from pathlib import Path

from benchmarks.side_by_side import Comparison, compare

ROOT = Path(__file__).parents[2]


def test_both_sides_are_called_in_every_round() -> None:
    called: list[str] = []
    comparison = compare(
        "work", "peer", lambda: called.append("a"), lambda: called.append("b"), tokens=1, rounds=3, warmup=2
    )
    assert "".join(called) == "ab" + "ba" + "ab" + "ba" + "ab"  # the warm-up begins with ours, and so does what counts
    assert isinstance(comparison, Comparison) and comparison.ours > 0 and comparison.theirs > 0


def test_a_comparison_shows_rates_and_their_ratio() -> None:
    comparison = Comparison("work", "peer", ours=0.5, theirs=0.25, tokens=100)
    assert comparison.ratio == 2.0
    assert comparison.__str__().split() == ["work", "200", "tokens/s", "peer", "400", "tokens/s", "time", "2.00x"]


def test_the_old_command_is_a_door_to_the_verb() -> None:
    command = [sys.executable, "-m", "benchmarks", "lstm_train"]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert completed.returncode == 2 and "unknown workload 'lstm_train'; did you mean 'lstm-train'?" in completed.stderr
