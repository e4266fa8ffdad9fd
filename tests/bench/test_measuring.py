from dataclasses import replace

import pytest
import torch

from clew.bench.measuring import clock_of, measure_workload, threads
from clew.bench.roofline import Roofline, measure_roofline
from clew.bench.timing import Call, Timing
from clew.bench.workload import Cost, Setting, Side, Work, decoding_cost, training_cost
from tests.bench.fakes import Clock, fake_roofline, fake_workload

CPU = Setting(torch.device("cpu"))


def test_a_workload_is_warmed_up_and_measured() -> None:
    clock = Clock()
    workload = fake_workload(clock, clew=[99.0, 2.0, 4.0, 3.0], peer=[99.0, 1.0, 2.0, 8.0])
    result = measure_workload(workload, CPU, roofline=fake_roofline, clock=clock)
    assert {name: side.timing for name, side in result.sides.items()} == {
        "clew": Timing((2.0, 4.0, 3.0)),
        "peer": Timing((1.0, 2.0, 8.0)),
    }
    assert result.ratios["peer"].value == 1.5
    assert result.floor is None and result.share("clew") is None and result.notes == []


def test_the_floor_is_the_maximum_of_compute_and_memory_time() -> None:
    clock = Clock()
    for cost, floor in ((Cost(flops=2000.0, bytes=5.0), 2.0), (Cost(flops=1000.0, bytes=40.0), 4.0)):
        result = measure_workload(fake_workload(clock, cost=cost, clew=[8.0]), CPU, roofline=fake_roofline, clock=clock)
        assert result.floor == floor and result.share("clew") == floor / 8.0
        assert result.ratios == {}


def test_costs_match_counts_by_hand() -> None:
    # Multiply and add, once forwards and twice backwards.
    assert training_cost(weights=10, tokens=3) == Cost(2 * 3 * 10 * 3)
    # Weights are read once per step.
    assert decoding_cost(weights=10, rows=2, steps=3, dtype=torch.bfloat16) == Cost(2 * 10 * 2 * 3, 10 * 3 * 2)
    # Caches are read once per row.
    assert decoding_cost(weights=0, rows=2, steps=3, dtype=torch.float32, cached=5) == Cost(
        2 * 5 * 2 * 3, 5 * 2 * 3 * 4
    )


def test_a_missing_or_failing_peer_is_skipped_with_a_note() -> None:
    clock = Clock()

    def fail() -> Call:
        raise AttributeError("no\nsuch thing")

    def build(setting: Setting) -> Work:
        return Work(
            [
                Side("clew", lambda: clock.side("clew", [1.0])),
                Side("a", fail, "no_such_package"),
                Side("b", fail, "torch"),
            ],
            "",
            1,
        )

    result = measure_workload(replace(fake_workload(clock), build=build), CPU, clock=clock)
    assert list(result.sides) == ["clew"]
    assert result.notes == [
        "a is left out: no_such_package is not installed",
        "b is left out: torch says AttributeError: no such thing",
    ]


def test_a_failure_of_clew_is_raised() -> None:
    def build(setting: Setting) -> Work:
        return Work([Side("clew", lambda: pytest.fail("built"))], "", 1)

    with pytest.raises(pytest.fail.Exception):
        measure_workload(replace(fake_workload(Clock()), build=build), CPU)


def test_the_quick_form_uses_one_thread_and_restores_the_number() -> None:
    before, thread_counts = torch.get_num_threads(), []
    clock = Clock()

    def build(setting: Setting) -> Work:
        thread_counts.append(torch.get_num_threads())
        return Work([Side("clew", lambda: clock.side("clew", [1.0]))], "", 1)

    quick = replace(CPU, quick=True)
    measure_workload(replace(fake_workload(clock), build=build), quick, clock=clock)
    assert thread_counts == [1] == [threads(quick)] and torch.get_num_threads() == before == threads(CPU)
    assert clock_of(CPU) is not clock_of(quick)


def test_sizes_depend_on_the_setting() -> None:
    gpu = Setting(torch.device("cuda"))
    assert [each.sizes(1, cpu=2, quick=3) for each in (gpu, CPU, replace(CPU, quick=True))] == [1, 2, 3]
    assert CPU.sizes(1, quick=3) == 1
    assert [gpu.form, CPU.form, replace(gpu, quick=True).form] == ["cuda", "cpu", "cuda-quick"]


def test_the_roofline_of_this_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.bench.roofline.PRODUCT", {"cpu": 64})
    monkeypatch.setattr("clew.bench.roofline.COPIED", {"cpu": 4096})
    roofline = measure_roofline(torch.device("cpu"), torch.float32)
    assert isinstance(roofline, Roofline) and roofline.floor(Cost(roofline.flops, 2 * roofline.bandwidth)) == 2.0
