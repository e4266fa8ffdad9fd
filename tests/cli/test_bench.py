import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from clew.bench.profiling import KernelTime
from clew.bench.workloads import WORKLOADS
from tests.bench.fakes import Clock, fake_workload
from tests.cli.conftest import Clew


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Two fake workloads on a fake clock, of 2 and 3 seconds; their peers take 1 and 4 seconds."""
    clock = Clock()
    monkeypatch.setattr("clew.bench.measuring.clock_of", lambda setting: clock)
    monkeypatch.setitem(WORKLOADS, "fake-a", fake_workload(clock, "fake-a", clew=[2.0], plain=[1.0]))
    monkeypatch.setitem(WORKLOADS, "fake-b", fake_workload(clock, "fake-b", clew=[3.0], plain=[4.0], another=[6.0]))
    return clock


def test_workloads_are_listed(clew: Clew) -> None:
    result = clew("bench", "--list")
    assert result.status == 0 and all(name in result.out for name in WORKLOADS)
    (line,) = clew("bench", "--list", "lstm-train", "--json").out.splitlines()
    assert json.loads(line)["peers"] == ["nn.LSTM"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lstm-trian"], "unknown workload 'lstm-trian'; did you mean 'lstm-train'?"),
        (["nothing-*"], "unknown workload 'nothing-*'"),
        (
            ["gpt2-train", "--device", "cpu"],
            "gpt2-train runs only on cuda, not on cpu; `clew bench --list` lists the others",
        ),
        (["--plot", "ratios.txt"], "--plot (ratios.txt) must end in .html, .svg, .json, .png, .pdf"),
        (["--plot", "nowhere/ratios.svg"], "no such folder for --plot: nowhere; create it first"),
        (["--record", "nowhere/ratios.json"], "no such folder for --record: nowhere; create it first"),
        (["--check", "no.json"], "no.json: No such file or directory"),
    ],
)
def test_mistakes_are_reported_in_one_line(clew: Clew, arguments: list[str], message: str) -> None:
    result = clew("bench", *arguments)
    assert result.status == 2 and message in result.err.splitlines()[-1] and result.out == ""


def test_medians_and_ratios_are_shown(clew: Clew, fakes: Clock) -> None:
    result = clew("bench", "fake-*", "--device", "cpu")
    assert result.status == 0
    ours, plain, another = (line.split() for line in result.out.split("fake-b")[1].splitlines()[2:5])
    assert ours[:3] == ["clew", "33", "3,000.0"]
    assert plain[:3] == ["plain", "25", "4,000.0"] and " ".join(plain[4:]) == "0.75 (0.75 to 0.75)"
    assert " ".join(another[4:]) == "0.50 (0.50 to 0.50)"


def test_a_profile_names_the_kernels_of_each_side(clew: Clew, fakes: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [KernelTime("a kernel" + "s" * 200, 2.0, 0.0015), KernelTime("others", 1.0, 0.0)]
    monkeypatch.setattr("clew.bench.measuring.profile_call", lambda call, device, wait: kernels)
    output = clew("bench", "fake-a", "--device", "cpu", "--profile").out
    assert "clew spends its time on" in output and "plain spends its time on" in output
    line = next(line for line in output.splitlines() if line.startswith("a kernel"))
    assert line.endswith("2  1.50") and "..." in line and len(line) < 130
    (record,) = (
        json.loads(line) for line in clew("bench", "fake-a", "--device", "cpu", "--profile", "--json").out.splitlines()
    )
    assert record["profiles"]["plain"][1] == {"kernel": "others", "runs": 1.0, "seconds": 0.0}
    assert "profiles" not in json.loads(clew("bench", "fake-a", "--device", "cpu", "--json").out)


def test_json_has_one_line_per_workload_with_sides_and_ratios(clew: Clew, fakes: Clock) -> None:
    lines = [json.loads(line) for line in clew("bench", "fake-*", "--json", "--device", "cpu").out.splitlines()]
    assert [line["workload"] for line in lines] == ["fake-a", "fake-b"]
    first = lines[0]
    assert (
        first["form"] == "cpu"
        and first["tokens"] == 100
        and first["notes"] == []
        and first["machine"].startswith("CPU")
    )
    assert first["sides"][0] == {
        "side": "clew",
        "median": 2.0,
        "low": 2.0,
        "high": 2.0,
        "rounds": 3,
        "tokens_per_second": 50.0,
        "memory": None,
        "share_of_floor": None,
    }
    assert first["ratios"] == [{"peer": "plain", "ratio": 2.0, "low": 2.0, "high": 2.0}]


def test_a_check_fails_only_after_a_second_measurement(clew: Clew, fakes: Clock) -> None:
    content = {"cpu": {"factor": 1.5, "ratios": {"fake-a": {"plain": 1.2}, "fake-b": {"plain": 0.7}}}}
    Path("ratios.json").write_text(json.dumps(content))
    result = clew("bench", "fake-*", "--check", "ratios.json", "--device", "cpu")
    assert result.status == 1
    assert "fake-a is above the recorded ratio; measuring again" in result.err
    assert (
        result.err.splitlines()[-1]
        == "clew: fake-a takes 2.00 times as long as plain; the recorded ratio is 1.20, and more than 1.5 times that"
        " (1.80) is a regression"
    )
    assert "fake-b takes" not in result.err
    assert clew("bench", "fake-b", "--check", "ratios.json", "--device", "cpu").status == 0


def test_a_workload_after_check_is_not_taken_for_a_file(
    clew: Clew, fakes: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("ratios.json").write_text(json.dumps({"cpu": {"ratios": {"fake-a": {"plain": 1.0}}}}))
    monkeypatch.setattr("clew.bench.recorded.RECORDED", Path("ratios.json"))
    result = clew("bench", "--device", "cpu", "--check", "fake-a")
    assert (
        result.status == 1 and "fake-a takes 2.00 times as long as plain" in result.err and "fake-b" not in result.out
    )


def test_recorded_ratios_pass_their_own_check(clew: Clew, fakes: Clock) -> None:
    assert clew("bench", "fake-a", "--record", "ratios.json", "--device", "cpu").status == 0
    assert clew("bench", "fake-a", "--check", "ratios.json", "--device", "cpu").status == 0
    result = clew("bench", "fake-b", "--check", "ratios.json", "--device", "cpu")
    assert result.status == 0 and "fake-b: no ratio is recorded for cpu" in result.err


def test_the_plot_names_every_workload_and_peer(clew: Clew, fakes: Clock) -> None:
    assert clew("bench", "fake-*", "--plot", "ratios.svg", "--device", "cpu").status == 0
    words = {text.strip() for text in ElementTree.parse("ratios.svg").getroot().itertext()}
    assert {"fake-a, plain", "fake-b, plain", "fake-b, another", "0.75", "Time compared with peers"} <= words


def test_a_quick_workload_runs(clew: Clew) -> None:
    result = clew("bench", "--quick", "lstm-decode-1", "--json", "--device", "cpu")
    assert result.status == 0
    record = json.loads(result.out)
    assert record["form"] == "cpu-quick" and [side["side"] for side in record["sides"]] == ["clew", "nn.LSTM loop"]
    assert all(side["median"] > 0 and side["rounds"] >= 5 and side["share_of_floor"] > 0 for side in record["sides"])
    assert record["roofline"]["flops_per_second"] > 0 and record["ratios"][0]["ratio"] > 0
