import json
from pathlib import Path

import pytest

from clew.bench.recorded import (
    FACTOR,
    RECORDED,
    Recorded,
    better,
    read_file,
    read_recorded,
    regressions,
    write_recorded,
)
from clew.bench.results import Result, SideResult
from clew.bench.timing import Timing
from clew.bench.workloads import WORKLOADS
from clew.core.errors import UserError


def result(ratio: float, workload: str = "fake", form: str = "cpu-quick") -> Result:
    return Result(workload, "", form, 1, {"clew": SideResult(Timing((ratio,))), "peer": SideResult(Timing((1.0,)))})


def test_a_ratio_far_above_the_recorded_one_is_a_regression() -> None:
    recorded = Recorded(1.5, {"fake": {"peer": 1.2}})
    (regression,) = regressions(result(2.0), recorded)
    assert (
        str(regression)
        == "fake takes 2.00 times as long as peer; the recorded ratio is 1.20, and more than 1.5 times that (1.80) is a"
        " regression"
    )
    assert regressions(result(1.75), recorded) == []
    assert regressions(result(9.0, "another"), recorded) == []  # it has no recorded ratio
    assert regressions(result(9.0), Recorded(1.5, {"fake": {"another peer": 1.0}})) == []


def test_the_better_of_two_measurements_counts() -> None:
    recorded = Recorded(1.5, {"fake": {"peer": 1.0}})
    assert better(result(3.0), result(1.1), recorded) == result(1.1)
    assert better(result(1.4), result(3.0), recorded) == result(1.4)


def test_recording_keeps_earlier_ratios(tmp_path: Path) -> None:
    path = tmp_path / "ratios.json"
    write_recorded(path, [result(1.25), result(2.0, form="cuda")])
    write_recorded(path, [result(0.5, "another")])
    assert read_recorded(path, "cpu-quick") == Recorded(FACTOR, {"fake": {"peer": 1.25}, "another": {"peer": 0.5}})
    assert read_recorded(path, "cuda").ratios == {"fake": {"peer": 2.0}}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"cpu": 3}', '{"cpu": {"ratios": {"a": {"b": "c"}}}}', '{"cpu": {"ratios": {"a": {"b": 0}}}}']
)
def test_a_file_without_ratios_is_rejected(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "ratios.json").write_text(text)
    with pytest.raises(UserError, match="is not a file of recorded ratios; `clew bench --record FILE` writes one"):
        read_file(path)


def test_a_form_without_ratios_is_rejected(tmp_path: Path) -> None:
    (path := tmp_path / "ratios.json").write_text(json.dumps({"cpu": {"ratios": {}}}))
    with pytest.raises(
        UserError,
        match="ratios.json has no ratios for cuda, only for cpu; `clew bench --record FILE` measures and writes them",
    ):
        read_recorded(path, "cuda")


@pytest.mark.parametrize("form", ["cpu", "cpu-quick"])
def test_every_workload_of_a_cpu_is_recorded_with_all_its_peers(form: str) -> None:
    recorded = read_recorded(RECORDED, form)
    assert {name: set(peers) for name, peers in recorded.ratios.items()} == {
        name: set(workload.peers) for name, workload in WORKLOADS.items() if "cpu" in workload.devices
    }
