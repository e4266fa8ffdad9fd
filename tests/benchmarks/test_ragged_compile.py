import json
from functools import partial

import pytest
import torch
from torch._dynamo.utils import clear_compilation_metrics, counters

from benchmarks.ragged_compile import COLUMNS, VARIANTS, Measurement, cells, main, within

TINY = [
    "model.num_layers=1",
    "model.dim=16",
    "model.hidden_dim=16",
    "model.num_heads=2",
    "data.limit=200",
    "training.batch_tokens=200",
]


@pytest.fixture(autouse=True)
def nothing_compiled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    monkeypatch.setattr(
        torch, "compile", partial(torch.compile, backend="aot_eager")
    )  # inductor takes a minute on the CPU
    torch._dynamo.reset()
    clear_compilation_metrics()
    counters.clear()


def measured(variant, capsys, *options):
    main(["--only", variant, "--device", "cpu", *options, *TINY])
    return Measurement(**json.loads(capsys.readouterr().out))


def test_few_shapes_are_fewer_than_those_of_batches_padded_to_their_longest_row(capsys):
    eager, captured = (measured(variant, capsys, "--steps", "10") for variant in ("eager", "captured"))
    assert len(eager.seconds) == len(eager.tokens) == len(captured.seconds) == 10
    assert min(eager.tokens + captured.tokens) > 0 and min(eager.seconds + captured.seconds) > 0
    assert captured.shapes <= 3 < eager.shapes
    assert eager.graphs == captured.graphs == 0


def test_a_variant_that_takes_too_long_is_stopped_after_its_step(capsys):
    assert len(measured("eager", capsys, "--steps", "10", "--limit", "0").seconds) == 1


@pytest.mark.slow
def test_graphs_that_torch_compiles_for_ragged_batches_are_counted(capsys):
    measurement = measured("ragged", capsys, "--steps", "3")
    assert measurement.recompilations == measurement.graphs - 1 > 0
    assert measurement.shapes == 3 and measurement.cached_files == 0


def test_a_row_shows_the_steps_by_their_number():
    """Step s takes s ms, and has s tokens."""
    measurement = Measurement([step / 1000 for step in range(1, 121)], list(range(1, 121)), 9, 2, 1, 0)
    row = dict(zip(COLUMNS, cells("bucketed", measurement, 120), strict=True))
    assert [row[name] for name in ("first s", "median ms", "100th ms", "tokens/s", "total s")] == [
        "0.00",
        "100.00",
        "100.00",
        "1,000",
        "7.3",
    ]
    assert [row[name] for name in ("steps", "shapes", "graphs", "recompiled", "cache")] == [
        "120",
        "9",
        "2",
        "1",
        "empty",
    ]


def test_a_row_leaves_out_what_was_not_compiled_or_not_reached():
    measurement = Measurement([0.001] * 105, [1] * 105, 9, 0, 0, 80)
    row = dict(zip(COLUMNS, cells("eager", measurement, 120), strict=True))
    assert (row["100th ms"], row["median ms"], row["tokens/s"]) == ("1.00", "", "")
    assert row["graphs"] == row["recompiled"] == row["cache"] == ""
    assert dict(zip(COLUMNS, cells("again", measurement, 120), strict=True))["cache"] == "80 files"


def test_steps_are_scaled_to_shorter_runs():
    seconds = list(range(1, 13))
    assert [within(seconds, *span, 12) for span in ((90, 110), (100, 100), (50, 120))] == [
        [9, 10, 11],
        [10],
        [5, 6, 7, 8, 9, 10, 11, 12],
    ]


def test_a_reused_cache_is_that_of_an_earlier_variant_with_the_same_settings():
    names = list(VARIANTS)
    for name, variant in VARIANTS.items():
        assert (
            not variant.cache
            or names.index(variant.cache) < names.index(name)
            and VARIANTS[variant.cache].settings == variant.settings
        )
